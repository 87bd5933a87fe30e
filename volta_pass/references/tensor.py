"""References as Python functions over symbolic tensors with NumPy's operators, methods, ufuncs and functions.

Real arithmetic: dtypes do not round. A number written in the function is read as NumPy reads it beside a tensor: rounded to
float32, or kept in double precision beside an f64 tensor; a recognised constant (log2(e), pi, ...) is that constant. Concrete
arrays may be used for masks, indices and data; a symbolic value that decides Python control flow is refused.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Union

import numpy as np

from ptx_engine.errors import NotStructuredError, UnsupportedError
from ptx_engine.launch import DTYPES
from ptx_engine.terms.arena import ZERO, Arena, Ids
from ptx_engine.terms.constants import from_float, ulp_of
from ptx_engine.terms.ops import Op
from volta_pass.references.float_to_integer import held_integers
from volta_pass.references.library import applied
from volta_pass.references.ttir_dot import emit_dot
from volta_pass.references.ttir_float import FUNCTIONS
from volta_pass.references.ttir_values import Sym, id_operand, wrapped
from volta_pass.specs_api import launch_dtype, triton_dtype

#: functions of ``FUNCTIONS`` whose results are integers where all operands are
_WHOLE = frozenset({"add", "sub", "mul", "neg", "abs", "max", "min", "floor", "ceil", "trunc", "rint", "fmod"})

Operand = Union["SymbolicTensor", np.ndarray, float, int, bool]
Axis = Union[int, tuple[int, ...], None]


@dataclass(frozen=True, slots=True, eq=False)
class TensorOrigin:
    """Who emitted a term: a tensor operation, and the place "file.py:12:1" in the reference function."""

    op_name: str
    user_loc: str

    def __str__(self) -> str:
        return f"{self.op_name} at {self.user_loc}" if self.user_loc else self.op_name


class SymbolicTensor:
    """Term ids of one shape. ``dtype`` is the element format; ``predicate`` tensors hold 0/1 terms (results of comparisons)."""

    __slots__ = ("arena", "dtype", "ids", "predicate")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, ids: np.ndarray, arena: Arena, dtype: str = "f32", predicate: bool = False) -> None:
        self.ids = ids
        self.arena = arena
        self.dtype = dtype
        self.predicate = predicate

    # --- shape ----------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        return self.ids.shape

    @property
    def ndim(self) -> int:
        return self.ids.ndim

    @property
    def size(self) -> int:
        return self.ids.size

    @property
    def T(self) -> "SymbolicTensor":
        """Axes reversed."""
        return self._like(self.ids.T)

    @property
    def mT(self) -> "SymbolicTensor":
        """The last two axes exchanged."""
        return self._like(self.ids.swapaxes(-1, -2))

    def _like(self, ids: np.ndarray) -> "SymbolicTensor":
        return SymbolicTensor(ids, self.arena, self.dtype, self.predicate)

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"SymbolicTensor(shape={self.shape}, dtype={self.dtype})"

    def __getitem__(self, index: Any) -> "SymbolicTensor":
        items = index if isinstance(index, tuple) else (index,)
        if any(isinstance(item, SymbolicTensor) for item in items):
            raise NotStructuredError("an index depends on symbolic data", feature="index", user_loc=_caller())
        return self._like(np.asarray(self.ids[index]))

    def reshape(self, *shape: Any) -> "SymbolicTensor":
        return self._like(self.ids.reshape(*shape))

    def transpose(self, *axes: Any) -> "SymbolicTensor":
        return self._like(self.ids.transpose(*axes))

    def swapaxes(self, first: int, second: int) -> "SymbolicTensor":
        return self._like(self.ids.swapaxes(first, second))

    def ravel(self) -> "SymbolicTensor":
        return self._like(self.ids.ravel())

    def squeeze(self, axis: Axis = None) -> "SymbolicTensor":
        return self._like(self.ids.squeeze(axis))

    def astype(self, dtype: Any) -> "SymbolicTensor":
        """To a float type the same real numbers; to an integer type towards zero, then wrapped; to bool whether it is not 0."""
        return converted(self, launch_dtype(name) if (name := triton_dtype(dtype)) != "i1" else "pred")

    # --- operators ------------------------------------------------------------------------------

    def __add__(self, other: Operand) -> "SymbolicTensor":
        return apply("add", self, other)

    def __radd__(self, other: Operand) -> "SymbolicTensor":
        return apply("add", other, self)

    def __sub__(self, other: Operand) -> "SymbolicTensor":
        return apply("sub", self, other)

    def __rsub__(self, other: Operand) -> "SymbolicTensor":
        return apply("sub", other, self)

    def __mul__(self, other: Operand) -> "SymbolicTensor":
        return apply("mul", self, other)

    def __rmul__(self, other: Operand) -> "SymbolicTensor":
        return apply("mul", other, self)

    def __truediv__(self, other: Operand) -> "SymbolicTensor":
        return apply("div", self, other)

    def __rtruediv__(self, other: Operand) -> "SymbolicTensor":
        return apply("div", other, self)

    def __pow__(self, exponent: Operand) -> "SymbolicTensor":
        return power(self, exponent)

    def __rpow__(self, base: Operand) -> "SymbolicTensor":
        return power(base, self)

    def __neg__(self) -> "SymbolicTensor":
        return apply("neg", self)

    def __pos__(self) -> "SymbolicTensor":
        return self

    def __abs__(self) -> "SymbolicTensor":
        return apply("abs", self)

    def __matmul__(self, other: Operand) -> "SymbolicTensor":
        return matmul(self, other)

    def __rmatmul__(self, other: Operand) -> "SymbolicTensor":
        return matmul(other, self)

    def __lt__(self, other: Any) -> "SymbolicTensor":
        return compare(Op.LT, self, other)

    def __le__(self, other: Any) -> "SymbolicTensor":
        return compare(Op.LE, self, other)

    def __gt__(self, other: Any) -> "SymbolicTensor":
        return compare(Op.LT, other, self)

    def __ge__(self, other: Any) -> "SymbolicTensor":
        return compare(Op.LE, other, self)

    def __eq__(self, other: object) -> "SymbolicTensor":  # type: ignore[override]
        return compare(Op.EQ, self, other)  # type: ignore[arg-type]

    def __ne__(self, other: object) -> "SymbolicTensor":  # type: ignore[override]
        return compare(Op.NE, self, other)  # type: ignore[arg-type]

    def __floordiv__(self, other: Operand) -> "SymbolicTensor":
        return np.floor_divide(self, other)  # type: ignore[call-overload, no-any-return]

    def __rfloordiv__(self, other: Operand) -> "SymbolicTensor":
        return np.floor_divide(other, self)  # type: ignore[call-overload, no-any-return]

    def __mod__(self, other: Operand) -> "SymbolicTensor":
        return np.remainder(self, other)  # type: ignore[call-overload, no-any-return]

    def __rmod__(self, other: Operand) -> "SymbolicTensor":
        return np.remainder(other, self)  # type: ignore[call-overload, no-any-return]

    def __rshift__(self, other: Operand) -> "SymbolicTensor":
        return np.right_shift(self, other)  # type: ignore[call-overload, no-any-return]

    def __lshift__(self, other: Operand) -> "SymbolicTensor":
        return np.left_shift(self, other)  # type: ignore[call-overload, no-any-return]

    def __and__(self, other: Operand) -> "SymbolicTensor":
        return np.bitwise_and(self, other)  # type: ignore[call-overload, no-any-return]

    __rand__ = __and__

    def __or__(self, other: Operand) -> "SymbolicTensor":
        return np.bitwise_or(self, other)  # type: ignore[call-overload, no-any-return]

    __ror__ = __or__

    def __xor__(self, other: Operand) -> "SymbolicTensor":
        return np.bitwise_xor(self, other)  # type: ignore[call-overload, no-any-return]

    __rxor__ = __xor__

    def __invert__(self) -> "SymbolicTensor":
        """not of truth values; of integers -1 - x."""
        return logic(Op.NOT, self) if self.predicate else -1 - self

    def __bool__(self) -> bool:
        raise NotStructuredError("control flow depends on symbolic data", feature="bool", hint="use where(...)", user_loc=_caller())

    def __float__(self) -> float:
        raise NotStructuredError("a symbolic value has no number", feature="float", user_loc=_caller())

    # --- reductions -----------------------------------------------------------------------------

    def sum(self, axis: Axis = None, keepdims: bool = False) -> "SymbolicTensor":
        return reduce(Op.NSUM, self, axis, keepdims)

    def max(self, axis: Axis = None, keepdims: bool = False) -> "SymbolicTensor":
        return reduce(Op.NMAX, self, axis, keepdims)

    def min(self, axis: Axis = None, keepdims: bool = False) -> "SymbolicTensor":
        return reduce(Op.NMIN, self, axis, keepdims)

    def mean(self, axis: Axis = None, keepdims: bool = False) -> "SymbolicTensor":
        count = self.size if axis is None else math.prod(self.shape[a] for a in _axes(self.ndim, axis))
        return self.sum(axis, keepdims) / count

    def var(self, axis: Axis = None, keepdims: bool = False) -> "SymbolicTensor":
        """Population variance."""
        centred = self - self.mean(axis, keepdims=True)
        return (centred * centred).mean(axis, keepdims)

    def cumsum(self, axis: int | None = None) -> "SymbolicTensor":
        """Prefix sums along an axis (of the flat tensor for None), log2 deep."""
        whole = self if axis is not None else self.ravel()
        return prefix_sum(whole, axis if axis is not None else 0)

    # --- NumPy's protocols ----------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        from volta_pass.references.tensor_functions import UFUNCS

        function = UFUNCS.get(ufunc.__name__)
        if function is None or method != "__call__" or kwargs:
            raise UnsupportedError(f"numpy.{ufunc.__name__} of a symbolic tensor", feature=ufunc.__name__, user_loc=_caller())
        return function(*inputs)

    def __array_function__(self, func: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
        from volta_pass.references.tensor_functions import FUNCTIONS_BY_NAME

        function = FUNCTIONS_BY_NAME.get(func.__name__)
        if function is None:
            raise UnsupportedError(f"numpy.{func.__name__} of a symbolic tensor", feature=func.__name__, user_loc=_caller())
        return function(*args, **kwargs)


# --- building blocks --------------------------------------------------------------------------------


def _caller() -> str:
    """The first place outside of this package on the call stack."""
    frame = sys._getframe(1)
    while frame is not None and (frame.f_globals.get("__name__", "").startswith("volta_pass.") or "numpy" in frame.f_code.co_filename):
        frame = frame.f_back  # type: ignore[assignment]
    return f"{frame.f_code.co_filename}:{frame.f_lineno}:1" if frame is not None else ""


def note(arena: Arena, name: str) -> Arena:
    """The arena, with the user's line as the origin of what is emitted next."""
    arena.origin = TensorOrigin(name, _caller())
    return arena


def tensors(*operands: Operand) -> list["SymbolicTensor"]:
    """Operands as symbolic tensors of one arena; at least one is symbolic."""
    first = next(x for x in operands if isinstance(x, SymbolicTensor))
    double = any(isinstance(x, SymbolicTensor) and x.dtype == "f64" for x in operands)
    return [x if isinstance(x, SymbolicTensor) else lift(x, first.arena, double) for x in operands]


def lift(value: Operand, arena: Arena, double: bool = False) -> "SymbolicTensor":
    """A concrete number or array as constants; Python floats are rounded to float32 unless ``double``."""
    array = np.asarray(value)
    if array.dtype.kind in "biu":
        return SymbolicTensor(arena.integers(array.astype(np.int64)), arena, "s64", predicate=array.dtype.kind == "b")
    if array.dtype.kind != "f":
        raise UnsupportedError(f"a value of dtype {array.dtype} beside a symbolic tensor", feature=str(array.dtype), user_loc=_caller())
    if isinstance(value, float) and not double:
        array = array.astype(np.float32)
    unique, inverse = np.unique(array, return_inverse=True)
    table = np.array([_float_id(float(v), arena) for v in unique], np.int32)
    return SymbolicTensor(table[inverse].reshape(array.shape), arena, "f64" if array.dtype == np.float64 else "f32")


def _float_id(value: float, arena: Arena) -> int:
    const, name = from_float(value, ulp_of(value, "f32"))
    if name:
        arena.assumptions.setdefault(f"constant recognised: {value!r} is {name}")
    return arena.const(const)


def _result_dtype(operands: Sequence["SymbolicTensor"]) -> str:
    floats = [x.dtype for x in operands if DTYPES[x.dtype][1]]
    return "f64" if "f64" in floats else (floats or [operands[0].dtype])[0]


def converted(tensor: "SymbolicTensor", dtype: str) -> "SymbolicTensor":
    """A tensor in another element format (of ``DTYPES``), as an assignment in NumPy converts it; integers are exact until then."""
    size, is_float = DTYPES[dtype]
    if dtype == "pred":
        return tensor if tensor.predicate else compare(Op.NE, tensor, 0)
    if is_float or tensor.predicate:
        return SymbolicTensor(tensor.ids, tensor.arena, dtype)
    arena = note(tensor.arena, "astype")
    ids = tensor.ids
    number, width, signed = Sym(ids), 8 * size, dtype.startswith("s")
    if DTYPES[tensor.dtype][1]:
        _, number = held_integers(arena, ids, width, signed, 8 * DTYPES[tensor.dtype][0])
        number = replace(number, ids=np.broadcast_to(number.ids, ids.shape))
    return SymbolicTensor(wrapped(number, width, signed, arena).ids, arena, dtype)


def apply(name: str, *operands: Operand) -> "SymbolicTensor":
    """A float function of ``ttir_float.FUNCTIONS``, elementwise with broadcasting."""
    values = tensors(*operands)
    arena = note(values[0].arena, name)
    fmt = _result_dtype(values)

    def function(*ids: Ids) -> Ids:
        found = applied(arena, name, fmt, ids)
        return FUNCTIONS[name](arena, *ids) if found is None else found

    result = elementwise(function, values)
    if name not in _WHOLE and not DTYPES[result.dtype][1]:
        result.dtype = "f32"
    return result


def elementwise(fn: Callable[..., Ids], values: Sequence["SymbolicTensor"], predicate: bool = False) -> "SymbolicTensor":
    """A function of ids over broadcast operands."""
    shape = np.broadcast_shapes(*(v.shape for v in values))
    ids = np.asarray(fn(*(id_operand(v.ids) for v in values)), np.int32)
    if ids.size == math.prod(shape):
        ids = ids.reshape(shape)
    return SymbolicTensor(np.broadcast_to(ids, shape), values[0].arena, _result_dtype(values), predicate)


def power(base: Operand, exponent: Operand) -> "SymbolicTensor":
    """Small integer powers are products, 1/2 is the square root; anything else is the power operator."""
    if isinstance(base, SymbolicTensor) and isinstance(exponent, (int, float)) and not isinstance(exponent, bool):
        if exponent == 0.5:
            return apply("sqrt", base)
        if exponent == -0.5:
            return apply("rsqrt", base)
        if float(exponent).is_integer() and 0 < abs(exponent) <= 64:
            product = _repeated(base, abs(int(exponent)))
            return product if exponent > 0 else apply("rcp", product)
    return apply("pow", base, exponent)


def _repeated(base: "SymbolicTensor", count: int) -> "SymbolicTensor":
    """base**count by squaring."""
    result, square = None, base
    while count:
        if count & 1:
            result = square if result is None else apply("mul", result, square)
        count >>= 1
        if count:
            square = apply("mul", square, square)
    assert result is not None
    return result


def compare(op: Op, a: Operand, b: Operand) -> "SymbolicTensor":
    """A predicate tensor."""
    values = tensors(a, b)
    arena = note(values[0].arena, op.name.lower())
    return elementwise(lambda x, y: arena.compare(op, x, y), values, predicate=True)


def logic(op: Op, *operands: Operand) -> "SymbolicTensor":
    """and, or, not of predicate tensors or concrete truth values."""
    values = tensors(*operands)
    if not all(v.predicate for v in values):
        raise UnsupportedError(f"{op.name.lower()} of tensors that are not truth values", feature=op.name.lower(), user_loc=_caller())
    arena = note(values[0].arena, op.name.lower())
    return elementwise(lambda *ids: arena.logic(op, *ids), values, predicate=True)


def where(condition: Operand, a: Operand, b: Operand) -> "SymbolicTensor":
    """``a`` where the condition holds, else ``b``; a symbolic condition makes select terms."""
    if isinstance(condition, SymbolicTensor):
        values = tensors(condition, a, b)
        arena = note(values[0].arena, "where")
        chosen = elementwise(arena.select, values)
        return SymbolicTensor(chosen.ids, arena, _result_dtype(values[1:]))
    left, right = tensors(a, b)
    return SymbolicTensor(np.where(np.asarray(condition, bool), left.ids, right.ids), left.arena, _result_dtype([left, right]))


def matmul(a: Operand, b: Operand) -> "SymbolicTensor":
    """Matrix product with NumPy's rules for vectors and batches: one dot node per element."""
    left, right = tensors(a, b)
    if left.ndim == 0 or right.ndim == 0 or left.shape[-1] != right.shape[-2 if right.ndim > 1 else 0]:
        raise UnsupportedError(f"matmul of shapes {left.shape} and {right.shape}", feature="matmul", user_loc=_caller())
    arena = note(left.arena, "matmul")
    x = left.ids[None, :] if left.ndim == 1 else left.ids
    y = right.ids[:, None] if right.ndim == 1 else right.ids
    start = np.full((1,) * (max(x.ndim, y.ndim) - 2) + (x.shape[-2], y.shape[-1]), ZERO, np.int32)
    ids = emit_dot(arena, x, y, start)
    if left.ndim == 1:
        ids = ids[..., 0, :]
    if right.ndim == 1:
        ids = ids[..., 0]
    return SymbolicTensor(ids, arena, _result_dtype([left, right]))


def _axes(ndim: int, axis: Axis) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(ndim))
    return tuple(a % ndim for a in ((axis,) if isinstance(axis, int) else axis))


def reduce(op: Op, tensor: "SymbolicTensor", axis: Axis, keepdims: bool) -> "SymbolicTensor":
    """Sum, maximum or minimum over axes as one n-ary node per element."""
    axes = _axes(tensor.ndim, axis)
    kept = [d for d in range(tensor.ndim) if d not in axes]
    moved = tensor.ids.transpose(*kept, *axes).reshape(*(tensor.shape[d] for d in kept), -1)
    arena = note(tensor.arena, op.name[1:].lower())
    ids = moved[..., 0] if moved.shape[-1] == 1 else arena.nary(op, moved)
    if keepdims:
        ids = np.asarray(ids).reshape(tuple(1 if d in axes else tensor.shape[d] for d in range(tensor.ndim)))
    return SymbolicTensor(np.asarray(ids, np.int32), arena, tensor.dtype)


def prefix_sum(tensor: "SymbolicTensor", axis: int) -> "SymbolicTensor":
    """Inclusive prefix sums, by doubling."""
    arena = note(tensor.arena, "cumsum")
    ids, distance = np.moveaxis(tensor.ids, axis, -1), 1
    while distance < ids.shape[-1]:
        ids = np.concatenate([ids[..., :distance], np.asarray(arena.add(ids[..., :-distance], ids[..., distance:]))], axis=-1)
        distance *= 2
    return SymbolicTensor(np.moveaxis(ids, -1, axis), arena, tensor.dtype)


__all__ = ["Operand", "SymbolicTensor", "TensorOrigin", "apply", "lift", "matmul", "where"]
