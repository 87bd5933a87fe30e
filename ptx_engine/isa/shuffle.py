"""Warp-level exchange: shfl.sync, bar.warp.sync, activemask, elect.

Lanes exchange register values; shfl gives no memory order. A lane that reads from an inactive lane or one outside its mask gets an
undefined value. Lanes wait until all of their mask have come (``LanesMissing``: the machine lets the others run first).
Source: PTX ISA 9.1, "shfl.sync", "bar.warp.sync", "activemask".
"""

from __future__ import annotations

import numpy as np

from ptx_engine.errors import NotStructuredError
from ptx_engine.isa.decode import Decode, Environment, Step
from ptx_engine.isa.group import WARP, Group
from ptx_engine.isa.registry import instruction
from ptx_engine.isa.values import PARTLY, Sym, Value, choose, is_partial, take, uninitialised
from ptx_engine.isa.warp import LanesMissing, Meeting, absent_lanes, lane_bits

_S = "PTX ISA 9.1, Data Movement and Conversion Instructions: shfl.sync"


def uniform(value: Value, what: str) -> int:
    """A value that must be the same in all threads of the group."""
    if isinstance(value, (int, bool)):
        return int(value)
    if isinstance(value, np.ndarray) and value.size and (value == value[0]).all():
        return int(value[0])
    if value is None:
        raise uninitialised()
    raise NotStructuredError(f"{what} differs between threads", feature=what)


def check_membership(
    env: Environment, g: Group, mask: Value, pc: int, what: str, meeting: Meeting = Meeting.INSTRUCTION
) -> np.ndarray | None:
    """Wait for the lanes of the mask: raises LanesMissing while some of them have neither come nor exited.

    An executing lane that is not in its mask is a finding (the ISA: undefined behaviour). Each lane's mask; None where it is all of a
    complete warp.
    """
    if isinstance(mask, Sym) or mask is None:
        raise NotStructuredError(f"{what}: symbolic member mask", feature=what)
    if isinstance(mask, int) and mask == 0xFFFFFFFF and g.whole_warps:
        if env.order.exchanging and meeting is Meeting.INSTRUCTION:
            env.order.exchange(pc, g.threads, g.lane_and_warp()[1])
        return None
    lane, warp = g.lane_and_warp()
    members = np.broadcast_to(np.asarray(mask, np.uint32), lane.shape)
    absent = absent_lanes(lane, warp, members, env.lanes_gone())
    if absent.any():
        raise LanesMissing(what, g.threads, members, absent, meeting)
    outside = members & lane_bits(lane) == 0
    if outside.any():
        env.finding("barrier misuse", f"{what}: an executing lane is not in the member mask", g, np.flatnonzero(outside), pc)
    if env.order.exchanging and meeting is Meeting.INSTRUCTION:
        env.order.exchange(pc, g.threads, warp.astype(np.int64) << 32 | members)
    return members


def source_lanes(mode: str, lane: np.ndarray, b: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The lane each lane reads from, and whether it is in range (the ISA's pseudo code); out of range reads itself."""
    b, c = b.astype(np.int64) & 31, c.astype(np.int64)
    clamp, segment = c & 31, c >> 8 & 31
    lowest = lane & segment
    highest = lowest | (clamp & ~segment)
    if mode == "up":
        j = lane - b
        valid = j >= highest
    elif mode == "down":
        j = lane + b
        valid = j <= highest
    elif mode == "bfly":
        j = lane ^ b
        valid = j <= highest
    else:
        j = lowest | (b & ~segment)
        valid = j <= highest
    return np.where(valid, j, lane), valid


@instruction("shfl", "sync mode=up|down|bfly|idx type=b32", source=_S)
def shfl(d: Decode) -> Step:
    d.expect(5)
    dst, p = d.pair()
    a, b, c, mask = d.src(1), d.src(2, 32), d.src(3, 32), d.src(4, 32)
    mode, env, pc, arena = d.mods["mode"], d.env, d.pc, d.arena
    cache: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}

    def step(g: Group) -> None:
        R = g.R
        value, offset, limits = R[a], R[b], R[c]
        if value is None or offset is None or limits is None:
            raise uninitialised(f"{'source' if value is None else 'lane or clamp'} of shfl")
        if is_partial(offset) or is_partial(limits):
            raise uninitialised(PARTLY)
        if isinstance(offset, Sym) or isinstance(limits, Sym):
            raise NotStructuredError("shfl with a symbolic lane or clamp", feature="shfl")
        members = check_membership(env, g, R[mask], pc, "shfl.sync")
        if members is None and isinstance(offset, int) and isinstance(limits, int):
            key = (offset, limits)
            if key not in cache:
                lanes = np.arange(WARP, dtype=np.int64)
                cache[key] = source_lanes(mode, lanes, np.full(WARP, offset), np.full(WARP, limits))
                env.exchanged(pc, cache[key][0], lanes)
            source, valid = cache[key]
            R[dst] = _permute_warps(value, source)
            if p is not None:
                R[p] = bool(valid.all()) if valid.all() == valid.any() else np.tile(valid, g.n // WARP)
            return
        _general(g, members, value, offset, limits)

    def _general(g: Group, members: np.ndarray | None, value: Value, offset: Value, limits: Value) -> None:
        lane, warp = g.lane_and_warp()
        source, valid = source_lanes(mode, lane.astype(np.int64), *(np.broadcast_to(np.asarray(v), lane.shape) for v in (offset, limits)))
        env.exchanged(pc, source, lane)
        table = np.full((int(warp.max()) + 1, WARP), -1, np.int64)
        table[warp, lane] = np.arange(g.n)
        where = table[warp, source]
        missing = where < 0
        if members is not None:
            missing |= members & lane_bits(source) == 0
        moved = take(value, np.where(missing, np.arange(g.n), where))
        if missing.any():
            said = "shfl.sync reads from a lane that is not there or not in the member mask"
            env.finding("undefined value", said, g, np.flatnonzero(missing), pc)
            moved = choose(arena, ~missing, moved, None, 32)
        g.R[dst] = moved
        if p is not None:
            g.R[p] = valid

    return step


def _permute_warps(value: Value, source: np.ndarray) -> Value:
    """Within every whole warp, lane i takes the value of lane source[i]."""
    if isinstance(value, np.ndarray):
        return value.reshape(-1, WARP)[:, source].ravel()
    if isinstance(value, Sym):
        return Sym(tuple((f, ids if isinstance(ids, int) else ids.reshape(-1, WARP)[:, source].ravel()) for f, ids in value.parts))
    return value


@instruction("bar", "warp sync", source="PTX ISA 9.1, Parallel Synchronization and Communication Instructions: bar.warp.sync")
def bar_warp_sync(d: Decode) -> Step:
    """A barrier of the lanes of each mask: lanes of one warp with different masks do not meet."""
    d.expect(1)
    mask, env, pc, order = d.src(0, 32), d.env, d.pc, d.env.order

    def step(g: Group) -> None:
        members = check_membership(env, g, g.R[mask], pc, "bar.warp.sync", Meeting.ANYWHERE)
        if members is None:
            order.warp_barrier(pc, g.threads)
            return
        for one in np.unique(members):
            order.warp_barrier(pc, g.threads[members == one])

    return step


@instruction("activemask", "type=b32", source="PTX ISA 9.1, activemask")
def activemask(d: Decode) -> Step:
    """Which lanes happen to run together: the ISA promises nothing about it, so that nothing is proved by what comes of it."""
    d.expect(1)
    dst, env, pc = d.dst(), d.env, d.pc

    def step(g: Group) -> None:
        if env.is_read(dst):
            env.schedule_dependent("activemask returns a value that depends on the schedule", pc)
        if g.whole_warps:
            g.R[dst] = 0xFFFFFFFF
            return
        lane, warp = g.lane_and_warp()
        present = np.zeros(int(warp.max()) + 1, np.uint32)
        np.bitwise_or.at(present, warp, lane_bits(lane))
        g.R[dst] = present[warp]

    return step


@instruction("membar", "level=cta|gl|sys", source="PTX ISA 9.1, membar")
@instruction("fence", "[sem=sc|acq_rel] level=cta|gpu|sys|cluster", source="PTX ISA 9.1, fence")
def fence(d: Decode) -> Step:
    d.expect(0)
    scope = {"gl": "gpu"}.get(d.mods["level"], d.mods["level"])
    total = d.mods.get("sem", "sc") == "sc"  # membar is fence.sc
    order, pc = d.env.order, d.pc
    return lambda g: order.fence(pc, g.threads, scope, total)
