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
#: third source, fD fA fB fC fT a matrix of the type in that slot, else a type's name. "-" is checked elsewhere; "size" is a number or a
#: predicate; "reg" a register of 32 bits and no literal, "raw" an untyped one
_TYPES: dict[str, str] = {
    **dict.fromkeys(_ALIKE.split(), "T"),
    "bfe": "T T u32 u32",
    "bfi": "T T T u32 u32",
    "bfind": "u32 T",
    "popc": "u32 T",
    "clz": "u32 T",
    "bmsk": "u32",
    "szext": "T T u32",
    "fns": "b32",
    "dp2a": "u32",
    "dp4a": "u32",
    "shl": "T T u32",
    "shr": "T T u32",
    "shf": "T T T u32",
    "lop3": "T T T T -",
    "prmt": "b32",
    "selp": "T T T pred",
    "slct": "T T T C",
    "set": "O T T pred",
    "setp": "pred T T pred",
    "testp": "pred T",
    "match": "u32 T u32",
    "redux": "T T u32",
    "shfl": "b32 b32 b32 b32 u32",
    "cvta": "T",
    "isspacep": "pred u64",
    "nanosleep": "u32",
    "activemask": "b32",
    "cvt": "O T -",
    "ld": "T -",
    "ldu": "T -",
    "st": "- T -",
    "atom": "T - T -",
    "red": "- T -",
    "vote": "T pred u32",
    "elect": "b32 u32",
    "cp": "- - - size -",
    "movmatrix": "reg",
    "ldmatrix": "reg -",
    "stmatrix": "- reg",
}
_BARRIER = [("and", "pred u32 u32 pred"), ("or", "pred u32 u32 pred"), ("popc", "u32 u32 u32 pred"), ("", "u32")]
#: instructions with several shapes: modifiers that a shape has -> the types of its operands; the first that fits counts
_SHAPES: dict[str, list[tuple[str, str]]] = {
    "bar": _BARRIER, "barrier": _BARRIER,
    "redux": [("f32", "f32 f32 u32"), ("", "u32")],
    "createpolicy": [("fractional", "u64 f32"), ("range", "u64 - u32"), ("cvt", "u64")],
    "cvt": [("pack", "u32 T T b32"), ("rs x4", "O T raw"), ("rs", "O T T raw"), ("x2", "O T"), ("", "O T")],
    "mbarrier": [("pending_count", "u32 u64"), ("parity", "pred - u32"), ("test_wait", "pred - u64"), ("try_wait", "pred - u64 u32"),
                 ("arrive", "u64 - u32"), ("arrive_drop", "u64 - u32"), ("", "- u32")],
    "mma": [("", "fD fA fB fC reg -")], "wmma": [("load", "fT - u32"), ("store", "- fT u32"), ("", "fD fA fB fC")],
}  # fmt: skip
#: instructions whose result may be left out by ``_``, and those where it may beside a second one; where the second one may be left out
_DISCARDS, _PAIRS = frozenset({"atom", "lop3", "setp", "mbarrier"}), frozenset({"lop3", "setp", "elect", "match"})
_SECOND_DISCARDS = frozenset({"setp", "shfl", "match"})
#: instructions that take vectors of registers; atom and red where they have a modifier for it
_VECTORS = frozenset({"ld", "ldu", "st", "mov", "cvt", "ldmatrix", "stmatrix", "mma", "wmma", "atom", "red"})
#: types whose conversions have registers of exactly their width
_EXACT = frozenset({"bf16", "bf16x2", "tf32", "e4m3x2", "e5m2x2", "e4m3x4", "e5m2x4"})


def operand_types(opcode: str, mods: Modifiers, count: int) -> tuple[str, ...]:
    """The types of ``count`` operands; empty for instructions that check their operands themselves."""
    row = _row(opcode, mods, count)
    if not row:
        return ()
    names = {"T": mods.get("type", "b32"), "O": mods.get("out") or mods.get("to", ""), "C": mods.get("ctype", "")}
    names |= {f"f{slot}": _matrix(mods.get(name, "f16")) for slot, name in _MATRICES.items()}
    words = [names.get(word, word) for word in row.split()]
    return tuple(words[min(i, len(words) - 1)] for i in range(count))


#: operand of a matrix product -> the slot of its type
_MATRICES = {"D": "dtype", "A": "atype", "B": "btype", "C": "ctype", "T": "type"}


def _matrix(kind: str) -> str:
    """What registers hold a matrix: single floats in those of .f32, all that is packed in integer or untyped ones."""
    return {"f32": "f32", "f64": "f64", "s32": "u32"}.get(kind, "packed")


def _row(opcode: str, mods: Modifiers, count: int) -> str:
    if opcode == "atom" and mods.get("op") == "cas":
        return "T - T T -"
    for words, row in _SHAPES.get(opcode, ()):
        if all(word in mods or any(value.endswith(word) for value in mods.values()) for word in words.split()):
            return row.replace("u32 u32 pred", "u32 pred") if "reduce" in mods and count == 3 else row
    return _TYPES.get(opcode, "")


def check_operands(instruction: Instruction, mods: Modifiers, register_type: Callable[[str], str]) -> None:
    """Raise ParseError for a register, literal or symbol of another kind than an operand has."""
    types = operand_types(instruction.opcode, mods, len(instruction.operands))
    for i, (operand, kind) in enumerate(zip(instruction.operands, types)):
        first = operand.first if isinstance(operand, Pair) else operand
        why = _vector_mismatch(instruction.opcode, mods, first, register_type) if isinstance(first, Vec) else ""
        if isinstance(operand, Pair):
            why = _second_mismatch(instruction.opcode, operand, register_type)
        if isinstance(first, Vec) and instruction.opcode == "mov" and not why:
            kind = f"b{width_of(kind) // len(first.elements)}"
        for element in first.elements if isinstance(first, Vec) else (first,):
            if isinstance(element, Name):
                discarded = i == 0 and not isinstance(first, Vec) and element.name == "_"
                kept = discarded and not _may_discard(instruction.opcode, kind, isinstance(operand, Pair))
                why = why or ("its result cannot be left out" if kept else "")
            else:
                why = why or _mismatch(element, kind, register_type)
        if why:
            raise ParseError(f"{instruction.mnemonic}: {why}", span=instruction.span)


def _may_discard(opcode: str, kind: str, paired: bool) -> bool:
    """Whether a first result may be left out: of an mbarrier's instructions the state of an arrival."""
    return opcode in _PAIRS if paired else opcode in _DISCARDS and (opcode != "mbarrier" or kind == "u64")


def _second_mismatch(opcode: str, pair: Pair, register_type: Callable[[str], str]) -> str:
    """Why the second result of a pair is none: it is a predicate, and not left out beside a first one that is."""
    if isinstance(pair.second, Reg):
        held = register_type(pair.second.name)
        return "" if held == "pred" else f"{pair.second.name} is of type .{held} where a predicate is needed"
    if opcode in _SECOND_DISCARDS and isinstance(pair.second, Name) and pair.second.name == "_" and isinstance(pair.first, Reg):
        return ""
    return "its second result cannot be left out"


def _vector_mismatch(opcode: str, mods: Modifiers, vector: Vec, register_type: Callable[[str], str]) -> str:
    """Why a vector stands in the wrong place or mixes registers of different sizes."""
    if opcode not in _VECTORS or (opcode in ("atom", "red") and "vec" not in mods):
        return "a vector where there is none"
    held = {register_type(element.name) for element in vector.elements if isinstance(element, Reg)}
    if not held and any(isinstance(element, Name) and element.name == "_" for element in vector.elements):
        return "a vector without a register"
    widths = {width_of(kind) for kind in held}
    if opcode in ("mma", "wmma") and not widths <= {64 if "f64" in mods.values() else 32}:
        return "a matrix in registers of another size"
    return "" if len(widths) <= 1 else "a vector of registers of different sizes"


def width_of(kind: str) -> int:
    """The width in bits of a register's type."""
    if kind == "pred":
        return 1
    number, _, pair = kind.lstrip("busf").partition("x")
    return int(number) * (int(pair) if pair else 1)


def exact_width(mods: Modifiers) -> bool:
    """Whether a conversion's registers have exactly the width of their types: with the formats that came late."""
    return not _EXACT.isdisjoint(mods.values())


def _mismatch(operand: Operand, kind: str, register_type: Callable[[str], str]) -> str:
    """Why a register or literal does not fit a type; empty where it does."""
    if isinstance(operand, Reg):
        held = register_type(operand.name)
        return "" if fits(held, kind) else f"{operand.name} is of type .{held} where {_WANTED.get(kind, f'.{kind}')} is needed"
    if isinstance(operand, (IntLit, FloatLit)):
        cut = kind[0] == "b" and isinstance(operand, FloatLit) and kind != f"b{operand.width}"
        right = not cut and takes_literal(kind, isinstance(operand, FloatLit))
        what = _WANTED.get(kind, f"a value of type .{kind}")
        long = f" of {operand.width} bits" if cut and isinstance(operand, FloatLit) else ""
        return "" if right else f"{_KIND[type(operand)]} literal{long} for {what}"
    return ""


#: kinds that are no types, in words
_WANTED = {
    "reg": "a register of 32 bits",
    "raw": "an untyped register of 32 bits",
    "packed": "an integer or untyped register",
    "size": "a number of bytes or a predicate",
}
_KIND: dict[type, str] = {IntLit: "an integer", FloatLit: "a floating-point"}


def fits(held: str, kind: str) -> bool:
    """Whether a register's type goes with an operand's type; sizes are checked where the operand is read."""
    if kind == "-":
        return True
    if kind == "reg":
        return width_of(held) == 32
    if kind == "packed":
        return held[0] in "bus" or held == "f16x2"
    if kind == "raw":
        return held == "b32"
    if kind == "size":
        return held == "pred" or held[0] in "bus"
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
    if kind in ("reg", "raw", "packed"):
        return False
    return not floating and (kind in ("pred", "size") or (kind[0] in "usb" and "f" not in kind and "x2" not in kind))
