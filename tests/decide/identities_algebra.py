"""Identities of algebra: sums and products, maxima, conditions, roots, logarithms, integers."""

from __future__ import annotations

from gmpy2 import mpq
from identity_register import equal, wrong
from normal_terms import Builder, Ids

from ptx_engine.terms import Const, Op

# --- sums and products --------------------------------------------------------------------------


@equal
def sum_in_any_shape(b: Builder) -> tuple[Ids, Ids]:
    x = b.inputs(13)
    return [b.total(x), b.total(x), b.total(x)], [b.tree(x), b.total(x[::-1]), b.arena.add(b.tree(x[:5]), b.tree(x[5:]))]


@equal
def kahan_sum(b: Builder) -> tuple[Ids, Ids]:
    x, a = b.inputs(9), b.arena
    total, comp = 0, 0
    for v in x:
        y = a.sub(v, comp)
        t = a.add(total, y)
        comp = a.sub(a.sub(t, total), y)
        total = t
    return [b.total(x)], [total]


@wrong
def sum_with_one_term_twice(b: Builder) -> tuple[Ids, Ids]:
    x = b.inputs(9)
    return [b.total(x)], [b.total([*x[:8], x[7]])]


@equal
def strassen(b: Builder) -> tuple[Ids, Ids]:
    a, x, y = b.arena, b.inputs(4), b.inputs(4)
    m1 = a.mul(a.add(x[0], x[3]), a.add(y[0], y[3]))
    m2, m3 = a.mul(a.add(x[2], x[3]), y[0]), a.mul(x[0], a.sub(y[1], y[3]))
    m4, m5 = a.mul(x[3], a.sub(y[2], y[0])), a.mul(a.add(x[0], x[1]), y[3])
    m6, m7 = a.mul(a.sub(x[2], x[0]), a.add(y[0], y[1])), a.mul(a.sub(x[1], x[3]), a.add(y[2], y[3]))
    fast = [a.add(a.sub(a.add(m1, m4), m5), m7), a.add(m3, m5), a.add(m2, m4), a.add(a.add(a.sub(m1, m2), m3), m6)]
    return [b.dot(x[2 * i : 2 * i + 2], [y[j], y[2 + j]]) for i in (0, 1) for j in (0, 1)], fast


@equal
def winograd_f23(b: Builder) -> tuple[Ids, Ids]:
    a, d, g, half = b.arena, b.inputs(4), b.inputs(3), b.c(mpq(1, 2))
    m1 = a.mul(a.sub(d[0], d[2]), g[0])
    m2 = a.mul(a.add(d[1], d[2]), a.mul(half, b.total(g)))
    m3 = a.mul(a.sub(d[2], d[1]), a.mul(half, a.add(a.sub(g[0], g[1]), g[2])))
    m4 = a.mul(a.sub(d[1], d[3]), g[2])
    return [b.dot(d[:3], g), b.dot(d[1:], g)], [a.add(a.add(m1, m2), m3), a.sub(a.sub(m2, m3), m4)]


@wrong
def winograd_with_a_wrong_sign(b: Builder) -> tuple[Ids, Ids]:
    a, d, g, half = b.arena, b.inputs(4), b.inputs(3), b.c(mpq(1, 2))
    m2 = a.mul(a.add(d[1], d[2]), a.mul(half, b.total(g)))
    m3 = a.mul(a.sub(d[2], d[1]), a.mul(half, a.add(a.sub(g[0], g[1]), g[2])))
    m4 = a.mul(a.sub(d[1], d[3]), g[2])
    return [b.dot(d[1:], g)], [a.add(a.sub(m2, m3), m4)]


@equal
def split_k_with_alpha_and_beta(b: Builder) -> tuple[Ids, Ids]:
    a, x, y, (alpha, beta, c0) = b.arena, b.inputs(12), b.inputs(12), b.inputs(3)
    left = a.fma(alpha, b.dot(x, y), a.mul(beta, c0))
    parts = [a.mul(alpha, b.dot(x[i : i + 4], y[i : i + 4])) for i in (0, 4, 8)]
    return [left], [a.add(b.total(parts), a.mul(c0, beta))]


@equal
def two_chained_products(b: Builder) -> tuple[Ids, Ids]:
    """(A B) C = A (B C) for 2x2 matrices, one row."""
    a, x, y, z = b.arena, b.inputs(2), b.inputs(4), b.inputs(4)
    del a
    xy = [b.dot(x, [y[j], y[2 + j]]) for j in (0, 1)]
    yz = [b.dot(y[2 * i : 2 * i + 2], [z[j], z[2 + j]]) for i in (0, 1) for j in (0, 1)]
    return [b.dot(xy, [z[j], z[2 + j]]) for j in (0, 1)], [b.dot(x, [yz[j], yz[2 + j]]) for j in (0, 1)]


@equal
def rope_by_pairs_and_by_halves(b: Builder) -> tuple[Ids, Ids]:
    a, x, (theta,) = b.arena, b.inputs(2), b.inputs(1)
    sin, cos = a.unary(Op.SIN, theta), a.unary(Op.COS, theta)
    back = a.unary(Op.SIN, a.neg(theta))
    left = [a.sub(a.mul(x[0], cos), a.mul(x[1], sin)), a.add(a.mul(x[0], sin), a.mul(x[1], cos))]
    return left, [a.fma(x[0], cos, a.mul(x[1], back)), a.sub(a.mul(x[1], a.unary(Op.COS, a.neg(theta))), a.mul(x[0], back))]


@equal
def dequantised_dot_scale_inside_and_outside(b: Builder) -> tuple[Ids, Ids]:
    a, x, (scale, zero) = b.arena, b.inputs(4), b.inputs(2)
    w = [int(i) for i in b.inputs(4, "s8")]
    inside = b.dot(x, [a.mul(scale, a.sub(v, zero)) for v in w])
    return [inside], [a.mul(scale, a.sub(b.dot(x, w), a.mul(zero, b.total(x))))]


@equal
def cumsum_by_scan(b: Builder) -> tuple[Ids, Ids]:
    x, a = b.inputs(8), b.arena
    serial = [b.total(x[: i + 1]) for i in range(8)]
    y = list(x)
    for step in (1, 2, 4):
        y = [a.add(y[i], y[i - step]) if i >= step else y[i] for i in range(8)]
    return serial, y


@wrong
def cumsum_exclusive(b: Builder) -> tuple[Ids, Ids]:
    x = b.inputs(4)
    return [b.total(x[: i + 1]) for i in range(1, 4)], [b.total(x[:i]) for i in range(1, 4)]


# --- maxima, sorting, conditions ----------------------------------------------------------------


@equal
def sort_by_two_networks(b: Builder) -> tuple[Ids, Ids]:
    x = b.inputs(8)
    return b.odd_even_sort(x), b.bitonic_sort(x)


@wrong
def sort_with_one_round_missing(b: Builder) -> tuple[Ids, Ids]:
    x = b.inputs(4)
    y = list(x)
    for i, j in ((0, 1), (2, 3), (1, 2), (0, 1)):
        b.exchange(y, i, j)
    return b.odd_even_sort(x), y


@equal
def top_two_by_comparisons(b: Builder) -> tuple[Ids, Ids]:
    x, a = b.inputs(4), b.arena
    first, second = x[0], a.rational(-1000)
    first = b.greatest(x)
    second = b.odd_even_sort(x)[2]
    top, next_ = a.maximum(x[0], x[1]), a.minimum(x[0], x[1])
    for v in x[2:]:
        greater = a.compare(Op.LT, top, v)
        next_ = a.select(greater, top, a.maximum(next_, v))
        top = a.select(greater, v, top)
    return [first, second], [top, next_]


@equal
def clamp_compositions(b: Builder) -> tuple[Ids, Ids]:
    (x,), a, one, six = b.inputs(1), b.arena, b.c(1), b.c(6)
    left = [a.minimum(a.maximum(x, 0), six), a.minimum(a.maximum(x, one), six)]
    return left, [a.maximum(0, a.minimum(six, x)), a.maximum(one, a.maximum(0, a.minimum(six, x)))]


@wrong
def clamp_of_another_bound(b: Builder) -> tuple[Ids, Ids]:
    (x,), a = b.inputs(1), b.arena
    return [a.minimum(a.maximum(x, 0), b.c(6))], [a.minimum(a.maximum(x, 0), b.c(5))]


@wrong
def clamp_with_crossed_bounds(b: Builder) -> tuple[Ids, Ids]:
    (x,), a = b.inputs(1), b.arena
    return [a.minimum(a.maximum(x, b.c(2)), b.c(1))], [a.maximum(a.minimum(x, b.c(1)), b.c(2))]


@equal
def hard_swish(b: Builder) -> tuple[Ids, Ids]:
    (x,), a = b.inputs(1), b.arena
    relu6 = a.minimum(a.maximum(a.add(x, b.c(3)), 0), b.c(6))
    other = a.minimum(a.maximum(a.mul(a.add(x, b.c(3)), b.c(mpq(1, 6))), 0), 1)
    return [a.mul(x, a.mul(relu6, b.c(mpq(1, 6))))], [a.mul(x, other)]


@equal
def maximum_by_selection(b: Builder) -> tuple[Ids, Ids]:
    (x, y), a = b.inputs(2), b.arena
    nan_aware = a.logic(Op.OR, a.compare(Op.LT, y, x), a.compare(Op.NE, x, x))
    forms = [
        a.select(a.compare(Op.LT, y, x), x, y), a.select(a.compare(Op.LE, x, y), y, x),
        a.select(a.logic(Op.NOT, a.compare(Op.LE, x, y)), x, y), a.select(nan_aware, x, y),
        a.select(a.compare(Op.LT, 0, a.mul(b.c(3), a.sub(x, y))), x, y),
    ]  # fmt: skip
    return [a.maximum(x, y)] * len(forms), forms


@wrong
def maximum_by_the_wrong_selection(b: Builder) -> tuple[Ids, Ids]:
    (x, y), a = b.inputs(2), b.arena
    return [a.maximum(x, y)], [a.select(a.compare(Op.LT, x, y), x, y)]


@equal
def absolute_values(b: Builder) -> tuple[Ids, Ids]:
    (x, y), a = b.inputs(2), b.arena
    d = a.sub(x, y)
    return [a.abs(d)] * 4, [
        a.maximum(d, a.neg(d)), a.sub(a.maximum(x, y), a.minimum(x, y)), a.select(a.compare(Op.LT, d, 0), a.neg(d), d),
        a.sqrt(a.mul(d, d)),
    ]  # fmt: skip


@wrong
def absolute_value_dropped(b: Builder) -> tuple[Ids, Ids]:
    (x,), a = b.inputs(1), b.arena
    return [a.sqrt(a.mul(x, x))], [x]


@wrong
def absolute_value_scaled_by_an_unknown_sign(b: Builder) -> tuple[Ids, Ids]:
    (x, y), a = b.inputs(2), b.arena
    return [a.abs(a.mul(x, y))], [a.mul(x, a.abs(y))]


@equal
def absolute_value_of_a_product(b: Builder) -> tuple[Ids, Ids]:
    (x, y), a = b.inputs(2), b.arena
    return [a.abs(a.mul(x, y))], [a.mul(a.abs(x), a.abs(y))]


@equal
def maximum_plus_minimum(b: Builder) -> tuple[Ids, Ids]:
    (x, y), a = b.inputs(2), b.arena
    return [a.add(a.maximum(x, y), a.minimum(x, y))], [a.add(x, y)]


@equal
def maximum_scaled_by_an_exponential(b: Builder) -> tuple[Ids, Ids]:
    (x, y, z), a = b.inputs(3), b.arena
    e = a.exp(z)
    return [a.mul(e, a.maximum(x, y))], [a.maximum(a.mul(e, x), a.mul(y, e))]


@wrong
def maximum_scaled_by_an_unknown(b: Builder) -> tuple[Ids, Ids]:
    (x, y, z), a = b.inputs(3), b.arena
    return [a.mul(z, a.maximum(x, y))], [a.maximum(a.mul(z, x), a.mul(y, z))]


@equal
def leaky_relu(b: Builder) -> tuple[Ids, Ids]:
    (x,), a, slope = b.inputs(1), b.arena, b.c(mpq(1, 100))
    return [a.select(a.compare(Op.LT, 0, x), x, a.mul(slope, x))], [a.maximum(x, a.mul(slope, x))]


@wrong
def leaky_relu_of_slope_two(b: Builder) -> tuple[Ids, Ids]:
    (x,), a, slope = b.inputs(1), b.arena, b.c(2)
    return [a.select(a.compare(Op.LT, 0, x), x, a.mul(slope, x))], [a.maximum(x, a.mul(slope, x))]


@equal
def selections_nested_and_merged(b: Builder) -> tuple[Ids, Ids]:
    (x, y, z), a = b.inputs(3), b.arena
    p, q = a.compare(Op.LT, x, y), a.compare(Op.LE, z, 0)
    return [a.select(p, a.select(q, x, y), y)], [a.select(a.logic(Op.AND, q, p), x, y)]


@wrong
def selections_with_or(b: Builder) -> tuple[Ids, Ids]:
    (x, y, z), a = b.inputs(3), b.arena
    p, q = a.compare(Op.LT, x, y), a.compare(Op.LE, z, 0)
    return [a.select(p, a.select(q, x, y), y)], [a.select(a.logic(Op.OR, q, p), x, y)]


# --- roots, logarithms, powers ------------------------------------------------------------------


@equal
def roots_and_powers(b: Builder) -> tuple[Ids, Ids]:
    (x, y), a = b.inputs(2), b.arena
    square = a.add(a.mul(x, x), 1)
    left = [a.mul(a.sqrt(square), a.sqrt(square)), a.sqrt(a.mul(b.c(8), square)), b.rsqrt(a.mul(square, b.c(9))), a.sqrt(a.exp(y))]
    right = [
        square,
        a.mul(a.const(Const(mpq(2), sqrt2=1)), a.sqrt(square)),
        a.div(b.rsqrt(square), b.c(3)),
        a.exp(a.mul(y, b.c(mpq(1, 2)))),
    ]
    return left, right


@equal
def logarithms_of_positive_values(b: Builder) -> tuple[Ids, Ids]:
    (x, y), a = b.inputs(2), b.arena
    p = a.add(a.exp(x), 1)
    left = [a.log(a.mul(p, a.exp(y))), a.log2(a.mul(p, b.c(8))), a.log(a.div(1, p)), a.log(a.sqrt(p))]
    return left, [a.add(a.log(p), y), a.add(a.log2(p), b.c(3)), a.neg(a.log(p)), a.mul(a.log(p), b.c(mpq(1, 2)))]


@equal
def exponential_of_a_logarithm(b: Builder) -> tuple[Ids, Ids]:
    (x, y), a = b.inputs(2), b.arena
    return [a.exp(a.log(x)), a.exp2(a.mul(b.c(3), a.log2(y)))], [x, a.mul(y, a.mul(y, y))]


@wrong
def logarithm_of_a_product_of_unknown_signs(b: Builder) -> tuple[Ids, Ids]:
    (x, y), a = b.inputs(2), b.arena
    return [a.log(a.mul(x, y))], [a.add(a.log(a.abs(x)), a.log(a.add(a.abs(y), b.c(mpq(1, 10**6)))))]


@equal
def constants_recognised_and_multiplied(b: Builder) -> tuple[Ids, Ids]:
    """f32 literals: 1.4426950216 is log2 e, 0.69314718 is ln 2; their product is 1."""
    (x,), a = b.inputs(1), b.arena
    log2e, ln2 = a.float_bits(0x3FB8AA3B, "f32"), a.float_bits(0x3F317218, "f32")
    return [a.exp(x), a.log(x), x], [a.exp2(a.mul(x, log2e)), a.mul(a.log2(x), ln2), a.mul(a.mul(x, log2e), ln2)]


# --- integers -----------------------------------------------------------------------------------


@equal
def wrapping_sums(b: Builder) -> tuple[Ids, Ids]:
    x, a = b.inputs(3, "s8"), b.arena
    small = [a.emit(Op.WRAP, a.add(x[0], x[1]), -32)]
    ring = [a.emit(Op.WRAP, a.mul(a.emit(Op.WRAP, a.add(x[0], x[1]), 8), x[2]), 8)]
    masked = [a.emit(Op.WRAP, a.add(x[0], a.mul(b.c(255), x[1])), 8)]
    right = [a.add(x[0], x[1]), a.emit(Op.WRAP, a.add(a.mul(x[0], x[2]), a.mul(x[1], x[2])), 8), a.emit(Op.WRAP, a.sub(x[0], x[1]), 8)]
    return small + ring + masked, right


@wrong
def wrapping_that_matters(b: Builder) -> tuple[Ids, Ids]:
    x, a = b.inputs(2, "s8"), b.arena
    return [a.emit(Op.WRAP, a.mul(x[0], b.c(200)), -8)], [a.mul(x[0], b.c(200))]


@equal
def floors(b: Builder) -> tuple[Ids, Ids]:
    (x, y), (i,), a = b.inputs(2), b.inputs(1, "s32"), b.arena
    del y
    left = [a.unary(Op.FLOOR, a.add(x, i)), a.unary(Op.CEIL, x), a.unary(Op.FLOOR, i)]
    return left, [a.add(a.unary(Op.FLOOR, x), i), a.neg(a.unary(Op.FLOOR, a.neg(x))), i]
