"""Tensor cores: mma.sync as warp collectives over whole columns of warps.

An mma is one dot record over all warps of the group: no additions are emitted. A group in which a warp is not complete
waits for its other lanes: the instructions are ``.aligned``. Integer products are exact, with 32-bit wrap-around where it can matter.
Source: PTX ISA 9.1, "Warp Level Matrix Multiply-Accumulate Instructions".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ptx_engine.isa import fragments
from ptx_engine.isa.decode import Decode, Step
from ptx_engine.isa.fragments import Layout
from ptx_engine.isa.group import WARP, Group
from ptx_engine.isa.mma_shapes import ACCUMULATORS, ELEMENTS, Element, extents
from ptx_engine.isa.move import require_vec
from ptx_engine.isa.registry import constraint, instruction
from ptx_engine.isa.values import Fmt
from ptx_engine.isa.warp import LanesMissing, Meeting, absent_lanes

#: matrices (warps, rows, K / 2) of a compressed A -> (warps, rows, K)
Spread = Callable[[Group, np.ndarray], np.ndarray]

_S = "PTX ISA 9.1, Warp Level Matrix Multiply-Accumulate Instructions: "


def require_warps(d: Decode, g: Group) -> None:
    """An aligned collective needs complete warps: raises LanesMissing where one is not, so that its other lanes can come, or be missed."""
    if not g.whole_warps:
        lane, warp = g.lane_and_warp()
        members = np.full(g.n, 0xFFFFFFFF, np.uint32)
        absent = absent_lanes(lane, warp, members, np.zeros_like(d.env.lanes_gone()))
        raise LanesMissing(d.ins.mnemonic, g.threads, members, absent, Meeting.ALIGNED)


def stack(columns: "Sequence[int | float | np.ndarray]", n: int, dtype: np.dtype) -> np.ndarray:
    """Part columns of a group as (warps, parts * 32)."""
    rows = np.empty((len(columns), n), dtype)
    for i, numbers in enumerate(columns):
        rows[i] = numbers
    return rows.reshape(len(columns), n // WARP, WARP).transpose(1, 0, 2).reshape(n // WARP, -1)


def gather(d: Decode, g: Group, registers: Sequence[int], fmts: tuple[Fmt, ...], layout: Layout) -> np.ndarray:
    """The matrices (warps, ..., rows, cols) that a fragment's registers hold, as numbers of the algebra."""
    columns: list[int | float | np.ndarray] = []
    for r in registers:
        columns.extend(d.algebra.read(g.R[r], fmts, d.name))
    return stack(columns, g.n, d.algebra.number)[:, layout]


def scatter(numbers: np.ndarray, inverse: np.ndarray, warps: int) -> list[np.ndarray]:
    """Numbers (warps, ..., rows, cols) back to part columns of n threads."""
    flat = numbers.reshape(warps, -1)[:, inverse]  # (warps, parts, 32)
    return [np.ascontiguousarray(flat[:, i]).reshape(-1) for i in range(inverse.shape[0])]


def write_fragment(d: Decode, g: Group, targets: Sequence[int], fmts: tuple[Fmt, ...], columns: Sequence[np.ndarray]) -> None:
    """Part columns into registers of ``len(fmts)`` parts each."""
    per = len(fmts)
    for i, r in enumerate(targets):
        g.R[r] = d.algebra.write(fmts, columns[per * i : per * (i + 1)])


def operand_registers(d: Decode, i: int, layout: Layout, per_register: int, bits: int, count: "int | None" = None) -> list[int]:
    """The source registers of a fragment (``count`` if it repeats elements). Raises ParseError for another number of registers."""
    needed = layout.size // WARP // per_register
    require_vec(d, i, count or needed)
    return d.srcs(i, bits)[:needed]


def element_of(d: Decode, slot: str) -> Element:
    return ELEMENTS[d.mods[slot]]


def float_product_step(
    d: Decode,
    layouts: tuple[Layout, Layout, Layout, Layout],
    elements: tuple[Element, Element],
    spread: "Spread | None" = None,
    registers: "tuple[int, int] | None" = None,
) -> Step:
    """D = A * B + C for layouts of A, B, C, D; leading axes of layouts count products in a warp. ``spread`` completes a compressed A;
    ``registers`` of A and B where a fragment has more of them than its elements need (the first ones count)."""
    layout_a, layout_b, layout_c, layout_d = layouts
    ea, eb = elements
    (fmts_c, bits_c), (fmts_d, _) = ACCUMULATORS[d.mods["ctype"]], ACCUMULATORS[d.mods["dtype"]]
    back = fragments.inverse(layout_d)
    a = operand_registers(d, 1, layout_a, ea.per_register, ea.register_bits, registers and registers[0])
    b = operand_registers(d, 2, layout_b, eb.per_register, eb.register_bits, registers and registers[1])
    c = operand_registers(d, 3, layout_c, len(fmts_c), bits_c)
    require_vec(d, 0, layout_d.size // WARP // len(fmts_d))
    targets = d.dsts(0)
    fmts_a, fmts_b = (ea.fmt,) * ea.per_register, (eb.fmt,) * eb.per_register
    several = layout_a.ndim == 3

    def step(g: Group) -> None:
        require_warps(d, g)
        rows, cols = gather(d, g, a, fmts_a, layout_a), gather(d, g, b, fmts_b, layout_b)
        acc = gather(d, g, c, fmts_c, layout_c)
        if spread is not None:
            rows = spread(g, rows)
        if several:
            rows, cols, acc = (x.reshape(-1, *x.shape[2:]) for x in (rows, cols, acc))
        write_fragment(d, g, targets, fmts_d, scatter(d.algebra.dot(rows, cols, acc), back, g.n // WARP))

    return step


@constraint("mma", "accumulator and result are of one type; .m8n8k4 may widen an .f16 accumulator to .f32")
def _same_accumulator(mods: dict[str, str]) -> bool:
    return mods["dtype"] == mods["ctype"] or (mods["shape"] == "m8n8k4" and mods["dtype"] == "f32")


@instruction("mma", "sync aligned shape=m16n8k16|m16n8k8 row col dtype=f32|f16 atype=f16 btype=f16 ctype=f32|f16",
             "sync aligned shape=m16n8k16|m16n8k8 row col dtype=f32 atype=bf16 btype=bf16 ctype=f32",
             "sync aligned shape=m16n8k8|m16n8k4 row col dtype=f32 atype=tf32 btype=tf32 ctype=f32",
             "sync aligned shape=m8n8k4|m16n8k4|m16n8k8|m16n8k16 row col [!product=rn|rz|rm|rp] dtype=f64 atype=f64 btype=f64 ctype=f64",
             "sync aligned shape=m16n8k32|m16n8k16 row col dtype=f32|f16 atype=e4m3|e5m2 btype=e4m3|e5m2 ctype=f32|f16",
             source=_S + "mma")  # fmt: skip
def mma(d: Decode) -> Step:
    d.expect(4)
    m, _, k = extents(d.mods["shape"])
    ea, eb = element_of(d, "atype"), element_of(d, "btype")
    layout_a, layout_b = fragments.fragment_a(m, k, ea.per_register), fragments.fragment_b(k, eb.per_register)
    layout_c = fragments.fragment_c(m)
    return float_product_step(d, (layout_a, layout_b, layout_c, layout_c), (ea, eb))


@instruction(
    "mma", "sync aligned shape=m8n8k4 alayout=row|col blayout=row|col dtype=f32|f16 atype=f16 btype=f16 ctype=f32|f16", source=_S + "mma"
)
def mma_quads(d: Decode) -> Step:
    """Four products of 8x8x4, one for each pair of quads."""
    d.expect(4)
    layout_c, layout_d = (fragments.quad_c(d.mods[slot] == "f16") for slot in ("ctype", "dtype"))
    element = ELEMENTS["f16"]
    return float_product_step(
        d, (fragments.quad_a(d.mods["alayout"]), fragments.quad_b(d.mods["blayout"]), layout_c, layout_d), (element, element)
    )
