"""Conversions in reference functions mean what they mean in NumPy: towards zero, modulo the type's width, true or false."""

from __future__ import annotations

import numpy as np
import pytest
from reference_cases import numbers_of, out, tensor

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
