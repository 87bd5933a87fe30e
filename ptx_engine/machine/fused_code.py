"""Writes the code of one fused block: Python made of our own templates, slot numbers and integers, never of PTX text.

    def run(g, R, left):          # group, register file, turns of the block that may run
        ...guards of the registers that are read first, which then are locals
        while True:
            ...instructions; a closure is called on the register file, which then is up to date
            ...at the end of a loop of one block: count the turn and go on, while its predicate is uniform
        return step               # the step that the machine goes on with; -1 for the start of the block

Where a value is not of the kind that was seen before, nothing has happened yet: the registers are put back and the machine goes on there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ptx_engine.isa.simple import Choice, Copy, Extension, Floats, Integers, Load, Place, Store
from ptx_engine.isa.values import UINT, Fmt, Sym, Value
from ptx_engine.machine.fused_floats import FloatCode
from ptx_engine.machine.fused_integers import Expression, Operand, expression, signed
from ptx_engine.machine.fused_kinds import COLUMNS, FLAG, INT, Kind, Shape, is_column, is_term, is_terms
from ptx_engine.machine.fused_memory import fits_a_cell, input_at, input_loader, shared_loader, shared_storer
from ptx_engine.machine.program import Block, Program
from ptx_engine.machine.recorded import Recorded, Target

Run = Callable[[object, "list[Value]", int], int]


@dataclass
class Code:
    """Lines, the objects that they name, and what is known of the registers at the end of the lines so far."""

    names: dict[str, object] = field(default_factory=dict)
    prologue: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    kinds: dict[int, Kind] = field(default_factory=dict)
    #: locals that the register file does not hold yet
    dirty: set[int] = field(default_factory=set)
    #: kinds of the registers that are read before they are written
    entry: dict[int, Kind] = field(default_factory=dict)
    #: registers that a closure wrote, and that are no locals
    foreign: set[int] = field(default_factory=set)
    _known: dict[int, str] = field(default_factory=dict)

    def name(self, value: object) -> str:
        """A name for an object."""
        text = self._known.get(id(value))
        if text is None:
            text = self._known[id(value)] = f"k{len(self.names)}"
            self.names[text] = value
        return text


def fused(block: Block, program: Program, target: Target, recorded: Recorded) -> Run | None:
    """The function of a block, or None where no instruction is simple enough to gain by it.

    A loop leaves registers behind that only locals hold; what they are is known when its code has been written once.
    """
    writer = BlockCode(block, program, target, recorded, frozenset() if block.loops else None)
    if writer.code.dirty and writer.looping:
        writer = BlockCode(block, program, target, recorded, frozenset(writer.code.dirty))
    if not writer.inlined:
        return None
    names = dict(writer.code.names)
    exec(compile(writer.text(), "<fused block>", "exec"), names)
    run: Run = names["run"]  # type: ignore[assignment]
    return run


class BlockCode:
    """The code of one block, for values as they were recorded.

    ``kept``: registers that only locals hold when a turn of a loop begins; None: no loop.
    """

    def __init__(
        self, block: Block, program: Program, target: Target, recorded: Recorded, kept: frozenset[int] | None
    ) -> None:  # fmt: skip
        self.block, self.program, self.target, self.recorded = block, program, target, recorded
        self.code = Code({"Sym": Sym, "M": target.counter, "LOG": target.log, "ORDER": target.order, "A": target.arena})
        self.floats = FloatCode(self.code, target.arena)
        self.inlined = 0
        at_start = {*(kept or ()), *(slot for slot, _ in block.carried)}
        self.looping = kept is not None and all(self._live_in(slot) is not None for slot in sorted(at_start))
        if self.looping:
            self.code.dirty.update(kept or ())
        for k, form in enumerate(block.forms):
            if form is None or not self._inline(k, form):
                self._call(k)
            else:
                self.inlined += 1
        self._finish(kept or frozenset())

    def text(self) -> str:
        """The function's source."""
        top = ["n = g.n", f"cost = {self.block.size} * n", "turn = 0", *self.floats.prologue(), *self.code.prologue]
        body = ["while True:", *("    " + line for line in self.code.lines)]
        return "\n".join(["def run(g, R, left):", *("    " + line for line in [*top, *body])])

    # --- registers -----------------------------------------------------------------------------

    def _live_in(self, slot: int) -> Operand | None:
        """A register as an operand; one that is read first becomes a local, guarded at the top."""
        fixed = self.target.template[slot]
        if fixed is not None:
            if fixed.__class__ is bool:
                return Operand(repr(fixed), FLAG)
            return Operand(str(fixed), INT, fixed) if isinstance(fixed, int) and fixed >= 0 else None
        code = self.code
        if slot not in code.kinds:
            kind = None if slot in code.foreign else self.recorded.before.get(slot)
            if kind is None:
                return None
            code.entry[slot] = code.kinds[slot] = kind
            code.prologue += self._guarded(slot, kind, ["return 0"])
        return Operand(f"x{slot}", code.kinds[slot])

    def _guarded(self, slot: int, kind: Kind, otherwise: list[str]) -> list[str]:
        """Lines that make a register a local of a kind, or do otherwise."""
        x = f"x{slot}"
        fail = ["    " + line for line in otherwise]
        lines = [f"{x} = R[{slot}]"]
        if kind.shape is Shape.INT or kind.shape is Shape.FLAG:
            return [*lines, f"if {x}.__class__ is not {'int' if kind.shape is Shape.INT else 'bool'}:", *fail]
        if kind.fmt is not None:
            test = self.code.name(is_term if kind.shape is Shape.TERM else is_terms)
            return [*lines, f"if not {test}({x}, {self.code.name(kind.fmt)}):", *fail, f"{x} = {x}.parts[0][1]"]
        dtype = self.code.name(UINT[kind.bits or 1])
        return [*lines, f"if not {self.code.name(is_column)}({x}, {dtype}):", *fail]

    def _write_back(self) -> list[str]:
        lines = []
        for slot in sorted(self.code.dirty):
            fmt = self.code.kinds[slot].fmt
            lines.append(f"R[{slot}] = x{slot}" if fmt is None else f"R[{slot}] = Sym((({self.code.name(fmt)}, x{slot}),))")
        return lines

    def _leave(self, step: int) -> list[str]:
        return [*self._write_back(), f"return {step}"]

    def _leave_if(self, condition: str, step: int) -> None:
        self.code.lines += [f"if {condition}:", *("    " + line for line in self._leave(step))]

    def _define(self, slot: int, kind: Kind) -> None:
        self.code.kinds[slot] = kind
        self.code.dirty.add(slot)
        self.code.foreign.discard(slot)

    def _call(self, k: int) -> None:
        """The closure of an instruction."""
        code, (origin, step) = self.code, self.block.steps[k]
        code.lines += self._write_back()
        code.dirty.clear()
        code.lines += [f"A.origin = {code.name(origin)}", f"{code.name(step)}(g)"]
        self.floats.stale()
        for slot in sorted(self.program.uses[self.block.start + k].writes):
            code.kinds.pop(slot, None)
            kind = self.recorded.after[k].get(slot)
            if kind is None:
                code.foreign.add(slot)
            else:
                code.lines += self._guarded(slot, kind, self._leave(k + 1))
                code.kinds[slot] = kind
                code.foreign.discard(slot)

    # --- instructions --------------------------------------------------------------------------

    def _inline(self, k: int, form: object) -> bool:
        if isinstance(form, Load):
            return self._load(k, form)
        if isinstance(form, Store):
            return self._store(k, form)
        if isinstance(form, Floats):
            operands = [self._live_in(s) for s in form.sources] if self.target.symbolic else [None]
            kind = None
            if all(o is not None for o in operands):
                kind = self.floats.emit(form, operands, self.block.steps[k][0])  # type: ignore[arg-type]
            if kind is not None:
                self._define(form.dst, kind)
            return kind is not None
        found = self._expression(form)
        if found is None:
            return False
        dst: int = form.dst  # type: ignore[attr-defined]
        self.code.lines.append(f"x{dst} = {found[0]}")
        self._define(dst, found[1])
        return True

    def _expression(self, form: object) -> Expression | None:
        widths = self.target.widths
        if isinstance(form, Integers):
            sources = [(slot, 32 if form.name.startswith("sh") and i else form.bits) for i, slot in enumerate(form.sources)]
            if form.name == "mad.wide":
                sources[2] = (form.sources[2], 2 * form.bits)
            operands = [self._integer(slot, bits) for slot, bits in sources]
            out = 1 if form.name.startswith("setp") else 2 * form.bits if form.name.endswith(".wide") else form.bits
            known = [o for o in operands if o is not None]
            return expression(form, known) if len(known) == len(operands) and widths[form.dst] == out else None
        if isinstance(form, Copy):
            source = self._live_in(form.source)
            return None if source is None else (source.text, source.kind)
        if isinstance(form, Choice):
            return self._choice(form)
        assert isinstance(form, Extension)
        return self._extension(form)

    def _integer(self, slot: int, bits: int) -> Operand | None:
        """An operand that is canonical for the width."""
        operand = self._live_in(slot)
        if operand is None or operand.kind.fmt is not None:
            return None
        if operand.literal is not None:
            return operand if operand.literal >> bits == 0 else None
        return operand if operand.kind is FLAG or self.target.widths[slot] == bits else None

    def _choice(self, form: Choice) -> Expression | None:
        a, b, p = (self._live_in(slot) for slot in (form.first, form.second, form.condition))
        if a is None or b is None or p is None or p.kind is not FLAG or a.kind != b.kind:
            return None
        return f"{a.text} if {p.text} else {b.text}", a.kind

    def _extension(self, form: Extension) -> Expression | None:
        a = self._live_in(form.source)
        if a is None or self.target.widths[form.dst] != form.width:
            return None
        if form.bits == form.width and a.kind is COLUMNS.get(form.bits):
            return a.text, a.kind
        if a.kind is not INT or (a.literal is None and self.target.widths[form.source] != form.bits):
            return None
        return (f"{signed(a, form.bits)} & {(1 << form.width) - 1}" if form.signed else f"{a.text} & {(1 << form.width) - 1}"), INT

    # --- memory --------------------------------------------------------------------------------

    def _address(self, place: Place, bits: int) -> Operand | None:
        if place.base is None:
            return Operand(str(place.offset), INT, place.offset) if place.offset >= 0 else None
        base = self._live_in(place.base)
        if base is None or not (base.kind is INT or base.kind is COLUMNS[bits]) or self.target.widths[place.base] != bits:
            return None
        if place.offset == 0:
            return base
        return Operand(f"{base.text} {'+' if place.offset > 0 else '-'} {abs(place.offset)}", base.kind)

    def _loaded(self, k: int, form: Load) -> Fmt | None:
        """The format of the float that the load gave."""
        kind = self.recorded.loaded[k]
        return kind.fmt if self.target.symbolic and kind is not None else None

    def _load(self, k: int, form: Load) -> bool:
        fmt, memory = self._loaded(k, form), self.target.memory
        if fmt is None or form.space not in ("global", "shared"):
            return False
        address = self._address(form.place, 64 if form.space == "global" else 32)
        if address is None:
            return False
        code, pc = self.code, self.block.start + k
        if form.space == "shared":
            if not fits_a_cell(memory, fmt, form.bits):
                return False
            load = shared_loader(memory, fmt, pc)
        else:
            seen = self.recorded.addresses[k]
            tensor = None if seen is None else input_at(memory, seen, form.bits)
            if tensor is None or tensor.buffer.input is None:
                return False
            if address.kind is INT:
                self._uniform_input(k, form.dst, address, (tensor.first, tensor.stop, -1 - tensor.buffer.input.base), form.bits // 8)
                self._define(form.dst, Kind(Shape.TERM, fmt=fmt))
                return True
            load = input_loader(tensor)
        code.lines.append(f"v = {code.name(load)}(g, {address.text})")
        self._leave_if("v is None", k)
        code.lines.append(f"x{form.dst} = v")
        self._define(form.dst, Kind(Shape.TERMS if address.kind.column else Shape.TERM, fmt=fmt))
        return True

    def _uniform_input(self, k: int, dst: int, address: Operand, where: tuple[int, int, int], size: int) -> None:
        """One element of an input for all threads: its id is a matter of arithmetic."""
        first, stop, highest = where
        code = self.code
        code.lines.append(f"v = {address.text} - {first}")
        self._leave_if(f"v < 0 or v >= {stop - first}" + (f" or v & {size - 1}" if size > 1 else ""), k)
        code.lines.append(f"x{dst} = {highest} - (v >> {size.bit_length() - 1})")

    def _store(self, k: int, form: Store) -> bool:
        if not self.target.symbolic or form.space != "shared":
            return False
        source = self._live_in(form.source)
        if source is None or source.kind.fmt is None or not fits_a_cell(self.target.memory, source.kind.fmt, form.bits):
            return False
        address = self._address(form.place, 32)
        if address is None or address.kind is INT:
            return False
        store = shared_storer(self.target.memory, source.kind.fmt, self.block.start + k)
        self._leave_if(f"not {self.code.name(store)}(g, {address.text}, {source.text})", k)
        return True

    # --- the end -------------------------------------------------------------------------------

    def _finish(self, kept: frozenset[int]) -> None:
        """Leave to the terminator, or take the branch back to the start while all threads do."""
        code, steps = self.code, len(self.block.steps)
        again = self._again() if self.looping else ""
        self.looping = bool(again) and all(code.kinds.get(slot) == kind for slot, kind in code.entry.items())
        if not self.looping or (kept and not code.dirty <= kept):
            code.lines += self._leave(steps)
            return
        self._leave_if(f"not ({again})", steps)
        code.lines.append("turn += 1")
        self._leave_if("turn == left", -1)
        code.lines.append("M.executed += cost")
        carried = [f"({code.name(name)}, x{slot})" for slot, name in self.block.carried if code.kinds[slot] is INT]
        if self.block.carried:
            code.lines.append(f"LOG.turn = ORDER.turn = ({''.join(text + ', ' for text in carried)})")

    def _again(self) -> str:
        """The condition under which all threads go back to the start; "" where it is not one for all."""
        end = self.block.end
        if end.predicate is None:
            return "True"
        p = self._live_in(end.predicate)
        return "" if p is None or p.kind is not FLAG else f"not {p.text}" if end.negated else p.text
