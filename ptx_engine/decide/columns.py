"""Columns of term ids, one row per output of a class, memoised by content.

A column that takes one value per block of a coarser partition of the outputs (a row or a column of a tile, or a single
value) is stored once per block. The key of a column is a random multilinear hash over all outputs, which does not
depend on the partition it is stored under; a hit is always confirmed by comparing the ids themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

_SAMPLE = 192  # outputs looked at before a column is sorted in search of a coarser partition
_MIN_SIZE = 64  # below this, partitions are not worth looking for
_MAX_PARTITIONS = 24
_PROBES = 12  # pairs of outputs compared before a whole column is
_CHUNK = 1 << 22  # ids handled at once


@dataclass(frozen=True, slots=True)
class Partition:
    """Blocks of outputs: ``inverse[output] = block``, ``first[block] = output``, weights of the hash summed per block."""

    size: int
    inverse: np.ndarray
    first: np.ndarray
    weights: np.ndarray


class Coarser(NamedTuple):
    """A partition coarser than another: its number, the block to pick for each of its blocks, its block for each block of
    the other, and a few pairs of blocks that must agree."""

    number: int
    select: np.ndarray
    back: np.ndarray
    left: np.ndarray
    right: np.ndarray


class HashCollision(Exception):
    """Two different columns share a hash: the walk is repeated under another seed."""


class Columns:
    """All columns of one class of ``outputs`` outputs. Partition 0 is the single block, 1 the discrete one (if larger)."""

    def __init__(self, outputs: int, seed: int = 0) -> None:
        self.outputs = outputs
        rng = np.random.default_rng([0x7E13, outputs, seed])
        weights = rng.integers(-(2**63), 2**63, outputs, dtype=np.int64) | 1
        zero = np.zeros(outputs, np.intp)
        self._weights = weights
        self.partitions = [Partition(1, zero, zero[:1], weights.sum(keepdims=True))]
        if outputs > 1:
            everything = np.arange(outputs)
            self.partitions.append(Partition(outputs, everything, everything, weights))
        self._coarser: dict[int, list[Coarser]] = {}
        self._sample = np.sort(rng.choice(outputs, min(_SAMPLE, outputs), replace=False))
        self._samples: dict[int, np.ndarray] = {}
        self._by_id: dict[int, int] = {}  # uniform columns: id -> node
        self._by_hash: dict[int, int] = {}
        self._part_of: list[int] = []
        self._row_of: list[int] = []
        #: what is added to a stored row: columns that a loop leaves at equal distances share one
        self._shift_of: list[int] = []
        self._stores = [np.zeros((16, p.size), np.int32) for p in self.partitions]
        self._filled = [0] * len(self.partitions)
        #: per partition, nodes interned and not yet taken
        self.fresh: dict[int, list[int]] = {}

    def __len__(self) -> int:
        return len(self._part_of)

    def take(self) -> list[tuple[int, np.ndarray, np.ndarray]]:
        """All fresh columns as (partition, nodes (C,), ids (C, blocks))."""
        waves = []
        for part, nodes in self.fresh.items():
            rows = [self._row_of[n] for n in nodes]
            first, last = rows[0], rows[-1]
            dense = last - first + 1 == len(rows)  # a view, unless rows of the partition were taken before
            waves.append((part, np.array(nodes, np.int64), self._stores[part][first : last + 1] if dense else self._stores[part][rows]))
        self.fresh = {}
        return waves

    def blocks(self, node: int) -> np.ndarray:
        """The distinct-block ids of a node's column."""
        column: np.ndarray = self._stores[self._part_of[node]][self._row_of[node]]
        return column + np.int32(self._shift_of[node]) if self._shift_of[node] else column

    def part_of(self, node: int) -> int:
        """The partition of a node's column."""
        return self._part_of[node]

    def id_at(self, node: int, output: int) -> int:
        """The id that a node's column has at one output."""
        part = self.partitions[self._part_of[node]]
        return int(self._stores[self._part_of[node]][self._row_of[node], part.inverse[output]]) + self._shift_of[node]

    def resolve(self, part: int, ids: np.ndarray) -> np.ndarray:
        """Nodes (C,) of columns ids (C, blocks of ``part``), interning what is new."""
        if part == 0:
            return self._resolve_uniform(ids[:, 0])
        step = max(1, _CHUNK // ids.shape[1])
        if len(ids) > step:
            return np.concatenate([self.resolve(part, ids[i : i + step]) for i in range(0, len(ids), step)])
        result = np.empty(len(ids), np.int64)
        maybe = np.flatnonzero(ids[:, 0] == ids[:, -1])  # cheap to look at first: most columns are not uniform
        uniform = maybe[(ids[maybe] == ids[maybe, :1]).all(axis=1)] if len(maybe) else maybe
        places = np.arange(len(ids))
        if len(uniform):
            result[uniform] = self._resolve_uniform(ids[uniform, 0])
            if len(uniform) == len(ids):
                return result
            places = np.delete(places, uniform)
            ids = ids[places]
        self._resolve_varied(part, ids, places, result)
        return result

    def _resolve_varied(self, part: int, ids: np.ndarray, places: np.ndarray, result: np.ndarray) -> None:
        for number, rows, chosen in self._coarsened(part, ids):
            result[places[rows]] = self._intern(number, chosen)

    def coarsened(self, part: int, table: np.ndarray) -> list[tuple[int, np.ndarray, np.ndarray]]:
        """Columns (C, blocks of ``part``) of any integers over coarser partitions where they allow it: (partition, rows, columns)."""
        uniform = (table == table[:, :1]).all(axis=1)
        parts = [(0, np.flatnonzero(uniform), table[uniform, :1])] if uniform.any() else []
        rest = np.flatnonzero(~uniform)
        if part and len(rest):
            parts += [(number, rest[rows], chosen) for number, rows, chosen in self._coarsened(part, table[rest])]
        return parts

    def _coarsened(self, part: int, ids: np.ndarray) -> list[tuple[int, np.ndarray, np.ndarray]]:
        """The same for columns that are not uniform."""
        found: list[tuple[int, np.ndarray, np.ndarray]] = []
        places = np.arange(len(ids))
        while len(ids):
            for coarse in self._coarser_than(part):
                maybe = np.flatnonzero((ids[:, coarse.left] == ids[:, coarse.right]).all(axis=1))
                if not len(maybe):
                    continue
                rows = ids[maybe] if len(maybe) < len(ids) else ids
                chosen = rows.take(coarse.select, axis=1)
                fits = (chosen.take(coarse.back, axis=1, mode="wrap") == rows).all(axis=1)  # (an index would make it column by column)
                if fits.any():
                    gone = maybe[fits]
                    found.append((coarse.number, places[gone], chosen[fits]))
                    if len(gone) == len(ids):
                        return found
                    ids, places = np.delete(ids, gone, axis=0), np.delete(places, gone)
            if not self._discover(part, ids):
                break
        found.append((part, places, ids))
        return found

    def _resolve_uniform(self, ids: np.ndarray) -> np.ndarray:
        table = self._by_id
        found = [table.get(i, -1) for i in ids.tolist()]
        result = np.array(found, np.int64)
        missing = np.flatnonzero(result < 0)
        if len(missing):
            values, inverse = np.unique(ids[missing], return_inverse=True)
            first = len(self)
            nodes = np.arange(first, first + len(values))
            table.update(zip(values.tolist(), range(first, first + len(values))))
            self._append(0, values[:, None])
            result[missing] = nodes[inverse]
        return result

    def _append(self, part: int, ids: np.ndarray) -> None:
        """Store new columns; their nodes are numbered from ``len(self)`` on."""
        first, row, count = len(self), self._store(part, ids), len(ids)
        self._part_of.extend([part] * count)
        self._row_of.extend(range(row, row + count))
        self._shift_of.extend([0] * count)
        self.fresh.setdefault(part, []).extend(range(first, first + count))

    def _store(self, part: int, ids: np.ndarray) -> int:
        """The first of the rows that columns are now stored in."""
        row, count = self._filled[part], len(ids)
        store = self._stores[part]
        if row + count > len(store):
            grown = np.empty((max(row + count, 2 * len(store)), store.shape[1]), np.int32)
            grown[:row] = store[:row]
            self._stores[part] = store = grown
        store[row : row + count] = ids
        self._filled[part] = row + count
        return row

    def shifted(self, part: int, base: np.ndarray, step: int, count: int) -> np.ndarray:
        """Nodes (count,) of the columns ``base - k * step``, base (blocks of ``part``) not uniform; not fresh: the caller takes them.

        The hash is linear, so that theirs follow from that of the first one; only that one is stored.
        """
        weights = self.partitions[part].weights
        steps = step * np.arange(count)
        keys = ((base.astype(np.int64) @ weights) - steps * weights.sum(keepdims=True)).tolist()
        nodes = [self._by_hash.get(key, -1) for key in keys]
        known = [k for k, node in enumerate(nodes) if node >= 0]
        if known:
            self._confirm(part, base - steps[known, None].astype(np.int32), np.array([nodes[k] for k in known]))
        new = [k for k, node in enumerate(nodes) if node < 0]
        if new:
            first, row = len(self), self._store(part, base[None])
            self._part_of.extend([part] * len(new))
            self._row_of.extend([row] * len(new))
            self._shift_of.extend((-steps[new]).tolist())
            for node, k in enumerate(new, first):
                nodes[k] = self._by_hash[keys[k]] = node
        return np.array(nodes, np.int64)

    def moved(self, part: int, base: np.ndarray, step: int, count: int) -> np.ndarray:
        """Nodes (count,) of the columns ``base - k * step`` of inputs, base (blocks of ``part``)."""
        if not step:  # one column, and one node: its elements are what a sum's terms have in common
            return np.repeat(self.resolve(part, base[None]), count)
        if (base == base[0]).all():
            return self._resolve_uniform(base[0] - step * np.arange(count))
        ((number, _, chosen),) = self._coarsened(part, base[None])
        return self.shifted(number, chosen[0], step, count)

    def _intern(self, part: int, ids: np.ndarray) -> np.ndarray:
        hashes = (ids.astype(np.int64) @ self.partitions[part].weights).tolist()
        table = self._by_hash
        nodes: list[int] = []
        new: list[int] = []
        known: list[int] = []
        following = len(self)
        for i, key in enumerate(hashes):
            node = table.get(key)
            if node is None:
                node = table[key] = following + len(new)
                new.append(i)
            else:
                known.append(i)
            nodes.append(node)
        if new:
            self._append(part, ids[new] if len(new) < len(ids) else ids)
        result = np.array(nodes, np.int64)
        if known:
            self._confirm(part, ids[known], result[known])
        return result

    def _confirm(self, part: int, ids: np.ndarray, nodes: np.ndarray) -> None:
        """Check that columns found by their hashes are the same columns."""
        parts = np.array([self._part_of[n] for n in nodes.tolist()])
        if (parts == part).all():
            rows = np.array([self._row_of[n] for n in nodes.tolist()])
            shifts = np.array([self._shift_of[n] for n in nodes.tolist()], np.int32)
            if not np.array_equal(self._stores[part][rows] + shifts[:, None] if shifts.any() else self._stores[part][rows], ids):
                raise HashCollision
            return
        inverse = self.partitions[part].inverse
        for row, other, node in zip(ids, parts.tolist(), nodes.tolist()):
            if not np.array_equal(row[inverse], self.blocks(node)[self.partitions[other].inverse]):
                raise HashCollision

    def bounds(self, nodes: list[int]) -> tuple[np.ndarray, np.ndarray]:
        """The least and the greatest id of each node's column."""
        low, high = np.empty(len(nodes), np.int64), np.empty(len(nodes), np.int64)
        parts = np.array([self._part_of[n] for n in nodes], np.int64)
        rows = np.array([self._row_of[n] for n in nodes], np.int64)
        shifts = np.array([self._shift_of[n] for n in nodes], np.int64)
        for part in np.unique(parts).tolist():
            here = np.flatnonzero(parts == part)
            step = max(1, _CHUNK // self.partitions[part].size)
            for i in range(0, len(here), step):
                some = here[i : i + step]
                ids = self._stores[part][rows[some]]
                low[some], high[some] = ids.min(axis=1) + shifts[some], ids.max(axis=1) + shifts[some]
        return low, high

    def _coarser_than(self, part: int) -> list[Coarser]:
        """Partitions strictly coarser than ``part``, smallest first."""
        known = self._coarser.get(part)
        if known is None:
            fine = self.partitions[part]
            known = []
            for number, coarse in enumerate(self.partitions):
                if number == 0 or number == part or coarse.size >= fine.size:
                    continue
                back = coarse.inverse[fine.first]
                if (back[fine.inverse] == coarse.inverse).all():
                    known.append(self._relate(number, fine.inverse[coarse.first], back))
            known.sort(key=lambda row: self.partitions[row.number].size)
            self._coarser[part] = known
        return known

    def _relate(self, number: int, select: np.ndarray, back: np.ndarray) -> Coarser:
        """Probes: some blocks, each beside the one that stands for all of its coarser block."""
        left = np.arange(0, len(back), max(1, len(back) // (4 * _PROBES)))
        right = select[back[left]]
        probes = np.flatnonzero(left != right)[:_PROBES]
        return Coarser(number, select, back, left[probes], right[probes])

    def _discover(self, part: int, ids: np.ndarray) -> bool:
        """Add a coarser partition that one of the columns is constant on; whether one was found."""
        fine = self.partitions[part]
        if fine.size < _MIN_SIZE or len(self.partitions) >= _MAX_PARTITIONS:
            return False
        sample = self._samples.get(part)
        if sample is None:
            sample = self._samples[part] = np.unique(fine.inverse[self._sample])
        sampled = ids[:, sample]
        sampled.sort(axis=1)
        suspects = np.flatnonzero((sampled[:, 1:] == sampled[:, :-1]).any(axis=1))
        for i in suspects.tolist():
            first, inverse = numbered(ids[i])
            if 2 * len(first) <= fine.size:
                full = inverse[fine.inverse]
                weights = np.zeros(len(first), np.int64)
                np.add.at(weights, full, self._weights)
                self.partitions.append(Partition(len(first), full, fine.first[first], weights))
                self._stores.append(np.zeros((16, len(first)), np.int32))
                self._filled.append(0)
                self._coarser.clear()
                return True
        return False


def numbered(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where each distinct id stands first, and for every place the number of its id, in that order."""
    low = int(ids.min())
    span = int(ids.max()) - low + 1
    if span > 64 * len(ids):
        _, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
        return first, inverse.reshape(-1)
    places = np.arange(len(ids))
    table = np.empty(span, np.int64)
    table[ids[::-1] - low] = places[::-1]  # what stands first is written last
    owner = table[ids - low]
    firsts = owner == places
    return np.flatnonzero(firsts), (np.cumsum(firsts) - 1)[owner]
