"""Which registers a loop carries from one turn to the next: findings in the loop show those that are uniform integers.

A loop is what lies between the target of a backward branch and the branch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ptx_engine.order.turns import Turn

if TYPE_CHECKING:
    from ptx_engine.isa.values import Value
    from ptx_engine.machine.program import Block

#: register types that a counter may have; addresses are wider
COUNTER_TYPES = frozenset({"b16", "u16", "s16", "b32", "u32", "s32"})


def mark_loop_registers(blocks: Mapping[int, Block], registers: Mapping[str, str]) -> None:
    """Set ``carried`` of every block in a loop: slot and name of the registers, outer loops first. Slots are numbered as ``registers``."""
    names = [(name, kind in COUNTER_TYPES) for name, kind in registers.items()]
    for last in sorted(blocks.values(), key=lambda b: -b.start):
        if last.end.kind != "branch" or last.end.targets[0] > last.start:
            continue
        head = last.end.targets[0]
        region = [b for start, b in blocks.items() if head <= start <= last.start]
        written = set().union(*(b.defines | b.guarded for b in region))
        carried = [(r, names[r][0]) for r in blocks[head].live if r in written and r < len(names) and names[r][1]]
        for block in region:
            block.carried = tuple(dict.fromkeys((*block.carried, *carried)))


def turn(carried: Iterable[tuple[int, str]], values: list[Value]) -> Turn:
    """Names and values of the registers that are uniform integers in a group."""
    return tuple((name, value) for slot, name in carried if type(value := values[slot]) is int)
