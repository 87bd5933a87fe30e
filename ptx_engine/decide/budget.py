"""Budgets of an exact proof: term operations, seconds and memory, all arguments; running out is a verdict, never a hang.

Term operations are counted and depend on nothing else. Seconds are those that the deciding thread itself computes: what other
processes and threads do at the same time takes nothing away, so that load does not turn a proof into an unknown.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProofBudget:
    """``seconds`` of CPU time for one call of ``prove_columns``; ``terms`` bounds the monomials touched by one class, ``bytes``
    the resident memory of the process (0: not looked at)."""

    seconds: float = 60.0
    terms: int = 20_000_000
    bytes: int = 0


class Undecided(Exception):
    """No exact answer for this template; the message is the reason shown to the user."""


class BudgetSpent(Undecided):
    """The exact budget ran out."""


def clock() -> float:
    """The CPU seconds of this thread: what every deadline of the decider is measured on."""
    return time.thread_time()


def resident_bytes() -> int:
    """The resident memory of this process; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return 0


#: term operations between two looks at the clock, and at the memory
_CLOCK, _MEMORY = 1 << 12, 1 << 16


class Meter:
    """Counts work against a budget; ``spend`` raises ``BudgetSpent``."""

    def __init__(self, budget: ProofBudget, deadline: float) -> None:
        self._terms = budget.terms
        self._bytes = budget.bytes
        self._deadline = deadline
        self._next_look = 0
        self._next_memory = _MEMORY
        self.spent = 0

    def spend(self, count: int) -> None:
        """Charge ``count`` term operations; the clock is looked at every few thousand of them."""
        self.need(count)
        self.spent += count
        if self.spent >= self._next_look:
            self._next_look = self.spent + _CLOCK
            if clock() > self._deadline:
                raise BudgetSpent("exact budget ran out (time)")
            if self._bytes and self.spent >= self._next_memory:
                self._next_memory = self.spent + _MEMORY
                if resident_bytes() > self._bytes:
                    raise BudgetSpent("exact budget ran out (memory)")

    def need(self, count: int) -> None:
        """Raise unless ``count`` more term operations are left; work that is not begun is not charged."""
        if self.spent + count > self._terms:
            raise BudgetSpent(f"exact budget ran out ({self._terms} terms)")

    def resume(self) -> None:
        """After an attempt that ran out of its share: raise if the whole budget has run out."""
        self.need(0)
        if clock() > self._deadline:
            raise BudgetSpent("exact budget ran out (time)")

    @contextmanager
    def at_most(self, count: int) -> Iterator[None]:
        """Within the block, spending more than ``count`` raises ``BudgetSpent``; an attempt that may fail is bounded so."""
        outer = self._terms
        self._terms = min(outer, self.spent + count)
        try:
            yield
        finally:
            self._terms = outer
