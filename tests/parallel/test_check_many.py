"""Many specs at once: the same reports as one after the other, the worst exit code, failures that stay with their own spec."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import volta_pass
from ptx_engine.launch import Launch, Role, TensorArg
from volta_pass.cli import main
from volta_pass.job import FunctionReference, ValidationJob

EXAMPLES = Path(__file__).parent.parent.parent / "configs" / "examples"
SPECS = [str(EXAMPLES / f"{name}.toml") for name in ("softmax", "softmax_half_sum", "reduce_no_barrier", "scale_add", "reduce_alone")]
#: what the headers of the examples promise
VERDICTS = ["proved", "refuted", "refuted", "proved", "proved"]


def timeless(document: Any) -> str:
    """JSON text without what was measured: seconds and memory."""
    if isinstance(document, str):
        document = json.loads(document)
    for row in document["kernels"]:
        del row["seconds"], row["peak_mib"]
    return json.dumps(document)


def test_workers_say_what_one_process_says(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    texts = []
    for extra in ([], ["--jobs", "2", "--report", str(tmp_path / "all.json")]):
        assert main(["check", *SPECS, "--json", *extra]) == 1
        texts.append(timeless(capsys.readouterr().out))
    assert texts[0] == texts[1] == timeless((tmp_path / "all.json").read_text())
    rows = json.loads(texts[0])["kernels"]
    assert [row["verdict"] for row in rows] == VERDICTS
    assert [row["configuration"]["spec"] for row in rows] == SPECS


def test_one_table_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", SPECS[0], SPECS[1], "--no-color"]) == 1
    out = capsys.readouterr().out
    assert out.count("kernel ") == 1 + out.count("kernel 0.25") and "softmax_half_sum.ptx:33" in out
    assert "proved" in out.split("kernel ")[-1] and "refuted" in out.split("kernel ")[-1]


@pytest.mark.parametrize(("specs", "code"), [((0, 3), 0), ((0, 1), 1), ((0, None), 2), ((1, None), 1)])
def test_the_exit_code_is_the_worst(specs: tuple[int | None, ...], code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.toml"
    bad.write_text("[launch]\n")
    assert main(["check", *(str(bad) if n is None else SPECS[n] for n in specs)]) == code
    assert ("spec error" in capsys.readouterr().out) == (None in specs)


def test_a_missing_spec_takes_no_other_with_it() -> None:
    found = volta_pass.check_many([EXAMPLES / "missing.toml", SPECS[0]], workers=2)
    assert [report.verdict for report in found] == ["unknown", "proved"]
    assert "cannot read" in found[0].reason


def test_any_executor_and_specs_already_read() -> None:
    with ThreadPoolExecutor(2) as threads:
        found = volta_pass.check_many([volta_pass.read_spec(SPECS[1]), SPECS[0]], executor=threads)
    assert [report.verdict for report in found] == ["refuted", "proved"]


def test_a_worker_without_memory_is_an_unknown() -> None:
    (report, other) = volta_pass.check_many([SPECS[0], SPECS[3]], workers=2, memory_mib=48, retries=1)
    assert report.verdict == other.verdict == "unknown"  # (NumPy alone needs more)
    assert report.reason


def test_jobs_and_scheduler_do_not_go_together(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", SPECS[0], "--jobs", "2", "--scheduler", "tcp://127.0.0.1:1"]) == 2
    assert "--jobs and --scheduler" in capsys.readouterr().err


# --- validate_many ------------------------------------------------------------------------------


def twice(x: Any) -> Any:
    return x + x


def thrice(x: Any) -> Any:
    return x + x + x


PTX = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry twice(.param .u64 x, .param .u64 y) {
  .reg .b64 %rd<4>; .reg .b32 %r<2>; .reg .f32 %f<3>;
  ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y];
  mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd1, %rd1, %rd3; add.s64 %rd2, %rd2, %rd3;
  ld.global.f32 %f1, [%rd1]; add.f32 %f2, %f1, %f1; st.global.f32 [%rd2], %f2; ret;
}
"""


def job(fn: Any) -> ValidationJob:
    launch = Launch((1, 1, 1), (32, 1, 1), (TensorArg("x", "f32", (32,), Role.IN), TensorArg("y", "f32", (32,), Role.OUT)))
    reference = FunctionReference(fn, {"x": "x"}, ("y",), getattr(fn, "__name__", "fn"))
    return ValidationJob("twice", PTX, launch, reference=reference, contents={"x": lambda: np.zeros(32)}, configuration={"n": 32})


@pytest.mark.parametrize("workers", [1, 2])
def test_jobs_are_validated_in_their_order(workers: int) -> None:
    found = volta_pass.validate_many([job(twice), job(thrice), job(twice)], workers=workers)
    assert [report.verdict for report in found] == ["proved", "refuted", "proved"]


def test_a_function_that_cannot_be_sent_is_an_unknown() -> None:
    found = volta_pass.validate_many([job(lambda x: x + x), job(twice)], workers=2)
    assert [report.verdict for report in found] == ["unknown", "proved"]
    assert found[0].configuration == {"n": 32} and "ickl" in found[0].reason
