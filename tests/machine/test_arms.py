"""Branches on symbolic data: arms that only compute become selections, checked against Python's own branches at random numbers."""

from __future__ import annotations

import numpy as np
import pytest
from machine_kernels import OWN, module, out

from ptx_engine.decide.oracle import Reals
from ptx_engine.errors import NotStructuredError
from ptx_engine.launch import Launch, Role, TensorArg, bind
from ptx_engine.machine import execute
from ptx_engine.syntax import parse
from ptx_engine.terms import Arena

LOAD = OWN + "ld.param.u64 %d5, [x];\nmul.wide.u32 %d6, %r0, 4;\nadd.u64 %d5, %d5, %d6;\nld.global.f32 %f0, [%d5];\n"
STORE = "\nst.global.f32 [%d1], %f9;"
N = 64

#: three turns of a loop; what is done where the sum was not negative stands behind the loop and jumps back into it
ROTATED = (
    "mov.u32 %r2, 0;\nmov.f32 %f9, %f0;\nbra H;\nJ:\nadd.u32 %r2, %r2, 1;\nsetp.lt.u32 %p2, %r2, 3;\n@!%p2 bra E;\n"
    "H:\nsetp.lt.f32 %p1, %f9, 0f00000000;\nadd.f32 %f9, %f9, 0f3F800000;\n@%p1 bra J;\n{}\nbra J;\nE:"
)


def three_turns(x):
    for _ in range(3):
        x = x + 1 if x < 0 else (x + 1) / 2
    return x


CASES = {
    "one arm": ("mov.f32 %f9, %f0;\nsetp.lt.f32 %p1, %f0, 0f00000000;\n@!%p1 bra J;\nneg.f32 %f9, %f0;\nJ:", abs),
    "two arms": (
        "setp.gt.f32 %p1, %f0, 0f3F800000;\n@%p1 bra A;\nmul.f32 %f9, %f0, 0f40000000;\nbra J;\nA:\nadd.f32 %f9, %f0, 0f3F800000;\nJ:",
        lambda x: x + 1 if x > 1 else 2 * x,
    ),
    "constants whose type only their reader knows": (
        "setp.gt.f32 %p1, %f0, 0f3F800000;\nmov.b32 %f8, 0f40000000;\n@%p1 bra J;\nmov.b32 %f8, 0f40400000;\nJ:\nmov.b32 %f7, %f8;\nmul.f32 %f9, %f7, %f0;",
        lambda x: 2 * x if x > 1 else 3 * x,
    ),
    "nested": (
        "setp.lt.f32 %p1, %f0, 0f00000000;\n@%p1 bra A;\nsetp.gt.f32 %p2, %f0, 0f3F800000;\nmov.f32 %f9, %f0;\n@!%p2 bra J;\nmov.f32 %f9, 0f3F800000;\nbra J;\n"
        "A:\nsub.f32 %f9, 0f00000000, %f0;\nsetp.gt.f32 %p3, %f9, 0f40000000;\n@%p3 bra B;\nbra J;\nB:\nmul.f32 %f9, %f9, %f9;\nJ:",
        lambda x: (x * x if -x > 2 else -x) if x < 0 else min(x, 1),
    ),
    "a concrete branch inside": (
        "and.b32 %r2, %r0, 1;\nsetp.eq.u32 %p2, %r2, 0;\nsetp.lt.f32 %p1, %f0, 0f00000000;\nmov.f32 %f9, 0f00000000;\n@%p1 bra J;\n"
        "mov.f32 %f9, 0f3F800000;\n@%p2 bra J;\nmov.f32 %f9, 0f40000000;\nJ:",
        None,
    ),
    "predicates are selected too": (
        "setp.lt.f32 %p1, %f0, 0f00000000;\nsetp.lt.f32 %p2, %f0, 0f3F800000;\n@%p1 bra J;\nsetp.gt.f32 %p2, %f0, 0f40000000;\nJ:\nselp.f32 %f9, 0f3F800000, 0f00000000, %p2;",
        lambda x: float(x < 1) if x < 0 else float(x > 2),
    ),
    "an arm behind the loop that it is in": (ROTATED.format("mul.f32 %f9, %f9, 0f3F000000;"), three_turns),
    "arms behind one another in reverse": (
        "setp.lt.f32 %p1, %f0, 0f00000000;\nbra S;\nJ:\nadd.f32 %f9, %f9, 0f3F800000;\nbra E;\nB:\nadd.f32 %f9, %f9, %f9;\nbra J;\n"
        "A:\nmov.f32 %f9, 0f40400000;\nbra B;\nS:\nmov.f32 %f9, %f0;\n@%p1 bra A;\nsetp.gt.f32 %p2, %f0, 0f3F800000;\n@%p2 bra B;\nbra J;\nE:",
        lambda x: 7 if x < 0 else 2 * x + 1 if x > 1 else x + 1,
    ),
    "what a call passes through local memory": (
        "{\n.local .b32 a;\nmov.f32 %f9, %f0;\nsetp.lt.f32 %p1, %f0, 0f00000000;\n@!%p1 bra J;\nst.local.f32 [a], %f0;\nld.local.f32 %f1, [a];\n"
        "neg.f32 %f9, %f1;\nJ:\n}",
        abs,
    ),
    "sign of one onto another": (
        "abs.f32 %f1, %f0;\nadd.f32 %f1, %f1, 0f3F800000;\nand.b32 %r3, %f0, 0x80000000;\nor.b32 %f9, %f1, %r3;",
        lambda x: np.copysign(abs(x) + 1, x),
    ),
}  # fmt: skip


def executed(body):
    text = module(LOAD + body + STORE, ["u64 out", "u64 x"])
    arena = Arena()
    launch = Launch((1, 1, 1), (N, 1, 1), (out(N, "f32"), TensorArg("x", "f32", (N,), Role.IN)))
    execution = execute(parse(text), None, bind(launch, arena), source=text)
    footprint = execution.footprints["out"]
    assert footprint.index.tolist() == list(range(N)) and execution.findings == []
    return arena, footprint.ids


@pytest.mark.parametrize("name", list(CASES))
def test_arms_compute_what_branches_do(name):
    body, expected = CASES[name]
    arena, ids = executed(body)
    numbers = np.random.default_rng(7).normal(0, 2, (N, 5))
    x = next(each for each in arena.inputs if each.name == "x")
    given = np.zeros((arena.inputs[-1].base + arena.inputs[-1].count, 5))
    given[x.base : x.base + N] = numbers
    found = Reals(arena, ids, lambda where: given[-1 - where]).of(ids)
    if expected is None:
        lane = np.arange(N)[:, None]
        wanted = np.where(numbers < 0, 0.0, np.where(lane % 2 == 0, 1.0, 2.0))
    else:
        wanted = np.vectorize(expected, otypes=[float])(numbers)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


REFUSED = {
    "a store in an arm": "setp.lt.f32 %p1, %f0, 0f00000000;\n@%p1 bra J;\nst.global.f32 [%d1], %f0;\nJ:\nmov.f32 %f9, %f0;",
    "an atomic in an arm": "mov.f32 %f9, %f0;\nsetp.lt.f32 %p1, %f0, 0f00000000;\n@%p1 bra J;\natom.global.add.f32 %f9, [%d5], %f0;\nJ:",
    "a volatile load in an arm": "mov.f32 %f9, %f0;\nsetp.lt.f32 %p1, %f0, 0f00000000;\n@%p1 bra J;\nld.volatile.global.f32 %f9, [%d5];\nJ:",
    "a shuffle in an arm": "mov.f32 %f9, %f0;\nsetp.lt.f32 %p1, %f0, 0f00000000;\n@%p1 bra J;\nshfl.sync.bfly.b32 %f9, %f0, 1, 31, -1;\nJ:",
    "a barrier in an arm": "mov.f32 %f9, %f0;\nsetp.lt.f32 %p1, %f0, 0f00000000;\n@%p1 bra J;\nbar.sync 0;\nJ:",
    "an exit in an arm": "mov.f32 %f9, %f0;\nsetp.lt.f32 %p1, %f0, 0f00000000;\n@%p1 bra J;\nexit;\nJ:",
    "local memory whose address goes elsewhere": (
        "{\n.local .b32 a;\nmov.u64 %d7, 0;\nsetp.lt.f32 %p1, %f0, 0f00000000;\n@!%p1 bra J;\nmov.u64 %d7, a;\nst.local.f32 [a], %f0;\nJ:\n"
        "ld.local.f32 %f9, [%d7];\n}"
    ),
    "local memory that is read before it is written": (
        "{\n.local .b32 a;\nmov.f32 %f9, %f0;\nsetp.lt.f32 %p1, %f0, 0f00000000;\n@!%p1 bra J;\nld.local.f32 %f9, [a];\nst.local.f32 [a], %f0;\nJ:\n}"
    ),
    "a store in an arm that jumps back": ROTATED.format("st.global.f32 [%d1], %f0;"),
    "an arm that jumps back to the branch": ROTATED.format("mul.f32 %f9, %f9, 0f3F000000;\nbra H;"),
    "a loop in an arm": ROTATED.format("L:\nmul.f32 %f9, %f9, 0f3F000000;\nsetp.gt.f32 %p3, %f9, 0f3F800000;\n@%p3 bra L;"),
    "arms that never meet": "setp.lt.f32 %p1, %f0, 0f00000000;\nmov.f32 %f9, %f0;\n@%p1 bra A;\nL:\nadd.f32 %f9, %f9, %f9;\nbra L;\nA:",
    "a loop": "mov.f32 %f9, %f0;\nL:\nmul.f32 %f9, %f9, 0f3F000000;\nsetp.gt.f32 %p1, %f9, 0f3F800000;\n@%p1 bra L;",
    "a register of one arm only": "setp.lt.f32 %p1, %f0, 0f00000000;\n@%p1 bra J;\nmov.f32 %f9, %f0;\nJ:",
    "bits of no known type": (
        "mov.f32 %f9, %f0;\nsetp.gt.f32 %p1, %f0, 0f3F800000;\nmov.b32 %f8, 1;\n@%p1 bra J;\nmov.b32 %f8, 2;\nJ:\nmov.b32 %r9, %f8;\n"
        "st.global.b32 [%d1], %r9;"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", list(REFUSED))
def test_arms_that_do_more_than_compute_are_refused(name):
    with pytest.raises(NotStructuredError, match="symbolic data"):
        executed(REFUSED[name])
