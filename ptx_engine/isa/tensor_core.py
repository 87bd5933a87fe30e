"""Tensor cores: ldmatrix and mma.sync, as warp collectives over whole columns of warps.

An mma is one dot record over all warps of the group: no additions are emitted. A group in which a warp is not complete
is a finding: the instructions are ``.aligned``.
Source: PTX ISA 9.1, "Warp Level Matrix Multiply-Accumulate Instructions".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ptx_engine.errors import NotStructuredError, UnsupportedError
from ptx_engine.isa import fragments
from ptx_engine.isa.decode import Decode, Step
from ptx_engine.isa.group import WARP, Group
from ptx_engine.isa.move import require_vec
from ptx_engine.isa.registry import instruction
from ptx_engine.isa.values import BF16, E4M3, E5M2, F16, F32, F64, TF32, Fmt

_S = "PTX ISA 9.1, Warp Level Matrix Multiply-Accumulate Instructions: "
_ELEMENT: dict[str, tuple[Fmt, int]] = {
    "f16": (F16, 2), "bf16": (BF16, 2), "tf32": (TF32, 1), "e4m3": (E4M3, 4), "e5m2": (E5M2, 4),
}  # fmt: skip


def require_warps(d: Decode, g: Group) -> None:
    """An aligned collective needs complete warps."""
    if not g.whole_warps:
        raise NotStructuredError(f"{d.ins.mnemonic} is executed by part of a warp", feature="divergence at an aligned collective")


def stack(columns: "Sequence[int | float | np.ndarray]", n: int, dtype: np.dtype) -> np.ndarray:
    """Part columns of a group as (warps, parts * 32)."""
    rows = np.empty((len(columns), n), dtype)
    for i, numbers in enumerate(columns):
        rows[i] = numbers
    return rows.reshape(len(columns), n // WARP, WARP).transpose(1, 0, 2).reshape(n // WARP, -1)


def gather(d: Decode, g: Group, registers: Sequence[int], fmts: tuple[Fmt, ...], layout: np.ndarray) -> np.ndarray:
    """The matrix (warps, rows, cols) that a fragment's registers hold, as numbers of the algebra."""
    columns: list[int | float | np.ndarray] = []
    for r in registers:
        columns.extend(d.algebra.read(g.R[r], fmts, d.ins.mnemonic))
    return stack(columns, g.n, d.algebra.number)[:, layout]


def scatter(numbers: np.ndarray, inverse: np.ndarray) -> list[np.ndarray]:
    """Numbers (warps, rows, cols) back to part columns of n threads."""
    flat = numbers.reshape(len(numbers), -1)[:, inverse]  # (warps, parts, 32)
    return [np.ascontiguousarray(flat[:, i]).reshape(-1) for i in range(inverse.shape[0])]


def write_fragment(d: Decode, g: Group, targets: Sequence[int], fmts: tuple[Fmt, ...], columns: Sequence[np.ndarray]) -> None:
    """Part columns into registers of ``len(fmts)`` parts each."""
    per = len(fmts)
    for i, r in enumerate(targets):
        g.R[r] = d.algebra.write(fmts, columns[per * i : per * (i + 1)])


@instruction("mma", "sync aligned shape=m16n8k16|m16n8k8 row col dtype=f32|f16 atype=f16 btype=f16 ctype=f32|f16",
             "sync aligned shape=m16n8k16|m16n8k8 row col dtype=f32 atype=bf16 btype=bf16 ctype=f32",
             "sync aligned shape=m16n8k8|m16n8k4 row col dtype=f32 atype=tf32 btype=tf32 ctype=f32",
             "sync aligned shape=m16n8k32|m16n8k16 row col dtype=f32|f16 atype=e4m3|e5m2 btype=e4m3|e5m2 ctype=f32|f16",
             source=_S + "mma")  # fmt: skip
def mma(d: Decode) -> Step:
    d.expect(4)
    k = int(d.mods["shape"].rpartition("k")[2])
    (fa, per), (fb, per_b) = _ELEMENT[d.mods["atype"]], _ELEMENT[d.mods["btype"]]
    if per != per_b:
        raise UnsupportedError(f"{d.ins.mnemonic}: operands of different widths", feature=d.ins.mnemonic)
    layout_a, layout_b, layout_c = fragments.fragment_a(k, per), fragments.fragment_b(k, per), fragments.fragment_c()
    back = fragments.inverse(layout_c)
    require_vec(d, 1, 16 * k // WARP // per)
    require_vec(d, 2, 8 * k // WARP // per)
    half_c, half_d = d.mods["ctype"] == "f16", d.mods["dtype"] == "f16"
    require_vec(d, 3, 2 if half_c else 4)
    require_vec(d, 0, 2 if half_d else 4)
    a, b, c, targets = d.srcs(1, 32), d.srcs(2, 32), d.srcs(3, 32), d.dsts(0)
    fmts_c: tuple[Fmt, ...] = (F16, F16) if half_c else (F32,)
    fmts_d: tuple[Fmt, ...] = (F16, F16) if half_d else (F32,)

    def step(g: Group) -> None:
        require_warps(d, g)
        rows, cols = gather(d, g, a, (fa,) * per, layout_a), gather(d, g, b, (fb,) * per, layout_b)
        acc = gather(d, g, c, fmts_c, layout_c)
        write_fragment(d, g, targets, fmts_d, scatter(d.algebra.dot(rows, cols, acc), back))

    return step


@instruction("mma", "sync aligned shape=m8n8k4 row col dtype=f64 atype=f64 btype=f64 ctype=f64", source=_S + "mma")
def mma_f64(d: Decode) -> Step:
    d.expect(4)
    a, b, c, targets = d.srcs(1, 64), d.srcs(2, 64), d.srcs(3, 64), d.dsts(0)
    layout_a, layout_b, layout_c = fragments.fragment_a_m8n8k4(), fragments.fragment_b_m8n8k4(), fragments.fragment_c_m8n8()
    back = fragments.inverse(layout_c)

    def step(g: Group) -> None:
        require_warps(d, g)
        rows, cols = gather(d, g, a, (F64,), layout_a), gather(d, g, b, (F64,), layout_b)
        acc = gather(d, g, c, (F64,), layout_c)
        write_fragment(d, g, targets, (F64,), scatter(d.algebra.dot(rows, cols, acc), back))

    return step


_LANES = np.arange(WARP)


@instruction("ldmatrix", "sync aligned shape=m8n8 num=x1|x2|x4 [trans] space=shared|shared::cta type=b16", source=_S + "ldmatrix")
def ldmatrix(d: Decode) -> Step:
    """Lanes 8i..8i+7 give the row addresses of matrix i; lane l receives elements 2(l%4), +1 of row l/4 (transposed: of column l/4)."""
    d.expect(2)
    count = int(d.mods["num"][1:])
    require_vec(d, 0, count)
    targets, address, pc, memory = d.dsts(0), d.address(1), d.pc, d.env.memory
    name = d.ins.mnemonic
    row, first, second = _LANES // 4, 2 * (_LANES % 4), 2 * (_LANES % 4) + 1
    places = ((first, row), (second, row)) if d.has("trans") else ((row, first), (row, second))

    def step(g: Group) -> None:
        require_warps(d, g)
        where = np.broadcast_to(np.asarray(address(g.R)), (g.n,)).reshape(-1, WARP)[:, : 8 * count]
        lanes = (np.arange(g.n // WARP)[:, None] * WARP + np.arange(8 * count)).ravel()
        ids, tags = memory.load_rows(g if 8 * count == WARP else g.subset(lanes, ()), where.ravel(), pc)
        cells = ids.shape[1] // 8  # cells of a 16-bit element
        ids, tags = (x.reshape(-1, count, 8, 8, cells) for x in (ids, tags))
        for i, r in enumerate(targets):
            columns = [(ids[:, i, p, q, c].ravel(), tags[:, i, p, q, c].ravel()) for p, q in places for c in range(cells)]
            g.R[r] = memory.assemble(columns, name)

    return step
