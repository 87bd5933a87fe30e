"""A tuner that knows its winner launches it alone: still compared with the first configuration's source, at the new launch."""

from __future__ import annotations

ON = {"VOLTA_VALIDATE": "1", "VOLTA_TARGET": "cuda:80"}

#: the second configuration is measured as the fastest; it is right where 64 divides K, and else reads into the next row
PROGRAM = """
import triton
import triton.language as tl
from volta_pass import TensorSpec

times = iter([2.0, 1.0])

def bench(call, quantiles):
    call()
    return [next(times)] * 3

@triton.autotune([triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 64})], key=["M"], do_bench=bench)
@triton.jit
def rows(x_ptr, o_ptr, M, K, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for k in range(0, K, BLOCK):
        total += tl.load(x_ptr + tl.program_id(0) * K + k + tl.arange(0, BLOCK))
    tl.store(o_ptr + tl.program_id(0), tl.sum(total))

def launch(K):
    rows[(4,)](TensorSpec((8, K)), TensorSpec((4,)), 4, K)

"""


def test_a_winner_is_compared_with_the_first_configuration_at_every_launch(run_program):
    ran = run_program(
        PROGRAM + "launch(64)\nlaunch(128)\ntry:\n    launch(96)\nexcept Exception as error:\n    print(type(error).__name__)\n", **ON
    )
    found = [(row["configuration"]["BLOCK"], row["verdict"]) for row in ran.kernels]
    assert found == [(32, "proved"), (64, "proved"), (64, "proved"), (64, "refuted")], ran.err
    assert ran.out.strip() == "KernelRefuted"
    assert ran.kernels[-1]["blame"]["party"] == "kernel"
    references = [row["against"] for row in ran.kernels[2]["comparisons"]]
    assert len(references) == 2  # its own source and the first configuration's


def test_a_first_configuration_that_cannot_be_compiled_is_in_the_ledger(run_program):
    broken = PROGRAM.replace("    total = tl", "    tl.static_assert(BLOCK > K)\n    total = tl").replace(
        "M, K, B", "M, K: tl.constexpr, B"
    )
    ran = run_program(broken.replace("BLOCK > K", "BLOCK != 32 or K != 128") + "launch(64)\nlaunch(128)\n", **ON)
    assert [row["verdict"] for row in ran.kernels] == ["proved"] * 3, ran.err
    assert any("no other configuration met this launch" in line for line in ran.kernels[2]["assumptions"])
    assert not any("no other configuration" in line for row in ran.kernels[:2] for line in row["assumptions"])
