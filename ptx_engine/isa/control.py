"""Control flow and CTA barriers, which the machine executes itself: the modifiers and operands that they take.

Source: PTX ISA 9.1, "Control Flow Instructions", "Parallel Synchronization and Communication Instructions: bar, barrier".
"""

from __future__ import annotations

from ptx_engine.errors import ParseError, UnsupportedError
from ptx_engine.isa.group import WARP
from ptx_engine.isa.registry import REFUSED, match_slots, parse_pattern
from ptx_engine.syntax.ast import Instruction, IntLit

_RED = ("op=red {0} reduce=popc {1} type=u32 {2}", "op=red {0} reduce=and|or {1} type=pred {2}")
#: ``.aligned`` stands anywhere behind the operation, and before ``.sync``, as ptxas has it
_ALIGNED = [["[aligned]", "", ""], ["", "[aligned]", ""], ["", "", "[aligned]"]]
_PATTERNS: dict[str, list[str]] = {
    "bra": ["[uni]"], "brx": ["idx [uni]"], "ret": ["[uni]"], "exit": [""], "trap": [""],
    "bar": ["[cta] op=sync|arrive", *(f"[cta] {form.format('', '', '')}" for form in _RED)],
    "barrier": ["[cta] op=sync|arrive [aligned]", "[cta] aligned op=sync",
                *(f"[cta] {form.format(*at)}" for form in _RED for at in _ALIGNED)],
}  # fmt: skip
#: opcode -> the patterns of its modifiers
CONTROL_FORMS = {opcode: [parse_pattern(pattern) for pattern in patterns] for opcode, patterns in _PATTERNS.items()}
#: numbers of operands
_OPERANDS = {"bra": (1,), "brx": (2,), "ret": (0,), "exit": (0,), "trap": (0,), "sync": (1, 2), "arrive": (2,), "red": (3, 4)}
BARRIERS = 16


def control_modifiers(instruction: Instruction) -> dict[str, str]:
    """The modifiers by slot. Raises UnsupportedError for others, ParseError for operands that the instruction has not."""
    opcode, name = instruction.opcode, instruction.mnemonic
    for slots in CONTROL_FORMS[opcode]:
        found = match_slots(slots, instruction.modifiers)
        if found is not None:
            break
    else:
        why = next((REFUSED[f"{opcode}.{m}"] for m in instruction.modifiers if f"{opcode}.{m}" in REFUSED), "it is not modelled")
        raise UnsupportedError(f"instruction {name}: {why}", feature=name, span=instruction.span)
    counts, given = _OPERANDS[found.get("op", opcode)], len(instruction.operands)
    if given not in counts:
        raise ParseError(f"{name} takes {' or '.join(map(str, counts))} operands, not {given}", span=instruction.span)
    if "op" in found:
        _check_numbers(instruction, found["op"])
    return found


def _check_numbers(instruction: Instruction, op: str) -> None:
    """Raise ParseError for a literal that is no barrier's number, or no number of whole warps (zero stands for all threads)."""
    first = 1 if op == "red" else 0
    number = instruction.operands[first]
    if isinstance(number, IntLit) and not 0 <= number.value < BARRIERS:
        span = instruction.span
        raise ParseError(f"{instruction.mnemonic}: barriers have numbers from 0 to {BARRIERS - 1}, not {number.value}", span=span)
    if len(instruction.operands) - (2 if op == "red" else 0) < 2:
        return
    count = instruction.operands[first + 1]
    if isinstance(count, IntLit) and (count.value < 0 or count.value % WARP or (op == "arrive" and not count.value)):
        raise ParseError(f"{instruction.mnemonic}: {count.value} threads are no whole warps", span=instruction.span)
