"""Many turns of a loop of one block at once: where addresses grow by a step, and terms are made of inputs and of each other, the nodes of
all turns are arithmetic on ids.

What is emitted is what the closures emit, turn by turn, in their order. Anything else than loads of inputs, sums and products of integers
and float operators leaves the loop to fused code or closures, as does the last turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ptx_engine.isa.group import Group
from ptx_engine.isa.simple import Copy, Extension, Floats, Integers, Load, Simple, sources_of, targets_of
from ptx_engine.isa.values import UINT, Sym, Value
from ptx_engine.machine.fused_floats import NODES, folds
from ptx_engine.machine.fused_memory import input_at
from ptx_engine.machine.recorded import Target
from ptx_engine.machine.turn_values import (
    Before,
    Comparison,
    Emitted,
    Irregular,
    Linear,
    Moving,
    Term,
    TurnValue,
    added,
    is_column,
    scaled,
    turns_taken,
    turns_within,
    widened,
)
from ptx_engine.terms import ZERO, Ids
from ptx_engine.terms.storage import has_const
from ptx_engine.terms.turns import TurnOperand

if TYPE_CHECKING:
    from ptx_engine.machine.program import Block

#: nodes and turns before the machine looks at its clock again
MOST_NODES, MOST_TURNS = 1 << 19, 1 << 12
#: turns that are worth it
LEAST_TURNS = 3
_RING = {"add", "sub"}
_INTEGERS = _RING | {"mul", "mad", "shl", "mul.wide", "mad.wide"}


class Loop:
    """What can be said of a loop before it runs. ``carried``: registers that a turn reads before it writes them; ``steps``: of those that
    are integers what a turn adds to them, as signs and registers that the loop does not write."""

    def __init__(self, block: "Block", target: Target) -> None:
        self.block, self.target = block, target
        self.forms: list[Simple] = [form for form in block.forms if form is not None]
        self.written = {slot for form in self.forms for slot in targets_of(form)}
        self.carried = self._read_first() & self.written
        self.steps = self._steps()
        #: whether the turn that comes next is known to be the last
        self.last_turn = False

    def _read_first(self) -> set[int]:
        found: set[int] = set()
        done: set[int] = set()
        for form in self.forms:
            found.update(slot for slot in sources_of(form) if slot not in done)
            done.update(targets_of(form))
        return found

    def _steps(self) -> dict[int, tuple[tuple[int, int], ...]]:
        """Registers that are themselves plus what does not change, at the end of a turn."""
        sums: dict[int, tuple[int, tuple[tuple[int, int], ...]]] = {slot: (slot, ()) for slot in self.carried}
        for form in self.forms:
            found = self._sum(form, sums)
            for slot in targets_of(form):
                sums.pop(slot, None)
            if found is not None:
                sums[targets_of(form)[0]] = found
        return {slot: terms for slot in self.carried if slot in sums for base, terms in [sums[slot]] if base == slot and terms}

    def _sum(
        self, form: Simple, sums: dict[int, tuple[int, tuple[tuple[int, int], ...]]]
    ) -> tuple[int, tuple[tuple[int, int], ...]] | None:
        if isinstance(form, Copy):
            return sums.get(form.source)
        if not isinstance(form, Integers) or form.name not in _RING:
            return None
        a, b = form.sources
        if form.name == "add" and b in sums:
            a, b = b, a
        if a not in sums or b in self.written:
            return None
        base, terms = sums[a]
        return base, (*terms, (-1 if form.name == "sub" else 1, b))


def loop_of(block: "Block", target: Target) -> Loop | None:
    """A loop of one block whose turns may be run together; None where an instruction or the branch is not of that kind."""
    if not block.loops or not block.forms or not target.symbolic or not all(map(_regular, block.forms)):
        return None
    loop = Loop(block, target)
    predicate = block.end.predicate
    return loop if predicate is None or predicate in loop.written - loop.carried else None


def _regular(form: Simple | None) -> bool:
    if isinstance(form, Integers):
        return form.name in _INTEGERS or (form.name.startswith("setp.") and form.bits > 1)
    if isinstance(form, Load):
        return form.space == "global"
    return isinstance(form, (Copy, Extension)) or (isinstance(form, Floats) and form.operator in NODES)


def run_turns(loop: Loop, g: Group, affordable: int) -> int:
    """Run turns, at most ``affordable``, at whose ends all threads go back to the start. The result is how many; 0: none."""
    if loop.last_turn:
        loop.last_turn = False
        return 0
    try:
        turns = _Turns(loop, g)
        for form, (origin, _) in zip(loop.forms, loop.block.steps):
            turns.do(form, origin)
        return turns.finish(affordable)
    except Irregular:
        return 0


class _Turns:
    """The values of one run of a loop over its turns, and what it emits in each."""

    def __init__(self, loop: Loop, g: Group) -> None:
        self.loop, self.g, self.target = loop, g, loop.target
        self.arena = loop.target.arena
        self.values: dict[int, TurnValue] = {}
        #: turns in which all values have their form
        self.most = 1 << 62
        self.rows: list[tuple[int, Sequence[Term | int], bool, object]] = []
        for slot in loop.carried:
            self.values[slot] = self._carried(slot, g.R[slot])

    # --- registers -----------------------------------------------------------------------------

    def _carried(self, slot: int, value: Value) -> TurnValue:
        """A register at the start of the first turn that turns change."""
        terms = self.loop.steps.get(slot)
        if terms is None:
            found = self._unchanged(slot, value)
            if not isinstance(found, Moving):
                raise Irregular
            return Before(slot, found.ids, found.fmt)
        step = 0
        for sign, other in terms:
            amount = self._fixed(other)
            if amount.__class__ is not int:
                raise Irregular
            step += sign * amount
        start = self._bits(slot, value)
        return Linear(start.start, step, start.bits)

    def _fixed(self, slot: int) -> Value:
        value = self.target.template[slot]
        return self.g.R[slot] if value is None else value

    def _bits(self, slot: int, value: Value) -> Linear:
        width = self.target.widths[slot]
        if value.__class__ is int and value >= 0 and width > 1:
            return Linear(value, 0, width)
        if isinstance(value, np.ndarray) and width > 1 and value.dtype is UINT.get(width):
            return Linear(value, 0, width)
        raise Irregular

    def _unchanged(self, slot: int, value: Value) -> Linear | Moving:
        """A value that is the same in all turns."""
        if value.__class__ is not Sym:
            return self._bits(slot, value)
        if len(value.parts) != 1:
            raise Irregular
        fmt, ids = value.parts[0]
        if fmt.kind != "float" or has_const(ids):
            raise Irregular
        return Moving(ids, 0, fmt)

    def read(self, slot: int) -> TurnValue:
        """What a register holds now, over the turns."""
        found = self.values.get(slot)
        if found is None:
            found = self.values[slot] = self._unchanged(slot, self._fixed(slot))
        return found

    def number(self, slot: int, bits: int) -> Linear:
        """A register read as bits of a width."""
        found = self.read(slot)
        if not isinstance(found, Linear):
            raise Irregular
        if found.bits == bits:
            return found
        if self.target.template[slot] is None or not isinstance(found.start, int) or found.start >> bits:
            raise Irregular
        return Linear(found.start, 0, bits)

    # --- instructions --------------------------------------------------------------------------

    def do(self, form: Simple, origin: object) -> None:
        """Note what an instruction computes and emits."""
        if isinstance(form, Floats):
            self.values[form.dst] = self._float(form, origin)
        elif isinstance(form, Load):
            self._load(form)
        elif isinstance(form, Copy):
            self.values[form.dst] = self.read(form.source)
        elif isinstance(form, Integers):
            found = self._compare(form) if form.name.startswith("setp.") else self._integers(form)
            if self.target.widths[form.dst] != (found.bits if isinstance(found, Linear) else 1):
                raise Irregular
            self.values[form.dst] = found
        else:
            assert isinstance(form, Extension)
            if form.width != 2 * form.bits or self.target.widths[form.dst] != form.width:
                raise Irregular
            self.values[form.dst] = self._wide(self.number(form.source, form.bits), form.signed)

    def _compare(self, form: Integers) -> Comparison:
        first, second = (self.number(slot, form.bits) for slot in form.sources)
        return Comparison(form, first, second)

    def _integers(self, form: Integers) -> Linear:
        bits, name = form.bits, form.name
        first, second = self.number(form.sources[0], bits), self.number(form.sources[1], 32 if name == "shl" else bits)
        if name in _RING:
            return added(first, second, 1 if name == "add" else -1)
        if name == "shl":
            if not isinstance(second.start, int) or second.step or second.start >= bits:
                raise Irregular
            return scaled(first, Linear(1 << second.start, 0, bits))
        if name.endswith(".wide"):
            first, second, bits = self._wide(first, form.signed), self._wide(second, form.signed), 2 * bits
        product = scaled(first, second)
        return added(product, self.number(form.sources[2], bits)) if name.startswith("mad") else product

    def _wide(self, value: Linear, signed: bool) -> Linear:
        wide, turns = widened(value, signed)
        self.most = min(self.most, turns)
        return wide

    def _load(self, form: Load) -> None:
        """Elements of an input: nothing may write it, and nobody need know who reads it."""
        base, size, memory = form.place.base, form.bits // 8, self.target.memory
        address = Linear(0, 0, 64) if base is None else self.number(base, 64)
        head = address.start if isinstance(address.start, int) else int(address.start[0])
        tensor = input_at(memory, head + form.place.offset, form.bits)
        if tensor is None or tensor.buffer.input is None:
            raise Irregular
        place = added(address, Linear((form.place.offset - tensor.first) % (1 << 64), 0, 64)).start
        low, high, union = (place, place, place) if isinstance(place, int) else _bounds(place)
        vector = size * len(form.dsts)
        self.most = min(self.most, turns_within(low, high, address.step, tensor.stop - tensor.first - vector))
        # the tensor itself is aligned to its elements, perhaps not to the vector
        if (union | address.step) & (size - 1) or (vector > size and _crooked(address, form, vector)):
            raise Irregular
        first = -1 - tensor.buffer.input.base
        number: Ids = place // size if isinstance(place, int) else (place >> np.uint64(size.bit_length() - 1)).view(np.int64)
        for i, slot in enumerate(form.dsts):
            ids = first - i - number
            self.values[slot] = Moving(ids if isinstance(ids, int) else ids.astype(np.int32), -(address.step // size), tensor.fmt)

    def _float(self, form: Floats, origin: object) -> Emitted:
        """A node for each turn, as the operands fold with nothing."""
        operator = form.operator
        operands = [self._operand(slot, form) for slot in form.sources]
        if operator == "fma" and operands[2].__class__ is int and operands[2] == ZERO:  # the start of a sum: one product
            operator, operands = "mul", operands[:2]
        terms = [x for x in operands if not isinstance(x, int)]
        if not terms or any(isinstance(x, int) and folds(operator, place, x, self.arena) for place, x in enumerate(operands)):
            raise Irregular
        column = any(x.column if isinstance(x, Emitted) else is_column(x.ids) for x in terms)
        self.rows.append((int(NODES[operator]), operands, column, origin))
        return Emitted(len(self.rows) - 1, column, form.fmt)

    def _operand(self, slot: int, form: Floats) -> Term | int:
        """A term, or the id of a constant."""
        found = self.read(slot)
        if isinstance(found, Linear):
            if found.step or not isinstance(found.start, int):
                raise Irregular
            return self.arena.float_bits(found.start, form.fmt.name)
        if isinstance(found, Comparison) or found.fmt is not form.fmt:
            raise Irregular
        return found

    # --- all turns -----------------------------------------------------------------------------

    def finish(self, affordable: int) -> int:
        """Emit the turns and set the registers to what they hold after them."""
        widths = [self.g.n if column else 1 for _, _, column, _ in self.rows]
        width = sum(widths)
        nodes = max(1, width)
        most = min(self.most, affordable, MOST_TURNS, max(LEAST_TURNS, MOST_NODES // nodes), self.arena.room // nodes)
        turns = self._taken(most)
        if turns < LEAST_TURNS:
            raise Irregular
        ends = {slot: self.values[slot] for slot in self.loop.carried}
        if any(isinstance(end, (Before, Comparison)) for end in ends.values()):
            raise Irregular
        for slot in ends:
            self._same_shape(slot, ends[slot])
        offsets = [0, *np.cumsum(widths).tolist()]
        first = self._emit(turns, widths, offsets, ends) if self.rows else 0
        for slot, end in ends.items():
            self.g.R[slot] = self._after(end, turns, first, offsets, width)
        self.loop.last_turn = turns < most
        return turns

    def _taken(self, most: int) -> int:
        predicate = self.loop.block.end.predicate
        if predicate is None:
            return most
        condition = self.values[predicate]
        if not isinstance(condition, Comparison) or most < LEAST_TURNS:
            raise Irregular
        return turns_taken(condition, self.loop.block.end.negated, most)

    def _same_shape(self, slot: int, end: TurnValue) -> None:
        """What was emitted for the first turn has the shape that later turns need."""
        start = self.g.R[slot]
        if isinstance(end, Linear):
            if is_column(end.start) != isinstance(start, np.ndarray) or slot not in self.loop.steps:
                raise Irregular
            return
        assert isinstance(end, (Moving, Emitted))
        if not isinstance(start, Sym) or start.parts[0][0] is not end.fmt:
            raise Irregular
        if is_column(start.parts[0][1]) != (end.column if isinstance(end, Emitted) else is_column(end.ids)):
            raise Irregular

    def _emit(self, turns: int, widths: list[int], offsets: list[int], ends: dict[int, TurnValue]) -> int:
        """Put the nodes of all turns into the arena; the first one's id."""
        codes = np.repeat(np.array([op for op, _, _, _ in self.rows], np.uint8), widths)
        first = len(self.arena)
        moving = [self._moving(place, first, offsets, ends) for place in range(3)]
        self.arena.emit_turns(turns, codes, widths, [origin for _, _, _, origin in self.rows], moving)
        return first

    def _moving(self, place: int, first: int, offsets: list[int], ends: dict[int, TurnValue]) -> TurnOperand:
        """One operand of all nodes of a turn, over the turns."""
        width = offsets[-1]
        start, step = np.zeros(width, np.int64), np.zeros(width, np.int32)
        entries: list[tuple[slice, Ids]] = []
        for (_, operands, _, _), begin, end in zip(self.rows, offsets, offsets[1:]):
            if place >= len(operands):
                continue
            span, term = slice(begin, end), operands[place]
            if isinstance(term, int):
                start[span] = term
            elif isinstance(term, Before):
                entries.append((span, term.ids))
                start[span], step[span] = self._ids(ends[term.slot], -1, first, offsets)
            else:
                start[span], step[span] = self._ids(term, 0, first, offsets)
        return TurnOperand(start, step, entries)

    def _ids(self, term: TurnValue, turn: int, first: int, offsets: list[int]) -> tuple["int | np.ndarray", int]:
        """The ids of a term at a turn, and their step."""
        if isinstance(term, Moving):
            ids = term.ids if isinstance(term.ids, int) else term.ids.astype(np.int64)
            return ids + turn * term.step, term.step
        assert isinstance(term, Emitted)
        width = offsets[-1]
        begin = first + turn * width + offsets[term.number]
        return (np.arange(begin, begin + self.g.n) if term.column else begin), width

    def _after(self, end: TurnValue, turns: int, first: int, offsets: list[int], width: int) -> Value:
        """What a register holds when the turns are over."""
        if isinstance(end, Linear):
            # a step is of the register at the start of a turn, a value of its end: the same number of turns on
            return end.at(turns - 1)
        assert isinstance(end, (Moving, Emitted))
        ids, _ = self._ids(end, turns - 1, first, offsets)
        return Sym(((end.fmt, ids if isinstance(ids, int) else ids.astype(np.int32)),))


def _bounds(column: np.ndarray) -> tuple[int, int, int]:
    """Least and greatest number of a column, and all bits of its numbers."""
    return int(np.minimum.reduce(column)), int(np.maximum.reduce(column)), int(np.bitwise_or.reduce(column))


def _crooked(address: Linear, form: Load, vector: int) -> bool:
    """Whether a vector is not aligned in some turn."""
    start = added(address, Linear(form.place.offset % (1 << 64), 0, 64)).start
    union = start if isinstance(start, int) else int(np.bitwise_or.reduce(start))
    return bool((union | address.step) & (vector - 1))
