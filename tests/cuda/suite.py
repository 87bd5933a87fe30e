"""The kernels under configs/suite/cuda: their specs with the verdict each announces, and smaller twins of the large ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from volta_pass.check import CheckOptions, check_spec
from volta_pass.kernel_report import KernelReport
from volta_pass.spec import Spec, parse_spec

FOLDER = Path(__file__).parents[2] / "configs" / "suite" / "cuda"
SPECS = tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))

#: what is replaced in a spec to make it small: extents of products, keys of attention
SMALL: tuple[tuple[str, Mapping[str, str]], ...] = (
    ("matmul", {"4096": "64", "grid = [64, 64]": "grid = [1, 1]", "[[5, 3]]": "[[0, 0]]"}),
    ("gemm", {"4096": "64", "grid = [128, 128]": "grid = [2, 2]", "[[5, 3]]": "[[1, 0]]"}),
    ("tile_mma", {"4096": "64", r"grid = \[\d+, \d+\]": "grid = [1, 1]", "[[5, 3]]": "[[0, 0]]"}),
    ("attention", {"[512, 64]": "[256, 64]"}),
)


@cache
def text_of(name: str) -> str:
    """A spec's text."""
    return (FOLDER / f"{name}.toml").read_text(encoding="utf-8")


def expected(name: str) -> str:
    """The verdict in a spec's first line."""
    found = re.match(r"#.* expect: (\w+)\n", text_of(name))
    assert found is not None, f"{name}.toml announces no verdict"
    return found[1]


def full(name: str) -> Spec:
    """The spec as it is."""
    return parse_spec(text_of(name), FOLDER / f"{name}.toml")


def small(name: str) -> Spec:
    """The spec with small extents, where it has large ones."""
    text = text_of(name)
    for beginning, changes in SMALL:
        if name.startswith(beginning):
            for old, new in changes.items():
                text = re.sub(old, new, text) if "\\" in old else text.replace(old, new)
    spec = parse_spec(text, FOLDER / f"{name}.toml")
    return defining(spec, KEYS=256) if name.startswith("attention") else spec


def defining(spec: Spec, **macros: int) -> Spec:
    """The spec with macros defined on both sides."""
    assert spec.reference is not None
    reference = replace(spec.reference, defines={**spec.reference.defines, **macros})
    return replace(spec, candidate=mutated(spec, **macros).candidate, reference=reference)


def mutated(spec: Spec, **macros: int) -> Spec:
    """The spec with macros defined in the candidate alone."""
    return replace(spec, candidate=replace(spec.candidate, defines={**spec.candidate.defines, **macros}))


def check(spec: Spec) -> KernelReport:
    """The report on a spec."""
    return check_spec(spec, CheckOptions(budget_seconds=300))
