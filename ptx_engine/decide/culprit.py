"""Where two differing terms part: the smallest sub-terms of each side that the other side has not got.

A sub-term is a culprit if the other side computes no equal value, although it has all the parts that this one is made of.
Sums and maxima count with all their members at once, since sides may add in any order. Equality is judged by fingerprints:
a culprit points to a line of source for people, it decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ptx_engine.decide.fingerprint import Fingerprints
from ptx_engine.decide.levels import LEVELS, Plan, plan
from ptx_engine.terms.arena import CONST_CAP, Arena
from ptx_engine.terms.ops import TABLE, Op

_SUMS = frozenset((Op.ADD, Op.SUB, Op.NEG, Op.FMA, Op.DOT, Op.NSUM))
_FAMILIES = (_SUMS, frozenset((Op.MUL,)), frozenset((Op.MAX, Op.NMAX)), frozenset((Op.MIN, Op.NMIN)))
#: operands looked at on either side; beyond, the outputs themselves are named
_BUDGET = 400_000

Known = Callable[[int], bool]


class _TooLarge(Exception):
    """More operands than the budget allows."""


class World:
    """All values that the reference computes, for any output: what the candidate has in common with it, and where."""

    def __init__(self, arena: Arena, outputs: list[tuple[str, np.ndarray, np.ndarray]], candidates: np.ndarray) -> None:
        """``outputs``: tensor, storage indices, reference ids. ``candidates``: the ids that will be asked about."""
        roots = np.concatenate([ids for _, _, ids in outputs])
        self.arena, self.outputs = arena, outputs
        self.prints = Fingerprints(arena, np.concatenate((roots, candidates)))
        cone = plan(arena, roots)
        self._values = _values(self.prints, cone.ids[~_partial(cone) & (cone.need[cone.ids] != 0)], cone.need)

    def known(self) -> Known:
        """Whether a value is computed anywhere in the reference; partial sums do not count."""
        return _known(self.prints, self._values)

    def covers(self, ident: int) -> bool:
        """Whether an id can be asked about."""
        return bool(self.prints.plan.need[ident])

    def place_of(self, candidate: int) -> tuple[str, int] | None:
        """Tensor and storage index of the reference's output with a candidate's value."""
        value = self.prints.of(np.array([candidate]))
        for tensor, index, ids in self.outputs:
            same = np.flatnonzero((self.prints.of(ids) == value).all(axis=1))
            if len(same):
                return tensor, int(index[same[0]])
        return None


def culprits(arena: Arena, prints: Fingerprints, reference: int, candidate: int, world: World | None = None) -> tuple[int, int]:
    """One culprit of each side, from the same line of source if there is such a pair; the side itself where it has none.

    ``prints`` must cover both sides' sub-terms. With a ``world``, what the reference computes for other outputs is known too.
    """
    search = _Search(arena)
    try:
        theirs = _known_below(search, prints, candidate)
        mine = _known_below(search, prints, reference) if world is None else world.known()
        left, right = search.frontier(reference, theirs), search.frontier(candidate, mine)
    except _TooLarge:
        return reference, candidate
    by_line: dict[str, int] = {}
    for ident in left:
        by_line.setdefault(_line(arena, ident), ident)
    for ident in right:
        line = _line(arena, ident)
        if line and line in by_line:
            return by_line[line], ident
    return next(iter(left), reference), next(iter(right), candidate)


def parts(arena: Arena, ident: int) -> list[int]:
    """What a node is made of; all members of a sum (product, maximum). Nothing for inputs, constants and what is too large."""
    try:
        return _Search(arena).parts(ident, lambda _: False) if ident >= CONST_CAP else []
    except _TooLarge:
        return []


def _line(arena: Arena, ident: int) -> str:
    """``file:line`` of the user's source that emitted a node."""
    return str(getattr(arena.origin_of(ident), "user_loc", "")).rpartition(":")[0]


def _partial(cone: Plan) -> np.ndarray:
    """By position: which nodes are summed up (multiplied, compared) further by a node of their own family."""
    partial = np.zeros(cone.count, bool)
    family = np.zeros(len(Op), np.int8)
    for number, ops in enumerate(_FAMILIES, 1):
        family[list(ops)] = number
    for step in cone.steps:
        own = family[step.op]
        if own:
            operands = [step.c] if step.op in (Op.FMA, Op.DOT) else step.operand_ids()
            for inner in operands:
                if inner is not None:
                    flat = inner.ravel()
                    partial[flat[family[cone.codes[flat]] == own]] = True
    return partial


Values = set[tuple[int, "bytes | tuple[Any, ...]"]]


def _values(prints: Fingerprints, ids: np.ndarray, need: np.ndarray) -> Values:
    """Fingerprints of ids at the levels at which they are needed."""
    values: Values = set()
    for level in range(LEVELS):
        here = ids[(need[ids] >> level & 1) != 0]
        if len(here):
            rows = np.ascontiguousarray(prints.of(here, level))
            values.update((level, row) for row in rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel().tolist())
    return values


def _known(prints: Fingerprints, values: Values) -> Known:
    @cache
    def known(ident: int) -> bool:
        need = int(prints.plan.need[ident])
        levels = (level for level in range(LEVELS) if need >> level & 1)
        return any((level, prints.of(np.array([ident]), level)[0].tobytes()) in values for level in levels)

    return known


def _known_below(search: "_Search", prints: Fingerprints, root: int) -> Known:
    """Whether a value equals one that is computed below ``root``; partial sums in between do not count."""
    return _known(prints, _values(prints, np.array(search.below(root), np.int32), prints.plan.need))


class _Search:
    """Walks of both sides under one budget."""

    def __init__(self, arena: Arena) -> None:
        self.arena, self.left = arena, 2 * _BUDGET

    def frontier(self, root: int, known: Known) -> list[int]:
        """The unknown nodes below ``root`` whose parts are all known, or that use an unknown constant; first operands first."""
        found: list[int] = []
        seen: set[int] = set()
        stack = [root]
        while stack:
            ident = stack.pop()
            if ident in seen or ident < CONST_CAP or known(ident):
                continue
            seen.add(ident)
            unknown = [part for part in self.parts(ident, known) if not known(part)]
            deeper = [part for part in unknown if part >= CONST_CAP]
            if len(deeper) < len(unknown) or not unknown:
                found.append(ident)
            stack.extend(reversed(deeper))
        return found

    def below(self, root: int) -> list[int]:
        """The parts, and parts of parts, of a term."""
        seen: dict[int, None] = {}
        stack = [root]
        while stack:
            ident = stack.pop()
            if ident not in seen:
                seen[ident] = None
                if ident >= CONST_CAP:
                    stack.extend(self.parts(ident, lambda _: False))
        return list(seen)

    def parts(self, root: int, known: Known) -> list[int]:
        """What a node is made of; unknown nodes of its own family in between are gone through. Raises _TooLarge."""
        family = next((f for f in _FAMILIES if self.arena.node(root)[0] in f), frozenset())
        parts: dict[int, None] = {}
        seen: set[int] = set()
        stack = [root]
        while stack:
            ident = stack.pop()
            if ident in seen:
                continue
            seen.add(ident)
            self.left -= 1
            if self.left < 0:
                raise _TooLarge
            if ident == root or (ident >= CONST_CAP and self.arena.node(ident)[0] in family and not known(ident)):
                stack.extend(reversed(self._operands(ident)))
            else:
                parts[ident] = None
        return list(parts)

    def _operands(self, ident: int) -> list[int]:
        op, *abc = self.arena.node(ident)
        if op is Op.DOT:
            rows, cols, acc = self.arena.dot_operands(ident)
            return [*rows.tolist(), *cols.tolist(), acc]
        if TABLE[op].record:
            return [int(x) for x in self.arena.nary_operands(ident).tolist()]
        return abc[: TABLE[op].arity]
