"""The registry of instruction specs: one decorated function per instruction and operand type class.

A spec declares its forms (modifier patterns), and is called once per static instruction to return the closure that
executes it. Dispatch, refusal of unknown modifiers, and the coverage page all read this table.

Pattern language: slots separated by blanks; ``name=a|b|c`` is a named slot, ``a`` a literal slot named after itself,
``[...]`` makes a slot optional. ``!a|b`` in an optional slot marks modifiers that are accepted and ignored on purpose.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ptx_engine.errors import UnsupportedError
from ptx_engine.syntax.ast import Instruction

if TYPE_CHECKING:
    from ptx_engine.isa.decode import Decode, Step

SpecFn = Callable[["Decode"], "Step"]
Rule = Callable[[dict[str, str]], bool]


@dataclass(frozen=True, slots=True)
class Slot:
    name: str
    choices: frozenset[str]
    optional: bool
    ignored: bool


@dataclass(frozen=True, slots=True)
class Form:
    """One accepted modifier pattern of an opcode, with its spec and the ISA section it follows."""

    opcode: str
    pattern: str
    slots: tuple[Slot, ...]
    spec: SpecFn
    source: str

    def match(self, modifiers: tuple[str, ...]) -> dict[str, str] | None:
        """Slot name -> chosen modifier, or None if the pattern does not fit."""
        return match_slots(self.slots, modifiers)


def match_slots(slots: tuple[Slot, ...], modifiers: tuple[str, ...]) -> dict[str, str] | None:
    """Slot name -> chosen modifier, or None if they do not fit."""
    found: dict[str, str] = {}
    i = 0
    for slot in slots:
        if i < len(modifiers) and modifiers[i] in slot.choices:
            found[slot.name] = modifiers[i]
            i += 1
        elif not slot.optional:
            return None
    return found if i == len(modifiers) else None


FORMS: dict[str, list[Form]] = {}
#: what ``find`` has found: kernels have few forms and many instructions
_FOUND: dict[tuple[str, tuple[str, ...]], tuple[Form, dict[str, str]]] = {}
#: opcode -> what must hold between an instruction's modifiers besides its form: the rule in words, and as a test of modifiers by slot
CONSTRAINTS: dict[str, list[tuple[str, Rule]]] = {}
#: opcode (or opcode prefix) -> why it is refused, for instructions known and not modelled
REFUSED: dict[str, str] = {}


def parse_pattern(pattern: str) -> tuple[Slot, ...]:
    """The slots of a pattern string."""
    slots = []
    for word in pattern.split():
        optional = word.startswith("[")
        word = word.strip("[]")
        ignored = word.startswith("!")
        word = word.lstrip("!")
        name, _, choices = word.partition("=") if "=" in word else (word.split("|")[0], "", word)
        slots.append(Slot(name, frozenset(choices.split("|")), optional, ignored))
    return tuple(slots)


def instruction(opcode: str, *patterns: str, source: str) -> Callable[[SpecFn], SpecFn]:
    """Register a spec for the forms of an opcode; a pattern given twice raises at import."""

    def register(spec: SpecFn) -> SpecFn:
        forms = FORMS.setdefault(opcode, [])
        for pattern in patterns:
            if any(form.pattern == pattern for form in forms):
                raise ValueError(f"duplicate form {opcode} {pattern}")
            forms.append(Form(opcode, pattern, parse_pattern(pattern), spec, source))
        _FOUND.clear()
        return spec

    return register


def refuse(opcode: str, why: str) -> None:
    """Name an instruction (``opcode``) or one of its modifiers (``opcode.modifier``) that is known and not modelled."""
    REFUSED[opcode] = why


def constraint(opcode: str, text: str) -> Callable[[Rule], Rule]:
    """Register what the ISA demands between an opcode's modifiers: a test of the modifiers by slot, and the sentence of its refusal."""

    def register(rule: Rule) -> Rule:
        CONSTRAINTS.setdefault(opcode, []).append((text, rule))
        _FOUND.clear()
        return rule

    return register


def find(instruction: Instruction) -> tuple[Form, dict[str, str]]:
    """The form of an instruction and its modifiers by slot. Raises UnsupportedError naming instruction or modifier."""
    known = _FOUND.get((instruction.opcode, instruction.modifiers))
    if known is None:
        known = _FOUND[instruction.opcode, instruction.modifiers] = _search(instruction)
    return known[0], dict(known[1])


def _search(instruction: Instruction) -> tuple[Form, dict[str, str]]:
    forms = FORMS.get(instruction.opcode)
    if forms is None:
        why = REFUSED.get(instruction.opcode, "it has no semantics here")
        close = difflib.get_close_matches(instruction.opcode, FORMS, 1)
        hint = f"did you mean {close[0]}?" if close and instruction.opcode not in REFUSED else ""
        raise UnsupportedError(f"instruction {instruction.mnemonic}: {why}", feature=instruction.mnemonic, hint=hint)
    broken = ""
    for form in forms:
        found = form.match(instruction.modifiers)
        if found is None:
            continue
        why = next((text for text, rule in CONSTRAINTS.get(instruction.opcode, ()) if not rule(found)), "")
        if not why:
            return form, found
        broken = broken or why
    if broken:
        raise UnsupportedError(f"instruction {instruction.mnemonic}: {broken}", feature=instruction.mnemonic)
    for modifier in instruction.modifiers:
        reason = REFUSED.get(f"{instruction.opcode}.{modifier}")
        if reason is not None:
            raise UnsupportedError(f"instruction {instruction.mnemonic}: {reason}", feature=instruction.mnemonic)
    known = {choice for form in forms for slot in form.slots for choice in slot.choices}
    odd = [m for m in instruction.modifiers if m not in known]
    what = f"modifier .{odd[0]}" if odd else "this combination of modifiers"
    raise UnsupportedError(f"instruction {instruction.mnemonic}: {what} is not modelled", feature=instruction.mnemonic)
