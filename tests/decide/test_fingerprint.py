"""Fingerprints: the laws they respect, the differences they see, and values that are the same everywhere."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import gmpy2
import numpy as np
import pytest
from gmpy2 import mpq
from hypothesis import given, settings
from hypothesis import strategies as st

from ptx_engine.decide.field import CHAIN, fields, mix
from ptx_engine.decide.fingerprint import Fingerprints, fingerprint, input_values
from ptx_engine.decide.fingerprint_ops import EVALUATORS
from ptx_engine.decide.levels import Mode, plan
from ptx_engine.terms import ONE, TABLE, ZERO, Arena, Const, Op

Pair = Callable[[Arena, list[int]], tuple[int, int]]


def arena_of(count: int = 8, fmt: str = "f32") -> tuple[Arena, list[int]]:
    arena = Arena()
    entry = arena.add_input("x", count, fmt)
    return arena, [int(i) for i in entry.ids(np.arange(count))]


def agree(pair: Pair) -> bool:
    arena, x = arena_of()
    a, b = pair(arena, x)
    values = fingerprint(arena, np.array([a, b]))
    return bool((values[0] == values[1]).all())


def number(a: Arena, value: object) -> int:
    return a.rational(mpq(value))


#: (law, equal pair, a pair that differs from it in one detail and is not equal)
LAWS: list[tuple[str, Pair, Pair]] = [
    ("add commutes", lambda a, x: (a.add(x[0], x[1]), a.add(x[1], x[0])), lambda a, x: (a.add(x[0], x[1]), a.add(x[1], x[2]))),
    ("sub is add of neg", lambda a, x: (a.sub(x[0], x[1]), a.add(x[0], a.neg(x[1]))), lambda a, x: (a.sub(x[0], x[1]), a.add(x[0], x[1]))),
    (
        "distributive",
        lambda a, x: (a.mul(x[0], a.add(x[1], x[2])), a.fma(x[0], x[1], a.mul(x[0], x[2]))),
        lambda a, x: (a.mul(x[0], a.add(x[1], x[2])), a.fma(x[0], x[1], x[2])),
    ),
    (
        "quotients",
        lambda a, x: (a.div(a.div(x[0], x[1]), x[2]), a.div(x[0], a.mul(x[1], x[2]))),
        lambda a, x: (a.div(a.div(x[0], x[1]), x[2]), a.div(x[0], a.div(x[1], x[2]))),
    ),
    (
        "e^a e^b",
        lambda a, x: (a.mul(a.exp(x[0]), a.exp(x[1])), a.exp(a.add(x[0], x[1]))),
        lambda a, x: (a.mul(a.exp(x[0]), a.exp(x[1])), a.exp(a.mul(x[0], x[1]))),
    ),
    (
        "nested exponentials",
        lambda a, x: (a.exp2(a.exp2(a.add(x[0], x[1]))), a.exp2(a.mul(a.exp2(x[0]), a.exp2(x[1])))),
        lambda a, x: (a.exp2(a.exp2(a.add(x[0], x[1]))), a.exp2(a.add(a.exp2(x[0]), a.exp2(x[1])))),
    ),
    (
        "2^3 = 8",
        lambda a, x: (a.exp2(a.add(x[0], number(a, 3))), a.mul(a.exp2(x[0]), number(a, 8))),
        lambda a, x: (a.exp2(a.add(x[0], number(a, 3))), a.mul(a.exp2(x[0]), number(a, 9))),
    ),
    (
        "2^(1/2) = sqrt 2",
        lambda a, x: (a.emit(Op.EXP2, number(a, "1/2")), a.const(Const(mpq(1), sqrt2=1))),
        lambda a, x: (a.emit(Op.EXP2, number(a, "1/3")), a.const(Const(mpq(1), sqrt2=1))),
    ),
    (
        "sqrt 2 squared",
        lambda a, x: (a.mul(a.mul(x[0], a.const(Const(mpq(1), sqrt2=1))), a.const(Const(mpq(1), sqrt2=1))), a.mul(x[0], number(a, 2))),
        lambda a, x: (a.mul(a.mul(x[0], a.const(Const(mpq(1), sqrt2=1))), a.const(Const(mpq(1), pi=1))), a.mul(x[0], number(a, 2))),
    ),
    (
        "max associates",
        lambda a, x: (a.maximum(a.maximum(x[0], x[1]), x[2]), a.maximum(x[1], a.maximum(x[2], x[0]))),
        lambda a, x: (a.maximum(a.maximum(x[0], x[1]), x[2]), a.maximum(x[1], x[0])),
    ),
    (
        "max is idempotent",
        lambda a, x: (a.emit(Op.MAX, a.add(x[0], x[1]), a.add(x[1], x[0])), a.add(x[0], x[1])),
        lambda a, x: (a.emit(Op.MAX, a.add(x[0], x[1]), a.add(x[1], x[2])), a.add(x[0], x[1])),
    ),
    (
        "min is -max of negatives",
        lambda a, x: (a.minimum(x[0], x[1]), a.neg(a.maximum(a.neg(x[0]), a.neg(x[1])))),
        lambda a, x: (a.minimum(x[0], x[1]), a.neg(a.maximum(a.neg(x[0]), x[1]))),
    ),
    (
        "abs is max(x, -x), even",
        lambda a, x: (a.abs(a.sub(x[0], x[1])), a.maximum(a.sub(x[1], x[0]), a.sub(x[0], x[1]))),
        lambda a, x: (a.abs(a.sub(x[0], x[1])), a.maximum(a.add(x[1], x[0]), a.sub(x[0], x[1]))),
    ),
    (
        "tanh by exponentials",
        lambda a, x: (
            a.unary(Op.TANH, x[0]),
            a.sub(ONE, a.div(number(a, 2), a.add(a.exp(a.mul(number(a, 2), x[0])), ONE))),
        ),
        lambda a, x: (a.unary(Op.TANH, x[0]), a.sub(ONE, a.div(number(a, 2), a.add(a.exp(x[0]), ONE)))),
    ),
    (
        "cos is even",
        lambda a, x: (a.unary(Op.COS, x[0]), a.unary(Op.COS, a.neg(x[0]))),
        lambda a, x: (a.unary(Op.COS, x[0]), a.unary(Op.COS, x[1])),
    ),
    (
        "sin is odd",
        lambda a, x: (a.unary(Op.SIN, x[0]), a.neg(a.unary(Op.SIN, a.neg(x[0])))),
        lambda a, x: (a.unary(Op.SIN, x[0]), a.unary(Op.SIN, a.neg(x[0]))),
    ),
    (
        "small powers are products",
        lambda a, x: (a.emit(Op.POW, x[0], number(a, 3)), a.mul(x[0], a.mul(x[0], x[0]))),
        lambda a, x: (a.emit(Op.POW, x[0], number(a, 3)), a.mul(x[0], x[0])),
    ),
    (
        "negative powers are quotients",
        lambda a, x: (a.emit(Op.POW, x[0], number(a, -2)), a.div(ONE, a.mul(x[0], x[0]))),
        lambda a, x: (a.emit(Op.POW, x[0], number(a, -2)), a.div(ONE, x[0])),
    ),
    (
        "shift left is a product",
        lambda a, x: (a.emit(Op.SHL, x[0], number(a, 4)), a.mul(x[0], number(a, 16))),
        lambda a, x: (a.emit(Op.SHL, x[0], number(a, 4)), a.mul(x[0], number(a, 4))),
    ),
    (
        "shift right is a floor division",
        lambda a, x: (a.emit(Op.SHR, x[0], number(a, 4)), a.emit(Op.FLOORDIV, x[0], number(a, 16))),
        lambda a, x: (a.emit(Op.SHR, x[0], number(a, 4)), a.emit(Op.TRUNCDIV, x[0], number(a, 16))),
    ),
    (
        "not (a < b) is b <= a",
        lambda a, x: (a.logic(Op.NOT, a.compare(Op.LT, x[0], x[1])), a.compare(Op.LE, x[1], x[0])),
        lambda a, x: (a.logic(Op.NOT, a.compare(Op.LT, x[0], x[1])), a.compare(Op.LT, x[1], x[0])),
    ),
    (
        "comparison of differences",
        lambda a, x: (a.compare(Op.LT, a.add(x[0], x[2]), a.add(x[1], x[2])), a.compare(Op.LT, x[0], x[1])),
        lambda a, x: (a.compare(Op.LT, a.add(x[0], x[2]), a.add(x[1], x[3])), a.compare(Op.LT, x[0], x[1])),
    ),
    (
        "select by the negation",
        lambda a, x: (a.select(a.compare(Op.LT, x[0], x[1]), x[2], x[3]), a.select(a.compare(Op.LE, x[1], x[0]), x[3], x[2])),
        lambda a, x: (a.select(a.compare(Op.LT, x[0], x[1]), x[2], x[3]), a.select(a.compare(Op.LE, x[1], x[0]), x[2], x[3])),
    ),
    (
        "De Morgan",
        lambda a, x: (
            a.logic(Op.NOT, a.logic(Op.AND, a.compare(Op.LT, x[0], x[1]), a.compare(Op.EQ, x[2], x[3]))),
            a.logic(Op.OR, a.compare(Op.LE, x[1], x[0]), a.compare(Op.NE, x[3], x[2])),
        ),
        lambda a, x: (
            a.logic(Op.NOT, a.logic(Op.AND, a.compare(Op.LT, x[0], x[1]), a.compare(Op.EQ, x[2], x[3]))),
            a.logic(Op.OR, a.compare(Op.LE, x[0], x[1]), a.compare(Op.NE, x[3], x[2])),
        ),
    ),
    (
        "xor of equals",
        lambda a, x: (a.emit(Op.BITXOR, a.add(x[0], x[1]), a.add(x[1], x[0])), ZERO),
        lambda a, x: (a.emit(Op.BITXOR, a.add(x[0], x[1]), x[1]), ZERO),
    ),
    (
        "wrap has its width",
        lambda a, x: (a.emit(Op.WRAP, x[0], 8), a.emit(Op.WRAP, x[0], 8)),
        lambda a, x: (a.emit(Op.WRAP, x[0], 8), a.emit(Op.WRAP, x[0], -8)),
    ),
    (
        "opaque operations by name",
        lambda a, x: (a.opaque("f", x[0], a.add(x[1], x[2])), a.opaque("f", x[0], a.add(x[2], x[1]))),
        lambda a, x: (a.opaque("f", x[0], x[1]), a.opaque("g", x[0], x[1])),
    ),
    (
        "rationals",
        lambda a, x: (a.div(x[0], number(a, 3)), a.mul(x[0], number(a, "1/3"))),
        lambda a, x: (a.div(x[0], number(a, 3)), a.mul(x[0], number(a, 3))),
    ),
]


@pytest.mark.parametrize(("equal", "different"), [row[1:] for row in LAWS], ids=[row[0] for row in LAWS])
def test_law_holds_and_its_twin_does_not(equal: Pair, different: Pair) -> None:
    assert agree(equal)
    assert not agree(different)


def test_every_operator_has_an_evaluator() -> None:
    assert set(EVALUATORS) == set(TABLE)


def test_chain_is_a_chain_of_primes_in_which_two_has_the_next_order() -> None:
    p0, p1, p2 = CHAIN
    assert all(gmpy2.is_prime(p, 50) for p in CHAIN)
    assert p0 == 2 * p1 + 1 and p1 == 2 * p2 + 1 and p0 < 2**31
    assert pow(2, p1, p0) == 1 and pow(2, p2, p1) == 1
    assert [f.order for f in fields()] == [p1, p2, 0]


def _splitmix(x: int) -> int:
    """SplitMix64's finaliser in Python integers."""
    mask = 2**64 - 1
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & mask
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & mask
    return x ^ (x >> 31)


def _plain_value(seed: int, name: str, index: int, level: int, point: int) -> int:
    text = "\x1f".join((str(seed), "input", name, str(level), str(point))).encode()
    start = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
    return _splitmix((index * 0x9E3779B97F4A7C15 + start) & (2**64 - 1)) % CHAIN[level]


def test_input_values_are_the_documented_counter() -> None:
    for level in range(3):
        values = input_values(7, "Q", np.array([0, 1, 4095, 10**9]), level, 4)
        expected = [[_plain_value(7, "Q", i, level, point) for point in range(4)] for i in (0, 1, 4095, 10**9)]
        assert values.tolist() == expected


def test_golden_values() -> None:
    """Stored fingerprints stay comparable: x[0]*x[1] + 3/4 over seed 0, by hand from the counter."""
    arena, x = arena_of()
    found = fingerprint(arena, np.array([arena.fma(x[0], x[1], number(arena, "3/4"))]))[0]
    quarter = pow(4, -1, CHAIN[0])
    expected = [(_plain_value(0, "x", 0, 0, k) * _plain_value(0, "x", 1, 0, k) + 3 * quarter) % CHAIN[0] for k in range(4)]
    assert found.tolist() == expected
    assert found.tolist() == GOLDEN_POLYNOMIAL


#: of the test above, from the pure-Python definition
GOLDEN_POLYNOMIAL = [814631726, 1452113335, 1895536768, 967643793]


def test_golden_exponential() -> None:
    """2^(x[2]) is 2 to the power of the input's part in the next field."""
    arena, x = arena_of()
    found = fingerprint(arena, np.array([arena.exp2(x[2])]))[0]
    assert found.tolist() == [pow(2, _plain_value(0, "x", 2, 1, k), CHAIN[0]) for k in range(4)]


def test_seed_and_name_matter() -> None:
    arena, x = arena_of()
    node = np.array([arena.add(x[0], x[1])])
    assert (fingerprint(arena, node, seed=1) != fingerprint(arena, node, seed=2)).all()
    other = Arena()
    y = other.add_input("y", 8, "f32").ids(np.arange(8))
    assert (fingerprint(other, np.array([other.add(int(y[0]), int(y[1]))])) != fingerprint(arena, node)).all()


def test_field_products_are_exact_at_the_extremes() -> None:
    for f in fields():
        x = np.full((2, 3, 130), f.p - 1, np.uint64)
        y = np.full((2, 130, 2), f.p - 1, np.uint64)
        assert (f.matmul(x, y) == 130 % f.p).all()
        assert f.mul(x[0, 0, :1], x[0, 0, :1])[0] == 1


@given(st.integers(1, 9), st.integers(1, 70), st.integers(1, 9), st.integers(0, 2), st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_field_products_equal_integer_products(m: int, k: int, n: int, level: int, seed: int) -> None:
    f = fields()[level]
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, f.p, (2, m, k)).astype(np.uint64), rng.integers(0, f.p, (2, k, n)).astype(np.uint64)
    expected = [[[sum(int(x[b, i, q]) * int(y[b, q, j]) for q in range(k)) % f.p for j in range(n)] for i in range(m)] for b in range(2)]
    assert f.matmul(x, y).tolist() == expected


@given(st.lists(st.integers(0, CHAIN[0] - 1), min_size=1, max_size=700))
@settings(max_examples=30, deadline=None)
def test_inverses(values: list[int]) -> None:
    f = fields()[0]
    x = np.array(values, np.uint64)
    assert f.inverse(x).tolist() == [pow(v, -1, f.p) if v else 0 for v in values]


def test_mix_is_splitmix() -> None:
    words = [0, 1, 2**63, 2**64 - 1, 0x0123456789ABCDEF]
    assert mix(np.array(words, np.uint64)).tolist() == [_splitmix(w) for w in words]


# --- evaluation against Python integers ----------------------------------------------------------

_IN_PYTHON: dict[Op, Callable[[int, int, int], int]] = {
    Op.ADD: lambda x, y, z: x + y,
    Op.SUB: lambda x, y, z: x - y,
    Op.MUL: lambda x, y, z: x * y,
    Op.NEG: lambda x, y, z: -x,
    Op.FMA: lambda x, y, z: x * y + z,
    Op.DIV: lambda x, y, z: x * pow(y, -1, CHAIN[0]),
}


@given(
    st.lists(
        st.tuples(st.sampled_from(list(_IN_PYTHON)), st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6)),
        min_size=1,
        max_size=40,
    )
)
@settings(max_examples=60, deadline=None)
def test_rational_terms_evaluate_as_in_python(rows: list[tuple[Op, int, int, int]]) -> None:
    arena, ids = arena_of()
    p = CHAIN[0]
    values: list[int | None] = [_plain_value(0, "x", i, 0, 0) for i in range(8)]
    for op, i, j, k in rows:
        a, b, c = (q % len(ids) for q in (i, j, k))
        x, y, z = values[a], values[b], values[c]
        if op is Op.DIV and not y:
            continue
        ids.append(int(arena.emit(op, *(ids[q] for q in (a, b, c)[: TABLE[op].arity]))))
        if None in (x, y, z):
            values.append(None)
            continue
        assert x is not None and y is not None and z is not None
        result = _IN_PYTHON[op](x, y, z)
        values.append(result % p)
    found = fingerprint(arena, np.array(ids))[:, 0]
    assert all(v is None or v == int(f) for v, f in zip(values, found))


# --- records and modes ---------------------------------------------------------------------------


def _product(arena: Arena, m: int, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    a = arena.add_input("A", m * k, "f16").ids(np.arange(m * k)).reshape(m, k)
    b = arena.add_input("B", n * k, "f16").ids(np.arange(n * k)).reshape(n, k)
    return np.asarray(a), np.asarray(b)


def _by_fragments(arena: Arena, a: np.ndarray, b: np.ndarray, frag: int) -> np.ndarray:
    """The same product as a K loop of small products, one record per fragment and step."""
    out = np.zeros((len(a), len(b)), np.int32)
    for i in range(0, len(a), frag):
        for j in range(0, len(b), frag):
            acc = np.zeros((1, frag, frag), np.int32)
            for q in range(0, a.shape[1], frag):
                acc = arena.dot(a[None, i : i + frag, q : q + frag], b[None, j : j + frag, q : q + frag], acc)
            out[i : i + frag, j : j + frag] = acc[0]
    return out


@pytest.mark.parametrize("mode", list(Mode))
def test_fragments_and_scalar_sums_are_the_whole_product(mode: Mode) -> None:
    arena = Arena()
    a, b = _product(arena, 8, 12, 16)
    whole = arena.dot(a[None], b[None], np.zeros((1, 8, 12), np.int32))[0]
    parts = _by_fragments(arena, a, b, 4)
    scalar = ZERO
    for x, y in zip(a[3], b[5]):
        scalar = arena.fma(int(x), int(y), scalar)
    outputs = np.concatenate((whole.ravel(), parts.ravel(), [scalar]))
    prints = Fingerprints(arena, outputs, order=plan(arena, outputs, mode))
    assert (prints.of(whole.ravel()) == prints.of(parts.ravel())).all()
    assert (prints.of(np.array([scalar])) == prints.of(whole[3, 5:6])).all()
    assert (prints.of(np.array([scalar])) != prints.of(whole[3, 6:7])).all()


def test_a_partial_sum_that_is_an_output_keeps_its_value() -> None:
    """A K loop whose intermediate accumulator is used elsewhere is not fused away."""
    arena = Arena()
    a, b = _product(arena, 4, 4, 8)
    first = arena.dot(a[None, :, :4], b[None, :, :4], np.zeros((1, 4, 4), np.int32))
    second = arena.dot(a[None, :, 4:], b[None, :, 4:], first)
    outputs = np.concatenate((first.ravel(), second.ravel()))
    separate = arena.dot(a[None, :, :4], b[None, :, :4], np.zeros((1, 4, 4), np.int32))
    found = fingerprint(arena, np.concatenate((outputs, separate.ravel())))
    assert (found[:16] == found[32:]).all()
    assert (found[:16] != found[16:32]).any(axis=1).all()


def test_n_ary_records_equal_trees() -> None:
    arena, x = arena_of()
    for op, pairwise in ((Op.NSUM, arena.add), (Op.NMAX, arena.maximum), (Op.NMIN, arena.minimum)):
        wide = arena.nary(op, np.array([[*x, x[0]] if op is not Op.NSUM else x], np.int32))
        tree = x[0]
        for ident in x[1:]:
            tree = pairwise(tree, ident)
        left_out = arena.nary(op, np.array([x[:-1]], np.int32))
        values = fingerprint(arena, np.array([int(wide[0]), tree, int(left_out[0])]))
        assert (values[0] == values[1]).all(), op
        assert (values[0] != values[2]).all(), op


def test_all_orders_agree_on_a_deep_mixture() -> None:
    arena, x = arena_of()
    node, other = x[0], x[1]
    for step in range(200):
        node = arena.fma(node, x[step % 8], other)
        if step % 20 == 0:
            other = arena.exp(arena.maximum(node, other))
    outputs = np.array([node, other])
    first, *others = (Fingerprints(arena, outputs, order=plan(arena, outputs, mode)).of(outputs) for mode in Mode)
    assert all((first == other).all() for other in others)


@pytest.mark.parametrize("wanted", ["last", "both", "inner columns", "beside"])
def test_all_orders_agree_on_products_that_accumulate(wanted: str) -> None:
    """A K loop of products whose accumulators are an output too, are used between, or feed two sums."""
    arena = Arena()
    a, b = _product(arena, 4, 4, 16)
    zero = np.zeros((1, 4, 4), np.int32)
    total, kept = zero, []
    for k in range(0, 16, 4):
        total = arena.dot(a[None, :, k : k + 4], b[None, :, k : k + 4], total)
        kept.append(total)
        if wanted == "beside":
            total = np.asarray(arena.dot(a[None, :, :4], b[None, :, :4], total)) if k == 4 else total
    used = np.asarray(arena.exp(kept[1][0]))
    other = arena.dot(a[None, :, 4:8], b[None, :, :4], kept[0])
    outputs = {
        "last": total.ravel(),
        "both": np.concatenate((total.ravel(), kept[0].ravel(), other.ravel())),
        "inner columns": np.concatenate((kept[2][0, :, 1], total[0, 2], used[:, 3])),
        "beside": np.concatenate((total.ravel(), other.ravel()[:3])),
    }[wanted]
    first, *others = (Fingerprints(arena, outputs, order=plan(arena, outputs, mode)).of(outputs) for mode in Mode)
    assert all((first == other).all() for other in others)


def test_emissions_of_one_operator_that_depend_on_each_other_are_not_one_batch() -> None:
    arena, x = arena_of()
    column = np.array(x, np.int32)
    total = column
    for _ in range(5):
        total = np.asarray(arena.add(total, column))
    apart = np.asarray(arena.add(column[::-1].copy(), column))
    outputs = np.concatenate((total, apart))
    first, *others = (Fingerprints(arena, outputs, order=plan(arena, outputs, mode)).of(outputs) for mode in Mode)
    assert all((first == other).all() for other in others)
    six = np.asarray(arena.mul(column, arena.rational(6)))
    assert (fingerprint(arena, six) == first[:8]).all()


def test_only_what_is_below_the_outputs_can_be_asked() -> None:
    arena, x = arena_of()
    used, unused = arena.add(x[0], x[1]), arena.add(x[2], x[3])
    prints = Fingerprints(arena, np.array([used]))
    with pytest.raises(KeyError):
        prints.of(np.array([unused]))


def test_softmax_in_any_blocking_and_its_missing_rescale() -> None:
    arena, x = arena_of()

    def online(block: int, rescale: bool = True) -> int:
        peak = total = None
        for start in range(0, 8, block):
            part = x[start : start + block]
            top = part[0]
            for ident in part[1:]:
                top = arena.maximum(top, ident)
            new = top if peak is None else arena.maximum(peak, top)
            add = ZERO
            for ident in part:
                add = arena.add(add, arena.exp(arena.sub(ident, new)))
            if total is not None and peak is not None:
                total = arena.mul(total, arena.exp(arena.sub(peak, new))) if rescale else total
                add = arena.add(total, add)
            peak, total = new, add
        assert peak is not None and total is not None
        return arena.div(arena.exp(arena.sub(x[2], peak)), total)

    naive = ZERO
    for ident in x:
        naive = arena.add(naive, arena.exp(ident))
    ids = [arena.div(arena.exp(x[2]), naive), online(8), online(4), online(1), online(2, rescale=False)]
    values = fingerprint(arena, np.array(ids))
    assert (values[:4] == values[0]).all()
    assert (values[4] != values[0]).all()


def test_sets_of_maxima_and_minima_lie_in_a_table_of_their_own() -> None:
    """Nested maxima and minima between other operators: as many rows as there are of them, and each finds its own."""
    arena = Arena()
    x = arena.add_input("x", 8, "f32")
    a, b, c, d = (int(x.ids(i)) for i in range(4))
    inner = int(arena.maximum(int(arena.exp(a)), b))
    lower = int(arena.minimum(int(arena.add(inner, c)), d))
    first = int(arena.maximum(int(arena.maximum(inner, lower)), int(arena.mul(c, d))))
    second = int(arena.maximum(int(arena.mul(d, c)), int(arena.maximum(lower, int(arena.maximum(b, int(arena.exp(a))))))))
    other = int(arena.maximum(int(arena.mul(d, c)), int(arena.maximum(lower, int(arena.minimum(b, int(arena.exp(a))))))))
    prints = Fingerprints(arena, np.array([first, second, other], np.int32))
    values = prints.of(np.array([first, second, other]))
    assert (values[0] == values[1]).all()
    assert (values[0] != values[2]).any()
    extremes = sum(int(op) in (Op.MAX, Op.MIN) for op in prints.plan.codes)
    assert int(prints.plan.extremes[-1]) == extremes == len(prints._levels[0].sets)
