"""The project's kernels compiled by Triton for every configuration: PTX proved equal to TTIR over all programs, no fault found.

The full matrix is slow (``make nightly``); a slice that meets every kernel, architecture, number of warps and stages is not.
"""

import itertools

import pytest
from compiled_kernels import Configuration, compiled_job, flash_attention, layer_norm, matmul, softmax, vector_add

from ptx_engine.verdict import Method, Status
from volta_pass.validate import validate

pytest.importorskip("triton")

CASES = {
    "vector_add": vector_add(),
    "softmax": softmax(2, 300, 512),
    "layer_norm": layer_norm(2, 200, 128),
    "matmul-fp16": matmul("f16"),
    "matmul-bf16": matmul("bf16"),
    "matmul-tf32": matmul("f32"),
    "attention": flash_attention(n=64, d=32, block_m=32, block_n=32),
    "attention-causal": flash_attention(True, n=64, d=32, block_m=32, block_n=16),
}
WARPS, STAGES = (1, 2, 4, 8), (1, 2, 3, 4)
MATRIX = [
    pytest.param(name, Configuration(arch, warps, stages), id=f"{name}-{Configuration(arch, warps, stages)}")
    for name, arch, warps, stages in itertools.product(CASES, (80, 89), WARPS, STAGES)
]
#: sm_75 has neither asynchronous copies nor bf16 in its tensor cores
TURING = [
    pytest.param(name, Configuration(75, warps, 2), id=f"{name}-{Configuration(75, warps, 2)}")
    for name, warps in itertools.product([name for name in CASES if name != "matmul-bf16"], (1, 4))
]
#: launches at which masks matter at no element, at one element, or everywhere; no multiple of 16 anywhere
EDGES = {
    "vector_add of one element": vector_add(1, 128),
    "vector_add of whole blocks": vector_add(256, 128),
    "vector_add with one element in the last block": vector_add(257, 128),
    "softmax of one column": softmax(2, 1, 32),
    "softmax of a whole block": softmax(1, 64, 64),
    "layer_norm of a whole block": layer_norm(1, 64, 64),
    "layer_norm with one column in the last block": layer_norm(1, 65, 32),
    "matmul of odd extents": matmul(m=35, n=17, k=19, blocks=(16, 16, 16)),
    "matmul with K = 1": matmul(m=16, n=16, k=1, blocks=(16, 16, 16)),
    "matmul of whole tiles": matmul(m=32, n=32, k=32, blocks=(16, 16, 16)),
    "matmul of one row": matmul(m=1, n=16, k=32, blocks=(16, 16, 16)),
    "attention with one block of keys": flash_attention(n=16, d=16, block_m=16, block_n=16),
    "attention with two heads": flash_attention(True, n=32, d=16, heads=2, block_m=16, block_n=16),
}


def slice_of_the_matrix():
    """Two configurations of every kernel; every architecture, number of warps and number of stages occurs four times at least."""
    rows = []
    for i, name in enumerate(CASES):
        for j, arch in enumerate((80, 89)):
            configuration = Configuration(arch, WARPS[(i + 2 * j) % 4], STAGES[(i + i // 4 + 3 * j) % 4])
            rows.append(pytest.param(name, configuration, id=f"{name}-{configuration}"))
    return rows


def assert_proved(case, configuration):
    report = validate(compiled_job(case, configuration))
    assert report.errors == [] and report.error_findings == []
    assert (report.status, report.method) == (Status.PROVED, Method.EXACT), report.reason
    assert report.ctas_executed == report.ctas_total == case.grid[0] * case.grid[1] * case.grid[2]
    written = {output.tensor: output.elements for output in report.comparisons[0].verdict.outputs}
    assert written == {arg.name: arg.storage for arg in case.args if getattr(arg, "role", None) is not None and arg.role.value == "out"}


@pytest.mark.parametrize("name, configuration", slice_of_the_matrix())
def test_a_slice_of_the_matrix(name, configuration):
    assert_proved(CASES[name], configuration)


def test_the_slice_meets_every_value():
    chosen = [row.values[1] for row in slice_of_the_matrix()]
    assert len({row.id for row in slice_of_the_matrix()}) == 16
    for attribute, values in (("arch", (80, 89)), ("warps", WARPS), ("stages", STAGES)):
        assert all(sum(getattr(c, attribute) == value for c in chosen) >= 4 for value in values)


@pytest.mark.parametrize("name", EDGES)
def test_edges_of_launches(name):
    assert_proved(EDGES[name], Configuration(80, 1, 2))


@pytest.mark.slow
@pytest.mark.parametrize("name, configuration", MATRIX + TURING)
def test_the_whole_matrix(name, configuration):
    assert_proved(CASES[name], configuration)
