"""Explanations: which terms are missing, extra or changed, and where two terms part."""

from __future__ import annotations

import numpy as np
import pytest

from ptx_engine.decide.explain import explain
from ptx_engine.decide.names import element_names, show, storage_names
from ptx_engine.decide.witness import Pair
from ptx_engine.launch import Launch, Role, TensorArg, bind
from ptx_engine.terms import ONE, ZERO, Arena, Op
from ptx_engine.verdict import Explanation


def vector(*names: str, count: int = 16) -> tuple[Arena, list[list[int]]]:
    arena = Arena()
    return arena, [[int(i) for i in arena.add_input(name, count, "f32").ids(np.arange(count))] for name in names]


def explained(arena: Arena, reference: int, candidate: int) -> Explanation:
    pair = Pair(arena, reference, candidate)
    return explain(arena, reference, candidate, storage_names(arena), pair.one_sided).explanation


def dot(arena: Arena, x: list[int], y: list[int]) -> int:
    return int(arena.dot(np.array([[x]], np.int32), np.array([[y]], np.int32), np.zeros((1, 1, 1), np.int32))[0, 0, 0])


def test_missing_product_of_a_dot() -> None:
    arena, (x, y) = vector("A", "B")
    found = explained(arena, dot(arena, x, y), dot(arena, x[:15], y[:15]))
    assert found.kind == "missing" and found.missing == ("A[15]*B[15]",) and found.missing_total == 1 and not found.extra
    assert found.text == "sum over 15 products, reference has 16; missing A[15]*B[15] (1 of 16 products)"
    assert found.missing_inputs == (x[15], y[15]) and found.extra_inputs == ()


def test_extra_products_across_two_forms() -> None:
    """The candidate is a chain of multiply-adds that runs on."""
    arena, (x, y) = vector("A", "B")
    chain = ZERO
    for a, b in zip(x, y):
        chain = arena.fma(a, b, chain)
    found = explained(arena, dot(arena, x[:12], y[:12]), chain)
    assert found.kind == "extra" and found.extra_total == 4 and found.extra[0] == "A[12]*B[12]"
    assert "(4 of 16 products)" in found.text and ", ..." in found.text


def test_wrong_operand_and_wrong_coefficient() -> None:
    arena, (x, y) = vector("A", "B")
    swapped = [*y[:3], y[4], y[3], *y[5:]]
    found = explained(arena, dot(arena, x, y), dot(arena, x, swapped))
    assert found.kind == "changed" and found.missing == ("A[3]*B[3]", "A[4]*B[4]") and found.extra == ("A[3]*B[4]", "A[4]*B[3]")
    twice = arena.add(dot(arena, x, y), arena.mul(x[2], y[2]))
    found = explained(arena, dot(arena, x, y), twice)
    assert found.kind == "changed" and found.text == "A[2]*B[2] has coefficient 2, reference 1"


def test_missing_exponential_in_a_sum_and_in_a_softmax() -> None:
    arena, (x,) = vector("x", count=8)
    powers = np.asarray(arena.exp(np.array(x, np.int32)))
    full, short = (int(arena.nary(Op.NSUM, powers[None, :n])[0]) for n in (8, 7))
    found = explained(arena, full, short)
    assert found.kind == "missing" and found.missing == ("exp(x[7])",) and "(1 of 8 terms)" in found.text
    peak = x[0]
    for ident in x[1:]:
        peak = arena.maximum(peak, ident)
    shifted = np.asarray(arena.exp(arena.sub(np.array(x, np.int32), np.full(8, peak, np.int32))))
    stable = arena.div(int(shifted[2]), int(arena.nary(Op.NSUM, shifted[None])[0]))
    found = explained(arena, stable, arena.div(int(powers[2]), short))
    assert found.kind == "missing" and found.missing_total == 1
    assert found.text.startswith("denominator: sum over 7 terms, reference has 8; missing exp((x[7] - ")
    assert found.missing_inputs == (x[7],)


def test_wrong_numerator_of_a_quotient() -> None:
    arena, (x,) = vector("x", count=8)
    powers = np.asarray(arena.exp(np.array(x, np.int32)))
    total = int(arena.nary(Op.NSUM, powers[None])[0])
    found = explained(arena, arena.div(int(powers[2]), total), arena.div(int(powers[3]), total))
    assert found.kind == "changed" and found.missing == ("exp(x[2])",) and found.extra == ("exp(x[3])",)


def test_argument_left_out_of_a_maximum() -> None:
    arena, (x,) = vector("x", count=8)

    def peak(ids: list[int]) -> int:
        top = ids[0]
        for ident in ids[1:]:
            top = arena.maximum(top, ident)
        return top

    found = explained(arena, peak(x), peak([*x[:5], *x[6:]]))
    assert found.kind == "missing" and found.missing == ("x[5]",) and "1 of 8 arguments of max" in found.text
    found = explained(arena, peak(x[:7]), int(arena.nary(Op.NMAX, np.array([x], np.int32))[0]))
    assert found.kind == "extra" and found.extra == ("x[7]",)


def test_it_goes_down_to_the_first_sub_term_that_differs() -> None:
    arena, (x, y) = vector("x", "y")
    arena.origin = "reference line"
    reference = arena.sqrt(arena.add(arena.unary(Op.TANH, arena.mul(x[0], y[0])), ONE))
    arena.origin = "candidate line"
    inner = arena.add(x[0], y[0])
    arena.origin = "other line"
    candidate = arena.sqrt(arena.add(arena.unary(Op.TANH, inner), ONE))
    found = explained(arena, reference, candidate)
    assert (found.reference_origin, found.candidate_origin) == ("reference line", "candidate line")
    assert found.missing == ("x[0]*y[0]",) and found.extra == ("x[0]", "y[0]")


def test_different_operators_part_at_once() -> None:
    arena, (x,) = vector("x")
    arena.origin = 7
    found = explained(arena, arena.unary(Op.SIN, x[0]), arena.unary(Op.COS, x[0]))
    assert found.kind == "diverges" and found.text == "candidate cos(x[0]), reference sin(x[0])" and found.candidate_origin == 7


def test_a_budget_bounds_the_expansion() -> None:
    """(sum of 16)^8 has far too many terms to write out: the answer is short, not slow."""
    arena, (x, y) = vector("x", "y")
    first, second = (arena.add(int(arena.nary(Op.NSUM, np.array([ids], np.int32))[0]), ONE) for ids in (x, y))
    for _ in range(4):
        first, second = arena.mul(first, first), arena.mul(second, second)
    assert explained(arena, first, second).text


def test_hints_are_inputs_of_a_differing_product() -> None:
    arena, (x, y) = vector("A", "B")
    reference, candidate = dot(arena, x, y), dot(arena, x[:15], y[:15])
    hints = explain(arena, reference, candidate, storage_names(arena)).hints
    assert hints == [{x[15]: 1, y[15]: 1}]
    assert Pair(arena, reference, candidate).confirm(hints[0]) is not None


def test_names_by_storage_and_by_element() -> None:
    arena = Arena()
    args = (TensorArg("A", "f32", (3, 4), Role.IN), TensorArg("T", "f32", (2, 3), Role.IN, strides=(1, 2)))
    bound = bind(Launch((1, 1, 1), (1, 1, 1), args), arena)
    a, t = (bound.by_name[name].input for name in "AT")
    assert a is not None and t is not None
    assert [storage_names(arena)(int(np.asarray(e.ids(5)))) for e in (a, t)] == ["A[5]", "T[5]"]
    assert [element_names(bound)(int(np.asarray(e.ids(5)))) for e in (a, t)] == ["A[1, 1]", "T[1, 2]"]


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_printing_is_bounded(depth: int) -> None:
    arena, (x,) = vector("x")
    node = x[0]
    for _ in range(5000):
        node = arena.add(node, x[1])
    assert len(show(arena, node, storage_names(arena), depth)) < 60
    assert show(arena, arena.exp(x[0]), storage_names(arena)) == "exp(x[0])"
    assert show(arena, arena.exp2(x[0]), storage_names(arena)) == "exp2(x[0])"
