"""Symbolic against concrete on the kernels of configs/ that specs launch: PTX files by default, CUDA C in the nightly run.

Each side of each spec runs on terms and on IEEE bits; the terms evaluated at the same random inputs agree within float error. What a
kernel does wrong on purpose (a race, a fault) it does in both.
"""

from __future__ import annotations

import zlib
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from ptx_engine import emulate
from ptx_engine.decide.oracle import Reals
from ptx_engine.launch import Arg, ScalarArg, TensorArg, bind
from ptx_engine.machine import Budget
from ptx_engine.terms import Arena
from volta_pass.check.options import CheckOptions
from volta_pass.check.sides import ReadySide, ready_side
from volta_pass.spec import SideKind, SideSpec, Spec, read_spec

CONFIGS = Path(__file__).parents[2] / "configs"
DTYPES = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64, "pred": np.bool_,
    **{f"{k}{n}": np.dtype(f"{'i' if k == 's' else 'u'}{n // 8}") for k in "su" for n in (8, 16, 32, 64)},
}  # fmt: skip
#: largest difference of an output, relative to the largest value
TOLERANCE = {"f16": 5e-3, "bf16": 3e-2, "f32": 2e-4, "f64": 1e-9}


def sides(pattern: str, kinds: tuple[SideKind, ...]) -> list[tuple[Path, str]]:
    """(spec, side) of the specs whose sides are of these kinds."""
    found = []
    for path in sorted(CONFIGS.glob(pattern)):
        spec = read_spec(path)
        found += [(path, side.side) for side in (spec.reference, spec.candidate) if side is not None and side.kind in kinds]
    return found


def elements(path: Path) -> int:
    """Of the largest tensor of a spec."""
    spec = read_spec(path)
    return max(arg.storage for arg in spec.candidate.launch.args if isinstance(arg, TensorArg))


def values_of(arg: Arg, rng: np.random.Generator) -> "np.ndarray | int | float":
    """A random value of an argument: normal floats, small integers, or what the spec fixes."""
    if isinstance(arg, TensorArg):
        dtype = DTYPES[arg.dtype]
        if not isinstance(arg.contents, str):
            return np.array(arg.contents).reshape(-1)[: arg.storage].astype(dtype)
        if np.dtype(dtype).kind in "iub":
            return rng.integers(0, 2 if arg.dtype == "pred" else 50, arg.storage).astype(dtype)
        return rng.standard_normal(arg.storage).astype(dtype)
    assert isinstance(arg, ScalarArg)
    return float(np.float32(rng.uniform(0.5, 2))) if isinstance(arg.value, str) else arg.value


def terms_of(ready: ReadySide, values: dict[str, "np.ndarray | int | float"]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Index and value of each element written, by way of terms."""
    arena = Arena()
    run = ready.run(bind(ready.launch, arena))

    def inputs(ids: np.ndarray) -> np.ndarray:
        flat = -1 - ids.astype(np.int64)
        found = np.zeros((len(ids), 1))
        for entry in arena.inputs:
            mine = (flat >= entry.base) & (flat < entry.base + entry.count)
            found[mine, 0] = np.ravel(np.asarray(values[entry.name]))[flat[mine] - entry.base].astype(np.float64)
        return found

    return {name: (f.index, Reals(arena, f.ids, inputs).of(f.ids)[:, 0]) for name, f in run.footprints.items() if len(f.ids)}


def check(path: Path, which: str) -> None:
    spec: Spec = read_spec(path)
    side: SideSpec | None = spec.candidate if which == "candidate" else spec.reference
    assert side is not None
    ready = ready_side(side, spec, CheckOptions(budget_seconds=3000))
    rng = np.random.default_rng(zlib.crc32(path.name.encode()))
    values = {arg.name: values_of(arg, rng) for arg in ready.launch.args}
    before = {name: np.array(v) for name, v in values.items()}
    arguments = [_fitting(arg, values[arg.name]) for arg in ready.launch.args]
    launch = ready.launch
    budget = Budget(seconds=3000)
    emulate(ready.text, ready.kernel, launch.grid, launch.block, arguments, launch.dynamic_shared_bytes, order=False, budget=budget)
    terms = terms_of(ready, before)  # type: ignore[arg-type]
    assert terms, "nothing was written"
    dtypes = {arg.name: arg.dtype for arg in ready.launch.args if isinstance(arg, TensorArg)}
    for name, (index, wanted) in terms.items():
        got = np.ravel(values[name])[index].astype(np.float64)
        scale = max(1.0, float(np.abs(wanted[np.isfinite(wanted)]).max(initial=0)))
        assert np.abs(np.where(wanted == got, 0, got - wanted)).max() <= TOLERANCE.get(dtypes[name], 0) * scale, (path.name, which, name)


def _fitting(arg: Arg, value: "np.ndarray | int | float") -> object:
    """A float scalar as its type."""
    return DTYPES[arg.dtype](value) if isinstance(arg, ScalarArg) and arg.dtype in ("f16", "bf16", "f32", "f64") else value


EXAMPLES = sides("examples/*.toml", (SideKind.PTX,))
#: the tensor-sized products of the published evaluation would take hours on bits; small products of the same code are among the rest
SUITE = [(path, which) for path, which in sides("suite/cuda/*.toml", (SideKind.CUDA,)) if elements(path) <= 1 << 18]


@pytest.mark.parametrize(("path", "which"), EXAMPLES, ids=[f"{p.stem}-{w}" for p, w in EXAMPLES])
def test_examples(path: Path, which: str) -> None:
    check(path, which)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("path", "which"), SUITE, ids=[f"{p.stem}-{w}" for p, w in SUITE])
def test_suite(path: Path, which: str) -> None:
    check(path, which)
