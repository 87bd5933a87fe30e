"""The verdict store: what is put is got, anything damaged counts as absent."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from volta_pass.store import VerdictStore, canonical, digest, own_version

KEY = digest("a key")


def test_what_is_put_is_got(tmp_path):
    store = VerdictStore(tmp_path)
    assert store.get(KEY) is None
    assert store.put(KEY, {"verdict": "proved", "numbers": [1, 2.5]})
    assert store.get(KEY) == {"verdict": "proved", "numbers": [1, 2.5]}
    assert VerdictStore(tmp_path).get(KEY) == store.get(KEY)


@pytest.mark.parametrize("damage", ["", "{", "[]", "null", '{"payload": {}}', "\x00\x01"])
def test_a_damaged_entry_is_absent_and_is_rebuilt(tmp_path, damage):
    store = VerdictStore(tmp_path)
    store.put(KEY, {"verdict": "proved"})
    store.path(KEY).write_text(damage)
    assert store.get(KEY) is None
    store.put(KEY, {"verdict": "proved"})
    assert store.get(KEY) == {"verdict": "proved"}


def test_a_changed_payload_fails_its_checksum(tmp_path):
    store = VerdictStore(tmp_path)
    store.put(KEY, {"verdict": "proved", "outputs": 1})
    entry = json.loads(store.path(KEY).read_text())
    entry["payload"]["outputs"] = 2
    store.path(KEY).write_text(json.dumps(entry))
    assert store.get(KEY) is None


def test_an_entry_under_another_key_is_absent(tmp_path):
    store, other = VerdictStore(tmp_path), digest("another key")
    store.put(KEY, {"verdict": "proved"})
    store.path(other).parent.mkdir(parents=True)
    store.path(other).write_bytes(store.path(KEY).read_bytes())
    assert store.get(other) is None


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    store = VerdictStore(blocked)
    assert not store.put(KEY, {})
    assert store.get(KEY) is None


def test_many_writers_leave_one_whole_entry(tmp_path):
    store = VerdictStore(tmp_path)
    payloads = [{"writer": i, "text": "x" * 1000} for i in range(16)]
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(lambda payload: store.put(KEY, payload), payloads))
    assert store.get(KEY) in payloads
    assert [path.name for path in store.path(KEY).parent.iterdir()] == [f"{KEY}.json"]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(max_size=5), max_size=4), st.lists(st.text(max_size=5), max_size=4))
def test_digests_of_different_lists_differ(left, right):
    assert (digest(*left) == digest(*right)) == (left == right)


def test_canonical_text_does_not_depend_on_order():
    assert canonical({"a": 1, "b": [2]}) == canonical({"b": [2], "a": 1})
    assert canonical({"a": 1}) != canonical({"a": 2})
    assert len(own_version()) == 64
