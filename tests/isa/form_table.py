"""The syntax of the ISA, instruction by instruction: which modifiers and types are legal together, written from its syntax boxes.

A row is a pattern (``a|b`` a choice, ``[a]`` optional, slots in order) and its operands: ``d`` destinations, ``a`` sources, ``v4`` a
vector of four sources, ``p`` and ``q`` predicates written and read, anything else as it stands. ``:T`` is the width of the last type,
``:W`` twice that, ``:O`` the width of the type before it. Nothing here uses the engine's registry; a slow test asks ptxas whether each form is legal.
Source: PTX ISA 9.1, chapter 9.7, the section of each instruction.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product

WIDTHS = {
    "pred": 1, "u8": 8, "s8": 8, "b8": 8, "u16": 16, "s16": 16, "b16": 16, "f16": 16, "bf16": 16, "u32": 32, "s32": 32, "b32": 32, "f32": 32,
    "f16x2": 32, "bf16x2": 32, "tf32": 32, "u16x2": 32, "s16x2": 32, "u64": 64, "s64": 64, "b64": 64, "f64": 64, "f32x2": 64, "b128": 128,
    "e4m3x2": 16, "e5m2x2": 16, "e4m3x4": 32, "e5m2x4": 32, "u4": 32, "s4": 32, "u2": 32, "s2": 32,
}  # fmt: skip
INTS = "u16|u32|u64|s16|s32|s64"
FLOATS = "f16|bf16|f32|f64"
RND, IRND = "rn|rz|rm|rp", "rni|rzi|rmi|rpi"
ORDERED, UNORDERED = "eq|ne|lt|le|gt|ge", "equ|neu|ltu|leu|gtu|geu|num|nan"
COMPARE = f"{ORDERED}|{UNORDERED}"


@dataclass(frozen=True)
class Legal:
    """One form: its opcode, modifiers and operands."""

    opcode: str
    modifiers: tuple[str, ...]
    operands: str

    @property
    def mnemonic(self) -> str:
        return ".".join((self.opcode, *self.modifiers))

    @cached_property
    def types(self) -> list[str]:
        return [m for m in self.modifiers if m in WIDTHS]

    def slots(self) -> list[tuple[str, int]]:
        """Kind and width in bits of each operand; width 0 for a literal, whose kind is its text."""
        widths = {"T": WIDTHS[self.types[-1]] if self.types else 0, "O": WIDTHS[self.types[-2]] if len(self.types) > 1 else 0}
        found = []
        for word in self.operands.split():
            kind, colon, width = word.partition(":")
            if width == "W":
                found.append((kind, 2 * widths["T"]))
            else:
                found.append((kind, 0 if not colon else widths[width] if width in widths else int(width)))
        return found


def expand(opcode: str, pattern: str, operands: str) -> Iterator[Legal]:
    """All forms of a row."""
    slots = []
    for word in pattern.split():
        choices = word.strip("[]").split("|")
        slots.append(["", *choices] if word.startswith("[") else choices)
    for chosen in product(*slots):
        yield Legal(opcode, tuple(m for m in chosen if m), operands)


TWO, THREE, FOUR = "d:T a:T", "d:T a:T a:T", "d:T a:T a:T a:T"
Rows = list[tuple[str, str, str]]

INTEGER: Rows = [
    *((op, INTS, THREE) for op in ("add", "sub", "min", "max", "div", "rem")), ("add", "sat s32", THREE), ("sub", "sat s32", THREE),
    ("add", "u16x2|s16x2", THREE), *((op, "u16x2|s16x2", THREE) for op in ("min", "max")), *((op, "relu s16x2|s32", THREE) for op in ("min", "max")),
    ("mul", f"hi|lo {INTS}", THREE), ("mul", "wide u16|u32|s16|s32", "d:W a:T a:T"), ("mad", f"hi|lo {INTS}", FOUR),
    ("mad", "wide u16|u32|s16|s32", "d:W a:T a:T a:W"), ("mad", "hi sat s32", FOUR), ("mul24", "hi|lo u32|s32", THREE),
    ("mad24", "hi|lo u32|s32", FOUR), ("mad24", "hi sat s32", FOUR), ("sad", INTS, FOUR), ("abs", "s16|s32|s64", TWO), ("neg", "s16|s32|s64", TWO),
    ("popc", "b32|b64", "d:32 a:T"), ("clz", "b32|b64", "d:32 a:T"), ("bfind", "[shiftamt] u32|u64|s32|s64", "d:32 a:T"), ("brev", "b32|b64", TWO),
    ("fns", "b32", "d:32 a:32 a:32 a:32"), ("bfe", "u32|u64|s32|s64", "d:T a:T a:32 a:32"), ("bfi", "b32|b64", "d:T a:T a:T a:32 a:32"),
    ("szext", "clamp|wrap u32|s32", "d:T a:T a:32"), ("bmsk", "clamp|wrap b32", THREE), ("dp4a", "u32|s32 u32|s32", FOUR),
    ("dp2a", "lo|hi u32|s32 u32|s32", FOUR), *((op, "b16|b32|b64", THREE) for op in ("and", "or", "xor")), ("not", "b16|b32|b64", TWO),
    ("cnot", "b16|b32|b64", TWO), ("lop3", "b32", "d:T a:T a:T a:T 0x1e"), ("shf", "l|r clamp|wrap b32", FOUR),
    ("shl", "b16|b32|b64", "d:T a:T a:32"), ("shr", f"b16|b32|b64|{INTS}", "d:T a:T a:32"),
]  # fmt: skip
EXTENDED: Rows = [
    *((op, "cc u32|s32|u64|s64", THREE) for op in ("add", "sub")), *((op, "[cc] u32|s32|u64|s64", THREE) for op in ("addc", "subc")),
    ("mad", "hi|lo cc u32|s32|u64|s64", FOUR), ("madc", "hi|lo [cc] u32|s32|u64|s64", FOUR),
]  # fmt: skip
PREDICATES: Rows = [
    *((op, "pred", "p q q") for op in ("and", "or", "xor")), ("not", "pred", "p q"), ("lop3", "and|or b32", "d|p:32 a:32 a:32 a:32 0x1e q"),
]  # fmt: skip
FLOAT: Rows = [
    *((op, f"[{RND}] [ftz] [sat] f32", THREE) for op in ("add", "sub", "mul")), *((op, f"[{RND}] [ftz] f32x2", THREE) for op in ("add", "sub", "mul")),
    *((op, f"[{RND}] f64", THREE) for op in ("add", "sub", "mul")), *((op, "[rn] [ftz] [sat] f16|f16x2", THREE) for op in ("add", "sub", "mul")),
    *((op, "[rn] bf16|bf16x2", THREE) for op in ("add", "sub", "mul")), ("fma", f"{RND} [ftz] [sat] f32", FOUR), ("fma", f"{RND} [ftz] f32x2", FOUR),
    ("fma", f"{RND} f64", FOUR), ("fma", "rn [ftz] [sat|relu] f16|f16x2", FOUR), ("fma", "rn [relu] bf16|bf16x2", FOUR),
    ("mad", f"{RND} [ftz] [sat] f32", FOUR), ("mad", f"{RND} f64", FOUR), ("div", f"{RND}|approx|full [ftz] f32", THREE), ("div", f"{RND} f64", THREE),
    *((op, "[ftz] f16|f16x2|f32", TWO) for op in ("abs", "neg")), *((op, "bf16|bf16x2|f64", TWO) for op in ("abs", "neg")),
    *((op, pattern, THREE) for op in ("min", "max") for pattern in ("[ftz] [NaN] f16|f16x2|f32", "[ftz] [NaN] xorsign abs f16|f16x2|f32",
      "[NaN] bf16|bf16x2", "[NaN] xorsign abs bf16|bf16x2", "f64")), *((op, "[ftz] [NaN] [abs] f32", FOUR) for op in ("min", "max")),
    ("rcp", f"{RND}|approx [ftz] f32", TWO), ("rcp", RND + " f64", TWO), ("rcp", "approx ftz f64", TWO), ("sqrt", f"{RND}|approx [ftz] f32", TWO),
    ("sqrt", RND + " f64", TWO), ("rsqrt", "approx [ftz] f32|f64", TWO), *((op, "approx [ftz] f32", TWO) for op in ("sin", "cos", "lg2", "ex2")),
    ("ex2", "approx f16|f16x2", TWO), ("ex2", "approx ftz bf16|bf16x2", TWO), ("tanh", "approx f32|f16|f16x2|bf16|bf16x2", TWO),
    ("copysign", "f32|f64", THREE), ("testp", "finite|infinite|number|notanumber|normal|subnormal f32|f64", "p a:T"),
]  # fmt: skip
_TO_INT = "u16|s16|u32|s32|u64|s64"
CONVERT: Rows = [
    *(("cvt", pattern, "d:O a:T") for pattern in (
        "[sat] f16 f16", "[sat] f64 f64", "[ftz] [sat] f32 f32", "bf16 bf16", f"{IRND} [sat] f16 f16", f"{IRND} [sat] f64 f64",
        f"{IRND} [ftz] [sat] f32 f32", f"{IRND} bf16 bf16", "[ftz] [sat] f32 f16", "[ftz] [sat] f64 f32", "[sat] f64 f16",
        f"[{RND}] bf16 f16", f"[{RND}] f16|f64 bf16", f"[{RND}] [ftz] f32 bf16", f"{RND} [ftz] [sat] f16 f32", "rn|rz [relu] [satfinite] f16|bf16 f32",
        "rn|rz satfinite relu f16|bf16 f32", f"{RND} [sat] f16 f64", f"{RND} [ftz] bf16 f32", f"{RND} bf16 f64", f"{RND} [ftz] [sat] f32 f64",
        "rn|rz [relu] [satfinite] tf32 f32", "rn|rz satfinite relu tf32 f32", "rna [satfinite] tf32 f32",
        f"{RND} [sat] f16|f64 u8|s8|{_TO_INT}", f"{RND} [ftz] [sat] f32 u8|s8|{_TO_INT}", f"{RND} bf16 {_TO_INT}",
        f"{IRND} [sat] u8|s8|{_TO_INT} f16|f64", f"{IRND} [ftz] [sat] u8|s8|{_TO_INT} f32", f"{IRND} {_TO_INT} bf16",
        f"u8|s8|{_TO_INT} u8|s8|{_TO_INT}", "sat u8 s8|u16|s16|u32|s32|u64|s64", "sat s8 u8|u16|s16|u32|s32|u64|s64", "sat u16 s8|s16|u32|s32|u64|s64",
        "sat s16 u16|u32|s32|u64|s64", "sat u32 s8|s16|s32|u64|s64", "sat s32 u32|u64|s64", "sat u64 s8|s16|s32|s64", "sat s64 u64",
        "rn satfinite [relu] e4m3x2|e5m2x2 f16x2", "rn [relu] f16x2 e4m3x2|e5m2x2", "rn relu satfinite e4m3x2|e5m2x2 f16x2|bf16x2",
        "rn satfinite [relu] e4m3x2|e5m2x2 bf16x2")),
    *(("cvt", pattern, "d:O a:32 a:32") for pattern in (
        "rn|rz [relu] [satfinite] f16x2|bf16x2 f32", "rn|rz satfinite relu f16x2|bf16x2 f32", "rn satfinite [relu] e4m3x2|e5m2x2 f32",
        "rn relu satfinite e4m3x2|e5m2x2 f32")),
    ("cvt", "rs [relu] [satfinite] f16x2|bf16x2 f32", "d:O a:32 a:32 a:32"),
    ("cvt", "rs [relu] satfinite e4m3x4|e5m2x4 f32", "d:O v4:32 a:32"),
    ("cvt", "pack sat u16|s16 s32", "d:32 a:32 a:32"), ("cvt", "pack sat u2|s2|u4|s4|u8|s8 s32 b32", "d:32 a:32 a:32 a:32"),
]  # fmt: skip
_BOOL = "and|or|xor"


def _comparisons(opcode: str, out: str, before: str) -> Rows:
    """The rows of setp or set: ``out`` is its destination type's slot for each source, ``before`` its destination operand."""
    rows: Rows = []
    outs = (
        {"f16": "u16|s16|u32|s32|f16", "bf16": "u16|s16|u32|s32|bf16", "f32": "u32|s32|f16|f32", "f64": "u32|s32|f16|bf16|f32"}
        if out
        else {}
    )
    for third, tail in (("", "a:T a:T"), (_BOOL, "a:T a:T q")):
        for kind, ftz in (("f16", "[ftz]"), ("f32", "[ftz]"), ("bf16", ""), ("f64", "")):
            rows.append((opcode, f"{COMPARE} {third} {ftz} {outs.get(kind, '')} {kind}", f"{before} {tail}"))
        if out:
            rows.append((opcode, f"{COMPARE} {third} bf16 f16|f32", f"{before} {tail}"))
        whole = "u32|s32|f16|bf16|f32" if out else ""
        rows += [
            (opcode, f"{ORDERED} {third} {whole} {INTS}", f"{before} {tail}"), (opcode, f"lo|ls|hi|hs {third} {whole} u16|u32|u64", f"{before} {tail}"),
            (opcode, f"eq|ne {third} {whole} b16|b32|b64", f"{before} {tail}"),
        ]  # fmt: skip
        packed = f"{before}|p" if not out else before
        rows += [(opcode, f"{COMPARE} {third} {'[ftz]' if kind == 'f16x2' else ''} {f'{kind}|u32|s32' if out else ''} {kind}", f"{packed} {tail}")
                 for kind in ("f16x2", "bf16x2")]  # fmt: skip
    return rows


_SELECT = f"b16|b32|b64|{INTS}|f32|f64"
SELECT: Rows = [
    *_comparisons("setp", "", "p"), *_comparisons("set", "out", "d:O"), ("selp", _SELECT, "d:T a:T a:T q"), ("slct", f"{_SELECT} s32", "d:O a:O a:O a:32"),
    ("slct", f"[ftz] {_SELECT} f32", "d:O a:O a:O a:32"),
]  # fmt: skip
MOVES: Rows = [
    ("mov", f"{_SELECT}", TWO), ("mov", "pred", "p q"), ("mov", "b128", TWO), ("prmt", "b32 [f4e|b4e|rc8|ecl|ecr|rc16]", "d:32 a:32 a:32 a:32"),
    ("cvta", "[to] global|local|shared|shared::cta|const|param|param::entry u64", TWO),
    ("isspacep", "global|local|shared|shared::cta|shared::cluster|const|param|param::entry", "p a:64"),
]  # fmt: skip
VALUES: Rows = [*INTEGER, *EXTENDED, *PREDICATES, *FLOAT, *CONVERT, *SELECT, *MOVES]


def forms(rows: Rows) -> list[Legal]:
    """All forms of a table, each once."""
    return list({(form.mnemonic, form.operands): form for row in rows for form in expand(*row)}.values())
