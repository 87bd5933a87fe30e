"""Identities of softmax, log-sum-exp and cross-entropy, beside those of ``identities_networks``."""

from __future__ import annotations

from collections.abc import Callable

from gmpy2 import mpq
from identity_register import EQUAL, WRONG, Case, equal, wrong
from normal_terms import Builder, Ids

from ptx_engine.terms import Const, Op


def online_statistics(b: Builder, s: Ids, block: int, *, rescale: bool = True) -> tuple[int, int]:
    """Running maximum and sum over blocks of scores: the first pass of an online softmax."""
    a, m, bottom = b.arena, 0, 0
    for start in range(0, len(s), block):
        part = s[start : start + block]
        fresh = b.greatest([m, *part]) if start else b.greatest(part)
        added = b.tree([a.exp(a.sub(x, fresh)) for x in part])
        if start:
            added = a.fma(bottom, a.exp(a.sub(m, fresh)), added) if rescale else a.add(bottom, added)
        m, bottom = fresh, added
    return m, bottom


def _online(block: int, count: int) -> Case:
    def case(b: Builder) -> tuple[Ids, Ids]:
        s = b.inputs(count)
        m, bottom = online_statistics(b, s, block)
        return b.softmax(s), [b.arena.div(b.arena.exp(b.arena.sub(x, m)), bottom) for x in s]

    return case


for _block, _count in ((1, 7), (2, 8), (3, 8), (4, 8), (5, 8), (7, 8), (8, 8)):
    EQUAL[f"softmax online, {_count} in blocks of {_block}"] = _online(_block, _count)


State = tuple[int, int]


def _joined_struct(b: Builder, x: State, y: State) -> State:
    """Of two states the one of the greater maximum is chosen, the other one's sum is rescaled."""
    a = b.arena
    c = a.compare(Op.LT, y[0], x[0])
    (m, d), (n, e) = ((a.select(c, u, v), a.select(c, w, z)) for (u, w), (v, z) in ((x, y), (y, x)))
    return m, a.fma(e, a.exp(a.sub(n, m)), d)


def _joined_branch(b: Builder, x: State, y: State) -> State:
    a = b.arena
    c = a.compare(Op.LE, x[0], y[0])
    rescaled = a.fma(x[1], a.exp(a.sub(x[0], y[0])), y[1])
    return a.select(c, y[0], x[0]), a.select(c, rescaled, a.fma(y[1], a.exp(a.sub(y[0], x[0])), x[1]))


def _joined_factors(b: Builder, x: State, y: State) -> State:
    """Two factors, of which one is one."""
    a = b.arena
    c = a.logic(Op.NOT, a.compare(Op.LE, y[0], x[0]))
    old, new = a.select(c, a.exp(a.sub(x[0], y[0])), b.c(1)), a.select(c, b.c(1), a.exp(a.sub(y[0], x[0])))
    return a.maximum(x[0], y[0]), a.fma(x[1], old, a.mul(y[1], new))


def _joined_extremes(b: Builder, x: State, y: State) -> State:
    """One exponential, of the lesser maximum less the greater one."""
    a = b.arena
    m = a.maximum(x[0], y[0])
    factor = a.exp(a.sub(a.minimum(x[0], y[0]), m))
    return m, a.select(a.compare(Op.LT, x[0], y[0]), a.fma(x[1], factor, y[1]), a.fma(y[1], factor, x[1]))


def _joined_size(b: Builder, x: State, y: State) -> State:
    """The same by the size of the difference, in base 2."""
    a = b.arena
    factor = a.exp2(a.mul(a.neg(a.abs(a.sub(x[0], y[0]))), a.const(Const(mpq(1), log2e=1))))
    return a.maximum(x[0], y[0]), a.select(a.compare(Op.LT, y[0], x[0]), a.fma(y[1], factor, x[1]), a.fma(x[1], factor, y[1]))


def _joined_the_other_way(b: Builder, x: State, y: State) -> State:
    """The state of the lesser maximum is kept, and the maximum is the greater one all the same."""
    a = b.arena
    c = a.compare(Op.LT, y[0], x[0])
    (m, d), (n, e) = ((a.select(c, u, v), a.select(c, w, z)) for (u, w), (v, z) in ((x, y), (y, x)))
    return m, a.fma(d, a.exp(a.sub(m, n)), e)


JOINS = {
    "a struct": _joined_struct,
    "a branch": _joined_branch,
    "two factors": _joined_factors,
    "extremes": _joined_extremes,
    "a size": _joined_size,
}


def online_by(join: Callable[[Builder, State, State], State], count: int, tree: bool, length: int = 0) -> Case:
    """Softmax by states of a maximum and a sum that are joined one after another, or as a tree; of products of so many terms, if any."""

    def case(b: Builder) -> tuple[Ids, Ids]:
        a = b.arena
        query = b.inputs(length) if length else []
        s = [b.total([a.mul(x, y) for x, y in zip(query, b.inputs(length))]) for _ in range(count)] if length else b.inputs(count)
        states = [(x, b.c(1)) for x in s]
        while len(states) > 1:
            states[:2] = [join(b, states[0], states[1])]
            if tree:
                states.append(states.pop(0))
        ((m, bottom),) = states
        return b.softmax(s), [a.div(a.exp(a.sub(x, m)), bottom) for x in s]

    return case


for _how, _join in JOINS.items():
    EQUAL[f"softmax online by {_how}, one after another"] = online_by(_join, 9, tree=False)
    EQUAL[f"softmax online by {_how}, as a tree"] = online_by(_join, 8, tree=True)
    EQUAL[f"softmax online by {_how}, of long scores"] = online_by(_join, 4, tree=False, length=12)
WRONG["softmax online by a struct, the lesser for the greater"] = online_by(_joined_the_other_way, 4, tree=False)


@wrong
def softmax_online_without_rescaling_the_sum(b: Builder) -> tuple[Ids, Ids]:
    s = b.inputs(6)
    m, bottom = online_statistics(b, s, 2, rescale=False)
    return b.softmax(s), [b.arena.div(b.arena.exp(b.arena.sub(x, m)), bottom) for x in s]


@equal
def softmax_two_passes(b: Builder) -> tuple[Ids, Ids]:
    """One pass for the maximum, one for the sum, the reciprocal taken once."""
    s, a = b.inputs(8), b.arena
    m = b.greatest(s)
    e = [a.exp(a.sub(x, m)) for x in s]
    scale = a.div(1, b.tree(e))
    return b.softmax(s), [a.mul(x, scale) for x in e]


@wrong
def softmax_with_maxima_over_different_sets(b: Builder) -> tuple[Ids, Ids]:
    """The numerator is shifted by the maximum of all, the denominator by that of the first half."""
    s, a = b.inputs(6), b.arena
    m, part = b.greatest(s), b.greatest(s[:3])
    bottom = b.total([a.exp(a.sub(x, part)) for x in s])
    return b.softmax(s), [a.div(a.exp(a.sub(x, m)), bottom) for x in s]


@equal
def softmax_shifted_by_a_part_of_the_maximum(b: Builder) -> tuple[Ids, Ids]:
    """Over the reals any shift will do, as long as it is one."""
    s = b.inputs(6)
    m = b.greatest(s[:2])
    return b.softmax(s), b.softmax([b.arena.sub(x, m) for x in s])


def _temperature(base2: bool, wrong_scale: bool = False) -> Case:
    def case(b: Builder) -> tuple[Ids, Ids]:
        s, a, t = b.inputs(5), b.arena, b.c(mpq(1, 4))
        scaled = [a.mul(x, t) for x in s]
        folded = a.const(Const(mpq(1, 2 if wrong_scale else 4), log2e=1)) if base2 else t
        m = b.greatest(s)
        power = a.exp2 if base2 else a.exp
        e = [power(a.mul(a.sub(x, m), folded)) for x in s]
        return b.softmax(scaled), [a.div(x, b.total(e)) for x in e]

    return case


EQUAL["softmax with temperature"] = _temperature(base2=False)
EQUAL["softmax with temperature folded into log2 e"] = _temperature(base2=True)
WRONG["softmax with another temperature folded into log2 e"] = _temperature(base2=True, wrong_scale=True)


@equal
def softmax_masked_by_minus_infinity(b: Builder) -> tuple[Ids, Ids]:
    s, a = b.inputs(6), b.arena
    infinity = 3  # the id of -inf
    masked = [*s[:4], infinity, infinity]
    m = b.greatest(masked)
    e = [a.exp(a.sub(x, m)) for x in masked]
    return [*b.softmax(s[:4]), 0, 0], [a.div(x, b.total(e)) for x in e]


@wrong
def softmax_masked_by_zero(b: Builder) -> tuple[Ids, Ids]:
    s, a = b.inputs(6), b.arena
    e = [a.exp(x) for x in [*s[:4], 0, 0]]
    return b.softmax(s[:4]), [a.div(x, b.total(e)) for x in e[:4]]


@equal
def softmax_backward(b: Builder) -> tuple[Ids, Ids]:
    """dx = y * (dy - sum(y * dy)) against the Jacobian y_i (delta_ij - y_j)."""
    s, g, a = b.inputs(4), b.inputs(4), b.arena
    y, again = b.softmax(s), b.softmax_shifted(s)
    inner = b.dot(again, g)
    jacobian = [b.total([a.mul(g[j], a.mul(y[j], a.sub(1 if i == j else 0, y[i]))) for j in range(4)]) for i in range(4)]
    return jacobian, [a.mul(p, a.sub(d, inner)) for p, d in zip(again, g)]


@wrong
def softmax_backward_with_the_wrong_sign(b: Builder) -> tuple[Ids, Ids]:
    s, g, a = b.inputs(3), b.inputs(3), b.arena
    y = b.softmax(s)
    inner = b.dot(y, g)
    return [a.mul(p, a.sub(d, inner)) for p, d in zip(y, g)], [a.mul(p, a.add(d, inner)) for p, d in zip(y, g)]


# --- log-sum-exp --------------------------------------------------------------------------------


@equal
def log_sum_exp_in_base_2(b: Builder) -> tuple[Ids, Ids]:
    s, a = b.inputs(6), b.arena
    log2e, ln2 = a.const(Const(mpq(1), log2e=1)), a.const(Const(mpq(1), log2e=-1))
    t = [a.mul(x, log2e) for x in s]
    m = b.greatest(t)
    return [b.lse(s)], [a.mul(a.add(m, a.log2(b.tree([a.exp2(a.sub(x, m)) for x in t]))), ln2)]


@equal
def log_sum_exp_of_two_parts(b: Builder) -> tuple[Ids, Ids]:
    s, a = b.inputs(6), b.arena
    first, second = b.lse_shifted(s[:2]), b.lse_shifted(s[2:])
    m = a.maximum(first, second)
    return [b.lse(s)], [a.add(m, a.log(a.add(a.exp(a.sub(first, m)), a.exp(a.sub(second, m)))))]


@equal
def log_add_exp_with_one_exponential(b: Builder) -> tuple[Ids, Ids]:
    """log(e^x + e^y) = max(x, y) + log(1 + e^-|x - y|)."""
    (x, y), a = b.inputs(2), b.arena
    spread = a.abs(a.sub(x, y))
    return [b.lse([x, y])], [a.add(a.maximum(x, y), a.log(a.add(1, a.exp(a.neg(spread)))))]


@wrong
def log_sum_exp_of_two_parts_averaged(b: Builder) -> tuple[Ids, Ids]:
    s, a = b.inputs(4), b.arena
    first, second = b.lse(s[:2]), b.lse(s[2:])
    return [b.lse(s)], [a.add(a.maximum(first, second), a.log(b.c(2)))]


@wrong
def log_add_exp_with_the_wrong_sign(b: Builder) -> tuple[Ids, Ids]:
    (x, y), a = b.inputs(2), b.arena
    spread = a.abs(a.sub(x, y))
    return [b.lse([x, y])], [a.add(a.minimum(x, y), a.log(a.add(1, a.exp(a.neg(spread)))))]


# --- cross-entropy ------------------------------------------------------------------------------


@equal
def cross_entropy_shifted_by_the_label(b: Builder) -> tuple[Ids, Ids]:
    """-log softmax_k = log(sum of e^(s_j - s_k))."""
    s, a = b.inputs(5), b.arena
    return [a.sub(b.lse_shifted(s), s[3])], [a.log(b.total([a.exp(a.sub(x, s[3])) for x in s]))]


@equal
def cross_entropy_by_one_hot_labels(b: Builder) -> tuple[Ids, Ids]:
    s, a = b.inputs(4), b.arena
    logs = [a.log(p) for p in b.softmax_shifted(s)]
    return [a.sub(b.lse(s), s[1])], [a.neg(b.dot(logs, [0, 1, 0, 0]))]


@equal
def cross_entropy_with_smoothed_labels(b: Builder) -> tuple[Ids, Ids]:
    s, a, n = b.inputs(4), b.arena, 4
    smooth = mpq(1, 10)
    weights = [b.c(smooth / n + (1 - smooth if i == 2 else 0)) for i in range(n)]
    direct = a.neg(b.dot(weights, [a.log(p) for p in b.softmax(s)]))
    lse = b.lse_shifted(s)
    kept, spread = a.mul(b.c(1 - smooth), a.sub(lse, s[2])), a.mul(b.c(smooth), a.sub(lse, b.mean(s)))
    return [direct], [a.add(kept, spread)]


@equal
def cross_entropy_backward(b: Builder) -> tuple[Ids, Ids]:
    """The gradient is softmax - one-hot, with the probabilities recomputed from the LSE."""
    s, a = b.inputs(4), b.arena
    hot = [0, 0, 1, 0]
    lse = b.lse_shifted(s)
    return [a.sub(p, h) for p, h in zip(b.softmax(s), hot)], [a.sub(a.exp(a.sub(x, lse)), h) for x, h in zip(s, hot)]


@wrong
def cross_entropy_without_the_shift_back(b: Builder) -> tuple[Ids, Ids]:
    s, a = b.inputs(5), b.arena
    m = b.greatest(s)
    return [a.sub(b.lse(s), s[3])], [a.sub(b.lse([a.sub(x, m) for x in s]), s[3])]


@wrong
def cross_entropy_backward_of_another_label(b: Builder) -> tuple[Ids, Ids]:
    s, a = b.inputs(3), b.arena
    p = b.softmax(s)
    return [a.sub(p[0], 1), p[1]], [p[0], a.sub(p[1], 1)]


@wrong
def cross_entropy_with_the_smoothing_forgotten(b: Builder) -> tuple[Ids, Ids]:
    s, a = b.inputs(3), b.arena
    lse = b.lse_shifted(s)
    return [a.sub(lse, a.add(a.mul(b.c(mpq(9, 10)), s[0]), a.mul(b.c(mpq(1, 10)), b.mean(s))))], [a.sub(lse, s[0])]
