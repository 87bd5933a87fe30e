"""``pytest --volta`` on small projects, each in a process and folder of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")
ROOT = Path(__file__).parents[2]

HEAD = """
import numpy as np, pytest, triton
import triton.language as tl

@triton.jit
def right(x, out, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + at, tl.load(x + at, at < n) * 2, at < n)

@triton.jit
def wrong(x, out, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + at, tl.load(x + at, at < n) * 2)

def launch(kernel, n=100):
    x, out = np.zeros(n, np.float32), np.zeros(n, np.float32)
    kernel[(2,)](x, out, n, B=64)
"""


@pytest.fixture
def run(tmp_path):
    def run(tests, *words, **environ):
        (tmp_path / "test_kernels.py").write_text(HEAD + tests)
        env = {k: v for k, v in os.environ.items() if not k.startswith(("VOLTA_", "PYTEST_"))}
        env |= {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "hooks")]), "VOLTA_CACHE_DIR": str(tmp_path / "cache")}
        env |= {"TRITON_CACHE_DIR": str(tmp_path / "triton"), "TRITON_DEFAULT_FP_FUSION": "1", "NO_COLOR": "1", **environ}
        plugin = [] if _installed() else ["-p", "volta_hooks.pytest_plugin"]
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugin, *words, "test_kernels.py"]
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=200)
        return done.returncode, done.stdout + done.stderr

    return run


def _installed():
    from importlib.metadata import entry_points

    return any(point.value == "volta_hooks.pytest_plugin" for point in entry_points(group="pytest11"))


TARGET = ("--volta", "--volta-target", "cuda:80")


def test_a_refuted_kernel_fails_its_test_with_the_diagnostic(run):
    tests = "def test_right(): launch(right)\ndef test_wrong():\n    try: launch(wrong)\n    except Exception: pass\n"
    code, text = run(tests, *TARGET)
    assert code == 1 and "1 failed, 1 passed" in text
    assert "out of bounds" in text and "test_kernels.py:" in text
    assert "2 kernel launches validated: 1 proved, 1 refuted" in text
    assert "refuted     wrong B=64 num_warps=4 num_stages=3  test_kernels.py::test_wrong" in text


def test_without_the_option_nothing_is_validated(run):
    code, text = run("import sys\ndef test_it(): assert not any(m.startswith(('volta_pass', 'ptx_engine')) for m in sys.modules)\n")
    assert code == 0 and "1 passed" in text and "volta:" not in text


def test_reports_of_a_test_s_own_session_are_its_own_affair(run):
    tests = (
        "def test_it():\n    from volta_hooks.policy import Mode\n    from volta_hooks.session import Session\n"
        "    from volta_pass.kernel_report import KernelReport\n    from ptx_engine.verdict import Status\n"
        "    Session(Mode.ON).reports.append(KernelReport('k', status=Status.REFUTED))\n"
    )
    assert run(tests)[0] == 0
    code, text = run(tests, *TARGET)
    assert code == 1 and "1 failed" in text


def test_expected_refutations(run):
    tests = (
        "@pytest.mark.volta_refuted\ndef test_any(): launch(wrong)\n"
        "@pytest.mark.volta_refuted('wrong')\ndef test_again(): launch(wrong)\n"
        "@pytest.mark.volta_refuted(kernel='wrong')\ndef test_named(): launch(wrong, 90)\n"
        "@pytest.mark.volta_refuted\ndef test_none(): launch(right)\n"
        "@pytest.mark.volta_refuted('right')\ndef test_other(): launch(wrong, 80)\n"
    )
    code, text = run(tests, *TARGET)
    assert code == 1 and "2 failed, 3 passed" in text
    assert "marked volta_refuted, but no kernel was refuted (right: proved)" in text
    assert "4 kernel launches validated: 1 proved, 3 refuted as expected" in text


def test_the_fixture_returns_the_report_and_fails_the_test_of_a_refuted_kernel(run):
    tests = (
        "x, out = np.zeros(100, np.float32), np.zeros(100, np.float32)\n"
        "def test_right(volta_check): assert volta_check(right, (2,), x, out, 100, B=64).verdict == 'proved'\n"
        "def test_wrong(volta_check): volta_check(wrong, (2,), x, out, 100, B=64)\n"
        "@pytest.mark.volta_refuted\ndef test_expected(volta_check): assert volta_check(wrong, (1,), x, out, 100, B=128).verdict == 'refuted'\n"
    )
    code, text = run(tests)
    assert code == 1 and "1 failed, 2 passed" in text and "out of bounds" in text


def test_workers_hand_their_reports_over(run):
    pytest.importorskip("xdist")
    tests = "def test_a(): launch(right)\ndef test_b(): launch(right, 128)\ndef test_c(): launch(wrong)\n"
    code, text = run(tests, *TARGET, "-n", "2")
    assert code == 1 and "1 failed, 2 passed" in text
    assert "3 kernel launches validated: 2 proved, 1 refuted" in text


@pytest.mark.parametrize(
    "words, environ, said",
    [
        (("--volta-target", "cuda:80"), {}, "needs --volta"),
        (("--volta", "--volta-target", "cuda:999"), {}, "VOLTA_TARGET='cuda:999'"),
        (("--volta",), {"VOLTA_SECONDS": "abc"}, "VOLTA_SECONDS='abc'"),
    ],
)
def test_bad_options(run, words, environ, said):
    code, text = run("def test_it(): pass\n", *words, **environ)
    assert code == 4 and said in text and "Traceback" not in text
