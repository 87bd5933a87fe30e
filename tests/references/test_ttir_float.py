"""Float operations as terms against NumPy, special constants, comparisons with NaN, bit casts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from reference_cases import load, module, out, run, run_elementwise, store, tensor

from ptx_engine.errors import UnsupportedError
from ptx_engine.terms.arena import NAN
from ptx_engine.terms.constants import Const
from ptx_engine.terms.ops import Op
from volta_pass.references.ttir_extern import libdevice_function

X = np.array([0.5, 1.25, 2.0, 0.125, 3.5, 2.5])
Y = np.array([2.0, -0.5, 0.75, 1.5, 2.0, -1.0])
UNARY = {
    "arith.negf": lambda x: -x, "math.absf": np.abs, "math.exp": np.exp, "math.exp2": np.exp2, "math.expm1": np.expm1,
    "math.log": np.log, "math.log2": np.log2, "math.log10": np.log10, "math.log1p": np.log1p, "math.sqrt": np.sqrt,
    "math.rsqrt": lambda x: 1 / np.sqrt(x), "math.sin": np.sin, "math.cos": np.cos, "math.tan": np.tan, "math.tanh": np.tanh,
    "math.erf": np.vectorize(math.erf), "math.floor": np.floor, "math.ceil": np.ceil, "math.trunc": np.trunc,
    "math.roundeven": np.rint, "math.round": lambda x: np.trunc(x + np.copysign(0.5, x)), "tt.precise_sqrt": np.sqrt,
    "arith.truncf": lambda x: x,
}  # fmt: skip
BINARY = {
    "arith.addf": np.add, "arith.subf": np.subtract, "arith.mulf": np.multiply, "arith.divf": np.divide, "arith.remf": np.fmod,
    "arith.maxnumf": np.maximum, "arith.minnumf": np.minimum, "arith.maximumf": np.maximum, "arith.minimumf": np.minimum,
    "tt.precise_divf": np.divide, "math.powf": np.power, "math.copysign": np.copysign,
}  # fmt: skip


@pytest.mark.parametrize("op", sorted(UNARY))
def test_unary(op):
    after = "f16" if op == "arith.truncf" else "f32"
    result = run_elementwise(op, ["f32"], after, [X])
    np.testing.assert_allclose(result.numbers["o"], UNARY[op](X), rtol=1e-12)


@pytest.mark.parametrize("op", ["math.floor", "math.ceil", "math.trunc", "math.round", "math.roundeven"])
def test_rounding_of_halves_and_negatives(op):
    x = np.array([-2.5, -1.5, -0.5, -0.25, 0.5, 1.5, 2.5])
    np.testing.assert_allclose(run_elementwise(op, ["f32"], "f32", [x]).numbers["o"], UNARY[op](x))


@pytest.mark.parametrize("op", sorted(BINARY))
def test_binary(op):
    result = run_elementwise(op, ["f32", "f32"], "f32", [X, Y])
    np.testing.assert_allclose(result.numbers["o"], BINARY[op](X, Y), rtol=1e-12)


def test_fma_and_clamp():
    z = np.array([0.0, 1, 2, 3, 4, 5])
    np.testing.assert_allclose(run_elementwise("math.fma", ["f32"] * 3, "f32", [X, Y, z]).numbers["o"], X * Y + z)
    clamped = run_elementwise("tt.clampf", ["f32"] * 3, "f32", [Y, -X / 4, X / 4], attributes="propagateNan = 0 : i32")
    np.testing.assert_allclose(clamped.numbers["o"], np.clip(Y, -X / 4, X / 4))


@pytest.mark.parametrize(("kind", "dtype", "top"), [("f8E4M3FN", "e4m3", 448), ("f8E5M2", "e5m2", 57344)])
def test_conversion_to_eight_bits_saturates_and_back_is_the_identity(kind, dtype, top):
    from reference_cases import elementwise, memory_kind

    assert memory_kind(kind) == kind
    x = np.array([1.5, -1e6, 1e6, 100])
    text = elementwise("tt.fp_to_fp", ["f32"], kind, 4, "rounding = 1 : i32")
    result = run(text, [tensor("x0", "f32", (4,)), out("o", dtype, (4,))], {"x0": x})
    np.testing.assert_allclose(result.numbers["o"], np.clip(x, -top, top))
    back = run(elementwise("tt.fp_to_fp", [kind], "f32", 4), [tensor("x0", dtype, (4,)), out("o", "f32", (4,))], {"x0": x})
    np.testing.assert_allclose(back.numbers["o"], x)


#: predicates false, oeq, ogt, oge, olt, ole, one, ord, ueq, ugt, uge, ult, ule, une, uno, true on real numbers
CMPF = [
    lambda a, b: np.zeros_like(a, bool), np.equal, np.greater, np.greater_equal, np.less, np.less_equal, np.not_equal,
    lambda a, b: np.ones_like(a, bool), np.equal, np.greater, np.greater_equal, np.less, np.less_equal, np.not_equal,
    lambda a, b: np.zeros_like(a, bool), lambda a, b: np.ones_like(a, bool),
]  # fmt: skip


@pytest.mark.parametrize("predicate", range(16))
def test_cmpf(predicate):
    result = run_elementwise("arith.cmpf", ["f32", "f32"], "i1", [X, np.where(X > 2, X, Y)], attributes=f"predicate = {predicate} : i64")
    np.testing.assert_array_equal(result.numbers["o"], CMPF[predicate](X, np.where(X > 2, X, Y)))


@pytest.mark.parametrize("predicate", range(16))
def test_cmpf_with_nan(predicate):
    """IEEE 754: a comparison with NaN is false when ordered and true when unordered."""
    body = load("%x", "f32", 4, "%v") + (
        f"""
    %nan = "arith.constant"() <{{value = dense<0x7FC00000> : tensor<4xf32>}}> : () -> tensor<4xf32>
    %w = "arith.cmpf"(%v, %nan) <{{predicate = {predicate} : i64}}> : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
    %e = "arith.extui"(%w) : (tensor<4xi1>) -> tensor<4xi8>"""
    )
    text = module("%x: !tt.ptr<f32>, %o: !tt.ptr<i8>", body + store("%o", "i8", 4, "%e"))
    result = run(text, [tensor("x", "f32", (4,)), out("o", "s8", (4,))], {"x": np.ones(4)})
    assert set(result.numbers["o"]) == {1.0 if predicate >= 8 else 0.0}


def test_a_number_equals_itself():
    body = load("%x", "f32", 4, "%v") + (
        """
    %w = "arith.cmpf"(%v, %v) <{predicate = 13 : i64}> : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
    %e = "arith.extui"(%w) : (tensor<4xi1>) -> tensor<4xi8>"""
    )
    text = module("%x: !tt.ptr<f32>, %o: !tt.ptr<i8>", body + store("%o", "i8", 4, "%e"))
    result = run(text, [tensor("x", "f32", (4,)), out("o", "s8", (4,))], {"x": np.ones(4)})
    assert set(result.footprints["o"].ids) == {0}


@pytest.mark.parametrize(("op", "nan_wins"), [("arith.maximumf", True), ("arith.maxnumf", False)])
def test_maximum_of_nan(op, nan_wins):
    body = load("%x", "f32", 4, "%v") + (
        f"""
    %nan = "arith.constant"() <{{value = dense<0x7FC00000> : tensor<4xf32>}}> : () -> tensor<4xf32>
    %w = "{op}"(%v, %nan) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>"""
    )
    text = module("%x: !tt.ptr<f32>, %o: !tt.ptr<f32>", body + store("%o", "f32", 4, "%w"))
    result = run(text, [tensor("x", "f32", (4,)), out("o", "f32", (4,))], {"x": np.ones(4)})
    assert (result.footprints["o"].ids == NAN).all() == nan_wins


CONSTANTS = [
    ("1.44269502 : f32", "f32", Const(1, log2e=1)),
    ("0.0999755859 : f16", "f16", Const(__import__("gmpy2").mpq(1638, 16384))),
    ("0xFF800000 : f32", "f32", None),
    ("1.000000e-01 : f64", "f64", Const(__import__("gmpy2").mpq(*(0.1).as_integer_ratio()))),
    ("-2.500000e-01 : bf16", "bf16", Const(__import__("gmpy2").mpq(-1, 4))),
]


@pytest.mark.parametrize(("text", "kind", "expected"), CONSTANTS)
def test_constants_have_the_exact_value_of_their_bits(text, kind, expected):
    body = f"""
    %c = "arith.constant"() <{{value = {text}}}> : () -> {kind}
    %w = "tt.splat"(%c) : ({kind}) -> tensor<4x{kind}>""" + store("%o", kind, 4, "%w")
    result = run(module(f"%o: !tt.ptr<{kind}>", body), [out("o", kind, (4,))], {})
    const = result.arena.consts[int(result.footprints["o"].ids[0])]
    assert str(const) == "-inf" if expected is None else const == expected


def test_dense_constant_with_different_elements():
    body = """
    %w = "arith.constant"() <{value = dense<[1.5, -2.0, 0x7F800000, 0.25]> : tensor<4xf32>}> : () -> tensor<4xf32>""" + store(
        "%o", "f32", 4, "%w"
    )
    result = run(module("%o: !tt.ptr<f32>", body), [out("o", "f32", (4,))], {})
    np.testing.assert_array_equal(result.numbers["o"], [1.5, -2, np.inf, 0.25])


@pytest.mark.parametrize(("op", "low"), [("arith.fptosi", -(2**31)), ("arith.fptoui", 0)])
def test_float_to_integer(op, low):
    x = np.array([1.75, 2.25, 100.5, -3e9])
    result = run_elementwise(op, ["f32"], "i32", [x])
    held = np.maximum(np.trunc(x), low).astype(np.int64)  # what does not fit is clamped, as the target does it
    np.testing.assert_array_equal(result.numbers["o"], held.astype(np.uint32).astype(np.int32))


def test_a_narrow_integer_is_cut_from_sixteen_bits():
    result = run_elementwise("arith.fptosi", ["f32"], "i8", [np.array([127.5, 129.0, -130.5, 1e6])])
    np.testing.assert_array_equal(result.numbers["o"], [127, -127, 126, -1])


def test_bitcast_round_trip_is_the_identity_and_sign_tricks_are_arithmetic():
    kinds = "(tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>"
    body = load("%x", "f32", 4, "%v") + (
        f"""
    %i = "tt.bitcast"(%v) : (tensor<4xf32>) -> tensor<4xi32>
    %sign = "arith.constant"() <{{value = dense<-2147483648> : tensor<4xi32>}}> : () -> tensor<4xi32>
    %rest = "arith.constant"() <{{value = dense<2147483647> : tensor<4xi32>}}> : () -> tensor<4xi32>
    %flip = "arith.xori"(%i, %sign) : {kinds}
    %abs = "arith.andi"(%i, %rest) : {kinds}
    %a = "tt.bitcast"(%i) : (tensor<4xi32>) -> tensor<4xf32>
    %b = "tt.bitcast"(%flip) : (tensor<4xi32>) -> tensor<4xf32>
    %c = "arith.bitcast"(%abs) : (tensor<4xi32>) -> tensor<4xf32>"""
    )
    body += store("%o", "f32", 4, "%a") + store("%p", "f32", 4, "%b") + store("%q", "f32", 4, "%c")
    text = module("%x: !tt.ptr<f32>, %o: !tt.ptr<f32>, %p: !tt.ptr<f32>, %q: !tt.ptr<f32>", body)
    x = np.array([1.5, -2, 3, -0.25])
    result = run(text, [tensor("x", "f32", (4,)), *(out(n, "f32", (4,)) for n in "opq")], {"x": x})
    assert (result.footprints["o"].ids < 0).all()
    np.testing.assert_array_equal(result.numbers["p"], -x)
    np.testing.assert_array_equal(result.numbers["q"], np.abs(x))


def test_other_arithmetic_on_float_bits_is_opaque():
    body = load("%x", "f32", 4, "%v") + (
        """
    %i = "tt.bitcast"(%v) : (tensor<4xf32>) -> tensor<4xi32>
    %one = "arith.constant"() <{value = dense<1> : tensor<4xi32>}> : () -> tensor<4xi32>
    %j = "arith.addi"(%i, %one) : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
    %a = "tt.bitcast"(%j) : (tensor<4xi32>) -> tensor<4xf32>"""
    )
    text = module("%x: !tt.ptr<f32>, %o: !tt.ptr<f32>", body + store("%o", "f32", 4, "%a"))
    result = run(text, [tensor("x", "f32", (4,)), out("o", "f32", (4,))], {"x": np.ones(4)})
    assert result.arena.node(int(result.footprints["o"].ids[0]))[0] is Op.OPAQUE


EXTERN = 'libname = "", libpath = "", pure = true, symbol = "{}"'


def test_libdevice_functions_are_operators():
    result = run_elementwise("tt.extern_elementwise", ["f32"], "f32", [X], attributes=EXTERN.format("__nv_tanhf"))
    np.testing.assert_allclose(result.numbers["o"], np.tanh(X))
    assert libdevice_function("__nv_erf") == "erf" and libdevice_function("__nv_fmaf_rn") is None
    assert libdevice_function("__nv_fdiv_rn") == "div" and libdevice_function("__nv_dsqrt_rz") == "sqrt"


def test_an_unknown_extern_function_is_named():
    with pytest.raises(UnsupportedError, match="extern function __nv_j0f is not known"):
        run_elementwise("tt.extern_elementwise", ["f32"], "f32", [X], attributes=EXTERN.format("__nv_j0f"))
