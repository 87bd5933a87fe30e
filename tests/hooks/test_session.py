"""What a process remembers of its validations: verdicts by key, references of tuned kernels, groups that agree."""

import json
from dataclasses import replace

import numpy as np
import pytest

from ptx_engine.launch import Launch, TensorArg
from ptx_engine.verdict import Method, OutputVerdict, Status, Verdict
from volta_hooks import session as module
from volta_hooks.policy import Mode
from volta_hooks.session import VERDICTS, Session
from volta_pass.job import FunctionReference, TtirReference, ValidationJob
from volta_pass.kernel_report import OWN_SOURCE, REFERENCE, Comparison, KernelReport
from volta_pass.store import Store
from volta_pass.validate import FIXED_CONTENTS

LAUNCH = Launch((4, 1, 1), (128, 1, 1), (TensorArg("x_ptr", "f32", (512,)),))


def job(ptx="ptx", source="source", launch=LAUNCH, **more):
    return ValidationJob("kernel", ptx, launch, source=source, configuration={"BLOCK": 128}, **more)


def comparison(against, status):
    return Comparison(against, "label", Verdict(status, Method.EXACT, [OutputVerdict("x_ptr", status, 512, 1)]))


@pytest.fixture
def validator(monkeypatch):
    """Replaces the validator: ``jobs`` it was given; a source of "wrong..." differs from every reference but such ones."""
    jobs = []

    def validate(given, known=None):
        jobs.append(given)
        report = KernelReport(given.kernel, dict(given.configuration), status=validate.status)
        report.comparisons = [comparison(OWN_SOURCE, Status.PROVED)]
        if isinstance(given.reference, TtirReference):
            same = given.source.startswith("wrong") == given.reference.text.startswith("wrong")
            report.comparisons.append(comparison(REFERENCE, Status.PROVED if same else Status.REFUTED))
            report.status = Status.PROVED if same else Status.REFUTED
        report.assumptions = [FIXED_CONTENTS] if validate.needs_contents else []
        return report

    def agree(left, right, _):
        return Status.PROVED if left.text.startswith("wrong") == right.text.startswith("wrong") else Status.REFUTED

    validate.jobs, validate.status, validate.needs_contents = jobs, Status.PROVED, False
    monkeypatch.setattr(module, "validate", validate)
    monkeypatch.setattr(module, "agree", agree)
    return validate


def fresh(tmp_path):
    return Session(Mode.ON, Store(tmp_path / "store"))


def test_a_proof_is_recalled_by_other_processes(tmp_path, validator):
    assert not fresh(tmp_path).run(job()).cached
    report = fresh(tmp_path).run(job())
    assert report.cached and report.status is Status.PROVED and len(validator.jobs) == 1


@pytest.mark.parametrize("status", [Status.REFUTED, Status.UNKNOWN, Status.UNSUPPORTED])
def test_what_is_no_proof_is_decided_anew_by_other_processes(tmp_path, validator, status):
    validator.status = status
    assert fresh(tmp_path).run(job()).status is status
    assert fresh(tmp_path).run(job()).status is status
    assert len(validator.jobs) == 2


def test_an_unknown_is_not_even_recalled_by_the_same_process(tmp_path, validator):
    validator.status = Status.UNKNOWN
    session = fresh(tmp_path)
    session.run(job())
    validator.status = Status.PROVED
    assert session.run(job()).status is Status.PROVED


@pytest.mark.parametrize(
    "other",
    [
        job(ptx="other ptx"),
        job(source="other source"),
        job(launch=replace(LAUNCH, grid=(5, 1, 1))),
        job(launch=replace(LAUNCH, args=(TensorArg("x_ptr", "f32", (513,)),))),
        job(reference=TtirReference("source", LAUNCH, "another")),
    ],
)
def test_whatever_a_verdict_depends_on_is_in_its_key(tmp_path, validator, other):
    fresh(tmp_path).run(job())
    assert not fresh(tmp_path).run(other).cached


def test_another_version_of_ours_starts_anew(tmp_path, validator, monkeypatch):
    fresh(tmp_path).run(job())
    monkeypatch.setattr("volta_pass.store.proofs.own_version", lambda: "another")
    assert not fresh(tmp_path).run(job()).cached


def test_a_proof_that_needed_contents_holds_for_these_contents(tmp_path, validator):
    def with_index(values):
        return job(contents={"x_ptr": lambda: np.array(values)})

    validator.needs_contents = True
    fresh(tmp_path).run(with_index([1, 2]))
    assert fresh(tmp_path).run(with_index([1, 2])).cached
    assert not fresh(tmp_path).run(with_index([1, 3])).cached


def test_a_proof_without_contents_holds_for_all_contents(tmp_path, validator):
    fresh(tmp_path).run(job(contents={"x_ptr": lambda: np.array([1])}))
    assert fresh(tmp_path).run(job(contents={"x_ptr": lambda: np.array([2])})).cached


def test_a_proof_against_a_function_is_never_recalled(tmp_path, validator):
    reference = TtirReference("source", LAUNCH, "a text")
    session = fresh(tmp_path)
    assert [session.run(job(reference=reference)).cached for _ in range(2)] == [False, True]
    function = FunctionReference(lambda x: x, {"x": "x_ptr"}, ("x_ptr",), "a function")
    function_job = job(reference=function)
    assert [session.run(function_job).cached for _ in range(2)] == [False, False]


def test_a_damaged_proof_is_decided_anew(tmp_path, validator):
    fresh(tmp_path).run(job())
    store = Store(tmp_path / "store")
    (item,) = store.items()
    key = item.name.rpartition("/")[2]
    payload, _ = store.get_json(VERDICTS, key)
    del payload["findings"]
    store.put_json(VERDICTS, key, payload)
    assert not fresh(tmp_path).run(job()).cached


def test_the_first_configuration_is_the_others_reference(tmp_path, validator):
    session = fresh(tmp_path)
    session.run(job("ptx 1", "right 1"), tuning_key="matmul at 64x64", label="B=32")
    session.run(job("ptx 2", "wrong 2"), tuning_key="matmul at 64x64", label="B=64")
    session.run(job("ptx 3", "right 3"), tuning_key="matmul at 64x64", label="B=16")
    session.run(job("ptx 4", "wrong 4"), tuning_key="matmul at 64x64", label="B=128")
    session.run(job("ptx 5", "wrong 5"), tuning_key="matmul at 32x32", label="B=64")
    references = [given.reference.label if given.reference else None for given in validator.jobs]
    assert references == [None, "B=32", "B=32", "B=32", None]
    assert [report.status for report in session.reports] == [Status.PROVED, Status.REFUTED, Status.PROVED, Status.REFUTED, Status.PROVED]
    sentences = session.tunings["matmul at 64x64"].sentences()
    assert "B=32" in sentences[0] and "no reference function" in sentences[0]
    assert sentences[1:] == ["with the reference: B=32; B=16 agree with each other", "B=64; B=128 agree with each other"]
    assert session.tunings["matmul at 32x32"].sentences() == []


def test_a_lone_configuration_agrees_with_no_other(tmp_path, validator):
    session = fresh(tmp_path)
    session.run(job("ptx 1", "wrong 1"), tuning_key="k", label="B=64")
    session.run(job("ptx 2", "right 2"), tuning_key="k", label="B=32")
    assert session.tunings["k"].sentences()[1:] == ["with the reference: B=64 agrees with no other", "B=32 agrees with no other"]


def test_a_given_reference_stays(tmp_path, validator):
    given = TtirReference("right, from the user", LAUNCH, "the function f")
    session = fresh(tmp_path)
    for number in (1, 2):
        session.run(job(f"ptx {number}", "right", reference=given), tuning_key="k", label=f"B={number}")
    assert [row.reference for row in validator.jobs] == [given, given] and session.tunings == {}


def test_the_end_prints_the_table_and_writes_the_file(tmp_path, validator, monkeypatch, capsys):
    path = tmp_path / "report.json"
    monkeypatch.setenv("VOLTA_REPORT", str(path))
    session = fresh(tmp_path)
    session.finish()
    assert capsys.readouterr().err == "" and not path.exists()
    session.run(job())
    session.finish()
    assert "kernel" in capsys.readouterr().err
    assert [kernel["verdict"] for kernel in json.loads(path.read_text())["kernels"]] == ["proved"]
    monkeypatch.setenv("VOLTA_REPORT", str(tmp_path / "store"))
    session.finish()
    assert "cannot write" in capsys.readouterr().err
