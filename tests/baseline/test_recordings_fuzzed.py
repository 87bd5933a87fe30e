"""Recordings whose checksums are right and whose content somebody has changed: verdicts or typed errors, never a crash."""

import json
import math
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from volta_pass.baseline import Recording
from volta_pass.cli import main
from volta_pass.store.container import pack, unpack

ROOT = Path(__file__).parents[2]
DEFECT = 70
FACTS = "facts.json"

#: parts of a report that nobody reads here
UNREAD = {("report", name) for name in ("launch", "outputs", "blame", "seconds", "ctas", "agreement", "assumptions")}
VALUES = st.one_of(
    st.none(), st.booleans(), st.sampled_from([-1, 0, 1, 3, 2**31, 2**63, 10**30, -(10**30), 0.5, math.inf, math.nan]), st.text(max_size=5),
    st.sampled_from(["f32", "V8", "O", "|O8", "f4,f4", "in", "out", "tensor", "scalar", "null", "all", "spec", "triton", "tilelang"]),
    st.just([]), st.just({}), st.lists(st.integers(-2, 5), max_size=4), st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)  # fmt: skip


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The bytes of an entry with a tensor whose contents are given, and a recording of the same launch under another compiler."""
    folder = tmp_path_factory.mktemp("recorded")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VOLTA_CACHE_DIR", str(folder / "cache"))
        assert main(["baseline", "record", str(folder / "old"), str(ROOT / "configs" / "examples" / "scale_add.toml")]) == 0
        (record,) = Recording(folder / "old").records()
        Recording(folder / "new").write(replace(record, ptx=record.ptx.replace("ret;", "bar.sync 0; ret;")))
        path = next(path for path in (folder / "old").rglob("*") if path.is_file() and len(path.name) == 64)
        yield path.name, path.relative_to(folder / "old"), path.read_bytes(), folder


def places(value: Any, above: tuple = ()):
    """Every place in JSON values."""
    yield above
    rows = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in rows:
        yield from places(inner, (*above, key))


def changed(value: Any, place: tuple, new: Any, drop: bool) -> Any:
    if not place:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    if drop and len(place) == 1:
        del copy[place[0]]
    else:
        copy[place[0]] = changed(value[place[0]], place[1:], new, drop)
    return copy


def told(key, relative, data, folder, words):
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "old" / relative
        path.parent.mkdir(parents=True)
        path.write_bytes(data)
        return main(["baseline", *(word.format(old=f"{scratch}/old", new=folder / "new") for word in words), "--json"])


def fuzz(recorded, change, text, capsys):
    key, relative, data, folder = recorded
    _, sections = unpack(data, key)
    facts = json.loads(sections[FACTS])
    for place, new, drop in change:
        if place in set(places(facts)):
            facts = changed(facts, place, new, drop)
    sections = {**sections, FACTS: json.dumps(facts).encode(), **text}
    for words in (["diff", "{old}", "{new}"], ["check", "{old}"]):
        code = told(key, relative, pack(key, sections), folder, words)
        assert code != DEFECT, capsys.readouterr().err
        capsys.readouterr()


def drawn(data, recorded):
    """Changes of the facts, and of the other sections."""
    sections = unpack(recorded[2])[1]
    all_places = [place for place in places(json.loads(sections[FACTS])) if place[:2] not in UNREAD]
    change = data.draw(st.lists(st.tuples(st.sampled_from(all_places), VALUES, st.booleans()), max_size=3))
    text = {
        name: data.draw(st.sampled_from([b"", b"\xff", b"{", b".visible .entry k() { ret; }"]))
        for name in data.draw(st.sets(st.sampled_from(sorted(sections)), max_size=1))
    }
    return change, {name: value for name, value in text.items() if name != FACTS}


SLOW = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]


@settings(max_examples=25, deadline=None, suppress_health_check=SLOW)
@given(st.data())
def test_whatever_stands_in_an_entry_is_a_verdict_or_a_typed_error(recorded, capsys, data):
    fuzz(recorded, *drawn(data, recorded), capsys)


@pytest.mark.slow
@settings(max_examples=1500, deadline=None, suppress_health_check=SLOW)
@given(st.data())
def test_whatever_stands_in_an_entry_at_length(recorded, capsys, data):
    fuzz(recorded, *drawn(data, recorded), capsys)
