"""Every correctly rounded operation, in every format and mode, against MPFR."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from float_model import FORMATS, Format, calculate, close_pairs, specials
from one_instruction import run_one

ARITY = {"add": 2, "sub": 2, "mul": 2, "div": 2, "fma": 3, "sqrt": 1, "rcp": 1}
CASES = [
    (name, operator, rnd)
    for name, operators, modes in (
        ("f16", ("add", "sub", "mul", "fma"), ("rn",)), ("bf16", ("add", "sub", "mul", "fma"), ("rn",)),
        ("f32", tuple(ARITY), ("rn", "rz", "rm", "rp")), ("f64", tuple(ARITY), ("rn", "rz", "rm", "rp")),
    )
    for operator in operators
    for rnd in modes
]  # fmt: skip


def operands(fmt: Format, arity: int, count: int, seed: int) -> list[np.ndarray]:
    """All tuples of special values (for three operands a sample), then random ones."""
    rng = np.random.default_rng(seed)
    edge = specials(fmt)
    if arity == 3:
        rows = edge[rng.integers(0, len(edge), (1000, 3))].T
    else:
        rows = np.array(list(itertools.product(edge, repeat=arity))).T
    columns = [np.concatenate([row, close_pairs(fmt, rng, count)]) for row in rows]
    if arity == 3:  # addends that nearly cancel the product
        with np.errstate(all="ignore"):
            product = columns[0].view(fmt.dtype).astype(np.float64) * columns[1].view(fmt.dtype).astype(np.float64)
            cancel = (-product).astype(fmt.dtype).view(fmt.uint)
        columns[2] = np.where(rng.random(len(cancel)) < 0.3, cancel ^ rng.integers(0, 4, len(cancel)).astype(fmt.uint), columns[2])
    return columns


def check(name: str, operator: str, rnd: str, count: int, seed: int) -> None:
    fmt = FORMATS[name]
    columns = operands(fmt, ARITY[operator], count, seed)
    sources = ", ".join(f"a{i}" for i in range(len(columns)))
    got = run_one(f"{operator}.{rnd}.{name} d0, {sources};", columns, fmt.uint)
    wanted = np.array([calculate(fmt, operator, rnd, *row) for row in zip(*columns)], fmt.uint)
    same = got == wanted
    if name == "f64":  # NaN payloads are free
        same |= np.isnan(got.view(np.float64)) & np.isnan(wanted.view(np.float64))
    wrong = np.flatnonzero(~same)
    shown = [([hex(c[i]) for c in columns], hex(got[i]), hex(wanted[i])) for i in wrong[:3]]
    assert not wrong.size, f"{wrong.size} of {len(got)} differ: {shown}"


@pytest.mark.parametrize(("name", "operator", "rnd"), CASES)
def test_correct_rounding(name: str, operator: str, rnd: str) -> None:
    check(name, operator, rnd, 1500, 1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 6))
@pytest.mark.parametrize(("name", "operator", "rnd"), CASES)
def test_correct_rounding_widely(name: str, operator: str, rnd: str, seed: int) -> None:
    check(name, operator, rnd, 10_000, seed)
