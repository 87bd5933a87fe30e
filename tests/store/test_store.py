"""The store: what is put is got, what is damaged counts as absent, is reported and made anew; it stays within its bound."""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptx_engine.errors import LaunchError
from volta_pass.store import CorruptEntryError, Store, canonical, digest, own_version
from volta_pass.store.container import pack, unpack
from volta_pass.store.places import Remote

KEY, OTHER = digest("a key"), digest("another key")
KIND = "verdicts"
NAMES = st.from_regex(r"[a-z0-9][a-z0-9._-]{0,12}", fullmatch=True)


def store_at(folder, **options):
    said = []
    store = Store(folder, warn=said.append, **options)
    return store, said


def file_of(store, key=KEY):
    return store.local.path(Store.name(KIND, key))


# --- bytes ---------------------------------------------------------------------------------------


@given(st.text(max_size=20), st.dictionaries(NAMES, st.binary(max_size=200), max_size=5))
def test_entries_survive_packing(key, sections):
    assert unpack(pack(key, sections)) == (key, sections)
    assert unpack(pack(key, sections), key) == (key, sections)
    with pytest.raises(CorruptEntryError):
        unpack(pack(key, sections), key + "x")


@given(st.dictionaries(NAMES, st.binary(max_size=50), max_size=3), st.data())
def test_any_change_of_an_entry_is_found(sections, data):
    packed = bytearray(pack("k", sections))
    at = data.draw(st.integers(0, len(packed) - 1))
    packed[at] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(CorruptEntryError):
        unpack(bytes(packed))
    whole = pack("k", sections)
    for shorter in (whole[:at], whole[at + 1 :], whole + b"x"):
        with pytest.raises(CorruptEntryError):
            unpack(shorter)


@given(st.binary(max_size=300))
def test_any_bytes_are_an_entry_or_a_typed_error(data):
    for text in (data, pack("k", {"a": b""})[:20] + data):
        with pytest.raises(CorruptEntryError):
            unpack(text)


@settings(max_examples=200)
@given(st.one_of(st.none(), st.integers(), st.text(), st.lists(st.lists(st.one_of(st.text(max_size=4), st.integers(-5, 50)), max_size=3))))
def test_a_header_with_a_right_checksum_and_wrong_content_is_a_typed_error(rows):
    """Whoever can write entries can compute checksums too: the header is not trusted."""
    import hashlib
    import json

    from volta_pass.store.container import MAGIC

    header = json.dumps({"key": "k", "sections": rows}).encode()
    body = b"%d\n" % len(header) + header
    data = MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body
    try:
        key, sections = unpack(data)
    except CorruptEntryError:
        return
    assert key == "k" and all(content == b"" for content in sections.values())


def test_names_of_sections_are_checked():
    for name in ("", "../x", "A", "x" * 65, "a b"):
        with pytest.raises(ValueError):
            pack("k", {name: b""})


# --- the folder ----------------------------------------------------------------------------------


def test_what_is_put_is_got(tmp_path):
    store, said = store_at(tmp_path)
    assert store.get_json(KIND, KEY) is None
    assert store.put_json(KIND, KEY, {"verdict": "proved", "numbers": [1, 2.5]}, {"a.ptx": "text"})
    assert store.get_json(KIND, KEY) == ({"verdict": "proved", "numbers": [1, 2.5]}, "")
    assert store_at(tmp_path)[0].get(KIND, KEY)["a.ptx"] == b"text"
    assert store.get_json("others", KEY) is None and said == []


@pytest.mark.parametrize("damage", [b"", b"{", b"null", b"\x00\x01", b"volta-pass entry 2\n", b"volta-pass entry 2\n" + b"0" * 64 + b"\n"])
def test_a_damaged_entry_is_reported_absent_and_rebuilt(tmp_path, damage):
    store, said = store_at(tmp_path)
    store.put_json(KIND, KEY, {"verdict": "proved"})
    file_of(store).write_bytes(damage)
    assert store.get_json(KIND, KEY) is None
    assert len(said) == 1 and KEY in said[0] and "damaged" in said[0]
    assert not file_of(store).exists()
    store.put_json(KIND, KEY, {"verdict": "proved"})
    assert store.get_json(KIND, KEY) == ({"verdict": "proved"}, "")


def test_an_entry_under_another_key_is_absent(tmp_path):
    store, said = store_at(tmp_path)
    store.put_json(KIND, KEY, {"verdict": "proved"})
    file_of(store, OTHER).parent.mkdir(parents=True)
    file_of(store, OTHER).write_bytes(file_of(store).read_bytes())
    assert store.get_json(KIND, OTHER) is None and "another key" in said[0]


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    store, said = store_at(blocked)
    assert not store.put_json(KIND, KEY, {})
    assert store.get_json(KIND, KEY) is None
    assert len(said) == 1 and "cannot be written" in said[0]


def test_a_payload_that_is_no_object_is_absent(tmp_path):
    store, _ = store_at(tmp_path)
    for payload in (b"[1]", b"{", b"\xff"):
        store.put(KIND, KEY, {"payload.json": payload})
        assert store.get_json(KIND, KEY) is None


def test_many_writers_leave_one_whole_entry(tmp_path):
    store, said = store_at(tmp_path)
    payloads = [{"writer": i, "text": "x" * 1000} for i in range(16)]
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(lambda payload: store.put_json(KIND, KEY, payload), payloads))
    assert store.get_json(KIND, KEY)[0] in payloads and said == []
    assert [path.name for path in file_of(store).parent.iterdir()] == [KEY]


def test_the_least_recently_used_go_first(tmp_path):
    store, _ = store_at(tmp_path, limit_mb=1)
    keys = [digest(str(i)) for i in range(20)]
    for age, key in enumerate(keys):
        store.put(KIND, key, {"data": bytes(90_000)})
        if file_of(store, key).exists():
            os.utime(file_of(store, key), (1000 + age, 1000 + age))
    old = keys[3]
    if store.get(KIND, old) is None:
        store.put(KIND, old, {"data": bytes(90_000)})  # used just now
    store.evict()
    left = {key for key in keys if file_of(store, key).exists()}
    assert sum(item.size for item in store.items()) <= 1 << 20
    assert old in left and left - {old} == set(keys[-len(left) + 1 :])


def test_nothing_but_entries_is_counted_or_removed(tmp_path):
    store, _ = store_at(tmp_path, limit_mb=0)
    foreign = [tmp_path / "notes.txt", tmp_path / KIND / "ab" / "readme", tmp_path / "x" / "y" / "z" / "w"]
    for path in foreign:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
        os.utime(path, (1000, 1000))
    store.put(KIND, KEY, {"a": b"1"})
    store.evict()
    store.clear()
    assert list(store.items()) == [] and all(path.read_text() == "mine" for path in foreign)


def test_what_a_dead_writer_left_is_never_read_and_is_removed_later(tmp_path):
    store, _ = store_at(tmp_path)
    store.put(KIND, KEY, {"a": b"1"})
    half = file_of(store).parent / "tmpabc.part"
    half.write_bytes(b"half")
    assert [item.name for item in store.items()] == [Store.name(KIND, KEY)] and half.exists()
    os.utime(half, (time.time() - 7200,) * 2)
    assert len(list(store.items())) == 1 and not half.exists()


def test_verify_names_the_damaged_and_removes_them(tmp_path):
    store, _ = store_at(tmp_path)
    for text in ("a", "b", "c"):
        store.put_json(KIND, digest(text), {"text": text})
    path = file_of(store, digest("b"))
    data = bytearray(path.read_bytes())
    data[-2] ^= 1
    path.write_bytes(data)
    whole, damaged = store.verify()
    assert whole == 2 and len(damaged) == 1 and digest("b") in damaged[0]
    assert store.verify() == (2, [])


# --- the shared store ----------------------------------------------------------------------------


@pytest.fixture(params=["memory", "file"])
def remote(request, tmp_path):
    url = f"memory://team-{tmp_path.name}" if request.param == "memory" else f"file://{tmp_path}/team"
    return lambda: Remote(url)


def test_what_one_machine_puts_another_gets_and_knows_from_where(tmp_path, remote):
    here, _ = store_at(tmp_path / "here", shared=remote())
    there, said = store_at(tmp_path / "there", shared=remote())
    here.put_json(KIND, KEY, {"verdict": "proved"})
    assert here.get_json(KIND, KEY)[1] == ""
    for _ in range(2):  # from the shared store, then from the copy
        payload, origin = there.get_json(KIND, KEY)
        assert payload == {"verdict": "proved"} and origin == str(remote())
    assert said == []


def test_a_read_only_store_is_not_written(tmp_path, remote):
    store, _ = store_at(tmp_path / "here", shared=remote(), writable=False)
    store.put_json(KIND, KEY, {"verdict": "proved"})
    assert list(remote().items()) == []
    remote().write(Store.name(KIND, OTHER), b"damaged")
    other, said = store_at(tmp_path / "there", shared=remote(), writable=False)
    assert other.get_json(KIND, OTHER) is None and "damaged" in said[0]
    assert [item.name for item in remote().items()] == [Store.name(KIND, OTHER)]


def test_a_damaged_shared_entry_is_made_anew(tmp_path, remote):
    remote().write(Store.name(KIND, KEY), b"damaged")
    store, said = store_at(tmp_path / "here", shared=remote())
    assert store.get_json(KIND, KEY) is None and len(said) == 1
    store.put_json(KIND, KEY, {"verdict": "proved"})
    assert store_at(tmp_path / "there", shared=remote())[0].get_json(KIND, KEY)[0] == {"verdict": "proved"}


class Unreachable:
    """A shared store whose machine is down."""

    def __str__(self):
        return "s3://gone"

    def __getattr__(self, name):
        def fail(*_):
            raise ConnectionError("no route to host")

        return fail


def test_a_store_that_is_down_costs_one_warning_and_no_verdict(tmp_path):
    store, said = store_at(tmp_path, shared=Unreachable())
    assert store.put_json(KIND, KEY, {"verdict": "proved"}) and store.put_json(KIND, OTHER, {})
    assert store.get_json(KIND, KEY)[0] == {"verdict": "proved"}
    assert store.get_json(KIND, digest("absent")) is None
    assert said == ["s3://gone cannot be written: no route to host", "s3://gone cannot be read: no route to host"]


@pytest.mark.parametrize("url", ["nonsense://x", "s9://bucket"])
def test_a_url_that_is_no_store_is_named(url):
    with pytest.raises(LaunchError, match=url.partition(":")[0]):
        Remote(url)


# --- keys ----------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(max_size=5), max_size=4), st.lists(st.text(max_size=5), max_size=4))
def test_digests_of_different_lists_differ(left, right):
    assert (digest(*left) == digest(*right)) == (left == right)


def test_canonical_text_does_not_depend_on_order():
    assert canonical({"a": 1, "b": [2]}) == canonical({"b": [2], "a": 1})
    assert canonical({"a": 1}) != canonical({"a": 2})


def test_the_version_is_what_the_modules_say_not_when_they_were_written(tmp_path, monkeypatch):
    import volta_pass

    package = tmp_path / "volta_pass"
    package.mkdir()
    (package / "a.py").write_text("x = 1\n")
    monkeypatch.setattr(volta_pass, "__path__", [str(package)])
    versions = []
    (package / "part").mkdir()
    (package / "part" / "b.py").touch()
    for name, text, age in (("a.py", "x = 1\n", 1000), ("a.py", "x = 1\n", 2000), ("a.py", "x = 2\n", 2000), ("part/b.py", "y", 1)):
        Path(package / name).write_text(text)
        os.utime(package / name, (age, age))
        own_version.cache_clear()
        versions.append(own_version())
    own_version.cache_clear()
    assert versions[0] == versions[1] and len(set(versions)) == 3


# --- many processes -----------------------------------------------------------------------------

#: writes entries that evict each other, or reads them; prints what was wrong
WORKER = """
import sys
from pathlib import Path
from volta_pass.store import Store, digest
said = []
store = Store(Path(sys.argv[1]), limit_mb=0.5, warn=said.append)
for number in range(150):
    key = digest(str(number % 40))
    if sys.argv[2] == "write":
        store.put_json("verdicts", key, {"key": key, "filler": "x" * 20000})
        store.evict()
    else:
        found = store.get_json("verdicts", key)
        assert found is None or found[0] == {"key": key, "filler": "x" * 20000}
print(said)
"""


@pytest.mark.parametrize("each", [2, pytest.param(8, marks=pytest.mark.slow)])
def test_writers_readers_and_eviction_at_once(tmp_path, each):
    root = Path(__file__).parents[2]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(root / "hooks")])}
    commands = [[sys.executable, "-c", WORKER, str(tmp_path), what] for what in ("write", "read") for _ in range(each)]
    running = [subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) for command in commands]
    assert [worker.communicate()[0] for worker in running] == ["[]\n"] * len(running)
    store, said = store_at(tmp_path, limit_mb=0.5)
    store.evict()
    assert store.stats()[0].total_bytes <= 0.5 * (1 << 20)
    assert store.verify()[1] == [] and said == []
