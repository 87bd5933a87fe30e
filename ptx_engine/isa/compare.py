"""Comparison and selection: setp, set, selp, slct.

On concrete integers the result is a concrete predicate; on floats it is a 0/1 term (folded where both are constants).
Unordered comparisons (``equ`` ...) differ from ordered ones on NaN only, which real data are not.
Source: PTX ISA 9.1, "Comparison and Selection Instructions".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptx_engine.errors import NotStructuredError
from ptx_engine.isa.bits import integer_term, pred_ids, refused
from ptx_engine.isa.decode import Decode, Step
from ptx_engine.isa.floating import PACKS
from ptx_engine.isa.group import Group
from ptx_engine.isa.integer import to_signed
from ptx_engine.isa.registry import instruction
from ptx_engine.isa.values import FLOATS, PRED, Sym, Value, as_parts, choose, common_fmts, read_float, uninitialised
from ptx_engine.terms import FALSE, TRUE, ZERO, Arena, Ids, Op

_COMPARE: dict[str, Callable[[object, object], object]] = {
    "eq": lambda x, y: x == y, "ne": lambda x, y: x != y, "lt": lambda x, y: x < y, "le": lambda x, y: x <= y,  # type: ignore[operator]
    "gt": lambda x, y: x > y, "ge": lambda x, y: x >= y,  # type: ignore[operator]
    "lo": lambda x, y: x < y, "ls": lambda x, y: x <= y, "hi": lambda x, y: x > y, "hs": lambda x, y: x >= y,  # type: ignore[operator]
}  # fmt: skip
#: comparison -> (term operator, operands swapped, negated)
_TERM = {
    "eq": (Op.EQ, False), "ne": (Op.NE, False), "lt": (Op.LT, False), "le": (Op.LE, False), "gt": (Op.LT, True), "ge": (Op.LE, True),
    "lo": (Op.LT, False), "ls": (Op.LE, False), "hi": (Op.LT, True), "hs": (Op.LE, True),
    "equ": (Op.EQ, False), "neu": (Op.NE, False), "ltu": (Op.LT, False), "leu": (Op.LE, False), "gtu": (Op.LT, True), "geu": (Op.LE, True),
}  # fmt: skip
CMP = "cmp=" + "|".join(_TERM) + "|num|nan"
BOOL = "[bool=and|or|xor]"
TYPES = "type=b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64|f16|bf16|f16x2|bf16x2"
_S = "PTX ISA 9.1, Comparison and Selection Instructions: "


def compare_terms(arena: Arena, cmp: str, x: Ids, y: Ids) -> Ids:
    """A comparison of two reals as a 0/1 term."""
    if cmp in ("num", "nan"):
        return TRUE if cmp == "num" else FALSE  # data are reals: no NaN
    op, swap = _TERM[cmp]
    return arena.compare(op, y, x) if swap else arena.compare(op, x, y)


def predicate_value(ids: Ids) -> Value:
    """0/1 ids as a predicate register: concrete where every lane is a constant."""
    if isinstance(ids, int):
        return ids == TRUE if ids in (TRUE, FALSE) else Sym(((PRED, ids),))
    if int(ids.view(np.uint32).max()) <= TRUE:
        return ids.astype(bool)
    return Sym(((PRED, ids),))


def comparer(d: Decode, cmp: str) -> Callable[[list[Value], int, int], Value]:
    """A function of the register file that compares two sources of the instruction's type."""
    kind = d.mods["type"]
    arena = d.arena
    if kind in FLOATS:
        fmt = FLOATS[kind]
        return lambda R, a, b: predicate_value(compare_terms(arena, cmp, read_float(arena, R[a], fmt), read_float(arena, R[b], fmt)))
    bits, signed = d.bits, d.signed
    operator = _COMPARE[cmp]

    def integers(R: list[Value], a: int, b: int) -> Value:
        x, y = R[a], R[b]
        if x.__class__ is Sym or y.__class__ is Sym or x is None or y is None:
            return _compare_symbolic(arena, cmp, x, y, bits, signed or kind[0] == "b")
        if signed:
            x, y = to_signed(x, bits), to_signed(y, bits)  # type: ignore[arg-type]
        return operator(x, y)  # type: ignore[return-value]

    return integers


def _compare_symbolic(arena: Arena, cmp: str, x: Value, y: Value, bits: int, signed: bool) -> Value:
    """Symbolic integers compare as terms; equal bit patterns of floats compare only for identity with themselves."""
    p, q = integer_term(arena, x, bits, signed), integer_term(arena, y, bits, signed)
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


@instruction("setp", f"{CMP} {BOOL} [!ftz] {TYPES}", source=_S + "setp")
def setp(d: Decode) -> Step:
    p, q = d.pair()
    if d.mods["type"] in ("f16x2", "bf16x2"):
        return _setp_packed(d, p, q)
    a, b = d.src(1), d.src(2)
    compare = comparer(d, d.mods["cmp"])
    op, arena = d.mod("bool"), d.arena
    if op is None:
        d.expect(3)
        if q is None:

            def plain(g: Group) -> None:
                g.R[p] = compare(g.R, a, b)

            return plain
        second = q

        def both(g: Group) -> None:
            result = compare(g.R, a, b)
            g.R[p], g.R[second] = result, invert(arena, result)

        return both
    d.expect(4)
    c, negated = d.predicate(3)

    def combined(g: Group) -> None:
        R = g.R
        result = compare(R, a, b)
        other = invert(arena, R[c]) if negated else R[c]
        if q is not None:
            R[q] = combine(arena, op, invert(arena, result), other)
        R[p] = combine(arena, op, result, other)

    return combined


def _setp_packed(d: Decode, p: int, q: int | None) -> Step:
    """setp on halves: the first predicate takes the low, the second the high half."""
    if d.has("bool") or q is None:
        d.expect(3, 4)
    fmts = PACKS[d.mods["type"]]
    a, b, arena, cmp = d.src(1), d.src(2), d.arena, d.mods["cmp"]
    op = d.mod("bool")
    c, negated = d.predicate(3) if op else (0, False)
    name = d.ins.mnemonic

    def step(g: Group) -> None:
        R = g.R
        xs, ys = as_parts(arena, R[a], fmts), as_parts(arena, R[b], fmts)
        if xs is None or ys is None:
            raise NotStructuredError(f"{name}: operands are not packed halves", feature=name)
        results = [predicate_value(compare_terms(arena, cmp, x, y)) for x, y in zip(xs, ys)]
        if op:
            other = invert(arena, R[c]) if negated else R[c]
            results = [combine(arena, op, r, other) for r in results]
        R[p] = results[0]
        if q is not None:
            R[q] = results[1]

    return step


@instruction("set", f"{CMP} {BOOL} [!ftz] out=u32|s32|f32 {TYPES}", source=_S + "set")
def set_(d: Decode) -> Step:
    d.expect(3, 4)
    dst, a, b = d.dst(), d.src(1), d.src(2)
    compare = comparer(d, d.mods["cmp"])
    op, arena = d.mod("bool"), d.arena
    c, negated = d.predicate(3) if op else (0, False)
    true = 0x3F800000 if d.mods["out"] == "f32" else 0xFFFFFFFF

    def step(g: Group) -> None:
        R = g.R
        result = compare(R, a, b)
        if op:
            result = combine(arena, op, result, invert(arena, R[c]) if negated else R[c])
        R[dst] = select(arena, result, true, 0, 32, "set")

    return step


def select(arena: Arena, p: Value, a: Value, b: Value, width: int, name: str) -> Value:
    """p ? a : b for concrete or symbolic predicates."""
    if p.__class__ is bool or p.__class__ is np.bool_:
        return a if p else b
    if isinstance(p, np.ndarray):
        return choose(arena, p, a, b, width)
    if p is None:
        raise uninitialised()
    assert isinstance(p, Sym)
    if not isinstance(a, Sym) and not isinstance(b, Sym):
        if isinstance(a, int) and isinstance(b, int) and a == b:
            return a
        # two concrete sides: floats by default (compilers select float literals); integers stay exact for small numbers
        raise NotStructuredError(f"{name} by a symbolic condition between concrete bits of unknown type", feature=name)
    fmts = common_fmts(a, b)
    x, y = (as_parts(arena, v, fmts) for v in (a, b)) if fmts is not None else (None, None)
    if fmts is None or x is None or y is None:
        raise NotStructuredError(f"{name}: the two sides hold different formats", feature=name)
    ids = pred_ids(p)
    return Sym(tuple((f, arena.select(ids, u, v)) for f, u, v in zip(fmts, x, y)))


@instruction("selp", "type=b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64", source=_S + "selp")
def selp(d: Decode) -> Step:
    d.expect(4)
    dst, a, b, arena, bits = d.dst(), d.src(1), d.src(2), d.arena, d.bits
    c, negated = d.predicate(3)
    kind = d.mods["type"]

    def step(g: Group) -> None:
        R = g.R
        p = R[c]
        x, y = (R[b], R[a]) if negated else (R[a], R[b])
        if p.__class__ is Sym and x.__class__ is not Sym and y.__class__ is not Sym and kind in FLOATS:
            fmt = FLOATS[kind]
            x = Sym(((fmt, read_float(arena, x, fmt)),))
        elif p.__class__ is Sym and x.__class__ is not Sym and y.__class__ is not Sym and x is not None and y is not None:
            x = _integer_constant(arena, x, bits)
        R[dst] = select(arena, p, x, y, bits, "selp")

    return step


def _integer_constant(arena: Arena, value: Value, bits: int) -> Value:
    """Concrete bits as a symbolic integer (unsigned reading)."""
    from ptx_engine.isa.values import int_fmt

    number = integer_term(arena, value, bits, False)
    assert number is not None
    ids, lo, hi = number
    return Sym(((int_fmt(bits, lo, hi), ids),))


@instruction("slct", "[!ftz] type=b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64 ctype=s32|f32", source=_S + "slct")
def slct(d: Decode) -> Step:
    d.expect(4)
    dst, a, b, c, arena, bits = d.dst(), d.src(1), d.src(2), d.src(3, 32), d.arena, d.bits
    fmt = FLOATS["f32"]
    floating = d.mods["ctype"] == "f32"

    def step(g: Group) -> None:
        R = g.R
        if floating:
            p: Value = predicate_value(compare_terms(arena, "ge", read_float(arena, R[c], fmt), ZERO))
        else:
            value = R[c]
            if isinstance(value, Sym) or value is None:
                p = _compare_symbolic(arena, "ge", value, 0, 32, True)
            else:
                p = to_signed(value, 32) >= 0
        R[dst] = select(arena, p, R[a], R[b], bits, "slct")

    return step
