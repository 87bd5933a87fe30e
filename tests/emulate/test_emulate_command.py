"""``volta-pass emulate``: .npy files in, in place or into a folder out, exit codes, JSON, bad input named."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from volta_pass.cli import main

PTX = """.version 8.8
.target sm_90
.address_size 64
.visible .entry scale(.param .u64 x, .param .f32 a, .param .u32 n)
{
  .reg .pred %p; .reg .f32 %f<4>; .reg .b32 %r<3>; .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [x]; ld.param.f32 %f1, [a]; ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x; setp.ge.u32 %p, %r2, %r1; @%p ret;
  mul.wide.u32 %rd2, %r2, 4; add.s64 %rd1, %rd1, %rd2;
  ld.global.f32 %f2, [%rd1]; mul.f32 %f3, %f1, %f2; st.global.f32 [%rd1], %f3;
  ret;
}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.ptx").write_text(PTX, encoding="utf-8")
    np.save(tmp_path / "x.npy", np.arange(8, dtype=np.float32))
    return tmp_path


def emulate(*words: str) -> int:
    return main(["emulate", "k.ptx", *words, "--grid", "1", "--block", "32"])


def test_in_place(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert emulate("x.npy", "2.5", "8") == 0
    assert np.load("x.npy").tolist() == [2.5 * i for i in range(8)]
    assert "wrote x.npy" in capsys.readouterr().out


def test_into_a_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert emulate("x.npy", "f32:3", "4", "--out", "results", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["findings"] == [] and report["ctas"] == 1 and report["written"] == [str(Path("results") / "x.npy")]
    assert np.load("x.npy").tolist() == list(range(8)) and np.load("results/x.npy").tolist() == [0, 3, 6, 9, 4, 5, 6, 7]


@pytest.mark.parametrize("words", [
    ["emulate", "k.ptx", "--grid", "1", "--block", "32", "x.npy", "-2.5", "8"], ["emulate", "--grid", "1", "--block", "32", "k.ptx", "x.npy", "-2.5", "8"],
    ["emulate", "k.ptx", "x.npy", "--grid", "1", "-2.5", "--block", "32", "8"],
])  # fmt: skip
def test_arguments_stand_on_both_sides_of_options(words: list[str], folder: Path) -> None:
    assert main(words) == 0
    assert np.load("x.npy").tolist() == [-2.5 * i for i in range(8)]


def test_an_unknown_option_is_no_argument(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["emulate", "k.ptx", "--grid", "1", "--block", "32", "--blok", "x.npy", "2.5", "8"])
    assert "unrecognized arguments: --blok" in capsys.readouterr().err


def test_nothing_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert emulate("x.npy", "1", "8") == 0
    assert "no array changed" in capsys.readouterr().out


def test_faults_are_shown_and_exit_with_1(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert emulate("x.npy", "2.0", "9") == 1
    shown = capsys.readouterr().out
    assert "error: load of 4 bytes at element 8 of x[8]" in shown and "line 10" in shown
    assert emulate("x.npy", "2.0", "9", "--json") == 1
    assert {f["kind"] for f in json.loads(capsys.readouterr().out)["findings"]} == {"out of bounds"}


def test_bfloat16_files(folder: Path) -> None:
    (folder / "k.ptx").write_text(
        PTX.replace(".reg .f32", ".reg .b32")
        .replace("ld.global.f32 %f2", "ld.global.b32 %f2")
        .replace("mul.f32 %f3, %f1, %f2", "add.bf16x2 %f3, %f2, %f2")
    )
    np.save("x.npy", np.arange(8).astype(ml_dtypes.bfloat16))
    assert emulate("x.npy", "0", "4") == 0
    assert np.load("x.npy").view(ml_dtypes.bfloat16).astype(float).tolist() == [2.0 * i for i in range(8)]


BAD = [
    (["x.npy", "2.0"], "takes 3 parameters"), (["y.npy", "2.0", "8"], "y.npy cannot be read"), (["x.npy", "two",
        "8"], "'two' is not understood"),
    (["x.npy", "f12:2", "8"], "not understood"), (["x.npy", "2.0", "8", "--entry", "other"], "no entry other"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "message"), BAD)
def test_bad_input(words: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert emulate(*words) == 2
    shown = capsys.readouterr().err
    assert message in shown and "Traceback" not in shown


def test_null_pointers_are_faults(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert emulate("null", "2.0", "1") == 1
    assert "load at address 0x0" in capsys.readouterr().out


def test_objects_are_never_unpickled(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save("x.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    assert emulate("x.npy", "2.0", "8") == 2
    assert "cannot be read as an array" in capsys.readouterr().err


def test_extents_are_checked(folder: Path) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["emulate", "k.ptx", "x.npy", "1", "1", "--grid", "0", "--block", "32"])
    assert caught.value.code == 2


TWO = PTX.replace("(.param .u64 x,", "(.param .u64 x, .param .u64 y,").replace(
    "st.global.f32 [%rd1], %f3;",
    "ld.param.u64 %rd1, [y]; add.s64 %rd1, %rd1, %rd2; st.global.f32 [%rd1], %f3;",
)


def test_a_file_in_other_words_is_the_same_array(folder: Path) -> None:
    """Two copies would be written one over the other."""
    (folder / "k.ptx").write_text(TWO, encoding="utf-8")
    (folder / "link.npy").symlink_to("x.npy")
    for other in ("./x.npy", str(folder / "x.npy"), "link.npy"):
        np.save(folder / "x.npy", np.arange(8, dtype=np.float32))
        assert emulate("x.npy", other, "2.0", "8") == 0
        assert np.array_equal(np.load(folder / "x.npy"), 2 * np.arange(8, dtype=np.float32))


def test_two_files_of_one_name_are_not_written_into_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "k.ptx").write_text(TWO, encoding="utf-8")
    (folder / "a").mkdir()
    np.save(folder / "a" / "x.npy", np.zeros(8, np.float32))
    assert emulate("x.npy", "a/x.npy", "2.0", "8", "--out", "d") == 2
    err = capsys.readouterr().err
    assert "would be one file in d" in err and "  help: " in err and not (folder / "d").exists()
    assert emulate("x.npy", "a/x.npy", "2.0", "8") == 0  # in place they are two
    assert np.array_equal(np.load(folder / "a" / "x.npy"), 2 * np.arange(8, dtype=np.float32))
    assert np.array_equal(np.load(folder / "x.npy"), np.arange(8, dtype=np.float32))
