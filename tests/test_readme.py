"""The README is true: every command in it is run by a test, and its tables are the program's."""

from __future__ import annotations

import ast
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from volta_pass.environment import VARIABLES
from volta_pass.report import EXIT_CODES

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


COMMANDS = [line for block in blocks("sh") for line in block.splitlines() if line]
FRESH = [command for command in COMMANDS if command.startswith("python3 -m venv")]
#: commands that do not end with 0, and those that take long
CODES = {
    "volta-pass check configs/examples/reduce_no_barrier.toml": 1,
    "volta-pass race configs/examples/reduce_no_barrier.ptx --spec configs/examples/reduce_alone.toml": 1,
    "volta-pass check configs/suite/cuda/reduce3.toml -D MUTANT=1": 1,
    "volta-pass check configs/sweep/small.toml --allow-code --jobs 2": 1,
}
SLOW = ["volta-pass bench triton", "volta-pass bench order", "volta-pass bench decide", "volta-pass bench paper"]
#: commands that need what another one has made, and the folder in which they meet
AFTER = {command: earlier for earlier, command in itertools.pairwise(COMMANDS) if " baseline check " in command}
MADE = re.compile(r"(?<= )(build/baseline|softmax\.html)")


def environment(**more: str) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("VOLTA_")}
    return {**clean, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'hooks'}", "NO_COLOR": "1", "TRITON_DEFAULT_FP_FUSION": "1", **more}


def run(command: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    words = MADE.sub(lambda made: f"{tmp_path}/{Path(made[0]).name}", command).split()
    assert words[0] == "volta-pass"
    caches = {"VOLTA_CACHE_DIR": str(tmp_path / "verdicts"), "TRITON_CACHE_DIR": str(tmp_path / "triton")}
    return subprocess.run(
        [sys.executable, "-m", "volta_pass", *words[1:]], cwd=ROOT, env=environment(**caches), capture_output=True, text=True,
        check=False, timeout=250,
    )  # fmt: skip


@pytest.mark.parametrize("command", [c for c in COMMANDS if c not in FRESH and c not in SLOW])
def test_command(command: str, tmp_path: Path) -> None:
    if command in AFTER:
        assert run(AFTER[command], tmp_path).returncode == 0
    done = run(command, tmp_path)
    assert done.returncode == CODES.get(command, 0), done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("command", SLOW)
def test_slow_command(command: str, tmp_path: Path) -> None:
    done = run(command + " --json", tmp_path)
    rows = json.loads(done.stdout)
    assert rows and all(row.keys() == {"name", "figure", "unit", "target", "met"} for row in rows)


def test_there_are_two_commands_for_a_fresh_machine() -> None:
    assert len(FRESH) == 2
    demo, tests = FRESH
    assert demo.endswith("volta-pass demo") and tests.endswith("pytest -n 2")
    for command in FRESH:
        assert "\n" not in command and ".venv/bin/pip install" in command


def test_ci_runs_the_readme_s_test_command() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert FRESH[1] in script.splitlines()
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_demo_works_from_a_clean_copy(tmp_path: Path) -> None:
    ignored = shutil.ignore_patterns(".venv", ".git", "__pycache__", ".*_cache", "dist")
    shutil.copytree(ROOT, tmp_path / "clone", ignore=ignored)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("VOLTA_", "PYTHONPATH"))}
    done = subprocess.run(["bash", "-c", FRESH[0]], cwd=tmp_path / "clone", env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "demo: as it should be" in done.stdout


def test_python_blocks_are_python() -> None:
    for block in blocks("python"):
        ast.parse(block)


def test_the_decider_answers_as_promised(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = [block for block in blocks("python") if "import decide" in block]
    exec(compile(block, "README.md", "exec"), {})  # our own text
    assert f"Status.{capsys.readouterr().out.strip().rpartition('.')[2]}" == block.rpartition("# ")[2].strip() == "Status.PROVED"


def test_tables_are_the_program_s() -> None:
    named = set(re.findall(r"^\| `(VOLTA_\w+)`", README, re.MULTILINE))
    assert named == {variable.name for variable in VARIABLES}
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", README, re.MULTILINE)}
    assert codes == {*EXIT_CODES.values(), 2, 70}


def test_paths_in_the_documents_exist() -> None:
    for document in ("README.md", "CONTRIBUTING.md", "docs/meaning.md", "docs/architecture.md"):
        text = (ROOT / document).read_text(encoding="utf-8")
        for path in re.findall(r"`((?:docs|configs|tests|ptx_engine|volta_pass|hooks)/[\w./]*\w)`?", text):
            assert (ROOT / path).exists() or (ROOT / f"{path}.py").exists(), f"{document} names {path}"


def test_licence_is_whole() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in text and "Version 2.0, January 2004" in text and "APPENDIX: How to apply the Apache License" in text
