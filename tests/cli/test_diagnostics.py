"""Diagnostics and tables: what stands where, at which line, in which words; nothing unsafe reaches the terminal."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptx_engine.findings import Finding, Severity, Site
from ptx_engine.launch import TensorArg
from ptx_engine.verdict import Explanation, Method, OutputVerdict, Status, Verdict, Witness
from volta_pass.diagnostics import render
from volta_pass.diagnostics.region import describe_region, draw_map, flat_indices
from volta_pass.kernel_report import OWN_SOURCE, REFERENCE, Blame, Comparison, KernelReport
from volta_pass.report import exit_table, report_document, worst_status, write_json
from volta_pass.terminal import printable, wants_color

A = TensorArg("A", "f16", (64, 96), strides=(128, 1))
C = TensorArg("C", "f16", (64, 64))


def race(source: str = "") -> Finding:
    store = Site("store", (0, 0, 0), 0, 5, 40, 412, "st.shared.b32 [%r14], %r31;", f"{source}:2:5" if source else "")
    load = Site("load", (3, 1, 0), 2, 1, 52, 431, "ld.shared.b32 %r40, [%r15];", f"{source}:3:9" if source else "")
    return Finding(
        "data race", "", space="shared", address_offset=0x14, width_bytes=4, sites=(store, load), missing="no barrier orders them", count=32
    )


def refuted(source: str = "") -> KernelReport:
    witness = Witness("C", 0, {"A[128]": "1", "A[0]": "0", "B[3]": "0.0"}, "0", "1.00000000000000000000")
    why = Explanation("extra", "sum over 128 products, reference has 96", extra=("A[0,96]*B[96,0]",), extra_total=32)
    output = OutputVerdict("C", Status.REFUTED, 4096, failing=np.arange(4096), witness=witness, explanation=why)
    proved = OutputVerdict("D", Status.PROVED, 64, classes=1)
    report = KernelReport("matmul_kernel", {"BLOCK_K": 64, "num_warps": 4, "num_stages": 3}, status=Status.REFUTED)
    report.comparisons = [Comparison(REFERENCE, "ref", Verdict(Status.REFUTED, Method.EXACT, [proved, output]))]
    report.tensors = {"A": A, "C": C}
    report.blame = Blame("kernel", "the PTX equals its own TTIR (proved)", f"{source}:2:5" if source else "", "reads past column 96")
    report.ctas_executed, report.ctas_total = 8, 64
    return report


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "kernel.py"
    path.write_text("import x\n    a = tl.load(a_ptrs)\n\tb = f(a)\n", encoding="utf-8")
    return path


def test_refutation_names_everything(source: Path) -> None:
    text = render(refuted(str(source)))
    lines = text.splitlines()
    assert lines[0].startswith("error: matmul_kernel: C differs from the reference") and lines[0].endswith("[refuted, exact]")
    assert lines[1].endswith("kernel.py:2:5")
    shown = next(i for i, line in enumerate(lines) if "a = tl.load(a_ptrs)" in line)
    assert lines[shown + 1].index("^") == lines[shown].index("a = tl.load")  # column 5 of the source line
    assert lines[shown + 1].endswith("^ reads past column 96")
    assert "config   BLOCK_K=64 num_warps=4 num_stages=3" in text
    assert "output   C[0, 0]: sum over 128 products, reference has 96" in text
    assert "extra    A[0,96]*B[96,0], ... (32 terms)" in text
    assert "where    C: all 4096 elements" in text
    assert "witness  A[1, 0]=1, all else 0: kernel 1, reference 0" in text.replace("1.00000000000000000000", "1")
    assert "blame    kernel: the PTX equals its own TTIR (proved)" in text
    assert "help     " in text
    assert "D" not in lines[0]


def test_proved_twin_says_so_in_one_line() -> None:
    report = refuted()
    report.status = Status.PROVED
    report.comparisons[0].verdict.status = Status.PROVED
    report.comparisons[0].verdict.outputs = [OutputVerdict("C", Status.PROVED, 4096, classes=4)]
    text = render(report)
    assert len(text.splitlines()) == 1
    assert "4096 outputs in 4 classes equal the reference" in text and text.endswith("[proved, exact]")


def test_difference_from_the_own_source_says_ttir() -> None:
    report = refuted()
    report.comparisons[0].against = OWN_SOURCE
    assert "C differs from its own TTIR" in render(report)


def test_unknown_is_a_warning_with_reason_and_numbers() -> None:
    report = refuted()
    report.status = Status.UNKNOWN
    output = OutputVerdict("C", Status.UNKNOWN, 4096, reason="the exact budget ran out", numeric_difference=3.5e-9)
    report.comparisons = [Comparison(REFERENCE, "ref", Verdict(Status.UNKNOWN, Method.EXACT, [output], "budget"))]
    text = render(report)
    assert text.startswith("warning: ") and "could not be proved equal" in text
    assert "the exact budget ran out" in text and "3.5e-09" in text and "reason   budget" in text


def test_race_shows_both_threads_and_lines(source: Path) -> None:
    report = KernelReport("softmax", status=Status.REFUTED, findings=[race(str(source))])
    text = render(report)
    assert text.splitlines()[0].startswith("error: softmax: data race on shared memory")
    assert "[race, 2 schedules exist]" in text
    assert "kernel.py:2:5  store, thread (CTA 0, warp 0, lane 5), PTX line 412: st.shared.b32" in text
    assert "kernel.py:3:9  load, thread (CTA (3,1,0), warp 2, lane 1), PTX line 431" in text
    assert "address  shared+0x14 (4 bytes)" in text
    assert "missing  no barrier orders them" in text
    assert "also     31 more pairs of the same two instructions" in text


@pytest.mark.parametrize(
    ("kind", "role", "missing", "shown"),
    [
        ("deadlock", "waits at bar.sync 0", "", ["    waits at bar.sync 0, thread", "that the barrier counts"]),
        ("deadlock", "waits at a loop that polls x[0]", "", ["    waits at a loop", "store what the loop waits for"]),
        ("barrier misuse", "bar.sync", "", ["    by bar.sync, thread", "one barrier id per set of waiting threads"]),
        ("barrier misuse", "bar.sync", "lanes 8-31 of the warp at the same instruction", ["    by bar.sync, thread", "let all lanes of the warp"]),
    ],
)  # fmt: skip
def test_the_next_step_is_that_of_who_waits_or_is_missing(source: Path, kind: str, role: str, missing: str, shown: list[str]) -> None:
    site = Site(role, (0, 0, 0), 0, 5, 40, 412, "bar.sync 0;", f"{source}:2:5")
    report = KernelReport("k", {}, status=Status.REFUTED, findings=[Finding(kind, "", sites=(site,), missing=missing)])
    text = render(report)
    assert all(words in text for words in shown)


@pytest.mark.parametrize(("count", "said"), [(1, ""), (2, "1 more pair of the same"), (3, "2 more pairs of the same")])
def test_more_pairs_are_counted(source: Path, count: int, said: str) -> None:
    report = KernelReport("k", {}, status=Status.REFUTED, findings=[replace(race(str(source)), count=count)])
    text = render(report)
    assert ("also " in text) is bool(said) and said in text


def test_findings_without_user_lines_point_into_the_ptx() -> None:
    text = render(KernelReport("k", status=Status.REFUTED, findings=[race()]), ptx_name="k.ptx")
    assert "--> k.ptx:412" in text and "--> k.ptx:431" in text


def test_notes_come_after_errors_and_many_groups_are_counted() -> None:
    note = Finding("same-value write", "", Severity.NOTE, space="shared")
    text = render(KernelReport("k", status=Status.REFUTED, findings=[note] * 3 + [race()] * 9))
    assert text.startswith("error:")
    assert "4 more groups of findings" in text


def test_findings_at_the_same_lines_are_printed_once(source: Path) -> None:
    """Unrolled: other instructions of the same two lines, either way round. Another line, another kind, another reason: their own."""
    one = race(str(source))
    turned = replace(one, sites=(replace(one.sites[1], ptx_line=440), one.sites[0]), count=2)
    others = [replace(one, missing="no wait"), replace(one, sites=(one.sites[0], replace(one.sites[1], user_loc=f"{source}:1:1")))]
    text = render(KernelReport("k", status=Status.REFUTED, findings=[one, turned, *others, turned]))
    assert text.count("error: k: data race") == 3 and "PTX line 440" not in text
    assert "2 more pairs of instructions at the same lines (4 instances)" in text and text.count("at the same lines") == 1


def test_notes_at_the_same_line_are_counted_together(source: Path) -> None:
    note = Finding("same-value write", "", Severity.NOTE, space="shared", sites=race(str(source)).sites[:1], count=3)
    text = render(KernelReport("k", status=Status.PROVED, findings=[note, replace(note, count=4)]))
    assert text.count("same-value write") == 1 and "7 times" in text


@pytest.mark.parametrize("place", ["gone.py:3:1", "/dev/null:1:1", "<string>:3:1", "a.py", ":::", "x\0y:1:1", "kernel.py:999999:1"])
def test_odd_places_cost_the_excerpt_only(place: str) -> None:
    report = refuted()
    report.blame = Blame("kernel", "text", place)
    text = render(report)
    assert "-->" in text and "blame    kernel: text" in text and "\0" not in text


def test_latin1_source_and_tabs(tmp_path: Path) -> None:
    path = tmp_path / "k.py"
    path.write_bytes(b"x = '\xe9'\n\tload(a)\n")
    report = refuted()
    report.blame = Blame("kernel", "text", f"{path}:1:1")
    assert "x = '" in render(report)
    report.blame = Blame("kernel", "text", f"{path}:2:2")
    lines = render(report).splitlines()
    shown = next(i for i, line in enumerate(lines) if "load(a)" in line)
    assert lines[shown + 1].index("^") == lines[shown].index("load(a)")


def test_control_characters_never_reach_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "k.py"
    path.write_text("a\x1b[2Jb\n", encoding="utf-8")
    report = refuted()
    report.kernel = "k"
    report.blame = Blame("kernel", "te\x1b[31mxt", f"{path}:1:1", "de\x07tail")
    report.findings = [race()]
    assert "\x1b" not in render(report) and "\x07" not in render(report)
    assert printable("a\x9bb\tc") == "a?b c"


def test_color_only_where_asked_for() -> None:
    assert "\x1b[" in render(refuted(), color=True)
    assert "\x1b[" not in render(refuted())
    assert "\x1b[" in exit_table([refuted()], color=True) and "\x1b[" not in exit_table([refuted()], color=False)

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    assert wants_color(Terminal(), {})
    assert not wants_color(Terminal(), {"NO_COLOR": "1"})
    assert not wants_color(Terminal(), {"TERM": "dumb"})
    assert not wants_color(io.StringIO(), {})


# --- regions ------------------------------------------------------------------------------------


def failing(mask: np.ndarray, tensor: TensorArg) -> np.ndarray:
    index = np.argwhere(mask)
    return index @ np.array(tensor.element_strides())


def test_regions_in_words() -> None:
    mask = np.zeros((64, 96), bool)
    mask[:, 63] = True
    assert describe_region(A, failing(mask, A)) == "column 63 of every row"
    assert describe_region(A, np.array([100])) == "1 storage elements outside the view"  # between two rows
    assert describe_region(A, failing(np.ones((64, 96), bool), A)) == "all 6144 elements"


def test_maps() -> None:
    mask = np.zeros((64, 64), bool)
    mask[:, 63] = True
    drawn = draw_map(C, failing(mask, C))
    assert len(drawn) >= 16 and all(row == "." * 63 + "#" for row in drawn)
    assert draw_map(C, failing(np.ones((64, 64), bool), C)) == []
    assert draw_map(TensorArg("s", "f32", ()), np.array([0])) == []


@given(st.lists(st.integers(1, 9), min_size=1, max_size=3), st.data())
@settings(max_examples=60, deadline=None)
def test_indices_come_back(shape: list[int], data: st.DataObject) -> None:
    pad = data.draw(st.integers(0, 3))
    strides, step = [], 1
    for extent in reversed(shape):
        strides.insert(0, step)
        step *= extent + pad
    tensor = TensorArg("t", "f32", tuple(shape), strides=tuple(strides))
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))).reshape(shape)
    assert np.array_equal(flat_indices(tensor, failing(mask, tensor)), np.flatnonzero(mask))


# --- tables and files ---------------------------------------------------------------------------


@pytest.mark.parametrize("width", [72, 100, 140])
def test_table_fits_and_holds_the_facts(width: int) -> None:
    proved = KernelReport("attention_kernel", {"BLOCK_M": 128, "num_warps": 4}, status=Status.PROVED, ctas_executed=8, ctas_total=8)
    proved.assumptions = ["real arithmetic", "log2(e) recognised"]
    wrong = refuted()
    wrong.assumptions = ["real arithmetic"]
    text = exit_table([wrong, proved], width=width, color=False)
    assert all(len(line) <= width for line in text.splitlines())
    for word in ("refuted", "proved", "8/64", "8/8", "w4", "(sampled", "real arithmetic"):
        assert word in text, word
    assert ("classes" in text) == (width >= 100)
    assert "(1 of 2)" in text


def test_worst_verdict() -> None:
    reports = [KernelReport("k", status=status) for status in Status]
    assert worst_status(reports) is Status.REFUTED
    assert worst_status([r for r in reports if r.status is not Status.REFUTED]) is Status.UNKNOWN
    assert worst_status([]) is Status.PROVED


def test_json_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "deep" / "report.json"
    write_json([refuted()], path)
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document == json.loads(json.dumps(report_document([refuted()])))
    assert document["verdict"] == "refuted" and document["kernels"][0]["outputs"][1]["witness"]["candidate_value"].startswith("1.0")
    before = path.read_bytes()
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_json([], path)
    assert path.read_bytes() == before and [p.name for p in path.parent.iterdir()] == ["report.json"]


def test_a_note_is_two_lines_and_the_verdict_stands() -> None:
    site = Site("store", (0, 0, 0), 0, 5, 40, 412, "st.shared.b32 [%r14], %r31;", "k.py:3:1")
    report = KernelReport("k", status=Status.PROVED, ctas_executed=1, ctas_total=1)
    report.findings = [Finding("same-value write", "", Severity.NOTE, space="shared", sites=(site, site), count=7)]
    report.comparisons = [
        Comparison(REFERENCE, "r", Verdict(Status.PROVED, Method.EXACT, [OutputVerdict("C", Status.PROVED, 4, classes=1)]))
    ]
    lines = render(report).splitlines()
    assert len(lines) == 4 and lines[0].startswith("note: k: same-value write on shared memory, 7 times: harmless")
    assert "k.py:3:1" in lines[1] and lines[3].startswith("ok: k: 4 outputs in 1 class")


def test_a_note_hides_no_reason() -> None:
    """Of a launch without a reference that is unknown; nothing is added where an error or a finding says it."""
    site = Site("store", (0, 0, 0), 0, 5, 40, 412, "st.shared.b32 [%r14], %r31;", "k.py:3:1")
    report = KernelReport("k", status=Status.UNKNOWN, reason="not every schedule was looked at")
    report.findings = [Finding("same-value write", "", Severity.NOTE, space="shared", sites=(site, site))]
    assert render(report).splitlines()[-1].startswith("warning: k: not every schedule was looked at")
    report.errors = ["unsupported: something"]
    assert "warning:" not in render(report)
    report.errors, report.status = [], Status.REFUTED
    report.findings = [race()]
    assert "warning:" not in render(report)
