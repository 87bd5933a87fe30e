"""Identities of attention, beside those of ``identities_networks``: masks, scales, merged parts, gradients."""

from __future__ import annotations

from gmpy2 import mpq
from identity_register import EQUAL, WRONG, Case, equal, wrong
from normal_terms import Builder, Ids

from ptx_engine.terms import Const

MINUS_INFINITY = 3  # the id of -inf


def _heads(b: Builder, queries: int, keys: int, depth: int) -> tuple[list[Ids], list[Ids], list[Ids]]:
    """Scores (a row per query), keys and queries."""
    q = [b.inputs(depth) for _ in range(queries)]
    k = [b.inputs(depth) for _ in range(keys)]
    return [[b.dot(x, y) for y in k] for x in q], k, q


def _causal(late: int = 0) -> Case:
    """Three queries over three keys in blocks of two, the blocks beyond the diagonal skipped or masked."""

    def case(b: Builder) -> tuple[Ids, Ids]:
        scores, _, _ = _heads(b, 3, 3, 2)
        v, a = b.inputs(3), b.arena
        naive, blocked = [], []
        for i, row in enumerate(scores):
            naive.append(b.attention(row[: i + 1], v))
            masked = [x if j <= i + late else MINUS_INFINITY for j, x in enumerate(row)]
            out, m, bottom = 0, 0, 0
            for start in range(0, i + late + 1, 2):
                part = masked[start : start + 2]
                fresh = b.greatest(part) if not start else b.greatest([m, *part])
                p = [a.exp(a.sub(x, fresh)) for x in part]
                scale = a.exp(a.sub(m, fresh)) if start else 0
                out, bottom, m = b.dot(p, v[start : start + 2], a.mul(out, scale)), a.add(a.mul(bottom, scale), b.total(p)), fresh
            blocked.append(a.div(out, bottom))
        return naive, blocked

    return case


EQUAL["causal attention in blocks"] = _causal()
WRONG["causal attention that sees one key ahead"] = _causal(late=1)


@equal
def attention_with_its_lse(b: Builder) -> tuple[Ids, Ids]:
    """Flash attention 2 with the LSE as a second output, in base 2 throughout."""
    scores, _, _ = _heads(b, 1, 6, 2)
    s, v, a = scores[0], b.inputs(6), b.arena
    out, m, bottom = b.online(s, v, 2, base2=True)
    lse = a.mul(a.add(m, a.log2(bottom)), a.const(Const(mpq(1), log2e=-1)))
    return [b.attention(s, v), b.lse(s)], [out, lse]


@wrong
def attention_lse_without_the_change_of_base(b: Builder) -> tuple[Ids, Ids]:
    s, v, a = b.inputs(4), b.inputs(4), b.arena
    _, m, bottom = b.online(s, v, 2, base2=True)
    return [b.lse(s)], [a.add(m, a.log2(bottom))]


def _merged(weighted: bool, shifted: bool) -> Case:
    """Split-KV by partial LSEs: O = sum of e^(lse_i - lse) * O_i."""

    def case(b: Builder) -> tuple[Ids, Ids]:
        s, v, a = b.inputs(6), b.inputs(6), b.arena
        outs = [b.online(s[i : i + 2], v[i : i + 2], 1)[0] for i in (0, 2, 4)]
        logs = [b.lse_shifted(s[i : i + 2]) for i in (0, 2, 4)]
        lse = b.lse_shifted(logs) if shifted else b.lse(logs)
        weights = [a.exp(a.sub(x, lse)) if weighted else b.c(mpq(1, 3)) for x in logs]
        return [b.attention(s, v), b.lse(s)], [b.dot(weights, outs), lse]

    return case


EQUAL["split KV merged by LSE"] = _merged(weighted=True, shifted=True)
EQUAL["split KV merged by LSE unshifted"] = _merged(weighted=True, shifted=False)
WRONG["split KV averaged"] = _merged(weighted=False, shifted=True)


@equal
def split_kv_in_three_levels(b: Builder) -> tuple[Ids, Ids]:
    s, v, a = b.inputs(8), b.inputs(8), b.arena
    parts = [(b.attention(s[i : i + 2], v[i : i + 2]), b.lse(s[i : i + 2])) for i in range(0, 8, 2)]
    while len(parts) > 1:
        merged = []
        for (o1, l1), (o2, l2) in zip(parts[::2], parts[1::2]):
            m = a.maximum(l1, l2)
            w1, w2 = a.exp(a.sub(l1, m)), a.exp(a.sub(l2, m))
            bottom = a.add(w1, w2)
            merged.append((a.div(a.add(a.mul(w1, o1), a.mul(w2, o2)), bottom), a.add(m, a.log(bottom))))
        parts = merged
    return [b.attention(s, v)], [parts[0][0]]


@equal
def attention_scale_on_the_query(b: Builder) -> tuple[Ids, Ids]:
    q, a, scale = b.inputs(3), b.arena, b.c(mpq(1, 8))
    k, v = [b.inputs(3) for _ in range(4)], b.inputs(4)
    scaled = [a.mul(x, scale) for x in q]
    return [b.attention([a.mul(b.dot(q, y), scale) for y in k], v)], [b.online([b.dot(scaled, y) for y in k], v, 2)[0]]


@wrong
def attention_scale_on_query_and_key(b: Builder) -> tuple[Ids, Ids]:
    q, a, scale = b.inputs(2), b.arena, b.c(mpq(1, 8))
    k, v = [b.inputs(2) for _ in range(2)], b.inputs(2)
    scaled = [a.mul(x, scale) for x in q]
    twice = [b.dot(scaled, [a.mul(x, scale) for x in y]) for y in k]
    return [b.attention([a.mul(b.dot(q, y), scale) for y in k], v)], [b.attention(twice, v)]


@equal
def attention_with_a_bias(b: Builder) -> tuple[Ids, Ids]:
    s, bias, v, a = b.inputs(6), b.inputs(6), b.inputs(6), b.arena
    biased = [a.add(x, y) for x, y in zip(s, bias)]
    return [b.attention(biased, v)], [b.online([a.fma(1, y, x) for x, y in zip(s, bias)], v, 3)[0]]


@equal
def attention_weights_as_products(b: Builder) -> tuple[Ids, Ids]:
    """e^(s + bias) = e^s * e^bias."""
    s, bias, v, a = b.inputs(4), b.inputs(4), b.inputs(4), b.arena
    e = [a.mul(a.exp(x), a.exp(y)) for x, y in zip(s, bias)]
    return [b.attention([a.add(x, y) for x, y in zip(s, bias)], v)], [a.div(b.dot(e, v), b.total(e))]


@equal
def linear_attention_reassociated(b: Builder) -> tuple[Ids, Ids]:
    """(Q K^T) V = Q (K^T V) without a softmax."""
    keys, depth = 3, 2
    q = b.inputs(depth)
    k, v = [b.inputs(depth) for _ in range(keys)], b.inputs(keys)
    state = [b.dot([k[j][d] for j in range(keys)], v) for d in range(depth)]
    return [b.dot([b.dot(q, y) for y in k], v)], [b.dot(q, state)]


@equal
def online_with_a_lazy_rescale(b: Builder) -> tuple[Ids, Ids]:
    """Flash attention 4 rescales only when the maximum grew by more than a threshold: any shift is right over the reals."""
    s, v, a = b.inputs(6), b.inputs(6), b.arena
    m = b.greatest(s[:3])
    grown = b.greatest(s)
    kept = a.select(a.compare(26, a.add(m, b.c(8)), grown), grown, m)
    scale = a.exp(a.sub(m, kept))
    first, second = ([a.exp(a.sub(x, shift)) for x in part] for part, shift in ((s[:3], m), (s[3:], kept)))
    top = b.dot(second, v[3:], a.mul(b.dot(first, v[:3]), scale))
    return [b.attention(s, v)], [a.div(top, a.add(a.mul(b.total(first), scale), b.total(second)))]


@wrong
def online_with_a_rescale_left_out(b: Builder) -> tuple[Ids, Ids]:
    s, v, a = b.inputs(4), b.inputs(4), b.arena
    m = b.greatest(s[:2])
    grown = b.greatest(s)
    kept = a.select(a.compare(26, a.add(m, b.c(8)), grown), grown, m)
    first, second = ([a.exp(a.sub(x, shift)) for x in part] for part, shift in ((s[:2], m), (s[2:], kept)))
    return [b.attention(s, v)], [a.div(b.dot(second, v[2:], b.dot(first, v[:2])), a.add(b.total(first), b.total(second)))]


# --- gradients ----------------------------------------------------------------------------------


def _backward(*, scale_dq: bool = True, delta: bool = True, transposed: bool = True) -> Case:
    """dQ, dK, dV of two queries over three keys: naive against probabilities recomputed from the LSE and a stored delta."""

    def case(b: Builder) -> tuple[Ids, Ids]:
        a, scale, depth, keys, queries = b.arena, b.c(mpq(1, 2)), 2, 3, 2
        q, k = [b.inputs(depth) for _ in range(queries)], [b.inputs(depth) for _ in range(keys)]
        v, grad = [b.inputs(1)[0] for _ in range(keys)], [b.inputs(1)[0] for _ in range(queries)]
        s = [[a.mul(b.dot(x, y), scale) for y in k] for x in q]

        def gradients(p: list[Ids], deltas: Ids, scaled: bool = True) -> Ids:
            ds = [[a.mul(x, a.sub(a.mul(g, y), d)) for x, y in zip(row, v)] for row, g, d in zip(p, grad, deltas)]
            dq = [a.mul(b.dot(row, [y[c] for y in k]), scale if scaled else 1) for row in ds for c in range(depth)]
            dk = [a.mul(b.dot([row[j] for row in ds], [x[c] for x in q]), scale) for j in range(keys) for c in range(depth)]
            dv = [b.dot([row[j] for row in p], grad) for j in range(keys)]
            return dq + dk + dv

        p = [b.softmax(row) for row in s]
        again = [[a.exp(a.sub(x, b.lse_shifted(row))) for x in row] for row in s]
        outs = [a.mul(g, b.online(row, v, 2)[0]) if delta else 0 for row, g in zip(s, grad)]
        if not transposed:
            again = [[row[0], *row[:0:-1]] for row in again]
        return gradients(p, [b.dot(row, [a.mul(g, x) for x in v]) for row, g in zip(p, grad)]), gradients(again, outs, scale_dq)

    return case


EQUAL["attention backward dQ dK dV"] = _backward()
WRONG["attention backward without the scale in dQ"] = _backward(scale_dq=False)
WRONG["attention backward without delta"] = _backward(delta=False)
WRONG["attention backward with two keys exchanged"] = _backward(transposed=False)
