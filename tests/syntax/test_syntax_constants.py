"""Literals and constant expressions. Values marked ptxas were read from cubins that ptxas 13.0 made of the same text."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syntax_cases import HEADER, instruction, operand, parse_error, variable

from ptx_engine.syntax.ast import FloatLit, IntLit


def value(text: str) -> int:
    (found,) = variable(f".global .u64 x[1] = {{{text}}};").initializer
    assert isinstance(found, int)
    return found % (1 << 64)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0), ("10", 10), ("017", 15), ("0x1F", 31), ("0X1f", 31), ("0b101", 5), ("3U", 3), ("0x10U", 16), ("00", 0),
        ("18446744073709551615", 2**64 - 1), ("0xFFFFFFFFFFFFFFFF", 2**64 - 1),
        ("1 << 4 | 1", 17), ("2 + 3 * 4", 14), ("(2 + 3) * 4", 20), ("10 - 3 - 2", 5), ("1 ? 2 : 3", 2), ("0 ? 2 : 0 ? 4 : 5", 5),
        ("!5", 0), ("!0", 1), ("- - 5", 5), ("3 == 3 && 4 != 4 || 1", 1), ("6 & 3 ^ 1", 3), ("WARP_SZ - 1", 31),
    ],
)  # fmt: skip
def test_integers(text: str, expected: int) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "ptxas"),
    [
        ("-7 / 2", 2**64 - 3), ("-7 % 3", 0), ("0xff % -2", 255), ("7 % -3U", 7), ("-7 % 3 < 0", 0), ("5 % 3 - 4 < 0", 0),
        ("-1 < 1", 1), ("-1 < 1U", 0), ("-1 >> 1", 2**64 - 1), ("(-1 & -1) < 0", 1), ("!5 - 1 < 0", 1), ("(1 == 1) - 2 < 0", 1),
        ("~0x3 >= 5", 1), ("(0 ? 1U : -1) < 0", 1), ("-(1U) < 0", 0), ("(1U << 1) - 5 < 0", 0), ("(1 << 1U) - 5 < 0", 1),
        ("1 << 64", 1), ("1 << 2147483647", 2**63), ("9223372036854775808 < 0", 0), ("0x8000000000000000 - 1 < 0", 0),
        ("(.s64)0xFFFFFFFFFFFFFFFF < 0", 1), ("(.u64)-1 < 0", 0), ("1.0 < 2.0", 1),
    ],
)  # fmt: skip
def test_signedness_is_ptxas(text: str, ptxas: int) -> None:
    assert value(text) == ptxas


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=0))
def test_decimal_floats_are_doubles(number: float) -> None:
    text = repr(number)
    assert operand(text if "." in text or "e" in text else text + ".0") == FloatLit(int.from_bytes(struct.pack(">d", number), "big"), 64)


@pytest.mark.parametrize(("text", "number"), [(".5", 0.5), (".25e2", 25.0), ("1.", 1.0), ("1e3", 1000.0), (".0", 0.0)])
def test_points_without_digits_beside_them(text: str, number: float) -> None:
    for blank in (" ", " /* */ "):
        read = instruction(f"op %r,{blank}{text};").operands[1]
        assert read == FloatLit(int.from_bytes(struct.pack(">d", number), "big"), 64)
    assert parse_error(f"{HEADER}.entry k() {{ .reg .f64 %d; mov.f64 %d, {text}x; }}").span is not None


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1))
def test_bit_literals_are_exact(single: int, double: int) -> None:
    assert operand(f"0f{single:08x}") == FloatLit(single, 32)
    assert operand(f"0D{double:016X}") == FloatLit(double, 64)


@given(st.integers(-(2**63), 2**63 - 1))
def test_decimal_integers(number: int) -> None:
    found = operand(str(number))
    assert isinstance(found, IntLit)
    assert found.value % 2**64 == number % 2**64


def test_float_expressions() -> None:
    assert operand("1.5 + 2.0 * 3.0") == operand("7.5")
    assert operand("-1.5") == FloatLit(0xBFF8000000000000, 64)


@pytest.mark.parametrize(
    "text",
    ["09", "0x", "0b2", "1e", "0f3F80000", "0f3F8000000", "0d3FF", "12abc", "18446744073709551616", "9" * 5000, "1/0", "1%0", "1 +", "(1",
     "1 ? 2", "1.5 + 1", "0f3F800000 + 0f3F800000", "~1.5", "!1.5", "1.5 ? 1 : 2", "(.s64)1.5", "1.0 % 2.0", "-" * 200 + "1", "(" * 200],
)  # fmt: skip
def test_malformed(text: str) -> None:
    error = parse_error(f"{HEADER}.global .u64 x = {text};")
    assert error.span is not None
    assert error.span.line == 4
