"""wmma of every shape, type and layout: load, multiply, store against NumPy, and as terms."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from tensor_kernels import HEAD, registers
from test_tensor_mma import BITS, NUMPY, RANGE, draw

from ptx_engine import emulate
from ptx_engine.launch import Launch, Role, TensorArg, bind
from ptx_engine.machine import execute
from ptx_engine.syntax import parse
from ptx_engine.terms import Arena

HALF = ((16, 16, 16), (8, 32, 16), (32, 8, 16))
#: fragment registers by (shape, operand, type), from the ISA's table "Matrix Fragments for WMMA"
A_REGISTERS = {"f16": (8, 8, 8), "bf16": (4, 2, 8), "s8": (2, 1, 4), "u8": (2, 1, 4)}
B_REGISTERS = {"f16": (8, 8, 8), "bf16": (4, 8, 2), "s8": (2, 4, 1), "u8": (2, 4, 1)}
ONE = {"tf32": (4, 4), "f64": (1, 1), "s4": (1, 1), "u4": (1, 1), "b1": (1, 1)}

ROUNDINGS = ("rn", "rz", "rm", "rp")


def cases() -> list[tuple[tuple[int, int, int], str, str, str, str, str]]:
    """(shape, A, B, C, D, operation)."""
    found = []
    for shape in HALF:
        found += [(shape, "f16", "f16", c, d, "") for c in ("f16", "f32") for d in ("f16", "f32")]
        found.append((shape, "bf16", "bf16", "f32", "f32", ""))
        found += [(shape, a, a, "s32", "s32", sat) for a in ("s8", "u8") for sat in ("", "satfinite")]
    found += [((16, 16, 8), "tf32", "tf32", "f32", "f32", ""), ((8, 8, 4), "f64", "f64", "f64", "f64", "")]
    found += [((8, 8, 4), "f64", "f64", "f64", "f64", rounding) for rounding in ROUNDINGS]
    found += [((8, 8, 32), a, a, "s32", "s32", sat) for a in ("s4", "u4") for sat in ("", "satfinite")]
    return found + [((8, 8, 128), "b1", "b1", "s32", "s32", op) for op in ("xor", "and")]


def register_counts(shape: tuple[int, int, int], a: str, b: str, c: str, d: str) -> dict[str, int]:
    index = HALF.index(shape) if shape in HALF else 0
    counts = {"a": A_REGISTERS[a][index] if a in A_REGISTERS else ONE[a][0], "b": B_REGISTERS[b][index] if b in B_REGISTERS else ONE[b][1]}
    return counts | {x: shape[0] * shape[1] // 32 // (2 if kind == "f16" else 1) for x, kind in (("c", c), ("d", d))}


def kernel(
    shape: tuple[int, int, int], a: str, b: str, c: str, d: str, op: str, layouts: str, stride: bool = True, space: str = "global"
) -> str:
    """``layouts`` are the first letters of the layouts of A, B, C and D."""
    name = f"m{shape[0]}n{shape[1]}k{shape[2]}"
    full = [{"r": "row", "c": "col"}[x] for x in layouts]
    counts = register_counts(shape, a, b, c, d)
    rows = {"a": (shape[0], shape[2]), "b": (shape[2], shape[1]), "c": shape[:2], "d": shape[:2]}
    kinds = {"a": a, "b": b, "c": c, "d": d}
    lines = [HEAD, ".visible .entry k(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd)", "{", ".reg .b64 %x<4>;"]
    lines += [f".reg .b{64 if kinds[x] == 'f64' else 32} %{x}<{counts[x]}>;" for x in "abcd"]
    lines += [f"ld.param.u64 %x{i}, [p{x}];" for i, x in enumerate("abcd")]
    strides = {x: f", {rows[x][1] if layout == 'row' else rows[x][0]}" if stride else "" for x, layout in zip("abcd", full)}
    lines += [
        f"wmma.load.{x}.sync.aligned.{layout}.{name}.{space}.{kinds[x]} {registers(x, counts[x])}, [%x{i}]{strides[x]};"
        for i, (x, layout) in enumerate(zip("abc", full))
    ]  # fmt: skip
    operands = ", ".join(registers(x, counts[x]) for x in "dabc")
    types = f"{d}.{c}" if a == "f16" else f"{d}.{a}.{b}.{c}"
    prefix = f"{op}.popc." if a == "b1" else ""
    suffix = f".{op}" if op == "satfinite" else ""
    rounding = f".{op}" if op in ROUNDINGS else ""
    lines.append(f"wmma.mma.{prefix}sync.aligned.{full[0]}.{full[1]}.{name}{rounding}.{types}{suffix} {operands};")
    lines.append(f"wmma.store.d.sync.aligned.{full[3]}.{name}.{space}.{d} [%x3], {registers('d', counts['d'])}{strides['d']};")
    return "\n".join([*lines, "ret;", "}"]) + "\n"


def in_memory(matrix: np.ndarray, kind: str, layout: str) -> np.ndarray:
    """The bytes of a matrix in a layout."""
    flat = np.ascontiguousarray(matrix if layout == "r" else matrix.T)
    bits = BITS[kind]
    if bits >= 8:
        return flat.astype(NUMPY[kind]).ravel()
    per = 8 // bits
    fields = (flat.astype(np.int64) & ((1 << bits) - 1)).reshape(-1, per)
    return (fields << bits * np.arange(per)).sum(1).astype(np.uint8)


def expected(a: np.ndarray, b: np.ndarray, c: np.ndarray, kind: str, d: str, op: str) -> np.ndarray:
    if op == "xor":
        return (c + (a[:, :, None] != b[None, :, :]).sum(1)).astype(np.int64).astype(np.int32)
    if kind in RANGE:
        total = c + a.astype(np.int64) @ b.astype(np.int64)
        return (np.clip(total, -(2**31), 2**31 - 1) if op == "satfinite" else total).astype(np.int64).astype(np.int32)
    return (a @ b + c).astype(NUMPY[d])


#: matrices of less than a byte an element are row-major by column-major
FORMS = [
    (c, layouts) for c in cases() for layouts in ("rcrr", "rcrc", "rccr", "rrcr", "ccrc", "crcc") if BITS[c[1]] >= 8 or layouts[:2] == "rc"
]


@pytest.mark.parametrize(("case", "layouts"), FORMS, ids=["-".join(map(str, (*c[0], *c[1:], layouts))) for c, layouts in FORMS])
def test_values_against_numpy(case: tuple[tuple[int, int, int], str, str, str, str, str], layouts: str) -> None:
    (m, n, k), a, b, c, d, op = case
    rng = np.random.default_rng(zlib.crc32(str(case).encode()))
    left, right, acc = draw(rng, a, (m, k)), draw(rng, b, (k, n)), draw(rng, c, (m, n))
    memory = [in_memory(x, kind, layout) for x, kind, layout in zip((left, right, acc), (a, b, c), layouts)]
    out = np.zeros(m * n, NUMPY[d])
    for stride in (True, False):
        out[:] = 0
        assert not emulate(kernel((m, n, k), a, b, c, d, op, layouts, stride), None, 1, 32, [*memory, out]).findings
        found = out.reshape(m, n) if layouts[3] == "r" else out.reshape(n, m).T
        np.testing.assert_array_equal(found, expected(left, right, acc, a, d, op))


@pytest.mark.parametrize("shape", HALF)
def test_terms_are_sums_of_products(shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    arena = Arena()
    args = tuple(TensorArg(x, kind, (size,), Role.OUT if x == "d" else Role.IN)
                 for x, kind, size in (("a", "f16", m * k), ("b", "f16", k * n), ("c", "f32", m * n), ("d", "f32", m * n)))  # fmt: skip
    text = kernel(shape, "f16", "f16", "f32", "f32", "", "rcrr")
    run = execute(parse(text), None, bind(Launch((1, 1, 1), (32, 1, 1), args), arena), source=text)
    assert not run.findings and any("wmma" in a for a in arena.assumptions)
    ids = {entry.name: entry for entry in arena.inputs}
    for row, col in ((0, 0), (m - 1, 0), (3, n - 1), (m - 1, n - 1)):
        rows, cols, acc = arena.dot_operands(int(run.footprints["d"].ids[row * n + col]))
        wanted = {frozenset((int(ids["a"].ids(row * k + j)), int(ids["b"].ids(col * k + j)))) for j in range(k)}
        assert {frozenset((int(x), int(y))) for x, y in zip(rows, cols)} == wanted
        assert acc == ids["c"].ids(row * n + col)


def test_out_of_bounds_matrix_is_a_finding() -> None:
    text = kernel((16, 16, 16), "f16", "f16", "f32", "f32", "", "rcrr")
    memory = [np.zeros(255, np.float16), np.zeros(256, np.float16), np.zeros(256, np.float32), np.zeros(256, np.float32)]
    assert [f.kind for f in emulate(text, None, 1, 32, memory).findings] == ["out of bounds"]
