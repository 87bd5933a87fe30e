"""Operands: registers, literals, symbols, vectors, addresses, pairs, negations, subscripts.

A ``%name`` that is no special register is a ``Reg``, any other identifier a ``Name`` until ``resolve`` has seen the
declarations. Equal texts give the same object; a text that the quick patterns do not know goes through the cursor.
"""

from __future__ import annotations

import re

from ptx_engine.errors import ParseError
from ptx_engine.syntax import constants
from ptx_engine.syntax.ast import Args, FloatLit, IntLit, Mem, Name, NameOffset, Not, Operand, Pair, Reg, Subscript, Vec
from ptx_engine.syntax.lexer import IDENT, Cursor, Source

#: special registers without a ``.x`` component (PTX ISA 9.1, "Special Registers"); those with one are never registers
_SPECIAL_WORDS = """
    tid ntid laneid warpid nwarpid ctaid nctaid smid nsmid gridid clusterid nclusterid cluster_ctaid cluster_nctaid
    cluster_ctarank cluster_nctarank is_explicit_cluster lanemask_eq lanemask_le lanemask_lt lanemask_ge lanemask_gt clock
    clock_hi clock64 globaltimer globaltimer_lo globaltimer_hi total_smem_size aggr_smem_size dynamic_smem_size
    current_graph_exec reserved_smem_offset_begin reserved_smem_offset_end reserved_smem_offset_cap reserved_smem_offset_0
    reserved_smem_offset_1
"""
SPECIAL = frozenset(
    [*_SPECIAL_WORDS.split(), *(f"pm{i}" for i in range(8)), *(f"pm{i}_64" for i in range(8)), *(f"envreg{i}" for i in range(32))]
)

_REGISTER = re.compile(r"%[\w$]+", re.ASCII)
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
_ADDRESS = re.compile(rf"\[\s*({IDENT})\s*(?:\+\s*(-?)(0|[1-9][0-9]{{0,17}})\s*)?\]", re.ASCII)
_PIECE = re.compile(r"(?>(?:[^,{\[(]++|\{[^}]*+\}|\[[^\]]*+\])+)")
_SELECTOR = re.compile(r"\.[bh][0-3]\Z")


def symbol(name: str) -> Operand:
    """The operand that an identifier stands for before declarations are known."""
    if name[0] == "%":
        stem, dot, component = name[1:].partition(".")
        if stem not in SPECIAL and not (dot and _SELECTOR.match(dot + component)):
            return Reg(name)
    elif name == "WARP_SZ":
        return IntLit(32)
    return Name(name)


class Operands:
    """Reads operand lists of one text, sharing equal operands."""

    __slots__ = ("_cache",)

    def __init__(self) -> None:
        self._cache: dict[str, Operand] = {}

    def split(self, text: str) -> tuple[Operand, ...] | None:
        """The operands of a comma-separated list, or None where this quick reader does not know the form."""
        if "{" in text or "[" in text:
            pieces = _PIECE.findall(text)
            if sum(map(len, pieces)) + len(pieces) - 1 != len(text):
                return None
        else:
            pieces = text.split(",")
        cache = self._cache
        found = []
        for piece in pieces:
            operand = cache.get(piece)
            if operand is None:
                operand = self._read(piece)
                if operand is None:
                    return None
                cache[piece] = operand
            found.append(operand)
        return tuple(found)

    def register(self, name: str) -> Reg:
        """A guard's register, shared with the operands of that name."""
        operand = self._cache.get(name)
        if not isinstance(operand, Reg):
            operand = Reg(name)
            if symbol(name) == operand:
                self._cache[name] = operand
        return operand

    def _read(self, piece: str) -> Operand | None:
        """One operand from its text; blanks around it and the elements of a vector go through the cache."""
        text = piece.strip()
        operand = self._cache.get(text)
        if operand is None:
            operand = self._new(text)
            if operand is not None:
                self._cache[text] = operand
        return operand

    def _new(self, text: str) -> Operand | None:
        if _REGISTER.fullmatch(text):
            return Name(text) if text[1:] in SPECIAL else Reg(text)
        if _DECIMAL.fullmatch(text):
            return IntLit(int(text))
        match = _ADDRESS.fullmatch(text)
        if match:
            base = self._cache.get(match[1]) or self._cache.setdefault(match[1], symbol(match[1]))
            return Mem(base, int(match[2] + match[3]) if match[3] else 0)
        if text[:1] == "{" and text[-1] == "}" and text.count("{") == text.count("}") == 1 and "[" not in text:
            elements = self.split(text[1:-1])
            return Vec(elements) if elements is not None else None
        try:
            cursor = Cursor(Source(text))
            operand = parse_operand(cursor)
        except ParseError:
            return None
        return operand if cursor.kind == "end" else None


def parse_operand(cursor: Cursor) -> Operand:
    """One operand at the cursor. Raises ParseError."""
    start = cursor.start
    operand = _primary(cursor)
    if cursor.kind == "punct" and cursor.value == "|":
        cursor.advance()
        if not isinstance(operand, (Reg, Name)):
            cursor.fail("only registers can be paired with '|'", start=start)
        second = _primary(cursor)
        if not isinstance(second, (Reg, Name)):
            cursor.fail("only registers can be paired with '|'", start=start)
        return Pair(operand, second)
    return operand


def parse_list(cursor: Cursor, closing: str) -> tuple[Operand, ...]:
    """Operands up to a closing token, which is taken; the list may be empty."""
    found: list[Operand] = []
    if cursor.take(closing):
        return ()
    while True:
        found.append(parse_operand(cursor))
        if cursor.take(closing):
            return tuple(found)
        cursor.expect(",", f"or {closing!r}")


def parse_arguments(cursor: Cursor) -> Args:
    """The parenthesised list of a ``call``."""
    cursor.expect("(")
    return Args(parse_list(cursor, ")"))


def _primary(cursor: Cursor) -> Operand:
    if cursor.kind == "ident" and cursor.value != "WARP_SZ":
        return _after_symbol(cursor, cursor.advance())
    if cursor.kind == "punct":
        if cursor.value == "{":
            return _vector(cursor)
        if cursor.value == "[":
            return _address(cursor)
        if cursor.value == "!":
            return _negation(cursor)
    value = constants.expression(cursor)
    return value if isinstance(value, FloatLit) else IntLit(value.value)


def _after_symbol(cursor: Cursor, name: str) -> Operand:
    if cursor.kind == "punct" and cursor.value == "[":
        return _subscript(cursor, name)
    if cursor.kind == "punct" and cursor.value in "+-":
        if isinstance(symbol(name), Reg):
            cursor.fail("a register takes an offset only inside [ ]", "arithmetic needs an instruction of its own, such as add")
        return NameOffset(name, constants.offset(cursor))
    return symbol(name)


def _vector(cursor: Cursor) -> Vec:
    cursor.enter()
    cursor.expect("{")
    elements = parse_list(cursor, "}")
    cursor.leave()
    return Vec(elements)


def _base(cursor: Cursor) -> tuple[Operand | None, int]:
    """``%r1 + 4``, ``table - 8``, ``16``: a register or symbol (None for a constant) and an offset."""
    if cursor.kind == "ident" and cursor.value != "WARP_SZ":
        base = symbol(cursor.advance())
        return base, constants.offset(cursor)
    return None, constants.integer(cursor)


def _address(cursor: Cursor) -> Mem:
    cursor.enter()
    cursor.expect("[")
    base, offset = _base(cursor)
    extra: list[Operand] = []
    while cursor.take(","):
        extra.append(parse_operand(cursor))
    cursor.expect("]", "after the address")
    cursor.leave()
    if base is None:
        return Mem(IntLit(offset), 0, extra=tuple(extra))
    return Mem(base, offset, extra=tuple(extra))


def _subscript(cursor: Cursor, name: str) -> Subscript:
    cursor.expect("[")
    base, offset = _base(cursor)
    cursor.expect("]", "after the index")
    return Subscript(name, base, offset)


def _negation(cursor: Cursor) -> Operand:
    """``!%p1``, or a constant expression that begins with ``!``."""
    start, at = cursor.start, cursor.previous_end
    cursor.advance()
    if cursor.kind == "ident" and cursor.value != "WARP_SZ":
        return Not(symbol(cursor.advance()))
    cursor.move(start)
    cursor.previous_end = at
    value = constants.expression(cursor)
    return value if isinstance(value, FloatLit) else IntLit(value.value)
