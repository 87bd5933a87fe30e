"""``volta-pass demo``: an unmodified Triton program under the real hook, and what should have been found in it."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from ptx_engine.errors import LaunchError
from volta_pass.cli.run import checked, run_program
from volta_pass.configs_folder import configs_folder
from volta_pass.doctor import examine

#: the configuration of ``configs/demo/autotuned.py`` whose BLOCK_K does not divide K = 96
WRONG_BLOCK_K = 64
MATMUL_CONFIGURATIONS = 6


def command(args: argparse.Namespace) -> int:
    """Run the demo; 0 if exactly the wrong configuration was refuted and everything else proved."""
    missing = [fact for fact in examine() if fact.subject in ("triton", "mlir binding") and fact.state != "ok"]
    if missing:
        raise LaunchError(f"the demo needs Triton and an MLIR binding: {missing[0].subject} {missing[0].text}", hint=missing[0].remedy)
    program = configs_folder() / "demo" / "autotuned.py"
    checked({"VOLTA_TARGET": args.target})
    print(f"running {program} with VOLTA_VALIDATE=1 VOLTA_TARGET={args.target}\n", flush=True)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="volta-pass-demo-") as folder:
        report = Path(folder) / "report.json"
        # caches of their own: the demo shows real work, and leaves nothing behind
        environ = {**os.environ, "VOLTA_VALIDATE": "1", "VOLTA_TARGET": args.target, "VOLTA_REPORT": str(report)}
        environ |= {"VOLTA_CACHE_DIR": str(Path(folder) / "verdicts"), "TRITON_CACHE_DIR": str(Path(folder) / "triton")}
        environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
        code = run_program(str(program), [], environ)
        kernels = json.loads(report.read_text(encoding="utf-8"))["kernels"] if report.is_file() else []
    surprises = unexpected(kernels)
    if code != 0:
        surprises.insert(0, f"the program ended with exit code {code}")
    print(_conclusion(surprises, time.perf_counter() - start))
    return 1 if surprises else 0


def unexpected(kernels: list[dict[str, Any]]) -> list[str]:
    """What differs from what the demo should show, one sentence each."""
    matmuls = [k for k in kernels if k["kernel"] == "matmul_kernel"]
    attentions = [k for k in kernels if k["kernel"] == "attention_kernel"]
    said = []
    configurations = {json.dumps(k["configuration"], sort_keys=True) for k in matmuls}
    if len(configurations) != MATMUL_CONFIGURATIONS or not attentions:
        said.append(f"{len(configurations)} matmul configurations and {len(attentions)} attentions were validated")
    for kernel in kernels:
        wrong = kernel["kernel"] == "matmul_kernel" and kernel["configuration"].get("BLOCK_K") == WRONG_BLOCK_K
        expected = "refuted" if wrong else "proved"
        if kernel["verdict"] != expected:
            said.append(f"{kernel['kernel']} {kernel['configuration']} is {kernel['verdict']}, not {expected}: {kernel['reason']}")
    return said


def _conclusion(surprises: list[str], seconds: float) -> str:
    if not surprises:
        return (
            f"\ndemo: as it should be, in {seconds:.1f} s. The configuration with BLOCK_K={WRONG_BLOCK_K} was refuted and could not win the"
            "\ntuning; the five others and the flash attention were proved equal to their sources, over the reals, for all inputs."
        )
    return "\n".join([f"\ndemo: NOT as it should be, after {seconds:.1f} s", *(f"  {line}" for line in surprises)])
