"""Exact proofs of columns of outputs: one template for each class of outputs of one form, one proof for each template.

EQUAL holds over the reals at every point where both sides are defined, under the class's stated assumptions. DIFFERENT
says that the normal forms differ where that decides (polynomials, quotients, exponentials): a suspicion for the caller,
since only a real witness refutes. UNKNOWN carries its reason; budgets running out is one.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from ptx_engine.decide.budget import Meter, ProofBudget, Undecided
from ptx_engine.decide.columns import Columns, HashCollision
from ptx_engine.decide.normal_difference import Difference, NormalForm
from ptx_engine.decide.proof import Proof, prove_template
from ptx_engine.decide.walk import INPUT, SplitClass, Template, Walker
from ptx_engine.terms.arena import CONST_CAP, NAN, UNDEF, Arena

__all__ = ["ClassResult", "Outcome", "ProofBudget", "prove_columns"]

_SEEDS = 4


class Outcome(Enum):
    """EQUAL is a proof; DIFFERENT a suspicion; UNKNOWN has a reason."""

    EQUAL = "equal"
    DIFFERENT = "different"
    UNKNOWN = "unknown"


@dataclass
class ClassResult:
    """The answer for one class. ``members`` (int64) are positions in the given columns; member i of ``members`` is member i
    for the forms' ``text`` and ``inputs``."""

    members: np.ndarray
    outcome: Outcome
    reason: str = ""
    reference_form: NormalForm | None = None
    candidate_form: NormalForm | None = None
    difference: Difference | None = None
    assumptions: tuple[str, ...] = ()
    #: position of this class's first member among the columns of its template (classes of one output share one)
    offset: int = field(default=0, repr=False)


def prove_columns(arena: Arena, reference: np.ndarray, candidate: np.ndarray, budget: ProofBudget) -> list[ClassResult]:
    """Prove output columns equal: int32 ids of the same outputs on both sides.

    Returns classes that cover all positions once, ordered by first member. Never raises for running out of budget.
    """
    return _Session(arena, np.asarray(reference, np.int32), np.asarray(candidate, np.int32), budget).run()


class _Session:
    def __init__(self, arena: Arena, reference: np.ndarray, candidate: np.ndarray, budget: ProofBudget) -> None:
        self._arena = arena
        self._sides = np.stack([reference.ravel(), candidate.ravel()])
        self._budget = budget
        self._deadline = time.monotonic() + budget.seconds
        self._results: list[ClassResult] = []
        self._alone: list[int] = []

    def run(self) -> list[ClassResult]:
        self._trivial()
        waiting = self._first_classes()
        while waiting:
            members, split_constants = waiting.pop()
            if len(members) == 1:
                self._alone.append(int(members[0]))
                continue
            try:
                self._prove(members, split_constants)
            except SplitClass as split:
                order = np.argsort(split.labels, kind="stable")
                bounds = np.flatnonzero(np.diff(split.labels[order])) + 1
                parts = np.split(members[order], bounds)
                waiting.extend((np.sort(part), split_constants) for part in reversed(parts))
            except Undecided as reason:
                self._results.append(ClassResult(members, Outcome.UNKNOWN, str(reason)))
        self._singles()
        return sorted(self._results, key=lambda r: int(r.members[0]))

    def _trivial(self) -> None:
        """Outputs that are one and the same term, and outputs that are no value."""
        reference, candidate = self._sides
        undefined = np.isin(self._sides, (NAN, UNDEF)).any(axis=0)
        if undefined.any():
            what = "an output is NaN or undefined"
            self._results.append(ClassResult(np.flatnonzero(undefined), Outcome.UNKNOWN, what))
        same = (reference == candidate) & ~undefined
        if same.any():
            self._results.append(ClassResult(np.flatnonzero(same), Outcome.EQUAL))
        self._rest = np.flatnonzero(~same & ~undefined)

    def _first_classes(self) -> list[tuple[np.ndarray, bool]]:
        """Classes by the operators of the outputs alone."""
        if not len(self._rest):
            return []
        op, _, _, _ = self._arena.columns()
        ids = self._sides[:, self._rest]
        kind = np.where(ids < 0, 255, op[np.maximum(ids, 0)]).astype(np.int64)
        kind = np.where((ids >= 0) & (ids < CONST_CAP), 1000 + ids, kind)
        _, labels = np.unique(kind, axis=1, return_inverse=True)
        labels = labels.reshape(-1)
        return [(self._rest[labels == label], False) for label in range(int(labels.max()), -1, -1)]

    def _walk(self, members: np.ndarray, roots: np.ndarray, outputs: int, meter: Meter, split_constants: bool) -> Template:
        for seed in range(_SEEDS):
            try:
                return Walker(self._arena, Columns(outputs, seed), meter, split_constants).run(roots)
            except HashCollision:
                continue
        raise Undecided(f"no collision-free hash for {len(members)} outputs")

    def _prove(self, members: np.ndarray, split_constants: bool) -> None:
        meter = Meter(self._budget, self._deadline)
        template = self._walk(members, self._sides[:, members], len(members), meter, split_constants)
        (proof,) = prove_template(self._arena, template, [(0, 1)], meter)
        if template.generalised and proof.outcome != "equal":
            self._prove(members, True)
            return
        if proof.outcome != "equal" and len(members) > 1:
            labels = _coincidences(template)
            if labels.any():
                raise SplitClass(labels)
        self._store(members, proof)

    def _singles(self) -> None:
        """Outputs that are alone in their class share one template, in which inputs are themselves the variables."""
        if not self._alone:
            return
        members = np.array(sorted(self._alone), np.int64)
        meter = Meter(self._budget, self._deadline)
        try:
            roots = self._sides[:, members].reshape(-1, 1)
            template = self._walk(members, roots, 1, meter, True)
            pairs = [(i, len(members) + i) for i in range(len(members))]
            for member, proof in zip(members, prove_template(self._arena, template, pairs, meter)):
                self._store(np.array([member], np.int64), proof)
        except Undecided as reason:
            self._results.extend(ClassResult(np.array([m], np.int64), Outcome.UNKNOWN, str(reason)) for m in members)

    def _store(self, members: np.ndarray, proof: Proof) -> None:
        self._results.append(
            ClassResult(
                members,
                Outcome(proof.outcome),
                proof.reason,
                proof.reference,
                proof.candidate,
                proof.difference,
                proof.assumptions,
            )
        )


def _coincidences(template: Template) -> np.ndarray:
    """Labels (outputs,) of outputs whose input columns coincide alike.

    A template takes columns of inputs for independent variables. Where two columns hold the same inputs in another order
    (lanes of a butterfly), which of them coincide differs from output to output, and equality may rest on it.
    """
    columns = template.columns
    leaves = [node for node, op in enumerate(template.ops) if op == INPUT]
    outputs = columns.outputs
    if not leaves:
        return np.zeros(outputs, np.intp)
    table = np.stack([columns.blocks(n)[columns.partitions[columns.part_of(n)].inverse] for n in leaves])
    order = np.argsort(table, axis=0, kind="stable")
    ranked = np.take_along_axis(table, order, axis=0)
    starts = np.vstack([np.ones((1, outputs), bool), ranked[1:] != ranked[:-1]])
    # the first leaf (in template order) of each run of equal inputs names the run
    first = np.maximum.accumulate(np.where(starts, np.arange(len(leaves))[:, None], 0), axis=0)
    name = np.take_along_axis(order, first, axis=0)
    names = np.empty_like(name)
    np.put_along_axis(names, order, name, axis=0)
    _, labels = np.unique(names, axis=1, return_inverse=True)
    return labels.reshape(-1)
