"""Approximate instructions against MPFR, within the errors that the ISA states."""

from __future__ import annotations

from collections.abc import Callable

import gmpy2
import numpy as np
import pytest
from one_instruction import run_one

#: instruction -> (function, operands drawn from, kind of bound, bound)
CASES: dict[str, tuple[Callable[..., "gmpy2.mpfr"], tuple[float, float], str, float]] = {
    "rcp.approx.f32": (lambda x: 1 / x, (1.0, 2.0), "ulp", 1),
    "rcp.approx.ftz.f32": (lambda x: 1 / x, (-3e5, 3e5), "ulp", 1),
    "sqrt.approx.f32": (gmpy2.sqrt, (0.0, 1e30), "relative", 2.0**-23),
    "rsqrt.approx.f32": (gmpy2.rec_sqrt, (1e-30, 1e30), "relative", 2.0**-22.9),
    "ex2.approx.f32": (gmpy2.exp2, (-120.0, 120.0), "relative", 2.0**-22),
    "ex2.approx.ftz.f32": (gmpy2.exp2, (-1.0, 1.0), "relative", 2.0**-22),
    "lg2.approx.f32": (gmpy2.log2, (0.5, 2.0), "absolute", 2.0**-22),
    "lg2.approx.ftz.f32": (gmpy2.log2, (2.0, 1e30), "relative", 2.0**-22),
    "sin.approx.f32": (gmpy2.sin, (-6.28, 6.28), "absolute", 2.0**-20.5),
    "cos.approx.f32": (gmpy2.cos, (-6.28, 6.28), "absolute", 2.0**-20.5),
    "tanh.approx.f32": (gmpy2.tanh, (-10.0, 10.0), "relative", 2.0**-11),
}


def error(kind: str, got: float, exact: "gmpy2.mpfr") -> float:
    """The error in the bound's measure."""
    difference = abs(gmpy2.mpfr(got) - exact)
    if kind == "absolute":
        return float(difference)
    if kind == "relative":
        return float(difference / abs(exact))
    return float(difference / gmpy2.mpfr(float(np.spacing(np.float32(abs(float(exact)))))))


@pytest.mark.parametrize("name", list(CASES))
def test_within_the_stated_error(name: str) -> None:
    function, (low, high), kind, bound = CASES[name]
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.uniform(low, high, 400), rng.uniform(0, 1, 200) ** 8 * (high - low) + low]).astype(np.float32)
    x = x[x != 0]
    got = run_one(f"{name} d0, a0;", [x.view(np.uint32)], np.uint32).view(np.float32)
    with gmpy2.context(precision=100):
        worst = max(error(kind, float(g), function(gmpy2.mpfr(float(v)))) for v, g in zip(x, got))
    assert worst <= bound


@pytest.mark.parametrize("name", ["div.approx.f32", "div.full.f32", "div.approx.ftz.f32"])
def test_division_is_within_two_places(name: str) -> None:
    rng = np.random.default_rng(4)
    a, b = ((rng.uniform(0.5, 2, 500) * 2.0 ** rng.integers(-60, 60, 500)).astype(np.float32) for _ in range(2))
    got = run_one(f"{name} d0, a0, a1;", [a.view(np.uint32), b.view(np.uint32)], np.uint32).view(np.float32)
    with gmpy2.context(precision=100):
        assert max(error("ulp", float(g), gmpy2.mpfr(float(x)) / gmpy2.mpfr(float(y))) for x, y, g in zip(a, b, got)) <= 2


@pytest.mark.parametrize(
    ("name", "bound"), [("rcp.approx.ftz.f64", 2.0**-20), ("rsqrt.approx.ftz.f64", 2.0**-20), ("rsqrt.approx.f64", 2.0**-22.9)]
)
def test_double_approximations(name: str, bound: float) -> None:
    x = np.random.default_rng(6).uniform(1e-3, 1e3, 300)
    got = run_one(f"{name} d0, a0;", [x.view(np.uint64)], np.uint64)
    exact = 1 / x if name.startswith("rcp") else 1 / np.sqrt(x)
    assert np.max(np.abs(got.view(np.float64) - exact) / exact) <= bound
    if "ftz" in name:
        assert not np.any(got & np.uint64(0xFFFFFFFF))


@pytest.mark.parametrize(
    ("name", "bound"),
    [("tanh.approx.f16", 2.0**-10.987), ("tanh.approx.bf16", 2.0**-8), ("ex2.approx.f16", 2.0**-9.9), ("ex2.approx.ftz.bf16", 2.0**-7)],
)
def test_half_approximations(name: str, bound: float) -> None:
    import ml_dtypes

    dtype = np.dtype(ml_dtypes.bfloat16) if name.endswith("bf16") else np.dtype(np.float16)
    x = np.random.default_rng(7).uniform(-8, 8, 400).astype(dtype)
    got = run_one(f"{name} d0, a0;", [x.view(np.uint16)], np.uint16).view(dtype).astype(np.float64)
    exact = (np.tanh if name.startswith("tanh") else np.exp2)(x.astype(np.float64))
    difference = np.abs(got - exact)
    assert np.max(difference if name.startswith("tanh") else difference / exact) <= bound
