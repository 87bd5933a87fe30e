"""In which turn of its loops an access happened, as people can tell: uniform registers that the loops carry."""

from __future__ import annotations

#: names and values of registers where the access's stretch of code begins
Turn = tuple[tuple[str, int], ...]

#: registers shown
SHOWN = 6


def turn_text(turn: Turn) -> str:
    """``%r7 = 3, %r9 = -32``: as signed 32-bit numbers."""
    signed = [f"{name} = {value - (1 << 32) if value >> 31 else value}" for name, value in turn[:SHOWN]]
    return ", ".join(signed) + (", ..." if len(turn) > SHOWN else "")


def turns_text(first: Turn, second: Turn) -> str:
    """The turns of two accesses, once where they are one; empty where neither is in a loop."""
    if first == second:
        return turn_text(first)
    return "; ".join(f"{which}: {turn_text(turn)}" for which, turn in (("first", first), ("second", second)) if turn)
