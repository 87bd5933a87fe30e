"""Narrow multiplicands as terms: 4-bit and single-bit products of symbolic words, and sparse products, evaluated at random inputs."""

from __future__ import annotations

import numpy as np
import pytest
from gmpy2 import mpq
from tensor_kernels import fragment_kernel, run_bits

from ptx_engine.decide.precise import Cone
from ptx_engine.launch import Launch, Role, TensorArg, bind
from ptx_engine.machine import execute
from ptx_engine.syntax import parse
from ptx_engine.terms import Arena

RNG = np.random.default_rng(23)
#: instruction, registers of a, b, c, d; metadata words where it is sparse
CASES = [
    ("mma.sync.aligned.m16n8k32.row.col.s32.s4.u4.s32 {d}, {a}, {b}, {c};", 2, 1, False),
    ("mma.sync.aligned.m16n8k64.row.col.satfinite.s32.u4.s4.s32 {d}, {a}, {b}, {c};", 4, 2, False),
    ("mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 {d}, {a}, {b}, {c};", 4, 2, False),
    ("mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.xor.popc {d}, {a}, {b}, {c};", 2, 1, False),
    ("mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.and.popc {d}, {a}, {b}, {c};", 2, 1, False),
    ("mma.sp.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {d}, {a}, {b}, {c}, {e}, 1;", 2, 2, True),
]  # fmt: skip


@pytest.mark.parametrize(("text", "a", "b", "sparse"), CASES, ids=[row[0].split()[0] for row in CASES])
def test_terms_are_the_bits(text: str, a: int, b: int, sparse: bool) -> None:
    counts = {"a": a, "b": b, "c": 4} | ({"e": 1} if sparse else {}) | {"d": 4}
    module = fragment_kernel(text, counts, dict.fromkeys(counts, 32))
    words = {name: RNG.integers(0, 2**32, (32, n), dtype=np.uint32) for name, n in counts.items()}
    words["c"] = RNG.integers(0, 1000, (32, 4), dtype=np.uint32)
    words["d"] = np.zeros((32, 4), np.uint32)
    if sparse:
        words["e"][:] = sum(int(RNG.choice([0x4, 0x8, 0xC, 0x9, 0xD, 0xE])) << 4 * i for i in range(8))
    arena = Arena()
    args = tuple(
        TensorArg(
            name,
            "s32",
            (32 * n,),
            Role.OUT if name == "d" else Role.IN,
            contents=words[name].view(np.int32).ravel() if name == "e" else "symbolic",
        )
        for name, n in counts.items()
    )
    done = execute(parse(module), None, bind(Launch((1, 1, 1), (32, 1, 1), args), arena))
    assert not done.findings
    inputs = {int(entry.ids(i)): mpq(int(v)) for entry in arena.inputs for i, v in enumerate(words[entry.name].view(np.int32).ravel())}
    chosen = done.footprints["d"].ids[::7]
    found = Cone(arena, chosen).evaluate(inputs, 100)
    bits = run_bits(module, words).ravel()[::7]
    assert [int(found[int(t)]) % 2**32 for t in chosen] == bits.tolist()
