"""Symbolic against concrete on every kernel in configs/ that a spec launches: PTX files, CUDA C and Triton.

Each side of each spec runs on terms and on bits (``agreement``). Products of thousands are taken at small extents, as the suite's
own tests do; a side that several specs share runs once. The Triton kernels with launches of their own are in test_triton_kernels,
TileLang's in tests/tilelang.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from agreement import Kernel, check, differences

from volta_pass.check.options import CheckOptions
from volta_pass.check.sides import ready_side
from volta_pass.spec import SideKind, SideSpec, Spec, read_spec
from volta_pass.spec.reader import read_sweep

sys.path.insert(0, str(Path(__file__).parents[1] / "cuda"))
import suite

CONFIGS = Path(__file__).parents[2] / "configs"
#: CTAs of a grid that is run as one
LARGE = 1000
#: sides whose runs in both modes are short
QUICK = ("reduce1", "reduce3", "reduce6_repaired", "key_range", "layer_norm", "gemm3", "tile_mma_32x32")


def sides(name: str, spec: Spec) -> Iterator[tuple[str, Spec, SideSpec]]:
    """The sides of a spec that are GPU code, with names."""
    for side in (spec.reference, spec.candidate):
        if side is not None and side.kind is not SideKind.PYTHON:
            yield f"{name}-{side.side}", spec, side


def distinct(rows: Iterator[tuple[str, Spec, SideSpec]]) -> list[tuple[str, Spec, SideSpec]]:
    """The first of the sides that are the same code on the same launch."""
    seen: dict[str, tuple[str, Spec, SideSpec]] = {}
    for row in rows:
        side = row[2]
        seen.setdefault(repr((side.source, side.entry, sorted(side.defines.items()), side.launch)), row)
    return list(seen.values())


EXAMPLES = distinct(row for path in sorted(CONFIGS.glob("examples/*.toml")) for row in sides(path.stem, read_spec(path)))
SUITE = distinct(row for name in suite.SPECS for row in sides(name, suite.small(name)))
#: every fortieth configuration of the sweeps of one product
TRITON = distinct(
    row
    for pattern, step in (("bench/*.toml", 1), ("sweep/*.toml", 40))
    for path in sorted(CONFIGS.glob(pattern))
    for number, (spec, _) in enumerate(read_sweep(path)[::step])
    for row in sides(f"{path.stem}{number}", spec)
    if row[2].side == "candidate"  # a Triton reference is its tile program, which is no PTX
)


def kernel_of(spec: Spec, side: SideSpec) -> Kernel:
    """A side, compiled where it is not PTX. All CTAs run; of a grid that was left large, the first alone."""
    ready = ready_side(side, spec, CheckOptions(allow_code=True))
    launch = replace(ready.launch, ctas=None)
    if np.prod(launch.grid) > LARGE:
        launch = replace(launch, grid=(1, 1, 1))
    return Kernel(ready.text, ready.side.entry, launch)


def cases(rows: list[tuple[str, Spec, SideSpec]], quick: tuple[str, ...]) -> list[object]:
    """Parameters; what is not quick is for the night."""
    marks = lambda name: () if name.rpartition("-")[0] in quick else pytest.mark.slow  # noqa: E731
    return [pytest.param(*row, id=row[0], marks=marks(row[0])) for row in rows]


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("name", "spec", "side"), cases(EXAMPLES, tuple(row[0].rpartition("-")[0] for row in EXAMPLES)))
def test_examples(name: str, spec: Spec, side: SideSpec) -> None:
    check(kernel_of(spec, side), zlib.crc32(name.encode()))


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("name", "spec", "side"), cases(SUITE, QUICK))
def test_suite(name: str, spec: Spec, side: SideSpec) -> None:
    check(kernel_of(spec, side), zlib.crc32(name.encode()))


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("name", "spec", "side"), cases(TRITON, ("add0", "softmax0", "small0")))
def test_triton_specs(name: str, spec: Spec, side: SideSpec) -> None:
    check(kernel_of(spec, side), zlib.crc32(name.encode()))


def test_values_of_another_kernel_would_be_seen() -> None:
    """The negative twin: the modes of two different reductions do not agree."""
    _, spec, side = next(row for row in EXAMPLES if row[0] == "scale_add-candidate")
    kernel = kernel_of(spec, side)
    other = replace(kernel, ptx=kernel.ptx.replace("mul.rn.f32 %f12", "add.rn.f32 %f12"))
    assert other.ptx != kernel.ptx
    assert max(differences(kernel, 3).values()) <= 1 < max(differences(kernel, 3, on_bits=other).values())


def test_every_kernel_of_configs_is_in_a_list() -> None:
    """PTX files and CUDA entries by the specs' sides; the suite's own tests say that each entry is in a spec."""
    files = {Path(side.source).name for _, _, side in (*EXAMPLES, *SUITE)}
    assert {path.name for path in CONFIGS.rglob("*.ptx")} | {path.name for path in CONFIGS.rglob("*.cu")} <= files
    listed = {(Path(side.source).name, side.entry) for _, _, side in SUITE}
    for name in suite.SPECS:
        assert all((Path(side.source).name, side.entry) in listed for _, _, side in sides(name, suite.full(name)))
