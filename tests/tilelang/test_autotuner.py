"""Autotuning without a GPU: a wrong configuration is dropped and blamed, and cannot win; grouped or one by one."""

from __future__ import annotations

from pathlib import Path

import autotune
import pytest
import torch
from tilelang.autotuner import AutoTuner

import volta_pass
from ptx_engine.verdict import Status
from volta_hooks.tilelang_tuner import current_tuned

WRONG = {"block_M": 32, "block_N": 32, "block_K": 64, "num_stages": 2}


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TileLang's tuner writes a log where it runs."""
    monkeypatch.chdir(tmp_path)


def split(reports: list) -> tuple[list, list]:
    wrong = [report for report in reports if report.status is Status.REFUTED]
    return wrong, [report for report in reports if report not in wrong]


def check(reports: list, count: int) -> None:
    wrong, right = split(reports)
    assert len(wrong) + len(right) == count
    assert all(report.status is Status.PROVED for report in right), [(r.configuration, r.reason, r.errors) for r in right]
    (report,) = wrong
    assert {name: report.configuration[name] for name in WRONG} == WRONG
    assert report.blame.party == "kernel"
    assert "autotune.py" in report.blame.user_loc
    (output,) = report.comparisons[-1].verdict.outputs
    assert output.explanation is not None
    assert output.explanation.missing_total == 32


@pytest.mark.timeout(1500)  # twelve runs of nvcc
def test_twelve_configurations_one_wrong(session, capsys) -> None:
    before = len(session.reports)
    assert WRONG in autotune.CONFIGS
    kernel = autotune.matmul(autotune.M, autotune.N, autotune.K)
    check(session.reports[before:], 12)
    assert kernel.config != WRONG
    assert kernel(torch.zeros(64, 96).half(), torch.zeros(96, 64).half()).shape == (64, 64)
    shown = capsys.readouterr().err
    assert "C differs from the reference" in shown
    assert "block_K=64 num_stages=2" in shown
    assert current_tuned() is None


@pytest.mark.parametrize("first", [0, 1])
def test_grouped_compilation_drops_only_the_wrong_one(session, first: int) -> None:
    """Several configurations in one module; ``first`` rotates them, so that the wrong one is not always the last."""
    chosen = [dict(autotune.CONFIGS[i]) for i in (0, 3)]
    configs = chosen[:1] + ([WRONG, chosen[1]] if first else [chosen[1], WRONG])
    before = len(session.reports)
    tuner = AutoTuner(_build, configs).set_compile_args(out_idx=[-1], target={"kind": "cuda", "arch": "sm_80"}, execution_backend="tvm_ffi")
    result = tuner.run(enable_grouped_compile=True, group_compile_size=3)
    check(session.reports[before:], 3)
    assert result.config != WRONG


def _build(block_M=64, block_N=64, block_K=32, num_stages=2):
    return autotune.matmul.jit_impl.get_tir(64, 64, 96, block_M=block_M, block_N=block_N, block_K=block_K, num_stages=num_stages)


def test_a_reference_function_decides(session) -> None:
    """With a function that says what the kernel computes no configuration is taken on trust."""
    volta_pass.reference(lambda A, B: A @ B)(autotune.matmul.jit_impl)
    try:
        before = len(session.reports)
        autotune.matmul.jit_impl.compile(64, 64, 96, **autotune.CONFIGS[0])
        (report,) = session.reports[before:]
        assert (report.status, len(report.comparisons)) == (Status.PROVED, 2)
    finally:
        del autotune.matmul.jit_impl.__volta_reference__
