"""Every atomic form: values against Python, one thread after another in lane order, and what the old value is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from machine_kernels import kinds, module, run

from ptx_engine import emulate
from ptx_engine.errors import NotStructuredError, UnsupportedError
from ptx_engine.launch import Launch, Role, TensorArg, bind
from ptx_engine.machine import execute
from ptx_engine.syntax import parse
from ptx_engine.terms import Arena, Op

HEAD = ".version 8.4\n.target sm_90\n.address_size 64\n"


def kernel(text: str, bits: int, shared: bool) -> str:
    """Lane i applies ``text`` (%o old, %a address, %v its operand) to the cell it shares with its neighbours; cells come from and go to ``mem``."""
    lines = [
        HEAD, ".visible .entry k(.param .u64 mem, .param .u64 val, .param .u64 old)", "{",
        f".reg .b{bits} %o, %v, %w, %x; .reg .b64 %a, %d<9>; .reg .b32 %r<9>; .reg .pred %p; .shared .align 16 .b8 cells[64];",
        "ld.param.u64 %d0, [mem]; ld.param.u64 %d1, [val]; ld.param.u64 %d2, [old]; mov.u32 %r0, %tid.x;",
        f"mul.wide.u32 %d3, %r0, {bits // 8}; add.s64 %d4, %d1, %d3; ld.global.b{bits} %v, [%d4]; shr.u32 %r1, %r0, 2;",
        f"mul.wide.u32 %d5, %r1, {bits // 8}; add.s64 %a, %d0, %d5;",
    ]  # fmt: skip
    if shared:
        lines += ["setp.ge.u32 %p, %r0, 4; @%p bra FILLED;", f"add.s64 %d6, %d0, %d3; ld.global.b{bits} %x, [%d6]; mov.u64 %d7, cells; add.s64 %d8, %d7, %d3;",
                  f"st.shared.b{bits} [%d8], %x; FILLED: bar.sync 0; mov.u64 %d7, cells; add.s64 %a, %d7, %d5;"]  # fmt: skip
    lines.append(text.replace("SPACE", "shared" if shared else "global"))
    if shared:
        lines += ["bar.sync 0; @%p bra EMPTIED;", f"ld.shared.b{bits} %x, [%d8]; st.global.b{bits} [%d6], %x; EMPTIED:"]
    lines += [f"add.s64 %d4, %d2, %d3; st.global.b{bits} [%d4], %o;", "ret;", "}"]
    return "\n".join(lines) + "\n"


def _signed(x: int, bits: int) -> int:
    return x - (1 << bits) if x >> bits - 1 else x


OPERATIONS: dict[str, Callable[[int, int, int], int]] = {
    "add": lambda m, v, bits: m + v, "and": lambda m, v, bits: m & v, "or": lambda m, v, bits: m | v, "xor": lambda m, v, bits: m ^ v,
    "exch": lambda m, v, bits: v, "inc": lambda m, v, bits: 0 if m >= v else m + 1, "dec": lambda m, v, bits: v if m == 0 or m > v else m - 1,
    "min.s": lambda m, v, bits: min(m, v, key=lambda x: _signed(x, bits)), "max.s": lambda m, v, bits: max(m, v, key=lambda x: _signed(x, bits)),
    "min.u": lambda m, v, bits: min(m, v), "max.u": lambda m, v, bits: max(m, v), "cas": lambda m, v, bits: 77 if m == v else m,
}  # fmt: skip

FORMS = [
    *((f"{op}.b32", 32) for op in ("and", "or", "xor", "exch", "cas")), *((f"{op}.b64", 64) for op in ("and", "or", "xor", "exch", "cas")),
    *((f"{op}.{kind}32", 32) for op in ("add", "min", "max") for kind in "us"), *((f"{op}.{kind}64", 64) for op in ("min", "max") for kind in "us"),
    ("add.u64", 64), ("inc.u32", 32), ("dec.u32", 32), ("cas.b16", 16),
]  # fmt: skip


@pytest.mark.parametrize(("form", "bits"), FORMS)
@pytest.mark.parametrize("shared", [False, True])
def test_integers(form: str, bits: int, shared: bool) -> None:
    op, kind = form.split(".")
    model = OPERATIONS[f"{op}.{kind[0]}" if op in ("min", "max") else op]
    dtype = np.dtype(f"u{bits // 8}")
    rng = np.random.default_rng(len(form) + bits)
    memory, values = (rng.integers(0, 5 if op in ("cas", "inc", "dec") else 1 << bits - 1, n).astype(dtype) for n in (4, 16))
    memory[0] = (1 << bits) - 1
    extra = ", 77" if op == "cas" else ""
    cells, old = memory.copy(), np.zeros(16, dtype)
    assert not emulate(kernel(f"atom.SPACE.{form} %o, [%a], %v{extra};", bits, shared), None, 1, 16, [cells, values, old]).findings
    state, before = [int(m) for m in memory], []
    for lane in range(16):
        before.append(state[lane // 4])
        state[lane // 4] = model(state[lane // 4], int(values[lane]), bits) % (1 << bits)
    assert cells.tolist() == state and old.tolist() == before
    if op not in ("exch", "cas"):
        cells = memory.copy()
        emulate(kernel(f"mov.b{bits} %o, 0; red.SPACE.{form} [%a], %v;", bits, shared), None, 1, 16, [cells, values, old])
        assert cells.tolist() == state


@pytest.mark.parametrize(("form", "dtype"), [("add.f32", np.float32), ("add.f64", np.float64), ("add.noftz.f16", np.float16)])
def test_floats(form: str, dtype: type) -> None:
    memory, values, old = np.array([1, 2, 3, 4], dtype), (np.arange(16) / 2).astype(dtype), np.zeros(16, dtype)
    text = kernel(f"atom.SPACE.{form} %o, [%a], %v;", 8 * np.dtype(dtype).itemsize, False)
    cells = memory.copy()
    assert not emulate(text, None, 1, 16, [cells, values, old]).findings
    assert cells.tolist() == [m + values[4 * i : 4 * i + 4].sum() for i, m in enumerate(memory)]
    assert old.tolist() == [memory[i // 4] + values[i // 4 * 4 : i].sum() for i in range(16)]


def test_packed_halves() -> None:
    memory, values = np.arange(8, dtype=np.float16), (np.arange(32) / 4).astype(np.float16)
    cells = memory.copy()
    text = kernel("mov.b32 %o, 0; red.global.add.noftz.f16x2 [%a], %v;", 32, False)
    assert not emulate(text, None, 1, 16, [cells.view(np.uint32), values.view(np.uint32), np.zeros(16, np.uint32)]).findings
    state = memory.reshape(4, 2).copy()
    for lane in range(16):
        state[lane // 4] += values.reshape(16, 2)[lane]
    assert cells.tolist() == state.ravel().tolist()


def symbolic(text: str, role: Role = Role.INOUT) -> tuple[object, Arena]:
    arena = Arena()
    args = (TensorArg("mem", "f32", (4,), role), TensorArg("val", "f32", (16,), Role.IN), TensorArg("old", "f32", (16,), Role.OUT))
    return execute(parse(text), None, bind(Launch((1, 1, 1), (16, 1, 1), args), arena)), arena


def test_symbolic_sums_and_what_is_refused() -> None:
    run, arena = symbolic(kernel("mov.b32 %o, 0; red.global.add.f32 [%a], %v;", 32, False))
    assert not run.findings and run.schedule_dependent == []  # type: ignore[attr-defined]
    assert arena.node(int(run.footprints["mem"].ids[0]))[0] is Op.ADD  # type: ignore[attr-defined]
    run, _ = symbolic(kernel("atom.global.add.f32 %o, [%a], %v;", 32, False))
    assert run.schedule_dependent  # type: ignore[attr-defined]
    with pytest.raises(NotStructuredError, match="atomic max on symbolic"):
        symbolic(kernel("atom.global.max.u32 %o, [%a], %v;", 32, False))


@pytest.mark.parametrize(
    ("legal", "other"),
    [("and.b32", "and.u32"), ("exch.b32", "exch.s32"), ("inc.u32", "inc.b32"), ("min.s32", "min.b32"), ("add.u32", "add.b32")],
)
def test_operations_have_types_of_their_own(legal: str, other: str) -> None:
    """The ISA's text, and ptxas: bits have no smallest value, and numbers are not masked."""
    arguments = [np.zeros(4, np.uint32), np.zeros(16, np.uint32), np.zeros(16, np.uint32)]
    emulate(kernel(f"atom.global.{legal} %o, [%a], %v;", 32, False), None, 1, 16, arguments)
    with pytest.raises(UnsupportedError, match="integer types of"):
        emulate(kernel(f"atom.global.{other} %o, [%a], %v;", 32, False), None, 1, 16, arguments)


@pytest.mark.parametrize("form", ["atom.global.min.noftz.f16x2 %o, [%a], %v;", "mov.b32 %o, 0; red.acquire.gpu.global.add.u32 [%a], %v;"])
def test_forms_that_only_vectors_or_only_atom_have(form: str) -> None:
    with pytest.raises(UnsupportedError):
        emulate(kernel(form, 32, False), None, 1, 16, [np.zeros(n, np.uint32) for n in (4, 16, 16)])


@pytest.mark.parametrize(("scope", "found"), [("cta", ["data race"]), ("gpu", [])])
@pytest.mark.parametrize("block", [1, 1024])
def test_an_atomic_of_its_cta_does_not_exclude_those_of_others(scope: str, found: list[str], block: int) -> None:
    """Its thread and more than a thousand others of its CTA add to the place afterwards, for all of the grid, before the other CTA does."""
    body = (
        "ld.param.u64 %d2, [sum];\nmov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %tid.x;\nor.b32 %r3, %r1, %r2;\nsetp.eq.u32 %p1, %r3, 0;\n"
        f"@%p1 red.relaxed.{scope}.global.add.u32 [%d2], 1;\nred.relaxed.gpu.global.add.u32 [%d2], 1;\nred.relaxed.gpu.global.add.u32 [%d2], 1;\n"
    )
    total = TensorArg("sum", "u32", (1,), Role.INOUT, contents=np.zeros(1, np.uint32))
    execution, _ = run(module(body, ["u64 sum"]), [total], block=block, grid=2)
    assert sorted(set(kinds(execution))) == found
