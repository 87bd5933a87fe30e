"""mbarrier: barriers in shared memory with phases, which threads and asynchronous copies arrive on and threads wait for.

The machine keeps the objects (``MbarrierOps``); a spec here says which operation with which counts. Scope .cluster and objects of other
CTAs are refused. The state that an arrival returns is opaque: only waits and pending_count read it.
Source: PTX ISA 9.1, "Parallel Synchronization and Communication Instructions: mbarrier", "cp.async.mbarrier.arrive".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ptx_engine.errors import NotStructuredError, ParseError
from ptx_engine.isa.decode import Decode, Step
from ptx_engine.isa.group import Group
from ptx_engine.isa.memory import space_of
from ptx_engine.isa.registry import constraint, instruction, refuse
from ptx_engine.isa.values import Sym, Value, uninitialised
from ptx_engine.syntax.ast import IntLit

_S = "PTX ISA 9.1, Parallel Synchronization and Communication Instructions: "
SPACE = "[space=shared|shared::cta]"
_SEM = {"arrive": "[sem=release|relaxed]", "wait": "[sem=acquire|relaxed]", "tx": "[sem=relaxed]"}
#: low bits of a state: the pending count before the arrival
PENDING_BITS = 20
MAX_COUNT = (1 << PENDING_BITS) - 1


@dataclass(frozen=True, slots=True)
class Arrival:
    """How an instruction arrives: whether the expected count falls for good (``drop``), whether it must not complete the phase
    (``open_phase``), whether it releases memory."""

    name: str
    drop: bool = False
    open_phase: bool = False
    releases: bool = True


@dataclass(frozen=True, slots=True)
class Wait:
    """How an instruction tests: by parity or by a state; whether success acquires memory."""

    name: str
    parity: bool
    acquires: bool


class MbarrierOps(Protocol):
    """The mbarriers of the CTAs that run. Counts are int64 columns."""

    def init(self, g: Group, space: str, address: "int | np.ndarray", count: np.ndarray, instruction: int) -> None: ...

    def inval(self, g: Group, space: str, address: "int | np.ndarray", instruction: int) -> None: ...

    def arrive(
        self, g: Group, space: str, address: "int | np.ndarray", how: Arrival, count: np.ndarray, expected: np.ndarray, instruction: int
    ) -> Value: ...

    def copies_arrive(self, g: Group, space: str, address: "int | np.ndarray", counted: bool, instruction: int) -> None: ...

    def transactions(self, g: Group, space: str, address: "int | np.ndarray", change: np.ndarray, name: str, instruction: int) -> None: ...

    def wait(
        self, g: Group, space: str, address: "int | np.ndarray", how: Wait, phase: np.ndarray, instruction: int
    ) -> "bool | np.ndarray": ...


for _modifier, _why in (
    ("cluster", "scope .cluster is not modelled"),
    ("shared::cluster", "mbarriers of other CTAs are not modelled"),
    ("report", "reports of mbarriers are not modelled"),
    ("report_pred", "reports of mbarriers are not modelled"),
):
    refuse(f"mbarrier.{_modifier}", _why)


@constraint("mbarrier", "an arrival that must not complete the phase releases")
def _open_phase_releases(mods: dict[str, str]) -> bool:
    return "noComplete" not in mods or mods.get("sem") != "relaxed"


def column(value: Value, g: Group, what: str, dtype: "type[np.int64] | type[np.uint64]" = np.int64) -> np.ndarray:
    """A concrete operand as a column. Raises NotStructuredError for symbolic data."""
    if value is None:
        raise uninitialised(what)
    if isinstance(value, Sym):
        raise NotStructuredError(f"{what} depends on symbolic data", feature=what)
    return np.broadcast_to(np.asarray(value).astype(dtype), (g.n,))


def count_of(d: Decode, i: int) -> int:
    """The index of a source that is a number of arrivals. Raises ParseError for a literal that is none."""
    operand = d.operand(i)
    if isinstance(operand, IntLit) and not 1 <= operand.value <= MAX_COUNT:
        raise ParseError(f"{d.ins.mnemonic}: {operand.value} does not lie between 1 and {MAX_COUNT}", span=d.ins.span)
    return d.src(i, 32)


def constant(g: Group, value: int) -> np.ndarray:
    return np.full(g.n, value, np.int64)


def _tail(kind: str) -> list[str]:
    """The rest of a form: semantics and scope, and the space, in either order."""
    order = f"{_SEM[kind]} [scope=cta]"
    return [f"{order} {SPACE} type=b64", f"{SPACE} {order} type=b64"]


def _forms(head: str, kind: str) -> list[str]:
    return [f"{head} {tail}" for tail in _tail(kind)]


def paired(d: Decode) -> Decode:
    """``.sem`` and ``.scope`` come together. Raises ParseError."""
    if d.has("sem") != d.has("scope"):
        raise ParseError(f"{d.ins.mnemonic}: .{d.mod('sem') or d.mod('scope')} needs both memory order and scope", span=d.ins.span)
    return d


@instruction("mbarrier", f"init {SPACE} type=b64", source=_S + "mbarrier.init")
def init(d: Decode) -> Step:
    d.expect(2)
    address, count, space, env, pc = d.checked_address(0), count_of(d, 1), space_of(d), d.env, d.pc
    return lambda g: env.mbarriers.init(g, space, address(g.R), column(g.R[count], g, "the count of mbarrier.init"), pc)


@instruction("mbarrier", f"inval {SPACE} type=b64", source=_S + "mbarrier.inval")
def inval(d: Decode) -> Step:
    d.expect(1)
    address, space, env, pc = d.checked_address(0), space_of(d), d.env, d.pc
    return lambda g: env.mbarriers.inval(g, space, address(g.R), pc)


@instruction("mbarrier", *_forms("op=arrive|arrive_drop", "arrive"), source=_S + "mbarrier.arrive")
def arrive(d: Decode) -> Step:
    d.expect(2, 3)
    return _arrive(d, count_of(d, 2) if d.count == 3 else None, None, False)


@instruction("mbarrier", *_forms("op=arrive|arrive_drop noComplete", "arrive"), source=_S + "mbarrier.arrive")
def arrive_open(d: Decode) -> Step:
    d.expect(3)
    return _arrive(d, count_of(d, 2), None, True)


@instruction("mbarrier", *_forms("op=arrive|arrive_drop expect_tx", "arrive"), source=_S + "mbarrier.arrive")
def arrive_expecting(d: Decode) -> Step:
    d.expect(3)
    return _arrive(d, None, d.src(2, 32), False)


def _arrive(d: Decode, count: int | None, transactions: int | None, open_phase: bool) -> Step:
    paired(d)
    dst, address, space, env, pc = d.dst(0), d.checked_address(1), space_of(d), d.env, d.pc
    how = Arrival(d.ins.mnemonic, d.mods["op"] == "arrive_drop", open_phase, d.mod("sem") != "relaxed")

    def step(g: Group) -> None:
        counts = constant(g, 1) if count is None else column(g.R[count], g, "the count of an arrival")
        expected = constant(g, 0) if transactions is None else column(g.R[transactions], g, "the transaction count of an arrival")
        state = env.mbarriers.arrive(g, space, address(g.R), how, counts, expected, pc)
        if env.is_read(dst):
            env.schedule_dependent("the state that an mbarrier's arrival returns is opaque", pc)
        g.R[dst] = state

    return step


@instruction("mbarrier", *_forms("op=expect_tx|complete_tx", "tx"), source=_S + "mbarrier.expect_tx, mbarrier.complete_tx")
def transactions(d: Decode) -> Step:
    """complete_tx has the effect of a copy's completion on the object, and copies nothing."""
    paired(d).expect(2)
    address, count, space, env, pc, name = d.checked_address(0), d.src(1, 32), space_of(d), d.env, d.pc, d.ins.mnemonic
    sign = 1 if d.mods["op"] == "expect_tx" else -1

    def step(g: Group) -> None:
        change = sign * column(g.R[count], g, "a transaction count")
        env.mbarriers.transactions(g, space, address(g.R), change, name, pc)

    return step


@instruction("mbarrier", *_forms("op=test_wait|try_wait [parity]", "wait"), source=_S + "mbarrier.test_wait, mbarrier.try_wait")
def wait(d: Decode) -> Step:
    """The limit that try_wait may give is a hint: a wait that fails can be repeated, whenever it returns."""
    paired(d).expect(*((3,) if d.mods["op"] == "test_wait" else (3, 4)))
    parity, operand = d.has("parity"), d.operand(2)
    if parity and isinstance(operand, IntLit) and operand.value not in (0, 1):
        raise ParseError(f"{d.ins.mnemonic}: a parity is 0 or 1, not {operand.value}", span=d.ins.span)
    dst, address, phase, space, env, pc = d.dst(0), d.checked_address(1), d.src(2, 32 if parity else 64), space_of(d), d.env, d.pc
    how = Wait(d.ins.mnemonic, parity, d.mod("sem") != "relaxed")
    if d.count == 4:
        d.src(3, 32)

    def step(g: Group) -> None:
        where = column(g.R[phase], g, "the phase of a wait for an mbarrier", np.uint64)
        env.schedule_dependent(f"{how.name} succeeds or fails as the schedule has it", pc)
        g.R[dst] = env.mbarriers.wait(g, space, address(g.R), how, where, pc)

    return step


@instruction("mbarrier", "pending_count type=b64", source=_S + "mbarrier.pending_count")
def pending_count(d: Decode) -> Step:
    d.expect(2)
    dst, state, env, pc = d.dst(), d.src(1, 64), d.env, d.pc

    def step(g: Group) -> None:
        value = column(g.R[state], g, "the state of an mbarrier", np.uint64)
        if env.is_read(dst):
            env.schedule_dependent("mbarrier.pending_count returns a value that depends on the schedule", pc)
        counts = (value & np.uint64(MAX_COUNT)).astype(np.uint32)
        g.R[dst] = int(counts[0]) if (counts == counts[0]).all() else counts

    return step


@instruction("cp", f"async mbarrier arrive [noinc] {SPACE} type=b64", source="PTX ISA 9.1, cp.async.mbarrier.arrive")
def copies_arrive(d: Decode) -> Step:
    """The thread's copies arrive when those issued so far are complete; without .noinc the phase also waits for that arrival."""
    d.expect(1)
    address, space, env, pc, counted = d.checked_address(0), space_of(d), d.env, d.pc, not d.has("noinc")
    return lambda g: env.mbarriers.copies_arrive(g, space, address(g.R), counted, pc)
