"""A candidate that has no value whatever the inputs are is refuted; one whose value is only hard to compute is not."""

import json

import numpy as np
import pytest

from ptx_engine.decide import decide
from ptx_engine.launch import Footprint
from ptx_engine.terms import NAN, NEG_INF, POS_INF, UNDEF, ZERO, Arena
from ptx_engine.verdict import Status


class Case:
    def __init__(self) -> None:
        self.arena = Arena()
        self.x, self.y = (int(i) for i in self.arena.add_input("x", 2, "f32").ids(np.arange(2)))

    def verdict(self, reference, candidate):
        sides = ({"o": Footprint(np.array([0]), np.array([ident], np.int32))} for ident in (reference, candidate))
        return decide(self.arena, *sides)


def by_zero(case):
    return case.arena.div(case.x, case.arena.sub(case.arena.mul(case.y, case.x), case.arena.mul(case.x, case.y)))


@pytest.mark.parametrize("candidate", [lambda c: NAN, lambda c: POS_INF, lambda c: NEG_INF, by_zero], ids=["nan", "inf", "-inf", "x/0"])
def test_no_input_gives_the_candidate_a_value(candidate):
    case = Case()
    verdict = case.verdict(case.arena.add(case.x, case.y), candidate(case))
    assert verdict.status is Status.REFUTED
    output = verdict.outputs[0]
    assert output.witness.reference_value != output.witness.candidate_value and output.explanation is not None
    json.dumps(output.numeric_difference, allow_nan=False)


def test_an_infinite_reference_is_not_a_number_either():
    case = Case()
    assert case.verdict(NEG_INF, case.x).status is Status.REFUTED
    assert case.verdict(NEG_INF, NEG_INF).status is Status.PROVED


@pytest.mark.parametrize("pair", [(NAN, NAN), (UNDEF, ZERO), (NAN, ZERO), (ZERO, UNDEF)])
def test_what_both_sides_or_the_reference_leave_open_is_not_refuted(pair):
    assert Case().verdict(*pair).status is Status.UNKNOWN


def test_a_reference_without_a_value_refutes_nothing():
    case = Case()
    assert case.verdict(by_zero(case), case.x).status is not Status.REFUTED


def test_overflow_of_float64_is_no_reason():
    case = Case()
    power = case.arena.exp(case.arena.mul(case.arena.rational(10**6), case.x))
    verdict = case.verdict(case.arena.rational(1), case.arena.div(power, case.arena.add(power, ZERO)))
    assert verdict.status is not Status.REFUTED


def test_undefined_at_some_inputs_only_is_no_proof_and_no_refutation():
    case = Case()
    square = case.arena.mul(case.x, case.x)
    root = case.arena.sqrt(case.x)
    assert case.verdict(case.x, case.arena.mul(root, root)).status is Status.UNKNOWN
    assert case.verdict(square, case.arena.mul(case.x, case.x)).status is Status.PROVED
