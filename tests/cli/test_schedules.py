"""One run of a kernel that uses what an atomic returns proves nothing about other schedules: both pipelines say unknown."""

from __future__ import annotations

import textwrap
from pathlib import Path

import numpy as np
import pytest

from ptx_engine.findings import Finding, Severity, Site
from ptx_engine.launch import Launch, Role, TensorArg
from ptx_engine.verdict import Method, OutputVerdict, Status, Verdict
from volta_pass.check import check_file
from volta_pass.diagnostics.render import render
from volta_pass.job import FunctionReference, ValidationJob
from volta_pass.kernel_report import KernelReport
from volta_pass.report import exit_table, finding_counts, short_configuration
from volta_pass.schedules import for_all_schedules
from volta_pass.validate import validate

#: out[place] = x[tid], where the place is an atomic counter's old value, or the thread's number; the counter counts in both
PLACES = {
    "bucket": "atom.global.add.u32 %r2, [%d2], 1;",
    "own": "red.global.add.u32 [%d2], 1;\nmov.u32 %r2, %r1;",
    "own, by atom": "atom.global.add.u32 %r3, [%d2], 1;\nmov.u32 %r2, %r1;",
}
SCATTER = """\
.version 8.4
.target sm_80
.address_size 64
.visible .entry scatter(.param .u64 x, .param .u64 out, .param .u64 counter)
{
.reg .b32 %r<9>;
.reg .b32 %f<4>;
.reg .b64 %d<9>;
ld.param.u64 %d0, [x];
ld.param.u64 %d1, [out];
ld.param.u64 %d2, [counter];
mov.u32 %r1, %tid.x;
PLACE
mad.wide.u32 %d3, %r1, 4, %d0;
ld.global.f32 %f1, [%d3];
mad.wide.u32 %d4, %r2, 4, %d1;
st.global.f32 [%d4], %f1;
ret;
}
"""
PLACE_LINE = SCATTER.splitlines().index("PLACE") + 1
LAUNCH = Launch(
    (1, 1, 1), (64, 1, 1),
    (TensorArg("x", "f32", (64,), Role.IN), TensorArg("out", "f32", (64,), Role.OUT),
     TensorArg("counter", "u32", (1,), Role.AUX, contents=np.zeros(1, np.uint32))),
)  # fmt: skip


def job(place: str, factor: int = 1) -> ValidationJob:
    reference = FunctionReference(lambda x: x * factor, {"x": "x"}, ("out",), "times")
    return ValidationJob("scatter", SCATTER.replace("PLACE", PLACES[place]), LAUNCH, reference=reference)


def spec(folder: Path, place: str, reference: str = "") -> KernelReport:
    (folder / "scatter.ptx").write_text(SCATTER.replace("PLACE", PLACES[place]), encoding="utf-8")
    (folder / "own.ptx").write_text(SCATTER.replace("PLACE", PLACES["own"]), encoding="utf-8")
    path = folder / "spec.toml"
    tensors = "".join(
        f'[[args]]\nname = "{name}"\nkind = "tensor"\ndtype = "{dtype}"\nshape = [{extent}]\nrole = "{role}"\n{more}'
        for name, dtype, extent, role, more in (
            ("x", "f32", 64, "in", ""),
            ("out", "f32", 64, "out", ""),
            ("counter", "u32", 1, "aux", "contents = [0]\n"),
        )
    )
    text = f'[launch]\ngrid = 1\nblock = 64\n{tensors}{reference}[candidate]\nptx = "scatter.ptx"\n'
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return check_file(path)


@pytest.mark.parametrize(("place", "expected"), [("bucket", Status.UNKNOWN), ("own", Status.PROVED), ("own, by atom", Status.PROVED)])
def test_positions_taken_from_an_atomic_are_unknown(place: str, expected: Status) -> None:
    report = validate(job(place))
    assert (report.status, report.errors) == (expected, [])
    assert ("atom.global.add.u32 returns a value" in report.reason) == (expected is Status.UNKNOWN)
    assert report.comparisons[0].verdict.outputs[0].status is expected


@pytest.mark.parametrize("place", PLACES)
def test_a_difference_in_this_schedule_is_a_difference(place: str) -> None:
    assert validate(job(place, factor=2)).status is Status.REFUTED


@pytest.mark.parametrize(("place", "expected"), [("bucket", Status.UNKNOWN), ("own", Status.PROVED)])
def test_the_check_command_agrees(place: str, expected: Status, tmp_path: Path) -> None:
    report = spec(tmp_path, place, '[reference]\nptx = "own.ptx"\n')
    assert report.status is expected, report.reason
    assert (f"PTX line {PLACE_LINE}" in report.reason) == (expected is Status.UNKNOWN)


@pytest.mark.parametrize(("place", "expected"), [("bucket", Status.UNKNOWN), ("own", Status.PROVED)])
def test_a_candidate_alone_is_clean_in_one_schedule_only(place: str, expected: Status, tmp_path: Path) -> None:
    report = spec(tmp_path, place)
    assert report.status is expected
    assert bool(report.reason) == (expected is Status.UNKNOWN)


def test_outputs_without_a_verdict_of_their_own_stay() -> None:
    outputs = [
        OutputVerdict("a", Status.PROVED, 1),
        OutputVerdict("b", Status.REFUTED, 1),
        OutputVerdict("c", Status.UNKNOWN, 1, reason="hard"),
    ]
    verdict = for_all_schedules(Verdict(Status.REFUTED, Method.EXACT, outputs), ["why"])
    assert [o.status for o in verdict.outputs] == [Status.UNKNOWN, Status.REFUTED, Status.UNKNOWN]
    assert verdict.status is Status.REFUTED and verdict.outputs[2].reason == "hard"
    same = Verdict(Status.PROVED, Method.EXACT, outputs[:1])
    assert for_all_schedules(same, []) is same


# --- notes in the table -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("errors", "notes", "shown"), [(0, 0, "0"), (2, 0, "2"), (0, 1, "0 (+1 note)"), (0, 2, "0 (+2 notes)"), (1, 3, "1 (+3 notes)")]
)
def test_notes_are_counted_apart(errors: int, notes: int, shown: str) -> None:
    report = KernelReport("k", status=Status.PROVED, ctas_executed=1, ctas_total=1)
    report.findings = [Finding("data race", "")] * errors + [Finding("same-value write", "", Severity.NOTE)] * notes
    assert finding_counts(report) == shown
    assert shown in exit_table([report], width=120, color=False)
    assert [row["severity"] for row in report.to_json()["findings"]] == ["error"] * errors + ["note"] * notes


@pytest.mark.parametrize(("executed", "sampled"), [(0, False), (3, True), (8, False)])
def test_ctas_are_sampled_only_where_some_ran(executed: int, sampled: bool) -> None:
    report = KernelReport("k", ctas_executed=executed, ctas_total=8)
    assert ("sampled" in short_configuration(report)) == sampled


@pytest.mark.parametrize(("count", "said"), [(1, ""), (2, "1 more CTA at the same"), (3, "2 more CTAs at the same")])
def test_a_deadlock_of_many_ctas_counts_ctas(count: int, said: str) -> None:
    sites = tuple(Site("waits at bar.sync 0", (0, 0, 0), warp, 0, 7, 12, "bar.sync 0;") for warp in (0, 1))
    report = KernelReport("k", status=Status.REFUTED)
    report.findings = [Finding("deadlock", "who waits for whom", sites=sites, count=count)]
    text = render(report)
    assert said in text and ("also" in text) == (count > 1) and "pairs" not in text
