"""What the checker remembers of the schedule that ran: columns of accesses, the batch they belong to, groups of copies.

A column is one executed memory instruction: threads, byte addresses, width. Its ``seq`` is its place in the executed
order; clocks are such numbers too. Columns keep references to the arrays they were given, which must not change later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from ptx_engine.order.turns import Turn

#: a time that never comes: an asynchronous copy that nobody waited for
NEVER = np.int64(1 << 62)

READ, WRITE, ATOMIC, ASYNC, OBJECT, VOLATILE = 1, 2, 4, 8, 16, 32

MBARRIER_BYTES = 8


class Space(Enum):
    """State spaces that threads can share, and LOCAL, which needs no order."""

    GLOBAL = "global"
    SHARED = "shared"
    LOCAL = "local"


class Scope(Enum):
    """Which threads an atomic or a fence is about. A cluster is taken as its CTA: the order it promises beyond that is not used."""

    CTA = "cta"
    CLUSTER = "cluster"
    GPU = "gpu"
    SYS = "sys"

    @property
    def beyond_cta(self) -> bool:
        return self is Scope.GPU or self is Scope.SYS


class MemoryOrder(Enum):
    """The ``.sem`` of a strong operation."""

    RELAXED = "relaxed"
    ACQUIRE = "acquire"
    RELEASE = "release"
    ACQ_REL = "acq_rel"

    @property
    def acquires(self) -> bool:
        return self is MemoryOrder.ACQUIRE or self is MemoryOrder.ACQ_REL

    @property
    def releases(self) -> bool:
        return self is MemoryOrder.RELEASE or self is MemoryOrder.ACQ_REL


class AtomicKind(Enum):
    """RMW: ``atom``; REDUCE: ``red`` (returns nothing, so it acquires nothing); LOAD and STORE: strong or volatile ``ld``, ``st``."""

    RMW = "rmw"
    REDUCE = "reduce"
    LOAD = "load"
    STORE = "store"


class Touch(Enum):
    """What an instruction does to the memory of an mbarrier object: SETUP initialises or invalidates it, UPDATE changes its counts,
    TEST looks at its phase. Only setup excludes others."""

    SETUP = OBJECT | WRITE
    UPDATE = OBJECT | ATOMIC | READ | WRITE
    TEST = OBJECT | ATOMIC | READ


class Observation(Enum):
    """Whether control depends on the value that an atomic read. Only then does what was observed hold in every schedule
    that gets here; an acquire whose value nobody looks at orders nothing."""

    DECIDES = "decides"
    IGNORED = "ignored"


class Reach:
    """How far the value of a load can go before a store carries it on: ``lanes[i, j]`` says whether what lane i of a warp loads can come
    to lane j; None where it decides more than data (control, addresses)."""

    def __init__(self, lanes: np.ndarray | None) -> None:
        self.lanes = lanes


ANYWHERE = Reach(None)


class Batch:
    """CTAs that run together: slot s is CTA ``ctas[s]``; batch thread t = slot * threads_per_cta + tid."""

    def __init__(self, ctas: np.ndarray, threads_per_cta: int, warp_size: int) -> None:
        self.ctas = np.asarray(ctas, np.int64)
        self.threads_per_cta = threads_per_cta
        self.slots = len(self.ctas)
        self.threads = self.slots * threads_per_cta
        self.warp_size = warp_size
        self.warps_per_cta = -(-threads_per_cta // warp_size)
        #: accesses of a thread before this time are ordered by barriers of its CTA; less than the barrier's own time
        #: only for threads that exited before it
        self.exit_cap: np.ndarray | None = None
        #: which threads have written anything that others can see
        self.stores = np.zeros(self.threads, bool)
        #: whether the CTAs have run to their end, so that ``stores`` is final
        self.ended = False
        self._offsets: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def slot(self, threads: np.ndarray) -> np.ndarray:
        return np.asarray(threads // self.threads_per_cta)

    def warp(self, threads: np.ndarray) -> np.ndarray:
        """Batch-wide warp numbers: warps never span two CTAs."""
        slot, tid = np.divmod(threads, self.threads_per_cta)
        return np.asarray(slot * self.warps_per_cta + tid // self.warp_size)

    def without_effect(self, threads: np.ndarray, reach: Reach) -> np.ndarray:
        """Whether nothing that these threads load can be seen by others, if loaded values go as far as ``reach``."""
        if not self.ended or reach.lanes is None:
            return np.zeros(len(threads), bool)
        storing = np.zeros((self.slots * self.warps_per_cta, self.warp_size), bool)
        stores = np.flatnonzero(self.stores)
        storing[self.warp(stores), stores % self.threads_per_cta % self.warp_size] = True
        lane = threads % self.threads_per_cta % self.warp_size
        return np.asarray(~(storing[self.warp(threads)] & reach.lanes[lane]).any(axis=1))

    def grid_threads(self, threads: np.ndarray) -> np.ndarray:
        """Grid-wide thread numbers: CTA number * threads per CTA + tid."""
        slot, tid = np.divmod(threads, self.threads_per_cta)
        return np.asarray(self.ctas[slot] * self.threads_per_cta + tid)

    def slot_offsets(self, threads: np.ndarray, stride: int) -> np.ndarray | int:
        """``slot * stride`` of each thread; remembered per array, since the machine reuses its thread columns."""
        if self.slots == 1:
            return 0
        known = self._offsets.get(id(threads))
        if known is not None and known[0] is threads:
            return known[1]
        offsets = self.slot(threads).astype(np.int64) * stride
        if len(self._offsets) > 256:
            self._offsets.clear()
        self._offsets[id(threads)] = (threads, offsets)
        return offsets


class IssueGroup:
    """Asynchronous copies issued between two commits. ``number[t]`` is thread t's group; ``completed[t]`` the time of the
    wait that covered it, or NEVER."""

    __slots__ = ("complete", "completed", "number")

    def __init__(self, number: np.ndarray) -> None:
        self.number = number
        self.completed: np.ndarray | None = None
        self.complete = False

    def completion(self, threads: np.ndarray) -> np.ndarray:
        """When each thread's copies were waited for by the thread itself; NEVER if not yet."""
        if self.completed is None:
            return np.full(len(threads), NEVER)
        return np.asarray(self.completed[threads])


@dataclass(slots=True, eq=False)
class Epoch:
    """The times of the last full barrier of each CTA (``base[slot]``) and of each warp (``warp_base[warp]``) of a batch.
    Replaced, never changed, so that columns can share it."""

    batch: Batch
    base: np.ndarray
    warp_base: np.ndarray

    def after(self, seq: int, slots: np.ndarray) -> Epoch:
        """The epoch after full barriers of these CTAs."""
        base = self.base.copy()
        base[slots] = seq
        return Epoch(self.batch, base, self.warp_base)

    def after_warps(self, seq: int, warps: np.ndarray) -> Epoch:
        """The epoch after full barriers of these warps."""
        warp_base = self.warp_base.copy()
        warp_base[warps] = seq
        return Epoch(self.batch, self.base, warp_base)


class WeakKeys:
    """Keys whose equality is evidence that stored bits are equal and no proof; ``pairs`` are the values (n, k) that a finding
    takes for equal on it."""

    def __init__(self, keys_of: Callable[[np.ndarray], np.ndarray], rounded: bool = False) -> None:
        self._keys_of = keys_of
        #: whether values of other bits have one key, where they may be one real number: asked about one instruction only, which whole
        #: warps execute for one thread; what two instructions compute in two ways is what a program means by it
        self.rounded = rounded
        self.pairs: list[tuple[np.ndarray, np.ndarray]] = []

    def __call__(self, values: np.ndarray) -> np.ndarray:
        return self._keys_of(values)


@dataclass(slots=True, eq=False)
class Column:
    """One executed access of many threads. ``old`` columns were compared with each other before; ``[low, high)`` is the range
    of byte addresses, once measured; ``stands`` where earlier accesses were left out that are like these."""

    seq: int
    kind: int
    instruction: int
    threads: np.ndarray
    addresses: np.ndarray
    nbytes: int
    epoch: Epoch
    values: np.ndarray | None = None
    group: IssueGroup | None = None
    beyond_cta: bool = True
    old: bool = False
    turn: Turn = ()
    low: int = -1
    high: int = -1
    keys: dict[Callable[[np.ndarray], np.ndarray], np.ndarray] = field(default_factory=dict)
    stands: bool = False

    def value_keys(self, keys_of: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """What ``keys_of`` makes of the stored values, (n, k), computed once."""
        assert self.values is not None
        if keys_of not in self.keys:
            self.keys[keys_of] = keys_of(self.values.reshape(len(self.threads), -1))
        return self.keys[keys_of]

    @property
    def batch(self) -> Batch:
        return self.epoch.batch

    def subset(self, keep: np.ndarray) -> Column:
        """The column of the accesses selected by a mask or by positions."""
        return Column(
            self.seq, self.kind, self.instruction, self.threads[keep], self.addresses[keep], self.nbytes, self.epoch,
            None if self.values is None else self.values[keep], self.group, self.beyond_cta, self.old, self.turn,
            stands=self.stands,
        )  # fmt: skip

    def released(self, positions: np.ndarray) -> np.ndarray:
        """From when on a barrier of the thread orders the access: its own time, or the wait that completed a copy."""
        if self.group is None:
            return np.full(len(positions), self.seq, np.int64)
        return self.group.completion(self.threads[positions])


def measure(columns: Sequence[Column]) -> None:
    """Fill in the address ranges of columns that have none yet, all at once."""
    todo = [c for c in columns if c.low < 0]
    if not todo:
        return
    lengths = [len(c.threads) for c in todo]
    joined = np.concatenate([c.addresses for c in todo])
    if lengths.count(lengths[0]) == len(lengths):
        table = joined.reshape(len(todo), lengths[0])
        low, high = table.min(axis=1), table.max(axis=1)
    else:
        starts = np.concatenate([[0], np.cumsum(lengths[:-1])])
        low, high = np.minimum.reduceat(joined, starts), np.maximum.reduceat(joined, starts)
    for column, first, last in zip(todo, low.tolist(), high.tolist()):
        column.low, column.high = first, last + column.nbytes


@dataclass
class Cells:
    """One row per (access, granule): the parts of a set of columns that meet at suspicious granules, in executed order.

    ``column`` indexes ``columns``, ``position`` the access within it; ``offset`` counts granules from the start of the
    access; ``thread`` is grid-wide.
    """

    columns: Sequence[Column]
    column: np.ndarray
    position: np.ndarray
    granule: np.ndarray
    offset: np.ndarray
    thread: np.ndarray
    table: dict[str, np.ndarray] = field(init=False)

    def __post_init__(self) -> None:
        make = {
            "seq": [c.seq for c in self.columns], "kind": [c.kind for c in self.columns], "nbytes": [c.nbytes for c in self.columns],
            "instruction": [c.instruction for c in self.columns], "old": [c.old for c in self.columns],
            "beyond_cta": [c.beyond_cta for c in self.columns],
        }  # fmt: skip
        self.table = {name: np.asarray(rows, np.int64) for name, rows in make.items()}

    def of(self, name: str, rows: np.ndarray) -> np.ndarray:
        """A per-column attribute (seq, kind, nbytes, instruction, old, beyond_cta) of some rows."""
        return np.asarray(self.table[name][self.column[rows]])

    def by_column(self, rows: np.ndarray) -> list[tuple[Column, np.ndarray, np.ndarray]]:
        """(column, where in ``rows``, positions in the column) for every column that occurs in ``rows``."""
        order = np.argsort(self.column[rows], kind="stable")
        numbers = self.column[rows][order]
        cuts = np.flatnonzero(np.diff(numbers)) + 1
        return [
            (self.columns[int(self.column[rows[part[0]]])], part, self.position[rows[part]]) for part in np.split(order, cuts) if len(part)
        ]
