"""The demo shows what it should, and says so if it does not."""

from __future__ import annotations

from typing import Any

import pytest

from volta_pass.cli import main
from volta_pass.cli.demo import MATMUL_CONFIGURATIONS, WRONG_BLOCK_K, unexpected


def test_the_demo_is_as_it_should_be(capfd: pytest.CaptureFixture[str]) -> None:
    code = main(["demo"])
    captured = capfd.readouterr()
    assert code == 0, captured.out + captured.err
    assert "as it should be" in captured.out
    assert "a = tl.load(a_ptrs)" in captured.err and "^ reads a_ptr" in captured.err  # the unmasked load, at its line
    assert captured.err.count("refuted") >= 2 and "best configuration" in captured.out


def kernels(**changed: str) -> list[dict[str, Any]]:
    def row(kernel: str, verdict: str, **configuration: int) -> dict[str, Any]:
        return {"kernel": kernel, "configuration": configuration, "verdict": verdict, "reason": ""}

    blocks = [WRONG_BLOCK_K, *range(1, MATMUL_CONFIGURATIONS)]
    verdicts = [changed.get("wrong", "refuted"), *[changed.get("right", "proved")] * (MATMUL_CONFIGURATIONS - 1)]
    matmuls = [row("matmul_kernel", verdict, BLOCK_K=block) for block, verdict in zip(blocks, verdicts)]
    return [*matmuls, row("attention_kernel", changed.get("attention", "proved"))]


def test_surprises_are_named() -> None:
    assert unexpected(kernels()) == []
    assert len(unexpected(kernels(wrong="proved"))) == 1
    assert len(unexpected(kernels(right="unknown"))) == MATMUL_CONFIGURATIONS - 1
    assert "attention_kernel" in unexpected(kernels(attention="unknown"))[0]
    assert "0 attentions" in unexpected(kernels()[:-1])[0]
    assert unexpected([]) != []
