"""Functions that CUDA computes by library code: a tile program that calls them is compared with that very code.

(No lazy annotations here: TileLang reads those of its kernels where they stand.)
"""

import re
from collections.abc import Callable

import pytest
import tilelang
import tilelang.language as T

from ptx_engine.verdict import Status
from volta_pass.kernel_report import KernelReport

Compile = Callable[..., list[KernelReport]]


def applying(function: Callable[..., object]) -> object:
    @T.prim_func
    def main(X: T.Tensor((128,), "float32"), Y: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(128):
                Y[i] = function(X[i]) + T.float32(1)

    return main


@pytest.mark.parametrize(("function", "name", "other"), [(T.tanh, "tanh", "erff"), (T.erf, "erf", "tanhf")])
def test_library_code_is_what_the_function_means(function: Callable[..., object], name: str, other: str, compiled: Compile) -> None:
    report = compiled(applying(function))[0]
    assert report.status is Status.PROVED, (report.reason, report.errors)
    assert f"{name}(f32) is what the compiler's device library computes" in report.assumptions
    report = compiled(applying(function), change=lambda text: text.replace(f"{name}f(", f"{other}("))[0]
    assert report.status is Status.REFUTED, (report.reason, report.errors)


@pytest.mark.parametrize(("function", "name", "other"), [(T.log, "log", "log2f"), (T.log2, "log2", "logf")])
def test_logarithms_are_read_off_the_librarys_code(function: Callable[..., object], name: str, other: str, compiled: Compile) -> None:
    report = compiled(applying(function))[0]
    assert report.status is Status.PROVED, (report.reason, report.errors)
    assert any(text.startswith(f"{name}(f32) of the compiler's device library is the function {name}") for text in report.assumptions)
    report = compiled(applying(function), change=lambda text: text.replace(f"{name}f(", f"{other}("))[0]
    assert report.status is not Status.PROVED
    report = compiled(applying(function), change=lambda text: text.replace(f"{name}f(", f"{name}f(2.0f * "))[0]
    assert report.status is Status.REFUTED, (report.reason, report.errors)


@pytest.mark.parametrize(("mode", "other"), [("ties-to-even", "roundf("), ("ties-away-from-zero", "rintf(")])
def test_ties_are_rounded_as_the_program_says(mode: str, other: str, compiled: Compile) -> None:
    func = applying(lambda x: T.round(x, rounding_mode=mode))
    report = compiled(func)[0]
    assert report.status is Status.PROVED, (report.reason, report.errors)
    report = compiled(func, change=lambda text: re.sub(r"(\w+::)*\w*(round|rint|nearbyint)\w*\(", other, text, flags=re.IGNORECASE))[0]
    assert report.status is Status.REFUTED, (report.reason, report.errors)


def test_what_has_no_formula_says_what_to_do(compiled: Compile) -> None:
    func = applying(lambda x: T.sin(x))
    report = compiled(func)[0]
    assert report.status is Status.UNKNOWN
    assert "T.sin" in report.errors[0] and "TL_ENABLE_FAST_MATH" in report.errors[0]
    report = compiled(func, pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})[0]
    assert report.status is Status.PROVED, (report.reason, report.errors)
