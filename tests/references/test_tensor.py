"""Tensor references: NumPy-style functions over symbolic tensors against NumPy itself."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_cases import numbers_of, out, tensor

from ptx_engine.errors import LaunchError, NotStructuredError, UnsupportedError
from ptx_engine.launch import Launch, Role, ScalarArg, TensorArg, bind
from ptx_engine.terms.arena import Arena
from ptx_engine.terms.ops import Op
from volta_pass.references.tensor import SymbolicTensor
from volta_pass.references.tensor_functions import relu, sigmoid, silu, softmax
from volta_pass.references.tensor_reference import tensor_reference

RNG = np.random.default_rng(3)


def evaluated(fn, data, shape, scalars=(), dtype="f32"):
    """The function's one output as numbers, from inputs in ``data``."""
    args = [tensor(name, dtype, value.shape) for name, value in data.items()] + [out("o", dtype, shape), *scalars]
    bound = bind(Launch((1, 1, 1), (1, 1, 1), tuple(args)), Arena())
    result = tensor_reference(fn, bound, {name: name for name in [*data, *(s.name for s in scalars)]}, ["o"])
    return numbers_of(bound, result, data)["o"].reshape(shape), bound, result


X, Y = RNG.normal(size=(2, 4, 6))
P = np.abs(X) + 0.5

SAME_IN_NUMPY = {
    "arithmetic": lambda x, y: (x + 2) * y - x / (y * y + 1) + -x + abs(y) + 3 - x,
    "power": lambda x, y: x**2 + x**3 + (x * x + 1) ** 0.5 + (y * y + 1) ** -1,
    "exp": lambda x, y: np.exp(x) + np.exp2(y) + np.expm1(x),
    "log": lambda x, y: np.log(x * x + 1) + np.log2(y * y + 1) + np.log1p(x * x),
    "sqrt": lambda x, y: np.sqrt(x * x) + np.tanh(y) + np.sin(x) * np.cos(y),
    "extremes": lambda x, y: np.maximum(x, y) - np.minimum(x, 0.5),
    "reductions": lambda x, y: x.sum(axis=1, keepdims=True) + y.max(axis=0) + x.mean() - x.min(axis=(0, 1)) + x.var(axis=1, keepdims=True),
    "numpy reductions": lambda x, y: np.sum(x, axis=1, keepdims=True) + np.max(y, axis=0) + np.mean(x) + np.zeros((4, 6)),
    "where": lambda x, y: np.where(np.tril(np.ones((4, 6), bool)), x, y),
    "where on data": lambda x, y: np.where((x > y) & ~(x >= 1), x, np.where(x != y, y, 0)),
    "cumsum": lambda x, y: x.cumsum(axis=1) + np.cumsum(y, axis=0),
    "shapes": lambda x, y: x.T.reshape(4, 6) + x[::-1] + y[:, ::-1] + x[1] + y[:, 2:3] + x.transpose(1, 0).ravel().reshape(4, 6),
    "concatenate": lambda x, y: np.concatenate([x[:2], y[2:]], axis=0) + np.stack([x[0], x[1], y[0], y[1]]),
    "matmul": lambda x, y: x @ y.T @ (x * 2) + np.matmul(x, y.T) @ y,
    "vectors": lambda x, y: (x @ y[0])[:, None] + x[0] + (x[:, 0] @ y)[None, :],
    "array on the left": lambda x, y: np.arange(24.0).reshape(4, 6) * x + np.arange(6) + np.ones((4, 4)) @ y,
    "triangles": lambda x, y: np.tril(x) + np.triu(y, 1) + np.clip(x, -0.5, 0.5),
    "comparison of numbers": lambda x, y: np.where(np.arange(6) < 3, x, y),
}


@pytest.mark.parametrize("name", sorted(SAME_IN_NUMPY))
def test_the_same_function_in_numpy(name):
    fn = SAME_IN_NUMPY[name]
    got, _, _ = evaluated(fn, {"x": X, "y": Y}, (4, 6))
    np.testing.assert_allclose(got, fn(X, Y), rtol=1e-6, atol=1e-9)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 5), st.integers(1, 4), st.booleans())
def test_batched_matmul(batch, m, k, n, broadcast):
    a, b = np.ones((batch, m, k)) * np.arange(1, k + 1), RNG.normal(size=(1 if broadcast else batch, k, n))
    got, bound, _ = evaluated(lambda x, y: x @ y, {"x": a, "y": b}, (batch, m, n))
    np.testing.assert_allclose(got, a @ b, atol=1e-9)
    assert len(bound.arena.dots) == 1


def test_softmax_and_activations():
    def reference(x):
        return softmax(x, axis=1) + sigmoid(x) + silu(x) * relu(x)

    e = np.exp(X - X.max(1, keepdims=True))
    s = 1 / (1 + np.exp(-X))
    got, _, _ = evaluated(reference, {"x": X}, (4, 6))
    np.testing.assert_allclose(got, e / e.sum(1, keepdims=True) + s + X * s * np.maximum(X, 0))


def test_reductions_are_single_nodes():
    _, bound, result = evaluated(lambda x: x.sum(axis=1), {"x": X}, (4,))
    assert {bound.arena.node(int(i))[0] for i in result["o"].ids} == {Op.NSUM}


@pytest.mark.parametrize(
    ("dtype", "literal", "expected"), [("f32", 0.1, float(np.float32(0.1))), ("f64", 0.1, 0.1), ("f16", 0.1, float(np.float32(0.1)))]
)
def test_a_written_number_is_read_in_the_kernels_precision(dtype, literal, expected):
    got, _, _ = evaluated(lambda x: x * literal, {"x": np.ones(2)}, (2,), dtype=dtype)
    assert got[0] == expected


def test_recognised_constants_enter_the_ledger():
    _, bound, _ = evaluated(lambda x: x * math.log2(math.e), {"x": np.ones(2)}, (2,))
    assert any("log2(e)" in line for line in bound.arena.assumptions)


def test_scalars_are_numbers_or_tensors():
    scalars = (ScalarArg("n", "s32", 3), ScalarArg("eps", "f32", 1e-5))
    got, _, _ = evaluated(lambda x, n, eps: x[:n] + eps, {"x": np.zeros(5)}, (3,), scalars)
    assert got[0] == float(np.float32(1e-5))
    args = (tensor("x", "f32", (2,)), out("o", "f32", (2,)), ScalarArg("a", "f32"))
    bound = bind(Launch((1, 1, 1), (1, 1, 1), args), Arena())
    result = tensor_reference(lambda x, a: a * x, bound, None, ["o"])
    np.testing.assert_allclose(numbers_of(bound, result, {"x": [1, 2], "a": [3]})["o"], [3, 6])


def test_strided_tensors_and_several_outputs():
    x = TensorArg("x", "f32", (2, 3), Role.IN, strides=(1, 4))
    args = (x, TensorArg("o", "f32", (3, 2), Role.OUT, strides=(2, 1)), out("s", "f32", (1,)))
    bound = bind(Launch((1, 1, 1), (1, 1, 1), args), Arena())
    result = tensor_reference(lambda x: {"o": x.T, "s": x.sum().reshape(1)}, bound, None, ["o", "s"])
    data = np.arange(10.0)
    view = np.array([[data[i + 4 * j] for j in range(3)] for i in range(2)])
    numbers = numbers_of(bound, result, {"x": data})
    np.testing.assert_array_equal(numbers["o"].reshape(3, 2), view.T)
    assert numbers["s"][0] == view.sum()


def test_concrete_integer_contents_index():
    args = (tensor("x", "f32", (4,)), tensor("i", "s32", (3,), contents=np.array([2, 0, 2])), out("o", "f32", (3,)))
    bound = bind(Launch((1, 1, 1), (1, 1, 1), args), Arena())
    result = tensor_reference(lambda x, i: x[i], bound, None, ["o"])
    np.testing.assert_array_equal(numbers_of(bound, result, {"x": np.arange(4.0)})["o"], [2, 0, 2])


def _one(fn, shape=(4, 6)):
    args = (tensor("x", "f32", (4, 6)), out("o", "f32", shape))
    return tensor_reference(fn, bind(Launch((1, 1, 1), (1, 1, 1), args), Arena()), None, ["o"])


@pytest.mark.parametrize(
    ("fn", "error", "message"),
    [
        (lambda x: x.sum(axis=0), LaunchError, r"returns shape \(6,\) for o, whose shape is \(4, 6\)"),
        (lambda x: (x, x), LaunchError, "returns 2 tensors for 1 outputs"),
        (lambda x: {"p": x}, LaunchError, "returns nothing for o"),
        (lambda q: q, LaunchError, "parameter q names no launch argument"),
        (lambda o: o, LaunchError, "reads o, which is an output without contents"),
        (lambda x: x if x[0, 0] > 0 else -x, NotStructuredError, "control flow depends on symbolic data"),
        (lambda x: x[x > 0], NotStructuredError, "an index depends on symbolic data"),
        (lambda x: np.linalg.inv(x), UnsupportedError, "numpy.inv"),
        (lambda x: np.arctan(x), UnsupportedError, "numpy.arctan"),
        (lambda x: x @ x, UnsupportedError, r"matmul of shapes \(4, 6\) and \(4, 6\)"),
        (lambda x: x & x, UnsupportedError, "bits of floats"),
    ],
)
def test_refusals(fn, error, message):
    with pytest.raises(error, match=message):
        _one(fn)


def test_origins_name_the_users_line():
    args = (tensor("x", "f32", (2,)), out("o", "f32", (2,)))
    bound = bind(Launch((1, 1, 1), (1, 1, 1), args), Arena())
    result = tensor_reference(lambda x: np.exp(x), bound, None, ["o"])
    assert "test_tensor.py" in bound.arena.origin_of(int(result["o"].ids[0])).user_loc


def test_a_symbolic_tensor_prints_its_shape():
    assert repr(SymbolicTensor(np.zeros((2, 3), np.int32), Arena())) == "SymbolicTensor(shape=(2, 3), dtype=f32)"
