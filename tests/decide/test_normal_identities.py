"""Identities that the exact decider has to prove, each with twins that are wrong in one detail and must not be proved.

Expected answers come from mathematics; every twin is checked to be really different by an independent evaluation.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from gmpy2 import mpfr, mpq
from normal_judge import OutOfDomain, evaluate
from normal_terms import Builder, Ids, proved

from ptx_engine.terms import Const, Op

Case = Callable[[Builder], tuple[Ids, Ids]]
EQUAL: dict[str, Case] = {}
WRONG: dict[str, Case] = {}


def equal(case: Case) -> Case:
    EQUAL[case.__name__] = case
    return case


def wrong(case: Case) -> Case:
    WRONG[case.__name__] = case
    return case


@pytest.mark.parametrize("name", EQUAL)
def test_identity_is_proved(name: str) -> None:
    b = Builder()
    reference, candidate = EQUAL[name](b)
    assert proved(b, reference, candidate)


@pytest.mark.parametrize("name", WRONG)
def test_near_identity_is_not_proved(name: str) -> None:
    b = Builder()
    reference, candidate = WRONG[name](b)
    assert not proved(b, reference, candidate)
    assert _differ_somewhere(b, reference, candidate), "the twin is an identity after all"


def _differ_somewhere(b: Builder, reference: Ids, candidate: Ids) -> bool:
    rng = random.Random(7)
    ids = [-1 - i for i in range(sum(entry.count for entry in b.arena.inputs))]
    for n in range(40):
        point = {i: mpfr(mpq(rng.randint(-30, 30), rng.randint(1, 1 + n)), 200) for i in ids}
        for r, c in zip(reference, candidate):
            try:
                x, y = evaluate(b.arena, r, point), evaluate(b.arena, c, point)
            except OutOfDomain:
                continue
            if abs(x - y) > 1e-20 * max(1, abs(x)):
                return True
    return False


# --- softmax ------------------------------------------------------------------------------------


def _softmax(shape: str) -> Case:
    def case(b: Builder) -> tuple[Ids, Ids]:
        s = b.inputs(8)
        if shape == "shifted":
            return b.softmax(s), b.softmax_shifted(s)
        if shape == "any shift":
            return b.softmax(s), b.softmax([b.arena.sub(x, s[3]) for x in s])
        m = b.greatest(s)
        scale = b.arena.const(Const(mpq(1), log2e=1))
        e = [b.arena.exp2(b.arena.fma(x, scale, b.arena.neg(b.arena.mul(m, scale)))) for x in s]
        return b.softmax(s), [b.arena.mul(x, b.arena.div(1, b.tree(e))) for x in e]

    return case


for _shape in ("shifted", "any shift", "base 2"):
    EQUAL[f"softmax {_shape}"] = _softmax(_shape)


@wrong
def softmax_with_two_shifts(b: Builder) -> tuple[Ids, Ids]:
    s = b.inputs(4)
    return b.softmax(s), b.softmax([b.arena.sub(x, s[0] if i else s[1]) for i, x in enumerate(s)])


@wrong
def softmax_of_base_2_without_the_constant(b: Builder) -> tuple[Ids, Ids]:
    s = b.inputs(4)
    e = [b.arena.exp2(x) for x in s]
    return b.softmax(s), [b.arena.div(x, b.total(e)) for x in e]


@wrong
def softmax_without_the_last_term(b: Builder) -> tuple[Ids, Ids]:
    s = b.inputs(4)
    e = [b.arena.exp(x) for x in s]
    return b.softmax(s)[:1], [b.arena.div(e[0], b.total(e[:-1]))]


@equal
def log_sum_exp(b: Builder) -> tuple[Ids, Ids]:
    s = b.inputs(6)
    return [b.lse(s)], [b.lse_shifted(s)]


@equal
def log_sum_exp_online(b: Builder) -> tuple[Ids, Ids]:
    s = b.inputs(6)
    _, m, bottom = b.online(s, s, 2)
    return [b.lse(s)], [b.arena.add(m, b.arena.log(bottom))]


@wrong
def log_sum_exp_without_adding_the_maximum(b: Builder) -> tuple[Ids, Ids]:
    s = b.inputs(6)
    m = b.greatest(s)
    return [b.lse(s)], [b.lse([b.arena.sub(x, m) for x in s])]


@equal
def cross_entropy(b: Builder) -> tuple[Ids, Ids]:
    s = b.inputs(6)
    return [b.arena.neg(b.arena.log(b.softmax(s)[2]))], [b.arena.sub(b.lse_shifted(s), s[2])]


@wrong
def cross_entropy_of_another_label(b: Builder) -> tuple[Ids, Ids]:
    s = b.inputs(6)
    return [b.arena.neg(b.arena.log(b.softmax(s)[2]))], [b.arena.sub(b.lse_shifted(s), s[3])]


@equal
def log_softmax(b: Builder) -> tuple[Ids, Ids]:
    s = b.inputs(5)
    return [b.arena.log(x) for x in b.softmax(s)], [b.arena.sub(x, b.lse_shifted(s)) for x in s]


# --- attention ----------------------------------------------------------------------------------


def _scores(b: Builder, keys: int, depth: int) -> tuple[Ids, Ids]:
    q, k, v = b.inputs(depth), b.inputs(keys * depth), b.inputs(keys)
    return [b.dot(q, k[j * depth : (j + 1) * depth]) for j in range(keys)], v


def _attention(block: int, base2: bool, divide_each: bool) -> Case:
    def case(b: Builder) -> tuple[Ids, Ids]:
        s, v = _scores(b, 8, 4)
        out, _, _ = b.online(s, v, block, base2, divide_each)
        return [b.attention(s, v)], [out]

    return case


for _block in (1, 2, 3, 4, 8):
    for _base2 in (False, True):
        for _each in (False, True):
            EQUAL[f"flash attention {2 - _each} block {_block}{' base 2' * _base2}"] = _attention(_block, _base2, _each)


@equal
def split_kv(b: Builder) -> tuple[Ids, Ids]:
    s, v = _scores(b, 8, 2)
    return [b.attention(s, v)], [b.split_kv(s, v, 2)]


@wrong
def split_kv_without_weights(b: Builder) -> tuple[Ids, Ids]:
    s, v = _scores(b, 8, 2)
    return [b.attention(s, v)], [b.split_kv(s, v, 2, rescale=False)]


@wrong
def online_without_rescaling_the_output(b: Builder) -> tuple[Ids, Ids]:
    s, v = _scores(b, 4, 2)
    a = b.arena
    m1, m2 = b.greatest(s[:2]), b.greatest(s)
    first = [a.exp(a.sub(x, m1)) for x in s[:2]]
    second = [a.exp(a.sub(x, m2)) for x in s[2:]]
    bottom = a.add(a.mul(b.total(first), a.exp(a.sub(m1, m2))), b.total(second))
    return [b.attention(s, v)], [a.div(b.dot(second, v[2:], b.dot(first, v[:2])), bottom)]


@equal
def scale_folded_into_log2e(b: Builder) -> tuple[Ids, Ids]:
    s, v = _scores(b, 6, 2)
    a, scale = b.arena, b.c(mpq(1, 8))
    folded = a.const(Const(mpq(1, 8), log2e=1))
    m = a.mul(b.greatest(s), folded)
    p = [a.exp2(a.sub(a.mul(x, folded), m)) for x in s]
    return [b.attention([a.mul(x, scale) for x in s], v)], [a.div(b.dot(p, v), b.total(p))]


@equal
def running_maximum_of_scaled_scores(b: Builder) -> tuple[Ids, Ids]:
    """max(m, scale * max(s)), as Triton's flash attention computes it, against max over scaled scores."""
    s, a = b.inputs(6), b.arena
    scale = b.c(mpq(1, 8))
    m = a.maximum(a.mul(b.greatest(s[:3]), scale), a.mul(b.greatest(s[3:]), scale))
    return [a.mul(b.greatest(s), scale)], [m]


@wrong
def running_maximum_of_negatively_scaled_scores(b: Builder) -> tuple[Ids, Ids]:
    s, a = b.inputs(4), b.arena
    scale = b.c(-2)
    return [a.mul(b.greatest(s), scale)], [b.greatest([a.mul(x, scale) for x in s])]


@equal
def backward_of_softmax_from_lse(b: Builder) -> tuple[Ids, Ids]:
    """dS = P * (dP - rowsum(dO * O)), with P recomputed from the stored LSE."""
    s, v = _scores(b, 4, 2)
    grad = b.inputs(1)[0]
    a, p = b.arena, b.softmax(s)
    dp = [a.mul(grad, x) for x in v]
    inner = b.dot(p, dp)
    naive = [a.mul(x, a.sub(d, inner)) for x, d in zip(p, dp)]
    again = [a.exp(a.sub(x, b.lse_shifted(s))) for x in s]
    delta = a.mul(grad, b.online(s, v, 2)[0])
    return naive, [a.mul(x, a.sub(d, delta)) for x, d in zip(again, dp)]


@equal
def backward_dq_dk_dv(b: Builder) -> tuple[Ids, Ids]:
    keys, depth = 3, 2
    a, q, k, v, grad = b.arena, b.inputs(depth), b.inputs(keys * depth), b.inputs(keys), b.inputs(1)[0]
    s = [b.dot(q, k[j * depth : (j + 1) * depth]) for j in range(keys)]

    def gradients(p: Ids, delta: int) -> Ids:
        ds = [a.mul(x, a.sub(a.mul(grad, y), delta)) for x, y in zip(p, v)]
        dq = [b.dot(ds, [k[j * depth + d] for j in range(keys)]) for d in range(depth)]
        dk = [a.mul(x, q[d]) for x in ds for d in range(depth)]
        return dq + dk + [a.mul(x, grad) for x in p]

    p = b.softmax(s)
    again = [a.exp(a.sub(x, b.lse_shifted(s))) for x in s]
    return gradients(p, b.dot(p, [a.mul(grad, x) for x in v])), gradients(again, a.mul(grad, b.online(s, v, 2)[0]))


@wrong
def backward_without_delta(b: Builder) -> tuple[Ids, Ids]:
    s, v = _scores(b, 3, 2)
    a, p = b.arena, b.softmax(s)
    inner = b.dot(p, v)
    return [a.mul(x, a.sub(y, inner)) for x, y in zip(p, v)], [a.mul(x, y) for x, y in zip(p, v)]


# --- normalisation ------------------------------------------------------------------------------


def _layer_norm(method: str, n: int = 12) -> Case:
    def case(b: Builder) -> tuple[Ids, Ids]:
        x = b.inputs(n)
        eps = b.c(mpq(1, 1000))
        mean, var = b.mean(x), b.variance(x)
        if method == "moments":
            other = b.mean(x), b.variance_by_moments(x)
        elif method == "welford":
            other = b.welford(x)
        else:
            other = b.chan(x, 4)
        return [b.normalised(v, mean, var, eps) for v in x], [b.normalised(v, *other, eps) for v in x]

    return case


for _method in ("moments", "welford", "chan"):
    EQUAL[f"layer norm {_method}"] = _layer_norm(_method)


@wrong
def layer_norm_of_another_epsilon(b: Builder) -> tuple[Ids, Ids]:
    x = b.inputs(4)
    m, v = b.mean(x), b.variance(x)
    return [b.normalised(x[0], m, v, b.c(mpq(1, 1000)))], [b.normalised(x[0], m, v, b.c(mpq(1, 100)))]


@wrong
def layer_norm_with_unbiased_variance(b: Builder) -> tuple[Ids, Ids]:
    x, eps = b.inputs(4), b.c(1)
    m, v = b.mean(x), b.variance(x)
    return [b.normalised(x[0], m, v, eps)], [b.normalised(x[0], m, b.arena.mul(v, b.c(mpq(4, 3))), eps)]


@wrong
def second_moment_without_the_mean(b: Builder) -> tuple[Ids, Ids]:
    x = b.inputs(4)
    return [b.variance(x)], [b.arena.mul(b.dot(x, x), b.c(mpq(1, 4)))]


@equal
def rms_norm(b: Builder) -> tuple[Ids, Ids]:
    x, a, n = b.inputs(6), b.arena, mpq(1, 6)
    ms = a.mul(b.dot(x, x), b.c(n))
    root = a.sqrt(a.add(a.mul(b.c(6), ms), b.c(6)))
    return [a.div(v, a.sqrt(a.add(ms, 1))) for v in x], [a.div(a.mul(v, a.sqrt(b.c(6))), root) for v in x]


@equal
def group_norm_scaled_input(b: Builder) -> tuple[Ids, Ids]:
    """Normalising 2x is normalising x when epsilon is scaled by 4."""
    x, a = b.inputs(5), b.arena
    double = [a.mul(b.c(2), v) for v in x]
    eps = b.c(mpq(1, 64))
    left = [b.normalised(v, b.mean(x), b.variance(x), eps) for v in x]
    return left, [b.normalised(v, b.mean(double), b.variance(double), a.mul(eps, b.c(4))) for v in double]


# --- activations --------------------------------------------------------------------------------


@equal
def sigmoid_by_tanh(b: Builder) -> tuple[Ids, Ids]:
    (x,), a = b.inputs(1), b.arena
    half = b.c(mpq(1, 2))
    return [b.sigmoid(x)], [a.fma(half, a.unary(Op.TANH, a.mul(half, x)), half)]


@equal
def silu_and_its_mirror(b: Builder) -> tuple[Ids, Ids]:
    (x,), a = b.inputs(1), b.arena
    return [a.mul(x, b.sigmoid(x))], [a.sub(x, a.mul(x, b.sigmoid(a.neg(x))))]


@equal
def swiglu_with_base_2(b: Builder) -> tuple[Ids, Ids]:
    (x, g), a = b.inputs(2), b.arena
    e = a.exp2(a.mul(g, a.const(Const(mpq(-1), log2e=1))))
    return [a.mul(a.mul(g, b.sigmoid(g)), x)], [a.mul(x, a.div(g, a.add(e, 1)))]


@equal
def gelu_tanh_form(b: Builder) -> tuple[Ids, Ids]:
    (x,), a = b.inputs(1), b.arena
    inner = a.mul(b.c(mpq(4, 5)), a.add(x, a.mul(b.c(mpq(44715, 10**6)), a.mul(x, a.mul(x, x)))))
    tanh = a.mul(a.mul(b.c(mpq(1, 2)), x), a.add(1, a.unary(Op.TANH, inner)))
    return [tanh], [a.mul(x, b.sigmoid(a.mul(b.c(2), inner)))]


@equal
def gelu_erf_form(b: Builder) -> tuple[Ids, Ids]:
    (x,), a = b.inputs(1), b.arena
    z = a.div(x, a.sqrt(b.c(2)))
    left = a.mul(a.mul(b.c(mpq(1, 2)), x), a.add(1, a.unary(Op.ERF, z)))
    minus = a.unary(Op.ERF, a.neg(a.mul(x, a.const(Const(mpq(1, 2), sqrt2=1)))))
    return [left], [a.sub(a.mul(x, b.c(mpq(1, 2))), a.mul(a.mul(x, b.c(mpq(1, 2))), minus))]


@wrong
def gelu_against_its_tanh_approximation(b: Builder) -> tuple[Ids, Ids]:
    (x,), a = b.inputs(1), b.arena
    z = a.mul(b.c(mpq(4, 5)), x)
    return [a.unary(Op.ERF, z)], [a.unary(Op.TANH, z)]


@equal
def softplus_stable_form(b: Builder) -> tuple[Ids, Ids]:
    (x,), a = b.inputs(1), b.arena
    stable = a.add(a.maximum(x, 0), a.log(a.add(1, a.exp(a.neg(a.abs(x))))))
    return [a.log(a.add(1, a.exp(x)))], [stable]


@equal
def tanh_by_exponentials(b: Builder) -> tuple[Ids, Ids]:
    (x,), a = b.inputs(1), b.arena
    e, f = a.exp(x), a.exp(a.neg(x))
    return [a.unary(Op.TANH, x)], [a.div(a.sub(e, f), a.add(e, f))]


@wrong
def tanh_with_the_wrong_sign(b: Builder) -> tuple[Ids, Ids]:
    (x,), a = b.inputs(1), b.arena
    e, f = a.exp(x), a.exp(a.neg(x))
    return [a.unary(Op.TANH, x)], [a.div(a.sub(f, e), a.add(e, f))]


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


def test_there_are_enough_cases() -> None:
    assert len(EQUAL) + len(WRONG) >= 80
