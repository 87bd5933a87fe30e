"""TileLang kernels in recordings: compiled again they are the same text; a seeded miscompilation is caught; a refusal is told.

(No lazy annotations here: TileLang reads those of its kernels where they stand.)
"""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import tilelang
import tilelang.language as T

from volta_pass.baseline import Recording
from volta_pass.cli import main

ROOT = Path(__file__).resolve().parents[2]
SUITE = ROOT / "configs" / "suite" / "tilelang" / "suite.py"


def twice(n: int = 64) -> object:
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                B[i] = A[i] * 3.0

    return main


@pytest.fixture
def recorded(session, tmp_path, monkeypatch):
    """A recording of one kernel."""
    recording = Recording(tmp_path / "old")
    monkeypatch.setattr(session, "recording", recording)
    tilelang.cache._dispatch_map["tvm_ffi"]._memory_cache.clear()
    tilelang.compile(twice(), target={"kind": "cuda", "arch": "sm_80"})
    (record,) = recording.records()
    assert record.language == "tile" and record.recipe["compiler"] == "tilelang" and "refused" not in record.recipe
    assert record.report["verdict"] == "proved"
    return recording


def check(folder, capsys):
    code = main(["baseline", "check", str(folder), "--json"])
    (row,) = json.loads(capsys.readouterr().out)["kernels"]
    return code, row


def test_the_same_compiler_gives_the_same_text(recorded, capsys):
    code, row = check(recorded.folder, capsys)
    assert (code, row["change"]) == (0, "same text"), row
    assert row["after"] == {"TileLang": tilelang.__version__}


def test_a_miscompilation_is_refuted_and_blamed(recorded, capsys, monkeypatch):
    monkeypatch.setenv("_VOLTA_TEST_PTX_PATCH", "0f40400000=>0f40800000")
    code, row = check(recorded.folder, capsys)
    assert (code, row["change"]) == (1, "refuted"), row
    assert "its PTX differs from its own source" in row["blame"]


def test_another_text_of_the_same_meaning_is_proved(recorded, capsys):
    (record,) = recorded.records()
    older = re.sub(r"(f32\s+(%\w+), [^;]*)0f40400000;", r"\g<1>0f3FC00000; add.f32 \2, \2, \2;", record.ptx)
    assert older != record.ptx
    recorded.write(replace(record, ptx=older))
    code, row = check(recorded.folder, capsys)
    assert (code, row["change"]) == (0, "proved equal"), row


def test_a_damaged_recipe_and_a_refusal_are_told(recorded, capsys):
    (record,) = recorded.records()
    recorded.write(replace(record, recipe={**record.recipe, "options": {"tl.no_such_option": True}}))
    code, row = check(recorded.folder, capsys)
    assert (code, row["change"]) == (1, "no longer compiles") and row["reason"], row
    recorded.write(replace(record, recipe={**record.recipe, "kernel": 7}))
    assert main(["baseline", "check", str(recorded.folder)]) == 2
    assert "not compiled again" in capsys.readouterr().err


def test_a_program_is_recorded_from_the_command_line(tmp_path):
    """As a team does: nothing of the test's session."""
    folder = tmp_path / "recorded"
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "hooks")])}
    environ.pop("VOLTA_TARGET", None)
    program = [sys.executable, "-m", "volta_pass", "baseline", "record", str(folder), "--target", "cuda:80", "--", "python"]
    ran = subprocess.run([*program, str(SUITE), "elementwise"], env=environ, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert {record.recipe["compiler"] for record in Recording(folder).records()} == {"tilelang"}
