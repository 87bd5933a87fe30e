"""Identities of activations, beside those of ``identities_networks``: the spellings that compilers and people use."""

from __future__ import annotations

from gmpy2 import mpq
from identity_register import equal, wrong
from normal_terms import Builder, Ids

from ptx_engine.terms import Const, Op


def _tanh(b: Builder, x: int) -> int:
    """tanh as libdevice has it: 1 - 2 / (e^2x + 1)."""
    a = b.arena
    return int(a.sub(1, a.div(b.c(2), a.add(a.exp(a.mul(b.c(2), x)), 1))))  # type: ignore[call-overload]


def _inner(b: Builder, x: int) -> int:
    a = b.arena
    cube = a.mul(x, a.mul(x, x))
    return int(a.mul(b.c(mpq(4, 5)), a.fma(cube, b.c(mpq(44715, 10**6)), x)))  # type: ignore[call-overload]


@equal
def gelu_tanh_with_x_taken_out(b: Builder) -> tuple[Ids, Ids]:
    """x + c x^3 = x * (1 + c x^2), tanh by an exponential."""
    (x,), a, half = b.inputs(1), b.arena, b.c(mpq(1, 2))
    factored = a.mul(a.mul(b.c(mpq(4, 5)), x), a.fma(a.mul(x, x), b.c(mpq(44715, 10**6)), 1))
    left = a.mul(a.mul(x, half), a.add(1, a.unary(Op.TANH, _inner(b, x))))
    return [left], [a.fma(a.mul(half, x), _tanh(b, factored), a.mul(half, x))]


@wrong
def gelu_tanh_without_the_cube(b: Builder) -> tuple[Ids, Ids]:
    (x,), a, half = b.inputs(1), b.arena, b.c(mpq(1, 2))
    left, right = (a.mul(a.mul(x, half), a.add(1, a.unary(Op.TANH, y))) for y in (_inner(b, x), a.mul(b.c(mpq(4, 5)), x)))
    return [left], [right]


@equal
def gelu_erf_by_the_mirror(b: Builder) -> tuple[Ids, Ids]:
    """x * Phi(x) = x - x * Phi(-x)."""
    (x,), a, half, root = b.inputs(1), b.arena, b.c(mpq(1, 2)), b.arena.const(Const(mpq(1, 2), sqrt2=1))
    phi, mirror = (a.fma(a.unary(Op.ERF, a.mul(y, root)), half, half) for y in (x, a.neg(x)))
    return [a.mul(x, phi)], [a.sub(x, a.mul(x, mirror))]


@wrong
def gelu_erf_without_the_root(b: Builder) -> tuple[Ids, Ids]:
    (x,), a, half, root = b.inputs(1), b.arena, b.c(mpq(1, 2)), b.arena.const(Const(mpq(1, 2), sqrt2=1))
    left, right = (a.mul(x, a.fma(a.unary(Op.ERF, y), half, half)) for y in (a.mul(x, root), x))
    return [left], [right]


@equal
def gelu_erf_backward(b: Builder) -> tuple[Ids, Ids]:
    """Phi(x) + x phi(x), with the density's exponent multiplied out or folded into base 2."""
    (x,), a, half, root = b.inputs(1), b.arena, b.c(mpq(1, 2)), b.arena.const(Const(mpq(1, 2), sqrt2=1))
    phi = a.fma(a.unary(Op.ERF, a.mul(x, root)), half, half)
    scale = b.inputs(1)[0]
    density = a.mul(scale, a.exp(a.mul(a.mul(x, x), b.c(mpq(-1, 2)))))
    folded = a.mul(a.exp2(a.mul(x, a.mul(x, a.const(Const(mpq(-1, 2), log2e=1))))), scale)
    return [a.add(phi, a.mul(x, density))], [a.fma(x, folded, phi)]


@equal
def silu_by_tanh(b: Builder) -> tuple[Ids, Ids]:
    (x,), a, half = b.inputs(1), b.arena, b.c(mpq(1, 2))
    y = a.mul(x, half)
    return [a.mul(x, b.sigmoid(x))], [a.fma(y, a.unary(Op.TANH, y), y)]


@equal
def silu_as_a_quotient(b: Builder) -> tuple[Ids, Ids]:
    (x,), a = b.inputs(1), b.arena
    e = a.exp(x)
    return [a.mul(x, b.sigmoid(x))], [a.div(a.mul(x, e), a.add(e, 1))]


@wrong
def silu_with_the_sign_dropped(b: Builder) -> tuple[Ids, Ids]:
    (x,), a = b.inputs(1), b.arena
    return [a.mul(x, b.sigmoid(x))], [a.div(x, a.add(1, a.exp(x)))]


@equal
def silu_backward(b: Builder) -> tuple[Ids, Ids]:
    """s * (1 + x * (1 - s)) = s + y * (1 - s)."""
    (x,), a = b.inputs(1), b.arena
    s = b.sigmoid(x)
    e = a.exp(a.neg(x))
    again = a.div(1, a.add(1, e))
    y = a.mul(x, again)
    return [a.mul(s, a.fma(x, a.sub(1, s), 1))], [a.add(again, a.mul(y, a.mul(e, again)))]


@wrong
def silu_backward_without_one_term(b: Builder) -> tuple[Ids, Ids]:
    (x,), a = b.inputs(1), b.arena
    s = b.sigmoid(x)
    return [a.mul(s, a.fma(x, a.sub(1, s), 1))], [a.mul(s, a.mul(x, a.sub(1, s)))]


@equal
def swiglu_of_two_products(b: Builder) -> tuple[Ids, Ids]:
    """silu(x.w) * (x.v): the two products split over K."""
    x, w, v, a = b.inputs(4), b.inputs(4), b.inputs(4), b.arena
    g, up = b.dot(x, w), b.dot(x, v)
    gate = a.add(b.dot(x[2:], w[2:]), b.dot(x[:2], w[:2]))
    other = b.dot(x[2:], v[2:], b.dot(x[:2], v[:2]))
    return [a.mul(a.mul(g, b.sigmoid(g)), up)], [a.div(a.mul(gate, other), a.add(1, a.exp(a.neg(gate))))]


@wrong
def swiglu_with_gate_and_value_exchanged(b: Builder) -> tuple[Ids, Ids]:
    (g, u), a = b.inputs(2), b.arena
    return [a.mul(a.mul(g, b.sigmoid(g)), u)], [a.mul(a.mul(u, b.sigmoid(u)), g)]


@equal
def geglu(b: Builder) -> tuple[Ids, Ids]:
    (x, g), a, half = b.inputs(2), b.arena, b.c(mpq(1, 2))
    gelu = a.mul(a.mul(half, g), a.add(1, a.unary(Op.TANH, _inner(b, g))))
    return [a.mul(x, gelu)], [a.mul(a.mul(x, g), b.sigmoid(a.mul(b.c(2), _inner(b, g))))]


@equal
def sigmoid_and_its_mirror(b: Builder) -> tuple[Ids, Ids]:
    (x,), a = b.inputs(1), b.arena
    stable = a.select(a.compare(Op.LT, x, 0), a.div(a.exp(x), a.add(1, a.exp(x))), b.sigmoid(x))
    return [b.sigmoid(x)] * 2, [a.sub(1, b.sigmoid(a.neg(x))), stable]


@equal
def sigmoid_backward(b: Builder) -> tuple[Ids, Ids]:
    (x,), a = b.inputs(1), b.arena
    s, e = b.sigmoid(x), a.exp(a.neg(x))
    return [a.mul(s, a.sub(1, s))], [a.div(e, a.mul(a.add(1, e), a.add(1, e)))]


@wrong
def sigmoid_backward_with_a_plain_square(b: Builder) -> tuple[Ids, Ids]:
    (x,), a = b.inputs(1), b.arena
    s = b.sigmoid(x)
    return [a.mul(s, a.sub(1, s))], [a.sub(1, a.mul(s, s))]


@equal
def tanh_odd_and_doubled(b: Builder) -> tuple[Ids, Ids]:
    """tanh 2x = 2 tanh x / (1 + tanh^2 x)."""
    (x,), a, two = b.inputs(1), b.arena, b.c(2)
    t = a.unary(Op.TANH, x)
    double = a.div(a.mul(two, t), a.fma(t, t, 1))
    return [a.unary(Op.TANH, a.mul(x, two)), a.unary(Op.TANH, a.neg(x))], [double, a.neg(t)]


@equal
def softplus_by_base_2(b: Builder) -> tuple[Ids, Ids]:
    (x,), a = b.inputs(1), b.arena
    log2e, ln2 = a.const(Const(mpq(1), log2e=1)), a.const(Const(mpq(1), log2e=-1))
    return [a.log(a.add(1, a.exp(x)))], [a.mul(ln2, a.log2(a.add(a.exp2(a.mul(x, log2e)), 1)))]


@equal
def softplus_less_its_argument(b: Builder) -> tuple[Ids, Ids]:
    """softplus(x) - x = softplus(-x)."""
    (x,), a = b.inputs(1), b.arena
    return [a.sub(a.log(a.add(1, a.exp(x))), x)], [a.log(a.add(1, a.exp(a.neg(x))))]


@wrong
def softplus_without_the_maximum(b: Builder) -> tuple[Ids, Ids]:
    (x,), a = b.inputs(1), b.arena
    return [a.log(a.add(1, a.exp(x)))], [a.log(a.add(1, a.exp(a.neg(a.abs(x)))))]


@equal
def mish_by_exponentials(b: Builder) -> tuple[Ids, Ids]:
    """x tanh(log(1 + e^x)) = x (e^2x + 2 e^x) / (e^2x + 2 e^x + 2)."""
    (x,), a = b.inputs(1), b.arena
    e = a.exp(x)
    n = a.mul(e, a.add(e, b.c(2)))
    return [a.mul(x, a.unary(Op.TANH, a.log(a.add(1, e))))], [a.div(a.mul(x, n), a.add(n, b.c(2)))]


@wrong
def mish_with_one_in_place_of_two(b: Builder) -> tuple[Ids, Ids]:
    (x,), a = b.inputs(1), b.arena
    e = a.exp(x)
    n = a.mul(e, a.add(e, b.c(2)))
    return [a.mul(x, a.unary(Op.TANH, a.log(a.add(1, e))))], [a.div(a.mul(x, n), a.add(n, 1))]


@equal
def elu_by_maximum_and_minimum(b: Builder) -> tuple[Ids, Ids]:
    """x > 0 ? x : e^x - 1, against max(x, 0) + (e^min(x, 0) - 1)."""
    (x,), a = b.inputs(1), b.arena
    left = a.select(a.compare(Op.LT, 0, x), x, a.sub(a.exp(x), 1))
    return [left], [a.add(a.maximum(x, 0), a.sub(a.exp(a.minimum(x, 0)), 1))]


@wrong
def elu_without_the_minus_one(b: Builder) -> tuple[Ids, Ids]:
    (x,), a = b.inputs(1), b.arena
    return [a.select(a.compare(Op.LT, 0, x), x, a.sub(a.exp(x), 1))], [a.select(a.compare(Op.LT, 0, x), x, a.exp(x))]


@equal
def squared_relu(b: Builder) -> tuple[Ids, Ids]:
    (x,), a = b.inputs(1), b.arena
    r = a.maximum(x, 0)
    return [a.mul(r, r)] * 2, [a.select(a.compare(Op.LT, 0, x), a.mul(x, x), 0), a.mul(x, r)]


@wrong
def squared_relu_of_a_negative(b: Builder) -> tuple[Ids, Ids]:
    (x,), a = b.inputs(1), b.arena
    r = a.maximum(x, 0)
    return [a.mul(r, r)], [a.mul(x, x)]
