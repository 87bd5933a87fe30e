"""Faults put into compiled PTX, one at a time: each operator is a row of a table, made from the text of one instruction.

A mutant keeps the line numbers of the original text: a dropped instruction leaves an empty line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_INSTRUCTION = re.compile(r"^\s*(?:@(?P<negated>!?)(?P<guard>%p\d+)\s+)?(?P<opcode>[a-z][\w.]*)(?:\s+(?P<operands>[^;]*))?;")


@dataclass(frozen=True)
class Instruction:
    """One instruction as text; ``line`` counts from 1."""

    line: int
    opcode: str
    operands: str
    guard: str = ""
    negated: bool = False

    def text(self) -> str:
        guard = f"@{'!' if self.negated else ''}{self.guard} " if self.guard else ""
        return f"\t{guard}{self.opcode} {self.operands}".rstrip() + ";"

    def fields(self) -> list[str]:
        """Operands split at the commas that stand in no braces or brackets."""
        return [part.strip() for part in re.split(r",(?![^{]*\})(?![^\[]*\])", self.operands)]

    def registers(self) -> list[str]:
        return re.findall(r"%[a-z]+\d+", self.operands)

    def destinations(self) -> list[str]:
        """Registers written: those of the first operand, unless it is an address or the instruction writes none."""
        if self.opcode.startswith(("st.", "bar.", "bra", "ret", "cp.async")):
            return []
        return re.findall(r"%[a-z]+\d+", self.fields()[0])

    def sources(self) -> list[str]:
        read = self.registers()[len(self.destinations()) :]
        return [*read, self.guard] if self.guard else read


@dataclass(frozen=True)
class Mutant:
    """A fault: ``after`` stands in place of the instruction, or nothing if it is empty."""

    operator: str
    instruction: Instruction
    after: str

    @property
    def name(self) -> str:
        return f"{self.operator}:{self.instruction.line}" + (f":{self._detail()}" if self.after else "")

    def _detail(self) -> str:
        return re.sub(r"\s+", " ", self.after.strip().rstrip(";"))[:60]

    def apply(self, ptx: str) -> str:
        lines = ptx.split("\n")
        assert lines[self.instruction.line - 1].strip().startswith(self.instruction.text().strip().split()[0])
        lines[self.instruction.line - 1] = self.after
        return "\n".join(lines)


def instructions(ptx: str) -> list[Instruction]:
    """The instructions of a module with one function, in order."""
    found = []
    for number, line in enumerate(ptx.split("\n"), 1):
        match = _INSTRUCTION.match(line)
        if match:
            found.append(
                Instruction(number, match["opcode"], (match["operands"] or "").strip(), match["guard"] or "", bool(match["negated"]))
            )
        if line.strip() == "ret;":
            break
    return found


# ---------------------------------------------------------------------- operators


def _with(instruction: Instruction, **changes: object) -> str:
    return Instruction(**{**vars(instruction), **changes}).text()  # type: ignore[arg-type]


def _dropped(instruction: Instruction) -> Iterator[str]:
    yield ""


def _fields_changed(instruction: Instruction, **fields: str) -> str:
    """Operands by position (``_2="..."``) replaced."""
    parts = instruction.fields()
    for position, text in fields.items():
        parts[int(position[1:])] = text
    return _with(instruction, operands=", ".join(parts))


def _wait_too_large(instruction: Instruction) -> Iterator[str]:
    yield _with(instruction, operands=str(int(instruction.operands) + 1))


def _swapped_in(position: int) -> Callable[[Instruction], Iterator[str]]:
    """The first two registers of a braced operand swapped."""

    def swap(instruction: Instruction) -> Iterator[str]:
        group = re.findall(r"%\w+", instruction.fields()[position])
        if len(group) > 1 and group[0] != group[1]:
            group[0], group[1] = group[1], group[0]
            yield _fields_changed(instruction, **{f"_{position}": "{ " + ", ".join(group) + " }"})

    return swap


def _swapped_fields(first: int, second: int) -> Callable[[Instruction], Iterator[str]]:
    def swap(instruction: Instruction) -> Iterator[str]:
        parts = instruction.fields()
        if parts[first] != parts[second]:
            yield _fields_changed(instruction, **{f"_{first}": parts[second], f"_{second}": parts[first]})

    return swap


def _literal_changed(instruction: Instruction) -> Iterator[str]:
    """One bit of the mantissa's upper half: 1.4426950 becomes 1.4114450; zero becomes two."""
    for bits in re.findall(r"0f([0-9A-Fa-f]{8})", instruction.operands):
        changed = int(bits, 16) ^ (0x00040000 if int(bits, 16) else 0x40000000)
        yield _with(instruction, operands=instruction.operands.replace(f"0f{bits}", f"0f{changed:08X}", 1))


def _product_dropped(instruction: Instruction) -> Iterator[str]:
    """d = a * b + c becomes d = c."""
    parts = instruction.fields()
    yield f"\tmov.b32 {parts[0]}, {parts[3]};"


def _first_operand(instruction: Instruction) -> Iterator[str]:
    parts = instruction.fields()
    yield f"\tmov.b32 {parts[0]}, {parts[1]};"


def _lane_changed(instruction: Instruction) -> Iterator[str]:
    distance = int(instruction.fields()[2])
    yield _fields_changed(instruction, _2=str(distance // 2 if distance > 1 else 2))


def _clamp_changed(instruction: Instruction) -> Iterator[str]:
    yield _fields_changed(instruction, _3="7")


def _members_changed(instruction: Instruction) -> Iterator[str]:
    yield _fields_changed(instruction, _4="65535")


def _inverted(instruction: Instruction) -> Iterator[str]:
    if instruction.guard:
        yield _with(instruction, negated=not instruction.negated)


def _moved(number: int, step: int) -> Callable[[Instruction], Iterator[str]]:
    """The bracketed address with this number, ``step`` bytes further."""

    def move(instruction: Instruction) -> Iterator[str]:
        addresses = re.findall(r"\[[^\]]*\]", instruction.operands)
        if len(addresses) > number:
            inner = re.fullmatch(r"\[\s*(%\w+|\w+)\s*(?:\+\s*(-?\d+)\s*)?\]", addresses[number])
            if inner:
                changed = f"[{inner[1]}+{int(inner[2] or 0) + step}]"
                yield _with(instruction, operands=instruction.operands.replace(addresses[number], changed, 1))

    return move


def _transposed(instruction: Instruction) -> Iterator[str]:
    there = ".trans" in instruction.opcode
    opcode = instruction.opcode.replace(".trans", "") if there else instruction.opcode.replace(".shared", ".trans.shared")
    yield _with(instruction, opcode=opcode)


def _constant_changed(instruction: Instruction) -> Iterator[str]:
    """The immediate of an integer instruction: one more for shifts, another bit for masks, four more otherwise."""
    parts = instruction.fields()
    last = parts[-1]
    if not re.fullmatch(r"-?\d+", last):
        return
    value = int(last)
    changed = (
        value + 1
        if instruction.opcode.startswith("sh")
        else (value ^ 4 if instruction.opcode.startswith(("and", "or", "xor")) else value + 4)
    )
    yield _fields_changed(instruction, **{f"_{len(parts) - 1}": str(changed)})


def _boundary_changed(instruction: Instruction) -> Iterator[str]:
    swap = {"lt": "le", "gt": "ge", "le": "lt", "ge": "gt"}
    relation = instruction.opcode.split(".")[1]
    if relation in swap:
        yield _with(instruction, opcode=instruction.opcode.replace(f".{relation}.", f".{swap[relation]}."))


Make = Callable[[Instruction], Iterator[str]]

#: operator -> which instructions it applies to (a regular expression for the opcode), and what it makes of one
OPERATORS: dict[str, tuple[str, Make]] = {
    "barrier dropped": (r"bar\.sync", _dropped),
    "wait_group one too large": (r"cp\.async\.wait_group", _wait_too_large),
    "copy dropped": (r"cp\.async\.c[ag]\.", _dropped),
    "commit dropped": (r"cp\.async\.commit_group", _dropped),
    "mma dropped": (r"mma\.", _dropped),
    "mma a registers swapped": (r"mma\.", _swapped_in(1)),
    "mma b registers swapped": (r"mma\.", _swapped_in(2)),
    "mma accumulators swapped": (r"mma\.", _swapped_in(3)),
    "float literal changed": (r".*", _literal_changed),
    "fma dropped": (r"fma\.", _dropped),
    "product dropped from fma": (r"fma\.rn\.f32", _product_dropped),
    "max replaced by its first operand": (r"max\.f32", _first_operand),
    "sum replaced by its first operand": (r"add\.f32", _first_operand),
    "difference turned round": (r"sub\.f32", _swapped_fields(1, 2)),
    "quotient turned round": (r"div\.full\.f32", _swapped_fields(1, 2)),
    "shfl distance changed": (r"shfl\.sync\.bfly", _lane_changed),
    "shfl clamp changed": (r"shfl\.sync\.bfly", _clamp_changed),
    "shfl members changed": (r"shfl\.sync\.bfly", _members_changed),
    "load's predicate inverted": (r"ld\.", _inverted),
    "store's predicate inverted": (r"st\.", _inverted),
    "branch's predicate inverted": (r"bra", _inverted),
    "selp swapped": (r"selp\.", _swapped_fields(1, 2)),
    "shared load off by 16": (r"ld\.shared", _moved(0, 16)),
    "shared store off by 16": (r"st\.shared", _moved(0, 16)),
    "global load off by 16": (r"ld\.global", _moved(0, 16)),
    "global store off by 16": (r"st\.global", _moved(0, 16)),
    "ldmatrix off by 16": (r"ldmatrix", _moved(0, 16)),
    "copy's target off by 16": (r"cp\.async\.c[ag]\.", _moved(0, 16)),
    "copy's source off by 16": (r"cp\.async\.c[ag]\.", _moved(1, 16)),
    "store out of bounds": (r"st\.(global|shared)", _moved(0, 1 << 19)),
    "ldmatrix transposed": (r"ldmatrix", _transposed),
    "integer constant changed": (r"(add\.s32|add\.s64|shl|shr|and|or|xor|mul\.wide|mad\.wide|bfe)", _constant_changed),
    "boundary changed": (r"setp\.", _boundary_changed),
    "halves swapped": (r"mov\.b32|cvt\.rn\.f16x2", _swapped_in(1)),
}  # fmt: skip


def mutants(ptx: str, operator: str) -> list[Mutant]:
    """All mutants of one operator, in order of the text."""
    pattern, make = OPERATORS[operator]
    rows = [i for i in instructions(ptx) if re.match(pattern, i.opcode)]
    return [Mutant(operator, instruction, after) for instruction in rows for after in make(instruction) if after != instruction.text()]
