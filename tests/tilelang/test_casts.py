"""Floats that become integers: what does not fit the type is what NVCC makes of it, and no difference.

(No lazy annotations here: TileLang reads those of its kernels where they stand.)
"""

from collections.abc import Callable

import pytest
import tilelang.language as T

from ptx_engine.verdict import Status
from volta_pass.kernel_report import KernelReport

Compile = Callable[..., list[KernelReport]]


def casts(before: str, after: str, n: int = 32) -> object:
    @T.prim_func
    def main(A: T.Tensor((n,), before), B: T.Tensor((n,), after)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                B[i] = T.cast(A[i], after)

    return main


#: from, to, the cast as TileLang writes it, one that gives other integers for numbers that fit
PAIRS = [
    ("float32", "int8", "(signed char)", "(uchar)"), ("float32", "uint16", "(ushort)A", "(ushort)1 + (ushort)A"), ("float32", "int32", "(int)A", "(uint)A"),
    ("float64", "uint8", "(uchar)A", "(uchar)-A"), ("float16", "int8", "(signed char)(int)", "(signed char)(uint)"),
    ("float16", "uint8", "(uchar)(uint)", "(uchar)(uint)-"), ("bfloat16", "int8", "(signed char)", "(uchar)"), ("float32", "int64", "(int64_t)", "(uint)"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "written", "other"), PAIRS)
def test_casts_are_proved_whatever_the_number(before: str, after: str, written: str, other: str, compiled: Compile) -> None:
    func = casts(before, after)
    report = compiled(func)[0]
    assert report.status is Status.PROVED, (report.reason, report.errors)
    assert not any("fit" in line for line in report.assumptions)

    def changed(text: str) -> str:
        assert written in text
        return text.replace(written, other)

    report = compiled(func, change=changed)[0]
    assert report.status is Status.REFUTED, (report.reason, report.errors)


@pytest.mark.parametrize(("before", "after"), [("float16", "int8"), ("float16", "uint8"), ("bfloat16", "int16")])
def test_packed_halves_are_taken_to_fit(before: str, after: str, compiled: Compile) -> None:
    """Two in a register have conversions of their own, which clamp: C's would cut what does not fit."""
    report = compiled(casts(before, after, 64))[0]
    assert report.status is Status.PROVED, (report.reason, report.errors)
    assert any(line.startswith("floats converted to narrow integers fit them: ") for line in report.assumptions)


def test_what_differs_where_nothing_fits_is_no_fault(compiled: Compile) -> None:
    """A negative number is no unsigned one: the tile program gives it no value, whatever the kernel stores."""
    report = compiled(casts("float32", "uint32"), change=lambda text: text.replace("(uint)A", "(int64_t)A"))[0]
    assert report.status is Status.UNKNOWN, (report.reason, report.errors)
    assert "no value is defined there" in report.reason
