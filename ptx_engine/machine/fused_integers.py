"""Integer instructions as Python expressions over ints and unsigned columns, for fused code.

Operands are names of locals, or literals, with their kinds; they are canonical bits of the instruction's width. An expression computes what
the instruction's closure computes for such operands; None where only the closure knows.
"""

from __future__ import annotations

from dataclasses import dataclass

from ptx_engine.isa.simple import Integers
from ptx_engine.machine.fused_kinds import COLUMNS, FLAG, FLAGS, INT, Kind


@dataclass(frozen=True, slots=True)
class Operand:
    """The text of an operand, its kind, and its value where it is a literal."""

    text: str
    kind: Kind
    literal: int | None = None


Expression = tuple[str, Kind]
_RING = {"add": "+", "sub": "-", "mul": "*"}
_LOGIC = {"and": "&", "or": "|", "xor": "^"}
_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def expression(form: Integers, operands: list[Operand]) -> Expression | None:
    """The expression of an instruction and the kind of its result."""
    if form.bits == 1:
        return _predicates(form, operands)
    if all(o.kind is INT for o in operands):
        return _of_ints(form, operands)
    column = COLUMNS.get(form.bits)
    if column is None or not all(o.kind is INT or o.kind is column for o in operands):
        return None
    return _of_columns(form, operands, column)


def _predicates(form: Integers, operands: list[Operand]) -> Expression | None:
    if not all(o.kind is FLAG or o.kind is FLAGS for o in operands):
        return None
    kind = FLAGS if any(o.kind is FLAGS for o in operands) else FLAG
    if form.name == "not":
        return f"{operands[0].text} ^ True", kind
    if form.name in _LOGIC:
        return f"{operands[0].text} {_LOGIC[form.name]} {operands[1].text}", kind
    return None


def signed(operand: Operand, bits: int) -> str:
    """The two's complement reading of an int."""
    if operand.literal is not None:
        value = operand.literal
        return f"({value - (1 << bits) if value >> (bits - 1) else value})"
    x = operand.text
    return f"({x} - {1 << bits} if {x} >> {bits - 1} else {x})"


def _of_ints(form: Integers, operands: list[Operand]) -> Expression | None:
    bits, name = form.bits, form.name
    mask = (1 << bits) - 1
    a, b, c = [*(o.text for o in operands), "", ""][:3]
    wide = (1 << 2 * bits) - 1
    if name in _RING:
        return f"({a} {_RING[name]} {b}) & {mask}", INT
    if name in _LOGIC:
        return f"{a} {_LOGIC[name]} {b}", INT
    if name.startswith("setp."):
        return _compare(form, operands), FLAG
    if name in ("min", "max"):
        first = f"{_ordered(form, a)} {'<' if name == 'min' else '>'} {_ordered(form, b)}"
        return f"{a} if {first} else {b}", INT
    if name in ("mul.wide", "mad.wide"):
        p, q = (signed(o, bits) if form.signed else o.text for o in operands[:2])
        return f"({p} * {q}{f' + {c}' if c else ''}) & {wide}", INT
    if name in ("shl", "shr", "shr.s"):
        return _shift(form, operands)
    if name in ("div", "rem") and not form.signed and operands[1].literal:
        return f"{a} {'//' if name == 'div' else '%'} {b}", INT
    fixed = {"mad": f"({a} * {b} + {c}) & {mask}", "not": f"{a} ^ {mask}", "neg": f"-{a} & {mask}"}
    return (fixed[name], INT) if name in fixed else None


def _ordered(form: Integers, text: str) -> str:
    """A number that orders as the operand does: flipping the sign bit puts negative numbers first."""
    return f"({text} ^ {1 << form.bits - 1})" if form.signed else text


def _compare(form: Integers, operands: list[Operand]) -> str:
    name = form.name.partition(".")[2]
    texts = [o.text if name in ("eq", "ne") else _ordered(form, o.text) for o in operands]
    return f"{texts[0]} {_COMPARE[name]} {texts[1]}"


def _shift(form: Integers, operands: list[Operand]) -> Expression:
    bits = form.bits
    value, amount = operands
    mask = (1 << bits) - 1
    if form.name == "shr":
        return f"{value.text} >> {amount.text}", INT
    if form.name == "shr.s":
        return f"({signed(value, bits)} >> {amount.text}) & {mask}", INT
    if amount.literal is None:
        return f"({value.text} << {amount.text}) & {mask} if {amount.text} < {bits} else 0", INT
    return (f"({value.text} << {amount.text}) & {mask}" if amount.literal < bits else "0"), INT


def _of_columns(form: Integers, operands: list[Operand], column: Kind) -> Expression | None:
    """NumPy wraps by itself; a lone int is cut to the width where it is a product."""
    name, bits = form.name, form.bits
    a, b, c = [*(o.text for o in operands), "", ""][:3]
    if name in _RING or name in _LOGIC:
        return f"{a} {(_RING | _LOGIC)[name]} {b}", column
    if name == "mad":
        product = f"({a} * {b} & {(1 << bits) - 1})" if operands[0].kind is operands[1].kind is INT else f"{a} * {b}"
        return f"{product} + {c}", column
    if name == "not":
        return f"{a} ^ {(1 << bits) - 1}", column
    if name in ("shl", "shr") and operands[0].kind is column and operands[1].literal is not None and operands[1].literal < bits:
        return f"{a} {'<<' if name == 'shl' else '>>'} {b}", column
    if name.startswith("setp."):
        cmp = name.partition(".")[2]
        texts = [a, b]
        if form.signed and cmp not in ("eq", "ne"):
            texts = [f"{o.text}.view('i{bits // 8}')" if o.kind is column else signed(o, bits) for o in operands]
        return f"{texts[0]} {_COMPARE[cmp]} {texts[1]}", FLAGS
    return None
