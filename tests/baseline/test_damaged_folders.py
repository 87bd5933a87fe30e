"""Folders that hold no recording, or one with what nobody wrote there: typed errors and damaged entries, never a crash."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ptx_engine.launch import ScalarArg
from volta_pass.baseline import Recording
from volta_pass.cli import main

EXAMPLES = Path(__file__).parents[2] / "configs" / "examples"
SPECS = [str(EXAMPLES / name) for name in ("reduce.toml", "scale_add.toml")]


@pytest.mark.parametrize(("folder", "said"), [("file", "it is no folder"), ("file/x", "Not a directory"), ("/proc/x", "No such file")])
def test_a_recording_that_cannot_be_written(folder: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert main(["baseline", "record", str(tmp_path / folder), SPECS[0]]) == 2
    err = capsys.readouterr().err
    assert "cannot write" in err and said in err and "  help: " in err and "internal error" not in err


def linked(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("damage", "said"), [(linked, "it is a link"), (os.mkfifo, "it is no file"), (Path.touch, "not an entry")])
def test_an_entry_that_is_none_is_damaged(
    damage: Callable[[Path], object], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A device is not read, a pipe not waited for; the other entries are compared, and recording again mends the folder."""
    folder = str(tmp_path / "r")
    assert main(["baseline", "record", folder, *SPECS]) == 0
    entry = next(path for path in sorted((tmp_path / "r").rglob("*")) if path.is_file())
    entry.unlink()
    damage(entry)
    for words in (["check", folder], ["diff", folder, folder]):
        capsys.readouterr()
        assert main(["baseline", *words]) == 3
        out, err = capsys.readouterr()
        assert f"damaged entry, not used: kernels/{entry.parent.name}/{entry.name}: {said}" in err and "internal error" not in err
        assert "1 same text" in out
    assert main(["baseline", "record", folder, *SPECS]) == 0
    assert main(["baseline", "check", folder]) == 0


@pytest.mark.parametrize("value", ["inf", "-inf", "nan"])
def test_numbers_that_json_has_not(value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Infinity and NaN are names of Python's: no other reader of JSON takes them."""

    def refuse(name: str) -> None:
        raise AssertionError(name)

    spec = tmp_path / "s.toml"
    text = (EXAMPLES / "scale_add.toml").read_text(encoding="utf-8").replace('ptx = "', f'ptx = "{EXAMPLES}/')
    spec.write_text(text.replace('value = "symbolic"', f"value = {value}"), encoding="utf-8")
    page, folder = tmp_path / "r.json", str(tmp_path / "r")
    assert main(["check", str(spec), "--json", "--report", str(page)]) == 3
    for said in (capsys.readouterr().out, page.read_text(encoding="utf-8")):
        row = json.loads(said, parse_constant=refuse)
        assert value in [arg.get("value") for arg in row.get("kernels", [row])[0]["launch"]["args"]]
    assert main(["baseline", "record", folder, str(spec)]) == 0
    (record,) = Recording(Path(folder)).records()
    assert next(arg for arg in record.launch.args if arg.name == "alpha") == ScalarArg("alpha", "f32", float(value))
    assert main(["baseline", "diff", folder, folder]) == 0


@pytest.mark.parametrize(
    "words", [["cache", "stats"], ["cache", "verify"], ["cache", "verify", "--recheck"], ["cache", "clear"], ["baseline", "check"]]
)
@pytest.mark.parametrize("closed", ["", "verdicts", "kernels/ab"])
def test_a_folder_that_may_not_be_read_is_not_empty(
    words: list[str], closed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``cache verify`` said that "0 entries are whole", and ``baseline check`` that there is no recording."""
    monkeypatch.setenv("VOLTA_CACHE_DIR", str(tmp_path / "r"))
    (tmp_path / "r" / closed).mkdir(parents=True)
    real = os.scandir

    def scandir(path: str) -> object:
        if Path(path) == tmp_path / "r" / closed:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert main([*words, *([str(tmp_path / "r")] if words[0] == "baseline" else [])]) == 2
    err = capsys.readouterr().err
    assert f"{tmp_path / 'r'} cannot be read: " in err and "Permission denied" in err and "  help: " in err
