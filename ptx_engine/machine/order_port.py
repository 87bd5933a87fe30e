"""What the machine tells the order checker, and a checker that listens to nothing (order checking switched off)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ptx_engine.findings import Finding
from ptx_engine.order.records import Space


class OrderPort(Protocol):
    """The part of ``order.OrderChecker`` that the machine calls."""

    def begin_batch(self, ctas: np.ndarray) -> None: ...

    def read(self, space: Space, instruction: int, threads: np.ndarray, addresses: "int | np.ndarray", nbytes: int) -> None: ...

    def write(
        self, space: Space, instruction: int, threads: np.ndarray, addresses: "int | np.ndarray", nbytes: int, values: np.ndarray | None
    ) -> None: ...

    def async_copy(
        self, instruction: int, threads: np.ndarray, shared_addresses: "int | np.ndarray", global_addresses: "int | np.ndarray | None", nbytes: int
    ) -> None: ...

    def commit_group(self, instruction: int, threads: np.ndarray) -> None: ...

    def wait_group(self, instruction: int, threads: np.ndarray, pending: int) -> None: ...

    def cta_barrier(self, instruction: int, threads: np.ndarray, barrier_id: int, count: int | None) -> None: ...

    def warp_barrier(self, instruction: int, threads: np.ndarray) -> None: ...

    def fence(self, instruction: int, threads: np.ndarray, scope: str) -> None: ...

    def exit(self, threads: np.ndarray) -> None: ...

    def end_batch(self) -> None: ...

    def finish(self) -> list[Finding]: ...


class NoOrder:
    """Order checking switched off: listens to nothing and finds nothing. The verdict says so."""

    def begin_batch(self, ctas: np.ndarray) -> None: ...

    def read(self, space: Space, instruction: int, threads: np.ndarray, addresses: "int | np.ndarray", nbytes: int) -> None: ...

    def write(
        self, space: Space, instruction: int, threads: np.ndarray, addresses: "int | np.ndarray", nbytes: int, values: np.ndarray | None
    ) -> None: ...

    def async_copy(
        self, instruction: int, threads: np.ndarray, shared_addresses: "int | np.ndarray", global_addresses: "int | np.ndarray | None", nbytes: int
    ) -> None: ...

    def commit_group(self, instruction: int, threads: np.ndarray) -> None: ...

    def wait_group(self, instruction: int, threads: np.ndarray, pending: int) -> None: ...

    def cta_barrier(self, instruction: int, threads: np.ndarray, barrier_id: int, count: int | None) -> None: ...

    def warp_barrier(self, instruction: int, threads: np.ndarray) -> None: ...

    def fence(self, instruction: int, threads: np.ndarray, scope: str) -> None: ...

    def exit(self, threads: np.ndarray) -> None: ...

    def end_batch(self) -> None: ...

    def finish(self) -> list[Finding]:
        return []


def participants(groups: Sequence[np.ndarray]) -> np.ndarray:
    """The sorted threads of several groups."""
    return groups[0] if len(groups) == 1 else np.sort(np.concatenate(groups))
