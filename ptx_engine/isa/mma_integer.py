"""Integer tensor-core products: s8/u8, s4/u4 and single bits, accumulated in s32.

Accumulators are kept as exact integers with a range: 32-bit wrap-around enters only where the range needs it, so that a product
over K terms is a plain sum. ``.satfinite`` clamps each instruction's result.
Source: PTX ISA 9.1, "Warp Level Matrix Multiply-Accumulate Instructions: mma, wmma.mma".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ptx_engine.isa import fragments
from ptx_engine.isa.algebra_symbolic import SymbolicAlgebra
from ptx_engine.isa.bits import clamp, congruent_term, refused
from ptx_engine.isa.decode import Decode, Step
from ptx_engine.isa.fragments import Layout
from ptx_engine.isa.group import WARP, Group
from ptx_engine.isa.mma_shapes import S32, Element, extents
from ptx_engine.isa.move import require_vec
from ptx_engine.isa.registry import instruction
from ptx_engine.isa.tensor_core import Spread, element_of, gather, operand_registers, require_warps, scatter, stack
from ptx_engine.isa.values import Sym, int_fmt
from ptx_engine.terms import Op

_S = "PTX ISA 9.1, Warp Level Matrix Multiply-Accumulate Instructions: "


@dataclass(frozen=True)
class IntegerProduct:
    """What an integer mma computes: layouts of A, B (as (n, k)) and C; the bit operation of single-bit products ("" otherwise)."""

    layouts: tuple[Layout, Layout, Layout]
    elements: tuple[Element, Element]
    bit_op: str = ""
    saturates: bool = False

    @property
    def depth(self) -> int:
        return int(self.layouts[0].shape[1])

    def growth(self) -> tuple[int, int]:
        """Least and greatest sum of the products."""
        fa, fb = (e.fmt for e in self.elements)
        corners = [x * y for x in (fa.lo, fa.hi) for y in (fb.lo, fb.hi)]
        return min(0, self.depth * min(corners)), max(0, self.depth * max(corners))


def integer_product_step(d: Decode, product: IntegerProduct, spread: "Spread | None" = None) -> Step:
    """The step of an integer mma with operands d, a, b, c; ``spread`` completes a compressed A."""
    layout_a, layout_b, layout_c = product.layouts
    ea, eb = product.elements
    back = fragments.inverse(layout_c)
    a = operand_registers(d, 1, layout_a, ea.per_register, 32)
    b = operand_registers(d, 2, layout_b, eb.per_register, 32)
    c = operand_registers(d, 3, layout_c, 1, 32)
    require_vec(d, 0, layout_c.size // WARP)
    targets = d.dsts(0)
    symbolic = isinstance(d.algebra, SymbolicAlgebra)

    def step(g: Group) -> None:
        require_warps(d, g)
        rows = gather(d, g, a, (ea.fmt,) * ea.per_register, layout_a)
        cols = gather(d, g, b, (eb.fmt,) * eb.per_register, layout_b)
        if spread is not None:
            rows = spread(g, rows)
        (_write_terms if symbolic else _write_numbers)(d, g, product, (rows, cols), c, targets, back)

    return step


Matrices = tuple[np.ndarray, np.ndarray]


def _write_numbers(
    d: Decode, g: Group, product: IntegerProduct, ab: Matrices, c: Sequence[int], targets: Sequence[int], back: np.ndarray
) -> None:
    """Exact in float64: products of 8-bit numbers over at most 256 terms and a 32-bit accumulator stay below 2^53."""
    rows, cols = ab
    acc = gather(d, g, c, (S32,), product.layouts[2])
    if product.bit_op == "xor":
        acc = acc + rows.sum(-1)[:, :, None] + cols.sum(-1)[:, None, :] - 2 * (rows @ cols.swapaxes(-1, -2))
    else:
        acc = d.algebra.dot(rows, cols, acc)
    if product.saturates:
        acc = np.clip(acc, S32.lo, S32.hi)
    for r, column in zip(targets, scatter(acc, back, g.n // WARP)):
        g.R[r] = d.algebra.write((S32,), [column])


def _write_terms(
    d: Decode, g: Group, product: IntegerProduct, ab: Matrices, c: Sequence[int], targets: Sequence[int], back: np.ndarray
) -> None:
    arena, (rows, cols) = d.arena, ab
    low = high = 0
    columns: list[int | float | np.ndarray] = []
    for r in c:
        number = congruent_term(arena, g.R[r], 32, True)
        if number is None:
            raise refused(d.ins.mnemonic, g.R[r])
        columns.append(number[0])
        low, high = min(low, number[1]), max(high, number[2])
    acc = stack(columns, g.n, d.algebra.number)[:, product.layouts[2]]
    if product.bit_op == "xor":  # a xor b = b + a * (1 - 2b)
        counts = np.asarray(arena.nary(Op.NSUM, cols))
        acc = np.asarray(arena.add(acc, np.ascontiguousarray(np.broadcast_to(counts[:, None, :], acc.shape))))
        cols = np.asarray(arena.sub(1, arena.mul(arena.rational(2), cols)))
    grown = product.growth()
    low, high = low + grown[0], high + grown[1]
    for r, column in zip(targets, scatter(d.algebra.dot(rows, cols, acc), back, g.n // WARP)):
        if product.saturates:
            ids, lo, hi = clamp(arena, (column, low, high), S32.lo, S32.hi)
            g.R[r] = Sym(((int_fmt(32, lo, hi), ids),))
        else:
            g.R[r] = Sym(((int_fmt(32, low, high), column),))


@instruction("mma", "sync aligned shape=m8n8k16|m16n8k16|m16n8k32 row col [satfinite] dtype=s32 atype=s8|u8 btype=s8|u8 ctype=s32",
             "sync aligned shape=m8n8k32|m16n8k32|m16n8k64 row col [satfinite] dtype=s32 atype=s4|u4 btype=s4|u4 ctype=s32",
             "sync aligned shape=m8n8k128|m16n8k128|m16n8k256 row col dtype=s32 atype=b1 btype=b1 ctype=s32 op=xor|and popc",
             source=_S + "mma")  # fmt: skip
def mma_integer(d: Decode) -> Step:
    d.expect(4)
    m, _, k = extents(d.mods["shape"])
    ea, eb = element_of(d, "atype"), element_of(d, "btype")
    layouts = (fragments.fragment_a(m, k, ea.per_register), fragments.fragment_b(k, eb.per_register), fragments.fragment_c(m))
    return integer_product_step(d, IntegerProduct(layouts, (ea, eb), d.mod("op") or "", d.has("satfinite")))


__all__ = ["IntegerProduct", "integer_product_step", "mma_integer"]
