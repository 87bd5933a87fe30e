"""Operand lists of matrix products, known by the number of their content.

Tensor-core code emits many small products of one large tile, and copies a row of operands into every fragment that uses
it. Here all lists of one arena are numbered so that equal lists have equal numbers: a walk over a column of products then
looks at a column of numbers, and gathers operands once for each of them that differs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ptx_engine.terms.arena import ZERO, DotRecord

_SEED = 0xD07
_TABLE_BITS = 22
_CHUNK = 1 << 18  # ids handled at once: they stay in the cache


class DotLists:
    """Per record: ``first`` node, ``height`` x ``width`` nodes a product, ``depth``, and where its lists and accumulators begin.

    ``row_number``, ``col_number`` give the content of a list; ``depth_of`` and ``has_zero`` are indexed by that number.
    """

    def __init__(self, records: Sequence[DotRecord], mapped: Callable[[np.ndarray], np.ndarray]) -> None:
        self.first = np.array([r.first for r in records], np.int64)
        self.height = np.array([r.acc.shape[1] for r in records], np.int64)
        self.width = np.array([r.acc.shape[2] for r in records], np.int64)
        self.row_base, rows = _laid_out([r.rows for r in records])
        self.col_base, cols = _laid_out([r.cols for r in records])
        self.acc_base = np.cumsum([0, *(r.acc.size for r in records[:-1])])
        self.acc = mapped(np.concatenate([r.acc.reshape(-1) for r in records]))
        numbers = np.empty(rows + cols, np.int64)
        self.tables: dict[int, np.ndarray] = {}
        #: number of the first list of each depth
        self.start: dict[int, int] = {}
        self.depth = np.array([r.rows.shape[2] for r in records], np.int64)
        total = 0
        for depth in np.unique(self.depth).tolist():
            which = np.flatnonzero(self.depth == depth)
            lists = [x.reshape(-1, depth) for i in which.tolist() for x in (records[i].rows, records[i].cols)]
            places = [place for i in which.tolist() for place in self._places(i, rows, records[i])]
            table, inverse = _distinct(np.concatenate(lists), mapped)
            numbers[np.concatenate(places)] = inverse + total
            self.tables[depth], self.start[depth] = table, total
            total += len(table)
        self.row_number, self.col_number = numbers[:rows], numbers[rows:]
        self.depth_of, self.has_zero = np.empty(total, np.int64), np.empty(total, bool)
        for depth, table in self.tables.items():
            span = slice(self.start[depth], self.start[depth] + len(table))
            self.depth_of[span], self.has_zero[span] = depth, (table == ZERO).any(axis=1)

    def _places(self, i: int, rows: int, record: DotRecord) -> tuple[np.ndarray, np.ndarray]:
        row, col = int(self.row_base[i]), rows + int(self.col_base[i])
        return np.arange(row, row + record.rows.size // record.rows.shape[2]), np.arange(
            col, col + record.cols.size // record.cols.shape[2]
        )

    def operands(self, record: np.ndarray, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Accumulators, and numbers of row and column lists, of nodes ``ids`` of records ``record`` (of one shape)."""
        flat = ids - self.first[record]
        width, height = self.width[record], self.height[record]
        rows = self.row_number[self.row_base[record] + flat // width]
        cols = self.col_number[self.col_base[record] + flat // (height * width) * width + flat % width]
        return self.acc[self.acc_base[record] + flat], rows, cols

    def accumulators(self, record: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """The accumulators of nodes ``ids`` of records ``record``."""
        return np.asarray(self.acc[self.acc_base[record] + ids - self.first[record]])

    def lists(self, numbers: np.ndarray, depth: int) -> np.ndarray:
        """The lists of numbers (n,) as (n, depth); shorter ones are filled up with zeros."""
        result = np.full((len(numbers), depth), ZERO, np.int32)
        depths = self.depth_of[numbers]
        for size in np.unique(depths).tolist():
            here = depths == size
            result[here, :size] = self.tables[size][numbers[here] - self.start[size]]
        return result


def _laid_out(operands: list[np.ndarray]) -> tuple[np.ndarray, int]:
    """Where the lists of each record begin when all are laid end to end, and how many there are."""
    counts = [x.shape[0] * x.shape[1] for x in operands]
    ends = np.cumsum([0, *counts])
    return ends[:-1], int(ends[-1])


def _distinct(lists: np.ndarray, mapped: Callable[[np.ndarray], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The distinct lists (n, K) after mapping, and for every list its place among them; a hash collision only costs."""
    hashes = np.empty(len(lists), np.int64)
    images = np.empty_like(lists)
    step = max(1, _CHUNK // lists.shape[1])
    for start in range(0, len(lists), step):
        images[start : start + step] = mapped(lists[start : start + step])
        hashes[start : start + step] = _hashes(images[start : start + step])
    bits = min(_TABLE_BITS, len(lists).bit_length() + 3)
    short = (hashes.view(np.uint64) >> np.uint64(64 - bits)).astype(np.int32)
    places = np.arange(len(lists), dtype=np.int32)
    table = np.zeros(1 << bits, np.int32)
    table[short[::-1]] = places[::-1]  # what stands first is written last
    owner = table[short]
    for start in range(0, len(lists), step):
        span = slice(start, start + step)
        other = ~(images[owner[span]] == images[span]).all(axis=1)
        owner[span][other] = places[span][other]  # shares some bits with another list: stands for itself
    firsts = owner == places
    return images[firsts], (np.cumsum(firsts) - 1)[owner]


def _hashes(lists: np.ndarray) -> np.ndarray:
    """A multilinear hash of lists (n, K), which wraps on purpose; pairs of ids are taken as one word where they can be."""
    words = lists.view(np.int64) if lists.shape[1] % 2 == 0 else lists.astype(np.int64)
    weights = np.random.default_rng(_SEED).integers(-(2**62), 2**62, words.shape[1], dtype=np.int64) | 1
    return np.asarray(words @ weights)
