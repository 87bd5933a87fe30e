"""wmma: load, store and multiply matrices in fragments whose layout the ISA leaves open.

A layout of our own is used throughout (``fragments.opaque_fragment``): neighbours along a row in one register, lane by lane. Where a
fragment has more registers than elements (f16), the rest repeats them. Code that counts on a GPU's layout is not covered, which the
ledger says.
Source: PTX ISA 9.1, "Matrix multiply-accumulate operation using wmma instructions".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ptx_engine.errors import NotStructuredError
from ptx_engine.isa import fragments
from ptx_engine.isa.decode import Decode, Step
from ptx_engine.isa.fragments import Layout
from ptx_engine.isa.group import WARP, Group
from ptx_engine.isa.memory import space_of
from ptx_engine.isa.mma_integer import IntegerProduct, integer_product_step
from ptx_engine.isa.mma_shapes import ACCUMULATORS, ELEMENTS, extents
from ptx_engine.isa.move import pack, require_vec, unpack
from ptx_engine.isa.registry import constraint, instruction
from ptx_engine.isa.shuffle import uniform
from ptx_engine.isa.tensor_core import element_of, float_product_step, require_warps
from ptx_engine.isa.values import Value

_S = "PTX ISA 9.1, Warp Level Matrix Multiply-Accumulate Instructions: wmma"
_ASSUMPTION = "wmma fragments have a layout of our own: code that counts on a GPU's layout is not covered"
_HALF = "m16n16k16|m8n32k16|m32n8k16"
_SPACE = "[space=global|shared|shared::cta]"


@dataclass(frozen=True)
class Fragment:
    """A matrix in registers. ``rows`` x ``cols`` are its extents as the layout has them (B as (n, k)); ``transposed`` says that the
    matrix's own rows are the layout's columns; ``bits`` of an element, ``per`` elements a register, ``registers`` of a lane."""

    rows: int
    cols: int
    transposed: bool
    bits: int
    per: int
    registers: int

    @property
    def layout(self) -> Layout:
        return fragments.opaque_fragment(self.rows, self.cols, self.per)

    @property
    def register_bits(self) -> int:
        return self.bits * self.per

    def places(self) -> tuple[np.ndarray, np.ndarray]:
        """Row and column in the layout of the first element of each (register, lane)."""
        first = (np.arange(self.registers)[:, None] * WARP + np.arange(WARP)) * self.per % (self.rows * self.cols)
        return first // self.cols, first % self.cols


def fragment_of(which: str, shape: str, kind: str) -> Fragment:
    """The fragment of operand ``a``, ``b``, ``c`` or ``d``."""
    m, n, k = extents(shape)
    if which in "cd":
        fmts, bits = ACCUMULATORS[kind]
        per = len(fmts)
        return Fragment(m, n, False, bits // per, per, m * n // WARP // per)
    element = ELEMENTS[kind]
    rows, transposed = (m, False) if which == "a" else (n, True)
    count = rows * k // WARP // element.per_register
    if kind == "f16":
        count = 8  # every element twice (or, where a matrix is twice as large, once)
    return Fragment(rows, k, transposed, element.fmt.bits, element.per_register, count)


def _addresses(fragment: Fragment, layout: str, stride: int) -> tuple[np.ndarray, int]:
    """Byte offsets (registers, per, lanes) of elements, or (registers, 1, lanes) of whole registers where these are contiguous; and the
    width in bits of one access."""
    row, col = fragment.places()
    along_columns = (layout == "row") != fragment.transposed  # memory is contiguous along the layout's columns
    if fragment.bits < 8:  # A by rows, B by columns
        if stride * fragment.bits % 8:
            raise NotStructuredError(f"a wmma matrix whose rows are {stride} elements of {fragment.bits} bits", feature="wmma stride")
        return ((row * stride + col) * fragment.bits // 8)[:, None, :], fragment.register_bits
    size = fragment.bits // 8
    if along_columns and stride % fragment.per == 0:
        return ((row * stride + col) * size)[:, None, :], fragment.register_bits
    j = np.arange(fragment.per)[None, :, None]
    row, col = row[:, None, :], col[:, None, :] + j
    return ((row * stride + col) if along_columns else (col * stride + row)) * size, fragment.bits


def _where(d: Decode, fragment: Fragment, layout: str, stride_at: int | None, default: int) -> Callable[[Group], tuple[np.ndarray, int]]:
    """Byte offsets for the stride operand (in elements) or the natural one."""
    cache: dict[int, tuple[np.ndarray, int]] = {}
    slot = d.src(stride_at, 32) if stride_at is not None else None

    def places(g: Group) -> tuple[np.ndarray, int]:
        stride = default if slot is None else uniform(g.R[slot], "the stride of a wmma matrix")
        if stride not in cache:
            cache[stride] = _addresses(fragment, layout, stride)
        return cache[stride]

    return places


def _base(d: Decode, i: int) -> Callable[[Group], "int | np.ndarray"]:
    address = d.checked_address(i)

    def base(g: Group) -> "int | np.ndarray":
        value = address(g.R)
        if not isinstance(value, np.ndarray):
            return value
        table = value.reshape(-1, WARP)
        if not bool((table == table[:, :1]).all()):
            raise NotStructuredError(f"{d.ins.mnemonic}: the address differs between lanes of a warp", feature="wmma address")
        return value

    return base


def _natural_stride(fragment: Fragment, layout: str) -> int:
    own_rows, own_cols = (fragment.cols, fragment.rows) if fragment.transposed else (fragment.rows, fragment.cols)
    return own_cols if layout == "row" else own_rows


_LOADS = [
    f"which=a|b sync aligned layout=row|col shape={_HALF} {_SPACE} type=f16|bf16|s8|u8",
    f"which=a|b sync aligned layout=row|col shape=m16n16k8 {_SPACE} type=tf32",
    f"which=a|b sync aligned layout=row|col shape=m8n8k4 {_SPACE} type=f64",
    *(f"which={which} sync aligned layout={layout} shape={shape} {_SPACE} type={kinds}"
      for which, layout in (("a", "row"), ("b", "col")) for shape, kinds in (("m8n8k32", "s4|u4"), ("m8n8k128", "b1"))),
    f"which=c sync aligned layout=row|col shape={_HALF} {_SPACE} type=f16|f32|s32",
    f"which=c sync aligned layout=row|col shape=m16n16k8 {_SPACE} type=f32",
    f"which=c sync aligned layout=row|col shape=m8n8k4 {_SPACE} type=f64",
    f"which=c sync aligned layout=row|col shape=m8n8k32|m8n8k128 {_SPACE} type=s32",
]  # fmt: skip


@instruction("wmma", *(f"load {pattern}" for pattern in _LOADS), source=_S + ".load")
def load(d: Decode) -> Step:
    d.expect(2, 3)
    d.arena.assumptions.setdefault(_ASSUMPTION)
    fragment = fragment_of(d.mods["which"], d.mods["shape"], d.mods["type"])
    require_vec(d, 0, fragment.registers)
    targets, base, space, pc, memory = d.dsts(0), _base(d, 1), space_of(d), d.pc, d.env.memory
    layout = d.mods["layout"]
    where = _where(d, fragment, layout, 2 if d.count == 3 else None, _natural_stride(fragment, layout))

    def step(g: Group) -> None:
        require_warps(d, g)
        offsets, width = where(g)
        start = base(g)
        for r, rows in zip(targets, offsets):
            pieces = [memory.load(g, space, start + _tiled(lanes, g), (width,), pc)[0] for lanes in rows]
            g.R[r] = pieces[0] if len(pieces) == 1 else pack(pieces, width)

    return step


def _tiled(lanes: np.ndarray, g: Group) -> np.ndarray:
    return np.tile(lanes, g.n // WARP).astype(np.uint64)


_STORES = [
    f"sync aligned layout=row|col shape={_HALF} {_SPACE} type=f16|f32|s32", f"sync aligned layout=row|col shape=m16n16k8 {_SPACE} type=f32",
    f"sync aligned layout=row|col shape=m8n8k4 {_SPACE} type=f64", f"sync aligned layout=row|col shape=m8n8k32|m8n8k128 {_SPACE} type=s32",
]  # fmt: skip


@instruction("wmma", *(f"store d {pattern}" for pattern in _STORES), source=_S + ".store")
def store(d: Decode) -> Step:
    d.expect(2, 3)
    d.arena.assumptions.setdefault(_ASSUMPTION)
    fragment = fragment_of("d", d.mods["shape"], d.mods["type"])
    require_vec(d, 1, fragment.registers)
    sources, base, space, pc, memory, arena = d.srcs(1, fragment.register_bits), _base(d, 0), space_of(d), d.pc, d.env.memory, d.arena
    layout = d.mods["layout"]
    where = _where(d, fragment, layout, 2 if d.count == 3 else None, _natural_stride(fragment, layout))

    def step(g: Group) -> None:
        require_warps(d, g)
        offsets, width = where(g)
        start = base(g)
        for r, rows in zip(sources, offsets):
            pieces: list[Value] = [g.R[r]] if len(rows) == 1 else unpack(arena, g.R[r], width, len(rows))
            for lanes, piece in zip(rows, pieces):
                memory.store(g, space, start + _tiled(lanes, g), [piece], (width,), pc)

    return step


@constraint("wmma", "A and B are of one type")
def _same_types(mods: dict[str, str]) -> bool:
    return mods.get("atype") == mods.get("btype")


_MMA = "sync aligned alayout=row|col blayout=row|col"


@instruction("wmma", f"mma {_MMA} shape={_HALF} dtype=f16|f32 ctype=f16|f32",
             f"mma {_MMA} shape={_HALF} dtype=f32 atype=bf16 btype=bf16 ctype=f32",
             f"mma {_MMA} shape=m16n16k8 dtype=f32 atype=tf32 btype=tf32 ctype=f32",
             f"mma {_MMA} shape=m8n8k4 [!product=rn|rz|rm|rp] dtype=f64 atype=f64 btype=f64 ctype=f64", source=_S + ".mma")  # fmt: skip
def multiply(d: Decode) -> Step:
    """Layout modifiers say how A and B were loaded; fragments of both kinds are the same here."""
    d.expect(4)
    d.mods.setdefault("atype", "f16")
    d.mods.setdefault("btype", "f16")
    shape = d.mods["shape"]
    a, b = fragment_of("a", shape, d.mods["atype"]), fragment_of("b", shape, d.mods["btype"])
    c, result = fragment_of("c", shape, d.mods["ctype"]), fragment_of("d", shape, d.mods["dtype"])
    layouts = (a.layout, b.layout, c.layout, result.layout)
    counts = (a.registers, b.registers)
    return float_product_step(d, layouts, (element_of(d, "atype"), element_of(d, "btype")), registers=counts)


@instruction("wmma", f"mma {_MMA} shape={_HALF} dtype=s32 atype=s8|u8 btype=s8|u8 ctype=s32 [satfinite]",
             "mma sync aligned row col shape=m8n8k32 dtype=s32 atype=s4|u4 btype=s4|u4 ctype=s32 [satfinite]",
             "mma op=xor|and popc sync aligned row col shape=m8n8k128 dtype=s32 atype=b1 btype=b1 ctype=s32",
             source=_S + ".mma")  # fmt: skip
def multiply_integer(d: Decode) -> Step:
    d.expect(4)
    shape = d.mods["shape"]
    a, b, c = fragment_of("a", shape, d.mods["atype"]), fragment_of("b", shape, d.mods["btype"]), fragment_of("c", shape, "s32")
    elements = (element_of(d, "atype"), element_of(d, "btype"))
    return integer_product_step(d, IntegerProduct((a.layout, b.layout, c.layout), elements, d.mod("op") or "", d.has("satfinite")))
