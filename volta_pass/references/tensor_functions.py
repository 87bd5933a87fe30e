"""Functions over symbolic tensors, by their NumPy names, and softmax, sigmoid and friends. They take concrete arrays too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ptx_engine.errors import UnsupportedError
from ptx_engine.terms.ops import Op
from volta_pass.references.tensor import (
    Axis,
    Operand,
    SymbolicTensor,
    _result_dtype,
    apply,
    compare,
    logic,
    matmul,
    power,
    tensors,
    where,
)  # fmt: skip
from volta_pass.references.tensor_integers import bits, floor_divide, remainder, shift_left, shift_right

#: NumPy ufunc -> float function
_ROWS: dict[str, str] = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "negative": "neg", "absolute": "abs", "fabs": "abs",
    "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2", "log10": "log10", "log1p": "log1p", "sqrt": "sqrt",
    "reciprocal": "rcp", "sin": "sin", "cos": "cos", "tan": "tan", "tanh": "tanh", "floor": "floor", "ceil": "ceil", "trunc": "trunc",
    "rint": "rint", "maximum": "max", "minimum": "min", "fmax": "max", "fmin": "min", "fmod": "fmod", "copysign": "copysign",
}  # fmt: skip


def _function(name: str) -> Callable[..., SymbolicTensor]:
    return lambda *operands: apply(name, *operands)


exp, exp2, log, log2 = _function("exp"), _function("exp2"), _function("log"), _function("log2")
sqrt, rsqrt, tanh, erf = _function("sqrt"), _function("rsqrt"), _function("tanh"), _function("erf")
sin, cos, maximum, minimum = _function("sin"), _function("cos"), _function("max"), _function("min")
floor, ceil = _function("floor"), _function("ceil")


def _comparison(op: Op, swap: bool = False) -> Callable[[Operand, Operand], SymbolicTensor]:
    return lambda a, b: compare(op, b, a) if swap else compare(op, a, b)


UFUNCS: dict[str, Callable[..., SymbolicTensor]] = {
    **{name: _function(row) for name, row in _ROWS.items()},
    "matmul": matmul,
    "power": power,
    "float_power": power,
    "square": lambda x: apply("mul", x, x),
    "positive": lambda x: x,
    "less": _comparison(Op.LT),
    "less_equal": _comparison(Op.LE),
    "greater": _comparison(Op.LT, swap=True),
    "greater_equal": _comparison(Op.LE, swap=True),
    "equal": _comparison(Op.EQ),
    "not_equal": _comparison(Op.NE),
    "logical_and": lambda a, b: logic(Op.AND, a, b),
    "logical_or": lambda a, b: logic(Op.OR, a, b),
    "logical_not": lambda a: logic(Op.NOT, a),
    "floor_divide": floor_divide,
    "remainder": remainder,
    "right_shift": shift_right,
    "left_shift": shift_left,
    "bitwise_and": lambda a, b: bits(Op.BITAND, a, b),
    "bitwise_or": lambda a, b: bits(Op.BITOR, a, b),
    "bitwise_xor": lambda a, b: bits(Op.BITXOR, a, b),
    "invert": lambda a: ~a,
}


def sigmoid(x: SymbolicTensor) -> SymbolicTensor:
    """1 / (1 + exp(-x))."""
    return 1 / (1 + exp(-x))


def silu(x: SymbolicTensor) -> SymbolicTensor:
    """x * sigmoid(x)."""
    return x * sigmoid(x)


def relu(x: SymbolicTensor) -> SymbolicTensor:
    """max(x, 0)."""
    return maximum(x, 0)


def softmax(x: SymbolicTensor, axis: int = -1) -> SymbolicTensor:
    """exp(x) over its sum along an axis."""
    shifted = exp(x - x.max(axis=axis, keepdims=True))
    return shifted / shifted.sum(axis=axis, keepdims=True)


def concatenate(parts: Sequence[Operand], axis: int = 0) -> SymbolicTensor:
    """Tensors one after another along an axis."""
    values = tensors(*parts)
    return SymbolicTensor(np.concatenate([v.ids for v in values], axis=axis), values[0].arena, _result_dtype(values))


def stack(parts: Sequence[Operand], axis: int = 0) -> SymbolicTensor:
    """Tensors along a new axis."""
    values = tensors(*parts)
    return SymbolicTensor(np.stack([v.ids for v in values], axis=axis), values[0].arena, _result_dtype(values))


def clip(x: Operand, low: Operand | None = None, high: Operand | None = None) -> Operand:
    """min(max(x, low), high)."""
    bounded = x if low is None else maximum(x, low)
    return bounded if high is None else minimum(bounded, high)


def _masked(x: SymbolicTensor, keep: Callable[[np.ndarray, int], np.ndarray], k: int) -> SymbolicTensor:
    return where(keep(np.ones(x.shape[-2:], bool), k), x, 0)


def dot(a: SymbolicTensor, b: SymbolicTensor) -> SymbolicTensor:
    """NumPy's dot of vectors and matrices."""
    if a.ndim > 2 or b.ndim > 2:
        raise UnsupportedError("numpy.dot of more than two axes; use matmul", feature="dot")
    return matmul(a, b)


def _rearranged(fn: Callable[..., np.ndarray]) -> Callable[..., SymbolicTensor]:
    return lambda x, *args, **kwargs: SymbolicTensor(fn(x.ids, *args, **kwargs), x.arena, x.dtype, x.predicate)


def _reduction(name: str) -> Callable[..., SymbolicTensor]:
    def run(x: SymbolicTensor, axis: Axis = None, keepdims: Any = False) -> SymbolicTensor:
        methods = {"sum": x.sum, "max": x.max, "min": x.min, "mean": x.mean, "var": x.var}
        return methods[name](axis, bool(keepdims))

    return run


FUNCTIONS_BY_NAME: dict[str, Callable[..., Any]] = {
    "where": where, "concatenate": concatenate, "stack": stack, "clip": clip, "dot": dot,
    "sum": _reduction("sum"), "amax": _reduction("max"), "max": _reduction("max"), "amin": _reduction("min"), "min": _reduction("min"),
    "mean": _reduction("mean"), "var": _reduction("var"),
    "cumsum": lambda x, axis=None: x.cumsum(axis),
    "tril": lambda x, k=0: _masked(x, np.tril, k), "triu": lambda x, k=0: _masked(x, np.triu, k),
    "reshape": _rearranged(np.reshape), "transpose": _rearranged(np.transpose), "swapaxes": _rearranged(np.swapaxes),
    "moveaxis": _rearranged(np.moveaxis), "expand_dims": _rearranged(np.expand_dims), "squeeze": _rearranged(np.squeeze),
    "broadcast_to": _rearranged(np.broadcast_to), "repeat": _rearranged(np.repeat), "tile": _rearranged(np.tile),
    "flip": _rearranged(np.flip), "roll": _rearranged(np.roll), "take": _rearranged(np.take), "ravel": _rearranged(np.ravel),
    "shape": lambda x: x.shape, "ndim": lambda x: x.ndim, "size": lambda x: x.size,
}  # fmt: skip
