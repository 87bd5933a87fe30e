"""Details that have gone wrong elsewhere: boolean constants, select, undefined values, aliases, dtypes, memory formats."""

from __future__ import annotations

import numpy as np
import pytest
from reference_cases import elementwise, load, module, out, pointers, run, store, tensor

from ptx_engine.errors import LaunchError, UnsupportedError
from ptx_engine.launch import Launch, NullArg, Role, ScalarArg, TensorArg, bind
from ptx_engine.terms.arena import UNDEF, Arena
from volta_pass.references.ttir import evaluate, load_ttir
from volta_pass.references.ttir_registry import refused_operations, supported_operations

BOOLEANS = [("true", [1, 1]), ("dense<true> : tensor<2xi1>", [1, 1]), ("dense<[true, false]> : tensor<2xi1>", [1, 0])]


@pytest.mark.parametrize(("text", "expected"), BOOLEANS)
def test_boolean_constants(text, expected):
    kind = "tensor<2xi1>" if "dense" in text else "i1"
    body = f'    %c = "arith.constant"() <{{value = {text}}}> : () -> {kind}'
    if kind == "i1":
        body += '\n    %t = "tt.splat"(%c) : (i1) -> tensor<2xi1>'
    body += f'\n    %e = "arith.extui"({"%t" if kind == "i1" else "%c"}) : (tensor<2xi1>) -> tensor<2xi32>'
    result = run(module("%o: !tt.ptr<i32>", body + store("%o", "i32", 2, "%e")), [out("o", "s32", (2,))], {})
    np.testing.assert_array_equal(result.numbers["o"], expected)


@pytest.mark.parametrize("concrete", [True, False])
def test_select_with_a_scalar_condition_and_mixed_sides(concrete):
    """One side symbolic, the other concrete integers; then both concrete under a symbolic condition."""
    body = load("%x", "i32", 4, "%v") + (
        """
    %three = "arith.constant"() <{value = dense<3> : tensor<4xi32>}> : () -> tensor<4xi32>
    %one = "arith.constant"() <{value = dense<1> : tensor<4xi32>}> : () -> tensor<4xi32>
    %yes = "arith.constant"() <{value = true}> : () -> i1
    %a = "arith.select"(%yes, %v, %three) : (i1, tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
    %big = "arith.cmpi"(%v, %three) <{predicate = 4 : i64}> : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
    %b = "arith.select"(%big, %three, %one) : (tensor<4xi1>, tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
    %c = "arith.addi"(%a, %b) : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>"""
    )
    x = np.array([1, 3, 4, -9], np.int32)
    given = tensor("x", "s32", (4,), contents=x if concrete else "symbolic")
    text = module("%x: !tt.ptr<i32>, %o: !tt.ptr<i32>", body + store("%o", "i32", 4, "%c"))
    result = run(text, [given, out("o", "s32", (4,))], {"x": x})
    np.testing.assert_array_equal(result.numbers["o"], x + np.where(x > 3, 3, 1))


def test_poison_is_undefined():
    body = '    %p = "ub.poison"() <{value = #ub.poison}> : () -> tensor<4xf32>'
    result = run(module("%o: !tt.ptr<f32>", body + store("%o", "f32", 4, "%p")), [out("o", "f32", (4,))], {})
    assert (result.footprints["o"].ids == UNDEF).all()


def test_reading_an_output_that_was_never_written_is_undefined():
    text = elementwise("arith.negf", ["f32"], "f32", 4)
    result = run(text, [out("x0", "f32", (4,)), out("o", "f32", (4,))], {})
    assert (result.footprints["o"].ids == UNDEF).all()


@pytest.mark.parametrize(("dtype", "expected"), [("s8", [-1, 1]), ("u8", [255, 1])])
def test_integers_are_kept_as_the_tensors_dtype_says(dtype, expected):
    body = '    %c = "arith.constant"() <{value = dense<[-1, 1]> : tensor<2xi8>}> : () -> tensor<2xi8>'
    result = run(module("%o: !tt.ptr<i8>", body + store("%o", "i8", 2, "%c")), [out("o", dtype, (2,))], {})
    np.testing.assert_array_equal(result.numbers["o"], expected)


@pytest.mark.parametrize("dtype", ["s8", "u8"])
def test_loads_of_signed_and_unsigned_bytes_widen_alike(dtype):
    """The bits decide, not the dtype: extsi of byte 255 is -1."""
    x = np.array([255, 1, 128, 127], np.uint8)
    text = elementwise("arith.extsi", ["i8"], "i32", 4)
    numbers = x.view(np.int8) if dtype == "s8" else x
    for contents in (numbers, "symbolic"):
        result = run(text, [tensor("x0", dtype, (4,), contents=contents), out("o", "s32", (4,))], {"x0": numbers})
        np.testing.assert_array_equal(result.numbers["o"], x.view(np.int8))


def test_floats_copied_through_an_integer_pointer_stay_themselves():
    text = elementwise("arith.ori", ["i32", "i32"], "i32", 4)
    args = [tensor("x0", "f32", (4,)), tensor("x1", "s32", (4,), contents=np.zeros(4, np.int32)), out("o", "f32", (4,))]
    result = run(text, args, {"x0": np.ones(4)})
    assert (result.footprints["o"].ids < 0).all()


def test_concrete_bits_written_to_a_float_tensor_are_its_numbers():
    body = '    %c = "arith.constant"() <{value = dense<1065353216> : tensor<2xi32>}> : () -> tensor<2xi32>'
    result = run(module("%o: !tt.ptr<i32>", body + store("%o", "i32", 2, "%c")), [out("o", "f32", (2,))], {})
    np.testing.assert_array_equal(result.numbers["o"], [1.0, 1.0])


def test_an_element_width_that_does_not_fit_is_refused():
    text = elementwise("arith.negf", ["f16"], "f16", 4)
    with pytest.raises(UnsupportedError, match="16-bit elements from x0, whose elements are f32"):
        run(text, [tensor("x0", "f32", (4,)), out("o", "f16", (4,))], {"x0": np.ones(4)})


def test_misaligned_access():
    body = """
    %c = "arith.constant"() <{value = 2 : i64}> : () -> i64
    %i = "tt.ptr_to_int"(%o) : (!tt.ptr<f32>) -> i64
    %j = "arith.addi"(%i, %c) : (i64, i64) -> i64
    %p = "tt.int_to_ptr"(%j) : (i64) -> !tt.ptr<f32>
    %v = "arith.constant"() <{value = 1.0 : f32}> : () -> f32
    "tt.store"(%p, %v) : (!tt.ptr<f32>, f32) -> ()"""
    result = run(module("%o: !tt.ptr<f32>", body), [out("o", "f32", (4,))], {})
    assert [(f.kind, f.tensor, f.address_offset) for f in result.findings] == [("misaligned", "o", 2)]
    assert "o" not in result.footprints or not len(result.footprints["o"].index)


def test_fixed_float_contents_and_alias():
    text = elementwise("arith.addf", ["f32", "f32"], "f32", 2)
    args = [
        tensor("x0", "f32", (2,), contents=np.array([0.5, 2.0])),
        TensorArg("x1", "f32", (2,), Role.INOUT),
        TensorArg("o", "f32", (2,), Role.INOUT, alias="x1"),
    ]
    result = run(text, args, {"x1": np.array([1.0, 3.0])})
    np.testing.assert_array_equal(result.numbers["x1"], [1.5, 5.0])


def test_null_arguments_are_skipped_and_names_choose():
    program = load_ttir(elementwise("arith.negf", ["f32"], "f32", 2))
    args = (out("o", "f32", (2,)), tensor("x", "f32", (2,)), NullArg())
    bound = bind(Launch((1, 1, 1), (1, 1, 1), args), Arena())
    assert list(evaluate(program, bound, args=["x", "o"])) == ["o"]
    with pytest.raises(LaunchError, match="no launch argument is named y"):
        evaluate(program, bound, args=["y", "o"])


def test_scalar_for_a_pointer_is_a_launch_error():
    program = load_ttir(elementwise("arith.negf", ["f32"], "f32", 2))
    bound = bind(Launch((1, 1, 1), (1, 1, 1), (ScalarArg("x", "f32", 1.0), out("o", "f32", (2,)))), Arena())
    with pytest.raises(LaunchError, match="argument x is a scalar, the kernel takes a pointer"):
        evaluate(program, bound)


def test_same_values_by_different_lanes_are_a_note_and_different_ones_an_error():
    """Lanes 0..3 all write element 0: once a value computed alike, once different inputs."""
    for uniform, kinds in ((True, ["same-value write"]), (False, ["write conflict between lanes"])):
        source = "%z" if uniform else "%r"
        body = f"""
    %r = "tt.make_range"() <{{end = 4 : i32, start = 0 : i32}}> : () -> tensor<4xi32>
    %zero = "arith.constant"() <{{value = dense<0> : tensor<4xi32>}}> : () -> tensor<4xi32>
    %z = "arith.muli"(%r, %zero) : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
    %s = "tt.splat"(%x) : (!tt.ptr<f32>) -> tensor<4x!tt.ptr<f32>>
    %p = "tt.addptr"(%s, {source}) : (tensor<4x!tt.ptr<f32>>, tensor<4xi32>) -> tensor<4x!tt.ptr<f32>>
    %v = "tt.load"(%p) <{{operandSegmentSizes = array<i32: 1, 0, 0>}}> : (tensor<4x!tt.ptr<f32>>) -> tensor<4xf32>
    %n = "arith.negf"(%v) : (tensor<4xf32>) -> tensor<4xf32>
    %t = "tt.splat"(%o) : (!tt.ptr<f32>) -> tensor<4x!tt.ptr<f32>>
    %q = "tt.addptr"(%t, %z) : (tensor<4x!tt.ptr<f32>>, tensor<4xi32>) -> tensor<4x!tt.ptr<f32>>
    "tt.store"(%q, %n) : (tensor<4x!tt.ptr<f32>>, tensor<4xf32>) -> ()"""
        text = module("%x: !tt.ptr<f32>, %o: !tt.ptr<f32>", body)
        result = run(text, [tensor("x", "f32", (4,)), out("o", "f32", (1,))], {"x": np.ones(4)})
        assert [f.kind for f in result.findings] == kinds


def test_an_operation_is_supported_or_refused_but_not_both():
    assert not set(supported_operations()) & set(refused_operations())
    assert {"tt.load", "tt.dot", "scf.for", "arith.addf", "math.exp2"} <= set(supported_operations())


def test_recursion_is_refused():
    extra = """
  "tt.func"() <{function_type = () -> (), sym_name = "loop", sym_visibility = "private"}> ({
    "tt.call"() <{callee = @loop}> : () -> ()
    "tt.return"() : () -> ()
  }) : () -> ()"""
    with pytest.raises(UnsupportedError, match="recursive call of loop"):
        load_ttir(module("", '    "tt.call"() <{callee = @loop}> : () -> ()', extra))


@pytest.mark.parametrize(
    ("dtype", "number", "refused"), [("s32", 6, False), ("s32", 8, True), ("u32", 8, False), ("u32", 6, True), ("f32", 6, True)]
)
def test_atomic_extremes_need_a_tensor_of_their_own_kind(dtype, number, refused):
    """Signed max (6) and unsigned max (8) order the same words differently, and float bits by neither."""
    body = (
        load("%x", "i32", 2, "%v")
        + pointers("%o", "i32", 2, "%p")
        + (
            f"""
    %a = "tt.atomic_rmw"(%p, %v) <{{atomic_rmw_op = {number} : i32, scope = 1 : i32, sem = 4 : i32}}>
      : (tensor<2x!tt.ptr<i32>>, tensor<2xi32>) -> tensor<2xi32>"""
        )
    )
    text = module("%x: !tt.ptr<i32>, %o: !tt.ptr<i32>", body)
    args = [tensor("x", dtype, (2,)), tensor("o", dtype, (2,), Role.INOUT)]
    data = {"x": np.array([5, 1]), "o": np.array([2, 7])}
    if refused:
        with pytest.raises(UnsupportedError, match=r"atomic u?max on o"):
            run(text, args, data)
        return
    np.testing.assert_array_equal(run(text, args, data).numbers["o"], [5, 7])


@pytest.mark.parametrize(("returned", "expected"), [("%s", [3.0]), ("%b", [2.0])])
def test_a_reduction_is_what_its_region_returns(returned, expected):
    """A region that computes a sum but returns an argument is no sum."""
    body = load("%x", "f32", 2, "%v") + (
        f"""
    %r = "tt.reduce"(%v) <{{axis = 0 : i32}}> ({{
    ^bb0(%a: f32, %b: f32):
      %s = "arith.addf"(%a, %b) : (f32, f32) -> f32
      "tt.reduce.return"({returned}) : (f32) -> ()
    }}) : (tensor<2xf32>) -> f32
    "tt.store"(%o, %r) : (!tt.ptr<f32>, f32) -> ()"""
    )
    text = module("%x: !tt.ptr<f32>, %o: !tt.ptr<f32>", body)
    result = run(text, [tensor("x", "f32", (2,)), out("o", "f32", (1,))], {"x": np.array([1.0, 2.0])})
    np.testing.assert_array_equal(result.numbers["o"], expected)
