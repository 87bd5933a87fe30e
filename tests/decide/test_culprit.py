"""The line to which a difference is traced: the smallest sub-term that the other side has not got."""

import numpy as np
import pytest

from ptx_engine.decide import decide
from ptx_engine.decide.culprit import World, culprits
from ptx_engine.decide.fingerprint import Fingerprints
from ptx_engine.decide.levels import Mode, plan
from ptx_engine.launch import Footprint
from ptx_engine.terms import NEG_INF, Arena, Op
from ptx_engine.verdict import Status


class Line:
    """An origin as the machine and the references give it."""

    def __init__(self, number: int) -> None:
        self.user_loc = f"k.py:{number}:1"


class Sides:
    """Softmax over inputs, line by line: 1 the maximum, 2 shift and scale, 3 the exponential, 4 the sum, 5 the quotient."""

    def __init__(self) -> None:
        self.arena = Arena()
        self.x = self.arena.add_input("x", 4, "f32").ids(np.arange(4))

    def at(self, line: int) -> Arena:
        self.arena.origin = Line(line)
        return self.arena

    def softmax(self, upto=4, factor=3, members=4, turned=False, order=1, divided=True):
        top = self.x[0]
        for x in self.x[1:members]:
            top = self.at(1).maximum(top, x)
        powers = []
        for x in self.x[:upto]:
            shifted = self.at(2).sub(top, x) if turned else self.at(2).sub(x, top)
            scaled = self.at(2).mul(shifted, self.arena.rational(factor))
            powers.append(self.at(3).exp2(scaled))
        total = powers[::order][0]
        for power in powers[::order][1:]:
            total = self.at(4).add(total, power)
        return int(self.at(5).div(powers[0], total) if divided else powers[0])

    def lines(self, reference, candidate):
        ids = np.array([reference, candidate], np.int32)
        prints = Fingerprints(self.arena, ids, order=plan(self.arena, ids, Mode.CONE))
        found = culprits(self.arena, prints, reference, candidate)
        return tuple(int(self.arena.origin_of(ident).user_loc.split(":")[1]) for ident in found)


@pytest.mark.parametrize(
    "fault, line",
    [({"turned": True}, 2), ({"factor": 2}, 2), ({"upto": 3}, 4)],
    ids=["difference turned round", "constant", "sum lacks a term"],
)
@pytest.mark.parametrize("order", [1, -1])
def test_the_line_of_the_fault(fault, line, order):
    sides = Sides()
    assert sides.lines(sides.softmax(), sides.softmax(order=order, **fault))[1] == line


def test_a_quotient_turned_round_is_itself_the_culprit():
    sides = Sides()
    good = sides.softmax()
    _, _, total, _ = sides.arena.node(good)
    assert sides.lines(good, int(sides.at(5).div(total, sides.arena.node(good)[1])))[1] == 5


def test_where_an_operation_is_left_out_the_candidates_last_one_is_named():
    sides = Sides()
    good = sides.softmax()
    assert sides.lines(good, sides.arena.node(good)[1])[1] == 3  # the candidate's last operation


def test_a_maximum_that_lacks_a_member():
    sides = Sides()  # without the quotient: softmax itself is the same whatever is subtracted
    assert sides.lines(sides.softmax(divided=False), sides.softmax(members=3, divided=False)) == (1, 1)


def test_sides_that_agree_are_named_themselves():
    sides = Sides()
    assert sides.lines(sides.softmax(), sides.softmax(order=-1)) == (5, 5)


def test_masked_elements_are_no_members_of_a_maximum():
    arena = Arena()
    x = arena.add_input("x", 3, "f32").ids(np.arange(3))
    masked = arena.nary(Op.NMAX, np.array([[*x, NEG_INF, NEG_INF]], np.int32))[0]
    bare = arena.maximum(x[2], arena.maximum(x[0], x[1]))
    lacking = arena.maximum(x[0], x[1])
    prints = Fingerprints(arena, np.array([masked, bare, lacking], np.int32))
    assert prints.same(int(masked), int(bare)) is True
    assert prints.same(int(masked), int(lacking)) is False


def test_another_outputs_values_are_no_culprits():
    """The candidate puts the second softmax's exponentials into the first quotient: that quotient is wrong, not they."""
    sides = Sides()
    good = sides.softmax()
    shifted = sides.arena.sub(sides.x[3], sides.x[2])
    other = int(sides.at(6).exp2(shifted))
    mixed = int(sides.at(7).div(other, sides.arena.node(good)[2]))
    outputs = [("o", np.arange(2), np.array([good, other], np.int32))]
    world = World(sides.arena, outputs, np.array([mixed], np.int32))
    ids = np.array([good, mixed], np.int32)
    prints = Fingerprints(sides.arena, ids, order=plan(sides.arena, ids, Mode.CONE))
    assert culprits(sides.arena, prints, good, mixed, world)[1] == mixed
    assert culprits(sides.arena, prints, good, mixed)[1] != mixed


def test_a_moved_value_is_named_with_its_place():
    arena = Arena()
    x = arena.add_input("x", 4, "f32").ids(np.arange(4))
    squares, again = (arena.mul(x, x), arena.mul(x, x))
    index = np.arange(4)
    verdict = decide(arena, {"o": Footprint(index, squares)}, {"o": Footprint(index, again[[0, 2, 1, 3]])})
    explanation = verdict.outputs[0].explanation
    assert verdict.status is Status.REFUTED and explanation.kind == "moved"
    assert explanation.text == "o[1]: holds the value that the reference has at o[2]"
