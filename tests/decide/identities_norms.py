"""Identities of normalisations, beside those of ``identities_networks``: affine forms, groups, running statistics, gradients."""

from __future__ import annotations

from gmpy2 import mpq
from identity_register import EQUAL, WRONG, Case, equal, wrong
from normal_terms import Builder, Ids

EPSILON = mpq(1, 1000)


def _affine(bias_sign: int = 1) -> Case:
    """(x - mean) * rstd * gamma + beta against x * a + b with folded a and b."""

    def case(b: Builder) -> tuple[Ids, Ids]:
        x, gamma, beta, a = b.inputs(5), b.inputs(5), b.inputs(5), b.arena
        eps, mean = b.c(EPSILON), b.mean(x)
        left = [a.fma(b.normalised(v, mean, b.variance(x), eps), g, s) for v, g, s in zip(x, gamma, beta)]
        rstd = b.rsqrt(a.add(b.variance_by_moments(x), eps))
        scale = [a.mul(g, rstd) for g in gamma]
        shift = [a.sub(s, a.mul(a.mul(mean, f), b.c(bias_sign))) for s, f in zip(beta, scale)]
        return left, [a.fma(v, f, s) for v, f, s in zip(x, scale, shift)]

    return case


EQUAL["layer norm affine folded"] = _affine()
WRONG["layer norm affine folded with the wrong sign"] = _affine(-1)


def _blocks(sizes: tuple[int, ...], *, between: bool = True) -> Case:
    """Chan's formula for blocks of any sizes, merged pairwise from the left."""

    def case(b: Builder) -> tuple[Ids, Ids]:
        n, a = sum(sizes), b.arena
        x = b.inputs(n)
        count, mean, square, start = 0, 0, 0, 0
        for size in sizes:
            part = x[start : start + size]
            m = b.mean(part)
            d = b.centred(part, m)
            delta, both = a.sub(m, mean), count + size
            square = a.add(square, b.dot(d, d))
            if count and between:
                square = a.add(square, a.mul(a.mul(delta, delta), b.c(mpq(count * size, both))))
            mean = a.fma(delta, b.c(mpq(size, both)), mean) if count else m
            count, start = both, start + size
        var, eps = a.mul(square, b.c(mpq(1, n))), b.c(EPSILON)
        return [b.normalised(v, b.mean(x), b.variance(x), eps) for v in x], [b.normalised(v, mean, var, eps) for v in x]

    return case


EQUAL["layer norm, blocks of 3, 4 and 2 merged"] = _blocks((3, 4, 2))
EQUAL["layer norm, eight blocks of 2 merged"] = _blocks((2,) * 8)
EQUAL["layer norm, blocks of 1, 2, 4 and 8 merged"] = _blocks((1, 2, 4, 8))
WRONG["layer norm, blocks merged without the spread between them"] = _blocks((3, 4, 2), between=False)


@equal
def chan_merged_as_a_tree(b: Builder) -> tuple[Ids, Ids]:
    x, a = b.inputs(8), b.arena
    level = [(1, v, 0) for v in x]
    while len(level) > 1:
        merged = []
        for (n, m, s), (k, p, t) in zip(level[::2], level[1::2]):
            d = a.sub(p, m)
            square = a.fma(a.mul(d, d), b.c(mpq(n * k, n + k)), a.add(s, t))
            merged.append((n + k, a.fma(d, b.c(mpq(k, n + k)), m), square))
        level = merged
    return [b.mean(x), b.variance(x)], [level[0][1], a.mul(level[0][2], b.c(mpq(1, 8)))]


@wrong
def chan_with_the_sum_for_the_mean(b: Builder) -> tuple[Ids, Ids]:
    x, a = b.inputs(4), b.arena
    d = a.sub(a.add(x[2], x[3]), a.add(x[0], x[1]))
    halves = [a.mul(b.variance(x[i : i + 2]), b.c(2)) for i in (0, 2)]
    return [b.variance(x)], [a.mul(a.add(a.add(*halves), a.mul(d, d)), b.c(mpq(1, 4)))]


@equal
def shifted_moments(b: Builder) -> tuple[Ids, Ids]:
    """Moments about any value give the variance: here about the first element."""
    x, a = b.inputs(6), b.arena
    d = [a.sub(v, x[0]) for v in x]
    return [b.variance(x)], [b.variance_by_moments(d)]


@wrong
def welford_with_the_old_mean_twice(b: Builder) -> tuple[Ids, Ids]:
    x, a = b.inputs(4), b.arena
    mean, square = x[0], 0
    for k in range(1, 4):
        d = a.sub(x[k], mean)
        mean = a.fma(d, b.c(mpq(1, k + 1)), mean)
        square = a.fma(d, d, square)
    return [b.variance(x)], [a.mul(square, b.c(mpq(1, 4)))]


@equal
def layer_norm_by_a_square_root_and_a_quotient(b: Builder) -> tuple[Ids, Ids]:
    x, a, eps = b.inputs(4), b.arena, b.c(EPSILON)
    m, v = b.mean(x), b.variance(x)
    return [b.normalised(y, m, v, eps) for y in x], [a.div(a.sub(y, m), a.sqrt(a.add(eps, v))) for y in x]


@equal
def layer_norm_backward(b: Builder) -> tuple[Ids, Ids]:
    """dx = rstd * (g - mean(g) - xhat * mean(g * xhat)), with and without the mean taken out first."""
    x, g, a, n = b.inputs(4), b.inputs(4), b.arena, b.c(mpq(1, 4))
    eps, m = b.c(EPSILON), b.mean(x)
    rstd = b.rsqrt(a.add(b.variance(x), eps))
    again = b.rsqrt(a.add(b.variance_by_moments(x), eps))
    hat, other = [a.mul(a.sub(v, m), rstd) for v in x], [a.fma(v, again, a.neg(a.mul(m, again))) for v in x]
    c1, c2 = a.mul(b.dot(hat, g), n), b.mean(g)
    left = [a.mul(rstd, a.sub(a.sub(v, c2), a.mul(h, c1))) for v, h in zip(g, hat)]
    centred = b.centred(g, b.mean(g))
    inner = a.mul(b.dot(other, centred), n)
    return left, [a.mul(a.sub(v, a.mul(h, inner)), again) for v, h in zip(centred, other)]


@wrong
def layer_norm_backward_without_the_projection(b: Builder) -> tuple[Ids, Ids]:
    x, g, a, n = b.inputs(3), b.inputs(3), b.arena, b.c(mpq(1, 3))
    rstd = b.rsqrt(a.add(b.variance(x), b.c(EPSILON)))
    hat = [a.mul(v, rstd) for v in b.centred(x, b.mean(x))]
    c1, c2 = a.mul(b.dot(hat, g), n), b.mean(g)
    left = [a.mul(rstd, a.sub(a.sub(v, c2), a.mul(h, c1))) for v, h in zip(g, hat)]
    return left, [a.mul(rstd, a.sub(v, c2)) for v in g]


# --- root mean squares and groups ---------------------------------------------------------------


@equal
def rms_norm_with_a_residual(b: Builder) -> tuple[Ids, Ids]:
    x, r, g, a = b.inputs(4), b.inputs(4), b.inputs(4), b.arena
    h, n, eps = [a.add(v, w) for v, w in zip(x, r)], b.c(mpq(1, 4)), b.c(EPSILON)
    rstd = b.rsqrt(a.fma(b.tree([a.mul(v, v) for v in h]), n, eps))
    root = a.sqrt(a.add(a.mul(b.dot(h, h), n), eps))
    return [a.mul(a.div(v, root), w) for v, w in zip(h, g)], [a.mul(a.mul(v, w), rstd) for v, w in zip(h, g)]


@wrong
def rms_norm_of_the_centred_row(b: Builder) -> tuple[Ids, Ids]:
    x, a, n, eps = b.inputs(4), b.arena, b.c(mpq(1, 4)), b.c(EPSILON)
    d = b.centred(x, b.mean(x))
    left, right = (b.rsqrt(a.fma(b.dot(v, v), n, eps)) for v in (x, d))
    return [a.mul(v, left) for v in x], [a.mul(v, right) for v in x]


@wrong
def rms_norm_with_epsilon_outside_the_root(b: Builder) -> tuple[Ids, Ids]:
    x, a, n, eps = b.inputs(3), b.arena, b.c(mpq(1, 3)), b.c(EPSILON)
    mean = a.mul(b.dot(x, x), n)
    return [a.div(v, a.sqrt(a.add(mean, eps))) for v in x], [a.div(v, a.add(a.sqrt(mean), eps)) for v in x]


def _group_norm(swapped: bool = False) -> Case:
    """Two groups of two channels over three positions: statistics over a group, by channels merged against at once."""

    def case(b: Builder) -> tuple[Ids, Ids]:
        a, eps = b.arena, b.c(EPSILON)
        channels = [b.inputs(3) for _ in range(4)]
        groups = [channels[0] + channels[1], channels[2] + channels[3]]
        left, right = [], []
        for number, group in enumerate(groups):
            parts = [groups[number][:3], groups[number][3:]] if not swapped else [channels[number], channels[number + 2]]
            mean = b.mean([b.mean(part) for part in parts])
            second = b.mean([a.mul(b.dot(part, part), b.c(mpq(1, 3))) for part in parts])
            var = a.sub(second, a.mul(mean, mean))
            left += [b.normalised(v, b.mean(group), b.variance(group), eps) for v in group]
            right += [b.normalised(v, mean, var, eps) for v in group]
        return left, right

    return case


EQUAL["group norm by channels"] = _group_norm()
WRONG["group norm over the wrong channels"] = _group_norm(swapped=True)


@equal
def batch_norm_folded_into_a_product(b: Builder) -> tuple[Ids, Ids]:
    """(w.x - mean) / sqrt(var + eps) * gamma + beta with everything but x folded into w and the bias."""
    x, w, a = b.inputs(4), b.inputs(4), b.arena
    mean, root, gamma, beta = b.inputs(4)
    var = a.add(a.mul(root, root), b.c(EPSILON))
    factor = a.mul(gamma, b.rsqrt(var))
    left = a.fma(a.div(a.sub(b.dot(x, w), mean), a.sqrt(var)), gamma, beta)
    return [left], [b.dot(x, [a.mul(v, factor) for v in w], a.sub(beta, a.mul(mean, factor)))]


@wrong
def batch_norm_folded_without_its_mean(b: Builder) -> tuple[Ids, Ids]:
    x, w, a = b.inputs(3), b.inputs(3), b.arena
    mean, gamma = b.inputs(2)
    return [a.mul(a.sub(b.dot(x, w), mean), gamma)], [b.dot(x, [a.mul(v, gamma) for v in w])]
