"""Literals for irrational constants as CUDA C writes them, and CUDA's fast functions that are computed with such: against NumPy's functions.

A right literal is the constant, by name in the ledger, or a near miss; one that is wrong in the sixth digit is refuted.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from test_cuda_functions import check

from volta_pass.references.tensor_functions import erf


def gelu(x: object) -> object:
    return x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x * x * x))) / 2  # type: ignore[operator]


CUBIC = "(v + 0.044715f * v * v * v)"
#: text, its right literal, a wrong one, the function, and what comes of the right one
LITERALS: list[tuple[str, str, str, Callable[..., object], str]] = [
    ("__log2f(v) * {}", "0.30103f", "0.301032f", lambda x: np.log10(x), "proved"),
    ("__logf(v) * {}", "0.4342944819f", "0.43429f", lambda x: np.log10(x), "proved"),
    ("logf(v) / {}", "2.302585093f", "2.3026f", lambda x: np.log10(x), "proved"),
    ("exp2f(v * {})", "3.32192809f", "3.32194f", lambda x: 10**x, "proved"),
    ("__expf(v * {})", "2.302585093f", "2.3026f", lambda x: 10**x, "proved"),
    ("__log2f(v) * {}", "0.69314718f", "0.693149f", lambda x: np.log(x), "proved"),
    ("{} * __log2f(1.0f + exp2f(1.44269504f * v))", "0.69314718f", "0.693149f", lambda x: np.log(1 + np.exp(x)), "proved"),
    ("v / (1.0f + exp2f({} * v))", "-1.44269504f", "-1.442697f", lambda x: x / (1 + np.exp(-x)), "proved"),
    ("1.0f - 2.0f / (1.0f + exp2f({} * v))", "2.88539008f", "2.885393f", lambda x: np.tanh(x), "proved"),
    ("0.5f * v * (1.0f + erff(v * {}))", "0.70710678f", "0.707109f", lambda x: x * (1 + erf(x / np.sqrt(2))) / 2, "proved"),
    ("v * normcdff({} * v)", "1.0f", "1.00001f", lambda x: x * (1 + erf(x / np.sqrt(2))) / 2, "proved"),
    ("__sinf({} * v)", "3.14159265f", "3.1416f", lambda x: np.sin(np.pi * x), "proved"),
    ("sinpif({} * v)", "1.0f", "1.00001f", lambda x: np.sin(np.pi * x), "proved"),
    ("cospif({} * v)", "2.0f", "2.00001f", lambda x: np.cos(2 * np.pi * x), "proved"),
    (f"0.5f * v * (1.0f + tanhf({{}} * {CUBIC}))", "0.7978845608f", "0.797887f", gelu, "proved"),
    (f"0.5f * v * (1.0f + tanhf({{}} * {CUBIC}))", "0.79788456f", "0.79788f", gelu, "proved"),
    (f"v / (1.0f + __expf({{}} * {CUBIC}))", "-1.5957691216f", "-1.595775f", gelu, "proved"),
    (f"v / (1.0f + exp2f({{}} * {CUBIC}))", "-2.302208198f", "-2.30222f", gelu, "unknown"),
    ("{} * __expf(-0.5f * v * v)", "0.3989422804f", "0.398944f", lambda x: np.exp(-x * x / 2) / np.sqrt(2 * np.pi), "unknown"),
    ("{} * v", "0.1118033989f", "0.111804f", lambda x: x / np.sqrt(80), "unknown"),
]


@pytest.mark.parametrize(("text", "right", "wrong", "function", "status"), LITERALS, ids=[row[0] + row[1] for row in LITERALS])
def test_a_literal(text: str, right: str, wrong: str, function: Callable[..., object], status: str) -> None:
    report = check(text.format(right), function)
    assert report.verdict == status, (report.reason, report.errors)
    if status == "unknown":
        assert "equal except for" in report.reason or "approximates a function" in report.reason
    report = check(text.format(wrong), function)
    assert report.verdict == "refuted", (report.reason, report.errors)


FUNCTIONS: list[tuple[str, Callable[..., object], str]] = [
    ("__log10f({} * v)", lambda x: np.log10(x), "log10(2)"),
    ("log10f({} * v)", lambda x: np.log10(x), ""),
    ("__exp10f({} * v)", lambda x: 10**x, "log2(10)"),
    ("exp10f({} * v)", lambda x: 10**x, "the rest of log2(10) in f32"),
    ("__logf({} * v)", lambda x: np.log(x), "ln(2)"),
    ("__expf({} * v)", lambda x: np.exp(x), "log2(e)"),
]


@pytest.mark.parametrize(("text", "function", "named"), FUNCTIONS, ids=[row[0] for row in FUNCTIONS])
def test_a_function_of_another_base(text: str, function: Callable[..., object], named: str) -> None:
    report = check(text.format("1.0f"), function)
    assert report.verdict == "proved", (report.reason, report.errors)
    assert any(line.startswith("constant recognised") and named in line for line in report.assumptions) == bool(named)
    assert check(text.format("1.00001f"), function).verdict == "refuted"
