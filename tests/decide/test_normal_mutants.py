"""The rules broken one at a time: every mutant of the normal form proves something false that the tests hold it to.

A rule whose mutant survives is a rule that no test would miss. Each mutant names the near-identity that catches it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import test_never_proved
import test_normal_identities  # noqa: F401  (registers the cases)
from gmpy2 import mpq
from identity_register import WRONG
from normal_terms import Builder, Ids

from ptx_engine.decide import (
    canonical,
    normal_cases,
    normal_content,
    normal_expand,
    normal_forms,
    normal_functions,
    normal_integers,
    normal_lattice,
    normal_order,
    normal_rescale,
    normal_rounding,
    normal_select,
    normal_tables,
    normal_value,
    proof,
)  # fmt: skip
from ptx_engine.decide.normal_domain import Domains
from ptx_engine.decide.normal_ring import ONE_TERM, Sign, add_into
from ptx_engine.decide.templates import Outcome, ProofBudget, prove_columns
from ptx_engine.terms import Arena, Op

Sides = tuple[Arena, Ids, Ids]


@dataclass(frozen=True)
class Mutant:
    """``owner.name`` is replaced by ``broken(original)``; ``caught`` names what is then proved, on the reference's whole domain
    unless it is ``narrower``."""

    owner: Any
    name: str
    broken: Callable[[Any], Any]
    caught: str
    narrower: bool = False


def _always(value: Any) -> Callable[[Any], Any]:
    return lambda original: lambda *args, **kwargs: value


def _own(make: Callable[[Builder], tuple[Ids, Ids]]) -> Callable[[], Sides]:
    def sides() -> Sides:
        b = Builder()
        reference, candidate = make(b)
        return b.arena, reference, candidate

    return sides


def _case(name: str) -> Sides:
    """A near-identity by name, from any of the collections."""
    if name in WRONG:
        return _own(WRONG[name])()
    if name in OWN:
        return _own(OWN[name])()
    names = test_never_proved.Names()
    reference, candidate = test_never_proved.NEVER[name](names)
    return names.arena, [reference.id], [candidate.id]


def _negated_size(b: Builder) -> tuple[Ids, Ids]:
    x, a = b.inputs(2), b.arena
    return [a.mul(x[0], a.sqrt(a.mul(x[1], x[1])))], [a.mul(x[0], x[1])]


def _one_root_for_two(b: Builder) -> tuple[Ids, Ids]:
    (x,), a = b.inputs(1), b.arena
    root = a.sqrt(a.add(a.mul(x, x), 1))
    return [a.mul(root, a.mul(root, root))], [root]


def _ranges_of_words(b: Builder) -> tuple[Ids, Ids]:
    x, a = b.inputs(2, "u8"), b.arena
    return [a.emit(Op.WRAP, a.add(x[0], x[1]), 8)], [a.emit(Op.WRAP, a.add(x[0], a.mul(b.c(129), x[1])), 8)]


def _median(b: Builder) -> tuple[Ids, Ids]:
    (x, y, z), a = b.inputs(3), b.arena
    return [a.maximum(a.minimum(x, y), z)], [a.maximum(a.maximum(x, y), z)]


def _last(b: Builder) -> tuple[Ids, Ids]:
    (x, y), a = b.inputs(2), b.arena
    return [a.maximum(x, y)], [y]


def _sides_of_a_difference(b: Builder) -> tuple[Ids, Ids]:
    (x, y), a = b.inputs(2), b.arena
    return [a.div(1, a.sub(x, y))], [a.div(1, a.sub(y, x))]


OWN: dict[str, Callable[[Builder], tuple[Ids, Ids]]] = {
    "size dropped under a factor": _negated_size, "cube of a root": _one_root_for_two, "modulo one bit less": _ranges_of_words,
    "maximum beside minimum": _median, "the last of a maximum": _last, "reciprocal of the negative": _sides_of_a_difference,
}  # fmt: skip


def _no_zero(original: Any) -> Any:
    def positive(forms: Any, poly: Any) -> Any:
        poly = forms.argument(poly)
        if not poly or forms.sign(poly) is Sign.POSITIVE:
            return original(forms, poly)
        oriented, flipped = normal_order._oriented(forms, poly)
        result = {ONE_TERM: 1} if flipped else {}
        add_into(result, normal_order._indicator(forms, "positive", oriented), -1 if flipped else 1)
        return result

    return positive


def _floor_everything(original: Any) -> Any:
    return lambda ring, poly: all(c == int(c) for c in poly.values())


def _turned(original: Any) -> Any:
    return lambda self, condition: (found := original(self, condition)) and found[::-1]


def _first_case_only(original: Any) -> Any:
    return lambda forms, p, strict: original(forms, p, strict)[:1]


def _unsplit(original: Any) -> Any:
    def split(ring: Any, poly: Any) -> Any:
        coef, unit, primitive = original(ring, poly)
        return abs(coef), unit, primitive

    return split


def _modulo_less(original: Any) -> Any:
    return lambda self, p, bits: original(self, p, bits - 1) if bits > 1 else original(self, p, bits)


def _factor_by_factor(original: Any) -> Any:
    def core_of(self: Any, core: Any) -> Any:
        powers = self.ring.powers[next(iter(core))]
        if len(core) != 1 or len(powers) < 2:
            return original(self, core)
        total: dict[int, Any] = {}
        for a, k in powers:
            add_into(total, original(self, {self.ring.atom_term(a): 1}), k)
        return total

    return core_of


def _nearest(original: Any) -> Any:
    def fractions(a: mpq) -> Iterator[mpq]:
        near = Fraction(int(a.numerator), int(a.denominator)).limit_denominator(1000)
        return iter([mpq(near.numerator, near.denominator)])

    return fractions


def _one_root(original: Any) -> Any:
    def square_away(self: Any, a: int, by_power: Any) -> Any:
        result: dict[int, Any] = {}
        for k, group in by_power.items():
            add_into(result, self.ring.times_term(group, self.ring.atom_term(a, k % 2)))
        return result

    return square_away


MUTANTS: dict[str, Mutant] = {
    "squares come out of roots without a sign": Mutant(
        normal_functions.Functions, "absolute", lambda original: lambda self, p: p, "root of a square"),
    "the square of a root loses its radicand": Mutant(normal_expand.Expander, "_square_away", _one_root, "cube of a root"),
    "factors of any sign come out of maxima": Mutant(normal_content, "_pulled", _always(True), "maximum under an unknown sign"),
    "everything is non-negative": Mutant(normal_order, "is_nonnegative", _always(True), "the last of a maximum"),
    "what is not above is below": Mutant(normal_order, "positive", _no_zero, "selection at ties"),
    "every factor leaves a logarithm": Mutant(normal_functions.Functions, "_log2_core", _factor_by_factor, "logarithm of a product", True),
    "every coefficient is positive": Mutant(normal_forms, "split_unit", _unsplit, "reciprocal of the negative"),
    "cosine is odd": Mutant(normal_functions.Functions, "cos", lambda original: lambda self, p: self.odd("cos", p), "cosine as odd"),
    "a cosine has the square of a sine": Mutant(
        normal_expand.Expander, "_by_square", lambda original: lambda self, a, by_power, square: original(
            self, a, by_power, {t: -c for t, c in square.items() if t}), "cosine squared for sine squared"),
    "signs outlive roots": Mutant(normal_functions, "keeps_roots", _always(True), "a logarithm that another output shows to exist"),
    "every term is an integer": Mutant(normal_rounding, "integral", _floor_everything, "floor of a sum"),
    "division by any fraction that is near": Mutant(
        normal_rounding, "_from_below", _nearest, "unsigned division by 3 with a magic number too small"),
    "wraps never matter": Mutant(
        normal_integers.Integers, "wrap", lambda original: lambda self, p, width: p, "wrapping_that_matters"),
    "modulo one bit less": Mutant(normal_integers.Integers, "_modulo", _modulo_less, "modulo one bit less"),
    "bits never overlap": Mutant(normal_integers.Integers, "_disjoint", _always(True), "or as a sum"),
    "ties go anywhere": Mutant(normal_select.Selections, "_first_at_ties", _always(True), "argmax_with_the_later_one_kept"),
    "every selection is a maximum": Mutant(
        normal_select, "term_sign", _always(Sign.POSITIVE), "relu of a product by a selection"),
    "the lesser for the greater": Mutant(
        normal_rescale.Rescaling, "_compared", _turned, "softmax online by a struct, the lesser for the greater"),
    "one case is enough": Mutant(normal_cases, "_cases", _first_case_only, "absolute_value_dropped"),
    "minima are maxima": Mutant(
        normal_tables, "combine", lambda original: lambda name, tables, allowed=-1: original("max", tables, allowed), "maximum beside minimum"),
    "domains are not compared": Mutant(proof, "compared_domains", _always(Domains()), "square of a root"),
    "cancelled roots are forgotten": Mutant(canonical.Canonical, "_form_partial", _always(False), "a root times what is zero"),
}  # fmt: skip


def _relu_by_selection(b: Builder) -> tuple[Ids, Ids]:
    x, y, a = b.inputs(1)[0], b.inputs(1)[0], b.arena
    return [a.maximum(a.mul(x, y), 0)], [a.select(a.compare(Op.LT, 0, y), a.mul(x, y), 0)]


OWN["relu of a product by a selection"] = _relu_by_selection


def _squares_of_the_circle(b: Builder) -> tuple[Ids, Ids]:
    x, a = b.inputs(1)[0], b.arena
    sine, cosine = a.unary(Op.SIN, x), a.unary(Op.COS, x)
    return [a.mul(sine, sine)], [a.mul(cosine, cosine)]


def _logarithm_shown_elsewhere(b: Builder) -> tuple[Ids, Ids]:
    """log((sqrt x + 1)^2 + (sqrt x - 1)^2) has a value wherever the roots have one, log(x + 1) has not."""
    x, y, a = b.inputs(1)[0], b.inputs(1)[0], b.arena
    up, down = a.add(a.sqrt(x), b.c(1)), a.sub(a.sqrt(x), b.c(1))
    above = a.log2(a.add(a.mul(up, up), a.mul(down, down)))
    first, second = a.log2(a.add(x, b.c(1))), a.log2(a.add(b.c(1), x))
    return [above, y], [a.log2(a.mul(b.c(2), a.add(x, b.c(1)))), a.add(y, a.sub(first, second))]


OWN["cosine squared for sine squared"] = _squares_of_the_circle
OWN["a logarithm that another output shows to exist"] = _logarithm_shown_elsewhere


def _claims(name: str, narrower: bool) -> bool:
    """Whether a near-identity is called equal, on the reference's whole domain or on less, in at least one output."""
    arena, reference, candidate = _case(name)
    sides = (np.array(side, np.int32) for side in (reference, candidate))
    results = prove_columns(arena, *sides, ProofBudget(20, 200_000))
    return any(r.outcome is Outcome.EQUAL and (narrower or not r.narrower) for r in results)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_rule_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant = MUTANTS[name]
    assert not _claims(mutant.caught, mutant.narrower)
    original = getattr(mutant.owner, mutant.name)
    broken = mutant.broken(original)
    for module in (mutant.owner, normal_select, normal_lattice, normal_rounding, normal_value, normal_expand):
        if getattr(module, mutant.name, None) is original:
            monkeypatch.setattr(module, mutant.name, broken)
    assert _claims(mutant.caught, mutant.narrower)
