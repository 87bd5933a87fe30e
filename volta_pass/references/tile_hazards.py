"""Iterations of a parallel loop that depend on each other: such a loop has no one meaning, so it is refused.

A nest of parallel loops runs statement by statement over all of its lanes at once. That is what any other order of its
iterations gives only if no lane touches an element that another lane writes. Buffers that are both read and written are
watched, except where every access has the same index and that index tells the lanes apart.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from ptx_engine.errors import UnsupportedError
from volta_pass.references.tile_program import Alloc, Bind, Expr, For, If, Operand, Region, Stmt, Store, TileOp, TileProgram, While

NOBODY, SEVERAL = -1, -2


@dataclass
class Nest:
    """One nest of parallel loops: its axes ``first`` to ``last`` (exclusive) among a scope's lanes, and the storages it watches.

    ``readers`` and ``writers``: per storage, the lane that touched each element.
    """

    first: int
    last: int
    watched: frozenset[int]
    readers: dict[int, np.ndarray] = field(default_factory=dict)
    writers: dict[int, np.ndarray] = field(default_factory=dict)

    def lane_numbers(self, lanes: tuple[int, ...]) -> np.ndarray:
        """The lane of this nest at each lane of a scope: shape (1, *lanes), 1 along other axes."""
        own = lanes[self.first : self.last]
        shape = (1,) * (self.first + 1) + own + (1,) * (len(lanes) - self.last)
        return np.arange(int(np.prod(own)), dtype=np.int32).reshape(shape)

    def note(self, storage: int, size: int, where: tuple[np.ndarray, ...], lane: np.ndarray, write: bool, name: str) -> None:
        """Lanes touch elements. ``where``: flat columns (storage index,) or (program, storage index), ``lane`` beside them.

        Raises UnsupportedError on a dependence.
        """
        shape = (size,) if len(where) == 1 else (int(where[0].max(initial=0)) + 1, size)
        for table in (self.readers, self.writers):
            table[storage] = _grown(table.get(storage), shape)
        writers, readers = self.writers[storage], self.readers[storage]
        foreign = (writers[where] != NOBODY) & (writers[where] != lane)
        if write:
            foreign |= (readers[where] != NOBODY) & (readers[where] != lane)
            writers[where] = lane
            foreign |= writers[where] != lane
        else:
            known = readers[where]
            readers[where] = np.where((known == NOBODY) | (known == lane), lane, SEVERAL)
            shared = readers[where] != lane
            readers[tuple(part[shared] for part in where)] = SEVERAL
        if foreign.any():
            raise UnsupportedError(
                f"iterations of a parallel loop depend on each other through {name}: one touches an element that another writes",
                feature="parallel loop", hint="split the loop, or use a reduction or an atomic update",
            )  # fmt: skip


def _grown(table: np.ndarray | None, shape: tuple[int, ...]) -> np.ndarray:
    if table is not None and table.shape[0] >= shape[0]:
        return table
    grown = np.full(shape, NOBODY, np.int32)
    if table is not None:
        grown[: table.shape[0]] = table
    return grown


def watch(program: TileProgram, loop: For) -> frozenset[int]:
    """Storages that a nest may carry a dependence through."""
    variables = set(perfect_nest(loop))
    loads: dict[int, set[tuple[Expr, ...]]] = defaultdict(set)
    stores: dict[int, set[tuple[Expr, ...]]] = defaultdict(set)
    for kind, buffer, index in accesses((loop,)):
        (stores if kind == "store" else loads)[program.buffers[buffer].storage].add(index)
    return frozenset(s for s in loads.keys() & stores.keys() if not _own_elements(loads[s] | stores[s], variables))


def perfect_nest(loop: For) -> list[int]:
    """Variables of a perfect nest of parallel loops, outermost first."""
    found = [loop.var]
    while len(loop.body) == 1 and isinstance(loop.body[0], For) and loop.body[0].kind == "parallel":
        loop = loop.body[0]
        found.append(loop.var)
    return found


def _own_elements(indices: set[tuple[Expr, ...]], variables: set[int]) -> bool:
    """Whether all accesses have one index, in which every loop variable stands alone or with a constant offset."""
    if len(indices) != 1:
        return False
    alone: set[int] = set()
    for part in next(iter(indices)):
        mentioned = {e.data for e in subexpressions(part) if e.op == "var"} & variables
        if len(mentioned) == 1 and _is_offset(part, variables):
            alone |= mentioned
    return alone == variables


def _is_offset(part: Expr, variables: set[int]) -> bool:
    """``v``, or ``v + e`` where ``e`` does not vary in the nest."""
    if part.op == "var":
        return True
    if part.op != "add":
        return False
    moving = [a for a in part.args if isinstance(a, Expr) and any(e.op == "var" and e.data in variables for e in subexpressions(a))]
    steady = [a for a in part.args if isinstance(a, Expr) and all(e.op in ("var", "const", "add", "mul") for e in subexpressions(a))]
    return len(moving) == 1 and moving[0].op == "var" and len(steady) == 2


def subexpressions(top: Operand) -> Iterator[Expr]:
    """An expression and all below it, those in regions included."""
    stack: list[Operand] = [top]
    while stack:
        node = stack.pop()
        if isinstance(node, Region):
            stack.extend((*node.start, *node.extent))
        elif isinstance(node, Expr):
            yield node
            stack.extend(node.args)


def regions(top: Operand) -> Iterator[Region]:
    """The regions and pointers in an operand."""
    stack: list[Operand] = [top]
    while stack:
        node = stack.pop()
        if isinstance(node, Region):
            yield node
        elif isinstance(node, Expr):
            stack.extend(node.args)


def accesses(block: Sequence[Stmt]) -> Iterator[tuple[str, int, tuple[Expr, ...]]]:
    """("load" or "store", buffer, index) of every access to an element in a block."""
    stack = list(block)
    while stack:
        stmt = stack.pop()
        operands: tuple[Operand, ...] = ()
        if isinstance(stmt, For):
            operands = (stmt.start, stmt.extent)
            stack.extend(stmt.body)
        elif isinstance(stmt, While):
            operands = (stmt.condition,)
            stack.extend(stmt.body)
        elif isinstance(stmt, If):
            operands = (stmt.condition,)
            stack.extend((*stmt.then, *stmt.orelse))
        elif isinstance(stmt, Bind):
            operands = (stmt.value,)
        elif isinstance(stmt, Store):
            yield "store", stmt.buffer, stmt.index
            operands = (*stmt.index, stmt.value)
        elif isinstance(stmt, TileOp):
            operands = stmt.args
        else:
            assert isinstance(stmt, Alloc)
        yield from _loads(operands)


def _loads(operands: Sequence[Operand]) -> Iterator[tuple[str, int, tuple[Expr, ...]]]:
    for operand in operands:
        for region in regions(operand):  # (an index of its own, so that the buffer is watched)
            yield "load", region.buffer, (*region.start, *region.extent)
        for e in subexpressions(operand):
            if e.op == "load":
                yield "load", int(e.data), tuple(a for a in e.args if isinstance(a, Expr))
