"""CUDA C sides of specs: verdicts, lines of the user's file, externs, bad input; kernel files on the command line."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from ptx_engine.verdict import Status
from volta_pass.check import check_file
from volta_pass.cli import main
from volta_pass.spec import SpecError

SPEC = """\
args = [
    {name = "x", kind = "tensor", dtype = "f32", shape = [64], role = "in"},
    {name = "y", kind = "tensor", dtype = "f32", shape = [64], role = "out"},
]
[launch]
grid = 1
block = 64
[reference]
cuda = "k.cu"
entry = "reference"
[candidate]
cuda = "k.cu"
entry = "candidate"
"""
KERNELS = """\
extern "C" __device__ float my_exp(float);
extern "C" __global__ void reference(const float *x, float *y) { y[threadIdx.x] = REFERENCE; }
__global__ void candidate(const float *x, float *y) {
    const float v = x[threadIdx.x];
    y[threadIdx.x] = CANDIDATE;
}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spec.toml").write_text(SPEC, encoding="utf-8")
    return tmp_path


def kernels(folder: Path, reference: str, candidate: str, head: str = "") -> Path:
    text = head + KERNELS.replace("REFERENCE", reference).replace("CANDIDATE", candidate)
    (folder / "k.cu").write_text(text, encoding="utf-8")
    return folder / "spec.toml"


@pytest.mark.parametrize(
    ("reference", "candidate", "status"),
    [
        ("2.0f * x[threadIdx.x]", "v + v", Status.PROVED),
        ("2.0f * x[threadIdx.x]", "v + 1.0f", Status.REFUTED),
        ("__expf(x[threadIdx.x])", "expf(v)", Status.PROVED),
        ("__expf(x[threadIdx.x])", "expf(-v)", Status.REFUTED),
        ("x[threadIdx.x] > 0.0f ? x[threadIdx.x] : 0.0f", "fmaxf(v, 0.0f)", Status.PROVED),
        ("my_exp(x[threadIdx.x])", "exp2f(v * 1.4426950408889634f)", Status.PROVED),
        ("my_exp(x[threadIdx.x])", "exp2f(v)", Status.REFUTED),
    ],
)
def test_verdicts(reference: str, candidate: str, status: Status, folder: Path) -> None:
    spec = kernels(folder, reference, candidate)
    if "my_exp" in reference:
        spec.write_text(SPEC + '[externs]\nmy_exp = "exp"\n', encoding="utf-8")
    report = check_file(spec)
    assert report.status is status, (report.reason, report.errors)
    assert report.kernel == "candidate" and "nvrtc" in report.toolchain


def test_a_difference_is_shown_at_the_users_line(folder: Path) -> None:
    report = check_file(kernels(folder, "x[threadIdx.x]", "v * v"))
    assert report.blame.user_loc.partition(":")[0].endswith("k.cu") or "k.cu:" in report.blame.user_loc
    assert report.blame.user_loc.split("k.cu:")[1].split(":")[0] == "5"


def test_compiler_errors_are_bad_input_in_the_compilers_words(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernels(folder, "x[threadIdx.x]", "v +")
    assert main(["check", "spec.toml"]) == 2
    said = capsys.readouterr().err
    assert "k.cu(5): error: expected an expression" in said and "    y[threadIdx.x] = v +;" in said


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('entry = "candidate"', 'entry = "candidat"', 'did you mean "candidate"'),
        ('entry = "candidate"', "", "has 2 kernels"),
        ('entry = "candidate"', 'entry = "candidate"\ntarget = "cuda:60"', "older than 75"),
        ('entry = "candidate"', 'entry = "candidate"\noptions = {num_warps = 4}', "is a list"),
        ('entry = "candidate"', 'entry = "candidate"\nconstexprs = {B = 4}', "is for triton"),
        ('entry = "candidate"', 'entry = "candidate"\ncompiler = "clang"', '"nvrtc" or "nvcc"'),
        ('cuda = "k.cu"\nentry = "candidate"', 'ptx = "k.ptx"\ndefines = {A = 1}', "is for cuda"),
        ('cuda = "k.cu"\nentry = "candidate"', 'cuda = "gone.cu"', "cannot read"),
    ],
)
def test_what_does_not_fit_is_named(old: str, new: str, words: str, folder: Path) -> None:
    spec = kernels(folder, "x[threadIdx.x]", "v")
    spec.write_text(SPEC.replace(old, new), encoding="utf-8")
    with pytest.raises(SpecError) as caught:
        check_file(spec)
    assert words in caught.value.render() and caught.value.span is not None


def test_defines_options_and_target_reach_the_compiler(folder: Path) -> None:
    text = "#if FACTOR != 3 || __CUDA_ARCH__ != 890 || !defined(NAMED) || __cplusplus < 202002L\n#error wrong options\n#endif\n"
    spec = kernels(folder, "3.0f * x[threadIdx.x]", "FACTOR * v", "#ifdef FACTOR\n" + text + "#endif\n")
    more = 'entry = "candidate"\ndefines = {FACTOR = 3}\noptions = ["-std=c++20", "-DNAMED"]\ntarget = "cuda:89"'
    spec.write_text(
        SPEC.replace('entry = "candidate"', more).replace("[reference]\n", "[reference]\ndefines = {FACTOR_ = 1}\n"), encoding="utf-8"
    )
    (folder / "k.cu").write_text((folder / "k.cu").read_text().replace("FACTOR * v", "3 * v"), encoding="utf-8")
    assert check_file(spec).status is Status.PROVED


# --- the command line ---------------------------------------------------------------------------

ONE = 'extern "C" __global__ void {name}(const float *x, float *y) {{ y[threadIdx.x] = {value}; }}\n'


def test_two_files_under_a_spec(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "a.cu").write_text(ONE.format(name="f", value="x[threadIdx.x] * 2"), encoding="utf-8")
    (folder / "b.cu").write_text(ONE.format(name="g", value="x[threadIdx.x] + x[threadIdx.x]"), encoding="utf-8")
    (folder / "c.cu").write_text(ONE.format(name="h", value="x[threadIdx.x ^ FLIP] * 2"), encoding="utf-8")
    launch = SPEC.partition("[reference]")[0]  # neither side: the files are the sides
    (folder / "launch.toml").write_text(launch, encoding="utf-8")
    assert main(["check", "a.cu", "b.cu", "--spec", "launch.toml"]) == 0
    assert main(["check", "a.cu", "c.cu", "--spec", "launch.toml", "-D", "FLIP=0"]) == 0
    assert main(["check", "a.cu", "c.cu", "--spec", "launch.toml", "-DFLIP"]) == 1
    assert main(["check", "c.cu", "--spec", "launch.toml", "-DFLIP", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.rpartition("\n{\n")[2].join(("{", "")))["kernel"] == "h"
    assert main(["race", "c.cu", "--spec", "launch.toml", "-DFLIP=64"]) == 1


def test_compiled_files_under_a_spec(folder: Path) -> None:
    from volta_pass.cuda import CudaSource, compile_cuda

    for name, value in (("a", "x[threadIdx.x] * 2"), ("b", "x[threadIdx.x] + x[threadIdx.x]"), ("c", "x[0]")):
        (folder / f"{name}.ptx").write_text(compile_cuda(CudaSource(ONE.format(name=name, value=value))).ptx, encoding="utf-8")
    (folder / "launch.toml").write_text(SPEC.partition("[reference]")[0], encoding="utf-8")
    assert main(["check", "a.ptx", "b.ptx", "--spec", "launch.toml"]) == 0
    assert main(["check", "a.ptx", "c.ptx", "--spec", "launch.toml"]) == 1


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["check", "k.cu"], "kernels need a launch spec"),
        (["check", "k.cu", "k.cu"], "kernels need a launch spec"),
        (["check", "k.cu", "k.cu", "k.cu", "--spec", "spec.toml"], "3 kernels"),
        (["check", "gone.cu", "--spec", "spec.toml"], "cannot read gone.cu"),
        (["check", "k.cu", "--spec", "spec.toml", "-D", "a-b"], "cannot be defined"),
        (["race", "gone.cu", "--spec", "spec.toml"], "cannot read"),
    ],
)
def test_bad_command_lines(args: list[str], words: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernels(folder, "x[threadIdx.x]", "v")
    assert main(args) == 2
    assert words in capsys.readouterr().err


def test_macros_are_for_cuda_candidates(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "p.ptx").write_text(textwrap.dedent(".version 8.0\n"), encoding="utf-8")
    assert main(["check", "p.ptx", "--spec", "spec.toml", "-DA"]) == 2
    assert "-D defines macros" in capsys.readouterr().err
