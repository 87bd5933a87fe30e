"""Cut points: inner terms of both sides that are equal, proved once as columns and then taken as variables.

Where both sides pass through the same intermediate values (scores, running maxima, probabilities), the proof of an output
need not see what is below them. Candidates are found by a shape hash; each is an obligation, proved from the cuts strictly
below it, so that all of them together hold by induction over the order of terms. An obligation that fails takes its cut
away, and the rest is proved again. Nothing rests on the hash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ptx_engine.decide.dot_lists import DotLists
from ptx_engine.decide.shape_hash import ShapeHash
from ptx_engine.decide.turn_tables import TurnTable
from ptx_engine.decide.twins import ID_SLOT, find_twins
from ptx_engine.terms.arena import CONST_CAP, Arena, Input, NaryRecord
from ptx_engine.terms.constants import Const
from ptx_engine.terms.ops import TABLE, Op
from ptx_engine.terms.turns import Turns, spans_of

#: arenas with fewer terms are proved whole
SMALL = 4096
#: so few cuts are not worth a proof of their own: a row's mean is seen through
_FEW = 8
#: nodes looked at together
_CHUNK = 1 << 17
#: inputs up to which they have places in the table of images
_WRAPPED = 1 << 23


class _Mapped:
    """Wide reductions with their operands mapped, made on first use."""

    def __init__(self, records: Sequence[NaryRecord], mapped: Callable[[NaryRecord], NaryRecord]) -> None:
        self._records = records
        self._mapped = mapped
        self._cache: dict[int, NaryRecord] = {}

    def __getitem__(self, index: int) -> NaryRecord:
        found = self._cache.get(index)
        if found is None:
            found = self._cache[index] = self._mapped(self._records[index])
        return found


class CutView:
    """An arena as the walker sees it: operands are mapped, to equal terms or to input-like leaves (ids beyond all inputs)."""

    def __init__(self, arena: Arena, image: np.ndarray, partial: bool) -> None:
        self.arena, self.image = arena, image
        #: whether a leaf may stand for a term that is undefined somewhere
        self.partial = partial
        #: the greatest id of a leaf
        self.end = end_of_inputs(arena)
        #: none: operands that are mapped do not move by steps
        self.turns: list[Turns] = []
        self.consts: list[Const] = arena.consts
        self.inputs: list[Input] = arena.inputs
        op, a, b, c = arena.columns()
        self._table = self._with_inputs()
        present = np.flatnonzero(np.bincount(op, minlength=256))
        # slots that hold plain numbers: those of records and constants are taken for constants, which map to themselves
        plain = [bool(_PLAIN[slot][present].any()) for slot in range(3)]
        plain[0] = plain[0] and max(len(arena.dots), len(arena.naries), len(arena.consts)) > CONST_CAP
        a, b, c = (self._mapped_slot(op, column, slot, plain[slot]) for slot, column in enumerate((a, b, c)))
        self._columns = (op, a, b, c)
        self.naries = _Mapped(arena.naries, self._mapped_nary)
        self._lists: DotLists | None = None

    def columns(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Operator codes and mapped operands."""
        return self._columns

    def node(self, ident: int) -> tuple[Op, int, int, int]:
        """A node of the arena itself."""
        return self.arena.node(ident)

    def _with_inputs(self) -> np.ndarray | None:
        """The image with inputs, which map to themselves, at its end, where negative ids find them."""
        inputs = sum(entry.count for entry in self.inputs)
        leaves = -1 - int(self.image.min()) - inputs if len(self.image) else 0
        beyond = inputs + max(0, leaves)
        return np.concatenate((self.image, np.arange(-beyond, 0, dtype=np.int32))) if beyond <= _WRAPPED else None

    def _map(self, ids: np.ndarray) -> np.ndarray:
        """Ids as they are mapped; inputs and constants are themselves."""
        if self._table is not None:
            return np.asarray(self._table[ids])
        return np.where(ids >= 0, self.image[np.maximum(ids, 0)], ids)

    def _mapped_slot(self, op: np.ndarray, column: np.ndarray, slot: int, masked: bool) -> np.ndarray:
        return np.where(ID_SLOT[slot][op], self._map(column), column) if masked else self._map(column)

    def _mapped_nary(self, record: NaryRecord) -> NaryRecord:
        return NaryRecord(record.first, self._map(record.operands))

    def dot_lists(self) -> DotLists:
        """The mapped operand lists of all products, made on first use."""
        if self._lists is None:
            self._lists = DotLists(self.arena.dots, self._map)
        return self._lists


_PLAIN = np.zeros((3, 256), bool)
for _op, _row in TABLE.items():
    for _slot, _name in enumerate("abc"):
        _PLAIN[_slot, _op] = _name in _row.plain

#: never cut: canonical forms see through products and differences at no cost, and compilers contract them into their users
_TRANSPARENT = np.zeros(256, bool)
_TRANSPARENT[[Op.CONST, Op.MUL, Op.SUB, Op.NEG]] = True


_RING = np.zeros(256, bool)
_RING[[Op.ADD, Op.SUB, Op.NEG, Op.MUL, Op.FMA]] = True

_UNDEFINED_SOMEWHERE = np.zeros(256, bool)
_UNDEFINED_SOMEWHERE[[Op.DIV, Op.SQRT, Op.LOG2, Op.POW, Op.FLOORDIV, Op.TRUNCDIV, Op.TRUNCREM, Op.OPAQUE]] = True


@dataclass
class Cuts:
    """``group[i]`` numbers the cut that ``members[i]`` belongs to; ``representative[g]`` is the term the others are proved
    equal to. Members are ascending ids, one of each set of twins; ``twin`` maps every id to the first of its twins."""

    members: np.ndarray
    group: np.ndarray
    representative: np.ndarray
    twin: np.ndarray

    def obligations(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Pairs of ids to be proved equal (representative, member), and the group of each.

        A member that comes out as the leaf of its own group is proved too: the leaf stands for members below it.
        """
        partner = self.representative[self.group]
        open_ = partner != self.members
        return partner[open_], self.members[open_], self.group[open_]

    def twin_of(self, ids: np.ndarray) -> np.ndarray:
        """Ids by their first twins."""
        return np.where(ids >= 0, self.twin[np.maximum(ids, 0)], ids)

    def without(self, groups: np.ndarray) -> "Cuts":
        """The cuts that are left when some groups are taken away."""
        keep = ~np.isin(self.group, groups)
        return Cuts(self.members[keep], self.group[keep], self.representative, self.twin)

    def leaves(self, arena: Arena, group: np.ndarray) -> np.ndarray:
        """The leaf ids of groups: input-like ids beyond all inputs."""
        return (end_of_inputs(arena) - group.astype(np.int64)).astype(np.int32)

    def view(self, arena: Arena) -> CutView:
        """The arena with twins as one term and these cuts as leaves."""
        image = np.arange(len(arena), dtype=np.int32)
        image[self.members] = self.leaves(arena, self.group)
        below = arena.columns()[0][CONST_CAP : int(self.representative.max()) + 1] if len(self.representative) else np.zeros(0, np.uint8)
        return CutView(arena, image[self.twin], bool(_UNDEFINED_SOMEWHERE[below].any()))


def end_of_inputs(arena: Arena) -> int:
    """The greatest id beyond those of all inputs."""
    return -1 - max((entry.base + entry.count for entry in arena.inputs), default=0)


def find_cuts(arena: Arena, reference: np.ndarray, candidate: np.ndarray) -> Cuts | None:
    """Cut candidates of two sides whose terms were emitted one side after the other; None where that is not so or none are."""
    low, high = (reference, candidate) if int(reference.max()) < int(candidate.max()) else (candidate, reference)
    boundary = int(low.max())
    inner = high[high >= CONST_CAP]
    if boundary < CONST_CAP or not inner.size or int(inner.min()) <= boundary or len(arena) - CONST_CAP < SMALL:
        return None
    if _is_forest(arena):
        return None
    uses = _uses(arena, np.concatenate([low[low >= CONST_CAP], inner]))
    if int(uses[CONST_CAP:].max()) < 2:  # elementwise: nothing is shared
        return None
    values = ShapeHash(arena).values
    # what was emitted between the two (a side compared before) stands below neither: a term that it shares with one of them only would
    # be a leaf there and a formula in the other
    start = max(boundary + 1, arena.side_of(int(inner.min())))
    twin = find_twins(arena, values, boundary, start)
    ids = _candidates(arena, uses, twin)
    ids = ids[(ids <= boundary) | (ids >= start)]
    paired = np.flatnonzero(twin != np.arange(len(twin), dtype=np.int32))
    np.add.at(uses, twin[paired], uses[paired])
    uses, keys = uses[ids], values[ids]
    likely = _worth_sorting(keys, ids <= boundary, uses)
    ids, keys, uses = ids[likely], keys[likely], uses[likely]
    if not ids.size:
        return None
    order = np.argsort(keys)
    ids, keys, uses = ids[order], keys[order], uses[order]
    starts = np.flatnonzero(np.concatenate((np.ones(1, bool), keys[1:] != keys[:-1])))
    group = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(keys))))
    first, last = np.minimum.reduceat(ids, starts), np.maximum.reduceat(ids, starts)
    # a term that each side computes once and uses once is no cut: proving it apart saves nothing
    both = (first <= boundary) & (last > boundary) & (np.add.reduceat(uses, starts) > 2)
    chosen = both[group]
    if int(both.sum()) < _FEW:
        return None
    # numbered in the order of emission, as rows of a tensor are: templates of rows that are alike then have variables in one order
    representative = np.sort(first[both])
    members, renumbered = ids[chosen], np.searchsorted(representative, first)[group[chosen]]
    order = np.argsort(members)
    return Cuts(members[order], renumbered[order], representative, twin)


def _is_forest(arena: Arena) -> bool:
    """Whether all is sums and products with no more uses than terms (long chains of multiply-adds, products of inputs): told without
    counting each."""
    op, *columns = arena.columns()
    emissions = np.frombuffer(arena.emissions, np.intc)
    pieces = (
        op[emissions[start : start + _CHUNK]] for start in range(0, len(emissions), _CHUNK)
    )  # (most are none, and soon seen not to be)
    if arena.naries or not all((_RING[codes] | (codes == np.uint8(Op.DOT))).all() for codes in pieces):
        return False
    if any(int(side.max(initial=-1)) >= CONST_CAP for record in arena.dots for side in (record.rows, record.cols)):
        return False  # (accumulators are used once, unless a product is added to twice)
    spans = [slice(start, stop) for start, stop in _between(arena, len(op))]
    used = sum(int(np.count_nonzero(column[span] >= CONST_CAP)) for span in spans for column in columns)  # (a slot without operand holds 0)
    used += sum(_used_in_turns(turns, columns) for turns in arena.turns)
    used += sum(int(np.count_nonzero(record.acc >= CONST_CAP)) for record in arena.dots)
    return used <= len(op) - CONST_CAP


def _used_in_turns(turns: Turns, columns: Sequence[np.ndarray]) -> int:
    """How many operands of a loop's nodes are nodes: of the second turn as many as of each one after it, as they move together or not
    at all."""
    first_and_second = [int(np.count_nonzero(turns.table(column)[:2] >= CONST_CAP, axis=1) @ [1, turns.turns - 1]) for column in columns]
    return sum(first_and_second)


def _candidates(arena: Arena, uses: np.ndarray, twin: np.ndarray) -> np.ndarray:
    """What may be cut: no products and differences, of twins the first, no sums on the way to a longer sum of products."""
    op, *_ = arena.columns()
    cut = ~_TRANSPARENT[op]
    cut[:CONST_CAP] = False
    cut &= twin == np.arange(len(twin), dtype=np.int32)
    for record in arena.dots:
        inner = record.acc.reshape(-1)
        if inner[0] >= CONST_CAP and op[inner[0]] == Op.DOT:
            cut[inner[(inner >= CONST_CAP) & (uses[inner] < 2)]] = False
    return np.flatnonzero(cut).astype(np.int32)


def _worth_sorting(keys: np.ndarray, low: np.ndarray, uses: np.ndarray) -> np.ndarray:
    """Positions of keys that may be those of cuts, by some of their bits: both sides have them, and not each once and used once. Sorting
    those alone is what saves."""
    bits = min(22, len(keys).bit_length() + 1)
    short = (keys >> np.uint64(64 - bits)).astype(np.int32)
    sides = [np.flatnonzero(low), np.flatnonzero(~low)]
    if len(sides[0]) > len(sides[1]):
        sides.reverse()
    found = [short[side] for side in sides]
    for mine, other in ((0, 1), (1, 0)):  # what the smaller side has not got is out first
        held = np.zeros(1 << bits, bool)
        held[found[mine]] = True
        both = np.flatnonzero(held[found[other]])
        sides[other], found[other] = sides[other][both], found[other][both]
    more = np.zeros(1 << bits, bool)
    for side, bits_of in zip(sides, found):
        more[bits_of[uses[side] > 1]] = True
        ordered = np.sort(keys[side])  # (whole keys: of their bits many are alike by chance)
        twice = ordered[1:][ordered[1:] == ordered[:-1]]
        more[(twice >> np.uint64(64 - bits)).astype(np.int32)] = True
    return np.concatenate([side[more[bits_of]] for side, bits_of in zip(sides, found)])


def _uses(arena: Arena, outputs: np.ndarray) -> np.ndarray:
    """How often each term is an operand (capped for products of matrices, whose operands are used by a row of results)."""
    op, *columns = arena.columns()
    uses = np.zeros(len(op), np.int32)
    for start, stop in _between(arena, len(op)):
        for slot, column in enumerate(columns):
            span = slice(start, stop)
            _count(uses, column[span][ID_SLOT[slot][op[span]]], 1)
    for turns in arena.turns:
        _count_turns(uses, TurnTable(turns, op, *columns))
    _count(uses, outputs, 1)
    if arena.naries:
        _count(uses, np.concatenate([nary.operands.ravel() for nary in arena.naries]), 1)
    if arena.dots:
        _count(uses, np.concatenate([record.rows.ravel() for record in arena.dots]), 2)
        _count(uses, np.concatenate([record.cols.ravel() for record in arena.dots]), 2)
        _count_accumulators(uses, arena)
    _pass_down(uses, op, columns)
    return uses


def _between(arena: Arena, end: int) -> Iterator[tuple[int, int]]:
    """What was not emitted in turns, in pieces."""
    for first, stop in spans_of(arena.turns, CONST_CAP, end):
        yield from ((begin, min(begin + _CHUNK, stop)) for begin in range(first, stop, _CHUNK))


def _count_turns(uses: np.ndarray, table: TurnTable) -> None:
    """Uses by the nodes of a loop's turns: of places of the same turn or the one before it, and of what was there before the loop."""
    turns = table.turns
    mine = turns.table(uses)
    every, but_last = np.zeros(turns.width, np.int32), np.zeros(turns.width, np.int32)
    for slot, operands in enumerate(table.operands):
        used = ID_SLOT[slot][table.ops]
        for counts, places in ((every, table.same[slot]), (but_last, table.before[slot])):
            np.add.at(counts, places[used & (places >= 0)], 1)
        _count(uses, operands[0, used & (table.same[slot] < 0)], 1)
        outer = np.flatnonzero(used & (table.same[slot] < 0) & (table.before[slot] < 0))
        nodes = outer[operands[1, outer] >= CONST_CAP]
        _count(uses, operands[1:, nodes], 1)
    mine += every + but_last
    mine[-1] -= but_last


def _count(uses: np.ndarray, ids: np.ndarray, times: int) -> None:
    inner = ids[ids >= CONST_CAP]
    if inner.size:
        low = int(inner.min())
        counts = np.bincount(inner - np.int32(low))
        uses[low : low + len(counts)] += counts.astype(np.int32) * np.int32(times)


def _count_accumulators(uses: np.ndarray, arena: Arena) -> None:
    """Accumulators of products that are used themselves: a product of zeros is emitted, and its accumulator used instead."""
    acc = np.concatenate([record.acc.ravel() for record in arena.dots])
    nodes = np.concatenate([np.arange(record.first, record.first + record.acc.size) for record in arena.dots])
    inner = acc >= CONST_CAP
    acc, nodes = acc[inner], nodes[inner]
    _count(uses, acc, 1)
    while True:
        dead = uses[nodes] == 0
        if not dead.any():
            return
        np.subtract.at(uses, acc[dead], 1)
        acc, nodes = acc[~dead], nodes[~dead]


def _pass_down(uses: np.ndarray, op: np.ndarray, columns: list[np.ndarray]) -> None:
    """Operands of a product or difference that is used twice are used twice by what is seen through it."""
    through = np.flatnonzero(_TRANSPARENT[op] & (op != np.uint8(Op.CONST)) & (uses > 1))
    for slot, column in enumerate(columns):
        nodes = through[ID_SLOT[slot][op[through]]]
        operands = column[nodes]
        inner = operands >= CONST_CAP
        np.add.at(uses, operands[inner], uses[nodes[inner]] - 1)
