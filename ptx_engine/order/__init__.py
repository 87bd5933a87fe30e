"""Happens-before: data races of the one schedule that the machine runs, which by confluence stand for all schedules."""

from ptx_engine.order.checker import OrderChecker
from ptx_engine.order.copies import WAIT_ALL
from ptx_engine.order.deadlock import Blocked, deadlock_finding
from ptx_engine.order.records import AtomicKind, MemoryOrder, Observation, Reach, Scope, Space

__all__ = ["WAIT_ALL", "AtomicKind", "Blocked", "MemoryOrder", "Observation", "OrderChecker", "Reach", "Scope", "Space", "deadlock_finding"]
