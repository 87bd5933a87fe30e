"""``decide``: footprints, fingerprints, exact proofs and witnesses, in the order that answers soonest.

Outputs whose fingerprints agree go to the exact prover; the others are screened in float64, and what differs there goes to
the search for a witness first. Nothing is refuted by a fingerprint or in float64, nothing is proved by numbers: what neither
proof nor witness settles is unknown, with the reason. Footprints are independent of the inputs: a difference refutes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from ptx_engine.decide.budget import ProofBudget
from ptx_engine.decide.explain import explain
from ptx_engine.decide.fingerprint import DEFAULT_POINTS, Fingerprints
from ptx_engine.decide.names import NameOf, element_names, storage_names
from ptx_engine.decide.regions import describe
from ptx_engine.decide.templates import ClassResult, Outcome, prove_columns
from ptx_engine.decide.unify import unified
from ptx_engine.decide.witness import Confirmed, Pair, digits, is_undefined, near_miss, rational_text, screen, search
from ptx_engine.launch import BoundLaunch, Footprint
from ptx_engine.terms.arena import Arena
from ptx_engine.terms.constants import ZERO
from ptx_engine.verdict import Explanation, Method, OutputVerdict, Status, Verdict, Witness

CONSTANTS_WITHIN_1_ULP = "constants-within-1-ulp"

#: float64 relative difference above which a pair goes to the witness search before it goes to the prover
_SUSPICIOUS = 1e-6
#: outputs looked at in float64 where fingerprints agree
_SAMPLE = 64
#: representatives per tensor that a witness is searched for
_ATTEMPTS = 4


class Mode(Enum):
    """EXACT proves; FINGERPRINT takes agreeing fingerprints for equality, with a stated bound."""

    EXACT = "exact"
    FINGERPRINT = "fingerprint"


@dataclass(frozen=True, slots=True)
class Budget:
    """``seconds`` for all exact proofs together, ``terms`` per proof, ``witness_seconds`` per output tensor."""

    seconds: float = 60.0
    terms: int = 20_000_000
    witness_seconds: float = 5.0
    points: int = DEFAULT_POINTS
    seed: int = 0


Prover = Callable[[Arena, np.ndarray, np.ndarray, ProofBudget], "list[ClassResult]"]


class _State(Enum):
    PROVED, MATCHED, SUSPECT, UNDEFINED, UNKNOWN = range(5)


@dataclass
class _Tensor:
    """One output tensor under decision; arrays run over its written elements."""

    name: str
    index: np.ndarray
    reference: np.ndarray
    candidate: np.ndarray
    state: np.ndarray  # int8 of _State
    classes: int = 0
    reasons: list[str] = field(default_factory=list)
    difference: float | None = None
    found: Confirmed | None = None
    witness: Witness | None = None
    explanation: Explanation | None = None

    def where(self, *states: _State) -> np.ndarray:
        return np.flatnonzero(np.isin(self.state, [state.value for state in states]))

    def say(self, reason: str) -> None:
        if reason and reason not in self.reasons:
            self.reasons.append(reason)


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
        self.arena, self.launch, self.budget, self.mode = arena, launch, budget, mode
        self.requested = assumptions
        self.prover = prover or prove_columns
        self.element_name: NameOf = element_names(launch) if launch is not None else storage_names(arena)
        self.ledger: dict[str, None] = {}
        self.deadline = time.monotonic() + budget.seconds
        self.prints: Fingerprints | None = None

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
        tensors: list[_Tensor] = []
        for name in names:
            if name in auxiliary:
                continue
            mine, theirs = reference.get(name, _EMPTY), candidate.get(name, _EMPTY)
            mismatch = self._footprint(name, mine, theirs)
            if mismatch is not None:
                verdicts.append(mismatch)
            else:
                tensors.append(_open(name, mine, theirs))
        if CONSTANTS_WITHIN_1_ULP in self.requested:
            self._unify(tensors)
        self._fingerprint(tensors)
        for tensor in tensors:
            self._settle(tensor)
            verdicts.append(self._verdict_of(tensor))
        return self._summary(verdicts, started)

    def _unify(self, tensors: list[_Tensor]) -> None:
        """Replace the candidate's constants that are within a rounding of the reference's, and say which."""
        for tensor in tensors:
            rows = tensor.where(_State.UNKNOWN)
            if len(rows):
                tensor.candidate[rows], lines = unified(self.arena, tensor.reference[rows], tensor.candidate[rows])
                self.ledger.update(dict.fromkeys(lines))
                tensor.state[rows[tensor.reference[rows] == tensor.candidate[rows]]] = _State.PROVED.value

    def _fingerprint(self, tensors: list[_Tensor]) -> None:
        """Sort the open pairs of all tensors into matching and suspect ones."""
        waiting = [tensor.where(_State.UNKNOWN) for tensor in tensors]
        ids = [side[rows] for tensor, rows in zip(tensors, waiting) for side in (tensor.reference, tensor.candidate)]
        if not sum(len(x) for x in ids):
            return
        self.prints = Fingerprints(self.arena, np.concatenate(ids), seed=self.budget.seed, points=self.budget.points)
        for tensor, rows in zip(tensors, waiting):
            same = (self.prints.of(tensor.reference[rows]) == self.prints.of(tensor.candidate[rows])).all(axis=1)
            tensor.state[rows] = np.where(same, _State.MATCHED.value, _State.SUSPECT.value)

    def _settle(self, tensor: _Tensor) -> None:
        suspects = tensor.where(_State.SUSPECT)
        held: np.ndarray = np.zeros(0, np.intp)
        if len(suspects):
            differing, _ = self._screen(tensor, suspects)
            if len(differing) and self._witness(tensor, differing):
                held = differing  # not worth a proof attempt: what differs in float64 beside a confirmed witness stays refuted
            tensor.state[held] = _State.UNKNOWN.value
        if self.mode is Mode.FINGERPRINT:
            self._accept_matches(tensor)
        self._prove(tensor, tensor.where(_State.MATCHED, _State.SUSPECT))
        if tensor.found is None:
            self._last_resort(tensor)

    def _screen(self, tensor: _Tensor, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows that differ in float64, in order, and those that do not."""
        result = screen(self.arena, tensor.reference[rows], tensor.candidate[rows], seed=self.budget.seed)
        differing = (result.difference > _SUSPICIOUS) | (np.isnan(result.difference) & (result.one_sided > 0))
        seen = result.difference[~np.isnan(result.difference) & ~differing]
        if len(seen):
            tensor.difference = max(tensor.difference or 0.0, float(seen.max()))
        return rows[differing], rows[~differing]

    def _accept_matches(self, tensor: _Tensor) -> None:
        """FINGERPRINT mode: matches are accepted unless a sample of them differs in float64."""
        rows = tensor.where(_State.MATCHED)
        if not len(rows):
            return
        sample = rows[np.unique(np.linspace(0, len(rows) - 1, _SAMPLE).astype(np.intp))]
        differing, _ = self._screen(tensor, sample)
        if len(differing):
            self._witness(tensor, differing)
            return
        tensor.state[rows] = _State.PROVED.value
        points = self.budget.points
        self.ledger[f"fingerprints agree at {points} points: a difference of degree d is missed with probability (d / 2^29)^{points}"] = (
            None
        )

    def _prove(self, tensor: _Tensor, rows: np.ndarray) -> None:
        """Exact proofs of the given rows, each distinct pair once."""
        if not len(rows) or (self.mode is Mode.FINGERPRINT and tensor.found is not None):
            return
        keys = tensor.reference[rows].astype(np.int64) << 32 | (tensor.candidate[rows].astype(np.int64) & 0xFFFFFFFF)
        _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        left = self.deadline - time.monotonic()
        if left <= 0:
            tensor.say("exact budget ran out (time)")
            return
        distinct = rows[first]
        results = self.prover(self.arena, tensor.reference[distinct], tensor.candidate[distinct], ProofBudget(left, self.budget.terms))
        proved = np.zeros(len(distinct), bool)
        for result in results:
            tensor.classes += 1
            if result.outcome is Outcome.EQUAL:
                proved[np.asarray(result.members)] = True
                self.ledger.update(dict.fromkeys(result.assumptions))
            else:
                tensor.say(result.reason)
        tensor.state[rows[proved[inverse]]] = _State.PROVED.value

    def _last_resort(self, tensor: _Tensor) -> None:
        """What no proof settled: numbers for the report, and a witness if there is one after all."""
        rows = tensor.where(_State.MATCHED, _State.SUSPECT, _State.UNKNOWN)
        if not len(rows):
            return
        sample = rows[np.unique(np.linspace(0, len(rows) - 1, _SAMPLE).astype(np.intp))]
        differing, _ = self._screen(tensor, sample)
        suspects = tensor.where(_State.SUSPECT)
        attempts = np.concatenate((differing, suspects[:1], rows[:1]))
        self._witness(tensor, attempts[np.sort(np.unique(attempts, return_index=True)[1])])

    # --- witnesses ------------------------------------------------------------------------------

    def _witness(self, tensor: _Tensor, rows: np.ndarray) -> bool:
        """Search a witness for the first few rows; a confirmed one is explained and kept."""
        deadline = time.monotonic() + self.budget.witness_seconds
        for row in rows[:_ATTEMPTS]:
            left = deadline - time.monotonic()
            if left <= 0:
                break
            pair = Pair(self.arena, int(tensor.reference[row]), int(tensor.candidate[row]))
            explained = explain(self.arena, pair.reference, pair.candidate, self.element_name, pair.one_sided)
            found = search(pair, explained.hints, seconds=left)
            if found is None:
                tensor.say(_undefined_reason(pair))
                continue
            near = near_miss(pair, found)
            if near is not None:
                tensor.say(self._near_reason(near.pairs))
                continue
            self._keep(tensor, int(tensor.index[row]), pair, found, explained.explanation)
            return True
        return False

    def _keep(self, tensor: _Tensor, index: int, pair: Pair, found: Confirmed, explanation: Explanation) -> None:
        name_of = storage_names(self.arena)
        listed = {i for i, value in found.inputs.items() if value != 0}
        if len(pair.cone.inputs) <= 16:
            listed |= set(pair.cone.inputs)
        inputs = {name_of(i): rational_text(found.inputs.get(i, ZERO.coef)) for i in sorted(listed, reverse=True)}
        tensor.found = found
        tensor.witness = Witness(tensor.name, index, inputs, digits(found.reference), digits(found.candidate))
        text = f"{self._output_name(tensor.name, index)}: {explanation.text}"
        tensor.explanation = Explanation(
            explanation.kind, text, explanation.missing, explanation.extra, explanation.missing_total, explanation.extra_total,
            explanation.reference_origin, explanation.candidate_origin, explanation.missing_inputs, explanation.extra_inputs,
        )  # fmt: skip

    def _near_reason(self, pairs: tuple[tuple[int, int, float], ...]) -> str:
        worst = max(pairs, key=lambda row: row[2])
        mine, theirs = (digits(self.arena.consts[i].value(80), 12) for i in worst[:2])
        return (
            f"equal except for constants that differ by {worst[2]:.1e} relative (reference {mine}, candidate {theirs}); "
            f"the assumption {CONSTANTS_WITHIN_1_ULP} would unify them"
        )

    # --- verdicts -------------------------------------------------------------------------------

    def _footprint(self, name: str, mine: Footprint, theirs: Footprint) -> OutputVerdict | None:
        """Refuted if the two sides write different elements, unknown if neither writes any."""
        if len(mine.index) == 0 and len(theirs.index) == 0:
            return OutputVerdict(name, Status.UNKNOWN, 0, reason="neither side writes this tensor")
        if np.array_equal(mine.index, theirs.index):
            return None
        missing, extra = np.setdiff1d(mine.index, theirs.index), np.setdiff1d(theirs.index, mine.index)
        parts = [
            f"{len(part)} elements that the {who} ({self._region(name, part)})"
            for part, who in (
                (missing, "reference writes and the candidate does not"),
                (extra, "candidate writes and the reference does not"),
            )
            if len(part)
        ]
        names = [tuple(self._output_name(name, int(i)) for i in part[:16]) for part in (missing, extra)]
        explanation = Explanation("footprint", "; ".join(parts), names[0], names[1], len(missing), len(extra))
        failing = np.union1d(missing, extra)
        total = len(np.union1d(mine.index, theirs.index))
        return OutputVerdict(name, Status.REFUTED, total, reason="different elements are written", failing=failing, explanation=explanation)

    def _verdict_of(self, tensor: _Tensor) -> OutputVerdict:
        open_rows = tensor.where(*(state for state in _State if state is not _State.PROVED))
        failing = tensor.index[open_rows]
        elements = len(tensor.index)
        if not len(failing):
            return OutputVerdict(tensor.name, Status.PROVED, elements, tensor.classes)
        if tensor.found is not None:
            reason = f"differs: {self._region(tensor.name, failing)}"
            return OutputVerdict(
                tensor.name, Status.REFUTED, elements, tensor.classes, reason, failing=failing, witness=tensor.witness,
                explanation=tensor.explanation, numeric_difference=tensor.found.relative,
            )  # fmt: skip
        if len(tensor.where(_State.UNDEFINED)):
            tensor.say("an undefined value (inf - inf, or memory that was never written) reaches the output")
        if len(tensor.where(_State.MATCHED)):
            tensor.say(f"fingerprints agree at {self.budget.points} points")
        reason = f"not proved: {self._region(tensor.name, failing)}: " + "; ".join(tensor.reasons)
        return OutputVerdict(
            tensor.name, Status.UNKNOWN, elements, tensor.classes, reason, failing=failing, numeric_difference=tensor.difference
        )  # fmt: skip

    def _summary(self, verdicts: list[OutputVerdict], started: float) -> Verdict:
        statuses = {verdict.status for verdict in verdicts}
        order = (Status.REFUTED, Status.UNKNOWN, Status.PROVED)
        status = next((s for s in order if s in statuses), Status.UNKNOWN)
        first = next((verdict for verdict in verdicts if verdict.status is status and status is not Status.PROVED), None)
        reason = "nothing is compared" if not verdicts else (f"{first.tensor}: {first.reason}" if first is not None else "")
        ledger = {"real arithmetic": None, **self.arena.assumptions, **self.ledger}
        if self.arena.opaque_names:
            ledger["taken as functions of their arguments: " + ", ".join(self.arena.opaque_names)] = None
        method = Method.FINGERPRINT if self.mode is Mode.FINGERPRINT else Method.EXACT
        points = self.budget.points if self.prints is not None else 0
        return Verdict(status, method, verdicts, reason, list(ledger), time.monotonic() - started, points)

    def _region(self, name: str, failing: np.ndarray) -> str:
        buffer = self.launch.by_name.get(name) if self.launch is not None else None
        if buffer is None:
            return f"{len(failing)} elements from {name}[{int(failing.min())}] to {name}[{int(failing.max())}]"
        arg = buffer.arg
        shape = arg.shape if arg.storage == int(np.prod(arg.shape, dtype=np.int64)) else (arg.storage,)
        return describe(failing, shape)

    def _output_name(self, name: str, index: int) -> str:
        buffer = self.launch.by_name.get(name) if self.launch is not None else None
        inner = ", ".join(map(str, buffer.arg.index_of(index))) if buffer is not None else str(index)
        return f"{name}[{inner}]"


_EMPTY = Footprint(np.zeros(0, np.int64), np.zeros(0, np.int32))


def _open(name: str, mine: Footprint, theirs: Footprint) -> _Tensor:
    """Pairs of one tensor: equal ids are proved at once, constants that are no number never are."""
    reference, candidate = mine.ids.astype(np.int32), theirs.ids.astype(np.int32)
    undefined = is_undefined(reference) | is_undefined(candidate)
    state = np.where(reference == candidate, _State.PROVED.value, _State.UNKNOWN.value)
    state = np.where(undefined, _State.UNDEFINED.value, state).astype(np.int8)
    return _Tensor(name, mine.index, reference, candidate, state, classes=int((state == _State.PROVED.value).any()))


def _undefined_reason(pair: Pair) -> str:
    """Why no real point was found, where that is because a side is undefined."""
    sides = pair.undefined_share()
    if sides == (0.0, 0.0):
        return ""
    if sides == (1.0, 1.0):
        return "both sides are undefined (division by zero, or a logarithm or root of a negative number) at every point tried"
    if sides[0] != sides[1]:
        which = "candidate" if sides[1] > sides[0] else "reference"
        return f"the {which} is undefined (division by zero, or a logarithm or root of a negative number) where the other side is not"
    return ""
