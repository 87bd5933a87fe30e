"""Stored proofs are done again from their entries alone; what somebody else wrote with right checksums is found and removed."""

import contextlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptx_engine.launch import Launch, Role, TensorArg
from ptx_engine.verdict import Status
from volta_pass.cli import main
from volta_pass.job import FunctionReference, PtxReference, ValidationJob
from volta_pass.store import CorruptEntryError, Store
from volta_pass.store.container import pack
from volta_pass.store.places import Folder
from volta_pass.store.proofs import VERDICTS, job_of, proof_keys, put_proof
from volta_pass.store.recheck import recheck
from volta_pass.validate import contents_were_needed, validate

PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry scale(.param .u64 x, .param .u64 n, .param .u64 y) {
  .reg .b64 %rd<9>; .reg .b32 %r<5>; .reg .f32 %f<5>;
  ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [n]; ld.param.u64 %rd3, [y];
  mov.u32 %r1, %tid.x; mul.wide.u32 %rd4, %r1, 4;
  PICK
  add.s64 %rd5, %rd1, %rd6; add.s64 %rd7, %rd3, %rd4;
  ld.global.f32 %f1, [%rd5]; SUM st.global.f32 [%rd7], %f2; ret;
}
"""
DIRECT = "mov.b64 %rd6, %rd4;"
#: the element that n[i] names
GATHER = "add.s64 %rd8, %rd2, %rd4; ld.global.u32 %r2, [%rd8]; mul.wide.u32 %rd6, %r2, 4;"
TWICE = "add.f32 %f2, %f1, %f1;"
BY_TWO = "mul.f32 %f2, %f1, 0f40000000;"
THRICE = "add.f32 %f2, %f1, %f1; add.f32 %f2, %f2, %f1;"
ARGS = (TensorArg("x", "f32", (32,), Role.IN), TensorArg("n", "s32", (32,), Role.IN), TensorArg("y", "f32", (32,), Role.OUT))
LAUNCH = Launch((1, 1, 1), (32, 1, 1), ARGS)


def text(total, pick=DIRECT):
    return PTX.replace("PICK", pick).replace("SUM", total)


def job(total=BY_TWO, pick=DIRECT, **more):
    """A kernel against one that adds x to itself."""
    reference = PtxReference(text(TWICE, pick), "scale", LAUNCH, "the sum")
    return ValidationJob("scale", text(total, pick), LAUNCH, "scale", {"N": 32}, "cuda:80", reference=reference, **more)


def keep(store, made, report=None, key=None):
    """Store a job's proof as a session does; returns its key."""
    report = validate(made) if report is None else report
    keys = proof_keys(made)
    key = key or (keys[-1] if contents_were_needed(report) else keys[0])
    assert put_proof(store, made, report, key)
    return key


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store", warn=[].append)


def forged(made):
    """What an attacker would like to be read about a job: the report of a right kernel."""
    report = validate(job())
    assert report.status is Status.PROVED
    return replace(report, kernel=made.kernel)


def test_proofs_come_out_again(store):
    keep(store, job())
    keep(store, job(TWICE, assumptions=("something",)))
    done = recheck(store)
    assert (done.confirmed, done.untried, done.refused) == (2, 0, [])


def test_a_forged_proof_is_found_and_removed_and_the_others_stay(store):
    wrong = job(THRICE)
    assert validate(wrong).status is Status.REFUTED
    honest, bad = keep(store, job()), keep(store, wrong, forged(wrong))
    assert store.get(VERDICTS, bad) is not None  # its checksum is right
    done = recheck(store)
    assert done.confirmed == 1
    assert len(done.refused) == 1 and bad in done.refused[0] and "it is refuted" in done.refused[0]
    assert store.get(VERDICTS, bad) is None and store.get(VERDICTS, honest) is not None


def test_inputs_of_another_kernel_under_a_key_are_found(store):
    wrong = job(THRICE)
    key = keep(store, job(), key=proof_keys(wrong)[0])
    done = recheck(store)
    assert done.confirmed == 0 and "its inputs are not those of its key" in done.refused[0]
    assert store.get(VERDICTS, key) is None


@pytest.mark.parametrize("changed", ["classes", "findings", "assumptions", "method"])
def test_a_report_that_says_more_than_the_proof_is_found(store, changed):
    report = validate(job())
    row = report.to_json()
    if changed == "classes":
        row["comparisons"][0]["outputs"][0]["classes"] += 1
    else:
        row[changed] = {"findings": [{}], "assumptions": [], "method": "fingerprint"}[changed]
    key = keep(store, job(), report)
    sections = store.get(VERDICTS, key)
    store.put(VERDICTS, key, sections | {"payload.json": json.dumps(row).encode()})
    (why,) = recheck(store).refused
    assert {"classes": "comparisons"}.get(changed, changed) in why


def test_a_proof_of_another_version_is_not_tried(store, monkeypatch):
    monkeypatch.setattr("volta_pass.store.proofs.own_version", lambda: "older")
    keep(store, job())
    monkeypatch.undo()
    done = recheck(store)
    assert (done.confirmed, done.untried, done.refused) == (0, 1, [])


def test_saying_another_version_does_not_save_a_forged_proof(store):
    """A key that this version looks up cannot be one of another version."""
    wrong = job(THRICE)
    key = keep(store, wrong, forged(wrong))
    sections = store.get(VERDICTS, key)
    facts = json.loads(sections["job.json"]) | {"version": "older"}
    store.put(VERDICTS, key, sections | {"job.json": json.dumps(facts).encode()})
    assert "not those of its key" in recheck(store).refused[0]


def test_contents_that_a_proof_needed_are_kept_with_it(store):
    given = job(pick=GATHER, contents={"n": lambda: np.arange(32, dtype=np.int32)[::-1]})
    report = validate(given)
    assert report.status is Status.PROVED and contents_were_needed(report)
    keep(store, given, report)
    assert recheck(store).confirmed == 1


def test_a_proof_for_some_contents_under_the_key_for_all_is_found(store):
    given = job(pick=GATHER, contents={"n": lambda: np.arange(32, dtype=np.int32)[::-1]})
    base = proof_keys(given)[0]
    keep(store, given)
    sections = store.get(VERDICTS, proof_keys(given)[-1])
    store.clear()
    store.put(VERDICTS, base, sections)
    done = recheck(store)
    assert done.confirmed == 0 and len(done.refused) == 1


def test_at_most_so_many_are_tried(store):
    keep(store, job())
    keep(store, job(TWICE))
    assert recheck(store, 1).confirmed == 1


def test_a_function_has_no_key():
    assert proof_keys(replace(job(), reference=FunctionReference(lambda x: x + x, {"x": "x"}, ("y",), "f"))) == []


def test_a_shared_store_that_may_not_be_written_is_named(tmp_path):
    shared = Folder(tmp_path / "shared")
    wrong = job(THRICE)
    key = keep(Store(shared.root, warn=[].append), wrong, forged(wrong))
    reader = Store(tmp_path / "mine", shared=shared, writable=False, warn=[].append)
    (why,) = recheck(reader).refused
    assert str(shared) in why and shared.read(Store.name(VERDICTS, key)) is not None


def test_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("VOLTA_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("VOLTA_STORE", raising=False)
    store, wrong = Store(tmp_path), job(THRICE)
    keep(store, job())
    assert main(["cache", "verify", "--recheck", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["confirmed"] == 1
    keep(store, wrong, forged(wrong))
    assert main(["cache", "verify", "--json"]) == 0  # (checksums alone do not tell)
    assert main(["cache", "verify", "--recheck"]) == 1
    assert "not to be trusted" in capsys.readouterr().out
    assert main(["cache", "stats", "--recheck"]) == 2
    assert main(["cache", "verify", "--recheck", "5"]) == 0


# --- entries are data that anybody may have written ----------------------------------------------


@pytest.fixture(scope="module")
def sections(tmp_path_factory):
    store = Store(Path(tmp_path_factory.mktemp("whole")), warn=[].append)
    given = job(pick=GATHER, contents={"n": lambda: np.arange(32, dtype=np.int32)[::-1]})
    return store.get(VERDICTS, keep(store, given))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**40) | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)


@given(st.data())
def test_any_facts_are_a_job_or_a_typed_error(sections, data):
    facts = json.loads(sections["job.json"])
    where = data.draw(st.sampled_from(sorted(facts)))
    value = data.draw(JSON)
    if data.draw(st.booleans()) and isinstance(facts[where], dict):
        facts[where][data.draw(st.sampled_from(sorted(facts[where])))] = value
    else:
        facts[where] = value
    with contextlib.suppress(CorruptEntryError):
        job_of(dict(sections) | {"job.json": json.dumps(facts).encode()})


@given(st.data())
def test_any_sections_are_a_job_or_a_typed_error(sections, data):
    name = data.draw(st.sampled_from(sorted(sections)))
    changed = dict(sections) | {name: data.draw(st.binary(max_size=40))}
    if data.draw(st.booleans()):
        del changed[name]
    with contextlib.suppress(CorruptEntryError):
        job_of(changed)


def test_pickled_contents_are_refused(sections):
    facts = json.loads(sections["job.json"])
    facts["arrays"][0][1] = "object"
    with pytest.raises(CorruptEntryError):
        job_of(dict(sections) | {"job.json": json.dumps(facts).encode()})
    assert pack("k", dict(sections))
