"""The registers of fused code: which are locals and of what kind, which of them the register file does not hold yet, and ways out.

Nodes of the arena that were emitted one by one wait here too, until a line could leave the code or others could emit; so do columns of one
operator that do not use each other, which are emitted together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ptx_engine.isa.values import UINT, Fmt, Sym, Value
from ptx_engine.machine.fused_integers import Operand
from ptx_engine.machine.fused_kinds import FLAG, INT, Kind, Shape, is_column, is_term, is_terms
from ptx_engine.machine.recorded import Recorded, Target
from ptx_engine.terms.storage import MAX_PENDING

#: columns that are emitted together
MOST_COLUMNS = 64

#: the next id of the arena
_NEXT = "new = A.stored + len(pending) // 4"


def give_way(step: int, registers: list[Value], names: dict[str, Any], held: tuple[tuple[int, str, Fmt | None], ...]) -> int:
    """Put back the registers that only locals hold."""
    for slot, name, fmt in held:
        registers[slot] = names[name] if fmt is None else Sym(((fmt, names[name]),))
    return step


class Registers:
    """Lines of code so far, and what they have done to the registers."""

    def __init__(self, target: Target, recorded: Recorded) -> None:
        self.target, self.recorded = target, recorded
        self.names: dict[str, object] = {"Sym": Sym, "M": target.counter, "LOG": target.log, "ORDER": target.order, "A": target.arena}
        self.prologue: list[str] = []
        self.lines: list[str] = []
        #: registers that are locals
        self.kinds: dict[int, Kind] = {}
        #: locals that the register file does not hold yet
        self.dirty: set[int] = set()
        #: kinds of the registers that are read before they are written
        self.entry: dict[int, Kind] = {}
        #: how often a register was written so far
        self.writes: dict[int, int] = {}
        self._foreign: set[int] = set()  # written by a closure, and no locals
        self._literals: dict[int, int] = {}
        self._known: dict[int, str] = {}
        self._rows: list[tuple[str, object]] = []
        #: registers whose locals the waiting nodes name, and those that hold the id of a waiting node, with its place
        self._named: set[int] = set()
        self._places: dict[int, int] = {}
        #: columns that wait: operator, registers and operands of each; the registers that they name and fill
        self._columns: list[tuple[int, int, str, object]] = []
        self._filled: set[int] = set()
        self._used: set[int] = set()
        #: whether the local ``new`` is the next id at the end of the lines so far, ever was, and was only changed here
        self._counted, self.counts, self._alone = False, False, True

    def name(self, value: object) -> str:
        """A name for an object, which is kept so that its identity stays its own."""
        text = self._known.get(id(value))
        if text is None:
            text = self._known[id(value)] = f"k{len(self.names)}"
            self.names[text] = value
        return text

    # --- operands ------------------------------------------------------------------------------

    def operand(self, slot: int) -> Operand | None:
        """A register as an operand; one that is read first becomes a local, guarded at the top. None if it is none of the kinds."""
        if slot in self._filled:
            self._settle_columns()
        fixed = self.target.template[slot] if slot not in self._literals else self._literals[slot]
        if fixed is not None:
            if isinstance(fixed, bool):
                return Operand(repr(fixed), FLAG)
            return Operand(str(fixed), INT, fixed) if isinstance(fixed, int) and fixed >= 0 else None
        if slot not in self.kinds:
            kind = None if slot in self._foreign else self.recorded.before.get(slot)
            if kind is None:
                return None
            self.entry[slot] = self.kinds[slot] = kind
            self.prologue += self._guarded(slot, kind, "return 0")
        kind = self.kinds[slot]
        if kind.value is not None:
            return Operand(str(kind.value), INT, kind.value)
        return Operand(f"x{slot}", kind)

    def _guarded(self, slot: int, kind: Kind, otherwise: str) -> list[str]:
        """Lines that make a register a local of a kind, or do otherwise."""
        x, fail = f"x{slot}", "    " + otherwise
        load = f"{x} = R[{slot}]"
        if kind.shape is Shape.INT or kind.shape is Shape.FLAG:
            test = f"{x}.__class__ is not {'int' if kind.shape is Shape.INT else 'bool'}"
            return [load, f"if {test}:" if kind.value is None else f"if {test} or {x} != {kind.value}:", fail]
        if kind.fmt is not None:
            test = self.name(is_term if kind.shape is Shape.TERM else is_terms)
            return [load, f"if not {test}({x}, {self.name(kind.fmt)}):", fail, f"{x} = {x}.parts[0][1]"]
        return [load, f"if not {self.name(is_column)}({x}, {self.name(UINT[kind.bits or 1])}):", fail]

    def define(self, slot: int, kind: Kind, text: str, literal: int | None = None) -> None:
        """The local of a register gets the value of an expression."""
        if slot in self._named or slot in self._used or slot in self._filled:  # waiting nodes mean the value before
            self.settle()
        self._places.pop(slot, None)
        self.lines.append(f"x{slot} = {text}")
        self._forget(slot)
        self._foreign.discard(slot)
        self.kinds[slot] = kind
        self.dirty.add(slot)
        if literal is not None:
            self._literals[slot] = literal

    def written(self, slot: int, step: int) -> None:
        """A closure, step number ``step``, has written a register: it becomes a local where it is of the kind that it was before."""
        self._forget(slot)
        self.kinds.pop(slot, None)
        kind = self.recorded.after[step].get(slot)
        if kind is None:
            self._foreign.add(slot)
            return
        self.lines += self._guarded(slot, kind, self._give_way(step + 1))
        self.kinds[slot] = kind
        self._foreign.discard(slot)

    def _forget(self, slot: int) -> None:
        self.writes[slot] = self.writes.get(slot, 0) + 1
        self._literals.pop(slot, None)

    # --- ways out ------------------------------------------------------------------------------

    def write_back(self) -> list[str]:
        """Lines that put the registers back."""
        lines = []
        for slot in sorted(self.dirty):
            fmt = self.kinds[slot].fmt
            lines.append(f"R[{slot}] = x{slot}" if fmt is None else f"R[{slot}] = Sym((({self.name(fmt)}, x{slot}),))")
        return lines

    def leave(self, step: int) -> list[str]:
        """Lines that leave the code, for a way that is often taken."""
        return [*self.write_back(), f"return {step}"]

    def _give_way(self, step: int) -> str:
        """The statement that leaves at a step whose closure is needed: short, since there are many."""
        held = tuple((slot, f"x{slot}", self.kinds[slot].fmt) for slot in sorted(self.dirty))
        return f"return {self.name(give_way)}({step}, R, locals(), {self.name(held)})" if held else f"return {step}"

    def leave_if(self, condition: str, step: int) -> None:
        """Give way to the closures where a condition holds; it is computed by the last of the lines so far."""
        self.lines += [f"if {condition}:", "    " + self._give_way(step)]

    # --- emissions -----------------------------------------------------------------------------

    def emit_column(self, slot: int, fmt: Fmt, op: int, operands: Sequence[int | str], origin: object) -> None:
        """A register gets a column of nodes of an operator; operands are registers (ints) or literals."""
        if self._rows:
            self.settle()
        if self._columns and (self._columns[0][0] != op or len(self._columns) >= MOST_COLUMNS):
            self._settle_columns()
        self._counted = self._alone = False
        texts = [x if isinstance(x, str) else f"x{x}" for x in operands]
        self._columns.append((op, slot, ", ".join((*texts, "0", "0")[:3]), origin))
        self._used.update(x for x in operands if isinstance(x, int))
        self._filled.add(slot)
        self._places.pop(slot, None)
        self._forget(slot)
        self._foreign.discard(slot)
        self.kinds[slot] = Kind(Shape.TERMS, fmt=fmt)
        self.dirty.add(slot)

    def _settle_columns(self) -> None:
        """Emit the columns that wait. All operands are read before any register is written, as they were in the program: none of these
        columns reads one of the others."""
        if not self._columns:
            return
        op, slots = self._columns[0][0], [slot for _, slot, _, _ in self._columns]
        if len(slots) == 1:
            _, slot, operands, origin = self._columns[0]
            self.lines += [f"A.origin = {self.name(origin)}", f"x{slot} = A.emit_column({op}, n, {operands})"]
        else:
            origins = tuple(origin for _, _, _, origin in self._columns)
            rows = "".join(f"({operands}), " for _, _, operands, _ in self._columns)
            self.lines.append(f"{', '.join(f'x{slot}' for slot in slots)} = A.emit_columns({op}, n, ({rows}), {self.name(origins)})")
        self._columns.clear()
        self._filled.clear()
        self._used.clear()

    def emit(self, slot: int, fmt: Fmt, row: tuple[int, Sequence[int | str]], origin: object) -> None:
        """A register gets the id of a node that is emitted now. ``row``: operator, and the operands as registers (ints) or literals."""
        self._settle_columns()
        if not self._counted:
            self.lines.append(_NEXT)
            self._counted = self.counts = True
        operands = [x if isinstance(x, str) else f"new + {self._places[x]}" if x in self._places else f"x{x}" for x in row[1]]
        self._named.update(x for x in row[1] if isinstance(x, int) and x not in self._places)
        place = len(self._rows)
        self._rows.append((", ".join([str(row[0]), *(operands + ["0", "0"])[:3]]), origin))
        if slot in self._named:
            self.settle()
            self.define(slot, Kind(Shape.TERM, fmt=fmt), "new - 1")
            return
        self.define(slot, Kind(Shape.TERM, fmt=fmt), f"new + {place}")
        self._places[slot] = place

    def settle(self) -> None:
        """Put emitted nodes into the arena: before a line that could leave, or after which others may emit."""
        self._settle_columns()
        if not self._rows:
            return
        origins = tuple(origin for _, origin in self._rows)
        if len(origins) == 1:
            where = self.name(origins[0])
            self.lines += [f"if origins[-1] is not {where}:", "    starts.append(new)", f"    origins.append({where})"]
        else:
            self.lines += [f"starts.extend(range(new, new + {len(origins)}))", f"origins.extend({self.name(origins)})"]
        self.lines += [f"emit(({', '.join(row for row, _ in self._rows)}))", f"new += {len(origins)}"]
        self._rows.clear()
        self._named.clear()
        self._places.clear()

    def others_emit(self) -> None:
        """The lines that follow may emit by themselves."""
        self.settle()
        self._counted = self._alone = False

    def finish_emissions(self) -> None:
        """At the end of a turn: pending nodes go to the arrays if there are many; the next id is looked up once if nobody else emits."""
        self.settle()
        if not self.counts:
            return
        self.lines += [f"if len(pending) >= {MAX_PENDING}:", "    A.flush()"]
        self.prologue += ["pending = A.pending", "emit = pending.extend", "origins = A.origins", "starts = A.origin_starts"]
        if self._alone:
            self.lines.remove(_NEXT)
            self.prologue.append(_NEXT)
