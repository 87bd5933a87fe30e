"""Every form of mbarrier, bar and barrier that is taken runs, and orders memory or not as its modifiers say; control flow's forms, too.

Each thread of a block stores its number to shared memory, arrives, waits, and loads what the next thread stored: without a race where
arrival and wait release and acquire, and with one where they are relaxed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
import pytest
from machine_kernels import OWN, column, kinds, module, out, run
from test_mbarrier import LOAD, SHARED, START, STORE, neighbours

from ptx_engine import emulate
from ptx_engine.errors import UnsupportedError
from ptx_engine.isa.control import CONTROL_FORMS
from ptx_engine.isa.registry import FORMS, Slot, find
from ptx_engine.syntax.ast import Instruction

BLOCK = 64
GENERIC = "cvt.u64.u32 %d6, %r10;\ncvta.shared.u64 %d7, %d6;\n"
DONE = "L9:\nmbarrier.test_wait.shared.b64 %p6, [%r10], %d5;\n@!%p6 bra L9;\n"


def choices(opcode: str, slots: Sequence[Slot]) -> Iterator[tuple[str, ...]]:
    """Every sequence of modifiers that a pattern has."""
    for chosen in product(*([""] * slot.optional + sorted(slot.choices) for slot in slots)):
        modifiers = tuple(modifier for modifier in chosen if modifier)
        if opcode in FORMS:
            try:
                find(Instruction(opcode, modifiers, ()))
            except UnsupportedError:
                continue
        yield modifiers


def taken(opcode: str, first: str = "") -> list[str]:
    """Mnemonics of all forms of an opcode; memory order and scope come together."""
    found: dict[str, None] = {}
    for form in FORMS[opcode]:
        for modifiers in choices(opcode, form.slots):
            sem = {"release", "acquire", "relaxed"} & set(modifiers)
            if bool(sem) == ("cta" in modifiers) and ".".join(modifiers).startswith(first):
                found[".".join((opcode, *modifiers))] = None
    return list(found)


MBARRIERS = taken("mbarrier")
COPIES = taken("cp", "async.mbarrier")


def kernel(name: str) -> tuple[str, int]:
    """The body around one instruction, and how many arrivals the object expects."""
    at = "[%r10]" if ".shared" in name else "[%d7]"
    arrive, wait, count = "mbarrier.arrive.shared.b64 %d5, [%r10];\n", DONE, BLOCK
    words = name.split(".")
    if "noComplete" in words:
        arrive, count = f"{name} %d5, {at}, 1;\n@%p1 mbarrier.arrive.shared.b64 %d8, [%r10];\n", BLOCK + 1
    elif "expect_tx" in words and words[1] != "expect_tx":
        arrive = f"{name} %d5, {at}, 4;\nmbarrier.complete_tx.shared.b64 [%r10], 4;\n"
    elif words[1] in ("arrive", "arrive_drop"):
        arrive = f"{name} %d5, {at};\n"
    elif words[1] in ("expect_tx", "complete_tx"):
        other = name.replace(words[1], "complete_tx" if words[1] == "expect_tx" else "expect_tx")
        pair = [name, other] if words[1] == "expect_tx" else [other, name]
        arrive = f"{pair[0]} {at}, 8;\n{arrive}{pair[1]} {at}, 8;\n"
    elif words[1] in ("test_wait", "try_wait"):
        wait = f"L1:\n{name} %p5, {at}, {'0' if 'parity' in words else '%d5'};\n@!%p5 bra L1;\n"
    elif words[1] == "pending_count":
        arrive += f"{name} %r9, %d5;\n"
    elif words[1] == "inval":
        return STORE + arrive + wait + LOAD + f"bar.sync 0;\n@%p1 {name} {at};\n", count
    elif words[0] == "cp":
        return f"{name} {at};\n" + STORE + arrive + wait + LOAD, count + ("noinc" in words) * BLOCK
    return STORE + arrive + wait + LOAD, count


@pytest.mark.parametrize("name", [*MBARRIERS, *COPIES])
def test_every_form_of_mbarrier(name: str) -> None:
    body, count = kernel(name)
    start = START.format(count=count)
    if name.startswith("mbarrier.init"):
        start = start.replace("mbarrier.init.shared.b64 [%r10]", f"{name} {'[%r10]' if '.shared' in name else '[%d7]'}")
    before, _, after = start.partition("setp.eq.u32 %p1")
    execution, arena = run(module(before + GENERIC + "setp.eq.u32 %p1" + after + body, shared=SHARED), [out(BLOCK)], block=BLOCK)
    relaxed = ".relaxed" in name and name.split(".")[1] in ("arrive", "arrive_drop", "test_wait", "try_wait")
    assert set(kinds(execution)) == ({"data race"} if relaxed else set()), execution.findings[:1]
    if not relaxed:
        assert column(execution, arena) == neighbours(BLOCK)


def test_the_forms_are_many_and_all_of_the_registry() -> None:
    assert len(MBARRIERS) > 100 and len(COPIES) == 6
    for form in (*FORMS["mbarrier"], *(f for f in FORMS["cp"] if "mbarrier" in f.pattern)):
        for slot in form.slots:
            for choice in slot.choices:
                assert any(choice in name.split(".") for name in (*MBARRIERS, *COPIES)), (form.pattern, choice)


BARRIERS = [(opcode, modifiers) for opcode in ("bar", "barrier") for slots in CONTROL_FORMS[opcode] for modifiers in choices("", slots)]


@pytest.mark.parametrize(("opcode", "modifiers"), BARRIERS, ids=[".".join((o, *m)) for o, m in BARRIERS])
def test_every_form_of_a_barrier(opcode: str, modifiers: tuple[str, ...]) -> None:
    """Odd threads vote yes; 64 threads meet, named or not."""
    name = ".".join((opcode, *modifiers))
    head = START.partition("setp.eq.u32 %p1")[0] + "and.b32 %r9, %r0, 1;\nsetp.eq.u32 %p2, %r9, 1;\nmov.u32 %r8, 0;\n"
    wanted = 0
    if "red" in modifiers:
        popc = "popc" in modifiers
        meets = [
            f"{name} {'%r8' if popc else '%p3'}, 1{count}, %p2;\n" + ("" if popc else "selp.u32 %r8, 1, 0, %p3;\n")
            for count in ("", ", 64")
        ]
        wanted = 32 if popc else int("or" in modifiers)
    elif "arrive" in modifiers:  # the first warp goes on, the second one waits for it
        meets = [f"setp.lt.u32 %p4, %r0, 32;\n@%p4 {name} 1, 64;\n@!%p4 {opcode}.sync 1, 64;\nbar.sync 2;\n"]
    else:
        meets = [f"{name} 1;\n", f"{name} 1, 64;\n"]
    for meet in meets:
        text = module(
            head + STORE + meet + "ld.shared.u32 %r5, [%r13];\nmad.lo.u32 %r5, %r8, 1000, %r5;\nst.global.u32 [%d1], %r5;\n", shared=SHARED
        )
        execution, arena = run(text, [out(BLOCK)], block=BLOCK)
        assert kinds(execution) == [] and column(execution, arena) == [1000 * wanted + n for n in neighbours(BLOCK)]


@pytest.mark.parametrize(("text", "wanted"), [
    ("bra END;", 0), ("bra.uni END;", 0), ("ret;", 0), ("ret.uni;", 0), ("exit;", 0), ("@%p1 bra END;", 0), ("@!%p1 bra END;", 7), ("@!%p1 ret;", 7),
    ("T: .branchtargets A, END; brx.idx %r1, T; A:", 0), ("T: .branchtargets END, A; brx.idx.uni %r1, T; A:", 7), ("@!%p1 trap;", 7),
])  # fmt: skip
def test_every_form_of_control_flow(text: str, wanted: int) -> None:
    """What jumps over the store leaves zero."""
    number = np.zeros(1, np.int32)
    body = f"mov.u32 %r1, 1;\nsetp.eq.u32 %p1, %r1, 1;\n{text}\nst.global.u32 [%d1], 7;\nEND:\n"
    assert not emulate(module(OWN + body), None, 1, 1, [number]).findings
    assert number.tolist() == [wanted]


def test_a_trap_ends_the_thread_and_is_found() -> None:
    number = np.zeros(1, np.int32)
    found = emulate(module(OWN + "trap;\nst.global.u32 [%d1], 7;\n"), None, 1, 1, [number]).findings
    assert [finding.kind for finding in found] == ["trap"] and number.tolist() == [0]
