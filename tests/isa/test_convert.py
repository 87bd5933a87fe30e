"""cvt and cvt.pack: every pair of types against MPFR, Python integers and ml_dtypes, and the ISA's special cases."""

from __future__ import annotations

import math
from fractions import Fraction

import gmpy2
import ml_dtypes
import numpy as np
import pytest
from float_model import FORMATS, ROUND, Format, close_pairs, specials
from hypothesis import given, settings
from hypothesis import strategies as st
from one_instruction import run_one

from ptx_engine import emulate
from ptx_engine.errors import PtxError
from ptx_engine.launch import Launch, Role, TensorArg, bind
from ptx_engine.machine import execute
from ptx_engine.syntax import parse
from ptx_engine.terms import Arena

INTS = [f"{k}{b}" for k in "us" for b in (8, 16, 32, 64)]
UINT = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
MODES = ("rn", "rz", "rm", "rp")


def sample(fmt: Format, seed: int = 0, count: int = 300) -> np.ndarray:
    return np.concatenate([specials(fmt), close_pairs(fmt, np.random.default_rng(seed), count)])


def int_range(kind: str) -> tuple[int, int]:
    bits = int(kind[1:])
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)


# --- float to float -------------------------------------------------------------------------------------------


def converted(source: Format, target: Format, rnd: str, bits: int) -> int:
    value = gmpy2.mpfr(source.value(bits), 53)
    with gmpy2.context(target.context(rnd)):
        return target.bits(+value)


@pytest.mark.parametrize("rnd", MODES)
@pytest.mark.parametrize(("source", "target"), [(s, t) for s in FORMATS for t in FORMATS if s != t])
def test_float_to_float(source: str, target: str, rnd: str) -> None:
    a, b = FORMATS[source], FORMATS[target]
    x = sample(a)
    widens = (source, target) in (("f16", "f32"), ("f16", "f64"), ("f32", "f64"))
    if widens and rnd != MODES[0]:
        return
    got = run_one(f"cvt.{'' if widens else rnd + '.'}{target}.{source} d0, a0;", [x], b.uint)
    for bits, result in zip(x, got):
        wanted = converted(a, b, rnd, int(bits))
        assert result == wanted or (target == "f64" and math.isnan(b.value(wanted))), (hex(bits), hex(result), hex(wanted))


def test_widening_needs_no_rounding_modifier() -> None:
    assert run_one("cvt.f32.f16 d0, a0;", [np.array([0x3C00, 0xFC00, 1], np.uint16)], np.uint32).tolist() == [
        0x3F800000,
        0xFF800000,
        0x33800000,
    ]
    assert run_one("cvt.f64.f32 d0, a0;", [np.array([0x3F800000, 1], np.uint32)], np.uint64).tolist() == [
        0x3FF0000000000000,
        0x36A0000000000000,
    ]
    assert run_one("cvt.f32.bf16 d0, a0;", [np.array([0x3F80, 1], np.uint16)], np.uint32).tolist() == [0x3F800000, 0x00010000]


@pytest.mark.parametrize(("word", "function"), [("rni", np.rint), ("rzi", np.trunc), ("rmi", np.floor), ("rpi", np.ceil)])
@pytest.mark.parametrize("name", ["f32", "f64", "f16"])
def test_integral_rounding(name: str, word: str, function: np.ufunc) -> None:
    fmt = FORMATS[name]
    x = sample(fmt)
    got = run_one(f"cvt.{word}.{name}.{name} d0, a0;", [x], fmt.uint).view(fmt.dtype)
    with np.errstate(invalid="ignore"):  # NaN among the inputs
        wanted = function(x.view(fmt.dtype))
    assert np.array_equal(got, wanted, equal_nan=True)
    assert np.array_equal(np.signbit(got)[~np.isnan(got)], np.signbit(wanted)[~np.isnan(wanted)])


#: form -> rows of source and result bits
CASES: dict[str, tuple[type, type, list[tuple[int, int]]]] = {
    "cvt.sat.f32.f32 d0, a0;": (np.uint32, np.uint32, [(0x40000000, 0x3F800000), (0xBF800000, 0), (0x7FC00000, 0), (0x80000000, 0),
        (0x3F000000, 0x3F000000)]),
    "cvt.rn.sat.f16.f32 d0, a0;": (np.uint32, np.uint16, [(0x40000000, 0x3C00), (0x7FC00000, 0), (0x3F000000, 0x3800)]),
    "cvt.ftz.f32.f32 d0, a0;": (np.uint32, np.uint32, [(1, 0), (0x80000001, 0x80000000), (0x00800000, 0x00800000)]),
    "cvt.rn.ftz.f16.f32 d0, a0;": (np.uint32, np.uint16, [(0x80000001, 0x8000), (0x33800000, 1)]),
    "cvt.ftz.f32.f16 d0, a0;": (np.uint16, np.uint32, [(1, 0x33800000)]),
    "cvt.rn.ftz.f32.f64 d0, a0;": (np.uint64, np.uint32, [(0x36A0000000000000, 0), (0x3FF0000000000000, 0x3F800000)]),
    "cvt.rpi.ftz.f32.f32 d0, a0;": (np.uint32, np.uint32, [(1, 0), (0x3F000000, 0x3F800000)]),
    "cvt.rn.relu.f16.f32 d0, a0;": (np.uint32, np.uint16, [(0xBF800000, 0), (0x3F800000, 0x3C00), (0x7FC00000, 0x7FFF)]),
    "cvt.rz.relu.bf16.f32 d0, a0;": (np.uint32, np.uint16, [(0xBF800000, 0), (0x3F80FFFF, 0x3F80), (0xFFC00000, 0x7FFF)]),
    "cvt.rn.satfinite.f16.f32 d0, a0;": (np.uint32, np.uint16, [(0x7F800000, 0x7BFF), (0xC7800000, 0xFBFF), (0x7FC00000, 0x7FFF)]),
    "cvt.rn.relu.satfinite.bf16.f32 d0, a0;": (np.uint32, np.uint16, [(0x7F800000, 0x7F7F), (0xFF800000, 0)]),
    "cvt.rn.f16.f32 d0, a0;": (np.uint32, np.uint16, [(0x477FF000, 0x7C00), (0x477FEFFF, 0x7BFF), (0x33000000, 0), (0x33000001, 1)]),
    # tf32 keeps ten stored fraction bits
    "cvt.rna.tf32.f32 d0, a0;": (np.uint32, np.uint32, [(0x3F801000, 0x3F802000), (0x3F800FFF, 0x3F800000), (0xBF801000, 0xBF802000)]),
    "cvt.rn.tf32.f32 d0, a0;": (np.uint32, np.uint32, [(0x3F801000, 0x3F800000), (0x3F803000, 0x3F804000)]),
    "cvt.rz.relu.tf32.f32 d0, a0;": (np.uint32, np.uint32, [(0x3F803FFF, 0x3F802000), (0xBF800000, 0)]),
    "cvt.rna.satfinite.tf32.f32 d0, a0;": (np.uint32, np.uint32, [(0x7F800000, 0x7F7FE000), (0x7F7FFFFF, 0x7F7FE000)]),
}  # fmt: skip


@pytest.mark.parametrize("text", list(CASES))
def test_modifiers(text: str) -> None:
    source, target, rows = CASES[text]
    got = run_one(text, [np.array([r[0] for r in rows], source)], target)
    assert [hex(x) for x in got] == [hex(r[1]) for r in rows]


# --- integers -------------------------------------------------------------------------------------------------


def rounded(value: float, word: str) -> int:
    exact = Fraction(value)
    return {
        "rni": lambda: round(exact),
        "rzi": lambda: math.trunc(exact),
        "rmi": lambda: math.floor(exact),
        "rpi": lambda: math.ceil(exact),
    }[word]()


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name in FORMATS for kind in INTS if not (name == "bf16" and kind[1:] == "8")])
def test_float_to_integer(name: str, kind: str) -> None:
    fmt = FORMATS[name]
    lo, hi = int_range(kind)
    edges = np.array([lo - 1, lo - 0.5, lo, lo + 0.5, -1, -0.5, 0.5, 1.5, 2.5, hi - 0.5, hi, hi + 0.5, hi + 1], np.float64)
    with np.errstate(over="ignore"):
        x = np.concatenate([sample(fmt), edges.astype(fmt.dtype).view(fmt.uint)])
    size = max(int(kind[1:]), 16)
    for word in ("rni", "rzi", "rmi", "rpi"):
        got = run_one(f"cvt.{word}.{kind}.{name} d0, a0;", [x], UINT[size])
        for bits, result in zip(x, got):
            value = fmt.value(int(bits))
            if math.isnan(value):  # the ISA: 0, but 1 << (width - 1) for f64 sources or 64-bit results
                wanted = 0 if name != "f64" and kind[1:] != "64" else 1 << int(kind[1:]) - 1
                wanted = wanted - (1 << int(kind[1:])) if kind[0] == "s" and wanted else wanted
            elif math.isinf(value):
                wanted = hi if value > 0 else lo
            else:
                wanted = min(max(rounded(value, word), lo), hi)
            assert int(result) == wanted & ((1 << size) - 1), (word, value, hex(result))


def test_flushing_before_an_integer_conversion() -> None:
    x = np.array([1, 0x80000001], np.uint32)
    assert run_one("cvt.rpi.s32.f32 d0, a0;", [x], np.uint32).tolist() == [1, 0]
    assert run_one("cvt.rpi.ftz.s32.f32 d0, a0;", [x], np.uint32).tolist() == [0, 0]
    assert run_one("cvt.rmi.ftz.s32.f32 d0, a0;", [x], np.uint32).tolist() == [0, 0]


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name in FORMATS for kind in INTS if not (name == "bf16" and kind[1:] == "8")])
def test_integer_to_float(name: str, kind: str) -> None:
    fmt, bits = FORMATS[name], int(kind[1:])
    lo, hi = int_range(kind)
    rng = np.random.default_rng(1)
    numbers = [lo, lo + 1, -1, 0, 1, hi - 1, hi, hi // 2 + 1] + [lo + int(r * (hi - lo)) for r in rng.random(100)]
    numbers += [sign * ((1 << k) + d) for k in range(bits) for d in (-1, 0, 1) for sign in (1, -1)]
    numbers = [n for n in numbers if lo <= n <= hi]
    x = np.array([n & ((1 << bits) - 1) for n in numbers], np.uint64).astype(UINT[max(bits, 16)])
    for rnd in MODES:
        got = run_one(f"cvt.{rnd}.{name}.{kind} d0, a0;", [x], fmt.uint)
        for number, result in zip(numbers, got):
            with gmpy2.context(fmt.context(rnd)):
                assert int(result) == fmt.bits(gmpy2.mpfr(number)), (rnd, number, hex(result))


def test_integer_to_float_saturates() -> None:
    assert run_one("cvt.rn.sat.f32.s32 d0, a0;", [np.array([5, 0, 0xFFFFFFFF], np.uint32)], np.uint32).tolist() == [0x3F800000, 0, 0]


@pytest.mark.parametrize("source", INTS)
@pytest.mark.parametrize("target", INTS)
def test_integer_to_integer(source: str, target: str) -> None:
    bits, width = int(source[1:]), int(target[1:])
    slo, shi = int_range(source)
    lo, hi = int_range(target)
    numbers = sorted(
        {
            n
            for n in (slo, slo + 1, -1, 0, 1, 127, 128, 255, 256, 32767, 32768, 65535, 2**31 - 1, 2**31, 2**32, shi - 1, shi)
            if slo <= n <= shi
        }
    )
    x = np.array([n & (2 ** max(bits, 16) - 1) for n in numbers], np.uint64).astype(UINT[max(bits, 16)])
    out = UINT[max(width, 16)]
    got = run_one(f"cvt.{target}.{source} d0, a0;", [x], out)
    wrapped = [(n - lo) % (1 << width) + lo for n in numbers]
    assert got.tolist() == [w & (2 ** max(width, 16) - 1) for w in wrapped]
    if slo < lo or shi > hi:
        got = run_one(f"cvt.sat.{target}.{source} d0, a0;", [x], out)
        assert got.tolist() == [min(max(n, lo), hi) & (2 ** max(width, 16) - 1) for n in numbers]


def test_a_wider_destination_register_is_extended() -> None:
    x = np.array([200.0, -200.0, -1.0], np.float32).view(np.uint32)
    assert run_one("cvt.rzi.s8.f32 d0, a0;", [x], np.uint32).tolist() == [127, 0xFFFFFF80, 0xFFFFFFFF]
    assert run_one("cvt.rzi.u8.f32 d0, a0;", [x], np.uint32).tolist() == [200, 0, 0]
    assert run_one("cvt.s8.s32 d0, a0;", [np.array([0x180, 0x7F], np.uint32)], np.uint32).tolist() == [0xFFFFFF80, 0x7F]
    assert run_one("cvt.u8.u32 d0, a0;", [np.array([0x1FF], np.uint32)], np.uint64).tolist() == [0xFF]


@pytest.mark.parametrize(("text", "bits"), [
    ("cvt.rn.f16.f32 d0, a0;", 0x3E00), ("cvt.rni.f32.f32 d0, a0;", 0x40000000), ("cvt.rn.f32.s32 d0, a0;", 0x4E7F0000), ("cvt.ftz.f32.f32 d0, a0;", 0x3FC00000),
    ("cvt.rn.f16x2.f32 d0, a0, a0;", 0x3E003E00), ("cvt.rs.f16x2.f32 d0, a0, a0, a0;", 0x3E003E00), ("cvt.pack.sat.u16.s32 d0, a0, a0;", 0xFFFFFFFF),
])  # fmt: skip
def test_a_wider_destination_has_zeros_above_a_float(text: str, bits: int) -> None:
    """Nothing is left of what the register held, and arithmetic on the whole register sees all of it."""
    above, other = 0x1234 << 48, 0x5678 << 48
    for count in (1, 3):  # as a number and as columns
        one_and_a_half = np.full(count, 0x3FC00000, np.uint32)
        wide = np.array([above, other, above][:count], np.uint64)
        got = run_one(f"mov.b64 d0, -1; {text} add.u64 d0, d0, a1;", [one_and_a_half, wide], np.uint64)
        assert got.tolist() == [bits + int(w) for w in wide]


def test_a_wider_destination_of_a_symbolic_float() -> None:
    """f16 beside zero bits: two of them make a pair by a shift and an or, as compilers pack."""
    text = """.version 9.1\n.target sm_80\n.address_size 64
.visible .entry k(.param .u64 x, .param .u64 o) {
.reg .b32 %r<5>; .reg .b16 %h<3>; .reg .b64 %d<3>; .reg .f32 %f<3>;
ld.param.u64 %d1, [x]; ld.param.u64 %d2, [o]; ld.global.v2.f32 {%f1, %f2}, [%d1];
cvt.rn.f16.f32 %r1, %f1; cvt.rn.f16.f32 %r2, %f2; shl.b32 %r3, %r2, 16; or.b32 %r4, %r3, %r1; st.global.b32 [%d2], %r4; ret; }"""
    out = np.zeros(2, np.float16)
    emulate(text, None, 1, 1, [np.array([1.5, -2.0], np.float32), out])
    assert out.tolist() == [1.5, -2.0]
    args = (TensorArg("x", "f32", (2,)), TensorArg("o", "f16", (2,), Role.OUT))
    arena = Arena()
    found = execute(parse(text), "k", bind(Launch((1, 1, 1), (1, 1, 1), args), arena))
    base = arena.inputs[0].base
    assert not found.findings and found.footprints["o"].ids.tolist() == [-1 - base, -2 - base]


# --- packed ---------------------------------------------------------------------------------------------------

FP8 = {"e4m3": np.dtype(ml_dtypes.float8_e4m3fn), "e5m2": np.dtype(ml_dtypes.float8_e5m2)}
MAX8 = {"e4m3": 448.0, "e5m2": 57344.0}


def to_fp8(values: np.ndarray, kind: str) -> np.ndarray:
    """ml_dtypes' rounding after the clamp that .satfinite asks for; NaN is 0x7f."""
    clamped = np.clip(values, -MAX8[kind], MAX8[kind])
    bits = clamped.astype(FP8[kind]).view(np.uint8)
    return np.where(np.isnan(values), np.uint8(0x7F), bits)


@pytest.mark.parametrize("kind", ["e4m3", "e5m2"])
def test_fp8_from_f32_and_back(kind: str) -> None:
    rng = np.random.default_rng(2)
    x = np.concatenate(
        [rng.normal(size=500) * 2.0 ** rng.integers(-20, 20, 500), [0, -0.0, np.inf, -np.inf, np.nan, 448, 449, 464, 1e-9]]
    ).astype(np.float32)
    y = x[::-1].copy()
    got = run_one(f"cvt.rn.satfinite.{kind}x2.f32 d0, a0, a1;", [x.view(np.uint32), y.view(np.uint32)], np.uint16)
    assert np.array_equal(got >> 8, to_fp8(x, kind)) and np.array_equal(got & 0xFF, to_fp8(y, kind))
    relu = run_one(f"cvt.rn.satfinite.relu.{kind}x2.f32 d0, a0, a1;", [x.view(np.uint32), y.view(np.uint32)], np.uint16)
    assert np.array_equal(relu >> 8, to_fp8(np.where(x < 0, 0, x), kind) & np.where(np.signbit(x) & (x == 0), 0, 0xFF))
    half = np.concatenate([np.arange(0, 0x10000, 7), [0x7C00, 0xFC00, 0x7E00]]).astype(np.uint16)
    pair = half.astype(np.uint32) | half[::-1].astype(np.uint32) << np.uint32(16)
    got = run_one(f"cvt.rn.satfinite.{kind}x2.f16x2 d0, a0;", [pair], np.uint16)
    with np.errstate(invalid="ignore"):
        assert np.array_equal(got & 0xFF, to_fp8(half.view(np.float16).astype(np.float32), kind))
    codes = np.arange(256, dtype=np.uint16)
    back = run_one(f"cvt.rn.f16x2.{kind}x2 d0, a0;", [codes | codes[::-1] << np.uint16(8)], np.uint32)
    with np.errstate(invalid="ignore"):
        wanted = codes.astype(np.uint8).view(FP8[kind]).astype(np.float16)
    assert np.array_equal((back & 0xFFFF).astype(np.uint16).view(np.float16), wanted, equal_nan=True)


def test_two_floats_make_a_pair_with_the_first_above() -> None:
    one, two = np.array([0x3F800000], np.uint32), np.array([0x40000000], np.uint32)
    assert run_one("cvt.rn.f16x2.f32 d0, a0, a1;", [one, two], np.uint32)[0] == 0x3C004000
    assert run_one("cvt.rz.bf16x2.f32 d0, a0, a1;", [one, two], np.uint32)[0] == 0x3F804000
    assert run_one("cvt.rn.relu.f16x2.f32 d0, a0, a1;", [one ^ np.uint32(1 << 31), two], np.uint32)[0] == 0x00004000
    big = np.array([0x7F000000], np.uint32)
    assert run_one("cvt.rn.satfinite.f16x2.f32 d0, a0, a1;", [big, two], np.uint32)[0] == 0x7BFF4000


def packed(kind: str, a: int, b: int, c: int | None) -> int:
    """The ISA's pseudo code of cvt.pack."""
    bits = int(kind[1:])
    lo, hi = int_range(kind) if bits >= 8 else ((-(1 << bits - 1), (1 << bits - 1) - 1) if kind[0] == "s" else (0, (1 << bits) - 1))
    low, high = (min(max(v, lo), hi) & ((1 << bits) - 1) for v in (b, a))
    word = low | high << bits
    return word if c is None else (word | c << 2 * bits) & 0xFFFFFFFF


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(*[st.integers(-(2**31), 2**31 - 1) | st.integers(-300, 300)] * 2, st.integers(0, 2**32 - 1)), min_size=1, max_size=20
    )
)
def test_cvt_pack(rows: list[tuple[int, int, int]]) -> None:
    a, b, c = (np.array([r[i] & 0xFFFFFFFF for r in rows], np.uint32) for i in range(3))
    for kind in ("u16", "s16"):
        got = run_one(f"cvt.pack.sat.{kind}.s32 d0, a0, a1;", [a, b], np.uint32)
        assert got.tolist() == [packed(kind, x, y, None) for x, y, _ in rows]
    for kind in ("u8", "s8", "u4", "s4", "u2", "s2"):
        got = run_one(f"cvt.pack.sat.{kind}.s32.b32 d0, a0, a1, a2;", [a, b, c], np.uint32)
        assert got.tolist() == [packed(kind, x, y, z) for x, y, z in rows]


REFUSED = [
    "cvt.rs.e4m3x4.f32 d0, {a0, a1, a0, a1}, a1;", "cvt.rn.satfinite.e2m1x2.f32 d0, a0, a1;", "cvt.rn.sat.bf16.f32 d0, a0;",
        "cvt.rn.e4m3x2.f32 d0, a0, a1;",
    "cvt.rni.f32.f64 d0, a0;", "cvt.rna.f16.f32 d0, a0;", "cvt.s32.f32 d0, a0;", "cvt.rz.satfinite.ue8m0x2.f32 d0, a0, a1;",
        "cvt.f32.s32 d0, a0;",
]  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_refused_forms(text: str) -> None:
    x = np.zeros(1, np.uint32)
    with pytest.raises(PtxError) as caught:
        run_one(text, [x, x], np.uint32)
    assert "cvt" in caught.value.message


@pytest.mark.parametrize(("kind", "cut"), [("f16x2", 13), ("bf16x2", 16)])
def test_stochastic_rounding_counts_random_bits(kind: str, cut: int) -> None:
    """Of the 2^cut values of the random bits, as many round 1 + f / 2^cut up as its fraction f says; none is cutting off, all ones is up."""
    rng = np.random.default_rng(2)
    fractions = rng.integers(0, 1 << cut, 5).tolist() + [0, 1, (1 << cut) - 1]
    one = 0x3C00 if kind == "f16x2" else 0x3F80
    for f in fractions:
        at = sorted({0, 1, (1 << cut) - 1, max((1 << cut) - f - 1, 0), min((1 << cut) - f, (1 << cut) - 1)})
        random = np.array(at, np.uint32)
        word = np.full(len(at), 0x3F800000 | f, np.uint32)
        got = run_one(f"cvt.rs.{kind}.f32 d0, a0, a0, a1;", [word, random], np.uint32)
        assert [x & 0xFFFF for x in got.tolist()] == [one + (f + r >> cut) for r in at]  # the lower random bits belong to the last operand
        assert [x >> 16 for x in got.tolist()] == [one] * len(at)


def test_the_model_knows_all_modes() -> None:
    assert set(ROUND) == set(MODES)
