"""Forms that templates share: what was proved of one must not leak into another that only looks like it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptx_engine.decide.budget import Meter, ProofBudget
from ptx_engine.decide.columns import Columns
from ptx_engine.decide.dot_lists import DotLists
from ptx_engine.decide.normal_domain import _Needs
from ptx_engine.decide.normal_forms import Forms
from ptx_engine.decide.normal_reuse import Pool
from ptx_engine.decide.normal_ring import Atom, Kind, Ring, Sign
from ptx_engine.decide.normal_value import Evaluator
from ptx_engine.decide.proof import leaves_of
from ptx_engine.decide.walk import Template, Walker
from ptx_engine.terms import Arena, Op

Sides = tuple[int, int]


class Prover:
    """A pool over one arena with inputs of three kinds."""

    def __init__(self) -> None:
        self.arena = Arena()
        self.x, self.y = self.arena.add_input("x", 16, "f32"), self.arena.add_input("y", 16, "f32")
        self.n = self.arena.add_input("n", 16, "u8")
        self.meter = Meter(ProofBudget(), float("inf"))
        self.pool = Pool(self.arena, True, self.meter)

    def template(self, sides: list[Sides]) -> Template:
        """The template of outputs, one pair of ids each."""
        roots = np.array(sides, np.int32).T
        walker = Walker(self.arena, Columns(len(sides)), self.meter, False, lambda: DotLists(self.arena.dots, lambda ids: ids))
        return walker.run(np.ascontiguousarray(roots))

    def proves(self, *sides: Sides) -> bool:
        return self.pool.prove(self.template(list(sides))).outcome == "equal"


def _softmax(arena: Arena, scores: list[int], shifted: bool) -> int:
    """The first weight of a softmax."""
    top = scores[0]
    for score in scores[1:]:
        top = int(arena.maximum(top, score))
    weights = [int(arena.exp(arena.sub(score, top) if shifted else score)) for score in scores]
    total = weights[0]
    for weight in weights[1:]:
        total = int(arena.add(total, weight))
    return int(arena.div(weights[0], total))


def test_rows_of_growing_length_share_their_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    """The weights of keys that the row before had are not made again: both sides without a maximum, one of them shifted."""
    p = Prover()
    made: list[int] = []
    original = Evaluator._form
    monkeypatch.setattr(Evaluator, "_form", lambda self, node: (made.append(node), original(self, node))[1])
    scores = [int(p.x.ids(i)) for i in range(14)]
    shifted = [int(p.arena.sub(score, scores[0])) for score in scores]
    counts = []
    for length in range(8, 14):
        made.clear()
        assert p.proves((_softmax(p.arena, scores[:length], False), _softmax(p.arena, shifted[:length], False)))
        counts.append(len(made))
    assert max(counts[1:]) < counts[0] / 2


def test_exponents_of_a_longer_row_are_those_of_the_shorter_one() -> None:
    """Twin of the next test: whatever is pulled out of a row's sum, it is pulled out of the next row's, too."""
    p = Prover()
    three = p.arena.rational(3)
    weights = [int(p.arena.exp(int(p.x.ids(i)))) for i in range(16)]
    totals = [weights[0]]
    for weight in weights[1:]:
        totals.append(int(p.arena.add(totals[-1], weight)))
    made = []
    for length in range(10, 16):
        before = len(p.pool._evaluator.forms.ring.exps)
        assert p.proves(
            (
                int(p.arena.div(weights[0], totals[length])),
                int(p.arena.div(p.arena.mul(weights[0], three), p.arena.mul(totals[length], three))),
            )
        )
        made.append(len(p.pool._evaluator.forms.ring.exps) - before)
    assert max(made[1:]) <= 3 < made[0]  # of the new key only: its exponent, and that less what is pulled out


@given(
    st.lists(st.lists(st.integers(-3, 3), min_size=3, max_size=3), min_size=2, max_size=6),
    st.lists(st.integers(-3, 3), min_size=3, max_size=3),
)
def test_the_leading_exponent_moves_with_all_of_them(rows: list[list[int]], shift: list[int]) -> None:
    ring = Ring()
    terms = [ring.atom_term(ring.atom(i, Atom(Kind.VAR, Sign.UNKNOWN))) for i in range(3)]

    def exponent(row: list[int]) -> int:
        return ring.exp({t: c for t, c in zip(terms, row) if c})

    poly = {ring.term((), exponent(row)): 1 for row in rows}
    moved = {ring.term((), exponent([x + y for x, y in zip(row, shift)])): 1 for row in rows}
    assert ring.leading_exp(moved) == ring.exp_sum(ring.leading_exp(poly), exponent(shift))


def test_a_wrong_row_after_right_ones_is_not_proved() -> None:
    p = Prover()
    for length in (8, 9, 10):
        scores = [int(p.x.ids(i)) for i in range(length)]
        whole, short = _softmax(p.arena, scores, False), _softmax(p.arena, scores[:-1], True)
        assert p.proves((whole, _softmax(p.arena, scores, True)))
        assert not p.proves((whole, short))


@pytest.mark.parametrize("first", ["n", "x"])
def test_what_holds_of_one_kind_of_input_is_not_said_of_another(first: str) -> None:
    """sqrt(v^2) = v for unsigned integers, not for reals: in both orders."""
    p = Prover()

    def sides(name: str) -> Sides:
        value = int(getattr(p, name).ids(3))
        return int(p.arena.sqrt(p.arena.mul(value, value))), value

    for name in (first, "x" if first == "n" else "n"):
        assert p.proves(sides(name)) == (name == "n")


def _pairs(make: Callable[[Arena, int, int], Sides]) -> tuple[Prover, Sides]:
    p = Prover()
    return p, make(p.arena, int(p.x.ids(0)), int(p.y.ids(0)))


def test_different_variables_stay_different() -> None:
    p, sides = _pairs(lambda a, x, y: (int(a.sub(x, y)), int(a.sub(y, x))))
    assert not p.proves(sides)
    x0, x1 = int(p.x.ids(0)), int(p.x.ids(1))
    assert p.proves((int(p.arena.sub(x0, x1)), int(p.arena.neg(p.arena.sub(x1, x0)))))
    assert not p.proves((int(p.arena.sub(x0, x1)), int(p.arena.sub(x1, x0))))
    assert not p.proves((int(p.arena.unary(Op.SIN, x0)), int(p.arena.unary(Op.SIN, x1))))


def test_a_root_that_is_inside_a_later_template() -> None:
    """A maximum, and a sum, that had a form of their own are taken into larger ones."""
    p = Prover()
    ids = [int(p.x.ids(i)) for i in range(12)]

    def nested(join: Callable[[int, int], object], items: list[int]) -> int:
        total = items[0]
        for item in items[1:]:
            total = int(join(total, item))  # type: ignore[call-overload]
        return total

    for join in (p.arena.maximum, p.arena.add):
        for length in (10, 11, 12):
            forward, backward = nested(join, ids[:length]), nested(join, ids[:length][::-1])
            assert p.proves((forward, backward))
            assert not p.proves((forward, nested(join, ids[: length - 1])))


def test_a_root_outside_the_selection_that_guards_it_is_told() -> None:
    """Equal where both have values, but only one side has them where the selection does not take the root."""
    p = Prover()
    x = int(p.x.ids(0))
    positive = int(p.arena.compare(Op.LT, p.arena.rational(0), int(p.y.ids(0))))
    guarded = int(p.arena.select(positive, p.arena.sqrt(x), int(p.x.ids(1))))
    everywhere = int(p.arena.add(guarded, p.arena.sub(p.arena.sqrt(x), p.arena.sqrt(x))))
    assert p.proves((everywhere, guarded)) and p.proves((guarded, everywhere))
    for _ in range(2):
        assert p.pool.prove(p.template([(everywhere, guarded)])).narrower == ""
        assert p.pool.prove(p.template([(guarded, everywhere)])).narrower != ""


def test_what_is_needed_below_a_root_is_what_its_walk_finds() -> None:
    p = Prover()
    x, y, z = (int(p.x.ids(i)) for i in range(3))
    quotient = int(p.arena.div(x, p.arena.sqrt(y)))
    terms = [quotient, int(p.arena.add(quotient, p.arena.log(z))), int(p.arena.mul(z, p.arena.log(z))), int(p.arena.add(x, y))]
    walker = Walker(p.arena, Columns(1), p.meter, False, lambda: DotLists(p.arena.dots, lambda ids: ids))
    template = walker.run(np.array(terms, np.int32)[:, None])
    evaluator = Evaluator(p.arena, template, leaves_of(p.arena, template, True), Forms(p.meter, freeze=True))
    evaluator.run(template.roots)
    by_bits: dict[int, set[object]] = {}
    for root in template.roots:
        found = set(_Needs(evaluator, root).conditions())
        assert evaluator.needs(root).bit_count() == len(found)
        assert by_bits.setdefault(evaluator.needs(root), found) == found
    assert len(by_bits) == 4
    root, before = template.roots[0], evaluator.needs(template.roots[0])
    evaluator._current = evaluator.operands(root)[1]
    evaluator._note("another root", 0, False)
    assert evaluator.needs(root) & before == before != evaluator.needs(root)
    evaluator._note("another root", 0, True)
    assert evaluator.needs(root) == before
