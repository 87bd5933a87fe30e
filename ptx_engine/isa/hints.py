"""Instructions that compute nothing: sleeping, scheduling and register hints, breakpoints.

Source: PTX ISA 9.1, "Miscellaneous Instructions", "Parallel Synchronization and Communication Instructions: griddepcontrol".
"""

from __future__ import annotations

from ptx_engine.errors import ParseError
from ptx_engine.isa.decode import Decode, Step
from ptx_engine.isa.group import Group
from ptx_engine.isa.registry import instruction

_M = "PTX ISA 9.1, Miscellaneous Instructions: "


def _nothing(g: Group) -> None:
    """No effect."""


@instruction("nanosleep", "type=u32", source=_M + "nanosleep")
def nanosleep(d: Decode) -> Step:
    """Time is not modelled."""
    d.expect(1)
    d.src(0)
    return _nothing


@instruction("setmaxnreg", "!action=inc|dec sync aligned type=u32", source=_M + "setmaxnreg")
def setmaxnreg(d: Decode) -> Step:
    """Registers are unlimited here."""
    d.expect(1)
    if not 24 <= d.literal(0) <= 256 or d.literal(0) % 8:
        raise ParseError(f"{d.ins.mnemonic}: a number of registers is a multiple of 8 from 24 to 256", span=d.ins.span)
    return _nothing


@instruction("brkpt", "", source=_M + "brkpt")
def brkpt(d: Decode) -> Step:
    """A debugger's business."""
    d.expect(0)
    d.arena.assumptions.setdefault("brkpt does nothing")
    return _nothing


@instruction("griddepcontrol", "!action=launch_dependents|wait", source="PTX ISA 9.1, griddepcontrol")
def griddepcontrol(d: Decode) -> Step:
    """Grids before this one are complete, grids after it wait."""
    d.expect(0)
    d.arena.assumptions.setdefault("griddepcontrol: prerequisite grids are complete, dependent grids wait")
    return _nothing


@instruction("applypriority", "[space=global] !level=L2::evict_normal", source="PTX ISA 9.1, applypriority")
def applypriority(d: Decode) -> Step:
    """A cache hint."""
    d.expect(2)
    d.place(0)
    if d.literal(1) != 128:
        raise ParseError(f"{d.ins.mnemonic}: the size is 128", span=d.ins.span)
    return _nothing
