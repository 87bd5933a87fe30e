"""A form run on symbolic data: its terms evaluated at chosen inputs, next to the same kernel on bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np
from float_model import FORMATS
from form_kernels import Signature, kernel, run_forms, signature
from form_table import WIDTHS, Legal
from gmpy2 import mpq

from ptx_engine.decide.precise import Cone
from ptx_engine.errors import NotStructuredError, UnsupportedError
from ptx_engine.launch import SYMBOLIC, Launch, Role, ScalarArg, TensorArg, bind
from ptx_engine.machine import execute
from ptx_engine.syntax import parse
from ptx_engine.terms import Arena

ELEMENT = {"f16x2": "f16", "bf16x2": "bf16", "f32x2": "f32", "e4m3x2": "e4m3", "e5m2x2": "e5m2", "u16x2": "u16", "s16x2": "s16", "tf32": "f32",
           "e4m3x4": "e4m3", "e5m2x4": "e5m2"}  # fmt: skip
NUMPY = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64, "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2, **{f"{k}{n}": np.dtype(f"{'i' if k == 's' else 'u'}{n // 8}") for k in "us" for n in (8, 16, 32, 64)},
}  # fmt: skip
ROWS = 8


@dataclass(frozen=True)
class Refused:
    """Symbolic data has no meaning in this form."""

    message: str


def dtype_of(kind: str) -> str:
    """The element type of a symbolic operand."""
    kind = ELEMENT.get(kind, kind)
    return f"u{WIDTHS[kind]}" if kind[0] == "b" and not kind.startswith("bf") else kind


def ordinary(kind: str, seed: int, small: bool) -> np.ndarray:
    """Operands at which nothing overflows: floats between 1/2 and 2 of either sign, integers of any value or below 2^10."""
    rng = np.random.default_rng(seed)
    if kind == "pred":
        return rng.integers(0, 2, ROWS).astype(np.uint16)
    if kind == "count":
        return rng.integers(0, 16, ROWS).astype(np.uint32)
    dtype = NUMPY[dtype_of(kind)]
    per = max(1, WIDTHS[kind] // (8 * np.dtype(dtype).itemsize))
    if dtype_of(kind) in FORMATS or dtype_of(kind) in ("e4m3", "e5m2"):
        values = rng.choice([-1.0, 1.0], ROWS * per) * rng.integers(33, 127, ROWS * per) / 64
        return values.astype(np.float32).astype(dtype)
    bits = 8 * np.dtype(dtype).itemsize
    if small and bits > 8:
        return rng.integers(-1024 if dtype_of(kind)[0] == "s" else 0, 1024, ROWS * per).astype(dtype)
    return (rng.integers(0, 2**64, ROWS * per, dtype=np.uint64) >> np.uint64(64 - bits)).astype(f"u{bits // 8}").view(dtype)


def result_dtypes(form: Legal, found: Signature) -> list[str]:
    """Element types of the destinations."""
    if form.opcode in ("cvt", "set", "slct") and "pack" not in form.modifiers:
        kind = form.types[0]
    else:
        kind = form.types[-1] if form.types else "b32"
    kinds = []
    for width in found.destinations:
        element = dtype_of(kind)
        whole = WIDTHS[kind] == width and element in NUMPY and (element in FORMATS or element[0] in "us" or element.startswith("e"))
        kinds.append("u32" if width == 1 else element if whole and width > 8 else f"u{max(width, 16)}")
    return kinds


def run_terms(form: Legal, seed: int = 0) -> "Refused | list[tuple[np.ndarray, np.ndarray]]":
    """(value of the terms, value on bits) of each destination; integers modulo their width."""
    found = signature(form)
    data = [ordinary(kind, seed + i, form.opcode == "cvt" and dtype_of(form.types[0]) in FORMATS) for i, kind in enumerate(found.sources)]
    outs = result_dtypes(form, found)
    text = kernel(found, [form])
    args: list[TensorArg | ScalarArg] = []
    for i, (kind, x) in enumerate(zip(found.sources, data)):
        concrete = kind in ("pred", "count")
        dtype = {"pred": "u16", "count": "u32"}.get(kind) or dtype_of(kind)
        args.append(TensorArg(f"i{i}", dtype, (x.size,), Role.IN, contents=x if concrete else SYMBOLIC))
    sizes = [
        ROWS * max(1, (32 if w == 1 else max(w, 16)) // (8 * np.dtype(NUMPY[out]).itemsize)) for w, out in zip(found.destinations, outs)
    ]
    args += [TensorArg(f"o0x{j}", out, (size,), Role.OUT) for j, (out, size) in enumerate(zip(outs, sizes))]
    arena = Arena()
    bound = bind(Launch((1, 1, 1), (ROWS, 1, 1), (*args, ScalarArg("n", "u32", ROWS))), arena)
    try:
        done = execute(parse(text), None, bound, source=text)
    except (NotStructuredError, UnsupportedError) as error:
        return Refused(error.message)
    assert not done.findings
    values = {}
    for arg, x in zip(args, data):
        buffer = bound.by_name[arg.name]
        if buffer.input is not None and not isinstance(arg.contents, np.ndarray):  # type: ignore[union-attr]
            numbers = x.astype(np.float64).tolist() if x.dtype.kind not in "iu" else x.tolist()
            values.update({int(buffer.input.ids(j)): mpq(v) for j, v in enumerate(numbers)})
    columns = [x.view(f"u{x.nbytes // ROWS}") for x in data]
    bits = run_forms(found, [form], columns)[0]
    return [(_evaluated(arena, done.footprints[f"o0x{j}"].ids, values), _numbers(found, j, bits[j], out)) for j, out in enumerate(outs)]


def _evaluated(arena: Arena, ids: np.ndarray, values: dict[int, mpq]) -> np.ndarray:
    found = {**Cone(arena, ids).evaluate(values, 200), **values}
    return np.array([found[int(t)] if int(t) in found else arena.consts[int(t)].coef for t in ids], object)


def _numbers(found: Signature, j: int, bits: Sequence[int], out: str) -> np.ndarray:
    width = found.destinations[j]
    words = np.array(bits, f"u{(32 if width == 1 else max(width, 16)) // 8}")
    return words.view(NUMPY[out])


def agrees(form: Legal, pair: tuple[np.ndarray, np.ndarray], tolerance: float) -> bool:
    """Whether terms and bits mean the same numbers."""
    terms, bits = pair
    if bits.dtype.kind in "iu":
        size = 1 << 8 * bits.dtype.itemsize
        return all(int(t) % size == int(b) % size for t, b in zip(terms, bits))
    pairs = [(float(t), float(b)) for t, b in zip(terms, bits)]
    return all((t != t and b != b) or abs(t - b) <= tolerance * max(1.0, abs(b)) for t, b in pairs)
