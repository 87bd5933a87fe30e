"""Near misses: templates whose sides are equal where some variables are positive, though not everywhere.

log(xy) = log x + log y is such. The proof is tried again with all real variables positive, and those that need not be are
taken back one by one. This says what is missing; it proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ptx_engine.decide.budget import BudgetSpent, Meter, Undecided
from ptx_engine.decide.normal_forms import Forms
from ptx_engine.decide.normal_ring import Poly, Sign
from ptx_engine.decide.normal_value import Evaluator, Leaf
from ptx_engine.decide.walk import Template
from ptx_engine.terms.arena import Arena

#: with more real variables nothing is tried, and so many term operations at most are spent on one trial
_VARIABLES, _WORK = 8, 100_000

Leaves = dict[int, Leaf]
Remainder = Callable[[Evaluator, Poly, Poly], Poly]


def positive_variables(arena: Arena, template: Template, leaves: Leaves, pair: tuple[int, int], meter: Meter, left: Remainder) -> list[int]:
    """The variables of which it is enough that they are positive for two roots to be equal; empty where that does not help."""
    real = [node for node, leaf in leaves.items() if leaf.sign is Sign.UNKNOWN and not leaf.integer]

    def equal(positive: list[int]) -> bool:
        chosen = {node: replace(leaf, sign=Sign.POSITIVE) if node in positive else leaf for node, leaf in leaves.items()}
        try:
            with meter.at_most(_WORK):
                evaluator = Evaluator(arena, template, chosen, Forms(meter, False))
                evaluator.run(pair)
                return not left(evaluator, *(evaluator.value(root) for root in pair))
        except BudgetSpent:
            meter.resume()
            return False
        except Undecided:
            return False

    if not real or len(real) > _VARIABLES:
        return []
    if not equal(real):  # (z * max(x, y) comes out for a positive z, but for positive x and y the normal form is another)
        return next(([node] for node in real if equal([node])), [])
    for node in list(real):
        fewer = [other for other in real if other != node]
        if equal(fewer):
            real = fewer
    return real
