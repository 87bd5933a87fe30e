"""Clocks: every look at one is later than the last, and nothing else is known of time.

So loops that wait for a time end, and a kernel whose results depend on a clock is never proved.
Source: PTX ISA 9.1, "Special Registers: %clock, %globaltimer".
"""

from __future__ import annotations

from itertools import count

from ptx_engine.errors import ParseError
from ptx_engine.isa.decode import Decode, Step
from ptx_engine.isa.group import Group
from ptx_engine.machine.analysis import CLOCKS

#: ticks between two looks: about a millisecond in nanoseconds
STEP = 1 << 20


def clock_step(d: Decode, name: str) -> Step:
    """``mov d, %clock``. Raises ParseError for a register or type that is not of the clock's width."""
    if d.bits != CLOCKS[name] or d.mods["type"][0] == "f":
        raise ParseError(f"{d.ins.mnemonic}: {name} is an integer of {CLOCKS[name]} bits", span=d.ins.span)
    dst, env, pc, mask = d.dst(), d.env, d.pc, (1 << min(CLOCKS[name], d.bits)) - 1
    ticks = count(STEP, STEP)
    high = 32 if name.endswith("_hi") else 0

    def step(g: Group) -> None:
        if env.is_read(dst):
            env.schedule_dependent(f"{name} is read, whose value depends on the schedule", pc)
        g.R[dst] = next(ticks) >> high & mask

    return step
