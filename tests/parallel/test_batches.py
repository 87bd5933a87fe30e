"""CTA batches over processes: the report of one process to the last byte, and nothing that only both parts together show is lost."""

import json
from dataclasses import replace

import numpy as np
import pytest

from ptx_engine.decide.fingerprint import fingerprint
from ptx_engine.errors import NotSeparableError
from ptx_engine.launch import Launch, Role, TensorArg, bind
from ptx_engine.machine import Budget, execute
from ptx_engine.machine.parts import Split, is_small, run_part
from ptx_engine.order.traffic import TOUCHED, WRITTEN, Touched, meeting
from ptx_engine.syntax import parse
from ptx_engine.terms import Arena
from volta_pass.check import CheckOptions, check_file
from volta_pass.job import Options, PtxReference, ValidationJob
from volta_pass.parallel import batches
from volta_pass.validate import validate

#: each CTA reverses 64 elements through shared memory, doubled
PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y, .param .u64 z) {
  .reg .b64 %rd<9>; .reg .b32 %r<12>; .reg .f32 %f<9>; .reg .pred %p<3>;
  .shared .align 4 .b8 tile[256];
  ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.u64 %rd3, [z];
  mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; shl.b32 %r3, %r2, 6; add.u32 %r4, %r3, %r1;
  mul.wide.u32 %rd4, %r4, 4; add.s64 %rd5, %rd1, %rd4; add.s64 %rd6, %rd2, %rd4;
  ld.global.f32 %f1, [%rd5]; mov.u32 %r5, tile; shl.b32 %r6, %r1, 2; add.u32 %r7, %r5, %r6;
  st.shared.f32 [%r7], %f1;
  BARRIER
  sub.u32 %r8, 252, %r6; add.u32 %r9, %r5, %r8; ld.shared.f32 %f2, [%r9];
  SUM
  EXTRA
  st.global.f32 [%rd6], %f3;
  ret;
}
"""
CTAS, N = 8, 512
ARGS = (TensorArg("x", "f32", (N,), Role.IN), TensorArg("y", "f32", (N,), Role.OUT), TensorArg("z", "f32", (N,), Role.INOUT))
LAUNCH = Launch((CTAS, 1, 1), (64, 1, 1), ARGS)
#: z is only read or scratch
ALONE = replace(LAUNCH, args=(*ARGS[:2], replace(ARGS[2], role=Role.AUX)))
#: 2 CTAs at once: 4 batches
BUDGET = Budget(batch_threads=128)


@pytest.fixture(autouse=True)
def nothing_is_small(monkeypatch):
    monkeypatch.setattr("ptx_engine.machine.parts.SMALLEST", 1)
    monkeypatch.setattr("ptx_engine.machine.parts.WORTH", 1e9)


SYNC = "bar.sync 0;"
TWICE, BY_TWO, THRICE = "add.f32 %f3, %f2, %f2;", "mul.f32 %f3, %f2, 0f40000000;", "mul.f32 %f3, %f2, 0f40400000;"
#: only the last CTA: it stores to an element of the first one
MEETS = "setp.eq.u32 %p1, %r4, 511; @%p1 st.global.f32 [%rd2], %f1;"
#: only the last CTA: it reads an element that the first one writes
READS = "add.s64 %rd7, %rd3, %rd4; st.global.f32 [%rd7], %f1; setp.eq.u32 %p1, %r4, 511; @%p1 ld.global.f32 %f3, [%rd3];"
COUNTS = "atom.global.add.f32 %f4, [%rd3], %f1;"
#: the first and the last CTA store one value
SAME = "mov.f32 %f5, 0f3F800000; rem.u32 %r11, %r4, 511; setp.eq.u32 %p1, %r11, 0; @%p1 st.global.f32 [%rd3], %f5;"
#: only the last CTA runs past the end
OUTSIDE = "setp.eq.u32 %p1, %r4, 511; @%p1 st.global.f32 [%rd6+4], %f1;"
OWN = "add.s64 %rd7, %rd3, %rd4; ld.global.f32 %f4, [%rd7]; add.f32 %f4, %f4, %f1; st.global.f32 [%rd7], %f4;"


def text(total=TWICE, barrier=SYNC, extra=""):
    return PTX.replace("BARRIER", barrier).replace("SUM", total).replace("EXTRA", extra)


@pytest.fixture
def small_batches(monkeypatch):
    """The default budget has batches of 2 CTAs here; the parts of others run in this process. Gives how many those were."""
    ran = []
    real = Budget.__init__
    monkeypatch.setattr(Budget, "__init__", lambda self, *a, **k: real(self, *a, **{"batch_threads": 128} | k))

    def here(tasks, memory_mib, stop):
        ran.extend(tasks)
        return [run_part(task) for task in tasks]

    monkeypatch.setattr(batches, "_elsewhere", here)
    return ran


def said(candidate, reference, workers):
    launch = LAUNCH if OWN in candidate else ALONE
    options = Options(None, workers=workers)
    job = ValidationJob("k", candidate, launch, "k", reference=PtxReference(reference, "k", launch, "it"), options=options)
    row = validate(job).to_json()
    return row["verdict"], json.dumps({key: value for key, value in row.items() if key not in ("seconds", "peak_mib")})


@pytest.mark.parametrize(
    ("candidate", "verdict"),
    [
        (text(BY_TWO), "proved"), (text(BY_TWO, extra=OWN), "proved"), (text(THRICE), "refuted"), (text(BY_TWO, ""), "refuted"),
        (text(BY_TWO, extra=MEETS), "refuted"), (text(BY_TWO, extra=READS), "refuted"), (text(BY_TWO, extra=OUTSIDE), "refuted"),
        (text(BY_TWO, extra=COUNTS), ""), (text(BY_TWO, extra=SAME), ""), (text("tanh.approx.f32 %f3, %f2;"), "refuted"),
        (text("brkpt; " + BY_TWO), "proved"), (text("call.uni unknown;" + BY_TWO), ""),
    ],
)  # fmt: skip
@pytest.mark.parametrize("workers", [2, 3, 9])
def test_the_report_is_that_of_one_process(small_batches, candidate, verdict, workers):
    reference = text(TWICE, extra=OWN) if OWN in candidate else text(TWICE)
    alone, row = said(candidate, reference, 1)
    assert not small_batches
    assert said(candidate, reference, workers) == (alone, row)
    assert alone == verdict or not verdict
    assert small_batches or "unknown;" in candidate, "nothing was split"


def parts(source, workers=2):
    arena = Arena()
    split = Split(parse(source), "k", bind(LAUNCH, arena), workers, budget=BUDGET)
    first = split.here()
    return split, first, [run_part(task) for task in split.tasks]


@pytest.mark.parametrize("extra", [MEETS, READS, COUNTS, SAME])
def test_ctas_that_meet_are_never_joined(extra):
    split, first, others = parts(text(extra=extra))
    assert not first.why and not any(part.why for part in others), "each part alone is clean"
    with pytest.raises(NotSeparableError, match=r"CTAs that touch|atomic"):
        split.joined(first, others)


@pytest.mark.parametrize("workers", [2, 4])
def test_the_joined_execution_is_the_whole(workers):
    split, first, others = parts(text(BY_TWO, extra=OWN), workers)
    joined = split.joined(first, others)
    arena = Arena()
    whole = execute(parse(text(BY_TWO, extra=OWN)), "k", bind(LAUNCH, arena), budget=BUDGET)
    assert joined.footprints.keys() == whole.footprints.keys()
    for name, footprint in whole.footprints.items():
        assert (joined.footprints[name].index == footprint.index).all()
    for name in whole.footprints:
        assert (fingerprint(split.arena, joined.footprints[name].ids) == fingerprint(arena, whole.footprints[name].ids)).all()
    assert (joined.instructions, joined.ctas_executed) == (whole.instructions, whole.ctas_executed)


def test_a_part_that_found_something_or_was_lost_is_not_joined():
    split, first, others = parts(text(extra=OUTSIDE))
    with pytest.raises(NotSeparableError, match="findings"):
        split.joined(first, others)
    split, first, others = parts(text())
    with pytest.raises(NotSeparableError, match="its worker died"):
        split.joined(first, [replace(others[0], why="its worker died")])
    split, first, others = parts(text())
    with pytest.raises(NotSeparableError):
        split.joined(first, [replace(others[0], terms=b"nonsense")])


def test_a_finding_of_the_first_part_alone_stops_the_joining():
    split, first, others = parts(text(extra=OUTSIDE.replace("511", "0").replace("+4", "-4")))
    assert not any(part.why for part in others)
    with pytest.raises(NotSeparableError, match="findings"):
        split.joined(first, others)


def test_what_only_some_ctas_lean_on_is_noted_in_one_process():
    special = "setp.ne.u32 %p2, %r2, 7; @%p2 bra skip; copysign.f32 %f4, %f1, %f2; skip:"
    split, first, others = parts(text(extra=special))
    if others[0].noted != first.noted:
        with pytest.raises(NotSeparableError, match="assumptions"):
            split.joined(first, others)
    with pytest.raises(NotSeparableError, match="assumptions"):
        split.joined(first, [replace(part, noted=("another",)) for part in others])


@pytest.mark.parametrize("extra", ["", OWN])
def test_terms_that_are_not_worth_sending_are_made_here(monkeypatch, extra):
    monkeypatch.setattr("ptx_engine.machine.parts.WORTH", 0.0)
    split, first, others = parts(text(BY_TWO, extra=extra), 3)
    assert [part.terms for part in others] == [None, None]
    joined = split.joined(first, others)
    arena = Arena()
    whole = execute(parse(text(BY_TWO, extra=extra)), "k", bind(LAUNCH, arena), budget=BUDGET)
    assert joined.instructions == whole.instructions
    for name, footprint in whole.footprints.items():
        assert (joined.footprints[name].index == footprint.index).all()
        assert (fingerprint(split.arena, joined.footprints[name].ids) == fingerprint(arena, footprint.ids)).all()


@pytest.mark.parametrize(("candidate", "verdict"), [(text(), "proved"), (text(extra=MEETS), "refuted"), (text(barrier=""), "refuted")])
def test_a_kernel_that_is_compared_with_nothing(tmp_path, small_batches, candidate, verdict):
    """Order and memory only: no terms are sent."""
    (tmp_path / "k.ptx").write_text(candidate)
    args = "".join(f'[[args]]\nname = "{a.name}"\nkind = "tensor"\ndtype = "f32"\nshape = [{N}]\nrole = "{a.role.value}"\n' for a in ARGS)
    (tmp_path / "k.toml").write_text(f'[launch]\ngrid = {CTAS}\nblock = 64\n{args}[candidate]\nptx = "k.ptx"\n')
    rows = [check_file(tmp_path / "k.toml", CheckOptions(workers=workers)).to_json() for workers in (1, 2)]
    assert [row.pop("seconds") and row.pop("peak_mib") and row["verdict"] for row in rows] == [verdict, verdict]
    assert rows[0] == rows[1] and [task.outputs for task in small_batches] == [False]


def test_small_launches_stay_whole(monkeypatch):
    monkeypatch.setattr("ptx_engine.machine.parts.SMALLEST", 513)
    assert is_small(bind(LAUNCH, Arena()))
    monkeypatch.setattr("ptx_engine.machine.parts.SMALLEST", 512)
    assert not is_small(bind(LAUNCH, Arena())) and is_small(bind(replace(LAUNCH, ctas=((0, 0, 0),)), Arena()))


def marks(*rows):
    return Touched({0: np.array(rows, np.uint8)})


def test_who_meets():
    assert meeting([marks(WRITTEN, 0), marks(0, WRITTEN)]) == ""
    assert meeting([marks(TOUCHED, WRITTEN), marks(TOUCHED, 0)]) == ""
    assert meeting([marks(WRITTEN, 0), marks(TOUCHED, 0)])
    assert meeting([marks(TOUCHED, 0), marks(WRITTEN, 0)])
    assert meeting([marks(WRITTEN, 0), marks(WRITTEN, 0)])
    assert meeting([marks(WRITTEN, 0), marks(0, 0), marks(TOUCHED, 0)])
    assert meeting([marks(0, 0), Touched({1: np.array([WRITTEN], np.uint8)}), marks(WRITTEN, 0)]) == ""
    assert meeting([marks(0, 0), Touched({}, "an atomic")]) == "an atomic"


def test_processes_of_our_own_give_the_same(tmp_path):
    """Real workers, from a program without a guard around its main part."""
    import os
    import subprocess
    import sys
    from pathlib import Path

    root = Path(__file__).parents[2]
    program = tmp_path / "program.py"
    program.write_text(
        "import sys; print('started', flush=True)\n"
        f"sys.path[:0] = [{str(root)!r}, {str(Path(__file__).parent)!r}]\n"
        "import test_batches as t\nimport ptx_engine.machine.parts as p\np.SMALLEST, p.WORTH = 1, 1e9\nfrom volta_pass.parallel.batches import execute_in_parts\n"
        "done, split = execute_in_parts(t.parse(t.text()), 'k', t.bind(t.LAUNCH, t.Arena()), 2, budget=t.BUDGET)\n"
        "print(split, len(done.findings), len(done.footprints['y'].index))\n"
    )
    environ = {**os.environ, "PYTHONPATH": str(root)}
    ran = subprocess.run([sys.executable, str(program)], env=environ, capture_output=True, text=True, timeout=120)
    assert ran.stdout.split("\n")[:2] == ["started", f"True 0 {N}"], ran.stderr
