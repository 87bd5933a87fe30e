"""Kernels compiled in Python: launches checked alone, against another kernel, and against a function."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import volta_pass
from ptx_engine.errors import LaunchError, PtxError
from ptx_engine.launch import Role, TensorArg
from ptx_engine.verdict import Status
from volta_hooks.cuda import CudaCompileError, CudaKernel, cuda_kernel
from volta_pass import TensorSpec
from volta_pass.kernel_report import KernelReport

TEXT = """
template <int STEP> __global__ void shifted(const float *x, float *y, int n, float a) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[(i + STEP) % n];
}
extern "C" __global__ void serial(float *y, const float *x, int n, float a) {
    for (int i = 0; i < n; ++i) y[i] = x[i] * a;
}
extern "C" __global__ void gathered(const float *x, const int *place, float *y) { y[threadIdx.x] = x[place[threadIdx.x]]; }
extern "C" __device__ float half_of(float);
extern "C" __global__ void rooted(const float *x, float *y) { y[threadIdx.x] = half_of(x[threadIdx.x]); }
extern "C" __global__ void neighbours(const float *x, float *y) {
    extern __shared__ float s[];
    s[threadIdx.x] = x[threadIdx.x];
    SYNC
    y[threadIdx.x] = s[threadIdx.x ^ 32];
}
"""
X, Y = TensorSpec((100,), "f32"), TensorSpec((100,), "f32")
ARGS = {"x": X, "y": Y, "n": 100, "a": "symbolic"}


def kernel(entry: str, **defines: str) -> CudaKernel:
    return cuda_kernel(TEXT, entry=entry, defines={"SYNC": "__syncthreads();", **defines})


def test_against_another_kernel_with_parameters_in_another_order() -> None:
    serial = kernel("serial")[1, 1]
    order = ["y", "x", "n", "a"]
    right = kernel("shifted<0>")[4, 32].validate(ARGS, reference=serial, reference_args=order, outputs=["y"])
    wrong = kernel("shifted<1>")[4, 32].validate(ARGS, reference=serial, reference_args=order, outputs=["y"])
    assert (right.status, wrong.status) == (Status.PROVED, Status.REFUTED)
    assert right.output_elements == 100


def test_against_a_function() -> None:
    launch = kernel("shifted<0>")[(4,), (32, 1, 1)]
    args = {"x": TensorArg("x", "f32", (100,), Role.IN), "y": TensorArg("y", "f32", (100,), Role.OUT), "n": 100, "a": "symbolic"}
    assert launch.validate(args, reference=lambda x, a: a * x).status is Status.PROVED
    assert launch.validate(args, reference=lambda x, a: a * x + 1).status is Status.REFUTED


def test_a_call_looks_for_races() -> None:
    tensors = {"x": TensorSpec((64,)), "y": TensorSpec((64,))}
    assert kernel("neighbours")[1, 64, 256](**tensors).status is Status.PROVED
    assert [f.kind for f in kernel("neighbours", SYNC="")[1, 64, 256](**tensors).findings][:1] == ["data race"]
    assert kernel("neighbours")[1, 64, 128](**tensors).status is Status.REFUTED  # beyond dynamic shared memory


def test_integer_contents_and_externs() -> None:
    place = np.arange(32, dtype=np.int32)[::-1].copy()
    args = {"x": TensorSpec((32,)), "place": place, "y": TensorArg("y", "f32", (32,), Role.OUT)}
    assert kernel("gathered")[1, 32].validate(args, reference=lambda x: x[::-1], outputs=["y"]).status is Status.PROVED
    args = {"x": TensorSpec((32,)), "y": TensorArg("y", "f32", (32,), Role.OUT)}
    done = kernel("rooted")[1, 32].validate(args, reference=lambda x: np.sqrt(x), outputs=["y"], externs={"half_of": "sqrt"})
    assert done.status is Status.PROVED
    assert kernel("rooted")[1, 32](**args).status is Status.UNSUPPORTED


def test_part_of_a_grid() -> None:
    args = {**ARGS, "y": TensorArg("y", "f32", (100,), Role.OUT)}
    report = kernel("shifted<0>")[4, 32].validate(args, reference=lambda x, a: a * x, ctas=[(1,)], outputs=["y"])
    assert report.status is Status.PROVED and (report.ctas_executed, report.output_elements) == (1, 32)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"x": X}, "takes 4 arguments, not 1"),
        ({**ARGS, "n": 1.5}, "1.5 for a parameter"),
        ({**ARGS, "n": object()}, "neither a tensor nor a number"),
        ({**ARGS, "x": 3}, "parameter 1 of"),
    ],
)
def test_arguments_that_do_not_fit(args: dict[str, object], words: str) -> None:
    if words.startswith("parameter"):
        args = {**args, "x": 2.0}
        words = "2.0 for a parameter"
    with pytest.raises(LaunchError, match=words):
        kernel("shifted<0>")[4, 32].validate(args)


def test_a_launch_needs_a_grid_and_a_block() -> None:
    with pytest.raises(LaunchError, match=r"\[grid, block\]"):
        kernel("serial")[4]
    with pytest.raises(LaunchError, match="no extent"):
        kernel("serial")[(1, 1, 1, 1), 32]


def test_a_path_and_the_public_name(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text('extern "C" __global__ void f(float *x) { x[0] = 1.0f; }\n', encoding="utf-8")
    found = volta_pass.cuda_kernel(str(tmp_path / "k.cu"), arch=89)
    assert found.name == "f" and ".target sm_89" in found.ptx
    with pytest.raises(LaunchError, match="cannot read"):
        volta_pass.cuda_kernel(tmp_path / "gone.cu")
    with pytest.raises(CudaCompileError, match="expected"):
        volta_pass.cuda_kernel("void f( {")


LAST_BLOCK = """
__device__ unsigned count = 0;
extern "C" __global__ void total(const float *x, float *parts, float *out) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = x[2 * blockIdx.x] + x[2 * blockIdx.x + 1];
        __threadfence();
        last = atomicAdd(&count, 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        __threadfence();
        float sum = 0;
        for (int i = 0; i < gridDim.x; ++i) sum += parts[i];
        out[0] = sum;
    }
}
"""
TOTAL_ARGS = {"x": TensorSpec((8,)), "parts": TensorArg("parts", "f32", (4,), Role.OUT), "out": TensorArg("out", "f32", (1,), Role.OUT)}


def total(variables: dict[str, object]) -> KernelReport:
    reference = lambda x: {"parts": x.reshape(4, 2).sum(axis=1), "out": x.sum().reshape(1)}  # noqa: E731
    return cuda_kernel(LAST_BLOCK)[4, 32].validate(TOTAL_ARGS, reference=reference, globals=variables)


@pytest.mark.parametrize(("first", "status"), [(0, Status.PROVED), (1, Status.REFUTED)])
def test_contents_of_module_variables(first: int, status: Status) -> None:
    """The last block to come adds what all have left: where the counter starts at 1, the one before takes itself for the last."""
    report = total({"count": first})
    assert report.status is status, (report.reason, report.errors)


@pytest.mark.parametrize(
    ("variables", "words"),
    [({"count": 2.5}, "no integer"), ({"cnt": 0}, "cnt is declared"), ({"count": [0, 0]}, "2 values"), ({"count": "x"}, "no number"),
     ({"count": 1 << 40}, "does not fit"), ({"count": [None]}, "no number"), ({"count": True}, "no number")],
)  # fmt: skip
def test_contents_that_no_module_variable_can_have(variables: dict[str, object], words: str) -> None:
    with pytest.raises(PtxError, match=words):
        total(variables)


def test_module_variables_are_symbolic_unless_their_contents_are_given() -> None:
    """A zero that is their default says nothing: an earlier launch may have written them."""
    report = cuda_kernel(LAST_BLOCK)[4, 32](**TOTAL_ARGS)
    assert report.status is not Status.PROVED and "[globals]" in report.errors[0]
