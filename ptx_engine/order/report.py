"""Groups unordered pairs by kind and instruction pair, keeps one worked example of each, and words the findings.

Two writes of identical values are the milder ``same-value write``. Positions in the PTX are filled in by whoever knows them: the
sites carry instruction numbers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from ptx_engine.findings import Finding, Severity, Site
from ptx_engine.launch import Buffer, Launch
from ptx_engine.order.pairs import Rows
from ptx_engine.order.records import ASYNC, ATOMIC, NEVER, READ, WRITE, Column, Space

#: functions from stored values (any shape) to uint64 keys, cheapest first; equal keys of one of them mean equal bits
ValueKeys = Sequence[Callable[[np.ndarray], np.ndarray]]


class Missing(IntEnum):
    """What would order two accesses."""

    BARRIER = 0
    WARP_BARRIER = 1
    WAIT = 2
    BARRIER_AFTER_WAIT = 3
    BARRIER_BEFORE_COPY = 4
    GRID_ORDER = 5
    EXITED = 6
    SCOPE = 7
    WIDTH = 8
    WAIT_BEFORE_REUSE = 9


MISSING_TEXT = {
    Missing.BARRIER: "no barrier between them",
    Missing.WARP_BARRIER: "no bar.warp.sync between two lanes of one warp (lanes do not run in lockstep)",
    Missing.WAIT: "no cp.async.wait_group for the group that wrote it",
    Missing.BARRIER_AFTER_WAIT: "waited for by the thread that issued the copy, but no barrier after the wait orders it for another thread",
    Missing.BARRIER_BEFORE_COPY: "no barrier between the access and the cp.async that overwrites its bytes",
    Missing.GRID_ORDER: "no order exists between CTAs of a grid",
    Missing.EXITED: "the thread exited before the barrier, which therefore says nothing about its accesses",
    Missing.SCOPE: "atomics of scope cta do not exclude those of another CTA",
    Missing.WIDTH: "atomics of different widths or addresses do not exclude each other",
    Missing.WAIT_BEFORE_REUSE: "no cp.async.wait_group for the group that reads it",
}


@dataclass
class _Group:
    count: int
    example: Finding


def role(kind: int) -> str:
    """What a site did: "load", "store", "atomic", "cp.async write", ..."""
    if kind & ASYNC:
        return "cp.async write" if kind & WRITE else "cp.async read"
    if kind & ATOMIC:
        return {READ: "atomic load", WRITE: "atomic store"}.get(kind & (READ | WRITE), "atomic")
    return "store" if kind & WRITE else "load"


class Report:
    """Collects the findings of a launch."""

    def __init__(self, launch: Launch, buffers: Sequence[Buffer], warp_size: int, value_keys: ValueKeys = ()) -> None:
        self._launch = launch
        self._value_keys = value_keys
        self._buffers = sorted(buffers, key=lambda b: b.address)
        self._starts = [b.address for b in self._buffers]
        self._warp_size = warp_size
        self._groups: dict[tuple[int, ...], _Group] = {}

    def site(self, grid_thread: int, instruction: int, what: str) -> Site:
        """The site of a grid-wide thread number."""
        cta, tid = divmod(grid_thread, self._launch.threads)
        return Site(what, cta_index(self._launch, cta), tid // self._warp_size, tid % self._warp_size, instruction)

    def add(self, space: Space, rows: Rows, a: np.ndarray, b: np.ndarray) -> None:
        """Count the unordered pairs (a, b) of rows; one example of each new group is worded."""
        cells = rows.cells
        same = same_values(rows, a, b, self._value_keys)
        missing = classify(rows, a, b)
        buffer = self._buffer_numbers(space, rows, a, b)
        first, second = cells.of("instruction", a), cells.of("instruction", b)
        keys = np.stack([same, missing, np.minimum(first, second), np.maximum(first, second), rows.kind[a], rows.kind[b], buffer], axis=1)
        found, example, counts = np.unique(keys, axis=0, return_index=True, return_counts=True)
        for key, at, count in zip(found.tolist(), example.tolist(), counts.tolist()):
            full = (list(Space).index(space), *key)
            group = self._groups.get(full)
            if group is None:
                self._groups[full] = _Group(count, self._word(space, rows, int(a[at]), int(b[at]), bool(key[0]), Missing(key[1])))
            else:
                group.count += count

    def _buffer_numbers(self, space: Space, rows: Rows, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        if space is not Space.GLOBAL:
            return np.zeros(len(a), np.int64)
        return np.searchsorted(np.asarray(self._starts, np.int64), _overlap(rows, a, b)[0], "right")

    def _word(self, space: Space, rows: Rows, a: int, b: int, same: bool, missing: Missing) -> Finding:
        one, two = np.array([a]), np.array([b])
        low, width = _overlap(rows, one, two)
        roles = role(int(rows.kind[a])), role(int(rows.kind[b]))
        conflict = "W/W" if rows.kind[a] & rows.kind[b] & WRITE else "R/W"
        sites = tuple(
            self.site(int(rows.cells.thread[r]), int(rows.cells.of("instruction", np.array([r]))[0]), what)
            for r, what in zip((a, b), roles)
        )
        tensor, index, offset = self._place(space, int(low[0]))
        where = f"{space.value} memory" if not tensor else f"{tensor}[{', '.join(map(str, index))}]"
        kind = "same-value write" if same else "data race"
        happens = "write the same value to the same bytes" if same else "touch the same bytes"
        return Finding(
            kind=kind, message=f"{kind} on {where} ({conflict}): {roles[0]} and {roles[1]} of two threads {happens}, unordered",
            severity=Severity.NOTE if same else Severity.ERROR, space=space.value, tensor=tensor, index=index, address_offset=offset,
            width_bytes=int(width[0]), sites=sites, missing=MISSING_TEXT[missing], details={"conflict": conflict},
        )  # fmt: skip

    def _place(self, space: Space, address: int) -> tuple[str, tuple[int, ...], int]:
        """(tensor, index, byte offset) of an address."""
        if space is not Space.GLOBAL:
            return "", (), address
        at = bisect_right(self._starts, address) - 1
        if at < 0 or address >= self._starts[at] + max(self._buffers[at].bytes, 1):
            return "", (), address
        arg, offset = self._buffers[at].arg, address - self._starts[at]
        return arg.name, arg.index_of(offset // arg.element_bytes), offset

    def findings(self) -> list[Finding]:
        """All groups, errors first, in a fixed order."""
        ordered = sorted(self._groups.items(), key=lambda item: (item[1].example.severity is Severity.NOTE, item[0]))
        return [replace(group.example, count=group.count) for _, group in ordered]


def cta_index(launch: Launch, cta: int) -> tuple[int, int, int]:
    """CTA (x, y, z) of a linear CTA number (x fastest)."""
    x, y, _ = launch.grid
    return cta % x, cta // x % y, cta // (x * y)


def _addresses(rows: Rows, of: np.ndarray) -> np.ndarray:
    out = np.zeros(len(of), np.int64)
    for column, where, positions in rows.cells.by_column(of):
        out[where] = column.addresses[positions]
    return out


def _overlap(rows: Rows, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(first common byte, number of common bytes) of pairs of accesses."""
    low_a, low_b = _addresses(rows, a), _addresses(rows, b)
    low = np.maximum(low_a, low_b)
    high = np.minimum(low_a + rows.cells.of("nbytes", a), low_b + rows.cells.of("nbytes", b))
    return low, high - low


def classify(rows: Rows, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The ``Missing`` of each unordered pair (a before b in executed order)."""
    kind_a, kind_b = rows.kind[a], rows.kind[b]
    same_cta, same_thread = rows.cta[a] == rows.cta[b], rows.cells.thread[a] == rows.cells.thread[b]
    copy_a, copy_b = (kind_a & ASYNC) != 0, (kind_b & ASYNC) != 0
    waited = rows.released[a] < rows.seq[b]
    both_atomic = (kind_a & kind_b & ATOMIC) != 0
    exited = (rows.cap[a] != NEVER) & (rows.released[a] < rows.base[b])
    shape = (rows.cells.of("nbytes", a) != rows.cells.of("nbytes", b)) | (rows.cells.offset[a] != rows.cells.offset[b])
    cases = [
        (both_atomic & shape, Missing.WIDTH),
        (both_atomic, Missing.SCOPE),
        (~same_cta, Missing.GRID_ORDER),
        (exited & ~same_thread, Missing.EXITED),
        (copy_a & ~waited & ((kind_a & WRITE) == 0), Missing.WAIT_BEFORE_REUSE),
        (copy_a & ~waited, Missing.WAIT),
        (copy_a & waited, Missing.BARRIER_AFTER_WAIT),
        (copy_b & ((kind_b & WRITE) != 0), Missing.BARRIER_BEFORE_COPY),
        (rows.warp[a] == rows.warp[b], Missing.WARP_BARRIER),
    ]
    return np.select([case for case, _ in cases], [int(m) for _, m in cases], int(Missing.BARRIER))


def same_values(rows: Rows, a: np.ndarray, b: np.ndarray, value_keys: ValueKeys = ()) -> np.ndarray:
    """Whether both accesses of a pair are plain writes that leave the same value in every common byte.

    ``value_keys`` map stored values to numbers that are equal where the bits are equal in every schedule; they are asked only
    about pairs whose values differ as given (two lanes of a butterfly reduction hold x+y and y+x)."""
    out = np.zeros(len(a), bool)
    kinds = rows.kind[a] & rows.kind[b] & WRITE
    candidates = np.flatnonzero((kinds != 0) & (((rows.kind[a] | rows.kind[b]) & (ATOMIC | ASYNC)) == 0))
    if not len(candidates):
        return out
    columns = len(rows.cells.columns)
    code = rows.cells.column[a[candidates]] * columns + rows.cells.column[b[candidates]]
    order = np.argsort(code, kind="stable")
    for part in np.split(order, np.flatnonzero(np.diff(code[order])) + 1):
        first, second = divmod(int(code[part[0]]), columns)
        chosen = candidates[part]
        one, two = rows.cells.columns[first], rows.cells.columns[second]
        out[chosen] = _equal_where_common(one, rows.cells.position[a[chosen]], two, rows.cells.position[b[chosen]], value_keys)
    return out


def _equal_where_common(one: Column, p: np.ndarray, two: Column, q: np.ndarray, value_keys: ValueKeys) -> np.ndarray:
    """Whether stores p[i] of one column and q[i] of another agree in the bytes that they share."""
    out = np.zeros(len(p), bool)
    if one.values is None or two.values is None:
        return out
    x, y = one.values.reshape(len(one.threads), -1), two.values.reshape(len(two.threads), -1)
    part = one.nbytes // x.shape[1]
    if part != two.nbytes // y.shape[1]:
        return out
    distance = two.addresses[q] - one.addresses[p]
    for d in np.unique(distance[distance % part == 0]).tolist():
        some = np.flatnonzero(distance == d)
        start = d // part
        first, second = max(start, 0), max(-start, 0)
        common = min(x.shape[1] - first, y.shape[1] - second)
        mine, theirs = slice(first, first + common), slice(second, second + common)
        equal = (x[p[some], mine] == y[q[some], theirs]).all(axis=1)
        for keys_of in value_keys:
            if equal.all():
                break
            u, v = one.value_keys(keys_of), two.value_keys(keys_of)
            equal |= (u[p[some], mine] == v[q[some], theirs]).all(axis=1)
        out[some] = equal
    return out
