"""Data movement between registers: mov with packing and unpacking, special registers, addresses, cvta, prmt.

Source: PTX ISA 9.1, "Data Movement and Conversion Instructions".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ptx_engine.errors import NotStructuredError, ParseError
from ptx_engine.isa.bits import permute_bytes, to_bytes
from ptx_engine.isa.decode import Decode, Step
from ptx_engine.isa.group import Group
from ptx_engine.isa.registry import instruction
from ptx_engine.isa.values import BITS, UINT, Part, Sym, Value, split_bits, uninitialised
from ptx_engine.syntax.ast import Vec

_S = "PTX ISA 9.1, Data Movement and Conversion Instructions: "
#: generic addresses of a thread's shared and local memory: far above any buffer of a launch
SHARED_WINDOW = 1 << 56
LOCAL_WINDOW = 1 << 57
WINDOW_BYTES = 1 << 40


def pack(values: Sequence[Value], width: int) -> Value:
    """Registers of ``width`` bits laid side by side, low first, as one register."""
    if any(v is None for v in values):
        raise uninitialised()
    if any(v.__class__ is Sym for v in values):
        parts: list[Part] = []
        for v in values:
            if isinstance(v, Sym):
                parts.extend(v.parts)
            else:
                parts.append((BITS[width], v))  # type: ignore[arg-type]
        return Sym(tuple(parts))
    total = width * len(values)
    if all(isinstance(v, int) for v in values):
        word = 0
        for i, v in enumerate(values):
            word |= int(v) << i * width  # type: ignore[arg-type]
        return word
    wide = UINT[total]
    column: "int | np.ndarray" = 0
    for i, v in enumerate(values):
        piece = wide.type(int(v)) if isinstance(v, int) else v.astype(wide)  # type: ignore[union-attr]
        column = column | (piece << wide.type(i * width))
    return column


def unpack(value: Value, width: int, count: int) -> list[Value]:
    """A register cut into ``count`` registers of ``width`` bits, low first. Raises NotStructuredError if a part is torn."""
    if value is None:
        raise uninitialised()
    if not isinstance(value, Sym):
        return list(split_bits(value, [width] * count))
    result: list[Value] = []
    current: list[Part] = []
    filled = 0
    for fmt, ids in value.parts:
        if fmt.kind == "bits" and filled == 0 and fmt.bits > width:
            result.extend(split_bits(ids, [width] * (fmt.bits // width)))
            continue
        current.append((fmt, ids))
        filled += fmt.bits
        if filled > width:
            raise NotStructuredError(f"{fmt.name} data is torn into {width}-bit pieces", feature=f"unpack of {fmt.name}")
        if filled == width:
            result.append(current[0][1] if len(current) == 1 and fmt.kind == "bits" else Sym(tuple(current)))
            current, filled = [], 0
    return result


@instruction("mov", "type=pred|b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64|b128", source=_S + "mov")
def mov(d: Decode) -> Step:
    d.expect(2)
    if isinstance(d.operand(1), Vec):
        count = len(d.elements(1))
        width = d.bits // count
        sources, dst = d.srcs(1, width), d.dst()

        def packing(g: Group) -> None:
            R = g.R
            R[dst] = pack([R[i] for i in sources], width)

        return packing
    if isinstance(d.operand(0), Vec):
        targets, source = d.dsts(0), d.src(1)
        count, width = len(targets), d.bits // len(targets)

        def unpacking(g: Group) -> None:
            R = g.R
            for i, piece in zip(targets, unpack(R[source], width, count)):
                R[i] = piece

        return unpacking
    dst, source, name = d.dst(), d.src(1), d.ins.mnemonic

    def copy(g: Group) -> None:
        value = g.R[source]
        if value is None:
            raise uninitialised(name)
        g.R[dst] = value

    return copy


@instruction("cvta", "[to] space=global|shared|const|local|param|shared::cta type=u32|u64", source=_S + "cvta")
def cvta(d: Decode) -> Step:
    d.expect(2)
    window = {"shared": SHARED_WINDOW, "shared::cta": SHARED_WINDOW, "local": LOCAL_WINDOW}.get(d.mods["space"], 0)
    dst, source, to = d.dst(), d.src(1), d.has("to")

    def step(g: Group) -> None:
        R = g.R
        value = R[source]
        if isinstance(value, Sym) or value is None:
            raise NotStructuredError("cvta of a symbolic address", feature="cvta")
        R[dst] = (value - window if to else value + window) if window else value

    return step


@instruction("prmt", "type=b32", source=_S + "prmt")
def prmt(d: Decode) -> Step:
    d.expect(4)
    dst, a, b, c, name = d.dst(), d.src(1), d.src(2), d.src(3), d.ins.mnemonic

    def step(g: Group) -> None:
        R = g.R
        selector = R[c]
        if not isinstance(selector, int):
            raise NotStructuredError("prmt with a selector that differs between threads", feature="prmt")
        data = (to_bytes(R[a], 32) or []) + (to_bytes(R[b], 32) or [])
        if len(data) != 8:
            raise NotStructuredError("prmt on data of less than a byte", feature="prmt")
        choices = [selector >> 4 * i & 0xF for i in range(4)]
        if any(x & 8 for x in choices):
            picked = [data[x & 7] for x in choices]
            if any(isinstance(byte, tuple) for byte, x in zip(picked, choices) if x & 8):
                raise NotStructuredError("prmt replicates the sign of symbolic data", feature="prmt")
            data = data + [_sign_byte(byte) if x & 8 else byte for byte, x in zip(picked, choices)]  # type: ignore[arg-type]
            choices = [8 + i for i in range(4)]
        R[dst] = permute_bytes(data, choices, name, 32)

    return step


def _sign_byte(byte: "int | np.ndarray") -> "int | np.ndarray":
    return (0xFF if byte & 0x80 else 0) if isinstance(byte, int) else np.where(byte & np.uint8(0x80), np.uint8(0xFF), np.uint8(0))


def require_vec(d: Decode, i: int, count: int) -> None:
    """Check that an operand is a vector of a length."""
    if len(d.elements(i)) != count:
        raise ParseError(f"{d.ins.mnemonic}: operand {i + 1} must be a vector of {count}", span=d.ins.span)
