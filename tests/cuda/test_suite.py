"""The suite's kernels: each has the verdict that its spec announces, and each mutant is refuted. Large ones at small extents here,
at the published sizes in the nightly run."""

from __future__ import annotations

import re

import pytest
from suite import FOLDER, SPECS, check, expected, full, mutated, small

#: quick kernels, and one of each family of the others; the rest runs at night
QUICK = tuple(name for name in SPECS if not name.startswith(("attention", "conv2d", "gemm", "matmul", "tile_mma")))
CHOSEN = (*QUICK, "gemm2", "gemm3", "matmul4", "matmul6", "tile_mma_64x32", "attention_fa2_wmma_causal")
#: kernels that have mutants: the optimised ones that are right
MUTABLE = tuple(name for name in SPECS if expected(name) == "proved" and "naive" not in name)
MUTANTS = [(name, number) for name in MUTABLE for number in (1, 2)]
CHOSEN_MUTANTS = [
    (name, number) for name in ("reduce3", "reduce6_repaired", "gemm3", "key_range", "layer_norm", "tile_mma_64x32") for number in (1, 2)
]


@pytest.mark.parametrize("name", CHOSEN)
def test_verdict(name: str) -> None:
    report = check(small(name))
    assert report.verdict == expected(name), (report.reason, report.errors)


@pytest.mark.parametrize(("name", "number"), CHOSEN_MUTANTS)
def test_a_mutant_is_refuted(name: str, number: int) -> None:
    report = check(mutated(small(name), MUTANT=number))
    assert report.verdict == "refuted", (report.reason, report.errors)


def test_every_kernel_is_in_a_spec_and_every_file_says_what_its_mutants_are() -> None:
    named = "\n".join((FOLDER / f"{name}.toml").read_text(encoding="utf-8") for name in SPECS)
    for path in FOLDER.glob("*.cu"):
        text = path.read_text(encoding="utf-8")
        assert "MUTANT=1" in text and "MUTANT=2" in text
        for entry in re.findall(r"__global__ void (\w+)", text):
            assert f'entry = "{entry}"' in named, f"{entry} of {path.name} is in no spec"


@pytest.mark.slow
@pytest.mark.parametrize("name", SPECS)
def test_verdict_at_the_published_size(name: str) -> None:
    report = check(full(name))
    assert report.verdict == expected(name), (report.reason, report.errors)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "number"), MUTANTS)
def test_a_mutant_is_refuted_at_the_published_size(name: str, number: int) -> None:
    report = check(mutated(full(name), MUTANT=number))
    assert report.verdict == "refuted", (report.reason, report.errors)
