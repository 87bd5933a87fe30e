"""What a folder may hold and a machine may do to a store: no hang, no crash, nothing of anybody else's touched, one warning."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ptx_engine.errors import LaunchError
from volta_pass.cli import main
from volta_pass.store import Store, digest
from volta_pass.store.container import LARGEST
from volta_pass.store.places import Remote

KEY, OTHER = digest("a key"), digest("another key")
KIND = "verdicts"
ROOT = Path(__file__).parents[2]


def store_at(folder, **options):
    said = []
    return Store(folder, warn=said.append, **options), said


def file_of(store, key=KEY):
    path = store.local.path(Store.name(KIND, key))
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def is_made_anew(store, said, why):
    assert store.get_json(KIND, KEY) is None and len(said) == 1 and why in said[0], said
    assert store.put_json(KIND, KEY, {"verdict": "proved"})
    assert store.get_json(KIND, KEY) == ({"verdict": "proved"}, "") and len(said) == 1


# --- what stands where an entry should --------------------------------------------------------------


def test_a_link_is_not_followed(tmp_path):
    store, said = store_at(tmp_path / "cache")
    other, _ = store_at(tmp_path / "other")
    other.put_json(KIND, KEY, {"verdict": "of somebody else"})
    file_of(store).symlink_to(file_of(other))
    is_made_anew(store, said, "is a link")
    assert other.get_json(KIND, KEY)[0] == {"verdict": "of somebody else"} and not file_of(store).is_symlink()


def test_a_cache_folder_that_is_itself_a_link_is_one(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "cache").symlink_to(tmp_path / "disk")
    store, said = store_at(tmp_path / "cache")
    assert store.put_json(KIND, KEY, {"a": 1}) and store.get_json(KIND, KEY) == ({"a": 1}, "") and said == []


@pytest.mark.timeout(20)
def test_a_pipe_is_not_waited_for(tmp_path):
    store, said = store_at(tmp_path)
    os.mkfifo(file_of(store))
    is_made_anew(store, said, "no file")


def test_a_file_larger_than_any_entry_is_not_read(tmp_path):
    store, said = store_at(tmp_path)
    with open(file_of(store), "wb") as file:
        file.truncate(LARGEST * 100)  # sparse
    is_made_anew(store, said, "larger than any entry")


def test_a_folder_or_a_loop_in_its_place_costs_a_warning(tmp_path):
    store, said = store_at(tmp_path)
    file_of(store).mkdir()
    loop = file_of(store, OTHER)
    loop.parent.rmdir()
    loop.parent.symlink_to(loop.parent)
    for key in (KEY, OTHER):
        assert store.get_json(KIND, key) is None and not store.put_json(KIND, key, {})
    assert said and all("cannot be" in text for text in said)
    assert store.verify() == (0, []) and store.clear() == 0


# --- what a machine does ----------------------------------------------------------------------------

FULL = """
import resource, signal, sys
from pathlib import Path
from volta_pass.store import Store, digest
said = []
store = Store(Path(sys.argv[1]), warn=said.append)
assert store.put_json("verdicts", digest("before"), {"x": 1})
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
for name in ("a", "b"):
    assert not store.put_json("verdicts", digest(name), {"filler": "y" * 50000})
    assert store.get_json("verdicts", digest(name)) is None
assert store.get_json("verdicts", digest("before")) == ({"x": 1}, "")
assert len(said) == 1 and "cannot be written" in said[0], said
assert [path.suffix for path in Path(sys.argv[1]).rglob("*") if path.is_file()] == [""]
print("held")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no limits on files there")
def test_a_disk_that_is_full_costs_one_warning_and_no_valid_entry(tmp_path):
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "hooks")])}
    done = subprocess.run([sys.executable, "-c", FULL, str(tmp_path)], env=environ, capture_output=True, text=True)
    assert done.stdout == "held\n", done.stderr


def test_a_folder_that_is_read_only_is_read(tmp_path, monkeypatch):
    """As the system refuses it: a superuser's own chmod would not."""
    store, _ = store_at(tmp_path)
    store.put_json(KIND, KEY, {"x": 1})
    file_of(store, OTHER).write_bytes(b"damaged")

    def refuse(*_, **__):
        raise OSError(30, "Read-only file system")

    for name in ("os.replace", "os.utime", "os.unlink", "os.mkdir", "tempfile.mkstemp"):
        monkeypatch.setattr(name, refuse)
    monkeypatch.setattr(Path, "unlink", refuse)
    frozen, said = store_at(tmp_path, limit_mb=0)
    assert frozen.get_json(KIND, KEY) == ({"x": 1}, "")
    assert frozen.get_json(KIND, OTHER) is None and not frozen.put_json(KIND, digest("new"), {})
    assert frozen.evict() == 0 and frozen.clear() == 0 and frozen.verify()[0] == 1
    assert {text.split(":")[-1].strip() for text in said if "cannot be" in text} == {"[Errno 30] Read-only file system"}


def test_a_file_of_another_user_that_cannot_be_evicted_does_not_end_a_validation(tmp_path, monkeypatch):
    store, said = store_at(tmp_path, limit_mb=0.01)
    store.put(KIND, KEY, {"data": bytes(9000)})
    delete = store.local.delete

    def guarded(name):
        if name.endswith(KEY):
            raise PermissionError(13, "Permission denied")
        delete(name)

    monkeypatch.setattr(store.local, "delete", guarded)
    for number in range(70):
        assert store.put(KIND, digest(str(number)), {"data": bytes(9000)})
    store.evict()
    assert [item.name for item in store.items()] == [Store.name(KIND, KEY)]
    assert len(said) == 1 and "cannot be made smaller" in said[0]


def test_a_clock_that_goes_backwards_loses_nothing(tmp_path, monkeypatch):
    store, said = store_at(tmp_path, limit_mb=0.25)
    keys = [digest(str(number)) for number in range(6)]
    for key in keys:
        store.put(KIND, key, {"data": bytes(40_000)})
        os.utime(file_of(store, key), (4e9, 4e9))  # written when the clock was far ahead
    half = file_of(store).parent / "tmpabc.part"
    half.write_bytes(b"half")
    monkeypatch.setattr(time, "time", lambda: 1e9)
    assert {item.name for item in store.items()} == {Store.name(KIND, key) for key in keys} and half.exists()
    store.put(KIND, KEY, {"data": bytes(80_000)})
    store.evict()
    assert sum(item.size for item in store.items()) <= 0.25 * (1 << 20) and said == []
    assert all(store.get(KIND, key) is None or store.get(KIND, key)["data"] == bytes(40_000) for key in keys)


def test_what_another_process_evicts_meanwhile_is_not_called_damaged(tmp_path, monkeypatch):
    store, _ = store_at(tmp_path)
    for key in (KEY, OTHER):
        store.put_json(KIND, key, {})
    items = list(store.items())
    file_of(store, OTHER).unlink()
    monkeypatch.setattr(store.local, "items", lambda: iter(items))
    assert store.verify() == (1, [])
    file_of(store).write_bytes(b"x")
    assert store.verify() == (0, [f"{tmp_path}/{Store.name(KIND, KEY)}"])


# --- variables --------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["-1", "abc", "nan", "inf", "1e400", "9" * 400, "0x10", " "])
def test_a_bound_that_is_no_size_is_a_typed_error(tmp_path, monkeypatch, capsys, text):
    monkeypatch.setenv("VOLTA_CACHE_MB", text)
    monkeypatch.setenv("VOLTA_CACHE_DIR", str(tmp_path))
    with pytest.raises(LaunchError, match="VOLTA_CACHE_MB"):
        Store(tmp_path)
    assert main(["cache", "stats"]) == 2
    assert "VOLTA_CACHE_MB" in capsys.readouterr().err


def test_a_bound_of_nothing_keeps_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("VOLTA_CACHE_MB", "0")
    store, said = store_at(tmp_path)
    assert store.put_json(KIND, KEY, {}) and store.get_json(KIND, KEY) is None and said == []
    monkeypatch.setenv("VOLTA_CACHE_MB", "")
    store, _ = store_at(tmp_path)
    assert store.put_json(KIND, KEY, {}) and store.get_json(KIND, KEY) == ({}, "")


@pytest.mark.parametrize("url", ["ftp://127.0.0.1:9/team", "zip:///nowhere/none.zip"])
def test_a_store_that_does_not_answer_at_the_start_costs_warnings_and_no_verdict(tmp_path, monkeypatch, capsys, url):
    monkeypatch.setenv("VOLTA_STORE", url)
    monkeypatch.setenv("VOLTA_CACHE_DIR", str(tmp_path))
    said = []
    store = Store.from_environment(said.append)
    assert store.put_json(KIND, KEY, {"x": 1}) and store.get_json(KIND, KEY) == ({"x": 1}, "")
    assert store.get_json(KIND, OTHER) is None
    assert len(said) == 2 and all(url in text for text in said)
    for words in (["stats"], ["verify"], ["verify", "--recheck"]):  # here it is what was asked about
        assert main(["cache", *words]) == 2
        assert "cannot be read" in capsys.readouterr().err
    assert main(["check", str(ROOT / "configs" / "examples" / "scale_add.toml")]) == 0


def test_a_store_without_its_package_is_named_with_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(LaunchError, match="s3fs"):
        Remote("s3://bucket/x")
