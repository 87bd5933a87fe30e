"""Which line of the user's source a PTX instruction belongs to, and which lines depend on it: read from the text alone.

Independent of the code under test: ``.loc`` directives are followed outwards through ``inlined_at`` by their text; what an
instruction's value flows into is found by register names, without regard to order within loops (an over-approximation).
"""

from __future__ import annotations

import re

from mutations import Instruction, instructions

_LOC = re.compile(r"^\s*\.loc\s+(\d+) (\d+) (\d+)(?:, function_name [^,]+, inlined_at (\d+) (\d+) (\d+))?")
_LOADS = re.compile(r"ld\.shared|ldmatrix")
_STORES = re.compile(r"st\.shared|cp\.async\.c[ag]\.")


def user_lines(ptx: str) -> dict[int, int]:
    """PTX line -> line in the user's file (``.file 1``), for every instruction."""
    wanted = {i.line for i in instructions(ptx)}
    outer: dict[tuple[str, ...], tuple[str, ...]] = {}
    current: tuple[str, ...] = ()
    found: dict[int, int] = {}
    fenced = settled = False
    for number, line in enumerate(ptx.split("\n"), 1):
        if "begin inline asm" in line or "end inline asm" in line:
            fenced, settled = "begin" in line, False
        match = _LOC.match(line)
        if match and match.group(1, 2, 3)[1] != "0" and not (fenced and settled):  # later ones in a fence count asm lines
            settled = fenced
            current = match.group(1, 2, 3)
            if match[4]:
                outer[current] = match.group(4, 5, 6)
        if number in wanted and current:
            place = current
            while place[0] != "1":
                place = outer[place]
            found[number] = int(place[1])
    return found


#: what a sum of products is made of, across threads too
ADDING = re.compile(r"(add|mul|fma)[.\w]*\.f32|mov\.|shfl\.|[ls][dt]\.shared")


def dependent_lines(ptx: str, instruction: Instruction, through: re.Pattern[str] | None = None) -> set[int]:
    """The instruction's own line and those of everything its result may flow into, through registers, shared memory, branches.

    ``through`` restricts the opcodes on the way, and shared memory to exchanges within one line.
    """
    rows, lines = instructions(ptx), user_lines(ptx)
    tainted = set(instruction.destinations())
    reached = {instruction.line}
    memory = bool(_STORES.match(instruction.opcode))
    stored: set[int] = set()  # lines of stores to shared memory on the way
    first = (loop_around(ptx, instruction.line) or (instruction.line, 0))[0]  # nothing flows back beyond the loop
    rows = [row for row in rows if row.line >= first]
    if instruction.opcode == "bra":  # everything behind a wrong branch, and in its loop, may be wrong
        return {lines[row.line] for row in rows}
    changed = True
    while changed:
        before = len(reached), len(tainted), memory
        for row in rows:
            if through is not None and not through.match(row.opcode):
                continue
            exchanged = memory and _LOADS.match(row.opcode) and (through is None or lines[row.line] in stored)
            if tainted & set(row.sources()) or exchanged:
                reached.add(row.line)
                if row.opcode.startswith("bra") and through is None:
                    start = (loop_around(ptx, row.line) or (row.line, 0))[0]
                    reached.update(other.line for other in rows if other.line >= start)
                if _STORES.match(row.opcode):
                    stored.add(lines[row.line])
                tainted.update(row.destinations())
                memory = memory or bool(_STORES.match(row.opcode))
        changed = before != (len(reached), len(tainted), memory)
    return {lines[line] for line in reached}


def loop_around(ptx: str, line: int) -> tuple[int, int] | None:
    """First and last PTX line of the innermost loop (a label and a later branch back to it) around a line."""
    text = ptx.split("\n")
    labels = {row.rstrip(": \t").split(":")[0]: number for number, row in enumerate(text, 1) if re.match(r"\$L__BB\w+:", row)}
    loops = []
    for row in instructions(ptx):
        target = row.operands.strip()
        if row.opcode.startswith("bra") and target in labels and labels[target] <= line <= row.line:
            loops.append((labels[target], row.line))
    return min(loops, key=lambda span: span[1] - span[0], default=None)
