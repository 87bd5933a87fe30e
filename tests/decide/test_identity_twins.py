"""Every identity has twins that are wrong in one operator: a term or a rescale missing, a sign turned, a maximum over less.

An operator of the candidate's own is changed at random; where an independent evaluation says that this matters, the decider has
to refute with real inputs at which both values are as it says.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
import test_normal_identities as identities
from gmpy2 import mpfr, mpq
from identity_register import EQUAL, WRONG
from normal_judge import OutOfDomain, evaluate
from normal_terms import Builder, Ids

from ptx_engine.decide import decide
from ptx_engine.launch import Footprint
from ptx_engine.terms import Arena, Op
from ptx_engine.terms.ops import TABLE
from ptx_engine.verdict import OutputVerdict, Status, Witness

Change = Callable[[Arena, list[int]], object]
#: what may go wrong with an operator
CHANGES: dict[Op, list[tuple[str, Change]]] = {
    Op.ADD: [("a term missing", lambda a, v: v[0]), ("wrong sign", lambda a, v: a.sub(v[0], v[1]))],
    Op.SUB: [("wrong sign", lambda a, v: a.add(v[0], v[1])), ("a term missing", lambda a, v: v[0])],
    Op.MUL: [("a factor missing", lambda a, v: v[0]), ("a factor missing", lambda a, v: v[1])],
    Op.FMA: [("a product missing", lambda a, v: v[2]), ("a factor missing", lambda a, v: a.add(v[0], v[2]))],
    Op.DIV: [("a division missing", lambda a, v: v[0])],
    Op.MAX: [("a maximum over less", lambda a, v: v[0]), ("minimum for maximum", lambda a, v: a.minimum(v[0], v[1]))],
    Op.MIN: [("a bound missing", lambda a, v: v[0]), ("maximum for minimum", lambda a, v: a.maximum(v[0], v[1]))],
    Op.EXP2: [("an exponential missing", lambda a, v: v[0])],
    Op.NEG: [("wrong sign", lambda a, v: v[0])],
    Op.ITE: [("selection turned", lambda a, v: a.select(v[0], v[2], v[1])), ("mask missing", lambda a, v: v[1])],
    Op.LOG2: [("a logarithm missing", lambda a, v: v[0])],
    Op.SQRT: [("a root missing", lambda a, v: v[0])],
}  # fmt: skip


def _operands(arena: Arena, ident: int) -> list[int]:
    op, *slots = arena.node(ident)
    return slots[: TABLE[op].arity]


def _below(arena: Arena, roots: Ids) -> list[int]:
    """The nodes below some roots, operands first."""
    found: set[int] = set()
    stack = [r for r in roots if r >= 0]
    while stack:
        ident = stack.pop()
        if ident not in found and arena.node(ident)[0] is not Op.CONST:
            found.add(ident)
            stack.extend(x for x in _operands(arena, ident) if x >= 0)
    return sorted(found)


def twin_of(b: Builder, reference: Ids, candidate: Ids, rng: random.Random) -> tuple[str, Ids] | None:
    """The candidate with one operator changed that the reference does not have, and what is wrong with it."""
    arena = b.arena
    own = [i for i in _below(arena, candidate) if i not in set(_below(arena, reference)) and arena.node(i)[0] in CHANGES]
    if not own:
        return None
    chosen = rng.choice(own)
    name, change = rng.choice(CHANGES[arena.node(chosen)[0]])
    new = {chosen: int(change(arena, _operands(arena, chosen)))}  # type: ignore[call-overload]
    for ident in _below(arena, candidate):
        op, *slots = arena.node(ident)
        count = TABLE[op].arity
        if ident != chosen and any(x in new for x in slots[:count]):
            new[ident] = int(arena.emit(op, *(new.get(x, x) for x in slots[:count]), *slots[count:]))  # type: ignore[call-overload]
    return name, [new.get(i, i) for i in candidate]


def _written(ids: Ids) -> Footprint:
    return Footprint(np.arange(len(ids), dtype=np.int64), np.array(ids, np.int32))


def _input_ids(arena: Arena, witness: Witness) -> dict[int, mpfr]:
    point = {-1 - e.base - i: mpfr(0, 400) for e in arena.inputs for i in range(e.count)}
    bases = {e.name: e.base for e in arena.inputs}
    for shown, text in witness.inputs.items():
        name, _, index = shown.rstrip("]").partition("[")
        point[-1 - bases[name] - int(index or 0)] = mpfr(mpq(Fraction(text)), 400)
    return point


def _check_witness(b: Builder, output: OutputVerdict, reference: Ids, candidate: Ids) -> None:
    """The two values are those of an independent evaluation at the inputs shown, to 15 digits, and differ."""
    witness = output.witness
    assert witness is not None and output.explanation is not None and output.explanation.text
    try:
        values = [evaluate(b.arena, side[witness.index], _input_ids(b.arena, witness)) for side in (reference, candidate)]
    except OutOfDomain:  # (a side has no value there: the witness says "undefined", or rounding cannot tell)
        return
    for value, text in zip(values, (witness.reference_value, witness.candidate_value)):
        assert abs(value - mpfr(text, 300)) <= 1e-15 * max(abs(value), mpfr("1e-30"))
        exact = abs(value - mpfr(text, 300)) <= 1e-40 * max(abs(value), mpfr("1e-30"))
        assert exact or len(re.sub(r"e.*|[-.]", "", text).lstrip("0")) >= 20
    assert values[0] != values[1]


def refuted(b: Builder, reference: Ids, candidate: Ids) -> OutputVerdict:
    """Decide, expect a refutation, and check its witness."""
    verdict = decide(b.arena, {"out": _written(reference)}, {"out": _written(candidate)})
    assert verdict.status is Status.REFUTED, verdict.reason
    _check_witness(b, verdict.outputs[0], reference, candidate)
    return verdict.outputs[0]


def check(name: str, seed: int) -> str:
    """Refute one twin of an identity; says what was wrong with it ("" if no change mattered)."""
    rng = random.Random(f"{name} {seed}")
    for _ in range(12):
        b = Builder()
        reference, candidate = EQUAL[name](b)
        made = twin_of(b, reference, candidate, rng)
        if made is not None and identities.differ_somewhere(b, reference, made[1]):
            refuted(b, reference, made[1])
            return made[0]
    return ""


#: identities in which no such change matters, or none was found: their twins are written out by hand
UNTOUCHED = {"clamped_value_fits_its_type", "division_of_a_division", "word_of_four_bytes"}
#: a change that shows at rare ties only is not found in the time of a test
RARE_TIES = {"argmax of 64", "argmin of 64"}
NAMES = sorted(EQUAL.keys() - RARE_TIES)


@pytest.mark.parametrize("name", NAMES[::4])
def test_a_twin_of_an_identity_is_refuted(name: str) -> None:
    assert check(name, 0) or name in UNTOUCHED


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_twins_of_every_identity_are_refuted(name: str) -> None:
    assert sum(bool(check(name, seed)) for seed in range(4)) or name in UNTOUCHED


@pytest.mark.parametrize("name", WRONG)
def test_a_near_identity_is_refuted(name: str) -> None:
    b = Builder()
    reference, candidate = WRONG[name](b)
    refuted(b, reference, candidate)


# --- what is said of the main families ------------------------------------------------------------

SAID = {
    "sum_with_one_term_twice": ("missing x0[8]", "x0[7] has coefficient 2, reference 1"),
    "split K with a part missing": ("missing x0[0]*x1[0]", "(3 of 12 products)"),
    "cumsum_without_the_carry": ("missing x0[0]",),
    "convolution with a column too far": ("holds the value that the reference has at out[1]",),
    "convolution_with_a_flipped_filter": ("missing x0[0]*x1[0]", "extra x0[0]*x1[2]"),
    "winograd_with_a_wrong_sign": ("has coefficient",),
    "backward_without_delta": ("missing",),
    "attention backward without the scale in dQ": ("2",),
    "int8 weights with the scales exchanged": ("missing", "extra"),
    "softmax_without_the_last_term": ("missing", "exp(x0[3])"),
    "low_rank_update_without_its_scale": ("missing",),
    "split KV averaged": ("exp",),
    "layer_norm_of_another_epsilon": ("1/1000", "1/100"),
    "clamp_of_another_bound": ("6", "5"),
    "maximum_of_another_set": ("max", "x0[5]"),
}


@pytest.mark.parametrize("name", SAID)
def test_the_explanation_names_what_is_wrong(name: str) -> None:
    b = Builder()
    explanation = refuted(b, *WRONG[name](b)).explanation
    assert explanation is not None
    for part in SAID[name]:
        assert part in explanation.text, explanation.text
