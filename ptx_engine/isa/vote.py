"""Warp votes, matches, reductions and election, over the lanes of the member mask.

Source: PTX ISA 9.1, "Parallel Synchronization and Communication Instructions: vote.sync, match.sync, redux.sync, elect.sync".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptx_engine.errors import NotStructuredError, ParseError
from ptx_engine.isa.algebra import PLAIN
from ptx_engine.isa.bits import integer_term
from ptx_engine.isa.decode import Decode, Step
from ptx_engine.isa.group import WARP, Group
from ptx_engine.isa.registry import instruction
from ptx_engine.isa.shuffle import check_membership
from ptx_engine.isa.values import F32, INT, Sym, Value, int_fmt, take
from ptx_engine.isa.warp import Lanes, bits_of, concrete_column, members, squeeze
from ptx_engine.terms import Op

_S = "PTX ISA 9.1, Parallel Synchronization and Communication Instructions: "


@instruction("vote", "sync mode=all|any|uni type=pred", "sync mode=ballot type=b32", source=_S + "vote.sync")
def vote(d: Decode) -> Step:
    d.expect(3)
    dst, mask, env, pc, mode = d.dst(), d.src(2, 32), d.env, d.pc, d.mods["mode"]
    p, negated = d.predicate(1)

    def step(g: Group) -> None:
        check_membership(env, g, g.R[mask], pc, "vote.sync")
        lanes = Lanes(g)
        votes = concrete_column(g.R[p], g.n, f"vote.sync.{mode}", bool) ^ negated
        table, taking = lanes.table(votes, False), members(lanes, g.R[mask])
        yes = (table & taking).sum(axis=1)
        total = taking.sum(axis=1)
        if mode == "ballot":
            g.R[dst] = squeeze(lanes.spread(bits_of(table & taking)))
            return
        result = {"all": yes == total, "any": yes > 0, "uni": (yes == 0) | (yes == total)}[mode]
        g.R[dst] = squeeze(lanes.spread(result))

    return step


@instruction("match", "any sync type=b32|b64", "all sync type=b32|b64", source=_S + "match.sync")
def match(d: Decode) -> Step:
    d.expect(3)
    dst, p = d.pair()
    a, mask, env, pc = d.src(1), d.src(2, 32), d.env, d.pc
    every = "all" in d.ins.modifiers
    if p is not None and not every:
        raise ParseError(f"{d.ins.mnemonic} has no predicate result", span=d.ins.span)

    def step(g: Group) -> None:
        check_membership(env, g, g.R[mask], pc, "match.sync")
        lanes = Lanes(g)
        values = lanes.table(concrete_column(g.R[a], g.n, "match.sync", np.uint64), 0)
        taking = members(lanes, g.R[mask])
        equal = (values[:, :, None] == values[:, None, :]) & taking[:, None, :]
        if not every:
            g.R[dst] = squeeze(lanes.pick(bits_of(equal)))
            return
        same = (equal.sum(axis=2) == taking.sum(axis=1)[:, None]) | ~taking
        agreed = same.all(axis=1)
        g.R[dst] = squeeze(lanes.spread(np.where(agreed, bits_of(taking), np.uint32(0))))
        if p is not None:
            g.R[p] = squeeze(lanes.spread(agreed))

    return step


_REDUCE: dict[str, tuple[Callable[..., np.ndarray], int]] = {
    "add": (np.add.reduce, 0), "and": (np.bitwise_and.reduce, -1), "or": (np.bitwise_or.reduce, 0), "xor": (np.bitwise_xor.reduce, 0),
}  # fmt: skip


@instruction("redux", "sync op=add|min|max type=u32|s32", "sync op=and|or|xor type=b32", source=_S + "redux.sync")
def redux(d: Decode) -> Step:
    d.expect(3)
    dst, a, mask, env, pc, op, arena = d.dst(), d.src(1), d.src(2, 32), d.env, d.pc, d.mods["op"], d.arena
    signed = d.signed

    def step(g: Group) -> None:
        check_membership(env, g, g.R[mask], pc, "redux.sync")
        lanes = Lanes(g)
        taking = members(lanes, g.R[mask])
        value = g.R[a]
        if isinstance(value, Sym):
            g.R[dst] = _symbolic(g, lanes, taking, value)
            return
        column = concrete_column(value, g.n, "redux.sync", np.uint32)
        if op in _REDUCE:
            reduce, neutral = _REDUCE[op]
            table = np.where(taking, lanes.table(column, 0), np.uint32(neutral & 0xFFFFFFFF))
            g.R[dst] = squeeze(lanes.spread(reduce(table, axis=1).astype(np.uint32)))
            return
        table = lanes.table(column.view(INT[32]) if signed else column, 0)
        edge = np.iinfo(table.dtype).max if op == "min" else np.iinfo(table.dtype).min
        table = np.where(taking, table, table.dtype.type(edge))
        result = table.min(axis=1) if op == "min" else table.max(axis=1)
        g.R[dst] = squeeze(lanes.spread(result.view(np.uint32)))

    def _symbolic(g: Group, lanes: Lanes, taking: np.ndarray, value: Sym) -> Value:
        number = integer_term(arena, value, 32, signed)
        if number is None or op not in ("add", "min", "max") or not taking.all():
            raise NotStructuredError(f"redux.sync.{op} on symbolic data", feature=f"redux.sync.{op}")
        ids, lo, hi = number
        table = np.broadcast_to(np.asarray(ids, np.int32), (g.n,)).reshape(-1, WARP)
        result = arena.nary({"add": Op.NSUM, "min": Op.NMIN, "max": Op.NMAX}[op], table)
        low, high = (lo * WARP, hi * WARP) if op == "add" else (lo, hi)
        return Sym(((int_fmt(32, low, high), lanes.spread(result)),))

    return step


@instruction("redux", "sync op=min|max [abs] [NaN] type=f32", source=_S + "redux.sync (f32)")
def redux_float(d: Decode) -> Step:
    """min or max of f32 (optionally of magnitudes) over a whole warp, lane against lane five times."""
    d.expect(3)
    dst, a, mask, env, pc = d.dst(), d.src(1), d.src(2, 32), d.env, d.pc
    combine = d.algebra.apply(d.mods["op"] + (".NaN" if d.has("NaN") else ""), (F32,), PLAIN)
    magnitude = d.algebra.apply("abs", (F32,), PLAIN) if d.has("abs") else None

    def step(g: Group) -> None:
        check_membership(env, g, g.R[mask], pc, "redux.sync")
        if not g.whole_warps or not members(Lanes(g), g.R[mask]).all():
            raise NotStructuredError("redux.sync on part of a warp", feature="redux.sync on part of a warp")
        value = g.R[a]
        if magnitude is not None:
            value = magnitude(value)
        for distance in (16, 8, 4, 2, 1):
            value = combine(value, take(value, np.arange(g.n) ^ distance))
        g.R[dst] = value

    return step


@instruction("elect", "sync", source=_S + "elect.sync")
def elect(d: Decode) -> Step:
    """The elected lane is the lowest member (the ISA leaves the choice open but deterministic for a mask)."""
    d.expect(2)
    dst, p = d.pair()
    if p is None:
        raise ParseError(f"{d.ins.mnemonic} needs a predicate result", span=d.ins.span)
    mask, env, pc, arena = d.src(1, 32), d.env, d.pc, d.arena

    def step(g: Group) -> None:
        check_membership(env, g, g.R[mask], pc, "elect.sync")
        arena.assumptions.setdefault("elect.sync elects the lowest lane of the mask")
        lanes = Lanes(g)
        leader = members(lanes, g.R[mask]).argmax(axis=1)
        g.R[dst] = squeeze(lanes.spread(leader.astype(np.uint32)))
        if p is not None:
            g.R[p] = squeeze(lanes.lane == lanes.spread(leader))

    return step
