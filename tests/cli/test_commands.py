"""The command line: exit codes, bad input without a traceback, JSON, interruption, and the edge's own errors."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ptx_engine.errors import BudgetError, InternalError, UnsupportedError
from volta_pass.cli import main
from volta_pass.cli.main import guarded
from volta_pass.environment import VARIABLES, environment_errors, environment_warnings
from volta_pass.report import EXIT_CODES

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "configs" / "examples"
ENVIRON = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'hooks'}", "NO_COLOR": "1"}


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the examples to damage."""
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    monkeypatch.chdir(tmp_path / "examples")
    for name in list(os.environ):
        if name.startswith("VOLTA_"):
            monkeypatch.delenv(name)
    return tmp_path / "examples"


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


# --- verdicts -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.toml")))
def test_examples_have_the_verdict_in_their_header(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = EXAMPLES / f"{name}.toml"
    expected = path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# expect: ")
    code = main(["check", str(path), "--json"])
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert report["verdict"] == expected, report
    assert code == {"proved": 0, "refuted": 1}[expected]
    assert report["ctas"]["executed"] == report["ctas"]["total"] > 0
    assert report["instructions"] > 0 and report["peak_mib"] > 0
    for key in ("method", "findings", "outputs", "assumptions", "seconds"):
        assert key in report


def test_every_proved_example_has_a_wrong_twin() -> None:
    names = {path.stem: path.read_text(encoding="utf-8").splitlines()[0] for path in EXAMPLES.glob("*.toml")}
    for family in ("scale_add", "reduce", "softmax"):
        verdicts = {verdict for name, verdict in names.items() if name.startswith(family)}
        assert verdicts == {"# expect: proved", "# expect: refuted"}


def test_the_race_is_at_the_two_shared_accesses(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "reduce_no_barrier.toml", "--json"]) == 1
    findings = json.loads(capsys.readouterr().out)["findings"]
    races = [finding for finding in findings if finding["kind"] == "data race"]
    assert races and all(finding["space"] == "shared" for finding in races)
    lines = (workspace / "reduce_no_barrier.ptx").read_text(encoding="utf-8").splitlines()
    for race in races:
        texts = [lines[site["ptx_line"] - 1] for site in race["sites"]]
        assert len(texts) == 2 and all("shared.f32" in text for text in texts) and any("st.shared" in text for text in texts)


def test_the_forgotten_factor_is_named(capsys: pytest.CaptureFixture[str], workspace: Path) -> None:
    assert main(["check", "scale_add_forgets_alpha.toml"]) == 1
    text = capsys.readouterr().out
    assert "out differs from the reference" in text and "witness" in text and "alpha" in text
    assert "scale_add_forgets_alpha.ptx" not in text or "-->" in text


def test_a_candidate_alone_says_that_outputs_were_not_compared(capsys: pytest.CaptureFixture[str], workspace: Path) -> None:
    assert main(["check", "reduce_alone.toml"]) == 0
    assert "outputs were not compared" in capsys.readouterr().out


def test_race_command(capsys: pytest.CaptureFixture[str], workspace: Path) -> None:
    assert main(["race", "reduce_tree.ptx", "--spec", "reduce.toml"]) == 0
    assert "clean" in capsys.readouterr().out
    assert main(["race", "reduce_no_barrier.ptx", "--spec", "reduce.toml"]) == 1
    assert "data race on shared memory" in capsys.readouterr().out


def test_how_outputs_were_compared_is_said_where_they_were(capsys: pytest.CaptureFixture[str], workspace: Path) -> None:
    methods = []
    for command in (["race", "reduce_tree.ptx", "--spec", "reduce.toml"], ["check", "reduce.toml"]):
        main([*command, "--json"])
        methods.append(json.loads(capsys.readouterr().out)["method"])
    assert methods == ["order", "exact"]


def test_a_budget_is_unknown_never_a_pass(capsys: pytest.CaptureFixture[str], workspace: Path) -> None:
    assert main(["check", "reduce.toml", "--budget-instructions", "50", "--json"]) == EXIT_CODES_BY_NAME["unknown"]
    assert json.loads(capsys.readouterr().out)["verdict"] == "unknown"


EXIT_CODES_BY_NAME = {status.value: code for status, code in EXIT_CODES.items()}


def test_an_instruction_without_meaning_is_unsupported(capsys: pytest.CaptureFixture[str], workspace: Path) -> None:
    edit(workspace / "reduce_serial.ptx", "add.rn.f32 %f1, %f1, %f2;", "vadd.s32.s32.s32 %r1, %r1, %r1;")
    assert main(["check", "reduce.toml"]) == 4
    assert "vadd" in capsys.readouterr().out


def test_a_cuda_side_whose_file_is_missing_is_bad_input(capsys: pytest.CaptureFixture[str], workspace: Path) -> None:
    edit(workspace / "reduce.toml", 'ptx = "reduce_serial.ptx"', 'cuda = "reduce.cu"')
    assert main(["check", "reduce.toml"]) == 2
    assert "cannot read" in capsys.readouterr().err


# --- bad input ----------------------------------------------------------------------------------

#: what is damaged: (file, old, new), words of the error
BAD = [
    ("reduce.toml", "[launch]", "[launch", "not TOML"),
    ("reduce.toml", "block = [128, 1, 1]", "blok = [128, 1, 1]", 'did you mean "block"?'),
    ("reduce.toml", 'ptx = "reduce_tree.ptx"', 'ptx = "gone.ptx"', "cannot read"),
    ("reduce.toml", 'ptx = "reduce_tree.ptx"', 'ptx = "."', "cannot read"),
    ("reduce.toml", 'ptx = "reduce_tree.ptx"', 'ptx = "reduce_tree.ptx"\nentry = "reduc"', 'did you mean "reduce"?'),
    ("reduce.toml", 'ptx = "reduce_tree.ptx"', 'ptx = "reduce_tree.ptx"\nargs = ["x"]', "takes 2 arguments, but the spec gives 1"),
    ("reduce.toml", 'ptx = "reduce_tree.ptx"', 'ptx = "reduce.toml"', "parse error"),
    ("scale_add.toml", 'kind = "scalar"\ndtype = "f32"', 'kind = "scalar"\ndtype = "f64"', "argument alpha is f64 (8 bytes)"),
    ("reduce_tree.ptx", "bar.sync 0;", "bar.sync 0", "reduce_tree.ptx:"),
    ("reduce_tree.ptx", ".reg .f32 %f<5>;", "", "%f1"),
    ("reduce_tree.ptx", ".visible .entry reduce", ".visible .func reduce", "has no .entry"),
    ("reduce_tree.ptx", "bra LEVEL", "bra LEVELS", "LEVELS"),
    ("reduce.toml", '[reference]\nptx = "reduce_serial.ptx"', '[reference]\npython = "evil:fn"', "--allow-code"),
]


@pytest.mark.parametrize(("file", "old", "new", "said"), BAD)
def test_bad_input_is_one_clear_error(
    file: str, old: str, new: str, said: str, workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(workspace / file, old, new)
    spec = file if file.endswith(".toml") else "reduce.toml"
    assert main(["check", spec]) == 2
    captured = capsys.readouterr()
    assert said in captured.err and captured.out == ""
    assert "Traceback" not in captured.err and "internal error" not in captured.err
    assert "-->" in captured.err


def test_unreadable_spec(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["check", str(tmp_path / "none.toml")]) == 2
    assert "cannot read" in capsys.readouterr().err
    assert main(["check", str(tmp_path)]) == 2
    (tmp_path / "b.toml").write_bytes(b"\xff\xfe\x00")
    assert main(["check", str(tmp_path / "b.toml")]) == 2


@pytest.mark.parametrize("argv", [[], ["chek"], ["check"], ["check", "a", "--budget-seconds", "-1"], ["race", "k.ptx"], ["bench", "x"]])
def test_usage_errors_leave_with_2(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(argv)
    assert caught.value.code == 2
    assert "usage:" in capsys.readouterr().err


# --- code in specs ------------------------------------------------------------------------------


def test_python_references_need_permission(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (workspace / "sums.py").write_text("raise SystemError('imported')\n", encoding="utf-8")
    edit(workspace / "reduce.toml", 'ptx = "reduce_serial.ptx"', 'python = "sums.py:total"')
    assert main(["check", "reduce.toml"]) == 2
    assert "pass --allow-code" in capsys.readouterr().err
    assert main(["check", "reduce.toml", "--allow-code"]) == 2
    assert "importing sums.py failed: SystemError: imported" in capsys.readouterr().err
    (workspace / "sums.py").write_text("other = 1\n", encoding="utf-8")
    assert main(["check", "reduce.toml", "--allow-code"]) == 2
    assert "has no 'total'" in capsys.readouterr().err


# --- the edge -----------------------------------------------------------------------------------


def raising(error: BaseException) -> int:
    def step() -> int:
        raise error

    return guarded(step)


def test_the_edge_turns_errors_into_codes(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VOLTA_DEBUG", raising=False)
    assert raising(UnsupportedError("x")) == 4
    assert raising(BudgetError("x")) == 3
    assert raising(KeyboardInterrupt()) == 130
    capsys.readouterr()
    for error in (InternalError("odd"), ZeroDivisionError("odd")):
        assert raising(error) == 70
        text = capsys.readouterr().err
        assert "defect of volta-pass" in text and "odd" in text and "Traceback" not in text and "versions" in text
    monkeypatch.setenv("VOLTA_DEBUG", "1")
    assert raising(ZeroDivisionError("odd")) == 70
    assert "Traceback" in capsys.readouterr().err


def test_variables_are_validated(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    good = ("warn", "cuda:80", "r.json", "10", "all", "2", "exact", "/tmp", "64", "memory://x", "ro", "/tmp", "1")
    assert environment_errors({v.name: value for v, value in zip(VARIABLES, good, strict=True)}) == []
    for name, value in [
        ("VOLTA_VALIDATE", "2"),
        ("VOLTA_TARGET", "sm_80"),
        ("VOLTA_SECONDS", "-1"),
        ("VOLTA_CTAS", "0"),
        ("VOLTA_JOBS", "0"),
    ]:
        assert len(environment_errors({name: value})) == 1
    assert environment_warnings({"VOLTA_HOME": "x", "VOLTA_VALIDATE": "1"}) == []
    assert "did you mean VOLTA_REPORT" in environment_warnings({"VOLTA_REPRT": "x"})[0]
    monkeypatch.setenv("VOLTA_VALIDATE", "maybe")
    assert main(["doctor"]) == 2
    assert "VOLTA_VALIDATE='maybe' must be" in capsys.readouterr().err


def test_doctor(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VOLTA_VALIDATE", raising=False)
    assert main(["doctor", "--json"]) == 0
    facts = {fact["subject"]: fact for fact in json.loads(capsys.readouterr().out)}
    assert {"python", "numpy", "gmpy2", "triton", "tilelang", "mlir binding", "autoload", "gpu", "validation"} <= facts.keys()
    assert facts["numpy"]["state"] == "ok" and facts["validation"]["text"].startswith("off")
    assert main(["doctor"]) == 0
    assert "numpy" in capsys.readouterr().out


# --- processes ----------------------------------------------------------------------------------


def volta_pass(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "volta_pass", *arguments]
    return subprocess.run(command, env={**ENVIRON, **environ}, capture_output=True, text=True, check=False, timeout=120)


def test_a_closed_pipe_is_no_error() -> None:
    command = f"{sys.executable} -m volta_pass check {EXAMPLES / 'reduce_alone.toml'} --json | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], env=ENVIRON, capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout.strip() == "0" and "Traceback" not in done.stderr


def test_run_passes_arguments_and_exit_code(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import sys, os\nprint(sys.argv[1:], __name__, os.environ['VOLTA_VALIDATE'])\nsys.exit(5)\n", encoding="utf-8")
    done = volta_pass("run", str(program), "a", "--b", "c")
    assert done.returncode == 5, done.stderr
    assert "['a', '--b', 'c'] __main__ 1" in done.stdout
    assert volta_pass("run", str(tmp_path / "gone.py")).returncode == 2


def test_cache_shows_verifies_and_clears(tmp_path, monkeypatch, capsys):
    from volta_pass.store import Store, digest

    monkeypatch.setenv("VOLTA_CACHE_DIR", str(tmp_path))
    store = Store()
    for text in ("a", "b", "c"):
        store.put_json("verdicts", digest(text), {"text": text})
    assert main(["cache", "stats"]) == 0
    assert "3 entries" in capsys.readouterr().out
    assert main(["cache", "stats", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["places"][0]["kinds"]["verdicts"]["entries"] == 3
    path = store.local.path(Store.name("verdicts", digest("b")))
    path.write_bytes(path.read_bytes()[:-1])
    assert main(["cache", "verify", "--json"]) == 1
    damaged = json.loads(capsys.readouterr().out)
    assert damaged["whole"] == 2 and digest("b") in damaged["damaged"][0]
    assert main(["cache", "verify"]) == 0
    capsys.readouterr()
    assert main(["cache", "clear", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"removed": 2}
    assert main(["cache", "stats"]) == 0
    assert "0 entries" in capsys.readouterr().out
