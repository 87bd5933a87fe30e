"""Whether a value that differs between schedules can be seen in what a kernel computes: clocks, states of mbarriers, active masks.

A walk that is blind to the order of instructions: what reads such a value passes it on; a branch by it passes it to all that is written
where its two ways part, as far as that is read after they meet. The value is harmless unless it comes to an instruction with an effect;
or if nothing that others could see follows at all, as where the last thread of a pipeline clears up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ptx_engine.machine.control_flow import EXIT, Graph
from ptx_engine.machine.data_flow import ARITHMETIC
from ptx_engine.machine.recording import Uses
from ptx_engine.syntax.ast import Instruction

#: instructions without a result that nobody sees either
FENCES = frozenset({"fence", "membar"})
SILENT = FENCES | {"nanosleep", "prefetch", "bra", "brx", "ret", "exit"}
WAITS = frozenset({"test_wait", "try_wait"})
#: instructions of a thread that only clears up: nothing is loaded, arrived at or stored to global memory
CLEARING = frozenset({"activemask", "match", "vote", "shfl", "elect", "redux", "atom", "red"})


def is_wait(instruction: Instruction) -> bool:
    """``mbarrier.test_wait`` or ``mbarrier.try_wait``."""
    return instruction.opcode == "mbarrier" and instruction.modifiers[0] in WAITS


def is_arrival(instruction: Instruction) -> bool:
    """An arrival on an mbarrier, by threads or by copies."""
    kinds = instruction.modifiers[:1] if instruction.opcode == "mbarrier" else ()
    return not {"arrive", "arrive_drop"}.isdisjoint(kinds) or (instruction.opcode == "cp" and "mbarrier" in instruction.modifiers)


STRONG = frozenset({"volatile", "relaxed", "acquire", "mmio"})


def is_strong(instruction: Instruction) -> bool:
    """A load or an atomic that may see what another thread does meanwhile."""
    return instruction.opcode == "atom" or (instruction.opcode == "ld" and not STRONG.isdisjoint(instruction.modifiers[:1]))


def is_strong_store(instruction: Instruction) -> bool:
    """A store or an atomic that a loop which waits for memory may see."""
    return instruction.opcode in ("atom", "red") or (
        instruction.opcode == "st" and not (STRONG | {"release"}).isdisjoint(instruction.modifiers[:1])
    )


class Influence:
    """Answers for the instructions of one function. ``ends`` gives the last instruction of each block of the graph, ``live`` what is read
    after its start."""

    def __init__(
        self, instructions: Sequence[Instruction], uses: Mapping[int, Uses], graph: Graph, ends: Mapping[int, int],
        live: Mapping[int, frozenset[int]],
    ) -> None:  # fmt: skip
        self._instructions = instructions
        self._uses = uses
        self._graph = graph
        self._ends = ends
        self._live = live
        self._known: dict[int, bool] = {}

    def harmless(self, instruction: int, reaches_global: Callable[[int], bool]) -> bool:
        """Whether nothing that is computed depends on the result of an instruction. ``reaches_global``: of an atomic, whether it may be
        one of global memory: it has not been executed on shared memory only."""
        if instruction not in self._known:
            self._known[instruction] = self.of([instruction]) is not None
        return self._known[instruction] or self._clears_up(instruction, reaches_global)

    def _clears_up(self, source: int, reaches_global: Callable[[int], bool]) -> bool:
        """Whether the thread does nothing after an instruction but clear up shared memory, at places that do not depend on the result."""
        block = max((b for b in self._graph.successors if b <= source), default=EXIT)
        if block == EXIT:
            return False
        after = list(range(source + 1, self._ends[block] + 1))
        after += [pc for b in self._graph.reached(self._graph.successors[block]) for pc in range(b, self._ends[b] + 1)]
        tainted = self._data(source)
        for pc in after:
            instruction, row = self._instructions[pc], self._uses.get(pc)
            inval = instruction.opcode == "mbarrier" and instruction.modifiers[0] == "inval"
            if instruction.opcode not in ARITHMETIC | SILENT | CLEARING and not inval:
                return False
            if row is not None and not tainted.isdisjoint(row.addresses):
                return False
            if instruction.opcode in ("atom", "red") and reaches_global(pc):
                return False
        others = set(range(len(self._instructions))) - {source, *after}  # those who have not come so far must not see it happen
        return not any(is_strong(self._instructions[pc]) for pc in others)

    def _data(self, source: int) -> set[int]:
        """The registers that are computed from the result of an instruction."""
        tainted, size = set(self._uses[source].writes), -1
        while size != len(tainted):
            size = len(tainted)
            for row in self._uses.values():
                if not tainted.isdisjoint(row.reads) or row.predicate in tainted:
                    tainted |= row.writes
        return tainted

    def of(self, sources: Sequence[int]) -> set[int] | None:
        """The registers that depend on the results of some instructions; None where more than registers does."""
        state = "" if self._instructions[sources[0]].opcode != "mbarrier" else self._instructions[sources[0]].modifiers[0]
        tainted = {r for pc in sources for r in self._uses[pc].writes}
        size = -1
        while size != len(tainted):
            size = len(tainted)
            for block in self._graph.successors:
                if block != EXIT and not self._pass(block, tainted, reads_state=state.startswith("arrive")):
                    return None
        return tainted

    def _pass(self, block: int, tainted: set[int], *, reads_state: bool) -> bool:
        """Pass the registers on through a block; False where they come to an effect."""
        for pc in range(block, self._ends[block] + 1):
            row = self._uses.get(pc)
            if row is None or (tainted.isdisjoint(row.reads) and row.predicate not in tainted):
                continue
            instruction = self._instructions[pc]
            guarded = row.predicate in tainted
            if instruction.opcode in SILENT:
                continue
            if instruction.opcode not in ARITHMETIC and not (reads_state and is_wait(instruction) and not guarded):
                return False
            if instruction.opcode in ARITHMETIC:
                tainted |= row.writes
        last = self._uses.get(self._ends[block])
        if len(self._graph.successors[block]) < 2 or last is None:
            return True
        decides = last.predicate in tainted or not tainted.isdisjoint(last.reads)
        return not decides or self._part(block, tainted)

    def _part(self, block: int, tainted: set[int]) -> bool:
        """The ways from a block part by such a value: what they write, where it is read after they meet."""
        join = self._graph.join(block)
        written: set[int] = set()
        for way in self._graph.between(block):
            for pc in range(way, self._ends[way] + 1):
                if self._instructions[pc].opcode not in ARITHMETIC | SILENT:
                    return False
                written |= self._uses[pc].writes if pc in self._uses else set()
        tainted |= written & self._live.get(join, frozenset())
        return True
