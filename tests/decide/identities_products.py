"""Identities of products and sums: convolutions, fast products, rotary embeddings, quantised weights, splits and scans."""

from __future__ import annotations

import random

from gmpy2 import mpq
from identity_register import EQUAL, WRONG, Case, equal, wrong
from normal_terms import Builder, Ids

from ptx_engine.terms import Op

HALF = mpq(1, 2)

# --- sums ---------------------------------------------------------------------------------------


def _random_tree(seed: int) -> Case:
    """A sum of 16 in a random order and a random shape, multiply-adds among the additions."""

    def case(b: Builder) -> tuple[Ids, Ids]:
        x, a, rng = b.inputs(16), b.arena, random.Random(seed)
        parts = list(x)
        while len(parts) > 1:
            p, q = (parts.pop(rng.randrange(len(parts))) for _ in range(2))
            parts.append((a.add(p, q), a.fma(1, q, p), a.sub(p, a.neg(q)))[rng.randrange(3)])
        return [b.total(x)], [parts[0]]

    return case


for _seed in range(3):
    EQUAL[f"sum in a random shape {_seed}"] = _random_tree(_seed)


@equal
def sum_by_butterfly(b: Builder) -> tuple[Ids, Ids]:
    """Every lane of a warp's xor shuffle holds the sum."""
    x = b.inputs(8)
    lanes = list(x)
    for step in (4, 2, 1):
        lanes = [b.arena.add(lanes[i], lanes[i ^ step]) for i in range(8)]
    return [b.total(x)] * 8, lanes


@wrong
def sum_by_butterfly_with_a_step_missing(b: Builder) -> tuple[Ids, Ids]:
    x = b.inputs(8)
    lanes = list(x)
    for step in (4, 1):
        lanes = [b.arena.add(lanes[i], lanes[i ^ step]) for i in range(8)]
    return [b.total(x)] * 8, lanes


@equal
def neumaier_sum(b: Builder) -> tuple[Ids, Ids]:
    """Kahan's sum with the larger of the two compensated: both branches are the same over the reals."""
    x, a = b.inputs(5), b.arena
    total, comp = x[0], 0
    for v in x[1:]:
        t = a.add(total, v)
        low, high = a.add(a.sub(total, t), v), a.add(a.sub(v, t), total)
        comp = a.add(comp, a.select(a.compare(Op.LT, a.abs(total), a.abs(v)), high, low))
        total = t
    return [b.total(x)], [a.add(total, comp)]


@wrong
def kahan_with_the_wrong_compensation(b: Builder) -> tuple[Ids, Ids]:
    """The compensation is zero over the reals, but not if the added value is left in it."""
    x, a = b.inputs(4), b.arena
    total, comp = 0, 0
    for v in x:
        y = a.sub(v, comp)
        t = a.add(total, y)
        comp = a.sub(t, total)
        total = t
    return [b.total(x)], [total]


@equal
def two_sums_compensated(b: Builder) -> tuple[Ids, Ids]:
    """Dekker's product and sum of a dot product (Dot2): the error terms vanish."""
    x, y, a = b.inputs(4), b.inputs(4), b.arena
    total, error = a.mul(x[0], y[0]), 0
    for u, v in zip(x[1:], y[1:]):
        product = a.mul(u, v)
        rest = a.fma(u, v, a.neg(product))
        t = a.add(total, product)
        z = a.sub(t, total)
        error = a.add(error, a.add(rest, a.add(a.sub(total, a.sub(t, z)), a.sub(product, z))))
        total = t
    return [b.dot(x, y)], [a.add(total, error)]


# --- splits and scans ---------------------------------------------------------------------------


def _split_k(parts: int, *, drop: int = 0) -> Case:
    def case(b: Builder) -> tuple[Ids, Ids]:
        x, y = b.inputs(12), b.inputs(12)
        size = 12 // parts
        pieces = [b.dot(x[i : i + size], y[i : i + size]) for i in range(0, 12, size)]
        return [b.dot(x, y)], [b.tree(pieces[drop:])]

    return case


for _parts in (2, 3, 4, 6):
    EQUAL[f"split K in {_parts}"] = _split_k(_parts)
WRONG["split K with a part missing"] = _split_k(4, drop=1)


@equal
def stream_k(b: Builder) -> tuple[Ids, Ids]:
    """Two outputs share three uneven pieces of work; the middle one is finished by a fix-up."""
    x, y, z, a = b.inputs(6), b.inputs(6), b.inputs(6), b.arena
    first, last = b.dot(x[:4], y[:4]), b.dot(x[2:], z[2:])
    return [b.dot(x, y), b.dot(x, z)], [a.add(b.dot(x[4:], y[4:]), first), b.dot(x[:2], z[:2], last)]


@equal
def epilogue_folded_into_the_accumulator(b: Builder) -> tuple[Ids, Ids]:
    """alpha * (A B) + beta * C + bias with C and the bias as the first accumulator, divided by alpha."""
    x, y, a = b.inputs(4), b.inputs(4), b.arena
    beta, c, bias = b.inputs(3)
    alpha = b.c(mpq(3, 4))
    start = a.div(a.fma(beta, c, bias), alpha)
    return [a.add(a.fma(alpha, b.dot(x, y), a.mul(beta, c)), bias)], [a.mul(alpha, b.dot(x, y, start))]


@wrong
def epilogue_with_beta_lost(b: Builder) -> tuple[Ids, Ids]:
    x, y, a = b.inputs(4), b.inputs(4), b.arena
    beta, c = b.inputs(2)
    return [a.fma(beta, c, b.dot(x, y))], [a.add(c, b.dot(x, y))]


@equal
def cumsum_by_blelloch(b: Builder) -> tuple[Ids, Ids]:
    """Up-sweep and down-sweep; the inclusive sums add the element."""
    x, a, n = b.inputs(8), b.arena, 8
    y = list(x)
    for step in (1, 2, 4):
        for i in range(2 * step - 1, n, 2 * step):
            y[i] = a.add(y[i - step], y[i])
    y[-1] = 0
    for step in (4, 2, 1):
        for i in range(2 * step - 1, n, 2 * step):
            y[i - step], y[i] = y[i], a.add(y[i], y[i - step])
    return [b.total(x[: i + 1]) for i in range(n)], [a.add(p, v) for p, v in zip(y, x)]


@equal
def cumsum_by_blocks(b: Builder) -> tuple[Ids, Ids]:
    """Scans of blocks, the blocks' sums scanned and added."""
    x, a = b.inputs(12), b.arena
    result, carry = [], 0
    for start in range(0, 12, 4):
        part = x[start : start + 4]
        result += [a.add(carry, b.total(part[: i + 1])) for i in range(4)]
        carry = a.add(carry, b.tree(part))
    return [b.total(x[: i + 1]) for i in range(12)], result


@wrong
def cumsum_without_the_carry(b: Builder) -> tuple[Ids, Ids]:
    x = b.inputs(8)
    halves = [b.total(x[start : start + i + 1]) for start in (0, 4) for i in range(4)]
    return [b.total(x[: i + 1]) for i in range(8)], halves


@equal
def linear_recurrence_by_scan(b: Builder) -> tuple[Ids, Ids]:
    """h = a h + x (state space models): (a1, x1) o (a2, x2) = (a1 a2, a2 x1 + x2)."""
    f, x, a = b.inputs(4), b.inputs(4), b.arena
    serial, h = [], 0
    for g, v in zip(f, x):
        h = a.fma(g, h, v)
        serial.append(h)
    pairs = list(zip(f, x))
    for step in (1, 2):
        pairs = [(a.mul(pairs[i - step][0], g), a.fma(g, pairs[i - step][1], v)) if i >= step else (g, v) for i, (g, v) in enumerate(pairs)]
    return serial, [v for _, v in pairs]


@wrong
def linear_recurrence_with_the_wrong_factor(b: Builder) -> tuple[Ids, Ids]:
    f, x, a = b.inputs(3), b.inputs(3), b.arena
    left, right = 0, 0
    for i in range(3):
        left, right = a.fma(f[i], left, x[i]), a.fma(f[max(i - 1, 0)], right, x[i])
    return [left], [right]


# --- fast products and convolutions -------------------------------------------------------------


@wrong
def strassen_with_a_wrong_sign(b: Builder) -> tuple[Ids, Ids]:
    a, x, y = b.arena, b.inputs(4), b.inputs(4)
    m3, m5 = a.mul(x[0], a.sub(y[1], y[3])), a.mul(a.add(x[0], x[1]), y[3])
    return [b.dot(x[:2], [y[1], y[3]])], [a.sub(m3, m5)]


@equal
def strassen_winograd(b: Builder) -> tuple[Ids, Ids]:
    """Winograd's variant: seven products, fifteen additions."""
    a, x, y = b.arena, b.inputs(4), b.inputs(4)
    s1, t1 = a.add(x[2], x[3]), a.sub(y[1], y[0])
    s2, t2 = a.sub(s1, x[0]), a.sub(y[3], t1)
    s3, t3 = a.sub(x[0], x[2]), a.sub(y[3], y[1])
    s4, t4 = a.sub(x[1], s2), a.sub(t2, y[2])
    p1, p2, p3, p4 = a.mul(x[0], y[0]), a.mul(x[1], y[2]), a.mul(s4, y[3]), a.mul(x[3], t4)
    p5, p6, p7 = a.mul(s1, t1), a.mul(s2, t2), a.mul(s3, t3)
    u2 = a.add(p1, p6)
    u3, u4 = a.add(u2, p7), a.add(u2, p5)
    fast = [a.add(p1, p2), a.add(u4, p3), a.sub(u3, p4), a.add(u3, p5)]
    return [b.dot(x[2 * i : 2 * i + 2], [y[j], y[2 + j]]) for i in (0, 1) for j in (0, 1)], fast


@equal
def three_products_for_a_complex_one(b: Builder) -> tuple[Ids, Ids]:
    p, q, r, s = b.inputs(4)
    a = b.arena
    k1, k2, k3 = a.mul(r, a.add(p, q)), a.mul(p, a.sub(s, r)), a.mul(q, a.add(r, s))
    return [a.sub(a.mul(p, r), a.mul(q, s)), a.fma(p, s, a.mul(q, r))], [a.sub(k1, k3), a.add(k1, k2)]


@wrong
def three_products_with_the_wrong_sum(b: Builder) -> tuple[Ids, Ids]:
    p, q, r, s = b.inputs(4)
    a = b.arena
    k1, k3 = a.mul(r, a.add(p, q)), a.mul(q, a.sub(r, s))
    return [a.sub(a.mul(p, r), a.mul(q, s))], [a.sub(k1, k3)]


def _winograd_1d(b: Builder, d: Ids, g: Ids) -> Ids:
    """F(2,3): two outputs of a filter of three."""
    a, half = b.arena, b.c(HALF)
    even = a.add(g[0], g[2])
    m = [
        a.mul(a.sub(d[0], d[2]), g[0]), a.mul(a.add(d[1], d[2]), a.mul(half, a.add(even, g[1]))),
        a.mul(a.sub(d[2], d[1]), a.mul(half, a.sub(even, g[1]))), a.mul(a.sub(d[1], d[3]), g[2]),
    ]  # fmt: skip
    return [a.add(a.add(m[0], m[1]), m[2]), a.sub(a.sub(m[1], m[2]), m[3])]


@equal
def winograd_f23_in_two_dimensions(b: Builder) -> tuple[Ids, Ids]:
    """F(2x2, 3x3): 16 products for 36, by the matrices of F(2,3) from both sides."""
    a = b.arena
    d, g = [b.inputs(4) for _ in range(4)], [b.inputs(3) for _ in range(3)]
    direct = [b.total([b.dot(d[i + p][j : j + 3], g[p]) for p in range(3)]) for i in (0, 1) for j in (0, 1)]

    def data(v: Ids) -> Ids:
        return [a.sub(v[0], v[2]), a.add(v[1], v[2]), a.sub(v[2], v[1]), a.sub(v[1], v[3])]

    def weights(v: Ids) -> Ids:
        even, half = a.add(v[0], v[2]), b.c(HALF)
        return [v[0], a.mul(half, a.add(even, v[1])), a.mul(half, a.sub(even, v[1])), v[2]]

    def back(v: Ids) -> Ids:
        return [a.add(a.add(v[0], v[1]), v[2]), a.sub(a.sub(v[1], v[2]), v[3])]

    def both(rows: list[Ids], transform: object) -> list[Ids]:
        once = [transform(row) for row in rows]  # type: ignore[operator]
        return [list(column) for column in zip(*(transform(list(column)) for column in zip(*once)))]  # type: ignore[operator]

    u, v = both(g, weights), both(d, data)
    m = [[a.mul(p, q) for p, q in zip(r, s)] for r, s in zip(u, v)]
    return direct, [x for row in both(m, back) for x in row]


@equal
def winograd_over_channels(b: Builder) -> tuple[Ids, Ids]:
    a, d, g = b.arena, [b.inputs(4) for _ in range(2)], [b.inputs(3) for _ in range(2)]
    parts = [_winograd_1d(b, x, w) for x, w in zip(d, g)]
    return [b.total([b.dot(x[i : i + 3], w) for x, w in zip(d, g)]) for i in (0, 1)], [a.add(p, q) for p, q in zip(*parts)]


def _convolution(late: int = 0) -> Case:
    """A 3x3 convolution with zero padding over a 3x3 image of two channels, direct against a product with gathered columns."""

    def case(b: Builder) -> tuple[Ids, Ids]:
        size, channels, a = 3, 2, b.arena
        image = [[b.inputs(size) for _ in range(size)] for _ in range(channels)]
        taps = [(c, p, q) for c in range(channels) for p in range(3) for q in range(3)]
        weight = dict(zip(taps, b.inputs(len(taps))))

        def at(c: int, i: int, j: int) -> int:
            return image[c][i][j] if 0 <= i < size and 0 <= j < size else 0

        direct, gathered = [], []
        for i in range(size):
            for j in range(size):
                direct.append(b.total([a.mul(at(c, i + p - 1, j + q - 1), w) for (c, p, q), w in weight.items()]))
                order = sorted(taps, key=lambda t: (t[1], t[2], t[0]))  # K runs over rows, columns, then channels
                column = [at(c, i + p - 1, j + q - 1 + late) for c, p, q in order]
                gathered.append(b.dot(column[:9], [weight[t] for t in order[:9]], b.dot(column[9:], [weight[t] for t in order[9:]])))
        return direct, gathered

    return case


EQUAL["convolution as an implicit product"] = _convolution()
WRONG["convolution with a column too far"] = _convolution(late=1)


@equal
def depthwise_then_pointwise(b: Builder) -> tuple[Ids, Ids]:
    """A separable convolution is one with the product of the two weights."""
    a, x, w, p = b.arena, [b.inputs(3) for _ in range(2)], [b.inputs(3) for _ in range(2)], b.inputs(2)
    left = b.dot([b.dot(d, f) for d, f in zip(x, w)], p)
    return [left], [b.dot(x[0] + x[1], [a.mul(f, q) for d, q in zip(w, p) for f in d])]


@wrong
def convolution_with_a_flipped_filter(b: Builder) -> tuple[Ids, Ids]:
    d, g = b.inputs(4), b.inputs(3)
    return [b.dot(d[:3], g), b.dot(d[1:], g)], [b.dot(d[:3], g[::-1]), b.dot(d[1:], g[::-1])]


# --- rotary embeddings --------------------------------------------------------------------------


def _rotated(b: Builder, x: Ids, angles: Ids, *, halves: bool, sign: int = 1) -> Ids:
    """Rotary embedding by neighbouring pairs or by halves."""
    a, n = b.arena, len(angles)
    result = list(x)
    for i, angle in enumerate(angles):
        p, q = (i, i + n) if halves else (2 * i, 2 * i + 1)
        sin, cos = a.unary(Op.SIN, angle), a.unary(Op.COS, angle)
        result[p] = a.fma(x[p], cos, a.neg(a.mul(x[q], sin)))
        result[q] = a.fma(x[q], cos, a.mul(a.mul(x[p], sin), b.c(sign)))
    return result


def _rope_scores(sign: int = 1) -> Case:
    """Scores under the two layouts agree when both query and key are permuted alike."""

    def case(b: Builder) -> tuple[Ids, Ids]:
        q, k, angles = b.inputs(4), b.inputs(4), b.inputs(2)
        left = b.dot(_rotated(b, q, angles, halves=False), _rotated(b, k, angles, halves=False))
        swap = [0, 2, 1, 3]
        rotated = [_rotated(b, [x[i] for i in swap], angles, halves=True, sign=sign) for x in (q, k)]
        return [left], [b.dot(*rotated)]

    return case


EQUAL["rotary scores by pairs and by halves"] = _rope_scores()
WRONG["rotary scores with the wrong sign"] = _rope_scores(-1)


@equal
def rope_by_half_rotation(b: Builder) -> tuple[Ids, Ids]:
    """x * cos + rotate_half(x) * sin with tables repeated for both halves."""
    x, angles, a = b.inputs(4), b.inputs(2), b.arena
    cos, sin = ([a.unary(op, t) for t in angles] * 2 for op in (Op.COS, Op.SIN))
    turned = [a.neg(x[2]), a.neg(x[3]), x[0], x[1]]
    return _rotated(b, x, angles, halves=True), [a.add(a.mul(v, c), a.mul(t, s)) for v, c, t, s in zip(x, cos, turned, sin)]


@wrong
def rope_by_half_rotation_of_the_other_layout(b: Builder) -> tuple[Ids, Ids]:
    x, angles, a = b.inputs(4), b.inputs(2), b.arena
    cos, sin = ([a.unary(op, t) for t in angles] * 2 for op in (Op.COS, Op.SIN))
    turned = [a.neg(x[1]), x[0], a.neg(x[3]), x[2]]
    return _rotated(b, x, angles, halves=True), [a.add(a.mul(v, c), a.mul(t, s)) for v, c, t, s in zip(x, cos, turned, sin)]


# --- quantised weights --------------------------------------------------------------------------


def _int4(*, signed: bool, wrong_zero: bool = False) -> Case:
    """Eight 4-bit weights of a word, scale and zero point applied inside or outside of the sum."""

    def case(b: Builder) -> tuple[Ids, Ids]:
        x, a, (scale, zero) = b.inputs(8), b.arena, b.inputs(2)
        word = b.inputs(1, "u32")[0]
        fields = [int(a.emit(Op.FIELD, word, 4 * i, 4)) for i in range(8)]
        if signed:  # two's complement of 4 bits: (f ^ 8) - 8
            fields = [int(a.sub(a.emit(Op.BITXOR, f, b.c(8)), b.c(8))) for f in fields]
            plain = [int(a.emit(Op.WRAP, a.emit(Op.SHR, word, b.c(4 * i)), -4)) for i in range(8)]
        else:
            plain = [int(a.emit(Op.WRAP, a.emit(Op.SHR, word, b.c(4 * i)), 4)) for i in range(8)]
        inside = b.dot(x, [a.mul(scale, a.sub(f, zero)) for f in fields])
        offset = a.mul(zero, b.total(x[:7] if wrong_zero else x))
        return [inside], [a.mul(scale, a.sub(b.dot(x, plain), offset))]

    return case


EQUAL["int4 weights, scale outside of the sum"] = _int4(signed=False)
EQUAL["int4 weights in two's complement"] = _int4(signed=True)
WRONG["int4 weights with the zero point of seven"] = _int4(signed=False, wrong_zero=True)


def _groups(mixed: bool = False) -> Case:
    """int8 weights with one scale to a group of K: partial sums are scaled, not the whole."""

    def case(b: Builder) -> tuple[Ids, Ids]:
        x, a, scales = b.inputs(6), b.arena, b.inputs(2)
        w = b.inputs(6, "s8")
        left = b.dot(x, [a.mul(v, scales[i // 3]) for i, v in enumerate(w)])
        order = scales[::-1] if mixed else scales
        return [left], [b.dot([b.dot(x[3 * g : 3 * g + 3], w[3 * g : 3 * g + 3]) for g in (0, 1)], order)]

    return case


EQUAL["int8 weights with scales to groups"] = _groups()
WRONG["int8 weights with the scales exchanged"] = _groups(mixed=True)


@equal
def int8_products_of_both_sides(b: Builder) -> tuple[Ids, Ids]:
    """(x - zx)(w - zw) summed, with the four terms apart: the integer sum wraps nowhere."""
    a, n, (zx, zw) = b.arena, 4, b.inputs(2)
    x, w = b.inputs(n, "s8"), b.inputs(n, "s8")
    left = b.dot([a.sub(v, zx) for v in x], [a.sub(v, zw) for v in w])
    products = a.emit(Op.WRAP, b.dot(x, w), -32)
    sums = [a.emit(Op.WRAP, b.total(v), -32) for v in (x, w)]
    right = a.sub(a.sub(products, a.mul(zx, sums[1])), a.mul(zw, sums[0]))
    return [left], [a.fma(a.mul(b.c(n), zx), zw, right)]


@wrong
def int8_products_without_the_product_of_the_zeros(b: Builder) -> tuple[Ids, Ids]:
    a, n, (zx, zw) = b.arena, 3, b.inputs(2)
    x, w = b.inputs(n, "s8"), b.inputs(n, "s8")
    left = b.dot([a.sub(v, zx) for v in x], [a.sub(v, zw) for v in w])
    return [left], [a.sub(a.sub(b.dot(x, w), a.mul(zx, b.total(w))), a.mul(zw, b.total(x)))]


@equal
def low_rank_update(b: Builder) -> tuple[Ids, Ids]:
    """x (W + s U V) = x W + s (x U) V."""
    a, x, w, u, (s, v) = b.arena, b.inputs(3), b.inputs(3), b.inputs(3), b.inputs(2)
    merged = [a.fma(a.mul(s, p), v, q) for p, q in zip(u, w)]
    return [b.dot(x, merged)], [a.fma(a.mul(b.dot(x, u), v), s, b.dot(x, w))]


@wrong
def low_rank_update_without_its_scale(b: Builder) -> tuple[Ids, Ids]:
    a, x, w, u, (s, v) = b.arena, b.inputs(3), b.inputs(3), b.inputs(3), b.inputs(2)
    merged = [a.fma(a.mul(s, p), v, q) for p, q in zip(u, w)]
    return [b.dot(x, merged)], [a.fma(b.dot(x, u), v, b.dot(x, w))]
