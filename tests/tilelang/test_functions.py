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


FAST = {tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True}
LITERALS = [
    (T.log10, "log10", "0.30103f * log2f(x)", "0.301032f * log2f(x)"),
    (T.exp10, "exp10", "exp2f(3.32192809f * x)", "exp2f(3.32194f * x)"),
    (T.exp, "exp", "exp2f(1.44269504f * x)", "exp2f(1.442697f * x)"),
    (T.log, "log", "0.69314718f * log2f(x)", "0.693149f * log2f(x)"),
]


@pytest.mark.parametrize(("function", "name", "right", "wrong"), LITERALS, ids=[row[1] for row in LITERALS])
@pytest.mark.parametrize("configs", [FAST, {}], ids=["fast", "precise"])
def test_another_base_by_a_literal(
    function: Callable[..., object], name: str, right: str, wrong: str, configs: dict[object, object], compiled: Compile
) -> None:
    """The program's function by that of base two: a literal rounded to f32 is the constant, one wrong in the sixth digit is not."""

    def written(formula: str) -> Callable[[str], str]:
        mine = f"static __device__ float mine(float x) {{ return {formula}; }}\n"
        return lambda code: mine + re.sub(rf"(?<=[^\w])_*{name}f?\(", "mine(", code)

    report = compiled(applying(function), pass_configs=configs)[0]
    assert report.status is Status.PROVED, (report.reason, report.errors)
    for formula, status in ((right, Status.PROVED), (wrong, Status.REFUTED)):
        if not configs:  # (this program's library holds the code of its own logarithm only)
            formula = formula.replace("log2f", "__log2f")
        report = compiled(applying(function), change=written(formula), pass_configs=configs)[0]
        assert report.status is status, (report.reason, report.errors)
