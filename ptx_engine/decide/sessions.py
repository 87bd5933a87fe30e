"""One proof session: output columns sorted into classes of one form, one template and one proof for each.

A class whose outputs turn out to differ in form, in the values of constants, or in which of their inputs coincide, is
split and its parts proved apart; outputs that are left alone share one template, in which inputs are the variables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from ptx_engine.decide.budget import Meter, ProofBudget, Undecided
from ptx_engine.decide.canonical import Canonical
from ptx_engine.decide.coincidence import coincidences, permuted
from ptx_engine.decide.columns import Columns, HashCollision, numbered
from ptx_engine.decide.cuts import CutView
from ptx_engine.decide.dot_lists import DotLists
from ptx_engine.decide.normal_difference import Difference, NormalForm
from ptx_engine.decide.normal_reuse import Pool
from ptx_engine.decide.proof import Proof, canonical_forms, canonical_proofs, moment_proofs, prove_template
from ptx_engine.decide.walk import SplitClass, Template, Walker
from ptx_engine.terms.arena import CONST_CAP, NAN, UNDEF, Arena

_SEEDS = 4
_TOGETHER = 3  # classes of one size from which on they are walked together
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


class SplitConstants(Exception):
    """The class is to be proved again with constants told apart that a variable stood for."""


class Doubt:
    """A look at numbers, taken once: when the proof of a class has failed, and the next ones may fail as dearly."""

    def __init__(self, look: Callable[[int], bool]) -> None:
        self._look = look  # whether the sides of an output, given by its position, differ
        self._taken = False
        self.confirmed = False

    def at(self, position: int) -> bool:
        """Whether outputs differ, so that further proofs are not to be tried before that is settled."""
        if not self._taken:
            self._taken = True
            self.confirmed = self._look(position)
        return self.confirmed


class Depth(Enum):
    """CANONICAL stops where the canonical forms differ; FULL goes on to normal forms."""

    CANONICAL = "canonical"
    FULL = "full"


class Session:
    def __init__(
        self, arena: "Arena | CutView", reference: np.ndarray, candidate: np.ndarray, budget: ProofBudget, deadline: float,
        depth: Depth = Depth.FULL, leaves: np.ndarray | None = None, patient: bool = True, allowance: int | None = None,
        doubt: Doubt | None = None, apart: bool = False,
    ) -> None:  # fmt: skip
        self._singly = apart  # no classes: every output is proved by itself, from one template
        self._doubt = doubt
        self._patient = patient  # whether a class whose proof fails is split by how its inputs coincide
        self._allowance = allowance  # term operations left for all normal forms together; None: as the budget has it
        self._walked_together = False  # whether classes of one size have been walked together
        self._alike = False  # whether the last class was proved by its normal form, within the allowance
        self._pool: Pool | None = None  # the forms of such classes
        self._depth = depth
        self._leaves = leaves
        self._arena = arena
        self._sides = np.stack([reference.ravel(), candidate.ravel()])
        self._budget = budget
        self._deadline = deadline
        self._lists: DotLists | None = None
        self._results: list[ClassResult] = []
        self._alone: list[int] = []

    def run(self) -> list[ClassResult]:
        self._trivial()
        if self._singly:
            self._alone = self._rest.tolist()
        waiting = [] if self._singly else self._first_classes()
        while waiting:
            members, split_constants = waiting.pop()
            if len(members) == 1:
                self._alone.append(int(members[0]))
                continue
            try:
                self._prove(members, split_constants)
            except SplitClass as split:
                waiting.extend((members[part], split_constants) for part in _parts(split.labels))
            except SplitConstants:
                waiting.append((members, True))
            except Undecided as reason:
                self._results.append(ClassResult(members, Outcome.UNKNOWN, str(reason)))
            if self._doubt is not None and self._failed() and self._doubt.at(int(self._results[-1].members[0])):
                return self._results
            if self._alike:
                waiting = self._together(waiting)
        self._singles()
        return sorted(self._results, key=lambda r: int(r.members[0]))

    def _failed(self) -> bool:
        """Whether the class that was looked at last is not proved."""
        return bool(self._results) and self._results[-1].outcome is not Outcome.EQUAL

    def _trivial(self) -> None:
        """Outputs that are one and the same term, and outputs that are no value."""
        reference, candidate = self._sides
        undefined = ((reference == NAN) | (reference == UNDEF)) | ((candidate == NAN) | (candidate == UNDEF))
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
        whole = len(self._rest) == self._sides.shape[1]
        ids = self._sides if whole else self._sides[:, self._rest]
        if int(ids.min()) >= CONST_CAP:
            codes = op[ids]
            if (codes == codes[:, :1]).all():
                return [(self._rest, False)]
        kind = np.where(ids < 0, 255, op[np.maximum(ids, 0)]).astype(np.int64)
        kind = np.where((ids >= 0) & (ids < CONST_CAP), 1000 + ids, kind)
        present = np.flatnonzero(np.bincount(kind.reshape(-1)))
        place = np.zeros(int(present[-1]) + 1, np.int64)
        place[present] = np.arange(len(present))
        first, labels = numbered(place[kind[0]] * len(present) + place[kind[1]])
        if len(first) == 1:
            return [(self._rest, False)]
        return [(self._rest[part], False) for part in _parts(labels)]

    def _walk(self, members: np.ndarray, roots: np.ndarray, outputs: int, meter: Meter, split_constants: bool) -> Template:
        for seed in range(_SEEDS):
            try:
                return Walker(self._arena, Columns(outputs, seed), meter, split_constants, self._dot_lists).run(roots)
            except HashCollision:
                continue
        raise Undecided(f"no collision-free hash for {len(members)} outputs")

    def _dot_lists(self) -> DotLists:
        """The operand lists of the arena's products, made when the first product is met."""
        if self._lists is None:
            arena = self._arena
            self._lists = DotLists(arena.dots, lambda ids: ids) if isinstance(arena, Arena) else arena.dot_lists()
        return self._lists

    def _prove(self, members: np.ndarray, split_constants: bool) -> None:
        meter = Meter(self._budget, self._deadline)
        template = self._walk(members, self._roots(members), len(members), meter, split_constants)
        if self._alike and self._proved_like_the_last(members, template, meter):
            return
        if self._leaves is None and moment_proofs(self._arena, template, self._pairs(), meter):
            self._store(members, Proof("equal"))
            return
        canonical = canonical_forms(self._arena, template, meter)
        if canonical_proofs(canonical, template, self._pairs()):
            self._store(members, Proof("equal"))
            return
        if self._shallow():
            if self._patient:
                self._split(template, split_constants)
            raise Undecided("canonical forms differ")
        if permuted(template):
            self._split(template, split_constants)
        (proof,) = self._normal(template, [(0, 1)], meter, canonical)
        if proof.outcome != "equal":
            self._split(template, split_constants, _LATE_SPLITS if self._allowance is None else None)
        self._alike = self._allowance is not None and proof.outcome == "equal"
        self._store(members, proof)

    def _proved_like_the_last(self, members: np.ndarray, template: Template, meter: Meter) -> bool:
        """Where the last class needed its normal form, the next one is tried with that first (rows of a causal mask), and with
        the forms of those before it."""
        proof = self._pooled(template, (template.roots[0], template.roots[1]))
        if proof.outcome != "equal":
            (proof,) = self._normal(template, [(0, 1)], meter, None)
        self._alike = proof.outcome == "equal"
        if self._alike:
            self._store(members, proof)
        return self._alike

    def _together(self, waiting: list[tuple[np.ndarray, bool]]) -> list[tuple[np.ndarray, bool]]:
        """Classes of the size of the last one, which needed its normal form: walked at once, as one template over as many outputs with
        the roots of all of them, each then proved by its own two. Returns the classes that are left: that template says as much of
        a class as its own would, but what it does not prove is looked at alone."""
        size = len(self._results[-1].members)
        alike = [i for i, (members, split_constants) in enumerate(waiting) if len(members) == size and not split_constants]
        alike.reverse()  # as they would be looked at alone: of rows that grow, each finds what was pulled out of the one before it
        if len(alike) < _TOGETHER or self._walked_together:
            return waiting
        self._walked_together = True  # whatever comes of it, it is not tried again
        classes = np.stack([waiting[i][0] for i in alike])
        meter = Meter(self._budget, self._deadline)
        try:
            template = self._walk(classes[0], self._sides[:, classes].reshape(-1, size), size, meter, False)
        except (SplitClass, Undecided):
            return waiting
        done = set()
        for i, members, *roots in zip(alike, classes, template.roots, template.roots[len(alike) :]):
            proof = self._pooled(template, (roots[0], roots[1]))
            if proof.outcome == "equal":
                self._store(members, proof)
                done.add(i)
        return [entry for i, entry in enumerate(waiting) if i not in done]

    def _pooled(self, template: Template, roots: tuple[int, int]) -> Proof:
        """The proof from forms that earlier classes had, within the allowance."""
        arena, partial = self._whole_arena()
        if self._pool is None:
            self._pool = Pool(arena, partial, Meter(self._budget, self._deadline))
        meter = self._pool.meter
        with self._allowed(meter):
            return self._pool.prove(template, roots)

    def _whole_arena(self) -> tuple[Arena, bool]:
        """The arena without cuts, and whether a cut may stand for a term that is undefined somewhere."""
        return (self._arena, True) if isinstance(self._arena, Arena) else (self._arena.arena, self._arena.partial)

    @contextmanager
    def _allowed(self, meter: Meter) -> Iterator[None]:
        """What is spent inside comes off the allowance, where there is one."""
        if self._allowance is None:
            yield
            return
        before = meter.spent
        try:
            with meter.at_most(self._allowance):
                yield
        finally:
            self._allowance = max(0, self._allowance - (meter.spent - before))

    def _shallow(self) -> bool:
        """Whether canonical forms are all that is tried."""
        return self._depth is Depth.CANONICAL or self._allowance == 0

    def _normal(self, template: Template, pairs: list[tuple[int, int]], meter: Meter, canonical: Canonical | None) -> list[Proof]:
        """Proofs by normal forms, within the allowance."""
        arena, partial = self._whole_arena()
        with self._allowed(meter):
            return prove_template(arena, template, pairs, meter, canonical, partial)

    def _split(self, template: Template, split_constants: bool, most: int | None = None) -> None:
        """Raise where finer classes, ``most`` at most, may be proved although this one is not."""
        if template.generalised and not split_constants:
            raise SplitConstants
        if template.columns.outputs > 1:
            labels = coincidences(template)
            if labels.any() and (most is None or int(labels.max()) < most):
                raise SplitClass(labels)

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
            moments = moment_proofs(self._arena, template, pairs, meter) if self._leaves is None else {}
            known = {n % count: proof for n, proof in moments.items()}
            canonical = canonical_forms(self._arena, template, meter) if len(known) < count else None
            known |= {n % count: proof for n, proof in canonical_proofs(canonical, template, pairs).items()}
            rest = [n for n in range(count) if n not in known]
            if rest and not self._shallow():
                known.update(zip(rest, self._normal(template, [pairs[n] for n in rest], meter, canonical)))
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


def _parts(labels: np.ndarray) -> list[np.ndarray]:
    """The places of each label, ascending; the last label first."""
    small = labels.astype(np.uint16) if int(labels.max()) < 1 << 16 else labels  # (sorted by their digits)
    order = np.argsort(small, kind="stable")
    bounds = np.flatnonzero(np.diff(labels[order])) + 1
    return np.split(order, bounds)[::-1]
