"""Verdicts, as values: what was decided about each output tensor, with evidence, and what it leans on."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from html import escape

import numpy as np


class Status(Enum):
    """PROVED carries a method; REFUTED a witness; UNKNOWN a reason."""

    PROVED = "proved"
    REFUTED = "refuted"
    UNKNOWN = "unknown"
    UNSUPPORTED = "unsupported"


class Method(Enum):
    """How outputs were compared; ORDER: not at all, order and memory alone were checked."""

    EXACT = "exact"
    FINGERPRINT = "fingerprint"
    ORDER = "order"


@dataclass(frozen=True, slots=True)
class Witness:
    """Real inputs at which the sides differ: only those the output depends on. Values are decimal strings of >= 20 digits
    for the two results, exact decimal or rational strings for the inputs."""

    output: str
    index: int  # storage index
    inputs: dict[str, str]  # "A[3]" (storage index) or scalar name -> value
    reference_value: str
    candidate_value: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why one output differs: ``kind`` is "missing", "extra", "changed", "diverges", "footprint", "moved"; ``origin`` is the arena
    origin of the first diverging sub-term of the candidate, where there is one."""

    kind: str
    text: str
    missing: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    missing_total: int = 0
    extra_total: int = 0
    reference_origin: object = None
    candidate_origin: object = None
    #: ids of input elements that stand only on one side (negative ids), for blame at the load that reads them
    missing_inputs: tuple[int, ...] = ()
    extra_inputs: tuple[int, ...] = ()


@dataclass
class OutputVerdict:
    """One output tensor. ``failing`` holds the storage indices that are not proved (refuted first class first)."""

    tensor: str
    status: Status
    elements: int
    classes: int = 0
    reason: str = ""
    failing: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    witness: Witness | None = None
    explanation: Explanation | None = None
    #: largest relative difference seen between numerically evaluated sides, where they could not be proved equal
    numeric_difference: float | None = None


@dataclass
class Verdict:
    """The decider's answer over all compared tensors."""

    status: Status
    method: Method
    outputs: list[OutputVerdict]
    reason: str = ""
    assumptions: list[str] = field(default_factory=list)
    seconds: float = 0.0
    fingerprint_points: int = 0

    def _repr_html_(self) -> str:
        """What a notebook shows: the verdict, and a row per output."""
        rows = "".join(
            f"<tr><td>{escape(o.tensor)}</td><td>{o.status.value}</td><td>{o.elements}</td><td>{o.classes}</td><td>{escape(_said(o))}</td></tr>"
            for o in self.outputs
        )
        head = "<tr><th>output</th><th>verdict</th><th>elements</th><th>classes</th><th></th></tr>"
        ledger = escape("; ".join(self.assumptions) or "none recorded")
        return (
            f"<div><b>{self.status.value}</b> ({self.method.value}) {escape(self.reason)}<table>{head}{rows}</table>"
            f"<small>assumptions: {ledger}</small></div>"
        )


def _said(output: OutputVerdict) -> str:
    return output.explanation.text if output.explanation is not None else output.reason
