"""Functions of CUDA's library: a Python reference over them is compared with the library's own code; what has no formula says what to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from volta_pass import TensorSpec, cuda_kernel
from volta_pass.check import CheckOptions, pipeline
from volta_pass.cuda_api import CudaLaunch
from volta_pass.kernel_report import KernelReport
from volta_pass.references.tensor_functions import erf
from volta_pass.spec import Spec

ARGS = {"x": TensorSpec((64,), dtype="f32"), "y": TensorSpec((64,), dtype="f32")}


def kernel(body: str, flags: Sequence[str] = ()) -> CudaLaunch:
    text = f"""
extern "C" __device__ float mine(float);
extern "C" __global__ void k(const float* x, float* y) {{
    float v = x[blockIdx.x * 32 + threadIdx.x];
    y[blockIdx.x * 32 + threadIdx.x] = {body};
}}"""
    return cuda_kernel(text, options=flags)[2, 32]


def check(body: str, reference: "Callable[..., object] | CudaLaunch", **options: object) -> KernelReport:
    flags: Sequence[str] = options.pop("flags", ())  # type: ignore[assignment]
    return kernel(body, flags).validate(ARGS, reference=reference, outputs=("y",), **options)  # type: ignore[arg-type]


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


CALLED = [
    ("logf(v)", lambda x: np.log(x), lambda x: np.log2(x)),
    ("log1pf(expf(v))", lambda x: np.log(1 + np.exp(x)), lambda x: np.log(1 + np.exp(-x))),
    ("v > 0 ? v : expm1f(v)", lambda x: np.where(x > 0, x, np.exp(x) - 1), lambda x: np.where(x > 0, x, np.exp(x))),
    ("powf(v, 2.5f) + pow(v, 3)", lambda x: x**2.5 + x * x * x, lambda x: x**2.5 + x * x),
    ("sinf(1e6f * v) * cosf(v)", lambda x: np.sin(1e6 * x) * np.cos(x), lambda x: np.cos(1e6 * x) * np.sin(x)),
    ("fmodf(v, 1.5f)", lambda x: np.fmod(x, 1.5), lambda x: np.fmod(x, 2.5)),
    ("(float)(exp((double)v) * log((double)v))", lambda x: np.exp(x) * np.log(x), lambda x: np.exp2(x) * np.log(x)),
]


@pytest.mark.parametrize(("body", "right", "wrong"), CALLED, ids=[row[0] for row in CALLED])
def test_functions_without_a_formula_are_called(body: str, right: Callable[..., object], wrong: Callable[..., object]) -> None:
    report = check(body, right)
    assert report.verdict == "proved", (report.reason, report.errors)
    assert "has no formula" in report.assumptions[0] and not report.errors
    assert check(body, wrong).verdict == "refuted"


APPROXIMATED = [
    ("0.5f * v * (1.0f + tanhf(v))", "v * (1.0f - 1.0f / (1.0f + expf(2.0f * v)))", "v * (1.0f - 1.0f / (1.0f + expf(2.01f * v)))"),
    ("v * erfcf(-v)", "v * (1.0f + erff(v))", "v * (1.001f + erff(v))"),
    ("erff(v)", "1.0f - erfcf(v)", "1.0f + erfcf(v)"),
]


@pytest.mark.parametrize(("body", "right", "wrong"), APPROXIMATED, ids=[row[0] for row in APPROXIMATED])
def test_approximations_that_differ_are_no_difference(body: str, right: str, wrong: str) -> None:
    """CUDA's code of these is within an error of the function, and another formula of it is the function itself."""
    report = check(body, kernel(right))
    assert report.verdict == "proved", (report.reason, report.errors)
    assert "is an approximation" in report.assumptions[0]
    assert check(body, kernel(wrong)).verdict == "refuted"


@pytest.mark.parametrize(
    ("body", "reference", "verdict", "asked"),
    [
        (APPROXIMATED[0][0], APPROXIMATED[0][1], "proved", [4.0, None]),  # the code for a short time, then calls
        ("tanhf(v) + expf(v)", "tanhf(v) + expf(v)", "proved", [4.0]),  # the same code
        (
            "tanhf(v) + sqrtf(v * v)",
            "tanhf(v) + fminf(fabsf(v), 3e4f)",
            "unknown",
            [4.0, None, None],
        ),  # calls do not help: all the time there is
        ("__expf(v)", "__expf(v)", "proved", [None]),
    ],
)
def test_code_that_approximates_is_looked_at_for_a_short_time_first(
    body: str, reference: str, verdict: str, asked: list[float | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[float | None] = []
    original = pipeline._checked_once

    def noted(spec: Spec, options: CheckOptions) -> tuple[KernelReport, bool]:
        seen.append(options.proof_seconds)
        return original(spec, options)

    monkeypatch.setattr(pipeline, "_checked_once", noted)
    assert check(body, kernel(reference)).verdict == verdict and seen == asked


def test_an_approximation_of_the_users_own_is_no_function() -> None:
    """Near, but not the same: only CUDA's functions are taken for what they approximate."""
    text = "v * (27.0f + v * v) / (27.0f + 9.0f * v * v)"
    assert check(text, kernel("tanhf(v)")).verdict == "refuted"
    report = check(text, kernel(text.replace("27.0f + v * v", "v * v + 27.0f")))
    assert report.verdict == "proved" and not any("approximation" in line for line in report.assumptions)


@pytest.mark.parametrize("body", ["logf(v)", "log1pf(v)", "powf(v, 2.5f)", "sinf(v)", "hypotf(v, 1.0f)"])
def test_what_differs_is_shown_where_the_function_is_called(body: str) -> None:
    """Not at a line of the text that stands before the user's for the compiler, which has none of these numbers."""
    report = check(body, lambda x: x * x)
    assert report.verdict == "refuted" and report.blame.user_loc.split(":")[-2] == "5"


def test_two_kernels_that_call_the_same_function() -> None:
    def kernel(body: str) -> CudaLaunch:
        text = f"""template <int N> __global__ void k(const float* x, float* y) {{
    float s, c, v = x[threadIdx.x];
    sincosf(v, &s, &c);
    y[threadIdx.x] = {body};
}}"""
        return cuda_kernel(text, entry="k<1>")[1, 64]

    first = kernel("s * c + logf(v)")
    assert first.validate(ARGS, reference=kernel("logf(v) + c * __sinf(v)")).verdict == "proved"
    assert first.validate(ARGS, reference=kernel("logf(v) + c * c")).verdict == "refuted"


def test_a_missing_barrier_is_found_beside_a_called_function() -> None:
    for barrier, verdict in (("__syncthreads();", "proved"), ("", "refuted")):
        text = f"""__global__ void k(const float* x, float* y) {{
    __shared__ float s[64];
    s[threadIdx.x] = logf(x[threadIdx.x]);
    {barrier}
    y[threadIdx.x] = s[63 - threadIdx.x];
}}"""
        kernel = cuda_kernel(text)[1, 64]
        assert kernel(**ARGS).verdict == verdict
        assert kernel.validate(ARGS, reference=lambda x: np.log(x[::-1])).verdict == verdict


def test_functions_of_the_users_own_stay_theirs() -> None:
    text = """namespace mine { __device__ float log(float x) { return 2 * x; } }
__global__ void k(const float* x, float* y) { y[threadIdx.x] = mine::log(x[threadIdx.x]) + sinf(x[threadIdx.x]); }"""
    kernel = cuda_kernel(text)[1, 64]
    assert kernel.validate(ARGS, reference=lambda x: 2 * x + np.sin(x)).verdict == "proved"
    assert kernel.validate(ARGS, reference=lambda x: np.log(x) + np.sin(x)).verdict == "refuted"


@pytest.mark.parametrize("body", ["lgammaf(v)", "atan2f(v, v)"])
def test_what_has_no_formula_says_what_to_do(body: str) -> None:
    report = check(body, lambda x: x)
    assert report.verdict == "unsupported"
    assert f"CUDA's code of {body.partition('(')[0]} has no formula here" in report.errors[0]
    assert check("mine(v)", lambda x: np.log(x), externs={"mine": "log"}).verdict == "proved"
    assert check("mine(v)", lambda x: np.log2(x), externs={"mine": "log"}).verdict == "refuted"


def test_outputs_that_nobody_named_are_what_is_written() -> None:
    twice, thrice = (
        cuda_kernel(f"__global__ void k(const float* x, float* y) {{ y[threadIdx.x] = {n} * x[threadIdx.x]; }}") for n in (2, 3)
    )
    nothing = cuda_kernel("__global__ void k(const float* x, float* y) { }")
    assert twice[1, 64].validate(ARGS, reference=lambda x: x + x).verdict == "proved"
    assert twice[1, 64].validate(ARGS, reference=lambda x: 3 * x).verdict == "refuted"
    assert twice[1, 64].validate(ARGS, reference=twice[1, 64]).verdict == "proved"
    assert twice[1, 64].validate(ARGS, reference=thrice[1, 64]).verdict == "refuted"
    assert twice[1, 64].validate(ARGS, reference=nothing[1, 64]).verdict == "refuted"
    assert nothing[1, 64].validate(ARGS, reference=twice[1, 64]).verdict == "refuted"
    assert nothing[1, 64].validate(ARGS, reference=nothing[1, 64]).verdict == "unknown"
