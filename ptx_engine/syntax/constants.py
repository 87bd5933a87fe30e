"""Literals and constant expressions, folded as PTX ISA 9.1 says (section "Constant Expressions").

Integers are 64 bits wide, signed unless suffixed ``U``, cast or too large; ``0f``/``0d`` literals keep their bits and take
part in no arithmetic but negation.
"""

from __future__ import annotations

import re
import struct
from math import inf
from typing import Union

from ptx_engine.syntax.ast import FloatLit
from ptx_engine.syntax.lexer import Cursor

_MASK = (1 << 64) - 1
#: longest accepted literal: 64 binary digits and prefix, some leading zeros
_MAX_DIGITS = 100
_INT = re.compile(r"(?:0[xX](?P<hex>[0-9a-fA-F]++)|0[bB](?P<bin>[01]++)|(?P<oct>0[0-7]*+)|(?P<dec>[1-9][0-9]*+))(?P<u>U?)")
_BITS = re.compile(r"0[fF]([0-9a-fA-F]{8})|0[dD]([0-9a-fA-F]{16})")
_BASES = {"hex": 16, "bin": 2, "oct": 8, "dec": 10}

_PRECEDENCE = {
    "||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, "<=": 7, ">": 7, ">=": 7,
    "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10,
}  # fmt: skip
_ADDITIVE = 9


class Integer:
    """A 64-bit constant: the value as a Python int within its type's range."""

    __slots__ = ("unsigned", "value")

    def __init__(self, value: int, unsigned: bool) -> None:
        value &= _MASK
        self.unsigned = unsigned
        self.value = value if unsigned or value < 1 << 63 else value - (1 << 64)


Constant = Union[Integer, FloatLit]


def number(text: str) -> Constant | None:
    """A numeric literal, or None where it is malformed or wider than 64 bits."""
    if len(text) > _MAX_DIGITS:
        return None
    bits = _BITS.fullmatch(text)
    if bits:
        return FloatLit(int(bits[1], 16), 32) if bits[1] else FloatLit(int(bits[2], 16), 64)
    match = _INT.fullmatch(text)
    if match is None:
        return None
    base = next(name for name in _BASES if match[name] is not None)
    value = int(match[base], _BASES[base])
    if value > _MASK:
        return None
    return Integer(value, bool(match["u"]) or value >= 1 << 63)


def double(value: float) -> FloatLit:
    """A float as a 64-bit literal."""
    return FloatLit(int.from_bytes(struct.pack(">d", value), "big"), 64)


def single(literal: FloatLit) -> FloatLit:
    """A literal rounded to 32 bits, to the nearest even; a 32-bit one as it is."""
    if literal.width == 32:
        return literal
    value = as_float(literal)
    try:
        raw = struct.pack(">f", value)
    except OverflowError:
        raw = struct.pack(">f", inf if value > 0 else -inf)
    return FloatLit(int.from_bytes(raw, "big"), 32)


def as_float(literal: FloatLit) -> float:
    """The value of a literal's bits."""
    raw: float
    if literal.width == 32:
        (raw,) = struct.unpack(">f", literal.bits.to_bytes(4, "big"))
    else:
        (raw,) = struct.unpack(">d", literal.bits.to_bytes(8, "big"))
    return raw


def expression(cursor: Cursor, least: int = 1) -> Constant:
    """A constant expression whose binary operators bind at least as tightly as ``least``; ``?:`` where that is 1."""
    cursor.enter()
    start = cursor.start
    left = _unary(cursor)
    while cursor.kind == "punct" and _PRECEDENCE.get(cursor.value, 0) >= least:
        operator = cursor.advance()
        right = expression(cursor, _PRECEDENCE[operator] + 1)
        left = _binary(cursor, operator, left, right, start)
    if least == 1 and cursor.kind == "punct" and cursor.value == "?":
        left = _conditional(cursor, left, start)
    cursor.leave()
    return left


def offset(cursor: Cursor) -> int:
    """The sum of ``+ constant`` and ``- constant`` terms that follow a symbol; 0 if there are none."""
    total = 0
    while cursor.kind == "punct" and cursor.value in ("+", "-"):
        sign = 1 if cursor.advance() == "+" else -1
        total += sign * integer(cursor, _ADDITIVE + 1)
    return Integer(total, False).value


def integer(cursor: Cursor, least: int = 1) -> int:
    """A constant expression that must be an integer."""
    start = cursor.start
    value = expression(cursor, least)
    if isinstance(value, FloatLit):
        cursor.fail("expected an integer, found a floating-point number", start=start)
    return value.value


def _conditional(cursor: Cursor, condition: Constant, start: int) -> Constant:
    cursor.expect("?")
    if isinstance(condition, FloatLit):
        cursor.fail("the condition of ?: must be an integer", start=start)
    first = expression(cursor)
    cursor.expect(":", "of the conditional expression")
    second = expression(cursor)
    return first if condition.value else second


def _unary(cursor: Cursor) -> Constant:
    if cursor.kind in ("int", "float") or (cursor.kind == "ident" and cursor.value == "WARP_SZ"):
        return _literal(cursor)
    if cursor.kind != "punct" or cursor.value not in "+-~!(":
        cursor.fail(f"expected an operand, found {cursor.shown()}")
    cursor.enter()
    start, operator = cursor.start, cursor.advance()
    value = _parenthesised(cursor) if operator == "(" else _apply(cursor, operator, _unary(cursor), start)
    cursor.leave()
    return value


def _literal(cursor: Cursor) -> Constant:
    if cursor.kind == "float":
        return double(float(cursor.advance()))
    if cursor.kind == "ident":
        cursor.advance()
        return Integer(32, False)
    value = number(cursor.value)
    if value is None:
        cursor.fail(
            f"malformed number {cursor.shown()}",
            "integers have at most 64 bits; 0x, 0b and 0 prefix hexadecimal, binary and octal; 0f takes 8 and 0d 16 hexadecimal digits",
        )
    cursor.advance()
    return value


def _parenthesised(cursor: Cursor) -> Constant:
    """What follows ``(``: a cast of a unary expression, or an expression in parentheses."""
    if cursor.kind == "directive" and cursor.value in (".s64", ".u64"):
        start, unsigned = cursor.start, cursor.advance() == ".u64"
        cursor.expect(")", "after the cast")
        value = _unary(cursor)
        if isinstance(value, FloatLit):
            cursor.fail("a floating-point number cannot be cast", start=start)
        return Integer(value.value, unsigned)
    value = expression(cursor)
    cursor.expect(")")
    return value


def _apply(cursor: Cursor, operator: str, value: Constant, start: int) -> Constant:
    if isinstance(value, FloatLit):
        if operator in "~!":
            cursor.fail(f"{operator!r} takes an integer", start=start)
        return FloatLit(value.bits ^ (1 << (value.width - 1)), value.width) if operator == "-" else value
    if operator == "!":
        return Integer(int(not value.value), False)
    results = {"+": value.value, "-": -value.value, "~": ~value.value}
    return Integer(results[operator], value.unsigned or operator == "~")


def _binary(cursor: Cursor, operator: str, left: Constant, right: Constant, start: int) -> Constant:
    result: Constant | None
    if isinstance(left, Integer) and isinstance(right, Integer):
        result = _integers(operator, left, right)
    elif isinstance(left, FloatLit) and isinstance(right, FloatLit) and left.width == right.width == 64:
        result = _floats(operator, as_float(left), as_float(right))
    else:
        cursor.fail("a constant expression mixes integers and floating-point numbers, or uses 0f bits", start=start)
    if result is None:
        cursor.fail(f"{operator!r} cannot be evaluated here (division by zero, or not defined for floating point)", start=start)
    return result


def _integers(operator: str, left: Integer, right: Integer) -> Integer | None:
    """Fold one operator as ptxas does: shifts keep the left type and count modulo 64, ``%`` is unsigned, logical operators and
    comparisons are signed, the rest is unsigned if a side is."""
    unsigned = left.unsigned or right.unsigned or operator == "%"
    if operator in ("<<", ">>"):
        count = right.value & 63
        return Integer(left.value << count if operator == "<<" else left.value >> count, left.unsigned)
    if operator in ("&&", "||"):
        both = (bool(left.value), bool(right.value))
        return Integer(int(all(both) if operator == "&&" else any(both)), False)
    a, b = Integer(left.value, unsigned).value, Integer(right.value, unsigned).value
    if operator in ("/", "%"):
        if b == 0:
            return None
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        return Integer(quotient if operator == "/" else a - b * quotient, unsigned)
    compared = _compare(operator, a, b)
    if compared is not None:
        return Integer(int(compared), False)
    return Integer({"+": a + b, "-": a - b, "*": a * b, "&": a & b, "|": a | b, "^": a ^ b}[operator], unsigned)


def _floats(operator: str, a: float, b: float) -> Constant | None:
    compared = _compare(operator, a, b)
    if compared is not None:
        return Integer(int(compared), False)
    if operator == "/" and b != 0:
        return double(a / b)
    if operator in ("+", "-", "*"):
        return double({"+": a + b, "-": a - b, "*": a * b}[operator])
    return None


def _compare(operator: str, a: float, b: float) -> bool | None:
    results = {"==": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}
    return results.get(operator)
