"""Names of inputs and short printed forms of terms, for witnesses and explanations."""

from __future__ import annotations

from collections.abc import Callable

from ptx_engine.launch import BoundLaunch
from ptx_engine.terms.arena import Arena
from ptx_engine.terms.constants import ONE, Const
from ptx_engine.terms.ops import TABLE, Op

NameOf = Callable[[int], str]

_INFIX = {Op.ADD: " + ", Op.SUB: " - ", Op.MUL: "*", Op.DIV: "/", Op.LT: " < ", Op.LE: " <= ", Op.EQ: " == ", Op.NE: " != "}


def storage_names(arena: Arena) -> NameOf:
    """ "A[3]" by storage index; a bare name for inputs of one element."""

    def name(ident: int) -> str:
        entry, index = arena.input_of(ident)
        return entry.name if entry.count == 1 else f"{entry.name}[{index}]"

    return name


def element_names(bound: BoundLaunch) -> NameOf:
    """ "A[1, 3]" by the multi-index of the launch's tensors."""

    def name(ident: int) -> str:
        entry, index = bound.arena.input_of(ident)
        buffer = bound.by_name.get(entry.name)
        if buffer is None:
            return entry.name if entry.count == 1 else f"{entry.name}[{index}]"
        return f"{entry.name}[{', '.join(map(str, buffer.arg.index_of(index)))}]"

    return name


def show(arena: Arena, ident: int, name_of: NameOf, depth: int = 3) -> str:
    """A term in infix form down to ``depth`` operators (a bounded recursion); deeper parts print as dots."""
    if ident < 0:
        return name_of(ident)
    op, a, b, c = arena.node(ident)
    if op is Op.CONST:
        return _constant(arena.consts[a])
    if depth == 0:
        return "..."
    if op is Op.EXP2:
        natural = _over_log2e(arena, a)
        if natural is not None:
            return f"exp({show(arena, natural, name_of, depth - 1)})"
    if op is Op.DOT:
        rows, cols, acc = arena.dot_operands(ident)
        first = f"{show(arena, int(rows[0]), name_of, depth - 1)}*{show(arena, int(cols[0]), name_of, depth - 1)}"
        start = "" if acc == 0 else show(arena, acc, name_of, depth - 1) + " + "
        return f"{start}sum of {len(rows)} products {first} + ..."
    if TABLE[op].record:
        operands = arena.nary_operands(ident)
        return f"{TABLE[op].symbol} of {len(operands)} terms {show(arena, int(operands[0]), name_of, depth - 1)}, ..."
    row = TABLE[op]
    parts = [show(arena, x, name_of, depth - 1) for x in (a, b, c)[: row.arity]]
    if op in _INFIX:
        return f"({parts[0]}{_INFIX[op]}{parts[1]})"
    symbol = arena.opaque_names[c] if op is Op.OPAQUE else row.symbol
    return f"{symbol}({', '.join(parts)})"


def _constant(const: Const) -> str:
    """``log2e`` rather than ``1*log2e``."""
    text = str(const)
    return text.removeprefix("1*") if const.coef == 1 and not const.is_rational else text


def _over_log2e(arena: Arena, ident: int) -> int | None:
    """x where a term is x * log2(e): the argument of a natural exponential."""
    if ident < 0:
        return None
    op, a, b, _ = arena.node(ident)
    if op is not Op.MUL:
        return None
    log2e = arena.const(Const(ONE.coef, log2e=1))
    return a if b == log2e else (b if a == log2e else None)
