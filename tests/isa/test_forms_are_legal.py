"""The tables of forms against ptxas: every form is legal PTX, and no legal combination of an instruction's modifiers is missing."""

from __future__ import annotations

import re
from pathlib import Path

import program_cases
import pytest
from assembler import complaints, illegal
from form_kernels import grouped, kernel
from form_table import INTS, MOVES, VALUES, WIDTHS, Legal, expand, forms

from ptx_engine.errors import UnsupportedError
from ptx_engine.isa.registry import find
from ptx_engine.syntax.ast import Instruction

pytestmark = pytest.mark.slow
_CLASS = {1: "p", 8: "h", 16: "h", 32: "r", 64: "d", 128: "q"}


def test_values() -> None:
    for found, members in grouped(forms([row for row in VALUES if row not in MOVES]), 400):
        assert not complaints(kernel(found, members)), members[0].mnemonic


@pytest.mark.parametrize("path", sorted(program_cases.FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_programs(path: Path) -> None:
    """Parameters of bf16 are taken here only."""
    blocks = program_cases.read(path.read_text(encoding="ascii"))
    for block in (b for b in blocks if not any(".param .bf16" in line for line in b.module)):
        for portion in program_cases.copies(block):
            assert not complaints(program_cases.kernel(block, portion)), portion[0].name


def text(form: Legal) -> str:
    """The form with registers of its operands' widths."""
    words, count = [], 0
    for kind, width in form.slots():
        if kind in ("d", "a"):
            words.append(f"%{_CLASS[width]}{count}")
        elif kind in ("p", "q"):
            words.append(f"%p{count}")
        elif kind in ("p|p", "d|p"):
            words.append(f"%{_CLASS[width] if kind[0] == 'd' else 'p'}{count}|%p{count + 10}")
        elif kind == "v4":
            words.append(f"{{%r{count}, %r{count + 1}, %r{count + 2}, %r{count + 3}}}")
            count += 3
        else:
            words.append(kind)
        count += 1
    return f"{form.mnemonic} {', '.join(words)};"


_ALL = f"b16|b32|b64|{INTS}|f16|f16x2|bf16|bf16x2|f32|f32x2|f64|u16x2|s16x2|tf32"
_RND, _FINISH = "[rn|rz|rm|rp|rna|rni|approx|full]", "[ftz] [sat] [relu] [satfinite]"
TWO, THREE, FOUR = "d:T a:T", "d:T a:T a:T", "d:T a:T a:T a:T"
_CVT = "f16|bf16|f32|f64|tf32|u8|s8|u16|s16|u32|s32|u64|s64"
#: instruction, all modifiers that any of its forms has, operands
SUPERSETS = [
    *((op, f"{_RND} {_FINISH} [cc] {_ALL}", THREE) for op in ("add", "sub", "mul", "div")),
    *((op, f"{_RND} {_FINISH} {_ALL}", FOUR) for op in ("fma", "mad")), *((op, f"[cc] {_ALL}", THREE) for op in ("addc", "subc")),
    *((op, f"[hi|lo] [sat] [cc] {_ALL}", "d:T a:T a:T") for op in ("mul", "mul24")), *((op, f"[hi|lo] [sat] [cc] {_ALL}", FOUR) for op in ("mad", "madc", "mad24")),
    *((op, f"wide [sat] [cc] {INTS}", operands) for op, operands in (("mul", "d:W a:T a:T"), ("mad", "d:W a:T a:T a:W"))),
    ("sad", _ALL, FOUR), ("rem", _ALL, THREE), *((op, f"[ftz] [sat] [relu] {_ALL}", TWO) for op in ("abs", "neg")),
    *((op, f"[ftz] [NaN] [xorsign] [abs] [relu] {_ALL}", operands) for op in ("min", "max") for operands in (THREE, FOUR)),
    *((op, f"{_RND} [ftz] [sat] {_ALL}", TWO) for op in ("rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh")), ("copysign", _ALL, THREE),
    *((op, _ALL, "d:32 a:T") for op in ("popc", "clz")), ("bfind", f"[shiftamt] {_ALL}", "d:32 a:T"), ("brev", _ALL, TWO),
    ("bfe", _ALL, "d:T a:T a:32 a:32"), ("bfi", _ALL, "d:T a:T a:T a:32 a:32"), *((op, f"[clamp|wrap] {_ALL}", "d:T a:T a:32") for op in ("szext", "bmsk")),
    *((op, _ALL, THREE) for op in ("and", "or", "xor")), *((op, _ALL, TWO) for op in ("not", "cnot")), ("shf", f"l|r clamp|wrap {_ALL}", FOUR),
    *((op, _ALL, "d:T a:T a:32") for op in ("shl", "shr")), ("cvt", f"{_RND.replace('rni', 'rni|rzi|rmi|rpi')} {_FINISH} {_CVT} {_CVT}", "d:O a:T"),
    ("cvt", "[rn|rz] [satfinite] [relu] f16x2|bf16x2|e4m3x2|e5m2x2 f32", "d:O a:32 a:32"),
    ("cvt", "[rn|rz] [satfinite] [relu] f16x2|bf16x2|e4m3x2|e5m2x2 f16x2|bf16x2|e4m3x2|e5m2x2", "d:O a:T"),
    ("set", f"eq|lo|nan [ftz] {_ALL} {_ALL}", "d:O a:T a:T"), ("setp", f"eq|hi|num [xor] [ftz] {_ALL}", "p a:T a:T q"), ("selp", _ALL, "d:T a:T a:T q"),
    ("slct", f"[ftz] {_ALL} s32|f32", "d:O a:O a:O a:32"), ("mov", _ALL, TWO),
]  # fmt: skip
#: what ptxas takes beyond the ISA's text, as patterns of mnemonics
UNDOCUMENTED = (
    r"(addc|subc)(\.cc)?\.[us]16", r"madc\.(hi|lo)(\.cc)?\.[us]16", r"madc\.hi\.sat\.s32", r"(add|sub|mad\.(hi|lo))\.cc\.[us]16", r"fma\.r[zmp](\.relu)?\.bf16(x2)?",
    r"rcp\.r[nzmp]\.ftz\.f64", r"fma\.rn\.sat\.bf16.*", r"mad\.(hi|lo)\.cc\.sat\..*", r"mad\.hi\.sat\.cc\.s32",
)  # fmt: skip


@pytest.mark.parametrize(("opcode", "pattern", "operands"), SUPERSETS, ids=[f"{o}-{i}" for i, (o, _, _) in enumerate(SUPERSETS)])
def test_nothing_legal_is_missing(opcode: str, pattern: str, operands: str) -> None:
    candidates = {text(form): form for form in expand(opcode, pattern, operands) if all(t in WIDTHS for t in form.types)}
    wrong = illegal(list(candidates))
    listed = {form.mnemonic for form in forms(VALUES)}
    for line, form in candidates.items():
        if line in wrong or form.mnemonic in listed or any(re.fullmatch(p, form.mnemonic) for p in UNDOCUMENTED):
            continue
        raise AssertionError(f"{line} is legal and in no table")


def test_what_is_beyond_the_text_is_refused_by_name() -> None:
    for mnemonic in ("addc.u16", "madc.hi.u16", "madc.hi.sat.s32", "fma.rz.bf16", "rcp.rn.ftz.f64", "fma.rn.oob.f16"):
        opcode, *modifiers = mnemonic.split(".")
        with pytest.raises(UnsupportedError, match=mnemonic):
            find(Instruction(opcode, tuple(modifiers), ()))
