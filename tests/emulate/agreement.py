"""One kernel on one launch, on terms and on IEEE bits: the terms evaluated at the inputs agree with the values within float error.

What a kernel does wrong on purpose (a fault) it does in both modes: the findings are the same, and what it read from nowhere is undefined
among the terms and anything on bits. Of a large output a random part of the elements is evaluated.
"""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np

from ptx_engine import emulate
from ptx_engine.decide.oracle import Reals
from ptx_engine.launch import Arg, Launch, NullArg, ScalarArg, TensorArg, bind
from ptx_engine.machine import Budget, execute
from ptx_engine.syntax import parse
from ptx_engine.terms import Arena

DTYPES = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64, "pred": np.bool_,
    **{f"{k}{n}": np.dtype(f"{'i' if k == 's' else 'u'}{n // 8}") for k in "su" for n in (8, 16, 32, 64)},
}  # fmt: skip
#: largest difference of an output, relative to the largest value
TOLERANCE = {"f16": 5e-3, "bf16": 3e-2, "f32": 2e-4, "f64": 1e-9}
BUDGET = Budget(seconds=3000)
#: elements of a tensor that are evaluated
MOST_ELEMENTS = 4096


@dataclass(frozen=True)
class Kernel:
    """What runs: a text, its entry, and the launch."""

    ptx: str
    entry: str | None
    launch: Launch


def values_of(arg: Arg, rng: np.random.Generator) -> "np.ndarray | int | float | None":
    """A random value of an argument: normal floats, small integers, or what the launch fixes."""
    if isinstance(arg, TensorArg):
        dtype = DTYPES[arg.dtype]
        if not isinstance(arg.contents, str):
            return np.resize(np.array(arg.contents).reshape(-1), arg.storage).astype(dtype)
        if np.dtype(dtype).kind in "iub":
            return rng.integers(0, 2 if arg.dtype == "pred" else 50, arg.storage).astype(dtype)
        return rng.standard_normal(arg.storage).astype(dtype)
    if isinstance(arg, NullArg):
        return None
    return float(np.float32(rng.uniform(0.5, 2))) if isinstance(arg.value, str) else arg.value


def by_terms(
    kernel: Kernel, values: "dict[str, np.ndarray | int | float | None]"
) -> "tuple[dict[str, tuple[np.ndarray, np.ndarray]], set[str]]":
    """Index and value of each element written, or of a part of them, by way of terms; kinds of findings."""
    arena = Arena()
    rng = np.random.default_rng(1)
    run = execute(parse(kernel.ptx), kernel.entry, bind(kernel.launch, arena), order=False, budget=BUDGET)

    def inputs(ids: np.ndarray) -> np.ndarray:
        flat = -1 - ids.astype(np.int64)
        numbers = np.zeros((len(ids), 1))
        for entry in arena.inputs:
            mine = (flat >= entry.base) & (flat < entry.base + entry.count)
            numbers[mine, 0] = np.ravel(np.asarray(values[entry.name]))[flat[mine] - entry.base].astype(np.float64)
        return numbers

    found = {}
    for name, footprint in run.footprints.items():
        if count := len(footprint.ids):
            part = rng.choice(count, min(count, MOST_ELEMENTS), replace=False)
            ids = footprint.ids[part]
            found[name] = footprint.index[part], Reals(arena, ids, inputs).of(ids)[:, 0]
    return found, {finding.kind for finding in run.findings}


def by_bits(kernel: Kernel, values: "dict[str, np.ndarray | int | float | None]") -> tuple[dict[str, np.ndarray], set[str]]:
    """Every tensor after the run, flat; kinds of findings."""
    launch = kernel.launch
    after = {name: value.copy() for name, value in values.items() if isinstance(value, np.ndarray)}
    arguments = [_fitting(arg, after.get(arg.name, values[arg.name])) for arg in launch.args]
    shared = launch.dynamic_shared_bytes
    run = emulate(kernel.ptx, kernel.entry, launch.grid, launch.block, arguments, shared, order=False, budget=BUDGET)
    return {name: array.ravel() for name, array in after.items()}, {finding.kind for finding in run.findings}


def _fitting(arg: Arg, value: object) -> object:
    """A float scalar as its type."""
    return DTYPES[arg.dtype](value) if isinstance(arg, ScalarArg) and arg.dtype in ("f16", "bf16", "f32", "f64") else value


def differences(kernel: Kernel, seed: int, on_bits: "Kernel | None" = None) -> dict[str, float]:
    """For each tensor that is written, the largest difference of an element between the modes as a share of what is tolerated.

    ``on_bits`` runs there instead: tests of this test give another kernel.
    """
    rng = np.random.default_rng(seed)
    values = {arg.name: values_of(arg, rng) for arg in kernel.launch.args}
    (bits, faults), (terms, found) = by_bits(on_bits or kernel, values), by_terms(kernel, values)
    assert terms, "nothing was written"
    assert faults == found, "what is wrong in one mode is not in the other"
    dtypes = {arg.name: arg.dtype for arg in kernel.launch.args if isinstance(arg, TensorArg)}
    shares = {}
    for name, (index, wanted) in terms.items():
        defined = ~np.isnan(wanted) if found else np.full(len(wanted), True)
        shares[name] = _share(bits[name][index[defined]], wanted[defined], TOLERANCE.get(dtypes[name], 0))
    return shares


def _share(got: np.ndarray, wanted: np.ndarray, tolerance: float) -> float:
    """The largest difference over what is tolerated; what is not a number on one side is none on the other, integers are equal."""
    found = got.astype(np.float64)
    scale = max(1.0, float(np.abs(wanted[np.isfinite(wanted)]).max(initial=0)))
    same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
    difference = float(np.nan_to_num(np.abs(np.where(same, 0, found - wanted)), nan=np.inf).max(initial=0))
    return difference / (tolerance * scale) if tolerance else (np.inf if difference else 0.0)


def check(kernel: Kernel, seed: int) -> None:
    """Assert that the two modes agree."""
    wrong = {name: share for name, share in differences(kernel, seed).items() if not share <= 1}
    assert not wrong, wrong
