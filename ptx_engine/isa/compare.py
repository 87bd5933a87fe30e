"""Comparison and selection: setp, set, selp, slct.

On concrete data the result is a concrete predicate; on symbolic floats it is a 0/1 term (folded where both are constants).
Unordered comparisons (``equ`` ...) differ from ordered ones on NaN only, which real data are not; NaN constants are told apart.
Source: PTX ISA 9.1, "Comparison and Selection Instructions", "Half Precision Comparison Instructions".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptx_engine.errors import NotStructuredError, ParseError
from ptx_engine.isa.algebra import COMPARISONS, Mode
from ptx_engine.isa.algebra_symbolic import compare_terms
from ptx_engine.isa.bits import integer_term, pred_ids, refused
from ptx_engine.isa.decode import Decode, Step
from ptx_engine.isa.float_words import word_of
from ptx_engine.isa.floating import PACKS
from ptx_engine.isa.group import Group
from ptx_engine.isa.integer import to_signed
from ptx_engine.isa.move import pack
from ptx_engine.isa.registry import instruction
from ptx_engine.isa.simple import Choice, Integers
from ptx_engine.isa.values import (
    FLOATS,
    PARTLY,
    Fmt,
    Part,
    Sym,
    Value,
    choose,
    const_part,
    covering,
    int_fmt,
    predicate_value,
    read_float,
    together,
    uninitialised,
)
from ptx_engine.terms import Arena, Ids, Op

_COMPARE: dict[str, Callable[[object, object], object]] = {
    "eq": lambda x, y: x == y, "ne": lambda x, y: x != y, "lt": lambda x, y: x < y, "le": lambda x, y: x <= y,  # type: ignore[operator]
    "gt": lambda x, y: x > y, "ge": lambda x, y: x >= y,  # type: ignore[operator]
}  # fmt: skip
#: comparisons of unsigned integers and their common names
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
#: types whose comparisons flush subnormal operands where .ftz says so
_FLUSHED = ("f16", "f16x2", "f32")
BOOL = "[bool=and|or|xor]"
_FLOAT_CMP = "cmp=" + "|".join(COMPARISONS)
_INTS = "u16|u32|u64|s16|s32|s64"
_S = "PTX ISA 9.1, Comparison and Selection Instructions: "


def _forms(out: str, floats: str, integers: bool = True) -> list[str]:
    """The patterns of a comparison: which operators each source type has."""
    flushed, kept = ("|".join(t for t in floats.split("|") if (t in _FLUSHED) == wanted) for wanted in (True, False))
    forms = [f"{_FLOAT_CMP} {BOOL} {ftz}{out} type={types}" for ftz, types in (("[!ftz]", flushed), ("", kept)) if types]
    if integers:
        forms += [
            f"cmp=eq|ne|lt|le|gt|ge {BOOL}{out} type={_INTS}", f"cmp=lo|ls|hi|hs {BOOL}{out} type=u16|u32|u64",
            f"cmp=eq|ne {BOOL}{out} type=b16|b32|b64",
        ]  # fmt: skip
    return forms


def comparer(d: Decode) -> Callable[[Value, Value], list[Value]]:
    """A function of two registers that gives one predicate for each part of the instruction's type."""
    kind, cmp = d.mods["type"], d.mods["cmp"]
    if kind in PACKS:
        return d.algebra.compare(cmp, PACKS[kind], Mode(ftz=d.has("ftz")))
    arena, bits, signed = d.arena, d.bits, d.signed
    name = _UNSIGNED.get(cmp, cmp)
    operator = _COMPARE[name]

    def integers(x: Value, y: Value) -> list[Value]:
        if x.__class__ is Sym or y.__class__ is Sym or x is None or y is None:
            return [compare_symbolic(arena, name, x, y, bits, signed or kind[0] == "b")]
        if signed:
            x, y = to_signed(x, bits), to_signed(y, bits)  # type: ignore[arg-type]
        return [operator(x, y)]  # type: ignore[list-item]

    return integers


def compare_symbolic(arena: Arena, cmp: str, x: Value, y: Value, bits: int, signed: bool) -> Value:
    """Symbolic integers compare as terms, floats' bits as functions of them. Raises NotStructuredError for other data."""
    p, q = (integer_term(arena, word_of(arena, v, bits), bits, signed) for v in (x, y))
    if p is None or q is None:
        raise refused(f"setp.{cmp}", x if isinstance(x, Sym) else y)
    return predicate_value(compare_terms(arena, cmp, p[0], q[0]))


def combine(arena: Arena, op: str, x: Value, y: Value) -> Value:
    """A boolean combination of two predicates."""
    if isinstance(x, Sym) or isinstance(y, Sym):
        p, q = pred_ids(x), pred_ids(y)
        if op == "xor":
            return predicate_value(arena.logic(Op.AND, arena.logic(Op.OR, p, q), arena.logic(Op.NOT, arena.logic(Op.AND, p, q))))
        return predicate_value(arena.logic(Op.AND if op == "and" else Op.OR, p, q))
    if x is None or y is None:
        raise uninitialised()
    return x & y if op == "and" else x | y if op == "or" else x ^ y


def invert(arena: Arena, x: Value) -> Value:
    """The negation of a predicate."""
    if isinstance(x, Sym):
        return predicate_value(arena.logic(Op.NOT, pred_ids(x)))
    if x is None:
        raise uninitialised()
    return x ^ True


def _combiner(d: Decode) -> Callable[[list[Value], Value], Value] | None:
    """The boolean combination with the fourth operand as a function of register file and comparison result; None without one."""
    op, arena = d.mod("bool"), d.arena
    d.expect(3 if op is None else 4)
    if op is None:
        return None
    c, negated = d.predicate(3)

    def with_third(R: list[Value], result: Value) -> Value:
        return combine(arena, op, result, invert(arena, R[c]) if negated else R[c])

    return with_third


@instruction("setp", *_forms("", "f32|f64|f16|bf16|f16x2|bf16x2"), source=_S + "setp")
def setp(d: Decode) -> Step:
    """``p|q``: q takes the negated comparison; on packed halves p takes the low and q the high half's."""
    p, q = d.pair()
    a, b, arena = d.src(1), d.src(2), d.arena
    compare, combined = comparer(d), _combiner(d)
    if d.mods["type"] in ("f16x2", "bf16x2"):
        if q is None:
            raise ParseError(f"{d.ins.mnemonic} needs two destination predicates", span=d.ins.span)
        return _setp_packed(p, q, a, b, compare, combined)
    if q is not None and d.mods["type"] in ("f16", "bf16"):
        raise ParseError(f"{d.ins.mnemonic} has one destination predicate", span=d.ins.span)
    if q is None and combined is None:
        if d.mods["type"] not in PACKS:
            d.simple = Integers("setp." + _UNSIGNED.get(d.mods["cmp"], d.mods["cmp"]), p, (a, b), d.bits, d.signed)

        def plain(g: Group) -> None:
            g.R[p] = compare(g.R[a], g.R[b])[0]

        return plain

    def step(g: Group) -> None:
        R = g.R
        result = compare(R[a], R[b])[0]
        opposite = invert(arena, result) if q is not None else None
        if combined is not None:
            result, opposite = combined(R, result), combined(R, opposite) if q is not None else None
        R[p] = result
        if q is not None:
            R[q] = opposite

    return step


def _setp_packed(
    p: int, q: int, a: int, b: int, compare: Callable[[Value, Value], list[Value]], combined: Callable[[list[Value], Value], Value] | None
) -> Step:
    def step(g: Group) -> None:
        R = g.R
        low, high = compare(R[a], R[b])
        if combined is not None:
            low, high = combined(R, low), combined(R, high)
        R[p], R[q] = low, high

    return step


#: set's result type -> (bits of true, width)
_TRUE = {
    "f32": (0x3F800000, 32), "f16": (0x3C00, 16), "bf16": (0x3F80, 16), "f16x2": (0x3C00, 16), "bf16x2": (0x3F80, 16),
    "u32": (0xFFFFFFFF, 32), "s32": (0xFFFFFFFF, 32), "u16": (0xFFFF, 16), "s16": (0xFFFF, 16),
}  # fmt: skip


@instruction("set", *_forms(" out=u32|s32|f32|f16|bf16", "f32|f64"), *_forms(" out=u16|s16|u32|s32|f16|bf16", "f16", False),
             *_forms(" out=u16|s16|u32|s32|bf16", "bf16", False), *_forms(" out=f16x2|u32|s32", "f16x2", False),
             *_forms(" out=bf16x2|u32|s32", "bf16x2", False), source=_S + "set")  # fmt: skip
def set_(d: Decode) -> Step:
    """1.0 or all ones where the comparison holds; on packed halves each half gets its own."""
    dst, a, b, arena = d.dst(), d.src(1), d.src(2), d.arena
    compare, combined = comparer(d), _combiner(d)
    out = d.mods["out"]
    if d.mods["type"].endswith("x2") and out in ("u32", "s32"):
        true, width = 0xFFFF, 16
    else:
        true, width = _TRUE[out]
    float_name = out.removesuffix("x2") if out.removesuffix("x2") in FLOATS else ""

    def step(g: Group) -> None:
        R = g.R
        results = compare(R[a], R[b])
        if combined is not None:
            results = [combined(R, r) for r in results]
        pieces = [truth(arena, r, true, width, float_name) for r in results]
        R[dst] = pieces[0] if len(pieces) == 1 else pack(pieces, 16)

    return step


def truth(arena: Arena, p: Value, true: int, width: int, float_name: str) -> Value:
    """``true`` where a predicate holds, else 0; a symbolic predicate is its own 1.0, and its negation as an integer all ones."""
    if isinstance(p, Sym):
        ids = pred_ids(p)
        part: Part = (FLOATS[float_name], ids) if float_name else (int_fmt(width, -1, 0), arena.neg(ids))
        return Sym((part,))
    return select(arena, p, true, 0, width, "set")


def select(arena: Arena, p: Value, a: Value, b: Value, width: int, name: str) -> Value:
    """p ? a : b for concrete or symbolic predicates."""
    if isinstance(p, (bool, np.bool_)):
        return a if p else b
    if isinstance(p, np.ndarray):
        return choose(arena, p, a, b, width)
    if p is None:
        raise uninitialised()
    assert isinstance(p, Sym)
    if not isinstance(a, Sym) and not isinstance(b, Sym):
        if isinstance(a, int) and isinstance(b, int) and a == b:
            return a
        raise NotStructuredError(f"{name} by a symbolic condition between concrete bits of unknown type", feature=name)
    found = together(arena, (a, b), width)
    if found is None:
        raise NotStructuredError(f"{name}: the two sides hold different formats", feature=name)
    fmts, (x, y) = found
    ids = pred_ids(p)
    return Sym(tuple(_select_part(arena, ids, *row) for row in zip(fmts, x, y)))


def _select_part(arena: Arena, p: Ids, fmt: Fmt, a: Ids, b: Ids) -> Part:
    """One part of a selection by a symbolic predicate; where both sides hold concrete bits there, one number or two constants."""
    if fmt.kind == "partial":
        raise uninitialised(PARTLY)
    if fmt.kind != "bits":
        return fmt, arena.select(p, a, b)
    if np.array_equal(a, b):
        return fmt, a
    numbers = covering(covering(int_fmt(fmt.bits, 0, 0), a), b)
    return numbers, arena.select(p, const_part(arena, a, numbers), const_part(arena, b, numbers))


_SELECT_TYPES = "b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64"


@instruction("selp", f"type={_SELECT_TYPES}", source=_S + "selp")
def selp(d: Decode) -> Step:
    d.expect(4)
    dst, a, b, arena, bits = d.dst(), d.src(1), d.src(2), d.arena, d.bits
    c, negated = d.predicate(3)
    kind = d.mods["type"]
    d.simple = Choice(dst, b, a, c) if negated else Choice(dst, a, b, c)

    def step(g: Group) -> None:
        R = g.R
        p = R[c]
        x, y = (R[b], R[a]) if negated else (R[a], R[b])
        R[dst] = select(arena, p, typed(arena, p, x, y, kind, bits), y, bits, "selp")

    return step


def typed(arena: Arena, p: Value, x: Value, y: Value, kind: str, bits: int) -> Value:
    """``x`` as symbolic data of the instruction's type where a symbolic predicate chooses between two concrete values."""
    if p.__class__ is not Sym or x.__class__ is Sym or y.__class__ is Sym or x is None or y is None:
        return x
    if kind in FLOATS:
        return Sym(((FLOATS[kind], read_float(arena, x, FLOATS[kind])),))
    number = integer_term(arena, x, bits, False)
    assert number is not None
    ids, lo, hi = number
    return Sym(((int_fmt(bits, lo, hi), ids),))


@instruction("slct", f"type={_SELECT_TYPES} ctype=s32", f"[!ftz] type={_SELECT_TYPES} ctype=f32", source=_S + "slct")
def slct(d: Decode) -> Step:
    """a where c >= 0, else b (also where c is NaN)."""
    d.expect(4)
    dst, a, b, c, arena, bits, kind = d.dst(), d.src(1), d.src(2), d.src(3, 32), d.arena, d.bits, d.mods["type"]
    at_least = d.algebra.compare("ge", PACKS["f32"], Mode(ftz=d.has("ftz")))
    floating = d.mods["ctype"] == "f32"

    def sign(value: Value) -> Value:
        if floating:
            return at_least(value, 0)[0]
        if isinstance(value, Sym) or value is None:
            return compare_symbolic(arena, "ge", value, 0, 32, True)
        return to_signed(value, 32) >= 0

    def step(g: Group) -> None:
        R = g.R
        p = sign(R[c])
        R[dst] = select(arena, p, typed(arena, p, R[a], R[b], kind, bits), R[b], bits, "slct")

    return step


__all__ = ["combine", "compare_terms", "comparer", "invert", "predicate_value", "select"]
