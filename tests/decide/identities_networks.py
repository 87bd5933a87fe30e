"""Identities of neural networks: softmax, attention, normalisation, activations."""

from __future__ import annotations

from gmpy2 import mpq
from identity_register import EQUAL, Case, equal, wrong
from normal_terms import Builder, Ids

from ptx_engine.terms import Const, Op

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
