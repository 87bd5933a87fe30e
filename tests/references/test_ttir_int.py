"""Integer operations: concrete columns bit-exactly, and symbolic ones as terms, against Python integers modulo 2**width."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_cases import run_elementwise

from ptx_engine.errors import NotStructuredError, UnsupportedError

DT = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}


def wrap(x, width):
    x &= (1 << width) - 1
    return x - (1 << width) if x >> (width - 1) else x


def u(x, width):
    return x & ((1 << width) - 1)


def tdiv(a, b):
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


#: op -> Python meaning (None where MLIR leaves the result undefined)
BINARY = {
    "arith.addi": lambda a, b, w: a + b,
    "arith.subi": lambda a, b, w: a - b,
    "arith.muli": lambda a, b, w: a * b,
    "arith.divsi": lambda a, b, w: tdiv(a, b) if b else None,
    "arith.remsi": lambda a, b, w: a - tdiv(a, b) * b if b else None,
    "arith.divui": lambda a, b, w: u(a, w) // u(b, w) if b else None,
    "arith.remui": lambda a, b, w: u(a, w) % u(b, w) if b else None,
    "arith.floordivsi": lambda a, b, w: a // b if b else None,
    "arith.ceildivsi": lambda a, b, w: -(-a // b) if b else None,
    "arith.ceildivui": lambda a, b, w: -(-u(a, w) // u(b, w)) if b else None,
    "arith.andi": lambda a, b, w: a & b,
    "arith.ori": lambda a, b, w: a | b,
    "arith.xori": lambda a, b, w: a ^ b,
    "arith.shli": lambda a, b, w: a << b if 0 <= b < w else None,
    "arith.shrsi": lambda a, b, w: a >> b if 0 <= b < w else None,
    "arith.shrui": lambda a, b, w: u(a, w) >> b if 0 <= b < w else None,
    "arith.maxsi": lambda a, b, w: max(a, b),
    "arith.minsi": lambda a, b, w: min(a, b),
    "arith.maxui": lambda a, b, w: max(u(a, w), u(b, w)),
    "arith.minui": lambda a, b, w: min(u(a, w), u(b, w)),
    "tt.mulhiui": lambda a, b, w: u(a, w) * u(b, w) >> w,
}
EDGES = [0, 1, -1, 2, 3, 7, -7, 31, 100]


def pairs(width):
    edges = [*EDGES, (1 << width - 1) - 1, -(1 << width - 1)]
    grid = [(a, b) for a in edges for b in edges]
    return np.array([wrap(a, width) for a, _ in grid], DT[width]), np.array([wrap(b, width) for _, b in grid], DT[width])


@pytest.mark.parametrize("width", [8, 32, 64])
@pytest.mark.parametrize("op", sorted(BINARY))
def test_concrete(op, width):
    a, b = pairs(width)
    expected = [BINARY[op](int(x), int(y), width) for x, y in zip(a, b)]
    result = run_elementwise(op, [f"i{width}"] * 2, f"i{width}", [a, b], concrete=True)
    defined = np.array([e is not None and not (op == "arith.divsi" and e > 2 ** (width - 1) - 1) for e in expected])
    got = [int(c.coef) for c in (result.arena.consts[i] for i in _const_index(result))]
    wanted = [wrap(e, width) if e is not None else 0 for e in expected]
    assert [g for g, d in zip(got, defined) if d] == [e for e, d in zip(wanted, defined) if d]


def _const_index(result):
    return [result.arena.node(int(i))[1] for i in result.footprints["o"].ids]


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(sorted(BINARY)),
    st.lists(st.tuples(st.integers(-128, 127), st.integers(-128, 127)), min_size=1, max_size=8),
)
def test_symbolic_equals_python(op, values):
    a, b = (np.array(column, np.int8) for column in zip(*values))
    expected = [BINARY[op](int(x), int(y), 8) for x, y in zip(a, b)]
    result = run_elementwise(op, ["i8", "i8"], "i8", [a, b], concrete=False)
    for got, want in zip(result.numbers["o"], expected):
        if want is not None:
            assert got == wrap(want, 8)


@pytest.mark.parametrize("shift", [1, 3, 7])
@pytest.mark.parametrize("op", ["arith.shli", "arith.shrsi", "arith.shrui", "arith.andi", "arith.ori", "arith.xori"])
def test_symbolic_with_a_constant(op, shift):
    """Fields, scalings and disjoint sums: the constant side is concrete, the other symbolic."""
    from reference_cases import elementwise as text
    from reference_cases import out, run, tensor

    a = np.arange(-128, 128, dtype=np.int8)
    number = shift if "sh" in op else (1 << shift) - 1
    b = np.full(256, number, np.int8)
    args = [tensor("x0", "s8", (256,)), tensor("x1", "s8", (256,), contents=b), out("o", "s8", (256,))]
    result = run(text(op, ["i8", "i8"], "i8", 256), args, {"x0": a})
    np.testing.assert_array_equal(result.numbers["o"], [wrap(BINARY[op](int(x), number, 8), 8) for x in a])


PREDICATES = [
    lambda a, b: a == b, lambda a, b: a != b, lambda a, b: a < b, lambda a, b: a <= b, lambda a, b: a > b, lambda a, b: a >= b,
]  # fmt: skip


@pytest.mark.parametrize("concrete", [True, False])
@pytest.mark.parametrize("predicate", range(10))
def test_cmpi(predicate, concrete):
    a, b = pairs(8)
    result = run_elementwise("arith.cmpi", ["i8", "i8"], "i1", [a, b], concrete, f"predicate = {predicate} : i64")
    left, right = (a, b) if predicate < 6 else (a.view(np.uint8), b.view(np.uint8))
    test = PREDICATES[predicate if predicate < 6 else predicate - 4]
    np.testing.assert_array_equal(result.numbers["o"], test(left, right).astype(float))


@pytest.mark.parametrize("concrete", [True, False])
@pytest.mark.parametrize(
    ("op", "before", "after", "expected"),
    [
        ("arith.extsi", "i8", "i32", lambda a: a.astype(np.int32)),
        ("arith.extui", "i8", "i32", lambda a: a.view(np.uint8).astype(np.int32)),
        ("arith.trunci", "i32", "i8", lambda a: a.astype(np.int8)),
        ("arith.sitofp", "i8", "f32", lambda a: a.astype(float)),
        ("arith.uitofp", "i8", "f32", lambda a: a.view(np.uint8).astype(float)),
    ],
)
def test_conversions(op, before, after, expected, concrete):
    a = pairs(int(before[1:]))[0]
    result = run_elementwise(op, [before], after, [a], concrete)
    np.testing.assert_array_equal(result.numbers["o"], expected(a))


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("math.absi", lambda x: wrap(abs(x), 32)),
        ("math.ctlz", lambda x: 32 - u(x, 32).bit_length()),
        ("math.cttz", lambda x: (u(x, 32) & -u(x, 32)).bit_length() - 1 if x else 32),
        ("math.ctpop", lambda x: u(x, 32).bit_count()),
    ],
)
def test_unary_concrete(op, expected):
    a = np.array([0, 1, -1, 6, 1 << 20, -(1 << 31), 2**31 - 1], np.int32)
    result = run_elementwise(op, ["i32"], "i32", [a], concrete=True)
    np.testing.assert_array_equal(result.numbers["o"], [expected(int(x)) for x in a])


def test_leading_zeros_of_symbolic_data_is_refused():
    with pytest.raises(UnsupportedError, match=r"math\.ctlz: of a symbolic integer"):
        run_elementwise("math.ctlz", ["i32"], "i32", [np.arange(4, dtype=np.int32)], concrete=False)


def test_int4_unpacking_is_fields():
    """Low and high nibbles of a packed byte, as dequantisation writes it: fields of one word, no shift of a wrap."""
    from reference_cases import load, module, out, run, store, tensor

    body = (
        load("%x", "i8", 16, "%v")
        + """
    %four = "arith.constant"() <{value = dense<4> : tensor<16xi8>}> : () -> tensor<16xi8>
    %mask = "arith.constant"() <{value = dense<15> : tensor<16xi8>}> : () -> tensor<16xi8>
    %h0 = "arith.shrsi"(%v, %four) : (tensor<16xi8>, tensor<16xi8>) -> tensor<16xi8>
    %h = "arith.andi"(%h0, %mask) : (tensor<16xi8>, tensor<16xi8>) -> tensor<16xi8>
    %f = "arith.sitofp"(%h) : (tensor<16xi8>) -> tensor<16xf32>"""
        + store("%o", "f32", 16, "%f")
    )
    x = np.arange(-8, 8, dtype=np.int8) * 16 + 5
    result = run(module("%x: !tt.ptr<i8>, %o: !tt.ptr<f32>", body), [tensor("x", "s8", (16,)), out("o", "f32", (16,))], {"x": x})
    np.testing.assert_array_equal(result.numbers["o"], x.view(np.uint8) >> 4)
    assert {result.arena.node(int(i))[0].name for i in result.footprints["o"].ids} == {"FIELD"}


def test_a_symbolic_integer_as_an_address_names_the_argument():
    from reference_cases import load, module, out, run, tensor

    body = load("%i", "i32", 4, "%v") + (
        """
    %s = "tt.splat"(%o) : (!tt.ptr<f32>) -> tensor<4x!tt.ptr<f32>>
    %p = "tt.addptr"(%s, %v) : (tensor<4x!tt.ptr<f32>>, tensor<4xi32>) -> tensor<4x!tt.ptr<f32>> loc("k.py":12:3)"""
    )
    text = module("%i: !tt.ptr<i32>, %o: !tt.ptr<f32>", body)
    with pytest.raises(NotStructuredError, match=r"an address depends on symbolic data \(i\[0\]\)") as caught:
        run(text, [tensor("i", "s32", (4,)), out("o", "f32", (4,))], {"i": np.zeros(4)})
    assert caught.value.user_loc == "k.py:12:3"
    run(text, [tensor("i", "s32", (4,), contents=np.arange(4)), out("o", "f32", (4,))], {})
