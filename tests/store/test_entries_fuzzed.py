"""Entries with right checksums and changed values: other types, shapes, counts, tensors. What is recalled is the right verdict, or it is made
anew; never a traceback, and every report that comes of it can be shown in every format."""

import copy
import json
import random
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_references import BY_TWO, THRICE, TWICE, entries, job

from ptx_engine.terms.archive import content_of
from ptx_engine.verdict import Status
from volta_hooks.policy import Mode
from volta_hooks.session import Session
from volta_pass.kernel_report import KernelReport
from volta_pass.report import exit_table
from volta_pass.reports import SUFFIXES
from volta_pass.store import Store
from volta_pass.store.proofs import VERDICTS, proof_keys
from volta_pass.store.recheck import recheck
from volta_pass.store.references import REFERENCES, TERMS, ReferenceTerms
from volta_pass.validate import validate

PAYLOAD = "payload.json"
VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 31, 33, 2**31, 2**63, 10**30, -(10**30), 0.5, 1e308, float("nan"), float("inf"), "", "x", "y", "f32", "f16", "O8",
    "proved", "refuted", "error", "note", "exact", [], {}, [0], [[]], [1, 2, 3], ["x", 32, "f16"], [["y", 31]], {"a": 1}, [None], [{}],
]  # fmt: skip
SLOW = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]


def places(value: Any, above: tuple = ()) -> Any:
    rows = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in rows:
        yield (*above, key)
        yield from places(item, (*above, key))


def changed(value: Any, chance: random.Random) -> Any:
    """One to three places with another value, gone, or twice."""
    value = copy.deepcopy(value)
    for _ in range(chance.choice([1, 1, 2, 3])):
        found = list(places(value))
        if not found:
            return value
        *above, last = chance.choice(found)
        holder = value
        for key in above:
            holder = holder[key]
        if chance.random() < 0.15:
            del holder[last]
        elif isinstance(holder, list) and chance.random() < 0.15:
            holder.append(holder[last])
        else:
            holder[last] = copy.deepcopy(chance.choice(VALUES))
    return value


def shown(report: KernelReport) -> None:
    """Everything that is made of a report."""
    json.dumps(report.to_json())
    exit_table([report])
    for suffix in SUFFIXES:
        SUFFIXES[suffix]([report])
    report._repr_html_()


# --- verdicts -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def proof(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, dict[str, bytes]]:
    """A kept proof of a right kernel."""
    folder = tmp_path_factory.mktemp("proof")
    session = Session(Mode.ON, Store(folder, warn=[].append))
    assert session.run(job(BY_TWO)).status is Status.PROVED
    key = proof_keys(job(BY_TWO))[0]
    sections = session.store.get(VERDICTS, key)
    assert sections is not None
    return folder, key, sections


def recalled(proof: tuple[Path, str, dict[str, bytes]], payload: bytes) -> tuple[KernelReport, list[str]]:
    folder, key, sections = proof
    said: list[str] = []
    store = Store(folder, warn=said.append)
    store.put(VERDICTS, key, sections | {PAYLOAD: payload})
    return Session(Mode.ON, store).run(job(BY_TWO)), said


def verdict_of(proof: Any, seed: int) -> None:
    chance = random.Random(seed)
    report, _ = recalled(proof, json.dumps(changed(json.loads(proof[2][PAYLOAD]), chance)).encode())
    assert report.status is Status.PROVED and {row.status for row in report.comparisons} <= {Status.PROVED} and not report.error_findings
    shown(report)


@settings(max_examples=100, deadline=None, suppress_health_check=SLOW)
@given(st.integers(0, 2**32))
def test_whatever_stands_in_a_proof_the_report_is_one_of_a_proof(proof: Any, seed: int) -> None:
    verdict_of(proof, seed)


@pytest.mark.slow
@settings(max_examples=5000, deadline=None, suppress_health_check=SLOW)
@given(st.integers(0, 2**32))
def test_whatever_stands_in_a_proof_at_length(proof: Any, seed: int) -> None:
    verdict_of(proof, seed)


def test_the_proof_as_it_is_is_recalled(proof: Any) -> None:
    report, said = recalled(proof, proof[2][PAYLOAD])
    assert report.cached and said == []


@pytest.mark.parametrize(
    "change",
    [
        {"kernel": ["scale"]}, {"seconds": []}, {"seconds": {"parse": "1"}}, {"toolchain": {"Triton": 3}}, {"assumptions": "abc"}, {"comparisons": {}},
        {"ctas": 1}, {"ctas": {"executed": "1", "total": "1"}}, {"instructions": 1.5}, {"findings": [{}]}, {"method": []}, {"launch": 3},
    ],
)  # fmt: skip
def test_a_proof_of_another_form_is_named_removed_and_made_anew(proof: Any, change: dict[str, Any]) -> None:
    report, said = recalled(proof, json.dumps(json.loads(proof[2][PAYLOAD]) | change).encode())
    assert not report.cached and report.status is Status.PROVED
    assert len(said) == 1 and "holds no proof" in said[0]


def test_a_comparison_that_is_not_proved_is_no_part_of_a_proof(proof: Any) -> None:
    row = json.loads(proof[2][PAYLOAD])
    row["comparisons"][0]["verdict"] = "refuted"
    report, said = recalled(proof, json.dumps(row).encode())
    assert not report.cached and "not proved" in said[0]


@pytest.mark.parametrize("payload", [b"[" * 100_000, b"{", b"\xff", b"[1]", b"null", b'{"verdict": ' + b"[" * 100_000])
def test_a_payload_that_is_no_object_is_named_and_made_anew(proof: Any, payload: bytes) -> None:
    report, said = recalled(proof, payload)
    assert not report.cached and report.status is Status.PROVED and len(said) == 1


# --- references -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, dict[str, bytes]]:
    """The kept terms of a kernel that doubles."""
    store = Store(tmp_path_factory.mktemp("reference"), warn=[].append)
    assert validate(job(BY_TWO), ReferenceTerms(store)).status is Status.PROVED
    (key,) = entries(store)
    sections = store.get(REFERENCES, key)
    assert sections is not None
    return store.local.root, key, sections


def other_terms(data: bytes, chance: random.Random) -> bytes:
    """Terms whose checksum, compression and lengths are right: another header, other numbers in the columns, or a part more or less."""
    header, body = content_of(data)
    kind = chance.randrange(4)
    if kind != 1:
        header = changed(header, chance)
    raw = bytearray(body)
    if kind == 1 or kind == 2:
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(len(raw))
            raw[at] = chance.randrange(256)
    if kind == 3:
        at = chance.randrange(len(raw))
        raw = raw[:at] + raw[at + chance.choice([1, 4, 8]) :] if chance.random() < 0.5 else raw + raw[at : at + 8]
    if isinstance(header, dict) and chance.random() < 0.9:
        header["bytes"] = len(raw)
    text = json.dumps(header).encode()
    return b"%d\n" % len(text) + text + zlib.compress(bytes(raw), 1)


def verdicts_with(reference: tuple[Path, str, dict[str, bytes]], seed: int) -> None:
    folder, key, sections = reference
    chance, said = random.Random(seed), list[str]()
    new = dict(sections)
    if chance.random() < 0.75:
        new[TERMS] = other_terms(sections[TERMS], chance)
    else:
        new[PAYLOAD] = json.dumps(changed(json.loads(sections[PAYLOAD]), chance)).encode()
    for total, status in ((TWICE, Status.PROVED), (THRICE, Status.REFUTED)):
        store = Store(folder, warn=said.append)
        store.put(REFERENCES, key, new)
        report = validate(job(total), ReferenceTerms(store))
        assert report.status is status and not report.failure, said
        shown(report)
    store.put(REFERENCES, key, new)
    recheck(store)


@settings(max_examples=100, deadline=None, suppress_health_check=SLOW)
@given(st.integers(0, 2**32))
def test_terms_of_other_shapes_and_types_never_change_a_verdict(reference: Any, seed: int) -> None:
    verdicts_with(reference, seed)


@pytest.mark.slow
@settings(max_examples=5000, deadline=None, suppress_health_check=SLOW)
@given(st.integers(0, 2**32))
def test_terms_of_other_shapes_and_types_at_length(reference: Any, seed: int) -> None:
    verdicts_with(reference, seed)
