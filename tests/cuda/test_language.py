"""What CUDA C programs are written with: cooperative groups, asynchronous copies, vectors, bf16, inline PTX; each with a twin that fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptx_engine.launch import Role, TensorArg
from ptx_engine.verdict import Status
from volta_hooks.cuda import cuda_kernel

N = 64
ARGS = {"x": TensorArg("x", "f32", (N,), Role.IN), "y": TensorArg("y", "f32", (N,), Role.OUT)}
HEAD = 'extern "C" __global__ void k(const float *__restrict__ x, float *__restrict__ y) {\n    const int t = threadIdx.x;\n'

#: name -> (includes, body, what is changed in it to make it wrong); each reverses x within the block, or sums it by tiles of 32
REVERSED = {
    "block sync": (
        "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;",
        "__shared__ float s[64]; auto block = cg::this_thread_block(); s[t] = x[t]; block.sync(); y[t] = s[63 - t];",
        ("block.sync();", ""),
    ),
    "pipeline primitives": (
        "#include <cuda_pipeline.h>",
        "__shared__ float s[64]; __pipeline_memcpy_async(&s[t], &x[t], 4); __pipeline_commit(); __pipeline_wait_prior(0);"
        " __syncthreads(); y[t] = s[63 - t];",
        ("__pipeline_wait_prior(0);", ""),
    ),
    "vectors": (
        "",
        "if (t < 16) { const float4 v = reinterpret_cast<const float4 *>(x)[15 - t];"
        " reinterpret_cast<float4 *>(y)[t] = make_float4(v.w, v.z, v.y, v.x); }",
        ("v.z, v.y", "v.y, v.z"),
    ),
    "bf16 on the way": (
        "#include <cuda_bf16.h>",
        "__shared__ __nv_bfloat16 s[64]; s[t] = __float2bfloat16(x[t]); __syncthreads(); y[t] = __bfloat162float(s[63 - t]);",
        ("__syncthreads();", ""),
    ),
    "inline PTX": (
        "",
        '__shared__ float s[64]; s[t] = x[t]; asm volatile("bar.sync 1, 64;" ::: "memory"); y[t] = s[63 - t];',
        ("bar.sync 1, 64;", "bar.arrive 1, 64;"),
    ),
    "constant memory and a device function": (
        "__constant__ int last = 63;\n__device__ __noinline__ int mirrored(int t) { return last - t; }",
        "y[t] = x[mirrored(t)];",
        ("mirrored(t)", "mirrored(t ^ 1)"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REVERSED)
def test_reversed(name: str) -> None:
    includes, body, (old, new) = REVERSED[name]
    assert old in body
    for text, status in ((body, Status.PROVED), (body.replace(old, new), Status.REFUTED)):
        kernel = cuda_kernel(f"{includes}\n{HEAD}    {text}\n}}\n")
        report = kernel[1, N].validate(ARGS, reference=lambda x: x[::-1])
        assert report.status is status, (text, report.reason, report.errors)


@pytest.mark.parametrize(("last", "status"), [(1, Status.PROVED), (2, Status.REFUTED)])
def test_sums_of_tiles(last: int, status: Status) -> None:
    text = f"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
{HEAD}
    auto tile = cg::tiled_partition<32>(cg::this_thread_block());
    float sum = x[t];
    for (int s = tile.size() / 2; s >= {last}; s /= 2) sum += tile.shfl_xor(sum, s);
    if (tile.thread_rank() == 0) y[tile.meta_group_rank()] = sum;
}}
"""
    args = {**ARGS, "y": TensorArg("y", "f32", (2,), Role.OUT)}
    report = cuda_kernel(text)[1, N].validate(args, reference=lambda x: x.reshape(2, 32).sum(axis=1))
    assert report.status is status, (report.reason, report.errors)


@pytest.mark.parametrize(("wait", "expected"), [("pipe.consumer_wait();", {"proved"}), ("", {"refuted"})])
def test_cuda_pipeline(wait: str, expected: set[str]) -> None:
    text = f"""
#include <cuda/pipeline>
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
{HEAD}
    __shared__ float s[2][32];
    auto pipe = cuda::make_pipeline();
    for (int stage = 0; stage < 2; ++stage) {{
        pipe.producer_acquire();
        if (t < 32) cuda::memcpy_async(&s[stage][t], &x[32 * stage + t], sizeof(float), pipe);
        pipe.producer_commit();
    }}
    for (int stage = 0; stage < 2; ++stage) {{
        {wait}
        __syncthreads();
        if (t < 32) y[63 - (32 * stage + t)] = s[stage][t];
        pipe.consumer_release();
    }}
}}
"""
    report = cuda_kernel(text)[1, N].validate(ARGS, reference=lambda x: x[::-1])
    assert report.verdict in expected, (report.reason, report.errors)
    # at the program's own lines, not in the headers where the copies are
    assert {Path(site.user_loc.partition(":")[0]).name for finding in report.error_findings for site in finding.sites} <= {"kernel.cu"}
    assert bool(report.error_findings) == (not wait)


PASSED_BY = """
extern "C" __global__ void k(const float *x, float *y, int n) {
    __shared__ float s[64];
    const int t = threadIdx.x;
    if (t >= LEAVE) return;
    s[t] = x[t];
    __syncthreads();
    if (t < STAY) __syncthreads();
    if (t < n) y[t] = s[t];
}
"""


@pytest.mark.parametrize(
    ("leave", "stay", "n", "kinds"),
    [
        (64, 32, 50, set()), (64, 64, 50, set()), (50, 64, 40, set()),
        (64, 40, 64, {"barrier misuse"}), (64, 40, 50, {"barrier misuse"}), (64, 40, 36, {"barrier misuse"}), (60, 40, 50, {"barrier misuse"}),
    ],
)  # fmt: skip
def test_lanes_that_pass_a_barrier_by_and_part_again_have_passed_it_by(leave: int, stay: int, n: int, kinds: set[str]) -> None:
    """An aligned barrier is for all of a warp that have not exited before: not for lanes that go on behind it, even if they leave in two parts."""
    args = {"x": TensorArg("x", "f32", (N,), Role.IN), "y": TensorArg("y", "f32", (N,), Role.OUT), "n": n}
    report = cuda_kernel(PASSED_BY, defines={"LEAVE": leave, "STAY": stay})[1, N](**args)
    assert {finding.kind for finding in report.findings} == kinds


NESTED = """
extern "C" __global__ void k(const float *x, float *y, int n) {
    __shared__ float s[64];
    const int t = threadIdx.x;
    for (int i = t; i < 100; i += 64) y[i] = x[i];
    if (t % 3 == 0) { if (t > n) return; y[t] = 2.0f * x[t]; } else if (t % 3 == 1) { for (int i = 0; i < t; ++i) if (x[0] == y[100]) y[t] += 1.0f; }
    s[t] = x[t];
    __syncthreads();
    if (t >= 50) return;
    if (t == 7) y[101] = s[7];
    __syncthreads();
    y[t] = s[t];
}
"""


def test_lanes_that_leave_within_an_arm_have_left_for_good() -> None:
    args = {"x": TensorArg("x", "f32", (100,), Role.IN), "y": TensorArg("y", "f32", (102,), Role.INOUT), "n": 20}
    report = cuda_kernel(NESTED.replace(" if (x[0] == y[100])", ""))[1, N](**args)
    assert not [finding for finding in report.findings if finding.kind == "barrier misuse"]
