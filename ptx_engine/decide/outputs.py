"""Output tensors under decision, and what is said of them: witnesses and reasons with names, regions, verdicts."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np

from ptx_engine.decide.names import NameOf, element_names, storage_names
from ptx_engine.decide.near_constants import NearMiss
from ptx_engine.decide.regions import describe
from ptx_engine.decide.unify import CONSTANTS_WITHIN_1_ULP
from ptx_engine.decide.witness import Confirmed, Pair, digits, is_undefined, rational_text
from ptx_engine.launch import BoundLaunch, Footprint
from ptx_engine.terms.arena import Arena
from ptx_engine.terms.constants import ZERO
from ptx_engine.verdict import Explanation, OutputVerdict, Status, Witness


class State(Enum):
    """NARROWED: equal where both sides are defined, but the candidate is defined on less than the reference."""

    PROVED, MATCHED, SUSPECT, UNDEFINED, UNKNOWN, NARROWED = range(6)


@dataclass
class Tensor:
    """One output tensor under decision; arrays run over its written elements."""

    name: str
    index: np.ndarray
    reference: np.ndarray
    candidate: np.ndarray
    state: np.ndarray  # int8 of State
    classes: int = 0
    reasons: list[str] = field(default_factory=list)
    difference: float | None = None
    found: Confirmed | None = None
    witness: Witness | None = None
    explanation: Explanation | None = None

    def where(self, *states: State) -> np.ndarray:
        return np.flatnonzero(np.isin(self.state, [state.value for state in states]))

    def say(self, reason: str) -> None:
        if reason and reason not in self.reasons:
            self.reasons.append(reason)


def open_tensor(name: str, mine: Footprint, theirs: Footprint) -> Tensor:
    """Pairs of one tensor: equal ids are proved at once, constants that are no number never are."""
    reference, candidate = mine.ids.astype(np.int32), theirs.ids.astype(np.int32)
    undefined = is_undefined(reference) | is_undefined(candidate)
    state = np.where(reference == candidate, State.PROVED.value, State.UNKNOWN.value)
    state = np.where(undefined, State.UNDEFINED.value, state).astype(np.int8)
    return Tensor(name, mine.index, reference, candidate, state, classes=int((state == State.PROVED.value).any()))


class Reporter:
    """Puts evidence into words: elements by name, failing sets as regions."""

    def __init__(self, arena: Arena, launch: BoundLaunch | None) -> None:
        self.arena, self.launch = arena, launch
        self.element_name: NameOf = element_names(launch) if launch is not None else storage_names(arena)

    def keep(self, tensor: Tensor, index: int, pair: Pair, found: Confirmed, explanation: Explanation) -> None:
        name_of = storage_names(self.arena)
        listed = {i for i, value in found.inputs.items() if value != 0}
        if len(pair.cone.inputs) <= 16:
            listed |= set(pair.cone.inputs)
        inputs = {name_of(i): rational_text(found.inputs.get(i, ZERO.coef)) for i in sorted(listed, reverse=True)}
        tensor.found = found
        tensor.witness = Witness(tensor.name, index, inputs, *_told_apart(found))
        text = f"{self._output_name(tensor.name, index)}: {explanation.text}"
        tensor.explanation = replace(explanation, text=text)

    def elsewhere(self, place: tuple[str, int], explanation: Explanation) -> Explanation:
        """The explanation of a value that is right, but belongs to another element."""
        return replace(explanation, kind="moved", text=f"holds the value that the reference has at {self._output_name(*place)}")

    def near_reason(self, near: NearMiss) -> str:
        """What a near miss lacks: the constants of the largest difference, both values."""
        mine, theirs, distance = max(near.rows, key=lambda row: row[2])
        values = [digits(const.value(80), 12 if distance > 1e-11 else 20) for const in (mine, theirs)]
        if near.literal:
            rounded, exact = values if near.literal == "reference" else values[::-1]
            return (
                f"equal except for rounded constants: {rounded} in the {near.literal} rounds {exact}, with which the sides would be equal "
                f"({distance:.1e} relative)"
            )
        advice = f"; the assumption {CONSTANTS_WITHIN_1_ULP} would unify them" if near.within_ulp else ""
        return f"equal except for constants that differ by {distance:.1e} relative (reference {values[0]}, candidate {values[1]}){advice}"

    def footprint(self, name: str, mine: Footprint, theirs: Footprint) -> OutputVerdict | None:
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

    def verdict_of(self, tensor: Tensor, points: int) -> OutputVerdict:
        open_rows = tensor.where(*(state for state in State if state is not State.PROVED))
        failing = tensor.index[open_rows]
        elements = len(tensor.index)
        if not len(failing):
            return OutputVerdict(tensor.name, Status.PROVED, elements, tensor.classes)
        if tensor.found is not None:
            reason = f"differs: {self._region(tensor.name, failing)}"
            return OutputVerdict(
                tensor.name, Status.REFUTED, elements, tensor.classes, reason, failing=failing, witness=tensor.witness,
                explanation=tensor.explanation, numeric_difference=tensor.found.relative if tensor.found.relative < math.inf else None,
            )  # fmt: skip
        if len(tensor.where(State.UNDEFINED)):
            tensor.say("an undefined value (inf - inf, or memory that was never written) reaches the output")
        if len(tensor.where(State.MATCHED)):
            tensor.say(f"fingerprints agree at {points} points")
        reason = f"not proved: {self._region(tensor.name, failing)}: " + "; ".join(tensor.reasons)
        return OutputVerdict(
            tensor.name, Status.UNKNOWN, elements, tensor.classes, reason, failing=failing, numeric_difference=tensor.difference
        )  # fmt: skip

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


def _told_apart(found: Confirmed) -> tuple[str, str]:
    """Both values with as many digits as tell them apart, within reason."""
    for count in (25, 50, 100, 1000):
        texts = digits(found.reference, count), digits(found.candidate, count)
        if texts[0] != texts[1]:
            break
    return texts


def undefined_reason(pair: Pair) -> str:
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
