"""``volta-pass bench order``: its arithmetic on figures that are known, the accesses that it counts, and its rows."""

from __future__ import annotations

import json

import pytest

from ptx_engine.launch import Launch, NullArg, Role, ScalarArg, TensorArg
from volta_pass.cli import bench, bench_exec, bench_order, main
from volta_pass.cli.bench_order import CASES, Cost, at_size, cost, exponent, figures


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_the_exponent_of_a_power_is_its_power(power: float) -> None:
    sizes = [10, 100, 1000]
    assert exponent(sizes, [3 * n**power for n in sizes]) == pytest.approx(power)


def test_figures_of_known_costs() -> None:
    case = CASES[0]
    grown = [(0.1 * size, 1_000_000 * size) for size in case.sizes]
    rows = figures(case, Cost(1.5, 1.0, 0.5, 1000), grown)
    assert [row[1] for row in rows] == pytest.approx([50, *(0.1 for _ in case.sizes), 1.0])
    assert [row[2] for row in rows] == ["%", *("s/M" for _ in case.sizes), "exponent"]
    assert rows[0][3] == 60


def test_the_accesses_of_a_known_kernel_are_counted() -> None:
    """128 threads: a turn stores 1 + 8 elements to shared memory and loads 2 * 32 of them; one store to global memory at the end. Loads of
    what nobody may write are not checked."""
    case = bench_exec.Case(128, 1, 3, 0)
    args = (
        TensorArg("a", "f32", (1024,), Role.IN), TensorArg("b", "f32", (1024,), Role.IN), TensorArg("out", "f32", (128,), Role.OUT),
        ScalarArg("tiles", "u32", case.turns),
    )  # fmt: skip
    found = cost(bench_exec.kernel(case), Launch((1, 1, 1), (128, 1, 1), args), repeats=1)
    assert found.accesses == 128 * (case.turns * (1 + 8 + 64) + 1)
    assert found.checked_s > found.order_s > 0 and found.unchecked_s > 0


def test_a_kernel_with_findings_has_no_cost() -> None:
    case = bench_exec.Case(128, 1, 3, 0)
    racy = bench_exec.kernel(case).replace("bar.sync 0;", "", 1)
    args = (
        TensorArg("a", "f32", (1024,), Role.IN), TensorArg("b", "f32", (1024,), Role.IN), TensorArg("out", "f32", (128,), Role.OUT),
        ScalarArg("tiles", "u32", case.turns),
    )  # fmt: skip
    with pytest.raises(AssertionError, match="data race"):
        cost(racy, Launch((1, 1, 1), (128, 1, 1), args), repeats=1)


@pytest.mark.parametrize("threads", [128, 512])
def test_what_is_held_about_a_small_tile(threads: int) -> None:
    """Every thread reads 64 elements of each of two tiles of 1024 between two barriers: their addresses have 4 bytes at least."""
    held = bench_order.shadow_bytes(threads)
    assert min(64 * threads * 4 / 8192, 16) <= held <= bench_order.SHADOW_TARGET


def test_sizes_change_extents_and_their_arguments_only() -> None:
    matmul, attention = CASES
    a, b, c = (TensorArg(name, "f16", shape, Role.IN) for name, shape in (("a", (128, 512)), ("b", (512, 128)), ("c", (128, 128))))
    scalars = [ScalarArg(name, "s32", value) for name, value in (("K", 512), ("stride_am", 512), ("M", 128))]
    launch = at_size(matmul, Launch((1, 1, 1), (128, 1, 1), (a, b, c, *scalars, NullArg())), 64)
    assert [arg.shape for arg in launch.args if isinstance(arg, TensorArg)] == [(128, 64), (64, 128), (128, 128)]
    assert [arg.value for arg in launch.args if isinstance(arg, ScalarArg)] == [64, 64, 128]
    q = TensorArg("q", "f16", (1, 1024, 64), Role.IN)
    scalars = [ScalarArg(name, "s32", value) for name, value in (("N_CTX", 1024), ("stride_h", 65536), ("stride_n", 64))]
    launch = at_size(attention, Launch((8, 1, 1), (128, 1, 1), (q, *scalars)), 512)
    assert [getattr(arg, "shape", getattr(arg, "value", 0)) for arg in launch.args] == [(1, 512, 64), 512, 32768, 64]


def test_the_command_prints_rows(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(bench_order, "measure", lambda: [("good", 10.0, "%", 60.0), ("bad", 70.0, "%", 60.0)])
    assert main(["bench", "order", "--json"]) == 1
    rows = json.loads(capsys.readouterr().out)
    assert [(row["name"], row["figure"], row["unit"], row["target"], row["met"]) for row in rows] == [
        ("good", 10.0, "%", 60.0, True),
        ("bad", 70.0, "%", 60.0, False),
    ]
    assert "order" in bench.BENCHES


@pytest.mark.slow
def test_order_checking_stays_within_its_bounds(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("triton")
    code = main(["bench", "order", "--json"])
    rows = json.loads(capsys.readouterr().out)
    assert code == 0 and all(row["met"] for row in rows), rows
    assert {row["unit"] for row in rows} == {"%", "s/M", "exponent"}
