"""What a comparison with a tile program is worth where the program leaves something open (``references.freedoms``).

A refutation stands only where the source has one meaning: not at inputs whose floats do not fit the integers that they become,
and not against one order of combining where the compiled one equals the reference.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ptx_engine.terms.arena import Arena
from ptx_engine.verdict import Status, Verdict
from volta_pass.blame import order_text
from volta_pass.kernel_report import OWN_SOURCE, REFERENCE, Comparison
from volta_pass.stages import Evaluated

if TYPE_CHECKING:
    from volta_pass.references.combine_order import Dependence
    from volta_pass.references.freedoms import Freedoms


def fitting_text(freedoms: Freedoms) -> str:
    """The ledger's line for narrow conversions that are taken to fit."""
    places = dict.fromkeys(row.user_loc for row in freedoms.narrow_conversions)
    return "floats converted to narrow integers fit them: " + ", ".join(places)


def where_defined(verdict: Verdict, own: Evaluated, arena: Arena) -> Verdict:
    """The verdict, or ``unknown`` where every witness has a float that does not fit: there the source has no value."""
    refuted = [output for output in verdict.outputs if output.status is Status.REFUTED]
    if own.freedoms is None or not refuted:
        return verdict
    if own.freedoms.reordered:
        places = ", ".join(own.freedoms.reordered)
        return undecided(verdict, f"the compiler may choose the order of elements of tl.cat(..., can_reorder=True) ({places})")
    place = ""
    for output in refuted:
        written = own.footprints.get(output.tensor)
        if output.witness is None or written is None or not np.isin(output.witness.index, written.index):
            return verdict
        ident = int(written.ids[np.searchsorted(written.index, output.witness.index)])
        beyond = own.freedoms.beyond(arena, ident, output.witness.inputs)
        if beyond is None:
            return verdict
        place = place or beyond.user_loc
    return undecided(
        verdict, f"the sides differ where a float does not fit the integer that it becomes ({place}): no value is defined there"
    )


def in_some_order(comparisons: list[Comparison], orders: list[Dependence]) -> list[Comparison]:
    """Comparisons with the source undecided where the reference is met and the source depends on the order."""
    if not orders or not any(row.against == REFERENCE and row.status is Status.PROVED for row in comparisons):
        return comparisons
    reason = order_text(orders[0])
    return [replace(row, verdict=undecided(row.verdict, reason)) if row.against == OWN_SOURCE else row for row in comparisons]


def undecided(verdict: Verdict, reason: str) -> Verdict:
    """The verdict, or ``unknown`` with a reason where it refutes."""
    if verdict.status is not Status.REFUTED:
        return verdict
    outputs = [
        replace(output, status=Status.UNKNOWN, reason=reason, witness=None, explanation=None) if output.status is Status.REFUTED else output
        for output in verdict.outputs
    ]
    return replace(verdict, status=Status.UNKNOWN, outputs=outputs, reason=reason)
