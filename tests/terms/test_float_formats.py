"""Numbers into float formats: every bit pattern, NumPy and ml_dtypes as judges, and the edge between the largest number and infinity."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptx_engine.terms.constants import FLOAT_FORMATS, float_from_bits
from ptx_engine.terms.float_formats import float_bits, largest, number_bits, round_to_format, rounded_number

JUDGES = {
    "f16": np.float16, "f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16, "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
}  # fmt: skip
#: the least number that rounds to infinity: the largest one and half of its last place (a tie goes to the even neighbour)
BEYOND = {
    "f16": 65520.0, "f32": 3.4028235677973366e38, "bf16": 3.3961775292304601e38, "e5m2": 61440.0, "tf32": math.ldexp(4095, 116),
}  # fmt: skip


@pytest.mark.parametrize("fmt", ["f16", "bf16", "e4m3", "e5m2"])
def test_every_bit_pattern_is_its_number(fmt: str) -> None:
    for bits in range(1 << FLOAT_FORMATS[fmt][0]):
        value = float_from_bits(bits, fmt)
        if not math.isnan(value):
            assert number_bits(value, fmt) == bits, hex(bits)


@pytest.mark.parametrize("fmt", JUDGES)
def test_nan_stays_one(fmt: str) -> None:
    assert math.isnan(float_from_bits(number_bits(math.nan, fmt), fmt)) and math.isnan(rounded_number(math.nan, fmt))


@pytest.mark.parametrize("fmt", JUDGES)
@settings(max_examples=300, deadline=None)
@given(st.data())
def test_rounding_is_that_of_other_libraries(fmt: str, data: st.DataObject) -> None:
    """Subnormal numbers, too. ml_dtypes rounds floats of 32 bits, so that is what it is given."""
    width = 64 if fmt in ("f16", "f32", "f64") else 32
    most = largest(fmt) if fmt != "bf16" else float(np.float32(largest(fmt)))
    value = data.draw(st.floats(-most, most, width=width) | st.floats(-(2.0**-5), 2.0**-5, width=width))
    judged = np.array([value]).astype(np.float64 if width == 64 else np.float32).astype(JUDGES[fmt])
    bits = float_bits(np.array([value]), fmt)
    assert bits[0] == judged.view(bits.dtype)[0]
    assert rounded_number(value, fmt) == float(judged.astype(np.float64)[0])


@pytest.mark.parametrize("fmt", BEYOND)
def test_what_rounds_to_infinity_is_refused_and_what_rounds_to_the_largest_is_not(fmt: str) -> None:
    below = np.nextafter(BEYOND[fmt], 0)
    assert rounded_number(below, fmt) == largest(fmt) and rounded_number(-below, fmt) == -largest(fmt)
    for value in (BEYOND[fmt], -BEYOND[fmt], 10**400):
        with pytest.raises(OverflowError, match=f"beyond the largest {fmt}"):
            number_bits(value, fmt)
    assert rounded_number(math.inf, fmt) == math.inf


def test_e4m3_has_no_infinity() -> None:
    """A tie at 464 goes to 448; what is greater would be NaN's pattern."""
    assert rounded_number(464.0, "e4m3") == 448.0
    for value in (np.nextafter(464.0, 500), math.inf):
        with pytest.raises(OverflowError, match="e4m3"):
            number_bits(value, "e4m3")


def test_tf32_keeps_eleven_bits_in_a_word_of_f32() -> None:
    """1 + 2^-11 is a tie and goes to 1; 1 + 3 * 2^-11 goes to 1 + 2^-9 (bit 14 of the word)."""
    values = np.array([1.0, 1 + 2.0**-11, 1 + 3 * 2.0**-11, 1 + 2.0**-10])
    assert [hex(b) for b in float_bits(values, "tf32")] == ["0x3f800000", "0x3f800000", "0x3f804000", "0x3f802000"]


def test_bf16_is_rounded_once() -> None:
    """By way of f32 this one would round twice, to the even neighbour below."""
    value = 1 + 2.0**-8 + 2.0**-40
    assert number_bits(value, "bf16") == 0x3F81
    assert round_to_format(np.array([value]), "bf16")[0] == 1 + 2.0**-7
