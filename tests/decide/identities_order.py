"""Identities of maxima, sorting networks, selections and clamps, beside those of ``identities_algebra``."""

from __future__ import annotations

from gmpy2 import mpq
from identity_register import EQUAL, WRONG, Case, equal, wrong
from normal_terms import Builder, Ids

from ptx_engine.terms import Op


def _networks(n: int) -> Case:
    def case(b: Builder) -> tuple[Ids, Ids]:
        x = b.inputs(n)
        return b.odd_even_sort(x), b.bitonic_sort(x)

    return case


for _n in (2, 4, 16):
    EQUAL[f"bitonic against odd-even sort of {_n}"] = _networks(_n)


def _batcher(b: Builder, x: Ids) -> Ids:
    """Batcher's odd-even merge sort."""
    y, n = list(x), len(x)
    p = 1
    while p < n:
        k = p
        while k:
            for j in range(k % p, n - k, 2 * k):
                for i in range(min(k, n - j - k)):
                    if (i + j) // (2 * p) == (i + j + k) // (2 * p):
                        b.exchange(y, i + j, i + j + k)
            k //= 2
        p *= 2
    return y


@equal
def batcher_against_bitonic_sort(b: Builder) -> tuple[Ids, Ids]:
    x = b.inputs(8)
    return _batcher(b, x), b.bitonic_sort(x)


@wrong
def bitonic_sort_with_one_direction_turned(b: Builder) -> tuple[Ids, Ids]:
    x = b.inputs(4)
    y = list(x)
    for i, j in ((0, 1), (2, 3), (0, 2), (1, 3), (0, 1), (2, 3)):  # the second pair has to be turned round first
        b.exchange(y, i, j)
    return b.odd_even_sort(x), y


def _exchange_by_selection(b: Builder, y: Ids, i: int, j: int) -> None:
    a = b.arena
    wrong_way = a.compare(Op.LT, y[j], y[i])
    y[i], y[j] = int(a.select(wrong_way, y[j], y[i])), int(a.select(wrong_way, y[i], y[j]))  # type: ignore[call-overload]


@equal
def sort_by_selections(b: Builder) -> tuple[Ids, Ids]:
    x = b.inputs(4)
    y = list(x)
    for i, j in ((0, 1), (2, 3), (0, 2), (1, 3), (1, 2)):
        _exchange_by_selection(b, y, i, j)
    return b.odd_even_sort(x), y


@wrong
def sort_by_selections_with_one_exchange_missing(b: Builder) -> tuple[Ids, Ids]:
    x = b.inputs(4)
    y = list(x)
    for i, j in ((0, 1), (2, 3), (0, 2), (1, 3)):
        _exchange_by_selection(b, y, i, j)
    return b.odd_even_sort(x), y


def _top_two(count: int, *, ties_to_second: bool = True) -> Case:
    """The two largest by one pass of comparisons."""

    def case(b: Builder) -> tuple[Ids, Ids]:
        x, a = b.inputs(count), b.arena
        top, second = a.maximum(x[0], x[1]), a.minimum(x[0], x[1])
        for v in x[2:]:
            first, above = a.compare(Op.LT, top, v), a.compare(Op.LT, second, v)
            second = a.select(first, top if ties_to_second else second, a.select(above, v, second))
            top = a.select(first, v, top)
        return b.odd_even_sort(x)[: -3 if count > 2 else None : -1], [top, second]

    return case


EQUAL["top two of five by comparisons"] = _top_two(5)
WRONG["top two that forget the former first"] = _top_two(4, ties_to_second=False)


@equal
def top_four_by_merging_sorted_halves(b: Builder) -> tuple[Ids, Ids]:
    """The four largest of eight: two sorted runs of four, one half-cleaner, one bitonic merge."""
    x, a = b.inputs(8), b.arena
    low, high = b.odd_even_sort(x[:4]), b.odd_even_sort(x[4:])
    top = [a.maximum(p, q) for p, q in zip(low, high[::-1])]
    for i, j in ((0, 2), (1, 3), (0, 1), (2, 3)):
        b.exchange(top, i, j)
    return b.odd_even_sort(x)[4:], top


@equal
def median_of_three(b: Builder) -> tuple[Ids, Ids]:
    (x, y, z), a = b.inputs(3), b.arena
    smallest, greatest = a.minimum(x, a.minimum(y, z)), a.maximum(x, a.maximum(y, z))
    network = a.maximum(a.minimum(x, y), a.minimum(a.maximum(x, y), z))
    return [network], [a.sub(a.add(a.add(x, y), z), a.add(smallest, greatest))]


@wrong
def median_of_three_with_one_minimum_for_a_maximum(b: Builder) -> tuple[Ids, Ids]:
    (x, y, z), a = b.inputs(3), b.arena
    return [a.maximum(a.minimum(x, y), a.minimum(a.maximum(x, y), z))], [a.maximum(a.minimum(x, y), a.maximum(a.maximum(x, y), z))]


# --- maxima -------------------------------------------------------------------------------------


@equal
def maximum_in_any_shape(b: Builder) -> tuple[Ids, Ids]:
    x, a = b.inputs(9), b.arena
    lanes = x[:8]
    for step in (4, 2, 1):
        lanes = [a.maximum(lanes[i], lanes[i ^ step]) for i in range(8)]
    return [b.greatest(x)] * 2, [a.maximum(lanes[5], x[8]), b.greatest(x[::-1] + x[2:5])]


@wrong
def maximum_of_another_set(b: Builder) -> tuple[Ids, Ids]:
    x = b.inputs(6)
    return [b.greatest(x)], [b.greatest(x[:5])]


@equal
def maximum_of_sums_and_shifts(b: Builder) -> tuple[Ids, Ids]:
    """max(a + c, b + c) = max(a, b) + c, with a factor of a half, and under an increasing function."""
    (x, y, z), a, half = b.inputs(3), b.arena, b.c(mpq(1, 2))
    left = [a.add(a.maximum(x, y), z), a.mul(half, a.maximum(x, y))]
    return left, [a.maximum(a.add(x, z), a.add(z, y)), a.maximum(a.mul(x, half), a.mul(y, half))]


@equal
def minimum_as_a_negated_maximum(b: Builder) -> tuple[Ids, Ids]:
    x, a = b.inputs(4), b.arena
    least = x[0]
    for v in x[1:]:
        least = a.minimum(least, v)
    return [least], [a.neg(b.greatest([a.neg(v) for v in x]))]


@wrong
def minimum_as_a_maximum_of_reciprocals(b: Builder) -> tuple[Ids, Ids]:
    (x, y), a = b.inputs(2), b.arena
    return [a.minimum(x, y)], [a.div(1, a.maximum(a.div(1, x), a.div(1, y)))]


# --- clamps and selections ----------------------------------------------------------------------


@equal
def clamp_by_selections(b: Builder) -> tuple[Ids, Ids]:
    (x,), a, low, high = b.inputs(1), b.arena, b.c(-3), b.c(5)
    clamp = a.minimum(a.maximum(x, low), high)
    selected = a.select(a.compare(Op.LT, x, low), low, a.select(a.compare(Op.LT, high, x), high, x))
    return [clamp] * 2, [selected, a.maximum(a.minimum(x, high), low)]


@equal
def clamp_of_a_clamp(b: Builder) -> tuple[Ids, Ids]:
    (x,), a = b.inputs(1), b.arena

    def clamp(v: object, low: int, high: int) -> object:
        return a.minimum(a.maximum(v, b.c(low)), b.c(high))  # type: ignore[arg-type]

    return [clamp(x, 0, 4), clamp(x, 4, 4)], [clamp(clamp(x, -2, 6), 0, 4), clamp(clamp(x, 0, 4), 4, 9)]  # type: ignore[list-item]


@equal
def saturating_cast_as_a_clamp(b: Builder) -> tuple[Ids, Ids]:
    """Rounding and clamping to int8 in either order, as the bounds are whole."""
    (x,), a, low, high = b.inputs(1), b.arena, b.c(-128), b.c(127)
    first = a.unary(Op.ROUND_EVEN, a.minimum(a.maximum(x, low), high))
    return [first], [a.minimum(a.maximum(a.unary(Op.ROUND_EVEN, x), low), high)]


@wrong
def saturating_cast_with_the_bounds_of_uint8(b: Builder) -> tuple[Ids, Ids]:
    (x,), a = b.inputs(1), b.arena
    r = a.unary(Op.ROUND_EVEN, x)
    return [a.minimum(a.maximum(r, b.c(-128)), b.c(127))], [a.minimum(a.maximum(r, 0), b.c(255))]


@equal
def clamped_value_fits_its_type(b: Builder) -> tuple[Ids, Ids]:
    """A conversion to 8 bits after a clamp wraps nothing."""
    (x,), a = b.inputs(1), b.arena
    clamped = a.minimum(a.maximum(a.unary(Op.ROUND_EVEN, x), b.c(-128)), b.c(127))
    return [clamped] * 2, [a.emit(Op.WRAP, clamped, -8), a.emit(Op.WRAP, a.emit(Op.WRAP, clamped, -32), -8)]


@wrong
def clamped_value_that_does_not_fit(b: Builder) -> tuple[Ids, Ids]:
    (x,), a = b.inputs(1), b.arena
    clamped = a.minimum(a.maximum(a.unary(Op.ROUND_EVEN, x), b.c(-128)), b.c(128))
    return [clamped], [a.emit(Op.WRAP, clamped, -8)]


@equal
def sign_by_comparisons(b: Builder) -> tuple[Ids, Ids]:
    (x,), a, minus = b.inputs(1), b.arena, b.c(-1)
    above, below = a.compare(Op.LT, 0, x), a.compare(Op.LT, x, 0)
    left = a.select(above, 1, a.select(below, minus, 0))
    return [left, a.mul(left, x)], [a.sub(a.select(above, 1, 0), a.select(below, 1, 0)), a.abs(x)]


@wrong
def sign_with_one_at_zero(b: Builder) -> tuple[Ids, Ids]:
    (x,), a, minus = b.inputs(1), b.arena, b.c(-1)
    above, below = a.compare(Op.LT, 0, x), a.compare(Op.LT, x, 0)
    return [a.select(above, 1, a.select(below, minus, 0))], [a.select(below, minus, 1)]


@equal
def selection_by_arithmetic(b: Builder) -> tuple[Ids, Ids]:
    (x, y, z), a = b.inputs(3), b.arena
    p = a.compare(Op.LT, x, y)
    weight = a.select(p, 1, 0)
    return [a.select(p, y, z)] * 2, [a.fma(weight, a.sub(y, z), z), a.select(a.logic(Op.NOT, p), z, y)]


@equal
def nan_aware_extremes(b: Builder) -> tuple[Ids, Ids]:
    """max and min as compilers expand them: an unordered operand is tested first; on the reals the test is false."""
    (x, y), a = b.inputs(2), b.arena
    unordered = [a.compare(Op.NE, v, v) for v in (x, y)]
    greater = a.select(a.compare(Op.LT, y, x), x, y)
    lesser = a.select(a.compare(Op.LT, x, y), x, y)
    wrapped = [a.select(unordered[0], y, a.select(unordered[1], x, v)) for v in (greater, lesser)]
    ieee = a.select(a.logic(Op.OR, *unordered), b.c(1), greater)
    return [a.maximum(x, y), a.minimum(x, y), a.maximum(x, y)], [*wrapped, ieee]


@wrong
def nan_aware_maximum_with_the_wrong_side(b: Builder) -> tuple[Ids, Ids]:
    (x, y), a = b.inputs(2), b.arena
    return [a.maximum(x, y)], [a.select(a.compare(Op.NE, x, x), y, a.select(a.compare(Op.LT, y, x), y, x))]


def _cases(conditions: int) -> Case:
    """A piecewise value by nested and by summed selections over so many thresholds."""

    def case(b: Builder) -> tuple[Ids, Ids]:
        (x,), a, y = b.inputs(1), b.arena, b.inputs(conditions + 1)
        tests = [a.compare(Op.LT, x, b.c(i)) for i in range(conditions)]
        nested = y[conditions]
        for test, v in reversed(list(zip(tests, y))):
            nested = a.select(test, v, nested)
        summed = y[conditions]
        for i, test in enumerate(tests):
            summed = a.add(summed, a.select(test, a.sub(y[i], y[i + 1]), 0))
        return [nested], [summed]

    return case


def _apart(conditions: int, missing: int = 0) -> Case:
    """Conditions on values of their own: doubled and shifted in turn, against a product and a sum of selections."""

    def case(b: Builder) -> tuple[Ids, Ids]:
        x, (bound, y), a = b.inputs(conditions), b.inputs(2), b.arena
        tests = [a.compare(Op.LT, v, bound) for v in x]
        doubled, product, shifted, total = y, y, y, y
        for i, test in enumerate(tests):
            doubled = a.select(test, a.mul(doubled, b.c(2)), doubled)
            shifted = a.select(test, a.add(shifted, b.c(i + 1)), shifted)
        for i, test in reversed(list(enumerate(tests[missing:], missing))):
            product = a.mul(product, a.select(test, b.c(2), 1))
            total = a.add(total, a.select(a.logic(Op.NOT, test), 0, b.c(i + 1)))
        return [doubled, shifted], [product, total]  # type: ignore[list-item]

    return case


EQUAL["selections over 10 conditions of their own"] = _apart(10)
WRONG["selections over 10 conditions of which one is not asked"] = _apart(10, missing=1)
EQUAL["piecewise value over 4 conditions"] = _cases(4)
EQUAL["piecewise value over 8 conditions"] = _cases(8)


@wrong
def piecewise_value_with_a_threshold_moved(b: Builder) -> tuple[Ids, Ids]:
    (x, y, z), a = b.inputs(3), b.arena
    return [a.select(a.compare(Op.LT, x, b.c(2)), y, z)], [a.select(a.compare(Op.LT, x, b.c(3)), y, z)]
