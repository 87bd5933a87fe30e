"""Exponentials of CUDA's library at infinities: a masked score is minus infinity, and its exponential is zero."""

from __future__ import annotations

import pytest

from ptx_engine.launch import Role, TensorArg
from ptx_engine.verdict import Status
from volta_hooks.cuda import cuda_kernel

ARGS = {"x": TensorArg("x", "f32", (40,), Role.IN), "y": TensorArg("y", "f32", (40,), Role.OUT)}


def status_of(text: str, reference: str) -> Status:
    """``y[i] = text`` for ``v``, an input of the first 20 threads and an infinity of the others, against another formula."""
    head = 'extern "C" __global__ void k(const float *x, float *y) { const int i = threadIdx.x; const float w = i < 20 ? x[i] : '
    sides = [cuda_kernel(f"{head} INF, v = w; y[i] = {each}; }}", defines={"INF": "-INFINITY"})[1, 40] for each in (text, reference)]
    report = sides[0].validate(ARGS, reference=sides[1])
    assert not report.findings and not report.errors, report.errors
    return report.status


#: a function whose code multiplies by a constant in two parts, the same function by one instruction, and its value at minus infinity
ROWS = [
    ("expf(v)", "__expf(v)", "0.0f"),
    ("expf(v - x[0])", "__expf(v - x[0])", "0.0f"),
    ("exp10f(v)", "__exp10f(v)", "0.0f"),
    ("1.0f / (1.0f + expf(v))", "1.0f / (1.0f + __expf(v))", "1.0f"),
    ("expf(x[0] - v) * 0.0f + 1.0f / expf(-v)", "__expf(v)", None),
]


@pytest.mark.parametrize(("text", "fast", "value"), ROWS, ids=[row[0] for row in ROWS])
def test_an_exponential_of_minus_infinity(text: str, fast: str, value: str | None) -> None:
    if value is None:  # 0 * inf has no value: such a kernel is not equal to one that has
        assert status_of(text, f"i < 20 ? {fast} : 0.0f") is not Status.PROVED
        return
    assert status_of(text, f"i < 20 ? {fast} : {value}") is Status.PROVED
    assert status_of(text, f"i < 20 ? {fast} : {value} + 0.5f") is Status.REFUTED
