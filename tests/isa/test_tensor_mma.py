"""mma.sync of every shape and type: fragment layouts against the ISA's formulas, values against NumPy, terms as sums of products."""

from __future__ import annotations

from dataclasses import dataclass

import fragment_formulas as formulas
import ml_dtypes
import numpy as np
import pytest
from fragment_formulas import Place
from tensor_kernels import fragment_kernel, run_terms

from ptx_engine.isa import fragments
from ptx_engine.terms import Op


@dataclass(frozen=True)
class Case:
    """One form: the instruction's modifiers, extents, multiplicand types and accumulator types."""

    form: str
    m: int
    k: int
    a: str
    b: str
    c: str
    d: str


NUMPY = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "f64": np.float64, "f32": np.float32, "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2, "s8": np.int8, "u8": np.uint8, "s32": np.int32,
}  # fmt: skip
BITS = {
    "f16": 16,
    "bf16": 16,
    "tf32": 32,
    "f64": 64,
    "f32": 32,
    "e4m3": 8,
    "e5m2": 8,
    "s8": 8,
    "u8": 8,
    "s4": 4,
    "u4": 4,
    "b1": 1,
    "s32": 32,
}
RANGE = {"s8": (-128, 127), "u8": (0, 255), "s4": (-8, 7), "u4": (0, 15), "b1": (0, 1)}


def cases() -> list[Case]:
    found = []
    for k in (8, 16):
        found += [Case(f"m16n8k{k}.row.col.{c}.f16.f16.{c}", 16, k, "f16", "f16", c, c) for c in ("f16", "f32")]
        found.append(Case(f"m16n8k{k}.row.col.f32.bf16.bf16.f32", 16, k, "bf16", "bf16", "f32", "f32"))
    found += [Case(f"m16n8k{k}.row.col.f32.tf32.tf32.f32", 16, k, "tf32", "tf32", "f32", "f32") for k in (4, 8)]
    found += [
        Case(f"m{m}n8k{k}.row.col.f64.f64.f64.f64", m, k, "f64", "f64", "f64", "f64") for m, k in ((8, 4), (16, 4), (16, 8), (16, 16))
    ]
    found += [Case(f"m16n8k8.row.col.{rnd}.f64.f64.f64.f64", 16, 8, "f64", "f64", "f64", "f64") for rnd in ("rn", "rz", "rm", "rp")]
    found += [
        Case(f"m16n8k{k}.row.col.{c}.{a}.{b}.{c}", 16, k, a, b, c, c)
        for k in (16, 32) for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2") for c in ("f16", "f32")
    ]  # fmt: skip
    for types, shapes in ((("s8", "u8"), ((8, 16), (16, 16), (16, 32))), (("s4", "u4"), ((8, 32), (16, 32), (16, 64)))):
        found += [
            Case(f"m{m}n8k{k}.row.col{sat}.s32.{a}.{b}.s32", m, k, a, b, "s32", "s32")
            for m, k in shapes for a in types for b in types for sat in ("", ".satfinite")
        ]  # fmt: skip
    found += [
        Case(f"m{m}n8k{k}.row.col.s32.b1.b1.s32.{op}.popc", m, k, "b1", "b1", "s32", "s32")
        for m, k in ((8, 128), (16, 128), (16, 256)) for op in ("xor", "and")
    ]  # fmt: skip
    return found


def places(case: Case) -> tuple[Place, Place, Place]:
    """The ISA's formulas for A, B and the accumulators."""
    if case.a in ("f16", "bf16"):
        return formulas.a_16bit(case.k), formulas.b_16bit(case.k), formulas.accumulator(16)
    if case.a == "tf32":
        return formulas.a_tf32(case.k), formulas.b_tf32(case.k), formulas.accumulator(16)
    if case.a == "f64":
        return formulas.a_f64(case.m, case.k), formulas.b_f64(case.k), formulas.accumulator(case.m)
    per = 32 // BITS[case.a]
    return formulas.a_narrow(case.m, case.k, per), formulas.b_narrow(case.k, per), formulas.accumulator(case.m)


def table(place: Place, count: int) -> np.ndarray:
    """(lanes, elements, 2) of rows and columns."""
    return np.array([[place(lane, i) for i in range(count)] for lane in range(32)])


def pack(numbers: np.ndarray, kind: str) -> np.ndarray:
    """(lanes, elements) as (lanes, registers)."""
    bits = BITS[kind]
    if bits >= 8:
        register = np.uint64 if bits == 64 else np.uint32
        return np.ascontiguousarray(numbers.astype(NUMPY[kind])).view(register)
    words = numbers.astype(np.int64) & ((1 << bits) - 1)
    per = 32 // bits
    shifted = words.reshape(32, -1, per) << (bits * np.arange(per))
    return shifted.sum(-1).astype(np.uint32)


def draw(rng: np.random.Generator, kind: str, shape: tuple[int, int]) -> np.ndarray:
    """Numbers that the type holds; floats are small integers and halves, so that sums are exact."""
    if kind in RANGE:
        return rng.integers(RANGE[kind][0], RANGE[kind][1] + 1, shape)
    if kind == "s32":
        return rng.integers(-(2**31), 2**31, shape)
    return rng.integers(-3, 4, shape) / 2


def expected(case: Case, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    if ".xor." in case.form:
        total = c + (a[:, :, None] != b[None, :, :]).sum(1)
    elif case.a in RANGE:
        total = c + a.astype(np.int64) @ b.astype(np.int64)
    else:
        return (a @ b + c).astype(NUMPY[case.d])
    return (np.clip(total, -(2**31), 2**31 - 1) if "satfinite" in case.form else total).astype(np.int64).astype(np.int32)


def sizes(case: Case) -> tuple[int, int, int]:
    return case.m * case.k // 32, 8 * case.k // 32, case.m * 8 // 32


def kernel_of(case: Case) -> str:
    na, nb, nc = sizes(case)
    wide = 64 if case.a == "f64" else 32
    counts = {
        "a": na * BITS[case.a] // wide, "b": nb * BITS[case.b] // wide,
        "c": nc * BITS[case.c] // (64 if case.c == "f64" else 32), "d": nc * BITS[case.d] // (64 if case.d == "f64" else 32),
    }  # fmt: skip
    bits = {"a": wide, "b": wide, "c": 64 if case.c == "f64" else 32, "d": 64 if case.d == "f64" else 32}
    text = f"mma.sync.aligned.{case.form} {{d}}, {{a}}, {{b}}, {{c}};"
    return fragment_kernel(text, counts, bits)


@pytest.mark.parametrize("case", [c for c in cases() if c.a in ("f16", "bf16", "tf32", "f64", "e4m3", "s8", "u8")], ids=lambda c: c.form)
def test_terms_are_sums_of_products(case: Case) -> None:
    pa, pb, pc = places(case)
    na, nb, nc = sizes(case)
    dtypes = {"a": case.a, "b": case.b, "c": case.c, "d": case.d}
    run, arena = run_terms(kernel_of(case), dtypes, {"a": 32 * na, "b": 32 * nb, "c": 32 * nc, "d": 32 * nc})
    assert not run.findings
    by_name = {entry.name: entry for entry in arena.inputs}
    where_a = {pa(lane, i): lane * na + i for lane in range(32) for i in range(na)}
    where_b = {pb(lane, i): lane * nb + i for lane in range(32) for i in range(nb)}
    footprint = run.footprints["d"]
    for index in (0, 1, 5, 32 * nc - 1):
        row, col = pc(index // nc, index % nc)
        ident = int(footprint.ids[index])
        if arena.node(ident)[0] is not Op.DOT:  # a wrap or a clamp around it
            assert case.a in RANGE
            ident = _inner(arena, ident)
        rows, cols, acc = arena.dot_operands(ident)
        pairs = {tuple(sorted((int(x), int(y)))) for x, y in zip(rows, cols)}
        wanted = {tuple(sorted((int(by_name["a"].ids(where_a[row, j])), int(by_name["b"].ids(where_b[j, col]))))) for j in range(case.k)}
        assert pairs == wanted
        assert acc == by_name["c"].ids(index)


def _inner(arena: object, ident: int) -> int:
    while arena.node(ident)[0] is not Op.DOT:  # type: ignore[attr-defined]
        ident = arena.node(ident)[1]  # type: ignore[attr-defined]
    return ident


LAYOUTS = [fragments.fragment_a(m, k, per) for m, k, per in ((16, 8, 2), (16, 16, 2), (16, 4, 1), (8, 16, 4), (16, 64, 8), (16, 256, 32))]
LAYOUTS += [fragments.fragment_b(k, per) for k, per in ((8, 2), (32, 4), (64, 8), (256, 32), (16, 1))]
LAYOUTS += [fragments.fragment_c(m) for m in (8, 16)]
LAYOUTS += (
    [fragments.quad_a(x) for x in ("row", "col")]
    + [fragments.quad_b(x) for x in ("row", "col")]
    + [fragments.quad_c(h) for h in (True, False)]
)
LAYOUTS += [fragments.opaque_fragment(16, 16, 2), fragments.opaque_fragment(32, 16, 4), fragments.opaque_fragment(8, 8, 1)]


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda x: "x".join(map(str, x.shape)))
def test_layouts_are_bijections(layout: np.ndarray) -> None:
    assert sorted(layout.ravel().tolist()) == list(range(layout.size))
    back = fragments.inverse(layout)
    assert (layout.ravel()[back] == np.arange(layout.size).reshape(-1, 32)).all()
