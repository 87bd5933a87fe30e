"""Verdicts, as values: what was decided about each output tensor, with evidence, and what it leans on."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import numpy as np


class Status(Enum):
    """PROVED carries a method; REFUTED a witness; UNKNOWN a reason."""

    PROVED = "proved"
    REFUTED = "refuted"
    UNKNOWN = "unknown"
    UNSUPPORTED = "unsupported"


class Method(Enum):
    EXACT = "exact"
    FINGERPRINT = "fingerprint"


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
