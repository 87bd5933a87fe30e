"""The graph of basic blocks: what a branch decides, and which loop a block is in.

Block EXIT stands behind every end of a thread. Loops of one header are one loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

EXIT = -1
#: instructions that end a thread
ENDS = frozenset({"ret", "exit", "trap"})


@dataclass(frozen=True)
class Loop:
    """A header, which every way into the loop passes, and all blocks from which the header is reached without leaving."""

    header: int
    blocks: frozenset[int]


class Graph:
    """``successors`` by block; blocks are numbered in program order, the entry is the lowest. What is not reached from it is left out."""

    def __init__(self, successors: Mapping[int, Iterable[int]]) -> None:
        self.successors: dict[int, tuple[int, ...]] = {b: tuple(dict.fromkeys(after)) for b, after in successors.items()}
        self.successors[EXIT] = ()
        self.entry = min(successors)
        alive = self.reached([self.entry]) | {EXIT}
        self.successors = {b: after for b, after in self.successors.items() if b in alive}
        self.predecessors: dict[int, list[int]] = {b: [] for b in self.successors}
        for block, after in self.successors.items():
            for target in after:
                self.predecessors[target].append(block)
        self._number = {b: i for i, b in enumerate(sorted(self.successors))}
        self._blocks = sorted(self.successors)
        self._behind = self._closure(self.successors, EXIT)
        ends = self._body(self.entry, EXIT) | {self.entry}
        self._joins = {b: self._nearest(b) if b in ends else EXIT for b in self._blocks if b != EXIT}
        self._loops: list[Loop] | None = None

    def _closure(self, neighbours: Mapping[int, Iterable[int]], root: int) -> dict[int, int]:
        """For each block, as bits, the blocks that lie on every way from it along ``neighbours`` to the root."""
        everything = (1 << len(self._blocks)) - 1
        sets = dict.fromkeys(self._blocks, everything)
        sets[root] = 1 << self._number[root]
        changed = True
        order = [b for b in (reversed(self._blocks) if root == EXIT else self._blocks) if b != root]
        while changed:
            changed = False
            for block in order:
                common = everything
                for other in neighbours[block]:
                    common &= sets[other]
                new = common | 1 << self._number[block]
                if new != sets[block]:
                    sets[block], changed = new, True
        return sets

    def _nearest(self, block: int) -> int:
        """The first block that every way from a block to the end passes; EXIT if there is no other."""
        bits = self._behind[block]
        candidates = [b for b in self._blocks if b != block and bits >> self._number[b] & 1]
        return max(candidates, key=lambda b: self._behind[b].bit_count(), default=EXIT)

    def join(self, block: int) -> int:
        """Where all ways from a block meet again."""
        return self._joins[block]

    def between(self, block: int) -> set[int]:
        """The blocks on the ways from a block's end to ``join(block)``, without the latter; the block itself if it is in a loop there."""
        return self.reached(self.successors[block], self._joins[block])

    def reached(self, starts: Iterable[int], stop: int = EXIT) -> set[int]:
        """Blocks reached from some, without passing ``stop`` or the end."""
        found: set[int] = set()
        stack = [b for b in starts if b not in (stop, EXIT)]
        while stack:
            block = stack.pop()
            if block not in found:
                found.add(block)
                stack.extend(b for b in self.successors[block] if b not in (stop, EXIT))
        return found

    def loops(self) -> list[Loop]:
        """All loops, smaller ones first."""
        if self._loops is None:
            before = self._closure(self.predecessors, self.entry)
            bodies: dict[int, set[int]] = {}
            for block, after in self.successors.items():
                for header in after:
                    if header != EXIT and before[block] >> self._number[header] & 1:
                        bodies.setdefault(header, {header}).update(self._body(header, block))
            self._loops = sorted((Loop(h, frozenset(body)) for h, body in bodies.items()), key=lambda loop: (len(loop.blocks), loop.header))
        return self._loops

    def _body(self, header: int, last: int) -> set[int]:
        found: set[int] = set()
        stack = [last]
        while stack:
            block = stack.pop()
            if block not in found and block != header:
                found.add(block)
                stack.extend(self.predecessors[block])
        return found

    def turns(self, header: int, last: int, quiet: Callable[[int], bool]) -> Loop | None:
        """What turns of a loop may pass that go back from block ``last``. A loop that polls at the head of another one shares its header,
        not its turns: where those from ``last`` pass only ``quiet`` blocks, it is all turns of the header that do. None: nothing runs."""
        if header not in self.predecessors:
            return None
        ends = [b for b in self.predecessors[header] if any(loop.header == header and b in loop.blocks for loop in self.loops())]
        bodies = {b: {header} | self._body(header, b) for b in ends}
        if last not in bodies:
            return self.innermost(header, last)
        own = bodies[last]
        if all(map(quiet, own)):
            own = set().union(*(body for body in bodies.values() if all(map(quiet, body))))
        return Loop(header, frozenset(own))

    def innermost(self, *blocks: int) -> Loop | None:
        """The smallest loop that all of these blocks are in."""
        return next((loop for loop in self.loops() if all(b in loop.blocks for b in blocks)), None)
