"""Kernels that apply many forms with the same kinds of operands to one table of operands, and the tables."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from float_model import FORMATS, close_pairs, specials
from form_table import WIDTHS, Legal

from ptx_engine import emulate

UINT = {1: np.uint16, 8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
#: registers are at least 16 bits wide; predicates leave as words
_REGISTER = {1: 16, 8: 16, 16: 16, 32: 32, 64: 64}


@dataclass(frozen=True)
class Signature:
    """The kinds of a form's sources (types, "pred", or "count" for positions and shift counts) and the widths of its destinations."""

    sources: tuple[str, ...]
    destinations: tuple[int, ...]


def signature(form: Legal) -> Signature:
    sources: list[str] = []
    destinations: list[int] = []
    for (kind, width), word in zip(form.slots(), form.operands.split()):
        if kind in ("a", "v4"):
            sources += [_kind_of(form, word)] * (4 if kind == "v4" else 1)
        elif kind == "q":
            sources.append("pred")
        elif kind in ("d", "p"):
            destinations.append(width if kind == "d" else 1)
        elif "|" in kind:
            destinations += [width if kind.startswith("d") else 1, 1]
    return Signature(tuple(sources), tuple(destinations))


def _kind_of(form: Legal, word: str) -> str:
    width = word.partition(":")[2]
    if width == "T":
        return form.types[-1]
    if width == "O":
        return form.types[-2]
    if width == "W":
        return f"u{2 * WIDTHS[form.types[-1]]}"
    if form.opcode == "cvt":
        return "s32" if "pack" in form.modifiers else "f32"
    if form.opcode == "slct":
        return form.types[-1]
    return "count"


def grouped(forms: Sequence[Legal], size: int = 60) -> Iterator[tuple[Signature, list[Legal]]]:
    """Forms of one signature, in portions."""
    groups: defaultdict[Signature, list[Legal]] = defaultdict(list)
    for form in forms:
        groups[signature(form)].append(form)
    for found, members in groups.items():
        for i in range(0, len(members), size):
            yield found, members[i : i + size]


def instruction(form: Legal, index: int) -> str:
    """The form's text: sources %a0..., destinations %d<index>x0..., predicates %p<index>x0... and %q0... read."""
    source, target = 0, 0
    words: list[str] = []
    for kind, _ in form.slots():
        if kind in ("a", "q"):
            words.append(f"%{'a' if kind == 'a' else 'q'}{source}")
            source += 1
        elif kind == "v4":
            words.append("{" + ", ".join(f"%a{source + i}" for i in range(4)) + "}")
            source += 4
        elif set(kind) <= set("dp|"):
            letters = kind.split("|")
            words.append("|".join(f"%{letter}{index}x{target + i}" for i, letter in enumerate(letters)))
            target += len(letters)
        else:
            words.append(kind)
    return f"{form.mnemonic} {', '.join(words)};"


def kernel(found: Signature, members: Sequence[Legal], dtypes: Sequence[int] | None = None) -> str:
    """Thread i reads row i of each source and writes row i of ``o<f>x<j>`` for destination j of form f."""
    widths = [1 if kind == "pred" else 32 if kind == "count" else WIDTHS[kind] for kind in found.sources]
    params = [f".param .u64 i{i}" for i in range(len(widths))]
    params += [f".param .u64 o{f}x{j}" for f in range(len(members)) for j in range(len(found.destinations))]
    lines = [".version 9.1", ".target sm_100a", ".address_size 64", f".visible .entry k({', '.join(params)}, .param .u32 n)", "{",
             ".reg .pred %out; .reg .b32 %k, %word; .reg .b64 %at, %off; mov.u32 %k, %tid.x;"]  # fmt: skip
    for i, width in enumerate(widths):
        size = 16 if width == 1 else width
        lines += [f".reg .b{_REGISTER[width]} %a{i}; ld.param.u64 %at, [i{i}]; mul.wide.u32 %off, %k, {size // 8}; add.s64 %at, %at, %off;",
                  f"ld.global.u{size} %a{i}, [%at];"]  # fmt: skip
        if width == 1:
            lines.append(f".reg .pred %q{i}; setp.ne.u16 %q{i}, %a{i}, 0;")
    for f, form in enumerate(members):
        for j, width in enumerate(found.destinations):
            lines.append(f".reg .{'pred' if width == 1 else f'b{_REGISTER[width]}'} %{'p' if width == 1 else 'd'}{f}x{j};")
        lines.append(instruction(form, f))
        for j, width in enumerate(found.destinations):
            size = 32 if width == 1 else _REGISTER[width]
            value = f"%d{f}x{j}"
            if width == 1:
                lines.append(f"selp.b32 %word, 1, 0, %p{f}x{j};")
                value = "%word"
            lines += [
                f"ld.param.u64 %at, [o{f}x{j}]; mul.wide.u32 %off, %k, {size // 8}; add.s64 %at, %at, %off;",
                f"st.global.u{size} [%at], {value};",
            ]
    return "\n".join([*lines, "ret;", "}"]) + "\n"


def run_forms(found: Signature, members: Sequence[Legal], columns: Sequence[np.ndarray]) -> list[list[list[int]]]:
    """Bits of destination j of form f in row i, as [f][j][i]."""
    rows = len(columns[0])
    sizes = [np.uint32 if w == 1 else UINT[_REGISTER[w]] for w in found.destinations]
    outputs = [[np.zeros(rows, dtype) for dtype in sizes] for _ in members]
    flat = [x for form in outputs for x in form]
    run = emulate(kernel(found, members), None, 1, rows, [*columns, *flat, rows])
    assert not run.findings
    return [[x.tolist() for x in form] for form in outputs]


def table(kinds: Sequence[str], count: int, seed: int = 0) -> list[np.ndarray]:
    """``count`` rows of operands of the given kinds: edge values met with one another, then random ones of all magnitudes."""
    return [column(kind, count, zlib.crc32(f"{kinds}{i}{seed}".encode())) for i, kind in enumerate(kinds)]


def column(kind: str, count: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if kind == "pred":
        return rng.integers(0, 2, count).astype(np.uint16)
    if kind == "count":
        values = np.array([0, 1, 5, 15, 16, 31, 32, 33, 63, 64, 255, 256, 2**31, 2**32 - 1], np.uint64)
        return np.where(rng.random(count) < 0.6, rng.choice(values, count), rng.integers(0, 40, count).astype(np.uint64)).astype(np.uint32)
    width = WIDTHS[kind]
    if kind in ("f16x2", "bf16x2", "f32x2", "e4m3x2", "e5m2x2", "u16x2", "s16x2"):
        halves = [column(_HALF[kind], count, seed + k).astype(np.uint64) for k in (1, 2)]
        return (halves[0] | halves[1] << np.uint64(width // 2)).astype(UINT[width])
    if kind in FORMATS:
        fmt = FORMATS[kind]
        return np.where(rng.random(count) < 0.5, rng.choice(specials(fmt), count), close_pairs(fmt, rng, count)).astype(UINT[width])
    top = (1 << width) - 1
    edges = np.array([0, 1, top, 1 << width - 1, top >> 1, 2, top - 1, 0x5555555555555555 & top], np.uint64)
    wide = rng.integers(0, 2**64, count, dtype=np.uint64) >> rng.integers(64 - width, 64, count).astype(np.uint64)
    return np.where(rng.random(count) < 0.5, rng.choice(edges, count), wide).astype(UINT[width])


_HALF = {"f16x2": "f16", "bf16x2": "bf16", "f32x2": "f32", "e4m3x2": "u8", "e5m2x2": "u8", "u16x2": "u16", "s16x2": "s16"}
