"""Every form in the registry has a case: the instructions of all tables that the value tests run, matched against the registry.

A form counts as covered where, for every modifier slot, each choice occurs in some case; the choices that the registry takes and the ISA
has not (ptxas refuses them before they come here) are listed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import test_access_forms as access
import test_matrix_moves as matrix
import test_remaining_forms as remaining
import test_tensor_mma as mma
import test_tensor_sparse as sparse
import test_tensor_wmma as wmma
import test_warp_forms as warp
from access_table import atomics
from form_kernels import grouped, kernel
from form_table import MOVES, VALUES, forms
from one_instruction import kernel as one

from ptx_engine.isa.calls import EXTERN_CALL
from ptx_engine.isa.registry import FORMS, Form
from ptx_engine.syntax import flatten, parse
from ptx_engine.syntax.ast import Instruction

#: opcodes whose cases stand beside the machine's tests, since their meaning is order between threads (test_every_barrier_form, test_calls)
ELSEWHERE = {"mbarrier", EXTERN_CALL}
#: opcode -> choices that no legal PTX has in some place of a pattern where the registry takes them
BEYOND = {
    "atom": "b32 b64 u32 u64 s32 s64 f16 bf16 and or xor exch add inc dec min max noftz v2 v4 v8 f32 f16x2 bf16x2 f64 b16 cas b128",
    "red": "acquire acq_rel b32 b64 u32 u64 s32 s64 f16 bf16 and or xor add inc dec min max noftz v2 v4 v8 f32 f16x2 bf16x2 f64",
    "ld": "param::func const param param::entry", "st": "param::func param", "ldu": "b128 u16 u64 s8 s32 s64 b8 b16", "cvta": "u32",
}  # fmt: skip


def texts() -> Iterator[str]:
    """The modules that the value tests run."""
    for found, members in grouped(forms([r for r in VALUES if r not in MOVES]), 400):
        yield kernel(found, members)
    for form in forms(MOVES):
        if form.opcode in ("mov", "prmt") and "b128" not in form.modifiers:
            yield from (kernel(found, members) for found, members in grouped([form]))
    for pairs in access.PORTIONS:
        yield access.access_kernel(pairs)
    yield from map(access.atomic_kernel, atomics())
    yield from (remaining.copy_kernel(name, size, last, "cp.async.wait_all; cp.async.commit_group; cp.async.wait_group 0;")
                for name, size, last, _ in remaining.COPIES)  # fmt: skip
    yield from (remaining.uniform_kernel(*row) for row in remaining.UNIFORM)
    yield from map(mma.kernel_of, mma.cases())
    for c_kind, d_kind in (("f16", "f16"), ("f32", "f32"), ("f16", "f32")):
        counts = {"a": 2, "b": 2, "c": 4 if c_kind == "f16" else 8, "d": 4 if d_kind == "f16" else 8}
        yield from (mma.quad_kernel(a, b, c_kind, d_kind, counts) for a in ("row", "col") for b in ("row", "col"))
    yield from (wmma.kernel(*case, layouts) for case, layouts in wmma.FORMS)
    for space in ("shared", "shared::cta"):
        yield from (wmma.kernel(*case, layouts, space=space) for case, layouts in wmma.FORMS)
    yield from (sparse.text_of(*case, 0, variant) for case in sparse.CASES for variant in ("sp", "sp::ordered_metadata"))
    yield from (sparse.text_of(*case, 0, "sp", True) for case in sparse.CASES if case[3] == "s32")
    yield from (matrix.load_kernel(num, trans, False, older) for num in (1, 2, 4) for trans in (False, True) for older in (False, True))
    yield from (matrix.store_kernel(num, trans, older) for num in (1, 2, 4) for trans in (False, True) for older in (False, True))
    yield from (matrix.byte_kernel(num) for num in (1, 2))
    yield from (one(text, [4] * 4, [4] * 4) for text in short_texts())


def short_texts() -> Iterator[str]:
    """One-instruction kernels."""
    for space in remaining.SPACES:
        yield f"cvta.{space}.u64 %at, %at; cvta.to.{space}.u64 %at, %at;"
    spaces = ("global", "local", "shared", "shared::cta", "shared::cluster", "const", "param", "param::entry")
    yield from (f"isspacep.{space} p0, %at;" for space in spaces)
    yield from (f".reg .b64 %policy; {hint}" for hint in remaining.HINTS)
    yield from (f".reg .pred %q; {text}" for text, _ in warp.BALLOTS)
    yield from (f"redux.sync.{op} d0, a0, -1;" for op, _ in warp.REDUCTIONS)
    yield from (f"{form} d0, a0, -1;" for form in remaining.REDUCTIONS)
    yield from (f"shfl.sync.{mode}.b32 d0|p1, a0, 1, 31, -1;" for mode in ("up", "down", "bfly", "idx"))
    yield from (f"match.{kind}.sync.b{bits} d0, {'a0' if bits == 32 else '%at'}, -1;" for kind in ("any", "all") for bits in (32, 64))
    yield "elect.sync d0|p1, -1; activemask.b32 d2; movmatrix.sync.aligned.m8n8.trans.b16 d0, a0;"
    yield ".reg .b128 %wide<2>; mov.b128 %wide0, %wide1;"
    # what is the same in every place of a pattern
    yield from (f"ldmatrix.sync.aligned.m8n8.x1{space}.b16 {{d0}}, [%at]; stmatrix.sync.aligned.m8n8.x1{space}.b16 [%at], {{d0}};"
                f"ldmatrix.sync.aligned.x1.m8n8{space}.b16 {{d0}}, [%at]; stmatrix.sync.aligned.x1.m8n8{space}.b16 [%at], {{d0}};"
                f"ldmatrix.sync.aligned.m16n16.x1.trans{space}.b8 {{d0, d1}}, [%at]; stmatrix.sync.aligned.m16n8.x1.trans{space}.b8 [%at], {{d0}};"
                for space in ("", ".shared", ".shared::cta"))  # fmt: skip
    yield from (f"stmatrix.sync.aligned.m16n8.x{n}.trans.shared.b8 [%at], {{{', '.join(['d0'] * n)}}};" for n in (1, 2, 4))


@cache
def covered() -> dict[int, dict[str, set[str]]]:
    """Registered form (by identity) -> slot -> choices that occur."""
    found: dict[int, dict[str, set[str]]] = {}
    seen: set[tuple[str, tuple[str, ...]]] = set()
    for text in texts():
        module = parse(text)
        for instruction in flatten(module.functions[0], module).instructions:
            if instruction.opcode in FORMS and (instruction.opcode, instruction.modifiers) not in seen:
                seen.add((instruction.opcode, instruction.modifiers))
                note(found, instruction)
    return found


def note(found: dict[int, dict[str, set[str]]], instruction: Instruction) -> None:
    """Every form of the registry that takes an instruction has it as a case (the first one runs it)."""
    for form in FORMS[instruction.opcode]:
        chosen = form.match(instruction.modifiers)
        if chosen is not None:
            slots = found.setdefault(id(form), {})
            for slot, choice in chosen.items():
                slots.setdefault(slot, set()).add(choice)


def missing(form: Form) -> list[str]:
    """Choices of a form that no case has."""
    have = covered().get(id(form))
    beyond = set(BEYOND.get(form.opcode, "").split())
    if have is None:
        return ["every case"]
    return [choice for slot in form.slots for choice in sorted(slot.choices - have.get(slot.name, set()) - beyond)]


def test_every_form_has_a_case() -> None:
    here = [form for opcode in FORMS if opcode not in ELSEWHERE for form in FORMS[opcode] if "mbarrier" not in form.pattern]
    gaps = {f"{form.opcode} {form.pattern}": missing(form) for form in here}
    assert {name: gap for name, gap in gaps.items() if gap} == {}
