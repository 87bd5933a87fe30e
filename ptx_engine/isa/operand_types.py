"""What kind of register and literal each operand of an instruction takes, by the type that the instruction gives it.

Untyped bits go with every register of their size; integers with integer and untyped ones; .f32 and .f64 with their own and untyped
ones; packed halves and .bf16 have untyped registers only.
Source: PTX ISA 9.1, "Type Information for Instructions and Operands", "Constants", and the sections of the instructions.
"""

from __future__ import annotations

from collections.abc import Callable

from ptx_engine.errors import ParseError
from ptx_engine.syntax.ast import FloatLit, Instruction, IntLit, Name, Operand, Pair, Reg, Vec

Modifiers = dict[str, str]

_ALIKE = (
    "add addc sub subc mul mad madc mul24 mad24 sad div rem abs neg min max fma rcp sqrt rsqrt sin cos lg2 ex2 tanh copysign and or "
    "xor not cnot brev mov"
)  # fmt: skip
#: instruction -> the types of its operands, the last one for all that follow: T the last type, O the one before it, C the type of slct's
#: third source, else a type's name; "-" for an operand that is checked elsewhere
_TYPES: dict[str, str] = {
    **dict.fromkeys(_ALIKE.split(), "T"), "bfe": "T T u32 u32", "bfi": "T T T u32 u32", "bfind": "u32 T", "popc": "u32 T", "clz": "u32 T",
    "bmsk": "u32", "szext": "T T u32", "fns": "b32", "dp2a": "u32", "dp4a": "u32", "shl": "T T u32", "shr": "T T u32", "shf": "T T T u32",
    "lop3": "T T T T -", "prmt": "b32", "selp": "T T T pred", "slct": "T T T C", "set": "O T T pred", "setp": "pred T T pred",
    "testp": "pred T", "match": "u32 T u32", "redux": "T T u32", "shfl": "b32 b32 b32 b32 u32", "cvta": "T", "isspacep": "pred u64",
    "nanosleep": "u32", "activemask": "b32", "cvt": "O T -", "ld": "T -", "ldu": "T -", "st": "- T -", "atom": "T - T -", "red": "- T -",
}  # fmt: skip
#: instructions whose result may be left out by ``_``, and those where it may beside a second one
_DISCARDS, _PAIRS = frozenset({"atom", "lop3", "setp"}), frozenset({"lop3", "setp", "elect", "match"})


def operand_types(opcode: str, mods: Modifiers, count: int) -> tuple[str, ...]:
    """The types of ``count`` operands; empty for instructions that check their operands themselves."""
    row = _TYPES.get(opcode)
    if row is None:
        return ()
    if opcode == "atom" and mods.get("op") == "cas":
        row = "T - T T -"
    names = {"T": mods.get("type", "b32"), "O": mods.get("out") or mods.get("to", ""), "C": mods.get("ctype", "")}
    words = [names.get(word, word) for word in row.split()]
    return tuple(words[min(i, len(words) - 1)] for i in range(count))


def check_operands(instruction: Instruction, mods: Modifiers, register_type: Callable[[str], str]) -> None:
    """Raise ParseError for a register, literal or symbol of another kind than an operand has."""
    types = operand_types(instruction.opcode, mods, len(instruction.operands))
    for i, (operand, kind) in enumerate(zip(instruction.operands, types)):
        paired = isinstance(operand, Pair)
        first = operand.first if isinstance(operand, Pair) else operand
        several = isinstance(first, Vec)
        for element in first.elements if isinstance(first, Vec) else (first,):
            if isinstance(element, Name):
                discarded = i == 0 and not several and element.name == "_"
                why = "its result cannot be left out" if discarded and instruction.opcode not in (_PAIRS if paired else _DISCARDS) else ""
            else:
                why = _mismatch(instruction.opcode, element, kind, register_type)
            if why:
                raise ParseError(f"{instruction.mnemonic}: {why}", span=instruction.span)


def _mismatch(opcode: str, operand: Operand, kind: str, register_type: Callable[[str], str]) -> str:
    """Why a register or literal does not fit a type; empty where it does."""
    if isinstance(operand, Reg):
        held = register_type(operand.name)
        return "" if fits(held, kind) else f"{operand.name} is of type .{held} where .{kind} is needed"
    if isinstance(operand, (IntLit, FloatLit)):
        cut = opcode in ("st", "atom", "red") and kind[0] == "b" and isinstance(operand, FloatLit) and kind != f"b{operand.width}"
        right = not cut and takes_literal(kind, isinstance(operand, FloatLit))
        return "" if right else f"{_KIND[type(operand)]} literal for a value of type .{kind}"
    return ""


_KIND: dict[type, str] = {IntLit: "an integer", FloatLit: "a floating-point"}


def fits(held: str, kind: str) -> bool:
    """Whether a register's type goes with an operand's type; sizes are checked where the operand is read."""
    if kind == "-":
        return True
    if (held == "pred") != (kind == "pred"):
        return False
    if held[0] == "b" or (kind[0] == "b" and "f" not in kind):
        return True
    if kind[0] in "us" and "x2" not in kind:
        return held[0] in "us"
    return held == kind


def takes_literal(kind: str, floating: bool) -> bool:
    """Whether an operand of a type may be an integer or a floating-point literal."""
    if kind in ("f32", "f64"):
        return floating
    if kind in ("b32", "b64", "-"):
        return True
    return not floating and (kind == "pred" or (kind[0] in "usb" and "f" not in kind and "x2" not in kind))
