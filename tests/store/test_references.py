"""Evaluated references are recalled as terms: same reports as without, nothing recalled for another reference, nothing trusted blindly."""

import json
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptx_engine.launch import Footprint, Launch, Role, TensorArg, bind
from ptx_engine.machine import execute
from ptx_engine.syntax import parse
from ptx_engine.terms import Arena
from ptx_engine.terms.archive import pack_terms
from ptx_engine.verdict import Status
from volta_pass.job import Options, PtxReference, ValidationJob
from volta_pass.stages import Stages
from volta_pass.store import Store
from volta_pass.store.places import Remote
from volta_pass.store.proofs import VERDICTS, proof_keys, put_proof
from volta_pass.store.recheck import recheck
from volta_pass.store.references import FINGERPRINTS, REFERENCES, TERMS, ReferenceTerms, fingerprints_of, reference_key
from volta_pass.validate import validate

PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry scale(.param .u64 x, .param .u64 y) {
  .reg .b64 %rd<9>; .reg .b32 %r<5>; .reg .f32 %f<5>;
  ld.param.u64 %rd1, [x]; ld.param.u64 %rd3, [y];
  mov.u32 %r1, %tid.x; mul.wide.u32 %rd4, %r1, 4;
  add.s64 %rd5, %rd1, %rd4; add.s64 %rd7, %rd3, %rd4;
  ld.global.f32 %f1, [%rd5]; SUM st.global.f32 [%rd7], %f2; ret;
}
"""
TWICE, BY_TWO = "add.f32 %f2, %f1, %f1;", "mul.f32 %f2, %f1, 0f40000000;"
THRICE = TWICE + " add.f32 %f2, %f2, %f1;"
LAUNCH = Launch((1, 1, 1), (32, 1, 1), (TensorArg("x", "f32", (32,), Role.IN), TensorArg("y", "f32", (32,), Role.OUT)))


def text(total):
    return PTX.replace("SUM", total)


def job(total=BY_TWO, against=TWICE, launch=LAUNCH):
    return ValidationJob("scale", text(total), launch, "scale", reference=PtxReference(text(against), "scale", launch, "the sum"))


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store", warn=[].append)


def said(report):
    row = report.to_json()
    return {key: value for key, value in row.items() if key not in ("seconds", "peak_mib")}


def entries(store):
    return [item.name.rpartition("/")[2] for item in store.local.items() if item.name.startswith(REFERENCES)]


@pytest.mark.parametrize("total", [BY_TWO, THRICE])
def test_the_report_is_the_same_whether_terms_are_made_kept_held_or_read(store, total):
    """Proved and refuted alike: explanations and blame too."""
    made = job(total)
    plain = said(validate(made))
    known = ReferenceTerms(store)
    assert [said(validate(made, known)) for _ in range(2)] == [plain, plain]
    assert said(validate(made, ReferenceTerms(Store(store.local.root)))) == plain
    assert len(entries(store)) == 1


def test_the_second_time_nothing_is_evaluated(store, monkeypatch):
    validate(job(), ReferenceTerms(store))
    monkeypatch.setattr(Stages, "ptx", lambda *_: pytest.fail("the reference ran again"))
    assert validate(job(BY_TWO), ReferenceTerms(store)).status is Status.PROVED
    assert validate(job(TWICE), ReferenceTerms(store)).status is Status.PROVED


def test_another_reference_or_launch_is_not_mistaken_for_it(store):
    known = ReferenceTerms(store)
    assert validate(job(), known).status is Status.PROVED
    assert validate(job(against=THRICE), known).status is Status.REFUTED
    larger = replace(LAUNCH, args=tuple(replace(arg, shape=(64,)) for arg in LAUNCH.args))
    validate(job(launch=larger), known)
    halves = replace(LAUNCH, args=tuple(replace(arg, dtype="f32", strides=(2,), shape=(32,)) for arg in LAUNCH.args))
    assert validate(job(launch=halves), known).status is Status.PROVED
    assert len(entries(store)) == 4


def test_a_reference_with_findings_is_not_kept(store):
    outside = replace(LAUNCH, args=(replace(LAUNCH.args[0], shape=(16,)), LAUNCH.args[1]))
    validate(job(launch=outside), ReferenceTerms(store))
    assert entries(store) == []


def test_damaged_terms_are_reported_removed_and_made_anew(store):
    validate(job(), ReferenceTerms(store))
    (key,) = entries(store)
    sections = store.get(REFERENCES, key)
    store.put(REFERENCES, key, sections | {TERMS: b"nothing"})
    warned = []
    fresh = Store(store.local.root, warn=warned.append)
    assert validate(job(), ReferenceTerms(fresh)).status is Status.PROVED
    assert len(warned) == 1 and "malformed" in warned[0]
    assert store.get(REFERENCES, key) == sections


def forged_terms():
    """The terms of a kernel that multiplies by three, under the inputs of one that doubles."""
    arena = Arena()
    bound = bind(LAUNCH, arena)
    done = execute(parse(text(THRICE)), "scale", bound)
    return pack_terms(arena, {name: (f.index, f.ids) for name, f in done.footprints.items()})


def test_other_terms_with_a_right_checksum_are_found_by_doing_them_again(store):
    validate(job(), ReferenceTerms(store))
    (key,) = entries(store)
    assert recheck(store).confirmed == 1
    store.put(REFERENCES, key, store.get(REFERENCES, key) | {TERMS: forged_terms()})
    (why,) = recheck(store).refused
    assert "terms are others" in why and entries(store) == []


def test_a_reference_under_the_key_of_another_is_found(store):
    validate(job(), ReferenceTerms(store))
    validate(job(against=THRICE), ReferenceTerms(store))
    first, second = entries(store)
    store.put(REFERENCES, first, store.get(REFERENCES, second))
    done = recheck(store)
    assert done.confirmed == 1 and "not those of its key" in done.refused[0]


def test_fingerprints_that_are_others_are_found(store):
    validate(job(), ReferenceTerms(store))
    (key,) = entries(store)
    sections = store.get(REFERENCES, key)
    rows = json.loads(sections[FINGERPRINTS])
    rows["y"]["digest"] = rows["y"]["digest"][::-1]
    store.put(REFERENCES, key, sections | {FINGERPRINTS: json.dumps(rows).encode()})
    assert "fingerprints are others" in recheck(store).refused[0]


def test_a_refutation_is_never_shown_on_stored_terms(store):
    """Forged terms can make a wrong kernel look right (as a forged verdict can), never a right one look wrong."""
    validate(job(), ReferenceTerms(store))
    (key,) = entries(store)
    store.put(REFERENCES, key, store.get(REFERENCES, key) | {TERMS: forged_terms()})
    assert said(validate(job(), ReferenceTerms(store))) == said(validate(job()))


def test_fingerprints_do_not_depend_on_ids_and_tell_outputs_apart():
    def prints(total, first):
        arena = Arena()
        bound = bind(replace(LAUNCH, args=(*first, *LAUNCH.args)) if first else LAUNCH, arena)
        if first:
            arena.exp2(arena.add(-1, -2))
        bound.launch = LAUNCH
        return fingerprints_of(arena, execute(parse(text(total)), "scale", bound).footprints)

    more = (TensorArg("w", "f32", (7,), Role.IN),)
    assert prints(TWICE, ()) == prints(TWICE, more) == prints(BY_TWO, ())
    assert prints(TWICE, ()) != prints(THRICE, ())
    fewer = Arena()
    ids = bind(LAUNCH, fewer).by_name["x"].input.ids(np.arange(32))
    whole, part = (fingerprints_of(fewer, {"y": Footprint(np.arange(n), ids[:n])}) for n in (32, 31))
    assert whole != part


def test_terms_of_a_shared_store_are_named_in_the_ledger(tmp_path):
    team = Remote("memory://references")
    validate(job(), ReferenceTerms(Store(tmp_path / "one", shared=team)))
    report = validate(job(), ReferenceTerms(Store(tmp_path / "two", shared=team)))
    assert report.status is Status.PROVED
    assert any("terms were read from the shared store memory://references" in line for line in report.assumptions)
    assert validate(job(), ReferenceTerms(Store(tmp_path / "one"))).assumptions == validate(job()).assumptions


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_any_contents_under_a_right_checksum_give_a_verdict(tmp_path_factory, seed):
    """Nothing that stands in an entry ends in anything but a report."""
    chance = random.Random(seed)
    store = Store(tmp_path_factory.mktemp("fuzz"), warn=[].append)
    validate(job(THRICE), ReferenceTerms(store))
    (key,) = entries(store)
    sections = dict(store.get(REFERENCES, key))
    name = chance.choice([TERMS, FINGERPRINTS, "payload.json", "job.json"])
    raw = bytearray(sections[name])
    for _ in range(chance.randrange(1, 4)):
        raw[chance.randrange(len(raw))] = chance.randrange(256)
    sections[name] = bytes(raw[: chance.choice([len(raw), chance.randrange(len(raw))])])
    store.put(REFERENCES, key, sections)
    assert validate(job(THRICE), ReferenceTerms(store)).status is Status.REFUTED
    recheck(store)


def test_the_key_depends_on_what_the_terms_depend_on():
    reference = job().reference
    keys = {
        reference_key(reference, Stages(LAUNCH, options, ctas, library))
        for options, ctas, library in [
            (Options(), None, None), (Options(), 1, None), (Options(seed=3), None, None), (Options(), None, {"f": "ptx"}),
        ]
    }  # fmt: skip
    keys |= {reference_key(reference, Stages(LAUNCH, Options()), "older")}
    assert len(keys) == 5


def test_a_proof_is_kept_with_fingerprints_of_its_outputs(store):
    made = job()
    report = validate(made, ReferenceTerms(store))
    key = proof_keys(made)[0]
    assert put_proof(store, made, report, key)
    sections = store.get(VERDICTS, key)
    assert json.loads(sections[FINGERPRINTS])["candidate"]["y"]["elements"] == 32
    assert sections["reference.key"].decode() in entries(store)
    assert recheck(store).confirmed == 2
    rows = json.loads(sections[FINGERPRINTS])
    rows["candidate"]["y"]["elements"] = 31
    store.put(VERDICTS, key, sections | {FINGERPRINTS: json.dumps(rows).encode()})
    assert "fingerprints are others" in recheck(store).refused[0]
    assert validate(job(THRICE), ReferenceTerms(store)).evidence == {}
