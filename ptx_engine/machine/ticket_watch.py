"""What a run did with a counter: who drew which ticket, with what tickets were compared, who touched the counter besides.

Installed into a machine before it runs: the steps of a few instructions note their operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ptx_engine.isa.decode import TYPE_BITS, Step
from ptx_engine.isa.group import Group
from ptx_engine.isa.registry import find
from ptx_engine.isa.values import Sym, Value
from ptx_engine.machine.influence import is_strong, is_strong_store
from ptx_engine.machine.recording import RecordingDecode
from ptx_engine.machine.ticket_flow import Flow

if TYPE_CHECKING:
    from ptx_engine.machine.executor import Machine

#: what the operands of an instruction are, read from the register file
Readers = Sequence[Callable[[list[Value]], Value]]

#: atomics that give the same sequence of values whoever comes when, if all add the same
COUNTING = frozenset({"add", "inc", "dec"})


@dataclass(frozen=True)
class Tickets:
    """Who has counted on each counter, in the order of the run: counter address -> (CTAs, values they got)."""

    drawn: dict[int, tuple[list[int], list[int]]]

    def last_of(self, cta: int) -> int | None:
        """The last ticket of the counter that a CTA counts on; None if it counts on none."""
        return next((values[-1] for ctas, values in self.drawn.values() if cta in ctas), None)

    def members(self) -> dict[int, list[int]]:
        """The CTAs of each counter, sorted."""
        return {address: sorted(ctas) for address, (ctas, _) in self.drawn.items()}

    def sequences(self) -> dict[int, list[int]]:
        """The values that each counter gave out, in order."""
        return {address: values for address, (_, values) in self.drawn.items()}


class TicketWatch:
    """Notes of one run. ``rows[pc]``: (CTA, time, operands ...), one line for each thread."""

    def __init__(self, machine: Machine, atomic: int, flow: Flow) -> None:
        self._machine, self._atomic = machine, atomic
        self._rows: dict[int, list[np.ndarray]] = {}
        self._time = 0
        #: whether an operand was no number
        self.blurred = False
        instructions = machine.program.flat.instructions
        self._touching = [pc for pc, i in enumerate(instructions) if pc != atomic and (is_strong(i) or is_strong_store(i))]
        self._watch(atomic)
        for pc in {*flow.compares, *flow.stores, *flow.loads, *self._touching}:
            self._watch(pc)

    def _watch(self, pc: int) -> None:
        instruction = self._machine.program.flat.instructions[pc]
        _, mods = find(instruction)
        d = RecordingDecode(self._machine.env, instruction, pc, mods)
        after: Readers = ()
        if instruction.opcode == "setp":
            slots = [d.src(1), d.src(2)]
            before: Readers = [lambda R, s=s: R[s] for s in slots]  # type: ignore[misc]
        else:
            at = 0 if instruction.opcode in ("st", "red") else 1
            before = [d.address(at)]
            if pc == self._atomic:
                operand, result = d.src(2), d.dst(0)
                before = [*before, lambda R: R[operand]]
                after = [lambda R: R[result]]
        for block in self._machine.program.blocks.values():
            where = pc - block.start
            if 0 <= where < len(block.steps):
                origin, step = block.steps[where]
                block.steps[where] = (origin, self._noting(pc, step, before, after))
                block.forms[where] = None  # fused code must not pass it by

    def _noting(self, pc: int, step: Step, before: Readers, after: Readers) -> Step:
        instruction = self._machine.program.flat.instructions[pc]
        guard = None if instruction.predicate is None else self._machine.program.register(instruction.predicate.name)

        def run(g: Group) -> None:
            active = self._active(g, guard, negated=instruction.negated)
            columns = [self._numbers(read(g.R), g.n) for read in before]
            step(g)
            columns += [self._numbers(read(g.R), g.n) for read in after]
            if active.any():
                self._time += 1
                ctas = np.broadcast_to(np.asarray(self._machine.log.ctas[g.slots], np.int64), (g.n,))
                rows = np.stack([ctas, np.full(g.n, self._time), *columns], axis=1)[active]
                self._rows.setdefault(pc, []).append(rows if pc == self._atomic else np.unique(rows, axis=0))

        return run

    def _active(self, g: Group, guard: int | None, *, negated: bool) -> np.ndarray:
        if guard is None:
            return np.ones(g.n, bool)
        p = np.broadcast_to(np.asarray(g.R[guard]), (g.n,))
        self.blurred |= p.dtype != bool
        return np.asarray(~p if negated else p)

    def _numbers(self, value: Value, n: int) -> np.ndarray:
        if value is None or isinstance(value, Sym):
            self.blurred = True
            return np.zeros(n, np.int64)
        with np.errstate(over="ignore"):
            return np.asarray(np.broadcast_to(np.asarray(value), (n,)).astype(np.uint64).view(np.int64))

    def _noted(self, pc: int) -> np.ndarray:
        rows = self._rows.get(pc)
        return np.concatenate(rows) if rows else np.zeros((0, 5), np.int64)

    def tickets(self) -> Tickets | None:
        """Who drew what; None where the values of a counter may depend on more than who comes when, or a CTA draws twice."""
        rows = self._noted(self._atomic)
        if self.blurred or not len(rows) or len(np.unique(rows[:, 0])) != len(rows) or len(np.unique(rows[:, 3])) != 1:
            return None
        drawn: dict[int, tuple[list[int], list[int]]] = {}
        for cta, _, address, _, value in rows.tolist():
            ctas, values = drawn.setdefault(address, ([], []))
            ctas.append(cta)
            values.append(value)
        if any(len(set(values)) != len(values) for _, values in drawn.values()):
            return None
        return Tickets(drawn)

    def meets(self, store: int, load: int) -> bool:
        """Whether a load of shared memory was one of bytes that a ticket was stored to."""
        stored, loaded = (self._places(pc) for pc in (store, load))
        return bool(((stored[:, None, 0] < loaded[None, :, 1]) & (loaded[None, :, 0] < stored[:, None, 1])).any())

    def _places(self, pc: int) -> np.ndarray:
        """(first byte, byte behind the last) of accesses to shared memory, whatever the CTA."""
        instruction = self._machine.program.flat.instructions[pc]
        addresses = np.unique(self._noted(pc)[:, 2])
        if "shared" not in {m.split("::")[0] for m in instruction.modifiers}:
            there = [self._machine.memory.generic(int(a)) for a in addresses]
            addresses = np.array([at for space, at in there if space == "shared"], np.int64)
        vector = next((int(m[1:]) for m in instruction.modifiers if m in ("v2", "v4", "v8")), 1)
        return np.stack([addresses, addresses + vector * TYPE_BITS[instruction.modifiers[-1]] // 8], axis=1)

    def compares_with_last(self, flow: Flow, tickets: Tickets) -> bool:
        """Whether every comparison that was made asks for the last ticket of the thread's own counter."""
        for pc, (added, other) in flow.compares.items():
            bits = TYPE_BITS[self._machine.program.flat.instructions[pc].modifiers[-1]]
            for row in self._noted(pc).tolist():
                last = tickets.last_of(row[0])
                if last is None or (row[1 + other] - last - added) % (1 << bits):
                    return False
        return True

    def touched_by_last_only(self, tickets: Tickets) -> bool:
        """Whether other strong accesses to a counter were made by its last CTA, after it had counted."""
        times = {row[0]: row[1] for row in self._noted(self._atomic).tolist()}
        last = {address: ctas[-1] for address, (ctas, _) in tickets.drawn.items()}
        for pc in self._touching:
            for cta, time, place in self._noted(pc)[:, :3].tolist():
                near = [a for a in last if abs(a - place) < 64]  # an access has 64 bytes at most
                if any(last[a] != cta or times[cta] > time for a in near):
                    return False
        return True
