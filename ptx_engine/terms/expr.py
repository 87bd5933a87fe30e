"""A small expression front end to the arena, so that the decider can be asked about formulas alone.

``x, y = symbols("x:16 y")`` gives a vector and a scalar of real indeterminates over one arena; operators and functions
build terms elementwise. Numbers are exact (a float means its binary value). No Python truth value is ever taken of a term.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import reduce
from typing import Union, overload

import numpy as np
from gmpy2 import mpq

from ptx_engine.terms.arena import ONE, ZERO, Arena
from ptx_engine.terms.ops import Op

Number = Union[int, float, Fraction]
Operand = Union["Expr", Number]
#: a term or a vector of terms
Value = Union["Expr", "Vector"]
_MAX_POWER = 64


class Expr:
    """One term: an id in an arena."""

    __slots__ = ("arena", "id")

    def __init__(self, arena: Arena, ident: int) -> None:
        self.arena = arena
        self.id = int(ident)

    def _with(self, other: Operand) -> int:
        """The id of an operand. Raises TypeError for anything but numbers and terms, ValueError for another arena's."""
        if isinstance(other, Expr):
            if other.arena is not self.arena:
                raise ValueError("terms of two arenas cannot be combined: make all symbols in one call")
            return other.id
        return self.arena.rational(_exact(other))

    def _new(self, ident: object) -> Expr:
        return Expr(self.arena, int(ident))  # type: ignore[call-overload]

    def __add__(self, other: Operand) -> Expr:
        return self._new(self.arena.add(self.id, self._with(other)))

    def __radd__(self, other: Number) -> Expr:
        return self + other

    def __sub__(self, other: Operand) -> Expr:
        return self._new(self.arena.sub(self.id, self._with(other)))

    def __rsub__(self, other: Number) -> Expr:
        return self._new(self.arena.sub(self._with(other), self.id))

    def __mul__(self, other: Operand) -> Expr:
        return self._new(self.arena.mul(self.id, self._with(other)))

    def __rmul__(self, other: Number) -> Expr:
        return self * other

    def __truediv__(self, other: Operand) -> Expr:
        return self._new(self.arena.div(self.id, self._with(other)))

    def __rtruediv__(self, other: Number) -> Expr:
        return self._new(self.arena.div(self._with(other), self.id))

    def __neg__(self) -> Expr:
        return self._new(self.arena.neg(self.id))

    def __abs__(self) -> Expr:
        return self._new(self.arena.abs(self.id))

    def __pow__(self, other: Operand) -> Expr:
        """Whole powers up to 64 are products (quotients), 1/2 is a square root, anything else a power term."""
        if not isinstance(other, Expr):
            exponent = Fraction(other)
            if exponent.denominator == 1 and abs(exponent) <= _MAX_POWER:
                product = reduce(lambda x, y: x * y, [self] * abs(int(exponent)), self._new(ONE))
                return product if exponent >= 0 else 1 / product
            if exponent == Fraction(1, 2):
                return self._new(self.arena.sqrt(self.id))
        return self._new(self.arena.emit(Op.POW, self.id, self._with(other)))

    def __lt__(self, other: Operand) -> Expr:
        return self._new(self.arena.compare(Op.LT, self.id, self._with(other)))

    def __le__(self, other: Operand) -> Expr:
        return self._new(self.arena.compare(Op.LE, self.id, self._with(other)))

    def __gt__(self, other: Operand) -> Expr:
        return self._new(self.arena.compare(Op.LT, self._with(other), self.id))

    def __ge__(self, other: Operand) -> Expr:
        return self._new(self.arena.compare(Op.LE, self._with(other), self.id))

    def __bool__(self) -> bool:
        raise TypeError("a symbolic term has no truth value: use where(condition, a, b), maximum or minimum")

    def __repr__(self) -> str:
        return f"Expr({self.id})"


class Vector(Sequence[Expr]):
    """Terms with elementwise operators; a scalar operand stands for every element."""

    __slots__ = ("items",)

    def __init__(self, items: Iterable[Expr]) -> None:
        self.items = list(items)

    def __len__(self) -> int:
        return len(self.items)

    @overload
    def __getitem__(self, index: int) -> Expr: ...
    @overload
    def __getitem__(self, index: slice) -> Vector: ...
    def __getitem__(self, index: "int | slice") -> "Expr | Vector":
        return Vector(self.items[index]) if isinstance(index, slice) else self.items[index]

    def __iter__(self) -> Iterator[Expr]:
        return iter(self.items)

    def _zip(self, other: "Operand | Vector", apply: Callable[[Expr, Operand], Expr]) -> Vector:
        if not isinstance(other, Vector):
            return Vector(apply(x, other) for x in self.items)
        if len(other) != len(self):
            raise ValueError(f"vectors of {len(self)} and {len(other)} elements")
        return Vector(apply(x, y) for x, y in zip(self.items, other.items))

    def __add__(self, other: "Operand | Vector") -> Vector:
        return self._zip(other, lambda x, y: x + y)

    def __radd__(self, other: Operand) -> Vector:
        return self + other

    def __sub__(self, other: "Operand | Vector") -> Vector:
        return self._zip(other, lambda x, y: x - y)

    def __rsub__(self, other: Operand) -> Vector:
        return -self + other

    def __mul__(self, other: "Operand | Vector") -> Vector:
        return self._zip(other, lambda x, y: x * y)

    def __rmul__(self, other: Operand) -> Vector:
        return self * other

    def __truediv__(self, other: "Operand | Vector") -> Vector:
        return self._zip(other, lambda x, y: x / y)

    def __rtruediv__(self, other: Operand) -> Vector:
        return Vector(other / x for x in self.items)

    def __neg__(self) -> Vector:
        return Vector(-x for x in self.items)

    def __pow__(self, other: Operand) -> Vector:
        return Vector(x**other for x in self.items)

    def __repr__(self) -> str:
        return f"Vector({len(self)})"


def symbols(names: str, arena: Arena | None = None, fmt: str = "f32") -> "Value | tuple[Value, ...]":
    """Indeterminates: ``"x:16 y"`` makes a vector of 16 and a scalar in one (new) arena; one name gives its value alone."""
    arena = arena if arena is not None else Arena()
    made: list[Value] = []
    for item in names.replace(",", " ").split():
        name, _, count = item.partition(":")
        if not name.isidentifier() or (count and not count.isdigit()):
            raise ValueError(f"{item!r} is not NAME or NAME:COUNT")
        ids = np.asarray(arena.add_input(name, int(count or 1), fmt).ids(np.arange(int(count or 1))))
        elements = [Expr(arena, i) for i in ids.tolist()]
        made.append(Vector(elements) if count else elements[0])
    if not made:
        raise ValueError("no names")
    return made[0] if len(made) == 1 else tuple(made)


def _exact(value: Number) -> mpq:
    if isinstance(value, bool) or not isinstance(value, (int, float, Fraction)):
        raise TypeError(f"{value!r} is no exact number")
    fraction = Fraction(value)
    return mpq(fraction.numerator, fraction.denominator)


# --- functions -----------------------------------------------------------------------------------


def _mapped(function: Callable[[Expr], object]) -> "_Function":
    return _Function(function)


class _Function:
    """A unary function of a term, elementwise over a vector."""

    def __init__(self, function: Callable[[Expr], object]) -> None:
        self.function = function

    @overload
    def __call__(self, x: Expr) -> Expr: ...
    @overload
    def __call__(self, x: Vector) -> Vector: ...
    def __call__(self, x: Value) -> Value:
        if isinstance(x, Vector):
            return Vector(self(item) for item in x)
        result = self.function(x)
        return result if isinstance(result, Expr) else Expr(x.arena, int(result))  # type: ignore[call-overload]


exp = _mapped(lambda x: x.arena.exp(x.id))
exp2 = _mapped(lambda x: x.arena.exp2(x.id))
log = _mapped(lambda x: x.arena.log(x.id))
log2 = _mapped(lambda x: x.arena.log2(x.id))
sqrt = _mapped(lambda x: x.arena.sqrt(x.id))
rsqrt = _mapped(lambda x: 1 / sqrt(x))
tanh = _mapped(lambda x: x.arena.unary(Op.TANH, x.id))
sin = _mapped(lambda x: x.arena.unary(Op.SIN, x.id))
cos = _mapped(lambda x: x.arena.unary(Op.COS, x.id))
erf = _mapped(lambda x: x.arena.unary(Op.ERF, x.id))
floor = _mapped(lambda x: x.arena.unary(Op.FLOOR, x.id))
relu = _mapped(lambda x: x.arena.maximum(x.id, ZERO))
sigmoid = _mapped(lambda x: 1 / (1 + exp(-x)))
silu = _mapped(lambda x: x * sigmoid(x))


def _extreme(build: Callable[[Arena, int, int], object], items: "tuple[Operand | Vector, ...]") -> Expr:
    flat: list[Operand] = [y for x in items for y in (x if isinstance(x, Vector) else [x])]
    first = next((x for x in flat if isinstance(x, Expr)), None)
    if first is None:
        raise TypeError("a maximum or minimum needs a term")
    ids = [first._with(x) for x in flat]
    return Expr(first.arena, reduce(lambda x, y: int(build(first.arena, x, y)), ids))  # type: ignore[call-overload]


def maximum(*items: "Operand | Vector") -> Expr:
    """The largest of all terms, numbers and vector elements given."""
    return _extreme(lambda arena, x, y: arena.maximum(x, y), items)


def minimum(*items: "Operand | Vector") -> Expr:
    """The smallest of all terms, numbers and vector elements given."""
    return _extreme(lambda arena, x, y: arena.minimum(x, y), items)


def where(condition: Expr, yes: Operand, no: Operand) -> Expr:
    """``yes`` where the condition holds, else ``no``."""
    return Expr(condition.arena, int(np.asarray(condition.arena.select(condition.id, condition._with(yes), condition._with(no)))))


def total(x: Vector) -> Expr:
    """The sum of a vector."""
    return reduce(lambda a, b: a + b, x)


def mean(x: Vector) -> Expr:
    """The average of a vector."""
    return total(x) / len(x)


def dot(x: Vector, y: Vector) -> Expr:
    """The sum of products."""
    return total(x * y)


def softmax(x: Vector) -> Vector:
    """e^x over its sum, as written: without subtracting a maximum."""
    powers = exp(x)
    return powers / total(powers)


def logsumexp(x: Vector) -> Expr:
    """The natural logarithm of the sum of e^x."""
    return log(total(exp(x)))
