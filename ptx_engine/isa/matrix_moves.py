"""Matrices between shared memory and registers: ldmatrix, stmatrix, movmatrix.

Source: PTX ISA 9.1, "Warp Level Matrix Multiply-Accumulate Instructions: ldmatrix, stmatrix, movmatrix".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ptx_engine.errors import NotStructuredError
from ptx_engine.isa.decode import Decode, Step
from ptx_engine.isa.group import WARP, Group
from ptx_engine.isa.move import pack, require_vec, unpack
from ptx_engine.isa.registry import instruction, refuse
from ptx_engine.isa.tensor_core import require_warps
from ptx_engine.isa.values import Value, choose, take, uninitialised

_S = "PTX ISA 9.1, Warp Level Matrix Multiply-Accumulate Instructions: "
_LANES = np.arange(WARP)

for _name in ("ldmatrix.m8n16", "ldmatrix.b6x16_p32", "ldmatrix.b4x16_p64"):
    refuse(_name, "matrices of 6- and 4-bit elements (sm_100 and later) are not modelled")

#: row and column of each element of a register, low bits first, for the 32 lanes
Places = tuple[tuple[np.ndarray, np.ndarray], ...]


#: the ISA's order of modifiers, and the older one that assemblers take too (CUTLASS and TileLang write it)
_ORDERS = tuple(
    f"sync aligned {order} [space=shared|shared::cta] type=b16"
    for order in ("shape=m8n8 num=x1|x2|x4 [trans]", "num=x1|x2|x4 [trans] shape=m8n8")
)


@instruction("ldmatrix", *_ORDERS, source=_S + "ldmatrix")
def ldmatrix(d: Decode) -> Step:
    """Lanes 8i..8i+7 give the row addresses of matrix i; lane l receives elements 2(l%4), +1 of row l/4 (transposed: of column l/4)."""
    row, first, second = _LANES // 4, 2 * (_LANES % 4), 2 * (_LANES % 4) + 1
    return _load_matrices(d, 8, [((first, row), (second, row)) if d.has("trans") else ((row, first), (row, second))])


@instruction("ldmatrix", "sync aligned shape=m16n16 num=x1|x2 trans [space=shared|shared::cta] type=b8", source=_S + "ldmatrix")
def ldmatrix_bytes(d: Decode) -> Step:
    """Lanes 16i..16i+15 give the row addresses of matrix i; lane l receives rows 4(l%4).. +3 of columns l/4 and l/4 + 8."""
    halves = [tuple((4 * (_LANES % 4) + j, _LANES // 4 + column) for j in range(4)) for column in (0, 8)]
    return _load_matrices(d, 16, halves)


def _load_matrices(d: Decode, extent: int, fragments: Sequence[Places]) -> Step:
    """Square matrices of ``extent`` rows of 16 bytes; each gives one register for each of ``fragments``."""
    d.expect(2)
    count, per = int(d.mods["num"][1:]), len(fragments)
    require_vec(d, 0, count * per)
    targets, address, pc, memory = d.dsts(0), d.checked_address(1), d.pc, d.env.memory
    name, generic, providers = d.ins.mnemonic, not d.has("space"), extent * count

    def step(g: Group) -> None:
        require_warps(d, g)
        rows = np.broadcast_to(np.asarray(address(g.R)), (g.n,)).reshape(-1, WARP)[:, :providers].ravel()
        lanes = (np.arange(g.n // WARP)[:, None] * WARP + np.arange(providers)).ravel()
        if generic:
            rows = shared_offset(rows, name)
        ids, tags = memory.load_rows(g if providers == WARP else g.subset(lanes, ()), rows, pc)
        cells = ids.shape[1] // extent  # cells of an element
        if cells not in picks:
            picks[cells] = np.stack([_picked(fragments[i % per], i // per, extent, cells) for i in range(len(targets))])
        warps = g.n // WARP
        for r, value in zip(targets, memory.registers(ids.reshape(warps, -1), tags.reshape(warps, -1), picks[cells], name)):
            g.R[r] = value

    #: by the number of an element's cells
    picks: dict[int, np.ndarray] = {}
    return step


def _picked(places: Places, matrix: int, extent: int, cells: int) -> np.ndarray:
    """Which of a warp's cells the lanes get in a register: (cells of a register, lanes)."""
    return np.stack([((matrix * extent + row) * extent + column) * cells + c for row, column in places for c in range(cells)])


def shared_offset(addresses: np.ndarray, name: str) -> np.ndarray:
    """Generic addresses that must lie in shared memory, as offsets."""
    from ptx_engine.isa.move import SHARED_WINDOW, WINDOW_BYTES

    offsets = addresses.astype(np.int64) - SHARED_WINDOW
    if bool(((offsets < 0) | (offsets >= WINDOW_BYTES)).any()):
        raise NotStructuredError(f"{name} of an address outside of shared memory", feature=name)
    return offsets


@instruction("stmatrix", *_ORDERS, source=_S + "stmatrix")
def stmatrix(d: Decode) -> Step:
    """The inverse of ldmatrix: every lane stores its two elements of matrix i to the row (or, transposed, the two rows) they belong to."""
    if not d.has("trans"):
        return _store_matrices(d, 32, [(_LANES // 4, 4 * (_LANES % 4))])
    return _store_matrices(d, 16, [(2 * (_LANES % 4) + j, 2 * (_LANES // 4)) for j in range(2)])


@instruction("stmatrix", "sync aligned shape=m16n8 num=x1|x2|x4 trans [space=shared|shared::cta] type=b8", source=_S + "stmatrix")
def stmatrix_bytes(d: Decode) -> Step:
    """16x8 matrices by columns: bytes 0 and 1 of lane l are elements (l/4, 2(l%4)) and (l/4, 2(l%4)+1), bytes 2 and 3 those 8 rows on."""
    return _store_matrices(d, 8, [(2 * (_LANES % 4) + j % 2, _LANES // 4 + 8 * (j // 2)) for j in range(4)])


def _store_matrices(d: Decode, width: int, places: Sequence[tuple[np.ndarray, np.ndarray]]) -> Step:
    """Each register, cut into pieces of ``width`` bits, goes to the given rows (of 16 bytes) and bytes of its matrix."""
    d.expect(2)
    count = int(d.mods["num"][1:])
    require_vec(d, 1, count)
    sources, address, pc, memory, arena = d.srcs(1, 32), d.checked_address(0), d.pc, d.env.memory, d.arena
    space = "shared" if d.has("space") else ""

    def step(g: Group) -> None:
        require_warps(d, g)
        rows = np.broadcast_to(np.asarray(address(g.R)), (g.n,)).reshape(-1, WARP)
        if bool((rows[:, : 8 * count] & np.array(15, rows.dtype)).any()):
            raise NotStructuredError(f"{d.ins.mnemonic}: a row is not aligned to 16 bytes", feature="misaligned matrix row")
        for i, r in enumerate(sources):
            at = rows[:, 8 * i : 8 * i + 8]
            pieces = [g.R[r]] if width == 32 else unpack(arena, g.R[r], width, 32 // width)
            for piece, (row, byte) in zip(pieces, places):
                place = at[:, row] + byte.astype(at.dtype)
                memory.store(g, space, np.ascontiguousarray(place).ravel(), [piece], (width,), pc)

    return step


@instruction("movmatrix", "sync aligned shape=m8n8 trans type=b16", source=_S + "movmatrix")
def movmatrix(d: Decode) -> Step:
    """The transposed 8x8 matrix: lane l receives elements (2(l%4), l/4) and (2(l%4)+1, l/4)."""
    d.expect(2)
    dst, source, arena = d.dst(), d.src(1, 32), d.arena
    odd = (_LANES // 4) % 2 == 1

    def step(g: Group) -> None:
        require_warps(d, g)
        value = g.R[source]
        if value is None:
            raise uninitialised("source of movmatrix")
        low, high = unpack(arena, value, 16, 2)
        base = np.repeat(np.arange(0, g.n, WARP), WARP)
        upper = np.tile(odd, g.n // WARP)
        halves: list[Value] = []
        for j in range(2):
            lane = np.tile((2 * (_LANES % 4) + j) * 4 + _LANES // 8, g.n // WARP) + base
            halves.append(choose(arena, upper, take(high, lane), take(low, lane), 16))
        g.R[dst] = pack(halves, 16)

    return step
