"""Truth tables of max-min expressions as integers, bit a for the assignment a of 0 and 1 to the arguments; and their ranges."""

from __future__ import annotations

import math

from ptx_engine.decide.normal_ring import Coef

#: an inclusive interval, None where it is open
Range = tuple[Coef | None, Coef | None]
_MAX_BOUNDED = 8  # the range of a table of more arguments is not looked for


def columns(count: int) -> list[int]:
    """Column i has bit a set where assignment a gives argument i the value 1."""
    total = 1 << count
    result = []
    for i in range(count):
        block = ((1 << (1 << i)) - 1) << (1 << i)
        width = 2 << i
        while width < total:
            block |= block << width
            width *= 2
        result.append(block)
    return result


def low_half(i: int, bits: int) -> int:
    """Assignments below ``bits`` in which argument i is 0."""
    block, width = (1 << (1 << i)) - 1, 2 << i
    while width < bits:
        block |= block << width
        width *= 2
    return block


def combine(name: str, tables: list[int], allowed: int = -1) -> int:
    """The table of the max or min (``name``) of tables, within the allowed assignments."""
    result = 0 if name == "max" else -1
    for table in tables:
        result = result | table if name == "max" else result & table
    return result & allowed


def restrict(table: int, total: int, used: list[int], below: list[tuple[int, int]]) -> int:
    """The table over the arguments at ``used`` only. The others, on which it does not depend, take the least values that
    the order allows: 1 only where a used argument below them is 1."""
    if len(used) == total:
        return table
    short = 0
    for a in range(1 << len(used)):
        true = {place for bit, place in enumerate(used) if a >> bit & 1}
        forced = {j for i, j in below if i in true and j not in used}
        short |= (table >> sum(1 << place for place in true | forced) & 1) << a
    return short


def joined_range(name: str, ranges: list[Range]) -> Range:
    """The range of a max or min of values."""
    ends: list[Coef | None] = []
    for side in (0, 1):
        known = [end for r in ranges if (end := r[side]) is not None]
        all_needed = (name == "max") == (side == 1)  # an unknown end is fatal, or merely no help
        if not known or (all_needed and len(known) < len(ranges)):
            ends.append(None)
        else:
            ends.append(max(known) if name == "max" else min(known))
    return ends[0], ends[1]


def table_bounds(table: int, ranges: list[Range]) -> Range:
    """The range of a lattice polynomial over arguments of known ranges: it is non-decreasing in each of them."""
    if len(ranges) > _MAX_BOUNDED:
        return None, None
    ends: list[Coef | None] = []
    for side, open_end in ((0, -math.inf), (1, math.inf)):
        values = [open_end if (end := r[side]) is None else end for r in ranges]
        chosen = [min(v for i, v in enumerate(values) if a >> i & 1) for a in range(1, 1 << len(values)) if table >> a & 1]
        top = max(chosen, default=open_end)
        ends.append(None if abs(top) == math.inf else top)
    return ends[0], ends[1]
