"""Scalar arguments and concrete contents: the number that a type has for the one that is given, the same for every side."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from machine_kernels import module, run

from ptx_engine.errors import LaunchError
from ptx_engine.launch import Role, ScalarArg, TensorArg
from ptx_engine.machine.contents import Contents
from ptx_engine.terms import Arena


@pytest.mark.parametrize(
    ("dtype", "given", "held"),
    [
        ("f32", 0.1, 0.10000000149011612), ("f16", 1 / 3, 0.333251953125), ("bf16", 0.1, 0.10009765625), ("f64", 0.1, 0.1),
        ("e4m3", 0.3, 0.3125), ("f32", np.float64(0.1), 0.10000000149011612), ("f32", 3, 3.0), ("f32", -math.inf, -math.inf),
        ("s32", -1, -1), ("u32", -1, 2**32 - 1), ("s32", 2**32 - 1, -1), ("u8", 255, 255), ("s8", np.int64(-128), -128),
        ("u64", 2**64 - 1, 2**64 - 1), ("pred", True, 1), ("f32", "symbolic", "symbolic"),
    ],
)  # fmt: skip
def test_a_scalar_is_the_number_of_its_type(dtype: str, given: object, held: object) -> None:
    value = ScalarArg("a", dtype, given).value  # type: ignore[arg-type]
    assert value == held and type(value) is type(held)


@pytest.mark.parametrize(
    ("dtype", "given", "said"),
    [
        ("f32", 1e39, "1e+39 is no f32"), ("f16", 65520, "65520 is no f16"), ("bf16", 3.4e38, "3.4e+38 is no bf16"),
        ("f64", 10**400, "an integer of 1329 bits is no f64"), ("e4m3", math.inf, "inf is no e4m3"),
        ("s32", 2**32, "4294967296 is no s32"), ("s32", -(2**31) - 1, "-2147483649 is no s32"), ("u8", 256, "256 is no u8"),
        ("pred", 2, "2 is no pred"), ("pred", -1, "-1 is no pred"), ("s32", 1.0, "its value is 1.0"), ("s32", math.nan, "its value is nan"),
        ("f32", "one", "its value is 'one'"), ("f32", None, "its value is None"), ("u32", [1], "its value is [1]"),
        ("f33", 1, "unknown dtype 'f33'"),
    ],
)  # fmt: skip
def test_a_scalar_that_its_type_has_not_is_refused_by_name(dtype: str, given: object, said: str) -> None:
    with pytest.raises(LaunchError, match=re.escape(said)) as raised:
        ScalarArg("a", dtype, given)  # type: ignore[arg-type]
    assert "argument a" in raised.value.message and raised.value.hint


def test_arguments_of_equal_numbers_are_equal() -> None:
    assert ScalarArg("a", "f32", math.nan) == ScalarArg("a", "f32", float("nan"))
    assert ScalarArg("a", "f32", 0.1) == ScalarArg("a", "f32", float(np.float32(0.1)))
    assert ScalarArg("a", "f64", 0.1) != ScalarArg("a", "f64", float(np.float32(0.1)))


#: the parameter's bits are stored as they are
STORE = {2: "ld.param.b16 %h1, [a]; cvt.u32.u16 %r1, %h1;", 4: "ld.param.b32 %r1, [a];"}


@pytest.mark.parametrize(
    ("dtype", "kind", "size", "value", "bits"),
    [
        ("f32", "f32", 4, 3.4028235e38, 0x7F7FFFFF), ("f32", "f32", 4, 0.1, 0x3DCCCCCD), ("tf32", "f32", 4, 0.1, 0x3DCCC000),
        ("f16", "f16", 2, 65504, 0x7BFF), ("bf16", "bf16", 2, 0.1, 0x3DCD), ("bf16", "b16", 2, -1.0, 0xBF80),
    ],
)  # fmt: skip
def test_a_kernel_reads_a_scalar_as_the_bits_of_its_type(dtype: str, kind: str, size: int, value: float, bits: int) -> None:
    """Any comparison of integers holds the bits concretely: the store happens only if they are these."""
    body = f"ld.param.u64 %d1, [out]; {STORE[size]} setp.eq.u32 %p1, %r1, {bits}; @%p1 st.global.u32 [%d1], %r1;"
    out = TensorArg("out", "u32", (1,), Role.OUT)
    text = module(body, params=("u64 out", f"{kind} a"))
    found, _ = run(text, [out, ScalarArg("a", dtype, value)], block=1)
    assert found.footprints["out"].index.tolist() == [0]
    other, _ = run(text, [out, ScalarArg("a", dtype, value / 2)], block=1)
    assert other.footprints["out"].index.tolist() == []


def test_a_scalar_of_another_width_than_its_parameter_is_refused() -> None:
    text = module("ld.param.u64 %d1, [out]; ld.param.f32 %f1, [a]; st.global.f32 [%d1], %f1;", params=("u64 out", "f32 a"))
    with pytest.raises(LaunchError, match="argument a is f64, but parameter a is f32"):
        run(text, [TensorArg("out", "f32", (1,), Role.OUT), ScalarArg("a", "f64", 1.0)], block=1)


# --- contents ---------------------------------------------------------------------------------------


def constants(dtype: str, contents: np.ndarray, index: list[int]) -> list[float]:
    arena = Arena()
    ids = Contents(TensorArg("x", dtype, (len(contents),), contents=contents), arena).ids(np.array(index))
    return [float(arena.consts[i].coef) for i in ids]


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "tf32", "f64", "e4m3", "e5m2"])
def test_contents_of_every_float_type_are_read(dtype: str) -> None:
    """0.75 and -2 have few enough bits for each; 0.3 becomes what the type has for it."""
    held = {"f16": 0.300048828125, "bf16": 0.30078125, "f32": 0.30000001192092896, "tf32": 0.300048828125, "f64": 0.3,
            "e4m3": 0.3125, "e5m2": 0.3125}[dtype]  # fmt: skip
    assert constants(dtype, np.array([0.75, -2.0, 0.3]), [2, 0, 1, 0]) == [held, 0.75, -2.0, 0.75]


def test_contents_of_unsigned_types_are_no_negative_numbers() -> None:
    assert constants("u64", np.array([2**64 - 1], np.uint64), [0]) == [float(2**64 - 1)]
    assert constants("u32", np.array([-1], np.int64), [0]) == [2**32 - 1]
    assert constants("s32", np.array([2**32 - 1], np.uint64), [0]) == [-1]


def test_contents_beyond_their_type_are_refused_when_they_are_read() -> None:
    contents = np.array([1.0, 1e39])
    assert constants("f32", contents, [0]) == [1.0]
    with pytest.raises(LaunchError, match="contents of x: a value is beyond the largest f32"):
        constants("f32", contents, [1])
    with pytest.raises(LaunchError, match="2 contents for 3 elements"):
        Contents(TensorArg("x", "f32", (3,), contents=contents), Arena())


def test_constants_are_made_for_what_is_read() -> None:
    """A million elements, of which three are read (two of them equal)."""
    arena = Arena()
    before = len(arena.consts)
    contents = Contents(TensorArg("x", "s32", (1_000_000,), contents=np.arange(1_000_000) // 2), arena)
    index = np.array([999_999, 500, 999_998])
    for _ in range(2):
        assert [int(arena.consts[i].coef) for i in contents.ids(index)] == [499_999, 250, 499_999]
    assert len(arena.consts) == before + 2
