"""Float instructions over the reals: the term of each, evaluated, is the real function; NaN and infinite constants follow the ISA."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from one_instruction import kernel

from ptx_engine.decide.oracle import Reals
from ptx_engine.errors import NotStructuredError
from ptx_engine.launch import Launch, Role, ScalarArg, TensorArg, bind
from ptx_engine.machine import execute
from ptx_engine.syntax import parse
from ptx_engine.terms import NAN, NEG_INF, POS_INF, ZERO, Arena

COUNT = 40
BYTES = {"f16": 2, "f32": 4, "f64": 8, "s32": 4, "u32": 4, "bf16": 2}


def terms(text: str, sources: int, kind: str = "f32", out: str = "") -> tuple[Arena, np.ndarray]:
    """The arena and the term of each thread's result, for symbolic inputs ``x0 x1 x2``."""
    out = out or kind
    args = [TensorArg(f"x{i}", kind, (COUNT,), Role.IN) for i in range(sources)]
    launch = Launch((1, 1, 1), (COUNT, 1, 1), (*args, TensorArg("d", out, (COUNT,), Role.OUT), ScalarArg("n", "u32", COUNT)))
    arena = Arena()
    ptx = kernel(text, [BYTES[kind]] * sources, [BYTES[out]])
    execution = execute(parse(ptx), None, bind(launch, arena))
    assert not execution.findings
    return arena, execution.footprints["d"].ids


def evaluate(arena: Arena, ids: np.ndarray, values: list[np.ndarray]) -> np.ndarray:
    """Real values of the terms at given inputs."""

    def inputs(wanted: np.ndarray) -> np.ndarray:
        flat = -1 - wanted.astype(np.int64)
        return np.array([[values[i // COUNT][i % COUNT]] for i in flat]).reshape(len(flat), 1)

    return np.asarray(Reals(arena, ids, inputs).of(ids)[:, 0])


def xorsign(pick: Callable[[float, float], float]) -> Callable[[float, float], float]:
    return lambda x, y: pick(abs(x), abs(y)) * (-1 if (x < 0) != (y < 0) else 1)


#: instruction -> the real function
MEANING: dict[str, Callable[..., float]] = {
    "add.rz.f32 d0, a0, a1;": lambda x, y: x + y,
    "sub.ftz.f32 d0, a0, a1;": lambda x, y: x - y,
    "mul.rm.f32 d0, a0, a1;": lambda x, y: x * y,
    "fma.rp.f32 d0, a0, a1, a2;": lambda x, y, z: x * y + z,
    "mad.rn.f32 d0, a0, a1, a2;": lambda x, y, z: x * y + z,
    "div.full.f32 d0, a0, a1;": lambda x, y: x / y,
    "rcp.approx.f32 d0, a0;": lambda x: 1 / x,
    "neg.f32 d0, a0;": lambda x: -x,
    "abs.f32 d0, a0;": abs,
    "ex2.approx.ftz.f32 d0, a0;": lambda x: 2.0**x,
    "sin.approx.f32 d0, a0;": math.sin,
    "cos.approx.f32 d0, a0;": math.cos,
    "tanh.approx.f32 d0, a0;": math.tanh,
    "abs.f32 d0, a0; lg2.approx.f32 d0, d0;": lambda x: math.log2(abs(x)),
    "abs.f32 d0, a0; sqrt.rn.f32 d0, d0;": lambda x: math.sqrt(abs(x)),
    "abs.f32 d0, a0; rsqrt.approx.f32 d0, d0;": lambda x: abs(x) ** -0.5,
    "add.sat.f32 d0, a0, a1;": lambda x, y: min(max(x + y, 0), 1),
    "fma.rn.sat.f32 d0, a0, a1, a2;": lambda x, y, z: min(max(x * y + z, 0), 1),
    "min.f32 d0, a0, a1;": min,
    "max.NaN.f32 d0, a0, a1;": max,
    "max.f32 d0, a0, a1, a2;": max,
    "min.NaN.f32 d0, a0, a1, a2;": min,
    "max.abs.f32 d0, a0, a1, a2;": lambda x, y, z: max(abs(x), abs(y), abs(z)),
    "min.xorsign.abs.f32 d0, a0, a1;": xorsign(min),
    "max.NaN.xorsign.abs.f32 d0, a0, a1;": xorsign(max),
    "min.xorsign.abs.f32 d0, a0, 0f3F000000;": lambda x: min(max(x, -0.5), 0.5),
    "min.NaN.xorsign.abs.f32 d0, 0f3F000000, a0;": lambda x: min(max(x, -0.5), 0.5),
    "copysign.f32 d0, a0, a1;": lambda x, y: math.copysign(y, x),
    "cvt.rni.f32.f32 d0, a0;": round,
    "cvt.rzi.f32.f32 d0, a0;": math.trunc,
    "cvt.rmi.f32.f32 d0, a0;": math.floor,
    "cvt.rpi.sat.f32.f32 d0, a0;": lambda x: min(max(math.ceil(x), 0), 1),
    "cvt.rna.tf32.f32 d0, a0;": lambda x: x,
    "cvt.sat.f32.f32 d0, a0;": lambda x: min(max(x, 0), 1),
    "set.lt.f32.f32 d0, a0, a1;": lambda x, y: x < y,
    "set.geu.f32.f32 d0, a0, a1;": lambda x, y: x >= y,
    "setp.gt.f32 %p3, a0, a1; selp.f32 d0, a0, a1, %p3;": max,
    "slct.f32.f32 d0, a0, a1, a2;": lambda x, y, z: x if z >= 0 else y,
    "setp.ltu.f32 %p3, a0, 0f00000000; selp.f32 d0, 0f3F800000, 0f40000000, %p3;": lambda x: 1 if x < 0 else 2,
    "setp.lt.f32 %p2, a0, a1; setp.lt.xor.f32 %p3, a1, a2, %p2; selp.f32 d0, a0, a1, %p3;": lambda x, y, z: x if (x < y) != (y < z) else y,
}


@pytest.mark.parametrize("text", list(MEANING))
def test_meaning(text: str) -> None:
    sources = 3 if "a2" in text else 2 if "a1" in text else 1
    arena, ids = terms(text, sources)
    rng = np.random.default_rng(1)
    values = [rng.uniform(-3, 3, COUNT) for _ in range(sources)]
    wanted = [float(MEANING[text](*row)) for row in zip(*values)]
    assert np.allclose(evaluate(arena, ids, values), wanted, rtol=1e-12, atol=1e-12)


def test_packed_halves_and_conversions() -> None:
    rng = np.random.default_rng(2)
    values = [rng.uniform(-3, 3, COUNT) for _ in range(2)]
    text = "mov.b32 %q0, {a0, a1}; fma.rn.relu.f16x2 %q1, %q0, %q0, %q0; mov.b32 {_, d0}, %q1;"
    arena, ids = terms(".reg .b32 %q<2>; " + text, 2, "f16")
    y = values[1]
    assert np.allclose(evaluate(arena, ids, values), np.maximum(y * y + y, 0))
    arena, ids = terms(".reg .b32 %q; cvt.rn.satfinite.f16x2.f32 %q, a0, a1; .reg .b16 %h; mov.b32 {_, %h}, %q; cvt.f32.f16 d0, %h;", 2)
    assert np.allclose(evaluate(arena, ids, [values[0] * 1e6, y]), np.clip(values[0] * 1e6, -65504, 65504))
    arena, ids = terms("cvt.rni.s32.f32 d0, a0;", 1, "f32", "s32")
    assert np.array_equal(evaluate(arena, ids, [values[0] * 1e10]), np.clip(np.rint(values[0] * 1e10), -(2**31), 2**31 - 1))
    arena, ids = terms("cvt.rn.f32.s32 d0, a0;", 1, "s32", "f32")
    whole = np.rint(values[0] * 1000)
    assert np.array_equal(evaluate(arena, ids, [whole]), whole)


NAN_BITS, INF_BITS = "0f7FC00000", "0f7F800000"
#: instruction with a special constant -> the constant it gives, or "x" for the symbolic operand
SPECIAL: dict[str, "int | str"] = {
    f"max.f32 d0, a0, {NAN_BITS};": "x",
    f"max.NaN.f32 d0, a0, {NAN_BITS};": NAN,
    f"min.NaN.f32 d0, {NAN_BITS}, a0;": NAN,
    f"min.f32 d0, a0, {INF_BITS};": "x",
    f"max.f32 d0, a0, {INF_BITS};": POS_INF,
    f"neg.f32 d0, {INF_BITS};": NEG_INF,
    f"add.f32 d0, a0, {INF_BITS};": POS_INF,
    f"add.f32 d0, a0, {NAN_BITS};": NAN,
    f"add.sat.f32 d0, a0, {NAN_BITS};": ZERO,
    f"cvt.sat.f32.f32 d0, {NAN_BITS};": ZERO,
    f"max.NaN.f32 d0, a0, {NAN_BITS}, a0;": NAN,
    f"ex2.approx.f32 d0, {INF_BITS};": POS_INF,
    f"min.NaN.xorsign.abs.f32 d0, {NAN_BITS}, 0f3F800000;": NAN,
    f"rcp.rn.f32 d0, {INF_BITS};": ZERO,
    f"sqrt.rn.f32 d0, {INF_BITS};": POS_INF,
}


@pytest.mark.parametrize("text", list(SPECIAL))
def test_special_constants(text: str) -> None:
    _, ids = terms(text, 1)
    wanted = SPECIAL[text]
    assert ids.tolist() == ([-1 - i for i in range(COUNT)] if wanted == "x" else [wanted] * COUNT)


@pytest.mark.parametrize(
    ("cmp", "holds"),
    [
        ("eq", 0),
        ("ne", 0),
        ("lt", 0),
        ("ge", 0),
        ("equ", 1),
        ("neu", 1),
        ("ltu", 1),
        ("leu", 1),
        ("gtu", 1),
        ("geu", 1),
        ("num", 0),
        ("nan", 1),
    ],
)
def test_comparisons_with_a_nan_constant(cmp: str, holds: int) -> None:
    for operands in (f"a0, {NAN_BITS}", f"{NAN_BITS}, a0"):
        _, ids = terms(f"setp.{cmp}.f32 %p3, {operands}; selp.f32 d0, 0f3F800000, 0f00000000, %p3;", 1)
        assert ids.tolist() == [holds] * COUNT


@pytest.mark.parametrize(("prop", "holds"), [("finite", 1), ("infinite", 0), ("number", 1), ("notanumber", 0)])
def test_data_are_finite_numbers(prop: str, holds: int) -> None:
    _, ids = terms(f"testp.{prop}.f32 %p3, a0; selp.f32 d0, 0f3F800000, 0f00000000, %p3;", 1)
    assert ids.tolist() == [holds] * COUNT
    _, ids = terms(f"testp.{prop}.f32 %p3, {INF_BITS}; selp.f32 d0, 0f3F800000, 0f00000000, %p3;", 1)
    assert ids.tolist() == [int(prop in ("infinite", "number"))] * COUNT


def test_subnormal_is_no_property_of_a_real_number() -> None:
    with pytest.raises(NotStructuredError, match="subnormal"):
        terms("testp.subnormal.f32 %p3, a0; selp.f32 d0, 0f3F800000, 0f00000000, %p3;", 1)


@pytest.mark.parametrize(
    ("name", "kind", "wanted"),
    [("f32", "s32", 0), ("f32", "u16", 0), ("f64", "s32", -(2**31)), ("f64", "u32", 2**31), ("f32", "s64", -(2**63))],
)
def test_nan_as_an_integer(name: str, kind: str, wanted: int) -> None:
    """The same table in both modes: 0 below 64 bits, else the top bit."""
    nan = "0d7FF8000000000000" if name == "f64" else NAN_BITS
    arena, ids = terms(f".reg .b{kind[1:]} %i; cvt.rni.{kind}.{name} %i, {nan}; cvt.rn.f64.{kind} d0, %i;", 1, "f64")
    assert float(arena.consts[int(ids[0])].value()) == wanted


def test_signs_of_concrete_zeros_are_their_bits() -> None:
    """-0 as a constant is negative: what copysign(-0, x) is for."""
    values = [np.linspace(-2, 2, COUNT)]
    arena, ids = terms("copysign.f32 d0, 0f80000000, a0;", 1)
    assert np.array_equal(evaluate(arena, ids, values), -np.abs(values[0]))
    arena, ids = terms("max.xorsign.abs.f32 d0, a0, 0f80000000;", 1)
    assert np.array_equal(evaluate(arena, ids, values), -values[0])
    arena, ids = terms("copysign.f32 d0, 0f00000000, a0;", 1)
    assert np.array_equal(evaluate(arena, ids, values), np.abs(values[0]))


def test_copied_signs_of_zero_stand_in_the_ledger() -> None:
    arena, _ = terms("copysign.f32 d0, a0, a1;", 2)
    assert any("sign is copied" in line for line in arena.assumptions)
    arena, _ = terms("add.f32 d0, a0, a1;", 2)
    assert not any("sign is copied" in line for line in arena.assumptions)


def test_floats_pass_through_integer_conversions() -> None:
    """bf16 -> f32 as older compilers write it: widen the bits, shift them up; and back: shift down, narrow."""
    values = [np.linspace(-3, 3, COUNT)]
    text = ".reg .b32 %w; cvt.u32.u16 %w, a0; shl.b32 %w, %w, 16; mul.f32 %w, %w, %w; cvt.rn.bf16.f32 d0, %w;"
    arena, ids = terms(text, 1, "bf16")
    assert np.allclose(evaluate(arena, ids, values), values[0] ** 2)
    with pytest.raises(NotStructuredError, match="cvt"):
        terms(text.replace("cvt.u32.u16", "cvt.s32.s16"), 1, "bf16")
    text = ".reg .b16 %h; cvt.u16.u32 %h, %p; mov.b32 {_, %h}, %p; mov.b16 d0, %h;".replace("%p", "%q")
    arena, ids = terms(".reg .b32 %q; mov.b32 %q, {a0, a0}; " + text, 1, "f16")
    assert ids.tolist() == [-1 - i for i in range(COUNT)]
