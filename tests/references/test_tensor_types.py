"""Conversions in reference functions mean what they mean in NumPy: towards zero, modulo the type's width, true or false."""

from __future__ import annotations

import numpy as np
import pytest
from reference_cases import numbers_of, out, tensor

from ptx_engine.errors import UnsupportedError
from ptx_engine.launch import Launch, bind
from ptx_engine.terms.arena import Arena
from volta_pass.references.tensor_reference import tensor_reference

FLOATS = np.array([-2.75, -0.5, 0.0, 0.5, 1.75, 300.25])
BYTES = np.array([-128, -100, -1, 0, 5, 127], np.int8)
OTHER = np.array([-128, -29, 1, 0, 100, 127], np.int8)


def evaluated(fn, data, dtypes, result):
    """The function's output as numbers; ``dtypes`` of the inputs and ``result`` of the output."""
    shape = next(iter(data.values())).shape
    args = [tensor(name, dtype, shape) for name, dtype in zip(data, dtypes)] + [out("o", result, shape)]
    bound = bind(Launch((1, 1, 1), (1, 1, 1), tuple(args)), Arena())
    return numbers_of(bound, tensor_reference(fn, bound, {name: name for name in data}, ["o"]), data)["o"].reshape(shape)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x.astype(np.int32).astype(np.float32),
        lambda x: x.astype("int16") * 2,
        lambda x: x.astype(int) + 0.5,
        lambda x: x.astype(bool) * 3.0,
        lambda x: x.astype(np.float16) / 4,
        lambda x: (x > 0).astype(np.float32),
        lambda x: (x / 2).astype(np.int64),
    ],
)
def test_floats_convert_as_in_numpy(fn):
    np.testing.assert_allclose(evaluated(fn, {"x": FLOATS}, ["f32"], "f32"), np.asarray(fn(FLOATS), float))


@pytest.mark.parametrize(
    "fn", [lambda a, b: a + b, lambda a, b: a * b - b, lambda a, b: -a, lambda a, b: abs(a), lambda a, b: np.maximum(a, b)]
)
def test_outputs_of_integers_hold_what_their_type_holds(fn):
    with np.errstate(over="ignore"):
        expected = fn(BYTES, OTHER)
    assert expected.dtype == np.int8
    np.testing.assert_array_equal(evaluated(fn, {"a": BYTES, "b": OTHER}, ["s8", "s8"], "s8"), expected)


def test_a_widened_sum_does_not_wrap_and_a_narrowed_one_does():
    wide = evaluated(lambda a, b: a.astype("int32") + b, {"a": BYTES, "b": OTHER}, ["s8", "s8"], "s32")
    np.testing.assert_array_equal(wide, BYTES.astype(int) + OTHER)
    narrow = evaluated(lambda a, b: (a + b).astype(np.uint8), {"a": BYTES, "b": OTHER}, ["s8", "s8"], "s32")
    np.testing.assert_array_equal(narrow, (BYTES.astype(int) + OTHER) % 256)


def test_a_quotient_of_integers_is_cut_where_it_is_stored():
    a, b = np.array([-7, 7, 1]), np.array([2, 2, 3])
    np.testing.assert_array_equal(evaluated(lambda a, b: a / b, {"a": a, "b": b}, ["s32", "s32"], "s32"), [-3, 3, 0])
    np.testing.assert_allclose(evaluated(lambda a, b: a / b, {"a": a, "b": b}, ["s32", "s32"], "f32"), a / b)


def test_integers_beside_floats_are_floats():
    a, x = np.array([3, -3]), np.array([0.5, 0.25])
    np.testing.assert_array_equal(evaluated(lambda a, x: (a * x).astype(np.int32), {"a": a, "x": x}, ["s32", "f32"], "s32"), [1, 0])


DIVISORS = np.array([3, -3, 7, -7, 2, 5], np.int8)


@pytest.mark.parametrize(
    "fn",
    [
        lambda a, b: a // b, lambda a, b: a % b, lambda a, b: a // 4, lambda a, b: a % -3, lambda a, b: a >> 2, lambda a, b: a << 3,
        lambda a, b: a & 7, lambda a, b: a & b, lambda a, b: a | b, lambda a, b: a ^ b, lambda a, b: ~a, lambda a, b: 100 // b,
        lambda a, b: 100 % b, lambda a, b: np.remainder(a, b) + np.floor_divide(b, a.astype(np.int32) * 2 + 1),
    ],
)  # fmt: skip
def test_operators_of_integers_are_numpys(fn):
    expected = fn(BYTES.astype(np.int32), DIVISORS.astype(np.int32))
    np.testing.assert_array_equal(evaluated(fn, {"a": BYTES, "b": DIVISORS}, ["s8", "s8"], "s32"), expected)


def test_floor_division_and_remainder_of_floats_are_numpys():
    other = np.array([0.5, -0.25, 2.0, -3.0, 0.75, 7.0])
    for fn in (lambda x, y: x // y, lambda x, y: x % y):
        np.testing.assert_allclose(evaluated(fn, {"x": FLOATS, "y": other}, ["f32", "f32"], "f32"), fn(FLOATS, other))


@pytest.mark.parametrize("fn", [lambda a, x: x >> 1, lambda a, x: x & 3, lambda a, x: a << a, lambda a, x: a >> -1])
def test_what_has_no_meaning_is_refused_with_its_line(fn):
    with pytest.raises(UnsupportedError) as caught:
        evaluated(fn, {"a": BYTES, "x": FLOATS}, ["s8", "f32"], "s32")
    assert "test_tensor_types.py" in caught.value.user_loc


def test_floats_that_do_not_fit_are_clamped_as_the_target_clamps_them():
    far = np.array([-1e12, -2147483649.5, 2147483647.5, 3e9, 255.9, -256.1])
    got = evaluated(lambda x: x.astype(np.int32), {"x": far}, ["f64"], "s32")
    np.testing.assert_array_equal(got, [-(2**31), -(2**31), 2**31 - 1, 2**31 - 1, 255, -256])
