"""Data movement between registers: mov with packing and unpacking, special registers, addresses, cvta, prmt.

Source: PTX ISA 9.1, "Data Movement and Conversion Instructions".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Union

import numpy as np

from ptx_engine.errors import NotStructuredError, ParseError, UnsupportedError
from ptx_engine.isa.bits import symbolic_permute
from ptx_engine.isa.decode import TYPE_BITS, Decode, Step
from ptx_engine.isa.group import Group
from ptx_engine.isa.registry import instruction
from ptx_engine.isa.reinterpret import pieces_of
from ptx_engine.isa.simple import Copy, Extension
from ptx_engine.isa.values import BITS, UINT, Part, Sym, Value, int_fmt, narrow, split_bits, uninitialised
from ptx_engine.syntax.ast import Name, NameOffset, Reg, Vec
from ptx_engine.terms import UNDEF, Arena

_S = "PTX ISA 9.1, Data Movement and Conversion Instructions: "
#: generic addresses of a thread's shared and local memory: far above any buffer of a launch
CONST_WINDOW = 1 << 52  # a constant variable's address is its generic one
PARAM_WINDOW = 1 << 55
SHARED_WINDOW = 1 << 56
LOCAL_WINDOW = 1 << 57
WINDOW_BYTES = 1 << 40
Word = Union[int, np.ndarray]


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
    if total > 64:  # a 128-bit register is two parts of 64 bits
        half = len(values) // 2
        return Sym(tuple((BITS[64], pack(part, width)) for part in (values[:half], values[half:])))  # type: ignore[misc]
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


def zero_parts(bits: int) -> tuple[Part, ...]:
    """Zero bits as parts (24 = 8 + 16)."""
    return tuple((BITS[width], 0) for width in (8, 16, 32) if bits & width)


def unpack(arena: Arena, value: Value, width: int, count: int) -> list[Value]:
    """A register cut into ``count`` registers of ``width`` bits, low first. Raises NotStructuredError if it cannot be cut there."""
    if value is None:
        raise uninitialised()
    if not isinstance(value, Sym):
        return list(split_bits(value, [width] * count))
    if len(value.parts) == count and all(fmt.bits == width and fmt.kind != "piece" for fmt, _ in value.parts):
        return [ids if fmt.kind == "bits" else Sym(((fmt, ids),)) for fmt, ids in value.parts]
    pieces = pieces_of(arena, value, [width] * count)
    if pieces is None:
        held = "+".join(f.name for f, _ in value.parts)
        raise NotStructuredError(f"{held} data is torn into {width}-bit pieces", feature=f"unpack of {held}")
    return pieces


def _piece_bits(d: Decode) -> int:
    """The width of a vector's registers: two or four of them make up one of untyped bits. Raises ParseError for anything else."""
    vectors = [operand for operand in (d.operand(0), d.operand(1)) if isinstance(operand, Vec)]
    if not vectors:
        return d.bits
    count = len(vectors[0].elements)
    widths = {TYPE_BITS[d.env.register_type(e.name)] for e in vectors[0].elements if isinstance(e, Reg)}
    if len(vectors) == 2 or d.mods["type"][0] != "b" or count not in (2, 4) or not widths <= {d.bits // count}:
        raise ParseError(f"{d.ins.mnemonic}: two or four registers make up one of type .b{d.bits}", span=d.ins.span)
    if any(isinstance(e, (Name, NameOffset)) and e.name != "_" and d.env.is_symbol(e.name) for e in vectors[0].elements):
        raise ParseError(f"{d.ins.mnemonic}: the address of a variable is no element of a vector", span=d.ins.span)
    return d.bits // count


@instruction("mov", "type=pred|b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64|b128", source=_S + "mov")
def mov(d: Decode) -> Step:
    d.expect(2)
    width = _piece_bits(d)
    if isinstance(d.operand(1), Vec):
        sources, dst = d.srcs(1, width), d.dst()

        def packing(g: Group) -> None:
            R = g.R
            R[dst] = pack([R[i] for i in sources], width)

        return packing
    if isinstance(d.operand(0), Vec):
        targets, source = d.dsts(0), d.src(1)
        count, arena = len(targets), d.arena

        def unpacking(g: Group) -> None:
            R = g.R
            for i, piece in zip(targets, unpack(arena, R[source], width, count)):
                R[i] = piece

        return unpacking
    dst, source, name = d.dst(), d.src(1), d.ins.mnemonic
    if d.bits == 16 and isinstance(d.operand(1), Name):

        def low_half(g: Group) -> None:
            g.R[dst] = narrow(g.R[source], 16)

        return low_half
    d.simple = Copy(dst, source)

    def copy(g: Group) -> None:
        value = g.R[source]
        if value is None:
            raise uninitialised(name)
        g.R[dst] = value

    return copy


@instruction("cvta", "[to] space=global|shared|const|local|param|shared::cta|param::entry type=u32|u64", source=_S + "cvta")
def cvta(d: Decode) -> Step:
    d.expect(2)
    window = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "param": PARAM_WINDOW}.get(d.mods["space"].partition("::")[0], 0)
    dst, source, to = d.dst(), d.src(1), d.has("to")
    if d.bits == 32:
        raise UnsupportedError(f"{d.ins.mnemonic}: generic addresses have 64 bits", feature="32-bit generic address")
    if not window:
        d.simple = Extension(dst, source, d.bits, d.bits, False)

    def step(g: Group) -> None:
        R = g.R
        value = R[source]
        if isinstance(value, Sym) or value is None:
            raise NotStructuredError("cvta of a symbolic address", feature="cvta")
        R[dst] = (value - window if to else value + window) if window else value

    return step


#: state space -> its window of generic addresses; what lies in no other window is global
_RANGES = {
    "const": (CONST_WINDOW, CONST_WINDOW + WINDOW_BYTES), "param": (PARAM_WINDOW, PARAM_WINDOW + WINDOW_BYTES),
    "shared": (SHARED_WINDOW, SHARED_WINDOW + WINDOW_BYTES), "local": (LOCAL_WINDOW, LOCAL_WINDOW + WINDOW_BYTES),
}  # fmt: skip


def _address_bits(d: Decode, i: int) -> int:
    """32 for a register of 32 bits, which is extended by zeros, else 64."""
    operand = d.operand(i)
    return 32 if isinstance(operand, Reg) and TYPE_BITS[d.env.register_type(operand.name)] == 32 else 64


@instruction("isspacep", "space=global|local|shared|shared::cta|shared::cluster|const|param|param::entry", source=_S + "isspacep")
def isspacep(d: Decode) -> Step:
    """Whether a generic address lies in a state space's window (a launch without clusters is a cluster of one CTA)."""
    d.expect(2)
    dst, source, space = d.dst(), d.src(1, _address_bits(d, 1)), d.mods["space"].partition("::")[0]
    inside = [_RANGES[space]] if space in _RANGES else list(_RANGES.values())

    def step(g: Group) -> None:
        value = g.R[source]
        if isinstance(value, Sym) or value is None:
            raise NotStructuredError("isspacep of a symbolic address", feature="isspacep")
        column = np.atleast_1d(np.asarray(value, np.uint64))
        found = np.logical_or.reduce([(column >= np.uint64(low)) & (column < np.uint64(high)) for low, high in inside])
        found = found if space in _RANGES else ~found
        g.R[dst] = bool(found[0]) if isinstance(value, int) else found

    return step


#: prmt mode -> byte of {b, a} that result byte i takes for the selector's low two bits
_PRMT_MODES: dict[str, Callable[[int, Word], Word]] = {
    "f4e": lambda i, s: s + i, "b4e": lambda i, s: (s + 8 - i) & 7, "rc8": lambda i, s: s,
    "ecl": lambda i, s: np.maximum(s, i) if isinstance(s, np.ndarray) else max(s, i),
    "ecr": lambda i, s: np.minimum(s, i) if isinstance(s, np.ndarray) else min(s, i),
    "rc16": lambda i, s: (s & 1) * 2 + (i & 1),
}  # fmt: skip


#: what a register holds that was never written: LLVM packs bytes beside undefined ones and later drops those
_UNWRITTEN_WORD = Sym(((int_fmt(32, 0, (1 << 32) - 1), UNDEF),))


@instruction("prmt", "type=b32 [mode=f4e|b4e|rc8|ecl|ecr|rc16]", source=_S + "prmt")
def prmt(d: Decode) -> Step:
    """Four bytes of {b, a}; in the default mode bit 3 of a selector nibble replicates the byte's sign."""
    d.expect(4)
    dst, a, b, c, name, mode = d.dst(), d.src(1), d.src(2), d.src(3), d.ins.mnemonic, d.mod("mode")
    arena = d.arena

    def step(g: Group) -> None:
        R = g.R
        selector, x, y = R[c], R[a], R[b]
        if isinstance(selector, Sym) or selector is None:
            raise NotStructuredError("prmt with a symbolic selector", feature="prmt")
        choices = byte_choices(mode, selector)
        if isinstance(x, Sym) or isinstance(y, Sym) or x is None or y is None:
            if not isinstance(selector, int):
                raise NotStructuredError("prmt of symbolic data with a selector that differs between threads", feature="prmt")
            if x is None and y is None and not any(choice & 8 for choice in choices):
                R[dst] = None
                return
            x, y = (_UNWRITTEN_WORD if v is None else v for v in (x, y))
            R[dst] = symbolic_permute(arena, x, y, choices, name)  # type: ignore[arg-type]
        else:
            R[dst] = permute_concrete(x, y, choices)

    return step


def byte_choices(mode: str | None, selector: Word) -> list[Word]:
    """For each result byte the chosen source byte, with bit 3 set where its sign is replicated."""
    if mode is None:
        return [selector >> 4 * i & 0xF for i in range(4)]
    return [_PRMT_MODES[mode](i, selector & 3) for i in range(4)]


def permute_concrete(x: Word, y: Word, choices: Sequence[Word]) -> Word:
    """prmt on bits; selectors may differ between threads."""
    if all(isinstance(v, int) for v in (x, y, *choices)):
        word, result = int(y) << 32 | int(x), 0
        for i, choice in enumerate(choices):
            byte = word >> 8 * (int(choice) & 7) & 0xFF
            result |= (0xFF * (byte >> 7) if choice & 8 else byte) << 8 * i
        return result
    low, high = (np.asarray(v).astype(np.uint64) for v in (x, y))
    data = high << np.uint64(32) | low
    total = np.zeros((), np.uint64)
    for i, choice in enumerate(choices):
        picked = np.asarray(choice).astype(np.uint64)
        taken = data >> (picked & np.uint64(7)) * np.uint64(8) & np.uint64(0xFF)
        taken = np.where(picked & np.uint64(8), np.where(taken >> np.uint64(7), np.uint64(0xFF), np.uint64(0)), taken)
        total = np.asarray(total | taken << np.uint64(8 * i))
    return total.astype(np.uint32)


def require_vec(d: Decode, i: int, count: int) -> None:
    """Check that an operand is a vector of a length (of one, too: in braces)."""
    if len(d.elements(i)) != count or not isinstance(d.operand(i), Vec):
        raise ParseError(f"{d.ins.mnemonic}: operand {i + 1} must be a vector of {count}", span=d.ins.span)
