"""CUDA C to PTX: errors in the compiler's words, entries by their C++ names, CUDA's own headers, lines of the user's file."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ptx_engine.errors import LaunchError, UnsupportedError
from ptx_engine.syntax import parse
from volta_pass.cuda import Compilation, CudaCompileError, CudaSource, compile_cuda
from volta_pass.cuda.names import matching, source_name

KERNELS = """
namespace ns { __global__ void scale(float *x) { x[threadIdx.x] *= 2.0f; } }
template <typename T, int N> __global__ void fill(T *x) { x[threadIdx.x] = N; }
template __global__ void fill<float, 7>(float *);
extern "C" __global__ void copy(const float *__restrict__ x, float *y) { y[threadIdx.x] = x[threadIdx.x]; }
"""


def build(text: str, entry: str | None = None, compiler: str = "nvrtc", **keys: object) -> Compilation:
    return compile_cuda(CudaSource(text, "folder/kernel.cu", **keys), entry, compiler)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("entry", "ptx_name"),
    [
        ("copy", "copy"), ("scale", "_ZN2ns5scaleEPf"), ("ns::scale", "_ZN2ns5scaleEPf"), ("fill", "_Z4fillIfLi7EEvPT_"),
        ("fill<float, 9>", "_Z4fillIfLi9EEvPT_"), ("fill<double, 3 + 4>", "_Z4fillIdLi7EEvPT_"), ("_ZN2ns5scaleEPf", "_ZN2ns5scaleEPf"),
    ],
)  # fmt: skip
def test_an_entry_is_found_by_its_cpp_name(entry: str, ptx_name: str) -> None:
    done = build(KERNELS, entry)
    assert done.entry == ptx_name and done.kernel == entry
    assert ptx_name in [function.name for function in parse(done.ptx).entries()]


@pytest.mark.parametrize(
    ("entry", "words"),
    [("scal", 'did you mean "ns::scale"'), (None, "name one as entry"), ("gone", "its kernels: ")],
)
def test_an_entry_that_is_not_there_is_named_with_those_that_are(entry: str | None, words: str) -> None:
    with pytest.raises(LaunchError) as caught:
        build(KERNELS, entry)
    assert words in caught.value.render()


def test_names_without_a_compiler() -> None:
    assert source_name("_ZN2ns5scaleEPf") == "ns::scale" and source_name("_Z4fillIfLi7EEvPT_") == "fill" and source_name("copy") == "copy"
    assert matching("k", ["_Z1kPf", "_Z1kPd", "_Z2kkPf"]) == ["_Z1kPf", "_Z1kPd"]


def test_the_compilers_error_is_shown_as_it_is_with_its_place() -> None:
    with pytest.raises(CudaCompileError) as caught:
        build('extern "C" __global__ void f(float *x) {\n    x[0] = undeclared;\n}\n')
    shown = caught.value.render()
    assert 'folder/kernel.cu(2): error: identifier "undeclared" is undefined' in shown and "NVRTC" in shown
    assert caught.value.span is not None and caught.value.span.line == 2 and caught.value.source_line == "    x[0] = undeclared;"


def test_an_option_that_the_compiler_does_not_know() -> None:
    with pytest.raises(CudaCompileError, match="--no-such-option"):
        build(KERNELS, "copy", options=("--no-such-option",))


@pytest.mark.parametrize("arch", [75, 80, 89])
def test_targets(arch: int) -> None:
    assert f".target sm_{arch}" in build(KERNELS, "copy", arch=arch).ptx


def test_an_old_target_and_an_odd_macro_are_refused() -> None:
    with pytest.raises(LaunchError, match="older than 75"):
        CudaSource("", arch=70)
    with pytest.raises(LaunchError, match="cannot be defined"):
        CudaSource("", defines={"a b": 1})


@pytest.mark.parametrize(
    ("defines", "value"), [({"N": 3}, "0f40400000"), ({"N": True}, "0f3F800000"), ({}, "0f00000000"), ({"N": False}, "0f00000000")]
)
def test_defines(defines: dict[str, int | bool], value: str) -> None:
    text = '#ifndef N\n#define N 0\n#endif\nextern "C" __global__ void f(float *x) { x[0] = x[1] + N; if (x == nullptr) x[0] = N + 1; }'
    ptx = build(text, defines=defines).ptx
    assert value in ptx or value == "0f00000000"


@pytest.mark.parametrize("header", ["cuda_fp16.h", "cuda_bf16.h", "mma.h", "cuda_pipeline.h"])
def test_cudas_own_headers_are_found(header: str) -> None:
    assert build(f'#include <{header}>\nextern "C" __global__ void f(float *x) {{ x[0] = 1.0f; }}').entry == "f"


def test_a_header_beside_the_source_is_found(tmp_path: Path) -> None:
    (tmp_path / "twice.cuh").write_text("__device__ float twice(float x) { return 2 * x; }\n", encoding="utf-8")
    text = '#include "twice.cuh"\nextern "C" __global__ void f(float *x) { x[0] = twice(x[0]); }'
    assert compile_cuda(CudaSource(text, str(tmp_path / "k.cu"))).entry == "f"
    assert compile_cuda(CudaSource(text, "k.cu", include=(str(tmp_path),))).entry == "f"


def test_lines_are_the_users() -> None:
    module = parse(build(KERNELS, "copy").ptx)
    assert any(str(entry).find("folder/kernel.cu") >= 0 for entry in module.files)


def test_an_unknown_compiler_and_a_template_for_nvcc_are_refused() -> None:
    with pytest.raises(LaunchError, match="no compiler"):
        build(KERNELS, "copy", "clang")
    with pytest.raises(UnsupportedError, match="template"):
        build(KERNELS, "fill<float, 9>", "nvcc")


def test_nvcc_makes_the_same_kernel_where_it_is_and_is_named_where_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("nvcc"):
        done = build(KERNELS, "ns::scale", "nvcc")
        assert done.entry == "_ZN2ns5scaleEPf" and "nvcc" in done.toolchain
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.setattr("volta_pass.cuda.nvcc.toolkit", lambda: None)
    monkeypatch.setattr("volta_pass.cuda.nvcc.nvidia_folders", list)
    with pytest.raises(UnsupportedError, match="nvcc is not on this machine"):
        build(KERNELS, "copy", "nvcc")
