"""Reductions that begin with the least finite float, as CUDA C writes minus infinity: no float is below it, which the ledger says."""

from __future__ import annotations

import pytest

from ptx_engine.launch import Role, TensorArg
from ptx_engine.verdict import Status
from volta_hooks.cuda import cuda_kernel
from volta_pass.kernel_report import KernelReport

ARGS = {"x": TensorArg("x", "f32", (6,), Role.IN), "y": TensorArg("y", "f32", (3,), Role.OUT)}
LEAST, LARGEST, LEDGER = "-3.402823466e+38F", "3.402823466e+38F", "no float is beyond the largest one"


def report(text: str, reference: str) -> KernelReport:
    sides = [cuda_kernel(f'extern "C" __global__ void k(const float *x, float *y) {{ {each} }}')[1, 1] for each in (text, reference)]
    return sides[0].validate(ARGS, reference=sides[1])


MAXIMUM = "float m = BEGIN; for (int i = 0; i < 6; ++i) m = fmaxf(m, x[i]); y[0] = m; y[1] = y[2] = 0.0f;"
BY_TESTS = (
    "float m = BEGIN; int at = 0; for (int i = 0; i < 6; ++i) { const float v = x[i]; at = v > m ? i : at; m = v > m ? v : m; }"
    " y[0] = m; y[1] = at; y[2] = 0.0f;"
)
MINIMUM = "float m = BEGIN; for (int i = 0; i < 6; ++i) m = x[i] < m ? x[i] : m; y[0] = m; y[1] = y[2] = 0.0f;"
FINITE = "y[0] = fabsf(x[0]) <= BEGIN ? x[0] : 0.0f; y[1] = y[2] = 0.0f;"


@pytest.mark.parametrize(
    ("text", "begin", "reference"),
    [
        (MAXIMUM, LEAST, MAXIMUM.replace("BEGIN", "-INFINITY")),
        (BY_TESTS, LEAST, BY_TESTS.replace("BEGIN", "-INFINITY")),
        (MINIMUM, LARGEST, MINIMUM.replace("BEGIN", "INFINITY")),
        (FINITE, LARGEST, "y[0] = x[0]; y[1] = y[2] = 0.0f;"),
    ],
)
def test_the_ends_of_floats_are_ends(text: str, begin: str, reference: str) -> None:
    found = report(text.replace("BEGIN", begin), reference)
    assert found.status is Status.PROVED, found.reason
    assert any(LEDGER in line for line in found.assumptions)
    short = begin.replace("3.402823466e+38F", "3.4e+36F")
    near = report(text.replace("BEGIN", short), reference)
    assert near.status is not Status.PROVED and not any(LEDGER in line for line in near.assumptions)


def test_an_end_alone_is_a_number() -> None:
    empty = f"y[0] = fmaxf({LEAST}, -INFINITY); y[1] = {LEAST}; y[2] = {LEAST} < {LARGEST} ? 1.0f : 0.0f;"
    assert report(empty, f"y[0] = {LEAST}; y[1] = {LEAST}; y[2] = 1.0f;").status is Status.PROVED
    assert report(empty, f"y[0] = -INFINITY; y[1] = {LEAST}; y[2] = 1.0f;").status is not Status.PROVED
    assert report(f"{empty} y[1] = -INFINITY;", empty).status is not Status.PROVED


def test_infinities_of_selections_lie_beyond() -> None:
    """A row whose every score may be masked: its maximum is -FLT_MAX, not minus infinity."""
    masked = "float m = BEGIN; for (int i = 0; i < 3; ++i) { const float a = x[i], b = x[i + 3]; "
    masked += "m = fmaxf(m, a > 0.0f ? b : -INFINITY); } y[0] = m; y[1] = y[2] = 0.0f;"
    found = report(masked.replace("BEGIN", LEAST), masked.replace("BEGIN", "-INFINITY"))
    assert found.status in (Status.REFUTED, Status.UNKNOWN) and not any(LEDGER in line for line in found.assumptions)


@pytest.mark.parametrize("begin", [LEAST, LARGEST])
def test_a_number_may_be_the_largest(begin: str) -> None:
    """A guard for the value that a masked row is filled with is no idle one."""
    text = f"y[0] = x[0] == {begin} ? 7.0f : x[0]; y[1] = y[2] = 0.0f;"
    found = report(text, "y[0] = x[0]; y[1] = y[2] = 0.0f;")
    assert found.status in (Status.REFUTED, Status.UNKNOWN) and not any(LEDGER in line for line in found.assumptions)


def test_what_a_mask_fills_with_the_least_number_is_no_more_than_that() -> None:
    """Where every score is masked nothing is greater than -FLT_MAX."""
    masked = f"float m = {LEAST}; int at = -1; for (int i = 0; i < 3; ++i) {{ const float a = x[i], b = x[i + 3]; const float s = a > 0.0f ? b : {LEAST}; "
    masked += "at = s > m ? i : at; m = s > m ? s : m; } y[0] = at; y[1] = y[2] = 0.0f;"
    found = report(masked, masked.replace("at = -1", "at = 0"))
    assert found.status in (Status.REFUTED, Status.UNKNOWN) and not any(LEDGER in line for line in found.assumptions)


def test_doubles_lie_beyond() -> None:
    text = "const double d = (double)x[0] * x[1] * x[2]; y[0] = d > 3.4028234663852886e38 ? 0.0f : (float)d; y[1] = y[2] = 0.0f;"
    found = report(text, "const double d = (double)x[0] * x[1] * x[2]; y[0] = (float)d; y[1] = y[2] = 0.0f;")
    assert found.status in (Status.REFUTED, Status.UNKNOWN) and not any(LEDGER in line for line in found.assumptions)
