"""``decide`` for both kinds of callers: footprints over an arena, and expressions of ``terms.expr``."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any, overload

import numpy as np

from ptx_engine.decide import driver
from ptx_engine.decide.unify import CONSTANTS_WITHIN_1_ULP
from ptx_engine.launch import Footprint
from ptx_engine.terms.arena import Arena
from ptx_engine.terms.expr import Expr
from ptx_engine.verdict import Verdict


class CallableModule(ModuleType):
    """The package ``ptx_engine.decide`` as a function: ``ptx_engine.decide(reference, candidate, budget=...)``."""

    def __call__(self, *sides: Any, **options: Any) -> Verdict:
        return decide(*sides, **options)


Terms = Expr | Sequence[Expr]


@overload
def decide(arena: Arena, reference: dict[str, Footprint], candidate: dict[str, Footprint], /, **options: Any) -> Verdict: ...
@overload
def decide(reference: Terms, candidate: Terms, /, **options: Any) -> Verdict: ...
def decide(*sides: Any, **options: Any) -> Verdict:
    """``decide(arena, reference, candidate)`` over footprints, or ``decide(reference, candidate)`` over expressions.

    Options are those of ``driver.decide`` (budget, mode, assumptions, launch, outputs, auxiliary). Expressions are compared
    element by element as one output named ``out``. Raises ValueError for sides of different lengths or arenas, and for an
    assumption of no meaning; TypeError for what are no terms and for a budget that is no ``Budget``.
    """
    _check_options(options)
    if len(sides) == 3:
        return driver.decide(*sides, **options)
    if len(sides) == 1 and isinstance(sides[0], Arena):  # footprints by keyword
        return driver.decide(sides[0], options.pop("reference"), options.pop("candidate"), **options)
    if len(sides) != 2:
        raise TypeError(f"decide(reference, candidate) or decide(arena, reference, candidate): {len(sides)} sides are given")
    reference, candidate = (_terms(side) for side in sides)
    if len(reference) != len(candidate) or not reference:
        raise ValueError(f"the sides have {len(reference)} and {len(candidate)} terms")
    arena = reference[0].arena
    if any(term.arena is not arena for term in reference + candidate):
        raise ValueError("the terms belong to different arenas: make all symbols in one call")
    return driver.decide(arena, {"out": _written(reference)}, {"out": _written(candidate)}, **options)


def _terms(side: Any) -> list[Expr]:
    terms = [side] if isinstance(side, Expr) else list(side) if isinstance(side, Sequence) else [side]
    if not all(isinstance(term, Expr) for term in terms):
        raise TypeError(f"{side!r} is no term and no sequence of terms: a number is x * 0 + number")
    return terms


def _check_options(options: dict[str, Any]) -> None:
    assumed = options.get("assumptions", frozenset())
    if isinstance(assumed, str):
        options["assumptions"] = assumed = frozenset({assumed})
    if unknown := set(assumed) - {CONSTANTS_WITHIN_1_ULP}:
        raise ValueError(f"no assumption is named {', '.join(sorted(map(repr, unknown)))}: there is {CONSTANTS_WITHIN_1_ULP!r}")
    if not isinstance(options.get("budget"), (driver.Budget, type(None))):
        raise TypeError(f"a budget is a ptx_engine.decide.Budget, not {options['budget']!r}")


def _written(terms: list[Expr]) -> Footprint:
    return Footprint(np.arange(len(terms), dtype=np.int64), np.array([term.id for term in terms], np.int32))
