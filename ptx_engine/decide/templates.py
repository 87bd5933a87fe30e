"""Exact proofs of columns of outputs: one template for each class of outputs of one form, one proof for each template.

EQUAL holds over the reals at every point where both sides are defined, under the class's stated assumptions. DIFFERENT
says that the normal forms differ where that decides (polynomials, quotients, exponentials): a suspicion for the caller,
since only a real witness refutes. UNKNOWN carries its reason; budgets running out is one.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from ptx_engine.decide.budget import ProofBudget, clock
from ptx_engine.decide.cuts import find_cuts
from ptx_engine.decide.sessions import ClassResult, Depth, Doubt, Outcome, Session
from ptx_engine.terms.arena import Arena

__all__ = ["ClassResult", "Outcome", "ProofBudget", "prove_apart", "prove_cheaply", "prove_columns", "prove_normal_forms"]


def prove_columns(arena: Arena, reference: np.ndarray, candidate: np.ndarray, budget: ProofBudget) -> list[ClassResult]:
    """Prove output columns equal: int32 ids of the same outputs on both sides.

    Returns classes that cover all positions once, ordered by first member. Never raises for running out of budget.
    """
    results = prove_cheaply(arena, reference, candidate, budget)
    return sorted(results + prove_rest(arena, reference, candidate, budget, results), key=lambda r: int(r.members[0]))


@contextmanager
def _collector_paused() -> Iterator[None]:
    """No garbage collection of cycles inside: forms are millions of small tuples and no cycles, and looking through them
    again and again takes a third of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@_collector_paused()
def prove_cheaply(
    arena: Arena, reference: np.ndarray, candidate: np.ndarray, budget: ProofBudget, doubt: Doubt | None = None
) -> list[ClassResult]:
    """The outputs that canonical forms prove, with shared inner terms as variables first and whole terms then; only EQUAL.
    Nothing more is tried once ``doubt`` is confirmed."""
    left, right = np.asarray(reference, np.int32).ravel(), np.asarray(candidate, np.int32).ravel()
    deadline = clock() + budget.seconds
    results = _prove_by_cuts(arena, left, right, budget, deadline, doubt)
    rest = _unproved(len(left), results)
    if len(rest) and not results and not (doubt is not None and doubt.confirmed):
        whole = Session(arena, left[rest], right[rest], budget, deadline, Depth.CANONICAL, patient=False).run()
        results += [_moved(r, rest) for r in whole if r.outcome is Outcome.EQUAL]
    return results


@_collector_paused()
def prove_rest(
    arena: Arena, reference: np.ndarray, candidate: np.ndarray, budget: ProofBudget, proved: list[ClassResult]
) -> list[ClassResult]:
    """Normal forms for the outputs that no class of ``proved`` holds."""
    left, right = np.asarray(reference, np.int32).ravel(), np.asarray(candidate, np.int32).ravel()
    rest = _unproved(len(left), proved)
    if not len(rest):
        return []
    deadline = clock() + budget.seconds
    return [_moved(r, rest) for r in Session(arena, left[rest], right[rest], budget, deadline).run()]


def prove_normal_forms(arena: Arena, reference: np.ndarray, candidate: np.ndarray, budget: ProofBudget) -> list[ClassResult]:
    """``prove_columns`` for outputs on which canonical forms have been tried."""
    return sorted(prove_rest(arena, reference, candidate, budget, []), key=lambda r: int(r.members[0]))


#: outputs that are proved from one template when more of them are too many
_FEW_APART = 64


@_collector_paused()
def prove_apart(arena: Arena, reference: np.ndarray, candidate: np.ndarray, budget: ProofBudget) -> list[ClassResult]:
    """``prove_columns`` for outputs that have much below them in common, as the lanes of a butterfly do: one template of all, in which
    every term has one form. Of outputs that are alike but for their inputs it does the work again for each."""
    left, right = np.asarray(reference, np.int32).ravel(), np.asarray(candidate, np.int32).ravel()
    deadline = clock() + budget.seconds
    results = Session(arena, left, right, budget, deadline, apart=True).run()
    proved = [r for r in results if r.outcome is Outcome.EQUAL]
    rest = _unproved(len(left), proved)
    if not len(rest) or len(left) <= _FEW_APART:
        return results
    for some in np.split(rest, range(_FEW_APART, len(rest), _FEW_APART)):  # of fewer, more is tried: cases, for one
        parts = Session(arena, left[some], right[some], budget, deadline, apart=True).run()
        proved += [_moved(r, some) for r in parts]
    return proved


def _unproved(count: int, results: list[ClassResult]) -> np.ndarray:
    open_ = np.ones(count, bool)
    for result in results:
        open_[result.members] = False
    return np.flatnonzero(open_)


def _moved(result: ClassResult, positions: np.ndarray) -> ClassResult:
    """A result over a selection of the outputs, over all of them."""
    result.members = positions[result.members]
    return result


#: term operations of normal forms over cuts: with the large sums as variables these are few, or the proof fails
_SHORT_TERMS = 500_000
#: how often obligations that fail are taken away and the others proved again
_ROUNDS = 4


def _prove_by_cuts(
    arena: Arena, reference: np.ndarray, candidate: np.ndarray, budget: ProofBudget, deadline: float, doubt: Doubt | None
) -> list[ClassResult]:
    """The outputs that are proved with inner terms as variables (see ``cuts``); nothing for those that are not."""
    if not len(reference):
        return []
    cuts = find_cuts(arena, reference, candidate)
    for _ in range(_ROUNDS):
        if cuts is None or not len(cuts.members):
            return []
        first, second, group = cuts.obligations()
        view = cuts.view(arena)
        session = Session(view, first, second, budget, deadline, Depth.CANONICAL, cuts.leaves(arena, group))
        held = [r for r in session.run() if r.outcome is Outcome.EQUAL]
        open_ = np.ones(len(first), bool)
        for result in held:
            open_[result.members] = False
        if not open_.any():
            sides = cuts.twin_of(reference), cuts.twin_of(candidate)
            outputs = Session(view, *sides, budget, deadline, allowance=_SHORT_TERMS, doubt=doubt).run()
            return [r for r in outputs if r.outcome is Outcome.EQUAL and not r.narrower]
        cuts = cuts.without(np.unique(group[open_]))
    return []
