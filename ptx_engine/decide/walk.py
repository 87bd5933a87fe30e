"""Templates: the formula that a column of outputs has in common, found by walking all of them at once.

The walk goes breadth first in waves: all columns of a wave are gathered, checked to have one operator down the column,
and their operand columns interned (see ``columns``). Where operators, constants or record lengths differ between
outputs, ``SplitClass`` carries labels by which the caller splits the class. Input columns become template variables, and
so do columns of many different finite constants (``generalised``; a failed proof over those is repeated split by value).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from ptx_engine.decide.budget import Meter
from ptx_engine.decide.columns import Columns, numbered
from ptx_engine.decide.dot_lists import DotLists
from ptx_engine.decide.term_view import TermView
from ptx_engine.terms.arena import CONST_CAP, NAN, NEG_INF, POS_INF, UNDEF, ZERO
from ptx_engine.terms.ops import TABLE, Op
from ptx_engine.terms.turns import TurnPlaces

#: template-only operator codes: a variable that stands for an input column, and one for a column of constants
INPUT, CONSTANTS = 250, 251
_GATHER = 1 << 22  # record operands gathered at once
_FEW_CONSTANTS = 4
_FEW_LABELS = 2  # rows of labels, or random sums in their place, that are combined one by one
_CHAINS = frozenset({Op.FMA, Op.ADD, Op.MAX, Op.MIN})
_CHAIN, _LONG = 64, 8  # links of a chain taken at once, and from how many on it is looked at as a loop's
_FEW_CHAINS, _MOST_CHAINS = 4, 40  # how many chains at a time are worth following, and how many long ones
_LOOP_IDS = 1 << 16  # ids of a loop's chain looked at together: they stay in the cache
_SPECIAL = (POS_INF, NEG_INF, NAN, UNDEF)
_NEUTRAL = {Op.NSUM: ZERO, Op.NMAX: NEG_INF, Op.NMIN: POS_INF}


class SplitClass(Exception):
    """The outputs do not share one formula; ``labels`` (outputs,) tells the parts apart."""

    def __init__(self, labels: np.ndarray) -> None:
        super().__init__("outputs of one class differ in form")
        self.labels = labels


@dataclass
class Template:
    """Nodes ``ops[i]`` with operand nodes ``args[i]`` (plain ints in plain slots; a constant's index for CONST; for DOT the
    accumulator, then pairs of factors). ``roots`` are the nodes of the root columns in the order given."""

    ops: list[int]
    args: list[tuple[int, ...]]
    roots: list[int]
    columns: Columns
    generalised: bool


class Walker:
    """Walks the columns of one class over an arena."""

    def __init__(self, arena: TermView, columns: Columns, meter: Meter, split_constants: bool, lists: Callable[[], DotLists]) -> None:
        self._arena = arena
        self._lists = lists
        self._op, self._a, self._b, self._c = arena.columns()
        self._columns = columns
        self._meter = meter
        self._split_constants = split_constants
        self._ops: list[int] = []
        self._args: list[tuple[int, ...]] = []
        self._labels: list[np.ndarray] = []
        self._generalised = False
        self._reach = _CHAIN  # links of a loop that are looked for at once

    def run(self, roots: np.ndarray) -> Template:
        """The template of root columns (R, outputs) of ids; raises ``SplitClass``."""
        part = 0 if self._columns.outputs == 1 else 1
        nodes = self._columns.resolve(part, np.ascontiguousarray(roots, np.int32))
        while self._columns.fresh:
            waves = self._columns.take()
            self._extend()
            for number, members, ids in waves:
                self._meter.spend(len(members))
                new = [i for i, node in enumerate(members.tolist()) if self._ops[node] == INPUT]
                if len(new) < len(members):  # the others were met in a chain
                    members, ids = members[new], ids[new]
                self._wave(number, members, ids)
            if self._labels:
                raise SplitClass(_combined(self._labels))
        self._extend()
        return Template(self._ops, self._args, nodes.tolist(), self._columns, self._generalised)

    def _extend(self) -> None:
        missing = len(self._columns) - len(self._ops)
        self._ops.extend([INPUT] * missing)
        self._args.extend([()] * missing)

    def _wave(self, part: int, nodes: np.ndarray, ids: np.ndarray) -> None:
        if not len(nodes):
            return
        leaf = ids[:, 0] < 0
        mixed = (ids.min(axis=1) < 0) & (ids.max(axis=1) >= 0)
        if mixed.any():
            leaf |= self._mixed(part, ids, mixed)
        if leaf.any():  # leaves are input columns throughout, or a difference
            for i in np.flatnonzero(leaf & mixed & ~self._may_vary(ids)).tolist():
                self._differ(part, self._forms(ids[i], np.where(ids[i] < 0, INPUT, self._op[np.maximum(ids[i], 0)])))
            inner = np.flatnonzero(~leaf)
            nodes, ids = nodes[inner], ids[inner]
            if not len(nodes):
                return
        plain = int(ids.min()) >= 0
        kind = self._op[ids] if plain else np.where(ids < 0, INPUT, self._op[np.maximum(ids, 0)])
        same = (kind == kind[:, :1]).all(axis=1)
        if not same.all():
            for i in np.flatnonzero(~same).tolist():
                self._differ(part, self._forms(ids[i], kind[i]))
            nodes, ids, kind = nodes[same], ids[same], kind[same]
        first = kind[:, 0].tolist()
        for code in sorted(set(first)):
            if len(set(first)) == 1:
                self._expand(code, part, nodes, ids)
            else:
                here = np.flatnonzero(kind[:, 0] == code)
                self._expand(code, part, nodes[here], ids[here])

    def _may_vary(self, ids: np.ndarray) -> np.ndarray:
        """Columns (C, blocks) of inputs and finite constants: a variable covers both, unless constants are told apart."""
        if self._split_constants:
            return np.zeros(len(ids), bool)
        plain = (ids < 0) | ((ids < CONST_CAP) & ~np.isin(ids, _SPECIAL))
        return np.asarray(plain.all(axis=1))

    def _mixed(self, part: int, ids: np.ndarray, mixed: np.ndarray) -> np.ndarray:
        """The columns of inputs and constants that become variables (masked-out probabilities are zero in some rows)."""
        varying: np.ndarray = mixed & self._may_vary(ids)
        self._generalised |= bool(varying.any())
        return varying

    def _differ(self, part: int, block_labels: np.ndarray) -> None:
        self._labels.append(block_labels[self._columns.partitions[part].inverse].astype(np.int64))

    def _forms(self, ids: np.ndarray, kind: np.ndarray) -> np.ndarray:
        """A label for each block of a column of several operators: its operator, and of how many links a chain is. Outputs of one form
        agree in both; without the second, sums of n lengths (rows of a causal mask) are split from each other one by one."""
        label = kind.astype(np.int64) * (_CHAIN + 1)
        for op in _CHAINS & set(kind.tolist()):
            here = np.flatnonzero(kind == op)
            follow, link = self._c if op == Op.FMA else self._a, ids[here]
            for _ in range(_CHAIN):
                label[here] += 1
                link = follow[link]
                on = (link >= CONST_CAP) & (self._op[link] == np.uint8(op))  # (a negative id reads any operator)
                here, link = here[on], link[on]
                if not len(here):
                    break
        return label

    def _expand(self, code: int, part: int, nodes: np.ndarray, ids: np.ndarray) -> None:
        op = Op(code)
        if op is Op.CONST:
            self._constants(part, nodes, ids)
        elif op is Op.DOT:
            self._dots(part, nodes, ids)
        elif TABLE[op].record:
            self._naries(op, part, nodes, ids)
        else:
            self._operators(op, part, nodes, ids)

    def _constants(self, part: int, nodes: np.ndarray, ids: np.ndarray) -> None:
        index = self._a[ids]
        for node, row in zip(nodes.tolist(), index):
            if part == 0:
                self._ops[node], self._args[node] = Op.CONST, (int(row[0]),)
                continue
            values = np.unique(row)
            special = any(self._arena.consts[v].special is not None or self._arena.consts[v].coef == 0 for v in values.tolist())
            if self._split_constants or special or len(values) <= _FEW_CONSTANTS:
                self._differ(part, row)
            else:
                self._ops[node] = CONSTANTS
                self._generalised = True

    def _unroll(self, op: Op, ids: np.ndarray) -> np.ndarray:
        """The columns met by following a chain of one operator through its accumulating operand, at most a block of them:
        a long chain of one column then costs a few steps a link instead of a wave."""
        follow = self._c if op is Op.FMA else self._a
        chain: list[np.ndarray] = []
        while len(chain) < _CHAIN:
            link = follow[ids]
            if int(link.min()) < CONST_CAP or not (self._op[link] == np.uint8(op)).all():
                break
            chain.append(link)
            chain.extend(self._strides(op, follow, link, ids - link)[: _CHAIN - len(chain)])
            ids = chain[-1]
        return np.stack(chain) if chain else np.zeros((0, len(ids)), np.int32)

    def _strides(self, op: Op, follow: np.ndarray, link: np.ndarray, step: np.ndarray) -> np.ndarray:
        """Links below one, as far as they lie at equal distances: a loop emits its sum at every turn."""
        most = min(_CHAIN - 1, int(((link - CONST_CAP) // step).min()))
        if most < 2:
            return np.zeros((0, len(link)), np.int32)
        guess = link - step * np.arange(1, most + 1, dtype=np.int32)[:, None]
        above = np.concatenate((link[None], guess[:-1]))
        wrong = ((follow[above] != guess) | (self._op[guess] != np.uint8(op))).any(axis=1)
        return guess[: int(wrong.argmax())] if wrong.any() else guess

    def _operators(self, op: Op, part: int, nodes: np.ndarray, ids: np.ndarray) -> None:
        row = TABLE[op]
        if op in _CHAINS and (len(nodes) <= _FEW_CHAINS or (len(nodes) <= _MOST_CHAINS and self._is_long(op, int(ids[0, 0])))):
            if part:
                apart = [i for i, node in enumerate(nodes.tolist()) if not self._loop(op, part, node, ids[i])]
                if not apart:
                    return
                nodes, ids = nodes[apart], ids[apart]
            nodes, ids = self._linked(part, nodes, ids, np.concatenate([self._unroll(op, row) for row in ids]))
        slots = {"b": self._b, "c": self._c}
        plain = [slots[name][ids] for name in row.plain]
        for values in plain:
            for i in np.flatnonzero(~(values == values[:, :1]).all(axis=1)).tolist():
                self._differ(part, values[i])
        operands = np.concatenate([column[ids] for column in (self._a, self._b, self._c)[: row.arity]])
        children = self._columns.resolve(part, operands).reshape(row.arity, -1).T
        rest = np.stack([values[:, 0] for values in plain], axis=1) if plain else np.zeros((len(nodes), 0), np.int64)
        for node, args in zip(nodes.tolist(), np.concatenate([children, rest], axis=1).tolist()):
            self._ops[node], self._args[node] = op, tuple(args)

    def _is_long(self, op: Op, ident: int) -> bool:
        """Whether a chain of one operator goes on for a while below a term."""
        follow, code = self._c if op is Op.FMA else self._a, int(op)
        for _ in range(_LONG):
            ident = int(follow[ident])
            if ident < CONST_CAP or self._op[ident] != code:
                return False
        return True

    def _loop(self, op: Op, part: int, node: int, ids: np.ndarray) -> bool:
        """Take a column with those that a loop left below it at equal distances, if there are such."""
        follow = self._c if op is Op.FMA else self._a
        if self._turns(op, part, node, ids):
            return True
        places = equidistant(self._op, follow, op, ids, min(self._reach, _LOOP_IDS // len(ids)))
        if places is None:
            return False
        count = len(places) - 1
        self._reach = max(_CHAIN, 2 * count)
        columns = self._columns
        links = columns.shifted(part, places[1].astype(np.int32), int(places[0, 0] - places[1, 0]), count).tolist()
        self._extend()
        last = columns.resolve(part, follow.take(places[-1:], mode="wrap"))
        fresh = [0, *(i for i, link in enumerate(links, 1) if self._ops[link] == INPUT)]
        self._meter.spend(len(fresh) - 1)
        chosen = places if len(fresh) == len(places) else places[fresh]
        factors = [
            columns.resolve(part, column.take(chosen, mode="wrap")) for column in ((self._a, self._b) if op is Op.FMA else (self._b,))
        ]
        self._extend()
        above, below = [node, *links], [*links, *last.tolist()]
        for i, operands in zip(fresh, np.stack(factors, axis=1).tolist()):
            self._ops[above[i]] = op
            self._args[above[i]] = (*operands, below[i]) if op is Op.FMA else (below[i], *operands)
        return True

    def _turns(self, op: Op, part: int, node: int, ids: np.ndarray) -> bool:
        """Take a column with those below it in loops' turns, if all they add are products of inputs: nothing of a turn need be looked at
        that is known from another one."""
        where = TurnPlaces.of(self._arena.turns, ids)
        chain = self._one_turn(op, where, ids) if where is not None else None
        if where is None or chain is None:
            return False
        slots, count, length = (0, 1) if op is Op.FMA else (1,), where.turn - 1, len(chain)
        factors: list[tuple[int, np.ndarray, int]] = []
        for slot in slots:
            for link in chain:
                top, steps = (self._a, self._b)[slot][link], where.steps(slot, link)
                step, high = int(steps[0]), int(top.max())
                if (steps != step).any() or max(high, high - (count - 1) * step) >= 0:
                    return False  # (nodes are met in waves, as other columns of them are)
                factors.append((slot, top, step))
        columns = self._columns
        nodes = np.empty(length * count + 1, np.int64)
        nodes[0] = node
        for i, link in enumerate([*chain[1:], ids - np.int32(where.width)], 1):
            nodes[i : length * count : length] = columns.shifted(part, link, where.width, count - (i == length))
        last = ids - np.int32(count * where.width)
        nodes[-1:] = columns.resolve(part, last[None])
        self._extend()
        operands = np.empty((len(slots), length * count), np.int64)
        for i, (slot, top, step) in enumerate(factors):
            operands[slot - slots[0], i % length :: length] = columns.moved(part, top, step, count)
        self._extend()
        fresh = [0, *(i for i in range(1, length * count) if self._ops[nodes[i]] == INPUT)]
        self._meter.spend(len(fresh) - 1)
        above, below = nodes.tolist(), nodes[1:].tolist()
        for i, mine in zip(fresh, operands[:, fresh].T.tolist()):
            self._ops[above[i]] = op
            self._args[above[i]] = (*mine, below[i]) if op is Op.FMA else (below[i], *mine)
        return True

    def _one_turn(self, op: Op, where: TurnPlaces, ids: np.ndarray) -> list[np.ndarray] | None:
        """The columns of a chain from one down to the same one a turn before, that one left out, if it goes on so in every turn but the
        first: places are the same in all turns, and operands move by steps."""
        slot = 2 if op is Op.FMA else 0
        follow, chain = (self._a, self._b, self._c)[slot], [ids]
        while len(chain) <= _CHAIN:
            link = follow[chain[-1]]
            if (where.steps(slot, chain[-1]) != where.width).any() or (link < where.first).any() or (self._op[link] != np.uint8(op)).any():
                return None
            if (link == ids - np.int32(where.width)).all():
                return chain
            chain.append(link)
        return None

    def _linked(self, part: int, nodes: np.ndarray, ids: np.ndarray, chain: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Columns together with those of a chain below them that have not been met."""
        if not len(chain):
            return nodes, ids
        links = self._columns.resolve(part, chain)
        self._extend()
        seen = set(nodes.tolist())
        fresh = [i for i, node in enumerate(links.tolist()) if self._ops[node] == INPUT and not (node in seen or seen.add(node))]  # type: ignore[func-returns-value]
        return np.concatenate([nodes, links[fresh]]), np.concatenate([ids, chain[fresh]])

    # --- records --------------------------------------------------------------------------------

    def _naries(self, op: Op, part: int, nodes: np.ndarray, ids: np.ndarray) -> None:
        record = self._a[ids]
        for node, row, which in zip(nodes.tolist(), ids, record):
            self._meter.spend(1)
            if (which == which[0]).all():
                entry = self._arena.naries[int(which[0])]
                operands = entry.operands[row - entry.first]
            else:
                operands = self._mixed_nary(row, which, _NEUTRAL[op])
            operands = self._drop_neutral(part, operands, operands == _NEUTRAL[op])
            if operands is not None:
                self._ops[node], self._args[node] = op, tuple(self._resolve_each(part, operands).tolist())

    def _resolve_each(self, part: int, operands: np.ndarray) -> np.ndarray:
        """Nodes of the K columns of operands (blocks, K)."""
        return self._columns.resolve(part, np.ascontiguousarray(operands.T))

    def _mixed_nary(self, ids: np.ndarray, which: np.ndarray, neutral: int) -> np.ndarray:
        entries = {w: self._arena.naries[w] for w in np.unique(which).tolist()}
        width = max(e.operands.shape[1] for e in entries.values())
        result = np.full((len(ids), width), neutral, np.int32)
        for w, entry in entries.items():
            here = np.flatnonzero(which == w)
            result[here, : entry.operands.shape[1]] = entry.operands[ids[here] - entry.first]
        return result

    def _drop_neutral(self, part: int, operands: np.ndarray, neutral: np.ndarray) -> np.ndarray | None:
        """Operands (blocks, K) without the neutral ones; None (and a split) where their number differs between blocks."""
        if not neutral.any():
            return operands
        counts = (~neutral).sum(axis=1)
        if (counts != counts[0]).any():
            self._differ(part, counts)
            return None
        keep = np.argsort(neutral, axis=1, kind="stable")[:, : counts[0]]
        return np.take_along_axis(operands, keep, axis=1)

    def _dots(self, part: int, nodes: np.ndarray, ids: np.ndarray) -> None:
        """Columns (C, blocks) of products: their lists by number, the operands of each distinct one once."""
        lists = self._lists()
        if len(nodes) <= _FEW_CHAINS:
            nodes, ids = self._linked(part, nodes, ids, np.concatenate([self._unroll_dots(lists, row) for row in ids]))
        record = self._a[ids]
        accumulators, rows, cols = lists.operands(record, ids)
        depth = lists.depth[record]
        zero = lists.has_zero[rows] | lists.has_zero[cols]
        plain = (depth == depth[:, :1]).all(axis=1) & ~zero.any(axis=1)
        acc = self._columns.resolve(part, accumulators)
        self._meter.spend(len(nodes))
        for size in np.unique(depth[plain, 0]).tolist():
            here = np.flatnonzero(plain & (depth[:, 0] == size))
            pairs = np.stack([self._list_nodes(part, lists, side[here], size) for side in (rows, cols)], axis=2)
            for node, a, factors in zip(nodes[here].tolist(), acc[here].tolist(), pairs.reshape(len(here), -1).tolist()):
                self._ops[node], self._args[node] = Op.DOT, (a, *factors)
        for i in np.flatnonzero(~plain).tolist():
            sides = (lists.lists(side[i], int(depth[i].max())) for side in (rows, cols))
            self._store_dot(part, int(nodes[i]), int(acc[i]), *sides)

    def _unroll_dots(self, lists: DotLists, ids: np.ndarray) -> np.ndarray:
        """The columns met by following a chain of products through its accumulators."""
        chain: list[np.ndarray] = []
        while len(chain) < _CHAIN:
            ids = lists.accumulators(self._a[ids], ids)
            if int(ids.min()) < CONST_CAP or not (self._op[ids] == np.uint8(Op.DOT)).all():
                break
            chain.append(ids)
        return np.stack(chain) if chain else np.zeros((0, len(ids)), np.int32)

    def _list_nodes(self, part: int, lists: DotLists, numbers: np.ndarray, depth: int) -> np.ndarray:
        """Nodes (C, K) of operands by the numbers (C, blocks) of their lists; equal columns of numbers once."""
        keys = numbers @ self._columns.partitions[part].weights
        _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        inverse = inverse.reshape(-1)
        if not (numbers == numbers[first][inverse]).all():
            first = inverse = np.arange(len(numbers))
        result = np.empty((len(first), depth), np.int64)
        for number, places, chosen in self._columns.coarsened(part, numbers[first]):
            step = max(1, _GATHER // (chosen.shape[1] * depth))
            for start in range(0, len(places), step):
                some = chosen[start : start + step]
                operands = lists.lists(some.reshape(-1), depth).reshape(*some.shape, depth).transpose(0, 2, 1)
                resolved = self._columns.resolve(number, np.ascontiguousarray(operands).reshape(-1, some.shape[1]))
                result[places[start : start + step]] = resolved.reshape(-1, depth)
        return result[inverse]

    def _store_dot(self, part: int, node: int, acc: int, rows: np.ndarray, cols: np.ndarray) -> None:
        """One DOT column with operands (blocks, K), products with a zero factor dropped."""
        zero = (rows == ZERO) | (cols == ZERO)
        if not self._split_constants:
            everywhere = zero.all(axis=0)
            zero = np.broadcast_to(everywhere, zero.shape)
        left, right = self._drop_neutral(part, rows, zero), self._drop_neutral(part, cols, zero)
        if left is None or right is None:
            return
        pairs = np.stack([self._resolve_each(part, left), self._resolve_each(part, right)], axis=1)
        self._ops[node], self._args[node] = Op.DOT, (acc, *pairs.reshape(-1).tolist())


def _combined(labels: list[np.ndarray]) -> np.ndarray:
    """One label per output that tells apart what any of some labels tells apart.

    Random sums stand for the rows of labels: should two of them meet, their outputs stay together and are split later.
    """
    if len(labels) > _FEW_LABELS:
        weights = np.random.default_rng(0x5EED).integers(-(2**63), 2**63, (_FEW_LABELS, len(labels)), dtype=np.int64)
        table = np.stack(labels)
        labels = [row for row in (w @ table for w in weights) if (row != row[0]).any()] or labels
    result = np.zeros(len(labels[0]), np.int64)
    for row in labels:
        first, number = numbered(row)
        _, result = numbered(result * len(first) + number)
    return result


def postorder(count: int, roots: Iterable[int], operands: Callable[[int], Iterable[int]]) -> list[int]:
    """The nodes below roots, of ``count``, every operand before all its users."""
    order: list[int] = []
    state = bytearray(count)  # 1: entered, 2: in the order
    stack = list(roots)
    while stack:
        node = stack[-1]
        if state[node]:
            stack.pop()
            if state[node] == 1:
                state[node] = 2
                order.append(node)
            continue
        state[node] = 1
        stack.extend([child for child in operands(node) if not state[child]])
    return order


def equidistant(code: np.ndarray, follow: np.ndarray, op: Op, ids: np.ndarray, most: int) -> np.ndarray | None:
    """A column and those below it by ``follow`` that are of one operator and lie one distance apart, ``most`` of them: ids (n + 1,
    outputs). Every link is looked at; None where there are fewer than two."""
    link = follow[ids]
    low, step = int(link.min()), int(ids[0]) - int(link[0])
    most = min(most, 1 + (low - CONST_CAP) // max(1, step))
    if low < CONST_CAP or step < 1 or most < 2 or not (ids - link == step).all():
        return None
    steps = -step * np.arange(most + 1)
    places = ids + steps[:, None]
    down = follow.take(places[:-1], mode="wrap")
    down -= link
    right = (down == steps[:-1, None].astype(np.int32)).all(axis=1) & (code.take(places[1:], mode="wrap") == np.uint8(op)).all(axis=1)
    count = most if right.all() else int(right.argmin())
    return places[: count + 1] if count > 1 else None
