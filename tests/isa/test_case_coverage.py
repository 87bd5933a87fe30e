"""Every form of the registry, and of control flow, has a case in a file of ``cases/`` or ``program_cases/``.

A form counts as covered where, for every modifier slot, each choice occurs in some case; the choices that the registry takes and the ISA
has not (ptxas refuses them before they come here) are listed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import program_cases
import pytest
import value_cases
from form_kernels import grouped, kernel
from test_value_cases import FORMS as LISTED

from ptx_engine.isa.calls import EXTERN_CALL
from ptx_engine.isa.control import CONTROL_FORMS
from ptx_engine.isa.registry import FORMS, Slot, match_slots, parse_pattern
from ptx_engine.machine.inline import inline
from ptx_engine.syntax import flatten, parse
from ptx_engine.syntax.ast import Instruction

#: opcode (and a word of the pattern) -> choices that no legal PTX has in some place of a pattern where the registry takes them
BEYOND = {
    "atom": "b32 b64 u32 u64 s32 s64 f16 bf16 and or xor exch add inc dec min max noftz v2 v4 v8 f32 f16x2 bf16x2 f64 b16 cas b128",
    "red": "acquire acq_rel b32 b64 u32 u64 s32 s64 f16 bf16 and or xor add inc dec min max noftz v2 v4 v8 f32 f16x2 bf16x2 f64",
    "ld": "param::func const param param::entry", "st": "param::func param", "ldu": "b128 u16 u64 s8 s32 s64 b8 b16", "cvta": "u32",
    "mbarrier noComplete": "relaxed",
}  # fmt: skip
Have = dict[tuple[str, str], dict[str, set[str]]]
#: a form by its opcode and pattern
SLOTS: dict[tuple[str, str], tuple[Slot, ...]] = {
    **{(form.opcode, form.pattern): form.slots for forms in FORMS.values() for form in forms},
    **{(opcode, str(i)): slots for opcode, patterns in CONTROL_FORMS.items() for i, slots in enumerate(patterns)},
    ("call", ""): parse_pattern("[uni]"),
}


def modules() -> Iterator[tuple[str, dict[str, str]]]:
    """The modules that the files' cases are run as, with their functions without a body."""
    for path in value_cases.FOLDER.glob("*.txt"):
        names = [name for block in value_cases.read(path.read_text(encoding="ascii")) for name in block.results]
        yield from ((kernel(found, members), {}) for found, members in grouped([LISTED[name] for name in names], 400))
    for path in program_cases.FOLDER.glob("*.txt"):
        for block in program_cases.read(path.read_text(encoding="ascii")):
            yield from ((program_cases.kernel(block, portion), block.externs) for portion in program_cases.copies(block))


def instructions() -> Iterator[Instruction]:
    """All instructions of the files, and what stands for calls of functions without a body."""
    for text, externs in modules():
        module = parse(text)
        for function in module.functions:
            if function.body is not None:
                yield from flatten(function, module).instructions
        if externs:
            entry = next(f for f in module.functions if f.is_entry)
            yield from (i for i in inline(entry, module, externs).flat.instructions if i.opcode == EXTERN_CALL)


@cache
def covered() -> Have:
    """What occurs in the files, by form and slot. Every form that takes an instruction has it as a case (the first one runs it)."""
    found: Have = {}
    seen: set[tuple[str, tuple[str, ...]]] = set()
    for instruction in instructions():
        key = instruction.opcode, instruction.modifiers
        if key not in seen:
            seen.add(key)
            note(found, *key)
    return found


BY_OPCODE: dict[str, list[tuple[str, str]]] = {}
for form_key in SLOTS:
    BY_OPCODE.setdefault(form_key[0], []).append(form_key)


def note(found: Have, opcode: str, modifiers: tuple[str, ...]) -> None:
    for key in BY_OPCODE.get(opcode, ()):
        chosen = match_slots(SLOTS[key], modifiers)
        if chosen is not None:
            slots = found.setdefault(key, {})
            for slot, choice in chosen.items():
                slots.setdefault(slot, set()).add(choice)


def missing(key: tuple[str, str], found: Have) -> list[str]:
    """Choices of a form that no case has."""
    have = found.get(key)
    place = {key[0], *key[1].split()}
    beyond = {
        choice for name, choices in BEYOND.items() if name.split()[0] == key[0] and set(name.split()) <= place for choice in choices.split()
    }
    if have is None:
        return ["every case"]
    return [choice for slot in SLOTS[key] for choice in sorted(slot.choices - have.get(slot.name, set()) - beyond)]


def gaps(found: Have) -> dict[tuple[str, str], list[str]]:
    return {key: gap for key in SLOTS if (gap := missing(key, found))}


def test_every_form_has_a_case_in_a_file() -> None:
    assert gaps(covered()) == {}


@pytest.mark.parametrize("key", [("mbarrier", "pending_count type=b64"), ("call", ""), (EXTERN_CALL, FORMS[EXTERN_CALL][0].pattern)])
def test_a_form_without_a_case_is_noticed(key: tuple[str, str]) -> None:
    rest = {known: slots for known, slots in covered().items() if known != key}
    assert gaps(rest) == {key: ["every case"]}


def test_a_choice_without_a_case_is_noticed() -> None:
    (key,) = (k for k in SLOTS if k[0] == "redux" and "abs" in k[1])
    less = {**covered(), key: {slot: choices - {"NaN"} for slot, choices in covered()[key].items()}}
    assert gaps(less) == {key: ["NaN"]}
