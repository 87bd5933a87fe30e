"""Matrices between shared memory and registers: ldmatrix, stmatrix, movmatrix.

Source: PTX ISA 9.1, "Warp Level Matrix Multiply-Accumulate Instructions: ldmatrix, stmatrix, movmatrix".
"""

from __future__ import annotations

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

for _opcode, _shape in (("ldmatrix", "m16n16"), ("ldmatrix", "m8n16"), ("stmatrix", "m16n8")):
    refuse(f"{_opcode}.{_shape}", f".{_shape} moves of 8-bit and narrower elements are of sm_100 and later")


@instruction("ldmatrix", "sync aligned shape=m8n8 num=x1|x2|x4 [trans] [space=shared|shared::cta] type=b16", source=_S + "ldmatrix")
def ldmatrix(d: Decode) -> Step:
    """Lanes 8i..8i+7 give the row addresses of matrix i; lane l receives elements 2(l%4), +1 of row l/4 (transposed: of column l/4)."""
    d.expect(2)
    count = int(d.mods["num"][1:])
    require_vec(d, 0, count)
    targets, address, pc, memory = d.dsts(0), d.address(1), d.pc, d.env.memory
    name, generic = d.ins.mnemonic, not d.has("space")
    row, first, second = _LANES // 4, 2 * (_LANES % 4), 2 * (_LANES % 4) + 1
    places = ((first, row), (second, row)) if d.has("trans") else ((row, first), (row, second))

    def step(g: Group) -> None:
        require_warps(d, g)
        where = np.broadcast_to(np.asarray(address(g.R)), (g.n,)).reshape(-1, WARP)[:, : 8 * count]
        lanes = (np.arange(g.n // WARP)[:, None] * WARP + np.arange(8 * count)).ravel()
        rows = where.ravel()
        if generic:
            rows = shared_offset(rows, name)
        ids, tags = memory.load_rows(g if 8 * count == WARP else g.subset(lanes, ()), rows, pc)
        cells = ids.shape[1] // 8  # cells of a 16-bit element
        ids, tags = (x.reshape(-1, count, 8, 8, cells) for x in (ids, tags))
        for i, r in enumerate(targets):
            columns = [(ids[:, i, p, q, c].ravel(), tags[:, i, p, q, c].ravel()) for p, q in places for c in range(cells)]
            g.R[r] = memory.assemble(columns, name)

    return step


def shared_offset(addresses: np.ndarray, name: str) -> np.ndarray:
    """Generic addresses that must lie in shared memory, as offsets."""
    from ptx_engine.isa.move import SHARED_WINDOW, WINDOW_BYTES

    offsets = addresses.astype(np.int64) - SHARED_WINDOW
    if bool(((offsets < 0) | (offsets >= WINDOW_BYTES)).any()):
        raise NotStructuredError(f"{name} of an address outside of shared memory", feature=name)
    return offsets


@instruction("stmatrix", "sync aligned shape=m8n8 num=x1|x2|x4 [trans] [space=shared|shared::cta] type=b16", source=_S + "stmatrix")
def stmatrix(d: Decode) -> Step:
    """The inverse of ldmatrix: every lane stores its two elements of matrix i to the row (or, transposed, the two rows) they belong to."""
    d.expect(2)
    count, trans = int(d.mods["num"][1:]), d.has("trans")
    require_vec(d, 1, count)
    sources, address, pc, memory, arena = d.srcs(1, 32), d.address(0), d.pc, d.env.memory, d.arena
    space = "shared" if d.has("space") else ""

    def step(g: Group) -> None:
        require_warps(d, g)
        rows = np.broadcast_to(np.asarray(address(g.R)), (g.n,)).reshape(-1, WARP)
        if bool((rows[:, : 8 * count] & np.array(15, rows.dtype)).any()):
            raise NotStructuredError(f"{d.ins.mnemonic}: a row is not aligned to 16 bytes", feature="misaligned matrix row")
        for i, r in enumerate(sources):
            at = rows[:, 8 * i : 8 * i + 8]
            if not trans:
                place = at[:, _LANES // 4] + (4 * (_LANES % 4)).astype(at.dtype)
                memory.store(g, space, np.ascontiguousarray(place).ravel(), [g.R[r]], (32,), pc)
                continue
            for j, half in enumerate(unpack(arena, g.R[r], 16, 2)):
                place = at[:, 2 * (_LANES % 4) + j] + (2 * (_LANES // 4)).astype(at.dtype)
                memory.store(g, space, np.ascontiguousarray(place).ravel(), [half], (16,), pc)

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
