"""Groups unordered pairs by kind and instruction pair, keeps one worked example of each, and words the findings.

Two milder kinds change no verdict: ``same-value write``, two writes of identical values, and ``unused read``, a load that races but
whose value no thread stores or decides by. Positions in the PTX are filled in by whoever knows them: the sites carry instruction
numbers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from ptx_engine.findings import Finding, Severity, Site
from ptx_engine.launch import Buffer, Launch
from ptx_engine.order.barrier_uses import Overlap
from ptx_engine.order.equal_writes import ValueKeys
from ptx_engine.order.missing import MISSING_TEXT, OR_PHASE, Missing, PartialBarriers, classify
from ptx_engine.order.pairs import Rows, atomics_clash, observing
from ptx_engine.order.phases import BREACH_TEXT, Breach, Rule, phase_name
from ptx_engine.order.records import ASYNC, ATOMIC, MBARRIER_BYTES, OBJECT, READ, VOLATILE, WRITE, Column, Reach, Space, WeakKeys
from ptx_engine.order.turns import turns_text

#: how far the value that an instruction loads can go
ReachOf = Callable[[int], Reach]


class Outcome(IntEnum):
    """What an unordered pair amounts to."""

    RACE = 0
    SAME_VALUE = 1
    UNUSED_READ = 2
    LOCKSTEP = 3
    SAME_REAL = 4


@dataclass
class _Group:
    count: int = 0
    example: Finding | None = None
    within_warp: bool = False
    #: whether accesses were left out that would have been counted
    least: bool = False


#: volatile accesses of two lanes of a warp that would be ordered if lanes ran in lockstep
LOCKSTEP = "lockstep assumed"

_KINDS = {Outcome.RACE: "data race", Outcome.SAME_VALUE: "same-value write", Outcome.SAME_REAL: "same-value write",
          Outcome.UNUSED_READ: "unused read", Outcome.LOCKSTEP: LOCKSTEP}  # fmt: skip
#: kinds of findings that there are only because nothing orders two instructions
UNORDERED = frozenset({*_KINDS.values(), "barrier misuse", "mbarrier misuse"})
_AMOUNTS = {
    Outcome.RACE: "", Outcome.SAME_VALUE: "", Outcome.UNUSED_READ: "; no thread stores or decides by what is loaded",
    Outcome.SAME_REAL: "; the threads compute it in different ways, and which of their roundings stays is up to chance",
    Outcome.LOCKSTEP: "; volatile accesses are atomic and no more: whether the load sees the store is up to chance",
}  # fmt: skip


def role(kind: int) -> str:
    """What a site did: "load", "store", "atomic", "cp.async write", ..."""
    if kind & OBJECT:
        return "mbarrier operation" if kind & ATOMIC else "mbarrier setup"
    if kind & ASYNC:
        return "cp.async write" if kind & WRITE else "cp.async read"
    if kind & ATOMIC:
        return {READ: "atomic load", WRITE: "atomic store"}.get(kind & (READ | WRITE), "atomic")
    return "store" if kind & WRITE else "load"


class Report:
    """Collects the findings of a launch."""

    def __init__(self, launch: Launch, buffers: Sequence[Buffer], warp_size: int, value_keys: ValueKeys, reach: ReachOf) -> None:
        self._launch = launch
        self._reach = reach
        self._value_keys = value_keys
        self._buffers = sorted(buffers, key=lambda b: b.address)
        self._starts = [b.address for b in self._buffers]
        self._warp_size = warp_size
        self._groups: dict[tuple[int, ...], _Group] = {}
        self.partial = PartialBarriers(launch.threads, warp_size)
        #: whether there are phases of mbarriers
        self.phased = False
        #: strong loads that an unordered strong store may be seen by, or not
        self.chances: set[int] = set()

    def site(self, grid_thread: int, instruction: int, what: str) -> Site:
        """The site of a grid-wide thread number."""
        cta, tid = divmod(grid_thread, self._launch.threads)
        return Site(what, cta_index(self._launch, cta), tid // self._warp_size, tid % self._warp_size, instruction)

    def add(self, space: Space, rows: Rows, a: np.ndarray, b: np.ndarray, weight: np.ndarray | None = None) -> None:
        """Count the unordered pairs (a, b) of rows, each ``weight`` times; one example of each new group is worded."""
        cells = rows.cells
        a, b, weight = self._without_chances(rows, a, b, weight)
        outcome = self._outcomes(space, rows, a, b)
        missing = classify(rows, a, b)
        buffer = self._buffer_numbers(space, rows, a, b)
        first, second = cells.of("instruction", a), cells.of("instruction", b)
        within_warp = missing == Missing.WARP_BARRIER  # of one group with the pairs across warps, which make the better example
        cause = np.where(within_warp, int(Missing.BARRIER), missing)
        low, high = np.where(first <= second, (a, b), (b, a))  # one group, whichever of the two was executed first
        keys = np.stack(
            [outcome, cause, np.minimum(first, second), np.maximum(first, second), rows.kind[low], rows.kind[high], buffer], axis=1
        )
        best_first = np.argsort(within_warp, kind="stable")
        thinned = any(column.stands for column in cells.columns)
        example, counts = _distinct_rows(keys[best_first], None if weight is None else weight[best_first])
        for at, count in zip(best_first[example].tolist(), counts.tolist()):
            full = (list(Space).index(space), *keys[at].tolist())
            group = self._groups.setdefault(full, _Group())
            group.count += count
            group.least |= thinned
            if group.example is None or (group.within_warp and not within_warp[at]):
                group.example = self._word(space, rows, int(a[at]), int(b[at]), Outcome(int(outcome[at])), Missing(int(missing[at])))
                group.within_warp = bool(within_warp[at])

    def _without_chances(
        self, rows: Rows, a: np.ndarray, b: np.ndarray, weight: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Note the strong loads among the pairs, and drop what is no fault: strong operations that exclude each other, but for volatile
        ones of one warp."""
        chance = observing(rows, a, b) & ~atomics_clash(rows, a, b)
        if not chance.any():
            return a, b, weight
        loads = np.where((rows.kind[a] & WRITE) == 0, a, b)[chance]
        self.chances.update(rows.cells.of("instruction", loads).tolist())
        keep = ~chance | in_lockstep(rows, a, b)
        return a[keep], b[keep], None if weight is None else weight[keep]

    def _outcomes(self, space: Space, rows: Rows, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """The ``Outcome`` of each pair."""
        outcome: np.ndarray = np.array([Outcome.RACE, Outcome.SAME_VALUE, Outcome.SAME_REAL])[same_values(rows, a, b, self._value_keys)]
        outcome[in_lockstep(rows, a, b) & ~atomics_clash(rows, a, b)] = Outcome.LOCKSTEP
        if space is Space.GLOBAL:  # shared memory is looked at while its threads run, when what becomes of a value is not known
            reads = np.flatnonzero((rows.kind[a] == READ) | (rows.kind[b] == READ))
            reader = np.where(rows.kind[a[reads]] == READ, a[reads], b[reads])
            for column, where, positions in rows.cells.by_column(reader):
                unused = column.batch.without_effect(column.threads[positions], self._reach(column.instruction))
                outcome[reads[where[unused]]] = Outcome.UNUSED_READ
        return outcome

    def _buffer_numbers(self, space: Space, rows: Rows, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        if space is not Space.GLOBAL:
            return np.zeros(len(a), np.int64)
        return np.searchsorted(np.asarray(self._starts, np.int64), _overlap(rows, a, b)[0], "right")

    def _word(self, space: Space, rows: Rows, a: int, b: int, outcome: Outcome, missing: Missing) -> Finding:
        one, two = np.array([a]), np.array([b])
        low, width = _overlap(rows, one, two)
        roles = role(int(rows.kind[a])), role(int(rows.kind[b]))
        conflict = "W/W" if rows.kind[a] & rows.kind[b] & WRITE else "R/W"
        sites = tuple(
            self.site(int(rows.cells.thread[r]), int(rows.cells.of("instruction", np.array([r]))[0]), what)
            for r, what in zip((a, b), roles)
        )
        text = MISSING_TEXT[missing] + (OR_PHASE.get(missing, "") if self.phased else "")
        barrier = self.partial.between(rows, a, b) if missing in (Missing.BARRIER, Missing.BARRIER_AFTER_WAIT) else None
        if barrier is not None:
            text = f"{text}: {barrier[1]}"
            sites += (self.site(int(rows.cta[a]) * self._launch.threads + int(barrier[0].tids[0]), barrier[0].instruction, "barrier"),)
        tensor, index, offset = self._place(space, int(low[0]))
        where = f"{space.value} memory" if not tensor else f"{tensor}[{', '.join(map(str, index))}]"
        kind = _KINDS[outcome]
        happens = "write the same value to the same bytes" if outcome in (Outcome.SAME_VALUE, Outcome.SAME_REAL) else "touch the same bytes"
        whose = "one thread" if rows.cells.thread[a] == rows.cells.thread[b] else "two threads"
        message = f"{kind} on {where} ({conflict}): {roles[0]} and {roles[1]} of {whose} {happens}, unordered{_AMOUNTS[outcome]}"
        details = {"conflict": conflict}
        loop = turns_text(*(rows.cells.columns[int(rows.cells.column[r])].turn for r in (a, b)))
        if loop:
            details["loop"] = loop
        severity = Severity.ERROR if outcome in (Outcome.RACE, Outcome.LOCKSTEP) else Severity.NOTE
        return Finding(
            kind=kind, message=message, severity=severity, space=space.value, tensor=tensor, index=index, address_offset=offset,
            width_bytes=int(width[0]), sites=sites, missing=text, details=details,
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

    def findings(self, breaches: Iterable[tuple[Breach, int]] = (), overlaps: Iterable[tuple[Overlap, int]] = ()) -> list[Finding]:
        """All groups, errors first, in a fixed order; then what was wrong with phases of mbarriers and uses of numbered barriers."""
        misused = [self._word_breach(breach, count) for breach, count in breaches]
        misused += [self._word_overlap(overlap, count) for overlap, count in overlaps]
        return [*self._unordered(), *sorted(misused, key=lambda f: f.sites[0].instruction)]

    def _word_overlap(self, overlap: Overlap, count: int) -> Finding:
        sites = self.site(overlap.thread, overlap.instruction, "barrier"), self.site(*overlap.last, "barrier")
        said = f"two barriers of id {overlap.barrier_id} may be in flight: a thread comes to it that does not know its last use to be over"
        missing = "nothing orders the end of the last use before this"
        return Finding(kind="barrier misuse", message=said, sites=sites, missing=missing, count=count)

    def _word_breach(self, breach: Breach, count: int) -> Finding:
        rule = breach.rule
        arrives = self.site(breach.thread, breach.instruction, "mbarrier arrival" if rule is Rule.NO_WAIT else "mbarrier wait")
        sites = (arrives,) if breach.other is None else (arrives, self.site(*breach.other, "mbarrier arrival"))
        message, missing = BREACH_TEXT[rule]
        around = {"phase": breach.phase, "before": breach.phase - 1, "after": breach.phase + 1}
        numbers = {name: phase_name(number) for name, number in around.items()}
        return Finding(
            kind="mbarrier misuse", message=message.format(**numbers, at=breach.key), space="shared", address_offset=breach.key,
            width_bytes=MBARRIER_BYTES, sites=sites, missing=missing.format(**numbers), count=count,
        )  # fmt: skip

    def _unordered(self) -> list[Finding]:
        worded = [(key, _counted(g.example, g)) for key, g in self._groups.items() if g.example is not None]
        return [finding for _, finding in sorted(worded, key=lambda item: (item[1].severity is Severity.NOTE, item[0]))]


def _counted(example: Finding, group: _Group) -> Finding:
    """The finding of a group, with how many pairs there are, or at least are."""
    details = {**example.details, "counted": "at least"} if group.least else example.details
    return replace(example, count=group.count, details=details)


def in_lockstep(rows: Rows, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Whether a volatile load and a volatile store are of two lanes of one warp."""
    volatile = (rows.kind[a] & rows.kind[b] & VOLATILE) != 0
    return np.asarray(volatile & observing(rows, a, b) & (rows.cta[a] == rows.cta[b]) & (rows.warp[a] == rows.warp[b]))


def _distinct_rows(keys: np.ndarray, weight: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """(first occurrence, count or sum of weights) of each distinct row of small non-negative numbers."""
    code = np.zeros(len(keys), np.int64)
    for column in keys.T.astype(np.int64):
        values, compact = np.unique(column, return_inverse=True)
        code = code * len(values) + compact.reshape(-1)
    _, example, place, counts = np.unique(code, return_index=True, return_inverse=True, return_counts=True)
    if weight is not None:
        counts = np.zeros(len(example), np.int64)
        np.add.at(counts, place.reshape(-1), weight)
    return example, counts


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


def same_values(rows: Rows, a: np.ndarray, b: np.ndarray, value_keys: ValueKeys = ()) -> np.ndarray:
    """1 where both accesses of a pair are plain writes that leave the same value in every common byte, 2 where it is the same but for its
    rounding, else 0.

    ``value_keys`` map stored values to numbers that are equal where the bits are equal in every schedule; they are asked only
    about pairs whose values differ as given (two lanes of a butterfly reduction hold x+y and y+x)."""
    out = np.zeros(len(a), np.int64)
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
    """How stores p[i] of one column and q[i] of another agree in the bytes that they share (see ``same_values``)."""
    out = np.zeros(len(p), np.int64)
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
        how = equal.astype(np.int64)
        for keys_of in value_keys:
            rounded = isinstance(keys_of, WeakKeys) and keys_of.rounded
            if equal.all() or (rounded and one.instruction != two.instruction):
                break
            u, v = one.value_keys(keys_of), two.value_keys(keys_of)
            now = equal | (u[p[some], mine] == v[q[some], theirs]).all(axis=1)
            if isinstance(keys_of, WeakKeys) and (now != equal).any():
                weak = some[now != equal]
                keys_of.pairs.append((x[p[weak], mine], y[q[weak], theirs]))
            how[now & ~equal] = 2 if rounded else 1
            equal = now
        out[some] = how
    return out
