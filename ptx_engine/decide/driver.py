"""``decide``: footprints, fingerprints, exact proofs and witnesses, in the order that answers soonest.

Outputs whose fingerprints agree go to the exact prover; the others are screened in float64, and what differs there goes to
the search for a witness first. Nothing is refuted by a fingerprint or in float64, nothing is proved by numbers: what neither
proof nor witness settles is unknown, with the reason. Footprints are independent of the inputs: a difference refutes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
from gmpy2 import mpq

from ptx_engine.decide.budget import ProofBudget, clock, resident_bytes
from ptx_engine.decide.culprit import World
from ptx_engine.decide.domain import PARTIAL, Vanished, narrowed
from ptx_engine.decide.explain import explain
from ptx_engine.decide.fingerprint import DEFAULT_POINTS, Fingerprints
from ptx_engine.decide.names import storage_names
from ptx_engine.decide.near_constants import near_miss
from ptx_engine.decide.outputs import Reporter, State, Tensor, open_tensor, undefined_reason
from ptx_engine.decide.proof import EQUAL_WHERE
from ptx_engine.decide.sessions import Doubt
from ptx_engine.decide.templates import ClassResult, Outcome, prove_cheaply, prove_columns, prove_normal_forms
from ptx_engine.decide.unify import CONSTANTS_WITHIN_1_ULP, unified
from ptx_engine.decide.witness import Pair, Screen, approximated, differs, digits, is_undefined, rational_text, screen, search
from ptx_engine.launch import BoundLaunch, Footprint
from ptx_engine.terms.arena import CONST_CAP, NAN, Arena
from ptx_engine.terms.ops import Op
from ptx_engine.verdict import Method, OutputVerdict, Status, Verdict

#: float64 relative difference above which a pair goes to the witness search before it goes to the prover
_SUSPICIOUS = 1e-6
#: so many outputs are screened over a plan of their own; more share the fingerprints' plan
_FEW = 16
#: with more outputs or terms, an explanation looks at the differing pair only
_WORLD_OUTPUTS, _WORLD_TERMS = 1 << 18, 1 << 22
#: outputs looked at in float64 where fingerprints agree
_SAMPLE = 64
#: outputs looked at in float64 where fingerprints alone are to prove: in an arena of more terms than this, two neighbours, which
#: share most of their terms; else a sample
_SMALL_ARENA, _GLANCE = 1 << 18, 2
#: terms from which on an output is evaluated before any proof is tried, if there are exponentials
_DEAR_TERMS = 1 << 22
#: proved classes per tensor whose domains are compared
_DOMAIN_CLASSES = 64
#: refuted pairs of so many nodes at most are tried again with inputs that are positive, for so many seconds, if an operator is there
#: that signs matter to
_SMALL_PAIR, _SMALL_SECONDS = 64, 0.5
_SIGNED = {int(op) for op in (Op.MAX, Op.MIN, Op.ABS, Op.SQRT, Op.LOG2, Op.POW, Op.LT, Op.LE, Op.TRUNC, Op.FLOOR)}
#: representatives per tensor that a witness is searched for
_ATTEMPTS = 4


class Mode(Enum):
    """EXACT proves; FINGERPRINT takes agreeing fingerprints for equality, with a stated bound."""

    EXACT = "exact"
    FINGERPRINT = "fingerprint"


@dataclass(frozen=True, slots=True)
class Budget:
    """``seconds`` for all exact proofs together, ``terms`` per proof, ``mib`` of memory on top of what the process holds, and
    ``witness_seconds`` per output tensor. Seconds are CPU time of the deciding thread (see ``budget``)."""

    seconds: float = 60.0
    terms: int = 20_000_000
    mib: float = 2048.0
    witness_seconds: float = 5.0
    points: int = DEFAULT_POINTS
    seed: int = 0


Prover = Callable[[Arena, np.ndarray, np.ndarray, ProofBudget], "list[ClassResult]"]


def decide(
    arena: Arena,
    reference: dict[str, Footprint],
    candidate: dict[str, Footprint],
    *,
    launch: BoundLaunch | None = None,
    outputs: Sequence[str] | None = None,
    auxiliary: Sequence[str] = (),
    budget: Budget | None = None,
    mode: Mode = Mode.EXACT,
    assumptions: frozenset[str] = frozenset(),
    prover: Prover | None = None,
) -> Verdict:
    """Decide whether the candidate writes the reference's values to every compared tensor, for all real inputs.

    ``outputs`` names the tensors to compare (default: all that either side wrote), ``auxiliary`` tensors to leave out.
    ``launch`` names elements by multi-index in explanations. ``assumptions`` may hold ``constants-within-1-ulp``.
    """
    return _Decision(arena, launch, budget or Budget(), mode, assumptions, prover).run(reference, candidate, outputs, auxiliary)


class _Decision:
    def __init__(
        self, arena: Arena, launch: BoundLaunch | None, budget: Budget, mode: Mode, assumptions: frozenset[str], prover: Prover | None
    ) -> None:
        self.arena, self.budget, self.mode = arena, budget, mode
        self.requested = assumptions
        self.prover = prover or prove_columns
        self.report = Reporter(arena, launch)
        self.ledger: dict[str, None] = {}
        self.deadline = clock() + budget.seconds
        held = resident_bytes()
        self.bytes = held + int(budget.mib * (1 << 20)) if held else 0
        #: whether cheap proofs were given up because outputs differ in float64
        self.doubted = False
        self.prints: Fingerprints | None = None
        self.tensors: list[Tensor] = []
        self._world: World | None = None
        self.vanished: Vanished | None = None

    # --- the order of work ----------------------------------------------------------------------

    def run(
        self,
        reference: dict[str, Footprint],
        candidate: dict[str, Footprint],
        outputs: Sequence[str] | None,
        auxiliary: Sequence[str],
    ) -> Verdict:
        started = time.monotonic()
        names = outputs if outputs is not None else [*reference, *(name for name in candidate if name not in reference)]
        verdicts: list[OutputVerdict] = []
        tensors: list[Tensor] = []
        for name in names:
            if name in auxiliary:
                continue
            mine, theirs = reference.get(name, _EMPTY), candidate.get(name, _EMPTY)
            mismatch = self.report.footprint(name, mine, theirs)
            if mismatch is not None:
                verdicts.append(mismatch)
            else:
                tensors.append(open_tensor(name, mine, theirs))
        if CONSTANTS_WITHIN_1_ULP in self.requested:
            self._unify(tensors)
        if self.mode is Mode.EXACT and self.prover is prove_columns:
            self._prove_cheaply(tensors)
        self._fingerprint(tensors)
        self.tensors = tensors
        for tensor in tensors:
            self._settle(tensor)
        self._narrow_by_vanished()
        verdicts += [self.report.verdict_of(tensor, self.budget.points) for tensor in tensors]
        return self._summary(verdicts, started)

    def _prove_cheaply(self, tensors: list[Tensor], states: tuple[State, ...] = (State.UNKNOWN,), certain: bool = False) -> None:
        """What canonical forms prove needs neither fingerprints nor witnesses. All tensors together: they share inner terms.

        Unless it is ``certain`` which outputs differ: where some do in float64, the rest waits until that is settled. Failing
        proofs of large terms are dear.
        """
        waiting = [tensor.where(*states) for tensor in tensors]
        if not sum(map(len, waiting)):
            return
        left, right = (np.concatenate([side(t)[rows] for t, rows in zip(tensors, waiting)]) for side in (_reference, _candidate))
        first, inverse = distinct_pairs(left, right)
        left, right = left[first], right[first]
        doubt = Doubt(lambda position: self._differs(left[[position]], right[[position]]))
        if not certain and self._dear() and doubt.at(len(left) // 2):
            self.doubted = True
            return
        number = np.full(len(first), -1, np.int64)
        budget = ProofBudget(max(self.deadline - clock(), 0.0) / 2, self.budget.terms, self.bytes)
        results = prove_cheaply(self.arena, left, right, budget, None if certain else doubt)
        self.doubted = doubt.confirmed
        for i, result in enumerate(results):
            number[result.members] = i
            self.ledger.update(dict.fromkeys(result.assumptions))
        start = 0
        for tensor, rows in zip(tensors, waiting):
            mine = number[inverse[start : start + len(rows)]]
            start += len(rows)
            tensor.state[rows[mine >= 0]] = State.PROVED.value
            tensor.classes += len(np.unique(mine[mine >= 0]))

    def _dear(self) -> bool:
        """Whether a proof that fails takes far longer than evaluating an output: many terms, exponentials among them."""
        if len(self.arena) <= _DEAR_TERMS:
            return False
        op, *_ = self.arena.columns()
        return bool((op[np.array(self.arena.emissions)] == np.uint8(Op.EXP2)).any())  # (an emission is of one operator)

    def _differs(self, reference: np.ndarray, candidate: np.ndarray) -> bool:
        """Whether any of a few pairs of ids differs in float64."""
        return bool(_differing(screen(self.arena, reference, candidate, seed=self.budget.seed)).any())

    def _unify(self, tensors: list[Tensor]) -> None:
        """Replace the candidate's constants that are within a rounding of the reference's, and say which."""
        for tensor in tensors:
            rows = tensor.where(State.UNKNOWN)
            if len(rows):
                sides = tensor.reference[rows], tensor.candidate[rows]
                tensor.reference[rows], tensor.candidate[rows], lines = unified(self.arena, *sides)
                self.ledger.update(dict.fromkeys(lines))
                tensor.state[rows[tensor.reference[rows] == tensor.candidate[rows]]] = State.PROVED.value

    def _fingerprint(self, tensors: list[Tensor]) -> None:
        """Sort the open pairs of all tensors into matching and suspect ones."""
        waiting = [tensor.where(State.UNKNOWN) for tensor in tensors]
        ids = [side[rows] for tensor, rows in zip(tensors, waiting) for side in (tensor.reference, tensor.candidate)]
        if not sum(len(x) for x in ids):
            return
        self.prints = Fingerprints(self.arena, np.concatenate(ids), seed=self.budget.seed, points=self.budget.points)
        for tensor, rows in zip(tensors, waiting):
            same = (self.prints.of(tensor.reference[rows]) == self.prints.of(tensor.candidate[rows])).all(axis=1)
            tensor.state[rows] = np.where(same, State.MATCHED.value, State.SUSPECT.value)

    def _settle(self, tensor: Tensor) -> None:
        self._valueless(tensor)
        suspects = tensor.where(State.SUSPECT)
        held: np.ndarray = np.zeros(0, np.intp)
        if len(suspects):
            differing, alike = self._screen(tensor, suspects)
            if not len(differing):
                differing = self._closer(tensor, alike)
            if len(differing) and self._witness(tensor, differing):
                held = differing  # not worth a proof attempt: what differs in float64 beside a confirmed witness stays refuted
            tensor.state[held] = State.UNKNOWN.value
        if self.mode is Mode.FINGERPRINT:
            self._accept_matches(tensor)
        if self.doubted:
            self._prove_cheaply([tensor], (State.MATCHED, State.SUSPECT), certain=True)
        self._prove(tensor, tensor.where(State.MATCHED, State.SUSPECT))
        if tensor.found is None:
            self._last_resort(tensor)

    def _closer(self, tensor: Tensor, rows: np.ndarray) -> np.ndarray:
        """A few rows that a screen could not tell apart, looked at at more points: differences at ties only."""
        few = rows[np.unique(np.linspace(0, len(rows) - 1, _ATTEMPTS).astype(np.intp))]
        pairs = (Pair(self.arena, int(tensor.reference[row]), int(tensor.candidate[row])) for row in few)
        return few[[differs(pair) for pair in pairs]]

    def _valueless(self, tensor: Tensor) -> None:
        """A candidate that is NaN whatever the inputs are is refuted where the reference is a number."""
        rows = tensor.where(State.UNDEFINED)
        rows = rows[(tensor.candidate[rows] == NAN) & ~is_undefined(tensor.reference[rows])]
        if len(rows):
            self._witness(tensor, rows)

    def _screen(self, tensor: Tensor, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows that differ in float64, in order, and those that do not."""
        order = self.prints.plan if self.prints is not None and len(rows) > _FEW else None
        result = screen(self.arena, tensor.reference[rows], tensor.candidate[rows], seed=self.budget.seed, order=order)
        differing = _differing(result)
        seen = result.difference[~np.isnan(result.difference) & ~differing]
        if len(seen):
            tensor.difference = max(tensor.difference or 0.0, float(seen.max()))
        return rows[differing], rows[~differing]

    def _accept_matches(self, tensor: Tensor) -> None:
        """FINGERPRINT mode: matches are accepted unless a sample of them differs in float64."""
        rows = tensor.where(State.MATCHED)
        if not len(rows):
            return
        middle = min(len(rows) // 2, len(rows) - 1) & ~1  # (outputs of one row, where rows have an even length)
        few = len(self.arena) > _SMALL_ARENA
        sample = rows[middle : middle + _GLANCE] if few else rows[np.unique(np.linspace(0, len(rows) - 1, _SAMPLE).astype(np.intp))]
        if len(self._screen(tensor, sample)[0]):
            differing, alike = self._screen(tensor, rows)  # all of them, for the map
            if not self._witness(tensor, differing):
                return
            tensor.state[differing] = State.UNKNOWN.value
            rows = alike
        if self._partial() and narrowed(self.arena, tensor.reference[sample[:1]], tensor.candidate[sample[:1]], seed=self.budget.seed):
            return
        tensor.state[rows] = State.PROVED.value
        points = self.budget.points
        self.ledger[f"fingerprints agree at {points} points: a difference of degree d is missed with probability (d / 2^29)^{points}"] = (
            None
        )

    def _prove(self, tensor: Tensor, rows: np.ndarray) -> None:
        """Exact proofs of the given rows, each distinct pair once."""
        if not len(rows):
            return
        first, inverse = distinct_pairs(tensor.reference[rows], tensor.candidate[rows])
        left = self.deadline - clock()
        if left <= 0:
            tensor.say("exact budget ran out (time)")
            return
        distinct = rows[first]
        prover = prove_normal_forms if self.prover is prove_columns else self.prover  # canonical forms were tried on everything
        budget = ProofBudget(left, self.budget.terms, self.bytes)
        results = prover(self.arena, tensor.reference[distinct], tensor.candidate[distinct], budget)
        proved = np.zeros(len(distinct), bool)
        for result in results:
            tensor.classes += 1
            if result.outcome is Outcome.EQUAL:
                proved[np.asarray(result.members)] = True
                self.ledger.update(dict.fromkeys(result.assumptions))
            else:
                tensor.say(result.reason)
        tensor.state[rows[proved[inverse]]] = State.PROVED.value
        tensor.state[rows[self._narrowed(tensor, distinct, results)[inverse]]] = State.NARROWED.value

    def _narrowed(self, tensor: Tensor, rows: np.ndarray, results: list[ClassResult]) -> np.ndarray:
        """Which rows are in classes whose candidate is undefined where the reference is not, or is not shown to be defined there
        (one member of each is tried)."""
        narrow = np.zeros(len(rows), bool)
        for result in results:
            if result.outcome is Outcome.EQUAL and result.narrower:
                narrow[np.asarray(result.members)] = True
                tensor.say(f"equal where both sides are defined, but {result.narrower}, which the reference does not")
        equal = [result.members for result in results if result.outcome is Outcome.EQUAL][:_DOMAIN_CLASSES]
        if not equal or not self._partial():
            return narrow
        first = rows[[int(members[0]) for members in equal]]
        for position, inputs, value in narrowed(self.arena, tensor.reference[first], tensor.candidate[first], seed=self.budget.seed):
            narrow[np.asarray(equal[position])] = True
            tensor.say(
                "equal where both sides are defined, but the candidate takes a root or logarithm of a negative number at real inputs "
                f"where the reference is defined ({self._shown(inputs)}: reference {digits(value, 6)})"
            )
        return narrow

    def _narrow_by_vanished(self) -> None:
        """Nothing is proved where what vanished as the terms were made has no value at inputs at which the reference has one."""
        proved = [tensor.candidate[tensor.where(State.PROVED)] for tensor in self.tensors]
        self.vanished = Vanished(self.arena, np.concatenate([*(tensor.reference for tensor in self.tensors), *proved, _NO_IDS]))
        inputs = self.vanished.narrows([tensor.reference for tensor in self.tensors], seed=self.budget.seed)
        for tensor in self.tensors if inputs is not None else ():
            tensor.state[tensor.where(State.PROVED)] = State.NARROWED.value
            tensor.say(
                "equal where all that was computed is defined, but something that vanished beside a zero or an infinity takes a root, "
                f"logarithm or quotient that has no value where the reference has one ({self._shown(inputs or {})})"
            )

    def _shown(self, inputs: dict[int, mpq]) -> str:
        name_of = storage_names(self.arena)
        shown = ", ".join(f"{name_of(i)}={rational_text(x)}" for i, x in list(inputs.items())[:4])
        return shown + (", ..." if len(inputs) > 4 else "")

    def _partial(self) -> bool:
        """Whether any term has an operator that is undefined on more than isolated points."""
        return self.prints is not None and bool(np.isin(self.prints.plan.codes, PARTIAL).any())

    def _last_resort(self, tensor: Tensor) -> None:
        """What no proof settled: numbers for the report, and a witness if there is one after all."""
        rows = tensor.where(State.MATCHED, State.SUSPECT, State.UNKNOWN)
        if not len(rows):
            return
        sample = rows[np.unique(np.linspace(0, len(rows) - 1, _SAMPLE).astype(np.intp))]
        differing, _ = self._screen(tensor, sample)
        suspects = tensor.where(State.SUSPECT)
        attempts = np.concatenate((differing, suspects[:1], rows[:1]))
        self._witness(tensor, attempts[np.sort(np.unique(attempts, return_index=True)[1])])

    # --- witnesses ------------------------------------------------------------------------------

    def _witness(self, tensor: Tensor, rows: np.ndarray) -> bool:
        """Search a witness for the first few rows; a confirmed one is explained and kept."""
        deadline = clock() + self.budget.witness_seconds
        for row in rows[:_ATTEMPTS]:
            left = deadline - clock()
            if left <= 0:
                break
            pair = Pair(self.arena, int(tensor.reference[row]), int(tensor.candidate[row]))
            world = self._landscape()
            explained = explain(self.arena, pair.reference, pair.candidate, self.report.element_name, pair.one_sided, world)
            found = search(pair, explained.hints, seconds=left) or pair.valueless()
            if found is None:
                tensor.say(undefined_reason(pair))
                continue
            near = near_miss(pair, found) if found.relative < math.inf else None
            if near is not None:
                tensor.say(self.report.near_reason(near))
                continue
            distance = approximated(pair, found)
            if distance is not None:
                tensor.say(f"one side approximates a function of the other; they differ by at most {distance:.1e} relative, as far as seen")
                continue
            place = world.place_of(pair.candidate) if world is not None and pair.candidate >= CONST_CAP else None
            explanation = explained.explanation if place is None else self.report.elsewhere(place, explained.explanation)
            if pair.candidate < 0:  # an input as it is: no operation is to blame, neither side's
                explanation = replace(explanation, reference_origin=None)
            where = self._equal_where(pair) if found.relative < math.inf else ""
            if where:
                explanation = replace(explanation, text=f"{explanation.text}; {where}")
            self.report.keep(tensor, int(tensor.index[row]), pair, found, explanation)
            return True
        return False

    def _equal_where(self, pair: Pair) -> str:
        """Of which inputs it would be enough that they are positive, where that is so and quickly seen."""
        if len(pair.cone.nodes) > _SMALL_PAIR or not set(pair.cone.plan.codes.tolist()) & _SIGNED:
            return ""
        reference, candidate = (np.array([ident], np.int32) for ident in (pair.reference, pair.candidate))
        results = prove_normal_forms(self.arena, reference, candidate, ProofBudget(_SMALL_SECONDS, self.budget.terms, self.bytes))
        return EQUAL_WHERE + results[0].reason.split(EQUAL_WHERE)[1] if EQUAL_WHERE in results[0].reason else ""

    def _landscape(self) -> World | None:
        """What the reference computes at all; None where that is too much to look at for an explanation."""
        if self._world is None and sum(len(t.index) for t in self.tensors) <= _WORLD_OUTPUTS and len(self.arena) <= _WORLD_TERMS:
            outputs = [(t.name, t.index, t.reference) for t in self.tensors]
            self._world = World(self.arena, outputs, np.concatenate([t.candidate for t in self.tensors]))
        return self._world

    def _summary(self, verdicts: list[OutputVerdict], started: float) -> Verdict:
        statuses = {verdict.status for verdict in verdicts}
        order = (Status.REFUTED, Status.UNKNOWN, Status.PROVED)
        status = next((s for s in order if s in statuses), Status.UNKNOWN)
        first = next((verdict for verdict in verdicts if verdict.status is status and status is not Status.PROVED), None)
        reason = "nothing is compared" if not verdicts else (f"{first.tensor}: {first.reason}" if first is not None else "")
        ledger = {"real arithmetic": None, **self.arena.assumptions, **self.ledger}
        ledger.update(dict.fromkeys(self.vanished.lines() if self.vanished is not None else ()))
        if self.arena.opaque_names:
            ledger["taken as functions of their arguments: " + ", ".join(self.arena.opaque_names)] = None
        method = Method.FINGERPRINT if self.mode is Mode.FINGERPRINT else Method.EXACT
        points = self.budget.points if self.prints is not None else 0
        return Verdict(status, method, verdicts, reason, list(ledger), time.monotonic() - started, points)


def _differing(result: Screen) -> np.ndarray:
    """Which pairs of a screen differ, or have a value on one side only."""
    return np.asarray((result.difference > _SUSPICIOUS) | (np.isnan(result.difference) & (result.one_sided > 0)))


def distinct_pairs(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the first of each pair of ids, and for every position the number of its pair."""
    if len(left) < 2 or bool((left[1:] > left[:-1]).all()):
        return np.arange(len(left)), np.arange(len(left))
    keys = left.astype(np.int64) << 32 | (right.astype(np.int64) & 0xFFFFFFFF)
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return first, inverse


def _reference(tensor: Tensor) -> np.ndarray:
    return tensor.reference


def _candidate(tensor: Tensor) -> np.ndarray:
    return tensor.candidate


_NO_IDS = np.zeros(0, np.int32)
_EMPTY = Footprint(np.zeros(0, np.int64), _NO_IDS)
