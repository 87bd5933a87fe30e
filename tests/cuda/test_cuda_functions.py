"""Functions of CUDA's library: a Python reference over them is compared with the library's own code; what has no formula says what to do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from volta_pass import TensorSpec, cuda_kernel
from volta_pass.kernel_report import KernelReport
from volta_pass.references.tensor_functions import erf

ARGS = {"x": TensorSpec((64,), dtype="f32"), "y": TensorSpec((64,), dtype="f32")}


def check(body: str, reference: Callable[..., object], **options: object) -> KernelReport:
    text = f"""
extern "C" __device__ float mine(float);
extern "C" __global__ void k(const float* x, float* y) {{
    float v = x[blockIdx.x * 32 + threadIdx.x];
    y[blockIdx.x * 32 + threadIdx.x] = {body};
}}"""
    kernel = cuda_kernel(text, options=options.pop("flags", ()))  # type: ignore[arg-type]
    return kernel[2, 32].validate(ARGS, reference=reference, outputs=("y",), **options)  # type: ignore[arg-type]


GELU = "0.5f * v * (1.0f + erff(v * 0.70710678f))"


@pytest.mark.parametrize(
    ("body", "right", "wrong", "name"),
    [
        ("tanhf(v) + 1.0f", lambda x: np.tanh(x) + 1, lambda x: erf(x) + 1, "tanh"),
        (GELU, lambda x: x * (1 + erf(x / np.sqrt(2))) / 2, lambda x: x * (1 + erf(x / 2)) / 2, "erf"),
    ],
)
def test_a_reference_means_what_the_library_computes(
    body: str, right: Callable[..., object], wrong: Callable[..., object], name: str
) -> None:
    report = check(body, right)
    assert report.verdict == "proved", (report.reason, report.errors)
    assert f"{name}(f32) is what the compiler's device library computes" in report.assumptions
    assert check(body, wrong).verdict == "refuted"


def test_the_function_itself_stays_what_it_is() -> None:
    """What is not library code is compared with the function, and nothing is said of a library."""
    for body, flags in (("1.0f - 2.0f / (__expf(2.0f * v) + 1.0f)", ()), ("tanhf(v)", ("-use_fast_math",))):
        report = check(body, lambda x: np.tanh(x), flags=flags)
        assert report.verdict == "proved", (body, report.reason)
        assert not any("library" in text for text in report.assumptions)


@pytest.mark.parametrize("body", ["logf(v)", "powf(v, 2.5f)", "sinf(v)"])
def test_what_has_no_formula_says_what_to_do(body: str) -> None:
    report = check(body, lambda x: x)
    assert report.verdict == "unsupported"
    assert f"CUDA's code of {body.partition('(')[0]} has no formula here" in report.errors[0]
    assert check("mine(v)", lambda x: np.log(x), externs={"mine": "log"}).verdict == "proved"
    assert check("mine(v)", lambda x: np.log2(x), externs={"mine": "log"}).verdict == "refuted"
