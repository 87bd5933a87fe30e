"""What the machine tells the order checker, and a checker that listens to nothing (order checking switched off)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from ptx_engine.findings import Finding
from ptx_engine.order.copies import WAIT_ALL
from ptx_engine.order.phases import Memory as PhaseMemory
from ptx_engine.order.records import AtomicKind, MemoryOrder, Observation, Scope, Space, Touch
from ptx_engine.order.turns import Turn


class OrderPort(Protocol):
    """The part of ``order.OrderChecker`` that the machine calls. ``turn`` is what the next accesses are shown with: uniform registers
    that loops carry. ``behind_success``: instructions that run only where single tests of mbarriers have succeeded, with the places of
    those tests as bits; ``settled``: those to which every schedule comes."""

    turn: Turn
    behind_success: Mapping[int, int]
    settled: Mapping[int, int]

    @property
    def assumptions(self) -> list[str]: ...

    def begin_batch(self, ctas: np.ndarray) -> None: ...

    def read(self, space: Space, instruction: int, threads: np.ndarray, addresses: "int | np.ndarray", nbytes: int) -> None: ...

    def write(
        self, space: Space, instruction: int, threads: np.ndarray, addresses: "int | np.ndarray", nbytes: int, values: np.ndarray | None
    ) -> None: ...

    def async_copy(
        self, instruction: int, threads: np.ndarray, shared_addresses: "int | np.ndarray", global_addresses: "int | np.ndarray",
        nbytes: int, global_bytes: int | None = None, reads: np.ndarray | None = None,
    ) -> None: ...  # fmt: skip

    def commit_group(self, instruction: int, threads: np.ndarray) -> None: ...

    def wait_group(self, instruction: int, threads: np.ndarray, pending: int) -> None: ...

    def settle(self, instruction: int, threads: np.ndarray) -> None: ...

    def cta_barrier(self, instruction: int, threads: np.ndarray, barrier_id: int, count: int | None) -> None: ...

    def cta_arrive(self, instruction: int, threads: np.ndarray, barrier_id: int, count: int | None = None) -> None: ...

    def cta_reset(self, instruction: int, slots: np.ndarray, barrier_id: int) -> None: ...

    def atomic(
        self, space: Space, instruction: int, threads: np.ndarray, addresses: "int | np.ndarray", nbytes: int,
        scope: Scope, order: MemoryOrder, kind: AtomicKind = AtomicKind.RMW, observation: Observation = Observation.DECIDES,
        *, volatile: bool = False,
    ) -> None: ...  # fmt: skip

    def determined(self, load: int) -> bool:
        """Whether a strong load reads the same in every schedule."""
        ...

    def warp_barrier(self, instruction: int, threads: np.ndarray) -> None: ...

    def fence(self, instruction: int, threads: np.ndarray, scope: Scope, total: bool = False) -> None: ...

    def exit(self, threads: np.ndarray, instruction: int) -> None: ...

    def mbarrier_touch(self, instruction: int, threads: np.ndarray, addresses: np.ndarray, touch: Touch) -> None: ...

    def mbarrier_arrive(self, instruction: int, threads: np.ndarray, key: int, memory: PhaseMemory = PhaseMemory.ORDERED) -> None: ...

    def mbarrier_copies_arrive(self, instruction: int, threads: np.ndarray, key: int) -> None: ...

    def mbarrier_wait(
        self, instruction: int, threads: np.ndarray, key: int, memory: PhaseMemory = PhaseMemory.ORDERED, *, parity: bool = False
    ) -> None: ...

    def mbarrier_tested(
        self, instruction: int, place: int, threads: np.ndarray, key: int, memory: PhaseMemory = PhaseMemory.ORDERED, *,
        parity: bool = False,
    ) -> None: ...  # fmt: skip

    def mbarrier_complete(self, slots: np.ndarray, key: int, *, counted: bool = True) -> None: ...

    def mbarrier_renew(self, slots: np.ndarray, key: int) -> None: ...

    def exchange(self, instruction: int, threads: np.ndarray, groups: np.ndarray) -> None: ...

    def end_batch(self) -> None: ...

    def finish(self) -> list[Finding]: ...


class NoOrder:
    """Order checking switched off: listens to nothing and finds nothing. The verdict says so."""

    turn: Turn = ()
    behind_success: Mapping[int, int] = {}
    settled: Mapping[int, int] = {}

    @property
    def assumptions(self) -> list[str]:
        return ["order not checked"]

    def begin_batch(self, ctas: np.ndarray) -> None: ...

    def read(self, space: Space, instruction: int, threads: np.ndarray, addresses: "int | np.ndarray", nbytes: int) -> None: ...

    def write(
        self, space: Space, instruction: int, threads: np.ndarray, addresses: "int | np.ndarray", nbytes: int, values: np.ndarray | None
    ) -> None: ...

    def async_copy(
        self, instruction: int, threads: np.ndarray, shared_addresses: "int | np.ndarray", global_addresses: "int | np.ndarray",
        nbytes: int, global_bytes: int | None = None, reads: np.ndarray | None = None,
    ) -> None: ...  # fmt: skip

    def commit_group(self, instruction: int, threads: np.ndarray) -> None: ...

    def wait_group(self, instruction: int, threads: np.ndarray, pending: int) -> None: ...

    def settle(self, instruction: int, threads: np.ndarray) -> None: ...

    def cta_barrier(self, instruction: int, threads: np.ndarray, barrier_id: int, count: int | None) -> None: ...

    def cta_arrive(self, instruction: int, threads: np.ndarray, barrier_id: int, count: int | None = None) -> None: ...

    def cta_reset(self, instruction: int, slots: np.ndarray, barrier_id: int) -> None: ...

    def atomic(
        self, space: Space, instruction: int, threads: np.ndarray, addresses: "int | np.ndarray", nbytes: int,
        scope: Scope, order: MemoryOrder, kind: AtomicKind = AtomicKind.RMW, observation: Observation = Observation.DECIDES,
        *, volatile: bool = False,
    ) -> None: ...  # fmt: skip

    def determined(self, load: int) -> bool:
        return False

    def warp_barrier(self, instruction: int, threads: np.ndarray) -> None: ...

    def fence(self, instruction: int, threads: np.ndarray, scope: Scope, total: bool = False) -> None: ...

    def exit(self, threads: np.ndarray, instruction: int) -> None: ...

    def mbarrier_touch(self, instruction: int, threads: np.ndarray, addresses: np.ndarray, touch: Touch) -> None: ...

    def mbarrier_arrive(self, instruction: int, threads: np.ndarray, key: int, memory: PhaseMemory = PhaseMemory.ORDERED) -> None: ...

    def mbarrier_copies_arrive(self, instruction: int, threads: np.ndarray, key: int) -> None: ...

    def mbarrier_wait(
        self, instruction: int, threads: np.ndarray, key: int, memory: PhaseMemory = PhaseMemory.ORDERED, *, parity: bool = False
    ) -> None: ...

    def mbarrier_tested(
        self, instruction: int, place: int, threads: np.ndarray, key: int, memory: PhaseMemory = PhaseMemory.ORDERED, *,
        parity: bool = False,
    ) -> None: ...  # fmt: skip

    def mbarrier_complete(self, slots: np.ndarray, key: int, *, counted: bool = True) -> None: ...

    def mbarrier_renew(self, slots: np.ndarray, key: int) -> None: ...

    def exchange(self, instruction: int, threads: np.ndarray, groups: np.ndarray) -> None: ...

    def end_batch(self) -> None: ...

    def finish(self) -> list[Finding]:
        return []


class SpecEvents:
    """What instruction specs may tell the checker, in their own words (specs know nothing of ``order``)."""

    def __init__(self, order: OrderPort) -> None:
        self.order = order
        self.exchanging = False
        self.commit_group = order.commit_group
        self.wait_group = order.wait_group
        self.warp_barrier = order.warp_barrier
        self.exchange = order.exchange

    def wait_all(self, instruction: int, threads: np.ndarray) -> None:
        """``cp.async.wait_all``: copies that were never committed too."""
        self.order.wait_group(instruction, threads, WAIT_ALL)

    def fence(self, instruction: int, threads: np.ndarray, scope: str, total: bool) -> None:
        """A fence of a scope by its PTX name; ``total``: ``fence.sc``."""
        self.order.fence(instruction, threads, Scope(scope), total)
