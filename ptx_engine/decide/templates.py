"""Exact proofs of columns of outputs: one template for each class of outputs of one form, one proof for each template.

EQUAL holds over the reals at every point where both sides are defined, under the class's stated assumptions. DIFFERENT
says that the normal forms differ where that decides (polynomials, quotients, exponentials): a suspicion for the caller,
since only a real witness refutes. UNKNOWN carries its reason; budgets running out is one.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from ptx_engine.decide.budget import Meter, ProofBudget, Undecided
from ptx_engine.decide.columns import Columns, HashCollision
from ptx_engine.decide.cuts import find_cuts
from ptx_engine.decide.normal_difference import Difference, NormalForm
from ptx_engine.decide.proof import Proof, canonical_forms, canonical_proofs, prove_template
from ptx_engine.decide.term_view import TermView
from ptx_engine.decide.walk import INPUT, SplitClass, Template, Walker
from ptx_engine.terms.arena import CONST_CAP, NAN, UNDEF, Arena

__all__ = ["ClassResult", "Outcome", "ProofBudget", "prove_columns"]

_SEEDS = 4
_LARGE_TABLE = 1 << 22  # ids; larger tables are looked through only where lanes are permuted
_LATE_SPLITS = 32  # a class whose full proof failed is not split into more parts than that


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
    #: how the candidate is undefined on more than the reference, as far as shown; "" if it is not
    narrower: str = ""
    #: position of this class's first member among the columns of its template (classes of one output share one)
    offset: int = field(default=0, repr=False)


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
def prove_cheaply(arena: Arena, reference: np.ndarray, candidate: np.ndarray, budget: ProofBudget) -> list[ClassResult]:
    """The outputs that canonical forms prove, with shared inner terms as variables first and whole terms then; only EQUAL."""
    left, right = np.asarray(reference, np.int32).ravel(), np.asarray(candidate, np.int32).ravel()
    deadline = time.monotonic() + budget.seconds
    results = _prove_by_cuts(arena, left, right, budget, deadline)
    rest = _unproved(len(left), results)
    if len(rest) and not results:
        whole = _Session(arena, left[rest], right[rest], budget, deadline, Depth.CANONICAL, patient=False).run()
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
    deadline = time.monotonic() + budget.seconds
    return [_moved(r, rest) for r in _Session(arena, left[rest], right[rest], budget, deadline).run()]


def prove_normal_forms(arena: Arena, reference: np.ndarray, candidate: np.ndarray, budget: ProofBudget) -> list[ClassResult]:
    """``prove_columns`` for outputs on which canonical forms have been tried."""
    return sorted(prove_rest(arena, reference, candidate, budget, []), key=lambda r: int(r.members[0]))


def _unproved(count: int, results: list[ClassResult]) -> np.ndarray:
    open_ = np.ones(count, bool)
    for result in results:
        open_[result.members] = False
    return np.flatnonzero(open_)


def _moved(result: ClassResult, positions: np.ndarray) -> ClassResult:
    """A result over a selection of the outputs, over all of them."""
    result.members = positions[result.members]
    return result


#: how often obligations that fail are taken away and the others proved again
_ROUNDS = 4


def _prove_by_cuts(arena: Arena, reference: np.ndarray, candidate: np.ndarray, budget: ProofBudget, deadline: float) -> list[ClassResult]:
    """The outputs that are proved with inner terms as variables (see ``cuts``); nothing for those that are not."""
    if not len(reference):
        return []
    cuts = find_cuts(arena, reference, candidate)
    for _ in range(_ROUNDS):
        if cuts is None or not len(cuts.members):
            return []
        first, second, group = cuts.obligations()
        view = cuts.view(arena)
        session = _Session(view, first, second, budget, deadline, Depth.CANONICAL, cuts.leaves(arena, group))
        held = [r for r in session.run() if r.outcome is Outcome.EQUAL]
        open_ = np.ones(len(first), bool)
        for result in held:
            open_[result.members] = False
        if not open_.any():
            outputs = _Session(view, cuts.twin_of(reference), cuts.twin_of(candidate), budget, deadline, Depth.CANONICAL).run()
            return [r for r in outputs if r.outcome is Outcome.EQUAL]
        cuts = cuts.without(np.unique(group[open_]))
    return []


class SplitConstants(Exception):
    """The class is to be proved again with constants told apart that a variable stood for."""


class Depth(Enum):
    """CANONICAL stops where the canonical forms differ; FULL goes on to normal forms."""

    CANONICAL = "canonical"
    FULL = "full"


class _Session:
    def __init__(
        self, arena: TermView, reference: np.ndarray, candidate: np.ndarray, budget: ProofBudget, deadline: float,
        depth: Depth = Depth.FULL, leaves: np.ndarray | None = None, patient: bool = True,
    ) -> None:  # fmt: skip
        self._patient = patient  # whether a class whose proof fails is split by how its inputs coincide
        self._depth = depth
        self._leaves = leaves
        self._arena = arena
        self._sides = np.stack([reference.ravel(), candidate.ravel()])
        self._budget = budget
        self._deadline = deadline
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
            except SplitConstants:
                waiting.append((members, True))
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
        codes = kind[0] << 32 | kind[1]
        if (codes == codes[0]).all():
            return [(self._rest, False)]
        _, labels = np.unique(codes, return_inverse=True)
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
        template = self._walk(members, self._roots(members), len(members), meter, split_constants)
        canonical = canonical_forms(self._arena, template, meter)
        if canonical_proofs(canonical, template, self._pairs()):
            self._store(members, Proof("equal"))
            return
        if self._depth is Depth.CANONICAL:
            if self._patient:
                self._split(template, split_constants)
            raise Undecided("canonical forms differ")
        if _permuted(template):
            self._split(template, split_constants)
        (proof,) = prove_template(self._whole(), template, [(0, 1)], meter, canonical)
        if proof.outcome != "equal":
            self._split(template, split_constants, _LATE_SPLITS)
        self._store(members, proof)

    def _split(self, template: Template, split_constants: bool, most: int | None = None) -> None:
        """Raise where finer classes, ``most`` at most, may be proved although this one is not."""
        if template.generalised and not split_constants:
            raise SplitConstants
        if template.columns.outputs > 1:
            labels = _coincidences(template)
            if labels.any() and (most is None or int(labels.max()) < most):
                raise SplitClass(labels)

    def _whole(self) -> Arena:
        """The arena itself: normal forms are made of whole terms only."""
        assert isinstance(self._arena, Arena)
        return self._arena

    def _roots(self, members: np.ndarray) -> np.ndarray:
        """The root columns of a class: both sides, and the leaf that a cut member may come out as."""
        sides = self._sides[:, members]
        return sides if self._leaves is None else np.vstack([sides, self._leaves[None, members]])

    def _pairs(self, count: int = 1) -> list[tuple[int, int]]:
        """Root pairs (of ``count`` outputs laid end to end), either of which proves an output."""
        pairs = [(i, count + i) for i in range(count)]
        return pairs if self._leaves is None else pairs + [(count + i, 2 * count + i) for i in range(count)]

    def _singles(self) -> None:
        """Outputs that are alone in their class share one template, in which inputs are themselves the variables."""
        if not self._alone:
            return
        members = np.array(sorted(self._alone), np.int64)
        meter = Meter(self._budget, self._deadline)
        try:
            roots = self._roots(members).reshape(-1, 1)
            template = self._walk(members, roots, 1, meter, True)
            count = len(members)
            pairs = self._pairs(count)
            canonical = canonical_forms(self._arena, template, meter)
            known = {n % count: proof for n, proof in canonical_proofs(canonical, template, pairs).items()}
            rest = [n for n in range(count) if n not in known]
            if rest and self._depth is Depth.FULL:
                known.update(zip(rest, prove_template(self._whole(), template, [pairs[n] for n in rest], meter, canonical)))
            for number, member in enumerate(members):
                self._store(np.array([member], np.int64), known.get(number) or Proof("unknown", "canonical forms differ"))
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
                proof.narrower,
            )
        )


def _coincidences(template: Template) -> np.ndarray:
    """Labels (outputs,) of outputs whose input columns coincide alike.

    A template takes columns of inputs for independent variables. Where two columns hold the same inputs in another order
    (lanes of a butterfly), which of them coincide differs from output to output, and equality may rest on it. Labels are
    hashes: a collision leaves outputs in one class, which is only less precise.
    """
    columns = template.columns
    leaves = _overlapping(template)
    outputs = columns.outputs
    if not leaves or (len(leaves) * outputs > _LARGE_TABLE and not _permuted(template)):
        return np.zeros(outputs, np.intp)
    table = np.stack([columns.blocks(n)[columns.partitions[columns.part_of(n)].inverse] for n in leaves], axis=1)
    order = np.argsort(table, axis=1, kind="stable")
    ranked = np.take_along_axis(table, order, axis=1)
    starts = np.hstack([np.ones((outputs, 1), bool), ranked[:, 1:] != ranked[:, :-1]])
    # the first leaf (in template order) of each run of equal inputs names the run
    first = np.maximum.accumulate(np.where(starts, np.arange(len(leaves)), 0), axis=1)
    names = np.empty_like(order)
    np.put_along_axis(names, order, np.take_along_axis(order, first, axis=1), axis=1)
    weights = np.random.default_rng(0xC01).integers(-(2**63), 2**63, len(leaves), dtype=np.int64)
    _, labels = np.unique(names @ weights, return_inverse=True)
    return np.asarray(labels.reshape(-1))


def _permuted(template: Template) -> bool:
    """Whether two input columns hold the same inputs in different orders, as the lanes of a butterfly do."""
    columns = template.columns
    seen: dict[tuple[int, bytes], int] = {}
    for node, op in enumerate(template.ops):
        if op == INPUT and columns.part_of(node):
            ids = columns.blocks(node)
            key = columns.part_of(node), np.sort(ids).tobytes()
            if key in seen:
                return True
            seen[key] = node
    return False


def _overlapping(template: Template) -> list[int]:
    """The input columns that share an input with another one; columns of inputs of their own cannot coincide."""
    columns = template.columns
    leaves = [node for node, op in enumerate(template.ops) if op == INPUT]
    distinct = [np.unique(columns.blocks(n)) if columns.part_of(n) else columns.blocks(n) for n in leaves]
    if not distinct:
        return []
    _, inverse, counts = np.unique(np.concatenate(distinct), return_inverse=True, return_counts=True)
    ends = np.cumsum([len(ids) for ids in distinct])
    shared = np.add.reduceat((counts[inverse] > 1).astype(np.int64), np.concatenate(([0], ends[:-1])))
    return [node for node, count in zip(leaves, shared.tolist()) if count]
