"""What must be unknown or refuted, never proved: equations that hold on a part of the reals only, or for some signs only.

Where a side has no value at isolated points (a denominator of zero) a proof may stand, and the ledger says so.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from gmpy2 import mpq

from ptx_engine.decide import decide
from ptx_engine.decide.templates import Outcome, ProofBudget, prove_columns
from ptx_engine.terms import Arena, Const, Expr, Op, symbols
from ptx_engine.terms.arena import NEG_INF, POS_INF, ZERO
from ptx_engine.terms.expr import cos, erf, exp, exp2, floor, log, log2, maximum, minimum, relu, rsqrt, sin, sqrt, tanh, where
from ptx_engine.verdict import Status, Verdict


class Names:
    """Real x, y, z; integers i, j of 32 bits and u, v of 8."""

    def __init__(self) -> None:
        self.arena = Arena()
        self.x, self.y, self.z = symbols("x y z", self.arena)  # type: ignore[misc]
        self.i, self.j = symbols("i j", self.arena, "s32")  # type: ignore[misc]
        self.u, self.v = symbols("u v", self.arena, "u8")  # type: ignore[misc]

    def infinity(self) -> Expr:
        return Expr(self.arena, POS_INF)

    def number(self, value: int | Fraction) -> Expr:
        return self.x * 0 + value

    def op(self, op: Op, *operands: Expr | int, plain: int = 0) -> Expr:
        ids = [v.id if isinstance(v, Expr) else int(self.arena.rational(v)) for v in operands]
        slots = (ids + [plain, 0, 0])[:3] if op is Op.WRAP else (ids + [0, 0])[:3]
        return Expr(self.arena, int(self.arena.emit(op, *slots)))  # type: ignore[call-overload]


Case = Callable[[Names], "tuple[Expr, Expr]"]

#: false at points with an interior, or undefined there on the candidate's side: never proved
NEVER: dict[str, Case] = {
    "root of a square": lambda n: (n.x, sqrt(n.x * n.x)),
    "square of a root": lambda n: (n.x, sqrt(n.x) * sqrt(n.x)),
    "square of a root, far from zero": lambda n: (1000 - n.x, sqrt(1000 - n.x) * sqrt(1000 - n.x)),
    "logarithm of a product": lambda n: (log(n.x) + log(n.y), log(n.x * n.y)),
    "sum of logarithms": lambda n: (log(n.x * n.y), log(n.x) + log(n.y)),
    "logarithm of a square": lambda n: (log(n.x * n.x), 2 * log(n.x)),
    "logarithm of a quotient": lambda n: (log(n.x / n.y), log(n.x) - log(n.y)),
    "exponential of a logarithm": lambda n: (n.x, exp(log(n.x))),
    "root of a product": lambda n: (sqrt(n.x * n.y), sqrt(n.x) * sqrt(n.y)),
    "root of a quotient": lambda n: (sqrt(n.x / n.y), sqrt(n.x) / sqrt(n.y)),
    "root of a sixth power": lambda n: (n.x**3, sqrt(n.x**6)),
    "reciprocal root squared": lambda n: (1 / n.x, rsqrt(n.x) * rsqrt(n.x)),
    "size under an unknown sign": lambda n: (abs(n.x * n.y), n.x * abs(n.y)),
    "cube and the cube of the size": lambda n: (n.x**3, abs(n.x) ** 3),
    "maximum under an unknown sign": lambda n: (n.z * maximum(n.x, n.y), maximum(n.z * n.x, n.z * n.y)),
    "maximum of reciprocals": lambda n: (1 / maximum(n.x, n.y), minimum(1 / n.x, 1 / n.y)),
    "relu of a product": lambda n: (relu(n.x * n.y), n.x * relu(n.y)),
    "maximum of squares": lambda n: (maximum(n.x, n.y) ** 2, maximum(n.x * n.x, n.y * n.y)),
    "roots that cancel": lambda n: (n.y, n.y + (sqrt(n.x) - sqrt(n.x))),
    "roots that cancel, of the negative": lambda n: (n.y + sqrt(n.x) - sqrt(n.x), n.y + sqrt(-n.x) - sqrt(-n.x)),
    "a root times what is zero": lambda n: (n.y, n.y + n.op(Op.SUB, n.z, n.z) * sqrt(n.x)),
    "a logarithm times what is zero": lambda n: (n.y, n.y + n.op(Op.SUB, n.z, n.z) * log(n.x)),
    "a root in an exponent that cancels": lambda n: (n.y, n.y * exp2(sqrt(n.x)) * exp2(-sqrt(n.x))),
    "a root needed in one branch": lambda n: (where(n.x >= 0, sqrt(n.x) * sqrt(n.x), n.x), sqrt(n.x) * sqrt(n.x)),
    "a root under another guard": lambda n: (
        where(n.x > 0, sqrt(n.x) ** 2 - n.x, 0), where(n.y > 0, sqrt(n.x) ** 2 - n.x, 0)),
    "a root in a maximum that it never is": lambda n: (n.y * n.y, maximum(n.y * n.y, n.y * n.y + sqrt(n.x) - sqrt(n.x))),
    "a root of what vanishes on an interval": lambda n: (
        sqrt(n.x * maximum(n.z + 1000, 0) ** 2), maximum(n.z + 1000, 0) * sqrt(n.x)),
    "logarithms that cancel, of what vanishes on an interval": lambda n: (
        n.y, n.y + log(maximum(n.x + 1000, 0)) - log(maximum(n.x + 1000, 0))),
    "logarithms that cancel, of a condition": lambda n: (
        n.y, n.y + log(where(n.x > -1000, 1, 0)) - log(where(n.x > -1000, 1, 0))),
    "logarithm of a product of what vanishes on intervals": lambda n: (n.y, n.y + log(
        maximum(n.x + 1000, 0) * maximum(n.z + 1000, 0)) - log(maximum(n.x + 1000, 0)) - log(maximum(n.z + 1000, 0))),
    "power of a negative base": lambda n: (n.x ** Fraction(1, 3), -((-n.x) ** Fraction(1, 3))),
    "power of a product": lambda n: ((n.x * n.y) ** Fraction(1, 3), n.x ** Fraction(1, 3) * n.y ** Fraction(1, 3)),
    "fourth root of a square": lambda n: (abs(n.x) ** Fraction(1, 2), n.x ** Fraction(1, 2)),
    "powers that cancel": lambda n: (n.y, n.y + (n.x ** Fraction(1, 3) - n.x ** Fraction(1, 3))),
    "power of a power": lambda n: ((n.x**2) ** Fraction(3, 2), n.x**3),
    "selection at ties": lambda n: (where(n.x < n.y, 1, 0), where(n.x <= n.y, 1, 0)),
    "selection by a scaled condition": lambda n: (where(n.x * n.z < n.y * n.z, n.x, n.y), where(n.x < n.y, n.x, n.y)),
    "selection by squares": lambda n: (where(n.x * n.x < n.y * n.y, n.x, n.y), where(n.x < n.y, n.x, n.y)),
    "division guarded against zero": lambda n: (where(n.op(Op.NE, n.x, 0), n.y / n.x, n.z), n.y / n.x + n.z),
    "a bound that crosses": lambda n: (minimum(maximum(n.x, 2), 1), maximum(minimum(n.x, 1), 2)),
    "floor of the negative": lambda n: (floor(-n.x), -floor(n.x)),
    "floor of a double": lambda n: (floor(2 * n.x), 2 * floor(n.x)),
    "floor of a sum": lambda n: (floor(n.x + n.y), floor(n.x) + floor(n.y)),
    "sine of a double": lambda n: (sin(2 * n.x), 2 * sin(n.x)),
    "cosine as odd": lambda n: (cos(-n.x), -cos(n.x)),
    "erf for tanh": lambda n: (erf(n.x), tanh(n.x)),
    "exponential of a product": lambda n: (exp(n.x * n.y), exp(n.x) * exp(n.y)),
    "square of a logarithm in an exponent": lambda n: (exp2(log2(n.x * n.x + 1) * log2(n.x * n.x + 1)), n.x * n.x + 1),
    "logarithm of another prime": lambda n: (log2(31 * (n.x * n.x + 1)), log2(2 * (n.x * n.x + 1))),
    "root of another prime": lambda n: (sqrt(29 * (n.x * n.x + 1)), sqrt(n.x * n.x + 1)),
    "base two for base e": lambda n: (log2(n.x * n.x + 1), log(n.x * n.x + 1)),
    "quotient towards zero and down": lambda n: (n.op(Op.TRUNCDIV, n.i, 2), n.op(Op.FLOORDIV, n.i, 2)),
    "remainder of a negative": lambda n: (n.op(Op.TRUNCREM, n.i, 8), n.op(Op.BITAND, n.i, 7)),
    "shift of a negative": lambda n: (n.op(Op.TRUNCDIV, n.i, 4), n.op(Op.SHR, n.i, 2)),
    "sum that wraps": lambda n: (n.i + n.j, n.op(Op.WRAP, n.i + n.j, plain=-32)),
    "product that wraps": lambda n: (n.u * n.v, n.op(Op.WRAP, n.u * n.v, plain=8)),
    "halves of a sum": lambda n: (n.op(Op.FLOORDIV, n.i + n.j, 2), n.op(Op.FLOORDIV, n.i, 2) + n.op(Op.FLOORDIV, n.j, 2)),
    "quotient multiplied back": lambda n: (n.i, n.op(Op.FLOORDIV, n.i, 3) * 3),
    "exclusive or as a sum": lambda n: (n.op(Op.BITXOR, n.u, n.v), n.u + n.v),
    "or as a sum": lambda n: (n.op(Op.BITOR, n.u, n.v), n.u + n.v),
    "sign of a wrapped difference": lambda n: (
        where(n.i < n.j, n.i, n.j), where(n.op(Op.WRAP, n.i - n.j, plain=-32) < 0, n.i, n.j)),
}  # fmt: skip

#: true wherever both sides have a value; the ledger names what only one of them divides by
DIVISIONS: dict[str, Case] = {
    "quotient of equals": lambda n: (n.number(1), n.x / n.x),
    "quotient of equal squares": lambda n: (n.number(1), (n.x * n.x) / (n.x * n.x)),
    "factor cancelled": lambda n: (n.x + n.y, (n.x * n.x - n.y * n.y) / (n.x - n.y)),
    "reciprocals that cancel": lambda n: (n.y, n.y + (1 / n.x - 1 / n.x)),
    "product cancelled": lambda n: (n.x, n.x * n.y / n.y),
    "reciprocal of a reciprocal": lambda n: (n.x, 1 / (1 / n.x)),
    "zero by a variable": lambda n: (n.y, n.y + n.op(Op.SUB, n.z, n.z) / n.x),
}


def _verdict(case: Case) -> Verdict:
    reference, candidate = case(Names())
    return decide(reference, candidate)


@pytest.mark.parametrize("name", NEVER)
def test_it_is_not_proved(name: str) -> None:
    verdict = _verdict(NEVER[name])
    assert verdict.status in (Status.UNKNOWN, Status.REFUTED)
    assert verdict.status is Status.UNKNOWN or verdict.outputs[0].witness is not None
    assert verdict.reason


@pytest.mark.parametrize("name", ["square of a logarithm in an exponent", "logarithm of another prime", "root of another prime"])
def test_the_normal_form_alone_does_not_prove_it(name: str) -> None:
    """Without the driver, which refutes what differs in float64 before it is tried."""
    n = Names()
    results = prove_columns(n.arena, *_columns(*NEVER[name](n)), ProofBudget(5))
    assert all(r.outcome is not Outcome.EQUAL for r in results)


@pytest.mark.parametrize("name", DIVISIONS)
def test_a_denominator_is_in_the_ledger(name: str) -> None:
    verdict = _verdict(DIVISIONS[name])
    assert verdict.status is Status.PROVED
    assert "denominators are not zero (only in the candidate)" in verdict.assumptions


def in_a_branch(n: Names, root: Expr) -> tuple[Expr, Expr]:
    chosen = where(n.z > 0, root, n.y)
    return chosen, chosen + 0 * root


#: what vanishes as the terms are made has no value on a half space: no ledger line makes that a proof
VANISHED: dict[str, Case] = {
    "a root under a factor of zero": lambda n: (n.y, n.y + 0 * sqrt(n.x)),
    "a sum with a root under a factor of zero": lambda n: (n.y, n.y + (sqrt(n.x) + n.z) * 0),
    "a logarithm under a factor of zero": lambda n: (n.y, n.y + 0 * log(n.x)),
    "zero by what vanishes on a half line": lambda n: (n.y, n.y + 0 / relu(n.x)),
    "zero times a product by what vanishes": lambda n: (n.y, n.y + 0 * n.z / relu(n.x)),
    "a reciprocal of what vanishes, times zero": lambda n: (n.y, n.y + 0 * (1 / relu(n.x))),
    "a root below infinity": lambda n: (n.y, where(sqrt(n.x) < n.infinity(), n.y, n.z)),
    "a logarithm below an infinite bound": lambda n: (n.y, where(maximum(log(n.x), n.infinity()) > 0, n.y, n.z)),
    "a root far from zero": lambda n: (n.y, n.y + 0 * sqrt(n.x + 2**20)),
    "a logarithm beside one of another tensor": lambda n: (log(n.y), log(n.y + 0 * sqrt(n.x))),
    "a quotient by a clamped value": lambda n: (n.y, n.y + 0 / relu(n.x + 100)),
    "a root in a branch that is not always taken": lambda n: in_a_branch(n, sqrt(n.x)),
    "an infinity less an infinity, times zero": lambda n: (
        n.y, n.y + 0 * (where(n.x > 0, n.y, n.infinity()) - where(n.x > 0, n.z, n.infinity()))),
    "an infinity in a branch, times zero": lambda n: (n.y, n.y + 0 * where(n.x > 0, n.z, n.infinity())),
    "a root beside infinity": lambda n: (n.y, where(sqrt(n.x) + n.infinity() > 0, n.y, n.z)),
}  # fmt: skip


@pytest.mark.parametrize("name", VANISHED)
def test_what_vanishes_without_a_value_is_no_proof(name: str) -> None:
    verdict = _verdict(VANISHED[name])
    assert verdict.status is Status.UNKNOWN and "something that vanished" in verdict.reason and "x=-" in verdict.reason


def test_an_opaque_term_that_no_output_has_hides_nothing() -> None:
    """An opaque term has no value at any point. Of a record of products only those count that an output has."""
    n = Names()
    columns = np.array([[[n.y.id], [n.arena.opaque("f", n.z.id)]]], np.int32)
    products = n.arena.dot(np.array([[[n.z.id]]], np.int32), columns, np.zeros((1, 1, 2), np.int32))
    used = Expr(n.arena, int(products[0, 0, 0]))
    verdict = decide(used, used + 0 * sqrt(n.x))
    assert verdict.status is Status.UNKNOWN and "something that vanished" in verdict.reason


def test_what_vanishes_where_the_reference_has_no_value_either_is_in_the_ledger() -> None:
    n = Names()
    verdict = decide(n.y + sqrt(n.x), sqrt(n.x) + 0 * log(n.x) + n.y)
    assert verdict.status is Status.PROVED and any("product with zero" in line for line in verdict.assumptions)
    n = Names()
    root = sqrt(n.x + n.z)
    verdict = decide(n.y + root, root + 0 / root + 0 * (1 / root) + n.y)  # the very same root
    assert verdict.status is Status.PROVED and verdict.assumptions == ["real arithmetic", QUOTIENT]


def test_what_vanishes_with_a_factor_of_zero_is_in_the_ledger() -> None:
    """0 * log(1 + x^2 - x) is no term at all: it is zero where it is made, which is said."""
    n = Names()
    verdict = decide(n.y, n.y + 0 * log(n.x * n.x + 1 - n.x))
    assert verdict.status is Status.PROVED and any("product with zero" in line for line in verdict.assumptions)
    other = Names()
    assert decide(other.y, other.y + 0 * (other.x + other.z)).assumptions == ["real arithmetic"]
    for denominator in (other.x, other.x - other.y):
        divided = decide(other.y, other.y + 0 / denominator)
        assert divided.status is Status.PROVED and divided.assumptions == ["real arithmetic", QUOTIENT]


def beside_zeros(function: Callable[[Expr], Expr], needed: bool) -> Verdict:
    """Products of matrices: y0 + y1 y2 against that and 0 f(x), where f(x) is an output of its own or not."""
    arena = Arena()
    x, y = symbols("x y:3", arena)  # type: ignore[misc]
    value = function(x)
    rows, cols = (np.array([[pair]], np.int32) for pair in ([ZERO, y[1].id], [value.id, y[2].id]))
    product = Expr(arena, int(arena.dot(rows, cols, np.array([[[y[0].id]]], np.int32)).item()))
    reference = [y[0] + y[1] * y[2]]
    return decide([*reference, value], [product, value]) if needed else decide(reference, [product])


@pytest.mark.parametrize("function", [sqrt, log, lambda x: 1 / relu(x)])
def test_what_stands_beside_a_zero_in_a_product_of_matrices_vanishes_too(function: Callable[[Expr], Expr]) -> None:
    verdict = beside_zeros(function, needed=False)
    assert verdict.status is Status.UNKNOWN and "something that vanished" in verdict.reason
    verdict = beside_zeros(function, needed=True)
    assert verdict.status is Status.PROVED and verdict.assumptions == ["real arithmetic"]
    for harmless in (exp, lambda x: sqrt(x * x + 1)):
        verdict = beside_zeros(harmless, needed=False)
        assert verdict.status is Status.PROVED and verdict.assumptions == ["real arithmetic"]


def test_one_function_among_many_that_vanish_is_looked_at() -> None:
    """Of 200 terms that vanish, one is a root that may have no value, and the others are not shown to have one."""
    arena = Arena()
    x, y, w = symbols("x:200 y:200 w", arena)  # type: ignore[misc]
    plain = [y[i] + 0 * log(x[i] * x[i] + 1 - x[i]) for i in range(200)]
    assert decide(list(y), plain).status is Status.PROVED
    plain[77] = y[77] + 0 * log(w)
    verdict = decide(list(y), plain)
    assert verdict.status is Status.UNKNOWN and "w=-" in verdict.reason


def test_a_sum_of_which_all_may_be_masked_is_no_denominator() -> None:
    """The sum of exponentials of scores has a value where all are minus infinite: it is zero then."""
    n = Names()
    minus = Expr(n.arena, NEG_INF)
    masked = exp(where(n.x > 0, n.y, minus)) + exp(where(n.x > 1, n.z, minus))
    verdict = decide(masked, masked + 0 / masked)
    assert verdict.status is Status.UNKNOWN and "something that vanished" in verdict.reason
    other = Names()
    masked = exp(where(other.x > 0, other.y, 0)) + exp(where(other.x > 1, other.z, 0))
    verdict = decide(masked, masked + 0 / masked)
    assert verdict.status is Status.PROVED and verdict.assumptions == ["real arithmetic"]


def test_more_functions_than_are_looked_at_are_said() -> None:
    (x,) = (symbols("x:4"),)
    y = x[0]
    for i in range(80):
        y = y + 0 * log(x[1] * x[1] + 1 - x[1] / (i + 2))
    verdict = decide(x[0], y)
    assert verdict.status is Status.PROVED
    assert "of 80 functions that vanished so, 64 were tried at real inputs" in verdict.assumptions


QUOTIENT = "a quotient of zero is zero: its denominator is not zero"

#: constants that are no real numbers and vanish again: what is made of them is a rule of IEEE 754, and in the ledger
NO_NUMBERS: dict[str, tuple[Case, str]] = {
    "0/0 in a maximum": (lambda n: (n.y, maximum(n.y, n.number(0) / n.number(0))), "NaN constant"),
    "log(-1) in a maximum": (lambda n: (n.y, maximum(log(n.number(-1)), n.y)), "NaN constant"),
    "sqrt(-1) in a minimum": (lambda n: (n.y, minimum(n.y, sqrt(n.number(-1)))), "NaN constant"),
    "inf - inf in a maximum": (lambda n: (n.y, maximum(n.y, n.infinity() - n.infinity())), "NaN constant"),
    "a comparison with 0/0": (lambda n: (n.y, where(n.x < n.number(0) / n.number(0), n.z, n.y)), "NaN constant"),
    "1/0 as a bound": (lambda n: (n.y, minimum(n.y, 1 / n.number(0))), "a constant divided by zero"),
}


@pytest.mark.parametrize("name", NO_NUMBERS)
def test_constants_that_are_no_numbers_are_in_the_ledger(name: str) -> None:
    case, line = NO_NUMBERS[name]
    verdict = _verdict(case)
    assert verdict.status is Status.PROVED and any(line in assumed for assumed in verdict.assumptions)


def test_conditions_that_both_sides_need_are_no_restriction() -> None:
    n = Names()
    verdict = decide(n.y + sqrt(n.x), sqrt(n.x) + n.y * 1 + 0 * n.z)
    assert verdict.status is Status.PROVED and verdict.assumptions == ["real arithmetic"]
    guarded = where(n.x > 0, log(n.x) + n.y, n.y), n.y + where(n.x > 0, log(n.x), 0)
    assert decide(*guarded).status is Status.PROVED and decide(*guarded).assumptions == ["real arithmetic"]


def test_the_reference_alone_may_be_undefined() -> None:
    """sqrt(x)^2 against x: the claim is about where the reference has a value, and says so."""
    n = Names()
    verdict = decide(sqrt(n.x) * sqrt(n.x), n.x)
    assert verdict.status is Status.PROVED
    assert "square roots of non-negative values (only in the reference)" in verdict.assumptions


def test_products_of_the_root_of_two() -> None:
    """x sqrt2 * y sqrt2 * z sqrt2 is 2 sqrt2 xyz: neither 2 xyz nor xyz sqrt2."""
    n = Names()
    root = Expr(n.arena, n.arena.const(Const(mpq(1), sqrt2=1)))
    product, plain = (n.x * root) * (n.y * root) * (n.z * root), n.x * n.y * n.z
    assert decide(2 * root * plain, product).status is Status.PROVED
    for wrong in (2 * plain, root * plain):
        assert decide(wrong, product).status is Status.REFUTED
        assert all(r.outcome is not Outcome.EQUAL for r in prove_columns(n.arena, *_columns(wrong, product), ProofBudget(5)))


def _columns(*terms: Expr) -> list[np.ndarray]:
    return [np.array([term.id], np.int32) for term in terms]


def test_a_root_that_is_shown_to_exist_restricts_nothing() -> None:
    n = Names()
    inside = n.x * n.x + n.y * n.y + 1
    verdict = decide(inside, sqrt(inside) * sqrt(inside))
    assert verdict.status is Status.PROVED and verdict.assumptions == ["real arithmetic"]
    spread = (n.x - n.y) ** 2 + 1  # the candidate multiplies it out: the same radicand, by proof
    verdict = decide(1 / sqrt(spread), 1 / sqrt(n.x * n.x - 2 * n.x * n.y + n.y * n.y + 1))
    assert verdict.status is Status.PROVED and verdict.assumptions == ["real arithmetic"]
