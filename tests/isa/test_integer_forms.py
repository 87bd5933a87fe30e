"""Every integer form against Python ints: the edge values of all operands, random ones, and one thread against many."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from integer_model import FORMS, Form
from one_instruction import run

UINT = {16: np.uint16, 32: np.uint32, 64: np.uint64}


def edges(bits: int) -> list[int]:
    top = (1 << bits) - 1
    return [0, 1, top, 1 << bits - 1, (1 << bits - 1) - 1, 2, 31, bits, 0x1234567890ABCDEF & top]


def operands(form: Form, count: int) -> list[tuple[int, ...]]:
    """Edge values paired with each other, then random ones of all magnitudes."""
    rng = np.random.default_rng(zlib.crc32(form.text.encode()))
    rows = []
    for first in edges(form.operands[0]):
        for second in edges(form.operands[1]) if len(form.operands) > 1 else [0]:
            rest = [int(rng.choice(edges(bits))) if bits < 64 else edges(bits)[int(rng.integers(9))] for bits in form.operands[2:]]
            rows.append((first, second, *rest)[: len(form.operands)])
    while len(rows) < count:
        rows.append(
            tuple(
                int(rng.integers(0, 1 << 63)) * 2 + int(rng.integers(2)) & ((1 << int(rng.integers(1, bits + 1))) - 1)
                for bits in form.operands
            )
        )
    return rows


def outcome(form: Form, rows: list[tuple[int, ...]]) -> tuple[list[int], list[int | None]]:
    columns = [np.array([row[i] for row in rows], UINT[bits]) for i, bits in enumerate(form.operands)]
    found = run(form.text, columns, [UINT[form.result]])[0].tolist()
    mask = (1 << form.result) - 1
    wanted = [form.model(*row) for row in rows]
    return found, [None if w is None else w & mask for w in wanted]


def agree(form: Form, rows: list[tuple[int, ...]]) -> None:
    for row, found, wanted in zip(rows, *outcome(form, rows)):
        assert wanted is None or found == wanted, f"{form.text} of {[hex(x) for x in row]}: {found:#x}, not {wanted:#x}"


@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.text.split(";")[-2].split()[0] + f.text[-12:-1].replace(" ", ""))
def test_edges_and_random_operands(form: Form) -> None:
    agree(form, operands(form, 120))


@pytest.mark.parametrize("form", FORMS[::7], ids=lambda f: f.text)
def test_one_thread_computes_the_same(form: Form) -> None:
    for row in operands(form, 0)[::11]:
        agree(form, [row])


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.data())
def test_random_forms_and_operands(data: st.DataObject) -> None:
    form = data.draw(st.sampled_from(FORMS))
    agree(form, data.draw(st.lists(st.tuples(*(st.integers(0, (1 << bits) - 1) for bits in form.operands)), min_size=1, max_size=20)))


CHAINS = [
    ("add.cc.u32 d0, a0, a2; addc.u32 d1, a1, a3;", lambda x, y: x + y), ("sub.cc.s32 d0, a0, a2; subc.s32 d1, a1, a3;", lambda x, y: x - y),
    ("add.cc.u32 d0, a0, a2; addc.cc.u32 d1, a1, a3; addc.u32 d2, 0, 0;", lambda x, y: x + y),
]  # fmt: skip


@pytest.mark.parametrize(("text", "model"), CHAINS, ids=[text for text, _ in CHAINS])
def test_carries_chain(text: str, model: object) -> None:
    values = [0, 1, 2**32 - 1, 2**32, 2**63, 2**64 - 1, 0x123456789ABCDEF0]
    pairs = [(x, y) for x in values for y in values]
    halves = [[x & 0xFFFFFFFF, x >> 32, y & 0xFFFFFFFF, y >> 32] for x, y in pairs]
    columns = [np.array([h[i] for h in halves], np.uint32) for i in range(4)]
    words = 3 if "d2" in text else 2
    found = run(text, columns, [np.uint32] * words)
    for i, (x, y) in enumerate(pairs):
        assert sum(int(w[i]) << 32 * k for k, w in enumerate(found)) == model(x, y) % (1 << 32 * words)  # type: ignore[operator]


def test_extended_products() -> None:
    """mad.lo.cc and madc.hi make a 32 x 32 + 64 bit product."""
    rng = np.random.default_rng(3)
    a, b, low, high = (rng.integers(0, 2**32, 60, dtype=np.uint32) for _ in range(4))
    found = run("mad.lo.cc.u32 d0, a0, a1, a2; madc.hi.u32 d1, a0, a1, a3;", [a, b, low, high], [np.uint32, np.uint32])
    for i in range(60):
        wanted = (int(a[i]) * int(b[i]) + int(low[i]) + (int(high[i]) << 32)) % 2**64
        assert int(found[0][i]) | int(found[1][i]) << 32 == wanted
    wide = run("mad.hi.cc.s64 d0, a0, a1, a2; madc.lo.cc.u64 d1, a0, a1, a2; addc.u64 d2, 0, 0;",
               [x.astype(np.uint64) << np.uint64(31) for x in (a, b, low)], [np.uint64] * 3)  # fmt: skip
    for i in range(60):
        x, y, z = (int(v[i]) << 31 for v in (a, b, low))
        signed = [v - (1 << 64) if v >> 63 else v for v in (x, y)]
        first = (signed[0] * signed[1] >> 64) % 2**64 + z
        second = x * y % 2**64 + z + (first >> 64)
        assert [int(w[i]) for w in wide] == [first % 2**64, second % 2**64, second >> 64]


def test_lop3_with_a_predicate() -> None:
    a = np.array([0, 1, 6, 0xFFFFFFFF], np.uint32)
    b = np.array([0, 2, 3, 0], np.uint32)
    for op, q, wanted in (("or", 0, [0, 0, 1, 0]), ("or", 1, [1, 1, 1, 1]), ("and", 1, [0, 0, 1, 0]), ("and", 0, [0, 0, 0, 0])):
        text = f"setp.eq.u32 %p2, {q}, 1; lop3.{op}.b32 d0|p1, a0, a1, a0, 0x80, %p2;"
        found = run(text, [a, b], [np.uint32, np.uint32])
        assert found[0].tolist() == [0, 0, 2, 0] and found[1].tolist() == wanted
