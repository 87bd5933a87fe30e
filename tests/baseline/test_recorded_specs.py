"""Launch specs in recordings: sweeps, macros, workers and reports as in ``check``; refusals and miscompilations of a spec's own kernel."""

import json
import shutil
from pathlib import Path

import pytest

from volta_pass.baseline import Recording
from volta_pass.cli import main

pytest.importorskip("triton")
ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "configs" / "examples"
PATCH = "_VOLTA_TEST_PTX_PATCH"
SUFFIXES = (".html", ".md", ".json", ".junit.xml", ".sarif")

SPEC = """
[launch]
grid = 2
[[args]]
name = "x"
kind = "tensor"
dtype = "f32"
shape = [100]
role = "in"
[[args]]
name = "out"
kind = "tensor"
dtype = "f32"
shape = [100]
role = "out"
[candidate]
triton = "kernels.py:tripled"
target = "cuda:80"
[sweep]
constexprs = {BLOCK = [64, 128]}
"""
KERNELS = """
import triton
import triton.language as tl

@triton.jit
def tripled(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < 100) * 3, at < 100)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VOLTA_CACHE_DIR", str(tmp_path / "cache"))
    Path("kernels.py").write_text(KERNELS)
    Path("spec.toml").write_text(SPEC)
    return tmp_path


def told(capsys, *words):
    code = main(["baseline", *words, "--json"])
    return code, json.loads(capsys.readouterr().out)["kernels"]


def test_a_sweep_is_recorded_and_each_configuration_compiled_again(folder, capsys, monkeypatch):
    assert told(capsys, "record", "old", "--allow-code", "spec.toml") == (0, 2)
    for record in Recording(folder / "old").records():
        assert record.report["verdict"] == "proved" and record.source and "tt.func" in record.source
    code, kernels = told(capsys, "check", "old", "--allow-code")
    assert code == 0 and [(k["configuration"]["BLOCK"], k["change"]) for k in kernels] == [("128", "same text"), ("64", "same text")]
    monkeypatch.setenv(PATCH, "0f40400000=>0f40800000")
    code, kernels = told(capsys, "check", "old", "--allow-code")
    assert code == 1 and {k["change"] for k in kernels} == {"refuted"}
    assert all("its PTX differs from its own source" in k["blame"] for k in kernels)


def test_what_the_compiler_refuses_and_what_is_gone_are_outcomes(folder, capsys):
    assert told(capsys, "record", "old", "spec.toml", "--allow-code")[0] == 0
    Path("kernels.py").write_text(KERNELS.replace("tl.arange(0, BLOCK)", "tl.arange(0, 3)"))
    code, kernels = told(capsys, "check", "old", "--allow-code")
    assert code == 1 and {k["change"] for k in kernels} == {"no longer compiles"}
    assert all("power of 2" in k["reason"] for k in kernels)
    Path("kernels.py").write_text(KERNELS)
    Path("spec.toml").write_text(SPEC.replace("[64, 128]", "[128, 256]"))
    code, kernels = told(capsys, "check", "old", "--allow-code")
    assert code == 4 and sorted(k["change"] for k in kernels) == ["same text", "unsupported"]
    assert main(["baseline", "check", "old"]) == 2  # the code that a spec names is imported only when that is allowed
    assert "--allow-code" in capsys.readouterr().err


def test_workers_say_what_one_process_says(folder, capsys):
    for name in ("scale_add", "softmax"):
        for path in EXAMPLES.glob(f"{name}*"):
            shutil.copy(path, folder)
    specs = ["scale_add.toml", "softmax.toml", "scale_add_forgets_alpha.toml"]
    recorded = []
    for jobs in ("1", "2"):
        assert told(capsys, "record", f"rec{jobs}", *specs, "--jobs", jobs) == (0, 3)
        recorded.append([(r.label(), r.ptx, r.report["verdict"]) for r in Recording(folder / f"rec{jobs}").records()])
    assert recorded[0] == recorded[1] and sorted(row[2] for row in recorded[0]) == ["proved", "proved", "refuted"]
    newer = Recording(folder / "rec2")
    for record in newer.records():
        from dataclasses import replace

        newer.write(replace(record, ptx=record.ptx.replace("ret;", "bar.sync 0; ret;"), toolchain={"a compiler": "2"}))
    one, two = (told(capsys, "diff", "rec1", "rec2", "--jobs", jobs) for jobs in ("1", "2"))
    assert one[0] == two[0] == 0 and [k["change"] for k in one[1]] == ["proved equal"] * 3
    assert [timeless(k) for k in one[1]] == [timeless(k) for k in two[1]]


def timeless(row):
    report = {name: value for name, value in row["report"].items() if name not in ("seconds", "peak_mib")}
    return {**row, "report": report}


def test_two_specs_of_one_kernel_and_launch_are_two_entries(folder, capsys):
    for path in EXAMPLES.glob("scale_add*"):
        shutil.copy(path, folder)
    shutil.copy("scale_add.toml", "again.toml")
    assert told(capsys, "record", "old", "scale_add.toml", "again.toml") == (0, 2)


def test_macros_are_recorded(folder, capsys):
    for path in (ROOT / "configs" / "suite" / "cuda").iterdir():
        if path.is_file():
            shutil.copy(path, folder)
    assert main(["baseline", "record", "old", "reduce3.toml", "-D", "MUTANT=1"]) == 0
    (record,) = Recording(folder / "old").records()
    assert record.report["verdict"] == "refuted" and record.configuration["MUTANT"] == "1"
    capsys.readouterr()
    assert told(capsys, "check", "old")[1][0]["change"] == "same text"
    assert main(["baseline", "record", "plain", "reduce3.toml"]) == 0
    assert Recording(folder / "plain").records()[0].report["verdict"] == "proved"


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_action_writes_reports(folder, capsys, suffix, monkeypatch):
    for path in EXAMPLES.glob("scale_add*"):
        shutil.copy(path, folder)
    record, check, diff = (f"{name}{suffix}" for name in ("record", "check", "diff"))
    assert main(["baseline", "record", "old", "scale_add_forgets_alpha.toml", "--report", record]) == 0
    assert main(["baseline", "diff", "old", "old", "--report", diff]) == 0
    shutil.copy("scale_add_scalar.ptx", "scale_add_forgets_alpha.ptx")
    assert main(["baseline", "check", "old", "--report", check]) == 1
    wrong, same = (Path(record).read_text(), Path(check).read_text()), Path(diff).read_text()
    mark = {".sarif": '"level": "error"', ".junit.xml": "<failure", ".json": '"verdict": "refuted"'}.get(
        suffix, "differs from the reference"
    )
    assert all(mark in text for text in wrong) and mark not in same


def test_a_program_is_recorded_with_a_report(folder, capfd):
    program = (
        KERNELS + "import numpy as np\nx, out = np.zeros(100, np.float32), np.zeros(100, np.float32)\ntripled[(2,)](x, out, BLOCK=64)\n"
    )
    Path("program.py").write_text(program)
    words = ["record", "old", "--target", "cuda:80", "--jobs", "2", "--report", "r.json", "--", "python", "program.py"]
    assert main(["baseline", *words]) == 0
    assert [kernel["verdict"] for kernel in json.loads(Path("r.json").read_text())["kernels"]] == ["proved"]
    assert len(Recording(folder / "old").records()) == 1


@pytest.mark.parametrize("words", [["--scheduler", "tcp://127.0.0.1:1", "--", "python", "p.py"], ["a.toml", "--report", "r.pdf"]])
def test_bad_words_are_said_before_the_work(folder, words, capsys):
    assert main(["baseline", "record", "old", *words]) == 2
    assert "help: " in capsys.readouterr().err and not (folder / "old").exists()
