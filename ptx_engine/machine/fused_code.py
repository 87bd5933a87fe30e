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

from ptx_engine.isa.group import Group
from ptx_engine.isa.simple import Choice, Copy, Extension, Floats, Integers, Load, Simple, Store
from ptx_engine.isa.values import Value
from ptx_engine.machine.fused_accesses import AccessCode
from ptx_engine.machine.fused_floats import emit_float
from ptx_engine.machine.fused_integers import Expression, Operand, expression, signed
from ptx_engine.machine.fused_kinds import COLUMNS, FLAG, INT, Shape
from ptx_engine.machine.fused_registers import Registers
from ptx_engine.machine.program import Block, Program
from ptx_engine.machine.recorded import Recorded, Target

Run = Callable[[Group, "list[Value]", int], int]


def fused(block: Block, program: Program, target: Target, recorded: Recorded) -> Run | None:
    """The function of a block, or None where no instruction is simple enough to gain by it.

    A loop leaves registers behind that only locals hold; what they are is known when its code has been written once.
    """
    writer = BlockCode(block, program, target, recorded, frozenset() if block.loops else None)
    if writer.looping and writer.registers.dirty:
        writer = BlockCode(block, program, target, recorded, frozenset(writer.registers.dirty))
    if not writer.inlined:
        return None
    names = dict(writer.registers.names)
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
        self.block, self.program, self.target = block, program, target
        self.registers = Registers(target, recorded)
        self.accesses = AccessCode(block, program, self.registers)
        self.inlined = 0
        at_start = sorted({*(kept or ()), *(slot for slot, _ in block.carried)})
        self.looping = kept is not None and all(self.registers.operand(slot) is not None for slot in at_start)
        if self.looping:
            self.registers.dirty.update(kept or ())
        for k, form in enumerate(block.forms):
            if form is not None and self._inline(k, form):
                self.inlined += 1
            else:
                self._call(k)
        self._finish(kept or frozenset())

    def text(self) -> str:
        """The function's source."""
        top = ["n = g.n", f"cost = {self.block.size} * n", "turn = 0", *self.registers.prologue]
        body = ["while True:", *("    " + line for line in self.registers.lines)]
        return "\n".join(["def run(g, R, left):", *("    " + line for line in [*top, *body])])

    # --- instructions --------------------------------------------------------------------------

    def _call(self, k: int) -> None:
        """The closure of an instruction."""
        registers, (origin, step) = self.registers, self.block.steps[k]
        registers.others_emit()
        registers.lines += registers.write_back()
        registers.dirty.clear()
        registers.lines += [f"A.origin = {registers.name(origin)}", f"{registers.name(step)}(g)"]
        for slot in sorted(self.program.uses[self.block.start + k].writes):
            registers.written(slot, k)

    def _inline(self, k: int, form: Simple) -> bool:
        if isinstance(form, Load):
            return self.accesses.load(k, form)
        if isinstance(form, Store):
            return self.accesses.store(k, form)
        if isinstance(form, Floats):
            return self.target.symbolic and emit_float(form, self.registers, self.target.arena, self.block.steps[k][0])
        if isinstance(form, Copy):
            source = self.registers.operand(form.source)
            if source is not None:
                self.registers.define(form.dst, source.kind, source.text, source.literal)
            return source is not None
        if isinstance(form, Integers):
            found = self._integers(form)
        else:
            found = self._choice(form) if isinstance(form, Choice) else self._extension(form)
        if found is not None:
            self.registers.define(form.dst, found[1], found[0])
        return found is not None

    def _integers(self, form: Integers) -> Expression | None:
        bits = [form.bits] * len(form.sources)
        if form.name.startswith("sh"):
            bits[1] = 32
        if form.name == "mad.wide":
            bits[2] = 2 * form.bits
        operands = [o for slot, width in zip(form.sources, bits) if (o := self._canonical(slot, width)) is not None]
        out = 1 if form.name.startswith("setp") else 2 * form.bits if form.name.endswith(".wide") else form.bits
        return expression(form, operands) if len(operands) == len(bits) and self.target.widths[form.dst] == out else None

    def _canonical(self, slot: int, bits: int) -> Operand | None:
        """An operand of plain bits of the width."""
        operand = self.registers.operand(slot)
        if operand is None or operand.kind.fmt is not None:
            return None
        if operand.literal is not None:
            return operand if operand.literal >> bits == 0 else None
        return operand if operand.kind is FLAG or self.target.widths[slot] == bits else None

    def _choice(self, form: Choice) -> Expression | None:
        a, b, p = (self.registers.operand(slot) for slot in (form.first, form.second, form.condition))
        if a is None or b is None or p is None or p.kind is not FLAG or a.kind != b.kind:
            return None
        return f"{a.text} if {p.text} else {b.text}", a.kind

    def _extension(self, form: Extension) -> Expression | None:
        a = self.registers.operand(form.source)
        if a is None or self.target.widths[form.dst] != form.width:
            return None
        if form.bits == form.width and a.kind is COLUMNS.get(form.bits):
            return a.text, a.kind
        if a.kind is not INT or (a.literal is None and self.target.widths[form.source] != form.bits):
            return None
        mask = (1 << form.width) - 1
        return (f"{signed(a, form.bits) if form.signed else a.text} & {mask}"), INT

    # --- the end -------------------------------------------------------------------------------

    def _finish(self, kept: frozenset[int]) -> None:
        """Leave to the terminator, or take the branch back to the start while all threads do."""
        registers, steps = self.registers, len(self.block.steps)
        again = self._again() if self.looping else ""
        registers.finish_emissions()
        self.looping = bool(again) and all(registers.kinds.get(slot) == kind for slot, kind in registers.entry.items())
        if not self.looping or (kept and not registers.dirty <= kept):
            registers.lines += registers.leave(steps)
            return
        registers.lines += [f"if not ({again}):", *("    " + line for line in registers.leave(steps)), "turn += 1"]
        registers.lines += ["if turn == left:", *("    " + line for line in registers.leave(-1))]
        registers.lines.append("M.executed += cost")
        carried = [f"({registers.name(name)}, x{slot})" for slot, name in self.block.carried if registers.kinds[slot].shape is Shape.INT]
        if self.block.carried:
            registers.lines.append(f"LOG.turn = ORDER.turn = ({''.join(text + ', ' for text in carried)})")

    def _again(self) -> str:
        """The condition under which all threads go back to the start; "" where it is not one for all."""
        end = self.block.end
        if end.predicate is None:
            return "True"
        p = self.registers.operand(end.predicate)
        return "" if p is None or p.kind is not FLAG else f"not {p.text}" if end.negated else p.text
