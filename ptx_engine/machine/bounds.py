"""What an instruction leaves in registers, as far as that is known: bounds of bits, from bounds of what it reads.

Bits are numbers without a sign, of as many bits as the instruction's type has; what is not listed may be anything. A thread's vote, and
what it gives to a reduction over its warp, bounds the result: it is among those who are asked.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass

from ptx_engine.syntax.ast import Instruction, IntLit, Not, Operand, Pair, Reg


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bits from ``low`` to ``high``, of which none but those in ``may`` are set; ``unlike``: not those that a register holds (-1: none)."""

    low: int
    high: int
    may: int
    unlike: int = -1

    @property
    def single(self) -> int | None:
        """The one value there is."""
        return self.low if self.low == self.high else None


def exactly(value: int) -> Bounds:
    """One value."""
    return Bounds(value, value, value)


def between(low: int, high: int) -> Bounds:
    """All values between two."""
    return exactly(low) if low == high else Bounds(low, high, (1 << high.bit_length()) - 1)


#: no value at all: nothing comes so far that could have written one
NOTHING = Bounds(1, 0, 0)


def hull(a: Bounds, b: Bounds) -> Bounds:
    """What holds of both."""
    if NOTHING in (a, b):
        return a if b == NOTHING else b
    return a if a == b else Bounds(min(a.low, b.low), max(a.high, b.high), a.may | b.may, a.unlike if a.unlike == b.unlike else -1)


TRUE, FALSE = exactly(1), exactly(0)


def forget(known: dict[int, Bounds], writes: Container[int]) -> None:
    """Registers are written: what was known of them, and by comparison with them, is so no longer."""
    for r in [r for r, value in known.items() if r in writes or value.unlike in writes]:
        known.pop(r)


def evaluate(instruction: Instruction, known: Mapping[int, Bounds], register: Callable[[str], int]) -> dict[int, Bounds]:
    """What an unguarded instruction leaves in registers, given others; without those of which nothing is known."""
    target = instruction.operands[0] if instruction.operands else None
    if not isinstance(target, (Reg, Pair)):  # (not the halves of a register)
        return {}
    row = _Row(instruction, known, register)
    if isinstance(target, Reg):
        found = row.result()
        return {} if found is None else {register(target.name): found}
    if instruction.opcode != "setp":
        return {}
    results = zip((target.first, target.second), row.compared())  # a comparison and its opposite
    return {register(operand.name): found for operand, found in results if isinstance(operand, Reg) and found is not None}


def _size(kind: str) -> int:
    """The bits of an integer type or a predicate; 0 for other types."""
    if kind == "pred":
        return 1
    return int(kind[1:]) if kind[:1] in ("b", "s", "u") and kind[1:].isdigit() else 0


def _number(bits: Bounds, kind: str) -> tuple[int, int] | None:
    """The numbers of a type that bits are; None where they are on both sides of the sign."""
    if kind[:1] != "s":
        return bits.low, bits.high
    half = 1 << _size(kind) - 1
    if bits.low < half <= bits.high:
        return None
    return (bits.low, bits.high) if bits.high < half else (bits.low - 2 * half, bits.high - 2 * half)


def _wrapped(low: int, high: int, size: int) -> Bounds | None:
    """Numbers as bits, where all of them wrap alike."""
    return between(low & (1 << size) - 1, high & (1 << size) - 1) if low >> size == high >> size else None


def _and(a: Bounds, b: Bounds, size: int) -> Bounds:
    both = a.may & b.may
    return exactly(a.low & b.low) if a.single is not None and b.single is not None else Bounds(0, min(a.high, b.high, both), both)


def _or(a: Bounds, b: Bounds, size: int) -> Bounds:
    if a.single is not None and b.single is not None:
        return exactly(a.low | b.low)
    either = a.may | b.may
    return Bounds(max(a.low, b.low), min(either, a.high + b.high), either)


def _xor(a: Bounds, b: Bounds, size: int) -> Bounds:
    if a.single is not None and b.single is not None:
        return exactly(a.low ^ b.low)
    return Bounds(int(_apart(a, b)), a.may | b.may, a.may | b.may)


def _shifted(a: Bounds, b: Bounds, size: int, *, up: bool = True) -> Bounds | None:
    """By a known amount, without a loss of upper bits."""
    if b.single is None or b.low >= size or (up and a.high << b.low >> size):
        return None
    return Bounds(*(v << b.low if up else v >> b.low for v in (a.low, a.high, a.may)))


#: numbers of the type: where bits are negative, or may be, nothing is said
_OF_NUMBERS = frozenset({"min", "max", "shr"})
#: those of two operands; the bits of the type are the third argument
_BINARY: dict[str, Callable[[Bounds, Bounds, int], Bounds | None]] = {
    "and": _and, "or": _or, "xor": _xor,
    "shl": lambda a, b, size: _shifted(a, b, size), "shr": lambda a, b, size: _shifted(a, b, size, up=False),
    "min": lambda a, b, size: between(min(a.low, b.low), min(a.high, b.high)),
    "max": lambda a, b, size: between(max(a.low, b.low), max(a.high, b.high)),
    "add": lambda a, b, size: _wrapped(a.low + b.low, a.high + b.high, size),
    "sub": lambda a, b, size: _wrapped(a.low - b.high, a.high - b.low, size),
}  # fmt: skip

#: whether (a, b) are certainly so, and certainly not
_COMPARE: dict[str, Callable[[tuple[int, int], tuple[int, int]], tuple[bool, bool]]] = {
    "lt": lambda a, b: (a[1] < b[0], a[0] >= b[1]), "le": lambda a, b: (a[1] <= b[0], a[0] > b[1]),
    "gt": lambda a, b: (a[0] > b[1], a[1] <= b[0]), "ge": lambda a, b: (a[0] >= b[1], a[1] < b[0]),
}  # fmt: skip
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


def _apart(a: Bounds, b: Bounds) -> bool:
    """Whether two values cannot be equal."""
    disjoint = a.high < b.low or b.high < a.low
    return disjoint or any(x.single is not None and x.low & ~y.may != 0 for x, y in ((a, b), (b, a)))


@dataclass(frozen=True)
class _Row:
    instruction: Instruction
    known: Mapping[int, Bounds]
    register: Callable[[str], int]

    @property
    def kind(self) -> str:
        return self.instruction.modifiers[-1] if self.instruction.modifiers else ""

    def operand(self, i: int, kind: str) -> Bounds | None:
        """An operand as bits of a type: unknown ones may be anything; None where the type has none or there is no such operand."""
        size = _size(kind)
        if size == 0 or i >= len(self.instruction.operands):
            return None
        return self._bits(self.instruction.operands[i], size)

    def _bits(self, operand: Operand, size: int) -> Bounds:
        top = (1 << size) - 1
        if isinstance(operand, Not):
            inner = self._bits(operand.operand, size)
            return between(top - inner.high, top - inner.low)
        if isinstance(operand, IntLit):
            return exactly(operand.value & top)
        found = self.known.get(self.register(operand.name)) if isinstance(operand, Reg) else None
        if found is not None and found.high <= top:
            return found
        return (None if found is None else _wrapped(found.low, found.high, size)) or between(0, top)

    def result(self) -> Bounds | None:
        """What the only result is; None for anything."""
        found = self._result()
        return None if found is None or (found.low == 0 and found.high >= (1 << _size(self.kind)) - 1 and found.unlike < 0) else found

    def _result(self) -> Bounds | None:
        opcode, size = self.instruction.opcode, _size(self.kind)
        if opcode == "setp":
            return self.compared()[0]
        if opcode in ("vote", "redux"):
            return self._of_warp(opcode)
        if opcode in ("bar", "barrier") and "red" in self.instruction.modifiers:
            return self._all_or_any(self._bits(self.instruction.operands[-1], 1))
        if opcode == "cvt":
            return self._converted()
        a, b = self.operand(1, self.kind), self.operand(2, self.kind)
        if a is None or "sat" in self.instruction.modifiers:
            return None
        if opcode in _BINARY and b is not None and len(self.instruction.operands) == 3:
            if opcode in _OF_NUMBERS and self.kind[:1] == "s" and max(a.high, b.high) >> size - 1:
                return None
            return _BINARY[opcode](a, b, size)
        if opcode == "mov":
            return a
        if opcode == "not":
            return between((1 << size) - 1 - a.high, (1 << size) - 1 - a.low)
        if opcode == "popc":
            return between(int(a.low > 0), min(a.may.bit_count(), max(a.high.bit_count(), a.high.bit_length() - 1)))
        chooses = self.operand(3, "pred")
        if opcode == "selp" and b is not None and chooses is not None:
            return hull(a, b) if chooses.single is None else a if chooses.single else b
        return None

    def _of_warp(self, opcode: str) -> Bounds | None:
        """A vote, or a reduction over the lanes of a member mask."""
        modifiers = self.instruction.modifiers
        if opcode == "redux":
            own = self.operand(1, self.kind)
            if own is None or self.kind[:1] == "s":
                return None
            if "and" in modifiers or "min" in modifiers:
                return between(0, own.high)
            return between(own.low, (1 << _size(self.kind)) - 1) if "or" in modifiers or "max" in modifiers else None
        own = self._bits(self.instruction.operands[1], 1)
        return self._ballot(own) if "ballot" in modifiers else self._all_or_any(own)

    def _all_or_any(self, own: Bounds) -> Bounds | None:
        """A thread's own vote decides against all, and for any."""
        modifiers = self.instruction.modifiers
        if "all" in modifiers or "and" in modifiers:
            return FALSE if own.single == 0 else None
        return TRUE if own.single == 1 and ("any" in modifiers or "or" in modifiers) else None

    def _ballot(self, own: Bounds) -> Bounds | None:
        """The votes of the members: without a thread's own they are others, and less, than all; with it they are not none."""
        members = self.instruction.operands[2] if len(self.instruction.operands) > 2 else IntLit(-1)
        every = self._bits(members, 32)
        unlike = self.register(members.name) if isinstance(members, Reg) else -1
        if own.single == 0 and every.high > 0:
            return Bounds(0, min(every.high - 1, every.may), every.may, unlike)
        return Bounds(1, every.high, every.may) if own.single == 1 and every.high > 0 else None

    def _converted(self) -> Bounds | None:
        """An integer in a wider or narrower register; beyond the type there are copies of its sign, or zeros."""
        if len(self.instruction.modifiers) < 2 or "sat" in self.instruction.modifiers:
            return None
        to, source = self.instruction.modifiers[-2:]
        bits = self.operand(1, source)
        number = None if bits is None else _number(bits, source)
        return None if number is None or _size(to) == 0 else self._extended(*number, to)

    def _extended(self, low: int, high: int, to: str) -> Bounds | None:
        """Numbers in a register, which may be wider than the type that they are converted to."""
        bits = _wrapped(low, high, _size(to))
        number = None if bits is None else _number(bits, to)
        return None if number is None else _wrapped(*number, max(_size(to), 64 if number[0] < 0 else 0))

    def compared(self) -> tuple[Bounds | None, Bounds | None]:
        """A comparison and its opposite, each together with a further predicate where there is one."""
        modifiers, operands = self.instruction.modifiers, self.instruction.operands
        a, b = self.operand(1, self.kind), self.operand(2, self.kind)
        if a is None or b is None:
            return None, None
        surely, never = self._compares(modifiers[0], a, b)
        results = (TRUE if surely else FALSE if never else None, TRUE if never else FALSE if surely else None)
        if len(operands) < 4:
            return results
        other, combine = self._bits(operands[3], 1), next((m for m in modifiers if m in ("and", "or", "xor")), "")
        if not combine:
            return None, None
        both = [_BINARY[combine](between(0, 1) if r is None else r, other, 1) for r in results]
        first, second = (None if r is None or r.single is None else r for r in both)
        return first, second

    def _compares(self, how: str, a: Bounds, b: Bounds) -> tuple[bool, bool]:
        """Whether a comparison certainly holds, and certainly does not."""
        if how in ("eq", "ne"):
            slots = [self.register(o.name) if isinstance(o, Reg) else -1 for o in self.instruction.operands[1:3]]
            apart = _apart(a, b) or (a.unlike >= 0 and a.unlike == slots[1]) or (b.unlike >= 0 and b.unlike == slots[0])
            same = a.single is not None and a.single == b.single
            return (same, apart) if how == "eq" else (apart, same)
        kind = self.kind if how not in _UNSIGNED else "u" + self.kind[1:]
        numbers, compare = (_number(a, kind), _number(b, kind)), _COMPARE.get(_UNSIGNED.get(how, how))
        if compare is None or numbers[0] is None or numbers[1] is None:
            return False, False
        return compare(numbers[0], numbers[1])
