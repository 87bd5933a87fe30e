"""Registers that no thread, or only some threads, have written: whatever reads them says so; nothing is made of them.

PTX ISA, "Registers": their contents before the first write are undefined. A copy of such a register into memory is harmless until the
memory is read.
"""

from __future__ import annotations

import numpy as np
import pytest

from ptx_engine import emulate
from ptx_engine.decide import decide
from ptx_engine.errors import NotStructuredError
from ptx_engine.findings import Severity
from ptx_engine.launch import Launch, Role, TensorArg, bind
from ptx_engine.machine import execute
from ptx_engine.syntax import parse
from ptx_engine.terms import Arena
from ptx_engine.verdict import Status

HEAD = """
.version 9.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 x)
{
.reg .pred %p<5>; .reg .b16 %h<9>; .reg .b32 %r<30>; .reg .b64 %q<19>;
.shared .align 16 .b8 sm[1024]; .local .align 16 .b8 loc[64];
ld.param.u64 %q1, [x];
mov.u32 %r1, %tid.x;
setp.lt.u32 %p1, %r1, 3;
mul.wide.u32 %q2, %r1, 4;
add.s64 %q4, %q1, %q2;
"""
#: %q11, %r20 and %p3 are what is not written, or in lanes 0 to 2 only
PARTLY = "@%p1 mov.u64 %q11, %q1; @%p1 mov.u32 %r20, 1; @%p1 setp.eq.u32 %p3, %r1, %r1;"
READERS = """
ld.global.b32 %r5, [%q11];
ld.shared.b32 %r5, [%r20+16];
st.global.b32 [%q11+16], %r1;
st.shared.b32 [%r20], %r1;
ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r5,%r6,%r7,%r8}, [%r20];
ldmatrix.sync.aligned.m8n8.x1.b16 {%r5}, [%q11+16];
stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r20], {%r1};
wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%r5,%r6,%r7,%r8,%r9,%r10,%r11,%r12}, [%r20], 16;
wmma.store.d.sync.aligned.row.m16n16k16.shared.f16 [%r20+16], {%r1,%r1,%r1,%r1}, 16;
atom.global.add.u32 %r5, [%q11], 1;
red.shared.add.u32 [sm], %r20;
cp.async.ca.shared.global [%r20], [%q1], 4;
cp.async.ca.shared.global [sm], [%q11], 4;
mbarrier.init.shared.b64 [%r20], 32;
mbarrier.inval.shared.b64 [%r20];
mbarrier.arrive.shared.b64 %q9, [%r20+16];
mbarrier.test_wait.shared.b64 %p2, [%r20], %q1;
mbarrier.try_wait.parity.shared.b64 %p2, [%r20], 0;
cp.async.mbarrier.arrive.shared.b64 [%r20];
shfl.sync.idx.b32 %r5, %r1, %r20, 31, -1;
shfl.sync.idx.b32 %r5, %r1, 0, %r20, -1;
bfi.b32 %r5, %r20, %r1, 1, 2;
add.u32 %r5, %r20, 1; st.global.b32 [%q4], %r5;
selp.b32 %r5, %r1, %r20, %p3;
setp.eq.and.u32 %p2, %r1, %r1, %p3;
not.pred %p2, %p3; @%p2 st.global.b32 [%q4], %r1;
and.pred %p2, %p1, %p3;
st.global.b32 [%q4], %r20;
""".strip().splitlines()


def ptx(body: str) -> str:
    return HEAD + body.replace("; ", ";\n") + "\nret;\n}"


def run(body: str, arena: Arena | None = None, dtype: str = "u32") -> object:
    args = (TensorArg("x", dtype, (2048 // int(dtype[1:]),), Role.INOUT),)
    text = ptx(body)
    return execute(parse(text), None, bind(Launch((1, 1, 1), (32, 1, 1), args), arena or Arena()), source=text)


@pytest.mark.parametrize("before", ["", PARTLY], ids=["unwritten", "partly written"])
@pytest.mark.parametrize("reader", READERS)
def test_a_read_is_named_in_both_modes(reader: str, before: str) -> None:
    with pytest.raises(NotStructuredError, match=r"before it is written|partly unwritten|depends on symbolic"):
        run(f"{before}\n{reader}")
    with pytest.raises(NotStructuredError, match="before it is written"):
        emulate(ptx(f"{before}\n{reader}"), None, 1, 32, [np.zeros(64, np.uint32)])


def status(reference: str, candidate: str, dtype: str = "u32") -> Status:
    arena = Arena()
    sides = [run(body, arena, dtype) for body in (reference, candidate)]
    assert not any(finding.severity is Severity.ERROR for side in sides for finding in side.findings)  # type: ignore[attr-defined]
    return decide(arena, sides[0].footprints, sides[1].footprints).status  # type: ignore[attr-defined]


ONE_OR_ZERO = "mov.u32 %r6, 0; @%p1 mov.u32 %r6, 1; st.global.b32 [%q4], %r6;"


@pytest.mark.parametrize("space", ["local", "shared"])
def test_a_copy_in_memory_is_not_zero(space: str) -> None:
    """Lanes 3 and above store what they never wrote, and read it again."""
    place = "%r21" if space == "shared" else "loc"
    at = "mov.u32 %r22, sm; shl.b32 %r23, %r1, 2; add.s32 %r21, %r22, %r23;" if space == "shared" else ""
    body = f"{at}\n@%p1 mov.u32 %r5, 1; st.{space}.b32 [{place}], %r5; ld.{space}.b32 %r6, [{place}];"
    found = run(f"{body} st.global.b32 [%q4], %r6;").findings  # type: ignore[attr-defined]
    assert {finding.kind for finding in found} == {"uninitialised"}
    kept = f"{body.replace(f'ld.{space}', f'@%p1 ld.{space}')} @!%p1 mov.u32 %r6, 0; st.global.b32 [%q4], %r6;"
    assert status(ONE_OR_ZERO, kept) is Status.PROVED
    values = np.full(64, 7, np.uint32)
    assert not [f for f in emulate(ptx(kept), None, 1, 32, [values]).findings if f.severity is Severity.ERROR]
    assert values[:32].tolist() == [1] * 3 + [0] * 29


def test_a_copy_from_out_of_bounds_is_a_finding_on_bits_too() -> None:
    """Lanes 16 and above copy from behind the tensor."""
    body = (
        "mov.u32 %r22, sm; shl.b32 %r23, %r1, 2; add.s32 %r21, %r22, %r23; cp.async.ca.shared.global [%r21], [%q4], 4; cp.async.wait_all;"
    )
    assert {finding.kind for finding in emulate(ptx(body), None, 1, 32, [np.zeros(16, np.uint32)]).findings} == {"out of bounds"}
    assert not emulate(ptx(body), None, 1, 32, [np.zeros(32, np.uint32)]).findings


STORE = "st.global.b32 [%q4], %r5;"


@pytest.mark.parametrize(("reader", "found"), [
    (f"add.u32 %r5, %r20, 1; {STORE}", "add.u32"), (f"sub.u32 %r6, %r1, %r20; not.b32 %r5, %r6; {STORE}", "sub.u32"),
    ("add.u32 %r6, %r20, 1; setp.eq.u32 %p2, %r1, %r1; @%p2 st.shared.b32 [%r6], %r1;", "add.u32"),
    ("neg.s32 %r6, %r20; shfl.sync.idx.b32 %r5, %r6, 0, 31, -1;", "neg.s32"),
    ("st.shared.b32 [%r20], %r1;", "st.shared.b32"),
    (f"fma.rn.f32 %r6, %r20, 0f00000000, %r1; max.f32 %r7, %r6, %r1; cvt.rzi.s32.f32 %r5, %r7; {STORE}", "fma.rn.f32"),
    ("@%p1 mov.u32 %r20, 1; mov.b32 {%h1, %h2}, %r20;", "mov.b32"), ("@%p1 mov.u32 %r20, 1; add.u32 %r5, %r20, 1;", "add.u32"),
    ("@%p1 mov.u32 %r20, 1; st.global.b32 [%q4], %r20;", "st.global.b32"), ("st.global.b32 [%q4], %r20;", "st.global.b32"),
    # these may come to the same whatever they read
    ("mov.b32 {%h1, %h2}, %r20;", ""), ("mul.lo.u32 %r5, %r20, 0;", ""), ("and.b32 %r5, %r20, 0;", ""), ("add.u32 %r6, %r20, 1; lop3.b32 %r5, %r6, 0, 0, 0x80;", ""),
])  # fmt: skip
def test_what_nothing_writes_is_a_fault_where_something_comes_of_it(reader: str, found: str) -> None:
    """At the instruction that read it, whether or not the fault shows there."""
    with pytest.raises(NotStructuredError) as raised:
        run(reader)
    places = [(finding.kind, finding.sites[0].ptx_text.split()[0]) for finding in raised.value.findings]
    assert places == ([("uninitialised", found)] if found else [])


@pytest.mark.parametrize(("body", "lanes"), [
    (f"@%p1 mov.u32 %r20, 1; {STORE.replace('%r5', '%r20')}", range(3, 32)), (f"{STORE.replace('%r5', '%r20')}", range(32)),
    (f"@!%p1 mov.u32 %r20, 1; add.u32 %r5, %r20, 1; {STORE}", range(3)),
    ("@!%p1 mov.u32 %r20, 1; setp.gt.u32 %p2, %r1, 0; @%p2 ld.shared.b32 %r5, [%r20];", range(1, 3)),
])  # fmt: skip
def test_the_threads_that_read_what_they_have_not_written_are_named(body: str, lanes: range) -> None:
    with pytest.raises(NotStructuredError) as raised:
        run(body)
    (finding,) = raised.value.findings
    assert (finding.sites[0].lane, finding.count) == (lanes[0], len(lanes))


@pytest.mark.parametrize("body", ["", "add.u32 %r6, %r20, 1; xor.b32 %r7, %r6, %r1; sub.u32 %r8, %r7, %r7;"])
def test_what_nothing_writes_and_nothing_needs_is_no_fault(body: str) -> None:
    """As LLVM hands it to inline assembly with more lanes than are needed."""
    right = f"add.u32 %r5, %r1, 1; {body} {STORE}"
    assert status(f"add.u32 %r5, %r1, 1; {STORE}", right) is Status.PROVED
    assert status(f"add.u32 %r5, %r1, 2; {STORE}", right) is Status.REFUTED
    values = np.zeros(64, np.uint32)
    assert not emulate(ptx(right), None, 1, 32, [values]).findings
    assert values[:32].tolist() == list(range(1, 33))


def test_a_register_that_was_undefined_may_be_written() -> None:
    body = f"add.u32 %r5, %r20, 1; mov.u32 %r6, 3; add.u32 %r5, %r6, %r1; {STORE}"
    assert status(f"add.u32 %r5, %r1, 3; {STORE}", body) is Status.PROVED


PACKED = "mov.f32 %r6, 0f3F800000; cvt.rn.f16x2.f32 %r5, %r20, %r6;"
BYTES = "mov.u32 %r6, 0x04030201; prmt.b32 %r5, %r6, %r20, 0x4520;"


@pytest.mark.parametrize("body, value", [(PACKED, 0x3C00), (BYTES, 0x0301)], ids=["cvt", "prmt"])
def test_values_packed_beside_what_nothing_writes(body: str, value: int) -> None:
    """LLVM packs an odd number of values beside an undefined one. What is defined is stored, and nothing beside it; all of it is not."""
    half, whole = (f"{body} cvt.u16.u32 %h1, %r5; st.global.b16 [%q4], %h1;", f"{body} st.global.b32 [%q4], %r5;")
    for constant, expected in (value, Status.PROVED), (value + 1, Status.REFUTED):
        assert status(f"mov.u16 %h1, {constant}; st.global.b16 [%q4], %h1;", half, "f16" if "f16" in body else "u16") is expected
    values = np.full(64, 0x70007, np.uint32)
    emulate(ptx(half), None, 1, 32, [values])
    assert (values[:32] == 0x70000 | value).all() and (values[32:] == 0x70007).all()
    with pytest.raises(NotStructuredError, match="before it is written"):
        emulate(ptx(whole), None, 1, 32, [values])
    dtype = "f16" if "f16" in body else "u16"
    upper = half.replace("[%q4]", "[%q4+2]").replace("cvt.u16.u32 %h1, %r5", "shr.u32 %r7, %r5, 16; cvt.u16.u32 %h1, %r7")
    assert status(half, upper, dtype) is not Status.PROVED


@pytest.mark.parametrize(
    ("at", "read", "found"), [(1000, "%q12", ["out of bounds"]), (1000, "%q11", ["out of bounds", "uninitialised"]), (992, "%q11", ["uninitialised"])]
)  # fmt: skip
def test_what_a_load_beyond_memory_was_to_bring_is_no_finding_of_its_own(at: int, read: str, found: list[str]) -> None:
    """The last of four threads loads beyond the end of shared memory; %q11 is what only the others write."""
    body = PARTLY + f"mov.u32 %r5, sm; mad.lo.u32 %r5, %r1, 8, %r5; st.shared.b64 [%r5+{at}], %q1; ld.shared.b64 %q12, [%r5+{at}];"
    text = HEAD + body.replace("st.shared", "@%p1 st.shared" if at == 1000 else "st.shared") + f"add.s64 %q13, {read}, 4;\nret;\n}}\n"
    args = (TensorArg("x", "s32", (4,), Role.IN),)
    with pytest.raises(NotStructuredError, match="before it is written") as stopped:
        execute(parse(text), None, bind(Launch((1, 1, 1), (4, 1, 1), args), Arena()), source=text)
    assert [f.kind for f in stopped.value.findings] == found
