"""What the decider proves is proved again by systems that share nothing with it: Z3 for real arithmetic, SymPy for exponentials.

Z3 decides polynomials, quotients, maxima and selections (nlsat); denominators are taken to differ from zero, as the decider
takes them. SymPy has exponentials as indeterminates: e^(a+b) = e^a e^b, maxima as symbols by the set they are over.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest
import sympy
import test_normal_identities  # noqa: F401  (registers the cases)
import z3
from identity_register import EQUAL, WRONG
from normal_terms import Builder, Ids, proved

from ptx_engine.terms import Arena, Op
from ptx_engine.terms.ops import TABLE

#: real arithmetic, sorts, selections, clamps: what Z3 answers within its time
REAL = [
    "sum_in_any_shape", "kahan_sum", "neumaier_sum", "two_sums_compensated", "strassen", "strassen_winograd", "winograd_f23",
    "winograd_over_channels", "three_products_for_a_complex_one", "split_k_with_alpha_and_beta", "split K in 3", "stream_k",
    "two_chained_products", "cumsum_by_scan", "cumsum_by_blelloch", "cumsum_by_blocks", "linear_recurrence_by_scan",
    "low_rank_update", "linear_attention_reassociated", "depthwise_then_pointwise", "shifted_moments", "sum_by_butterfly",
    "clamp_compositions", "clamp_by_selections", "clamp_of_a_clamp", "hard_swish", "leaky_relu", "maximum_by_selection",
    "maximum_plus_minimum", "maximum_of_sums_and_shifts", "minimum_as_a_negated_maximum", "median_of_three", "sign_by_comparisons",
    "selection_by_arithmetic", "selections_nested_and_merged", "nan_aware_extremes", "squared_relu", "bitonic against odd-even sort of 4",
    "sort_by_selections", "top_two_by_comparisons", "piecewise value over 4 conditions", "argmax of 2", "argmax of 4",
]  # fmt: skip
REAL_WRONG = [
    "sum_with_one_term_twice", "winograd_with_a_wrong_sign", "strassen_with_a_wrong_sign", "clamp_of_another_bound",
    "maximum_scaled_by_an_unknown", "leaky_relu_of_slope_two", "sort_with_one_round_missing", "sign_with_one_at_zero",
]  # fmt: skip
#: softmax and its kin: exponentials of differences, over maxima as symbols
EXPONENTIAL = [
    "softmax shifted", "softmax any shift", "softmax online, 8 in blocks of 4", "softmax_two_passes", "softmax with temperature",
    "softmax_backward", "sigmoid_by_tanh", "silu_as_a_quotient", "silu_backward", "sigmoid_backward", "swiglu_with_base_2",
    "tanh_by_exponentials", "tanh_odd_and_doubled", "gelu_tanh_with_x_taken_out", "flash attention 1 block 4", "flash attention 2 block 3",
    "attention_weights_as_products", "scale_folded_into_log2e"
]  # fmt: skip
EXPONENTIAL_WRONG = [
    "softmax_with_two_shifts",
    "online_without_rescaling_the_output",
    "silu_with_the_sign_dropped",
    "softmax_masked_by_zero",
]


def translate(arena: Arena, roots: Ids, leaf: Callable[[int], object], apply: Callable[[Op, list], object]) -> list:
    """Terms in another system: ``leaf`` makes inputs, ``apply`` everything else, constants among them."""
    memo: dict[int, object] = {}
    stack = list(roots)
    while stack:
        ident = stack[-1]
        if ident in memo:
            stack.pop()
            continue
        if ident < 0:
            memo[ident] = leaf(-1 - ident)
            continue
        op, *slots = arena.node(ident)
        operands = slots[: TABLE[op].arity]
        missing = [x for x in operands if x not in memo]
        if missing:
            stack.extend(missing)
        else:
            memo[ident] = apply(op, [arena.consts[slots[0]]] if op is Op.CONST else [memo[x] for x in operands])
    return [memo[root] for root in roots]


# --- Z3 -----------------------------------------------------------------------------------------


class Reals:
    """Terms as Z3's, with what has to hold for them to have a value."""

    def __init__(self) -> None:
        self.conditions: list[z3.BoolRef] = []

    def apply(self, op: Op, v: list) -> object:
        """A node over its operands; conditions are 0 or 1, as in the arena."""
        match op:
            case Op.CONST:
                assert v[0].is_rational
                return z3.Q(int(v[0].coef.numerator), int(v[0].coef.denominator))
            case Op.ADD:
                return v[0] + v[1]
            case Op.SUB:
                return v[0] - v[1]
            case Op.MUL:
                return v[0] * v[1]
            case Op.FMA:
                return v[0] * v[1] + v[2]
            case Op.NEG:
                return -v[0]
            case Op.DIV:
                self.conditions.append(v[1] != 0)
                return v[0] / v[1]
            case Op.MAX:
                return z3.If(v[0] < v[1], v[1], v[0])
            case Op.MIN:
                return z3.If(v[0] < v[1], v[0], v[1])
            case Op.ABS:
                return z3.If(v[0] < 0, -v[0], v[0])
            case Op.ITE:
                return z3.If(v[0] == 1, v[1], v[2])
        return z3.If(self._condition(op, v), z3.RealVal(1), z3.RealVal(0))

    def _condition(self, op: Op, v: list) -> z3.BoolRef:
        tests: dict[Op, Callable[[], z3.BoolRef]] = {
            Op.LT: lambda: v[0] < v[1], Op.LE: lambda: v[0] <= v[1], Op.EQ: lambda: v[0] == v[1], Op.NE: lambda: v[0] != v[1],
            Op.AND: lambda: z3.And(v[0] == 1, v[1] == 1), Op.OR: lambda: z3.Or(v[0] == 1, v[1] == 1), Op.NOT: lambda: v[0] != 1,
        }  # fmt: skip
        return tests[op]()


def _z3_answer(b: Builder, reference: Ids, candidate: Ids) -> z3.CheckSatResult:
    reals = Reals()
    both = translate(b.arena, reference + candidate, lambda i: z3.Real(f"x{i}"), reals.apply)
    solver = z3.Solver()
    solver.set("timeout", 20_000)
    solver.add(*reals.conditions)
    solver.add(z3.Or(*(x != y for x, y in zip(both[: len(reference)], both[len(reference) :]))))
    return solver.check()


@pytest.mark.parametrize("name", REAL)
def test_z3_proves_it_too(name: str) -> None:
    b = Builder()
    reference, candidate = EQUAL[name](b)
    assert proved(b, reference, candidate)
    assert _z3_answer(b, reference, candidate) == z3.unsat


@pytest.mark.parametrize("name", REAL_WRONG)
def test_z3_refutes_the_twin_too(name: str) -> None:
    b = Builder()
    assert _z3_answer(b, *WRONG[name](b)) == z3.sat


# --- SymPy --------------------------------------------------------------------------------------


class Exponentials:
    """Terms as SymPy's: quotients over the inputs and over exponentials of them, which are indeterminates."""

    def __init__(self) -> None:
        self._symbols: dict[object, sympy.Symbol] = {}
        self._sets: dict[sympy.Symbol, frozenset[sympy.Expr]] = {}

    def symbol(self, key: object) -> sympy.Symbol:
        """One symbol for each key."""
        return self._symbols.setdefault(key, sympy.Symbol(f"s{len(self._symbols)}"))

    def _power(self, exponent: sympy.Expr) -> sympy.Expr:
        """2^exponent as a product of indeterminates by whole powers, one for each product of symbols in it."""
        result: sympy.Expr = sympy.Integer(1)
        for term in sympy.Add.make_args(sympy.expand(exponent)):
            count, product = term.as_coeff_Mul()
            result *= self.symbol(("exp", product)) ** (count * _GRAIN)
        return result

    def apply(self, op: Op, v: list) -> object:
        match op:
            case Op.CONST:
                const = v[0]
                assert const.special is None and not const.sqrt2 and not const.pi
                coef = Fraction(int(const.coef.numerator), int(const.coef.denominator))
                return sympy.Rational(coef.numerator, coef.denominator) * self.symbol("log2e") ** const.log2e
            case Op.MAX:
                members = frozenset().union(*(self._members(x) for x in v))
                found = self.symbol(members)
                self._sets[found] = members
                return found
            case Op.TANH:
                square = self._power(2 * self.symbol("log2e") * v[0])
                return (square - 1) / (square + 1)
            case Op.EXP2:
                return self._power(v[0])
        table = {
            Op.ADD: lambda: v[0] + v[1], Op.SUB: lambda: v[0] - v[1], Op.MUL: lambda: v[0] * v[1], Op.FMA: lambda: v[0] * v[1] + v[2],
            Op.NEG: lambda: -v[0], Op.DIV: lambda: v[0] / v[1],
        }  # fmt: skip
        return table[op]()

    def _members(self, x: sympy.Expr) -> frozenset[sympy.Expr]:
        return self._sets.get(x, frozenset({sympy.expand(x)}))


#: exponents in these terms are multiples of one over this
_GRAIN = 16


def _sympy_equal(b: Builder, reference: Ids, candidate: Ids) -> bool:
    made = Exponentials()
    both = translate(b.arena, reference + candidate, lambda i: sympy.Symbol(f"x{i}"), made.apply)
    return all(sympy.cancel(sympy.together(x - y)) == 0 for x, y in zip(both[: len(reference)], both[len(reference) :]))


@pytest.mark.parametrize("name", EXPONENTIAL)
def test_sympy_proves_it_too(name: str) -> None:
    b = Builder()
    reference, candidate = (side[:3] for side in EQUAL[name](b))
    assert proved(b, reference, candidate)
    assert _sympy_equal(b, reference, candidate)


@pytest.mark.parametrize("name", EXPONENTIAL_WRONG)
def test_sympy_does_not_prove_the_twin(name: str) -> None:
    b = Builder()
    reference, candidate = (side[:2] for side in WRONG[name](b))
    assert not _sympy_equal(b, reference, candidate)
