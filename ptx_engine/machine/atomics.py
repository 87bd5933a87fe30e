"""Atomic updates of memory: lanes that hit one address go one after another; others go together.

Operands of an associative operation whose old value nobody reads are joined pairwise first, so that a thousand lanes
adding to one counter take ten steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from ptx_engine.isa.atomic import AtomicOp
from ptx_engine.isa.group import Group
from ptx_engine.isa.values import Sym, Value, join, take
from ptx_engine.machine.order_port import NoOrder
from ptx_engine.order.records import AtomicKind, MemoryOrder, Observation, Scope, Space

if TYPE_CHECKING:
    from ptx_engine.machine.memory import Memory


def ranks(keys: np.ndarray) -> np.ndarray:
    """For each position, how many earlier positions hold the same key."""
    order = np.argsort(keys, kind="stable")
    sorted_keys = keys[order]
    starts = np.flatnonzero(np.concatenate((np.ones(1, bool), sorted_keys[1:] != sorted_keys[:-1])))
    run = np.repeat(starts, np.diff(np.append(starts, len(keys))))
    result = np.empty(len(keys), np.int64)
    result[order] = np.arange(len(keys)) - run
    return result


@contextmanager
def muted(memory: Memory) -> Iterator[None]:
    """The loads and stores inside are steps of one atomic: no order events of their own."""
    order, memory.order = memory.order, NoOrder()
    try:
        yield
    finally:
        memory.order = order


def apply(memory: Memory, g: Group, space: str, address: np.ndarray, op: AtomicOp, operands: list[Value], instruction: int) -> Value:
    """Update memory at concrete in-space addresses; the old value of each lane (of the first lane of an address where joined)."""
    keys = address.astype(np.int64)
    if space == "shared":
        keys = keys + np.asarray(g.slots, np.int64) * (1 << 40)
    wants, before, changed = op.wants(), memory.writes, False
    _tell(memory, g, space, address, op, wants, instruction)
    with muted(memory):
        if not wants and op.merge is not None and len(operands) == 1:
            g, address, keys, operands = _joined(memory, g, address, keys, op, operands)
        rank = ranks(keys)
        pieces: list[Value] = []
        places: list[np.ndarray] = []
        for r in range(int(rank.max()) + 1):
            where = np.flatnonzero(rank == r)
            whole = len(where) == g.n
            part = g if whole else g.subset(where, ())
            at = address if whole else address[where]
            args = operands if whole else [take(v, where) for v in operands]
            old = memory.load(part, space, at, (op.width,), instruction)[0]
            new = op.update(old, args)
            memory.store(part, space, at, [new], (op.width,), instruction)
            changed = changed or isinstance(old, Sym) or isinstance(new, Sym) or not np.array_equal(np.asarray(old), np.asarray(new))
            pieces.append(old)
            places.append(where)
    memory.writes = before + changed  # a compare-and-swap that fails is no progress for those who wait
    if not wants:
        return 0
    if len(pieces) == 1:
        return pieces[0]
    return join(memory.arena, pieces, [len(p) for p in places], np.argsort(np.concatenate(places)), op.width)


def _tell(memory: Memory, g: Group, space: str, address: np.ndarray, op: AtomicOp, wants: bool, instruction: int) -> None:
    memory.log.atomic_spaces.setdefault(instruction, set()).add(space)
    if wants and instruction not in memory.polled:
        memory.log.schedule_dependent(f"{op.name} returns a value that depends on the schedule", instruction)
    if wants:
        memory.last_looks.note(g.threads, space, address.astype(np.int64))
    start = perf_counter()
    memory.order.atomic(
        Space.SHARED if space == "shared" else Space.GLOBAL, instruction, g.threads, address.astype(np.int64), op.width // 8,
        Scope(op.scope), MemoryOrder(op.sem), AtomicKind.RMW if wants else AtomicKind.REDUCE,
        Observation.DECIDES if op.decides() else Observation.IGNORED,
    )  # fmt: skip
    memory.order_seconds += perf_counter() - start


def _joined(
    memory: Memory, g: Group, address: np.ndarray, keys: np.ndarray, op: AtomicOp, operands: list[Value]
) -> tuple[Group, np.ndarray, np.ndarray, list[Value]]:
    """One lane per address, with the operands of its lanes joined pairwise."""
    assert op.merge is not None
    value = operands[0]
    while True:
        rank = ranks(keys)
        if int(rank.max()) == 0:
            return g, address, keys, [value]
        order = np.lexsort((rank, keys))  # lanes of one address side by side, in rank order
        first = order[rank[order] % 2 == 0]
        follows = np.zeros(g.n, np.int64) - 1
        follows[order[:-1]] = np.where(keys[order[1:]] == keys[order[:-1]], order[1:], -1)
        paired = follows[first] >= 0
        left, right = first[paired], follows[first[paired]]
        merged = op.merge(take(value, left), take(value, right))
        alone = first[~paired]
        keep = np.concatenate((left, alone))
        back = np.argsort(keep)
        value = (
            join(memory.arena, [merged, take(value, alone)], [len(left), len(alone)], back, op.width) if len(alone) else take(merged, back)
        )
        keep = keep[back]
        g, address, keys = g.subset(keep, ()), address[keep], keys[keep]
