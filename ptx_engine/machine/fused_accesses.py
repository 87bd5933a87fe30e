"""Loads and stores in fused code: an element of an input for all threads is a matter of arithmetic, columns go through ``fused_memory``."""

from __future__ import annotations

from dataclasses import dataclass

from ptx_engine.isa.simple import Load, Place, Store
from ptx_engine.isa.values import Fmt
from ptx_engine.machine.fused_integers import Operand
from ptx_engine.machine.fused_kinds import COLUMNS, INT, Kind, Shape
from ptx_engine.machine.fused_memory import (
    Access,
    RowLoader,
    SharedRows,
    fits_a_cell,
    input_at,
    input_loader,
    input_rows,
    shared_loader,
    shared_storer,
)
from ptx_engine.machine.fused_registers import Registers
from ptx_engine.machine.program import Block, Program
from ptx_engine.machine.tensors import TensorMemory

#: elements for each thread that are loaded at once
MOST_TOGETHER = 64


@dataclass(frozen=True)
class _Checked:
    """A base register whose elements of an input were checked together: the local of its element number, and the offsets."""

    write: int
    tensor: TensorMemory
    local: str
    offsets: frozenset[int]


class AccessCode:
    """The loads and stores of one block."""

    def __init__(self, block: Block, program: Program, registers: Registers) -> None:
        self.block, self.program, self.registers, self.target = block, program, registers, registers.target
        self._checked: dict[int, _Checked] = {}
        #: steps whose registers an earlier step has loaded already, and the locals that hold them
        self._fetched: dict[int, list[str]] = {}
        #: such steps of shared memory: what loaded them, and their number in it
        self._batches: dict[int, tuple[SharedRows, int]] = {}
        #: how many lines of code there were when the order checker was told last
        self._told: dict[SharedRows, int] = {}
        self._count = 0

    def load(self, k: int, form: Load) -> bool:
        """Write the code of a load; False where the closure is needed."""
        kind, memory, registers = registers_kind(self.registers, k), self.target.memory, self.registers
        if k in self._fetched:
            self._when_due(k)
            self._define(form, kind, self._fetched[k])
            return True
        if kind is None or kind.fmt is None or form.space not in ("global", "shared"):
            return False
        address = self._address(form.place, 64 if form.space == "global" else 32)
        if address is None:
            return False
        if kind.shape is Shape.TERMS and address.kind.column and self._together(k, form, kind):
            return True
        if len(form.dsts) > 1:
            return False
        if form.space == "shared":
            if not fits_a_cell(memory, kind.fmt, form.bits):
                return False
            load = shared_loader(memory, kind.fmt, self.block.start + k)
        else:
            tensor = self._tensor(k, form)
            if tensor is None:
                return False
            if address.kind is INT:
                self._uniform(k, form, tensor)
                return True
            load = input_loader(tensor)
        registers.settle()
        registers.lines.append(f"v = {registers.name(load)}(g, {address.text})")
        registers.leave_if("v is None", k)
        registers.define(form.dsts[0], Kind(Shape.TERMS if address.kind.column else Shape.TERM, fmt=kind.fmt), "v")
        return True

    def _when_due(self, k: int) -> None:
        """Where code may have given way to closures before a load that was made already, the order checker hears of it now, and of those
        that follow."""
        rows, number = self._batches.get(k, (None, 0))
        if rows is None or not any("return" in line for line in self.registers.lines[self._told[rows] :]):
            return
        self.registers.lines.append(f"{self.registers.name(rows.tell)}(g, {len(rows.cuts)})")
        rows.cuts.append(number)
        self._told[rows] = len(self.registers.lines)

    def _define(self, form: Load, kind: Kind | None, names: list[str]) -> None:
        assert kind is not None
        for slot, name in zip(form.dsts, names):
            self.registers.define(slot, Kind(Shape.TERMS, fmt=kind.fmt), name)

    def _together(self, k: int, form: Load, kind: Kind) -> bool:
        """Load what this step and later ones read around one base register; False where that is one element, or does not fit.

        Nothing that a later load reads may be written in between: batches of shared memory end at stores and closures, those of
        inputs need not.
        """
        base, fmt = form.place.base, kind.fmt
        assert base is not None and fmt is not None
        tensor = self._tensor(k, form) if form.space == "global" else None
        if tensor is None and form.space == "global":
            return False
        steps = self._later(k, form, kind, tensor)
        accesses = [Access(self.block.start + j, f.place.offset, len(f.dsts)) for j, f in steps]
        if sum(a.count for a in accesses) < 2:
            return False
        load = self._rows(fmt, form.bits, tensor, accesses)
        if load is None:
            return False
        registers, base_text = self.registers, self.registers.operand(base)
        assert base_text is not None
        registers.settle()
        registers.lines.append(f"v = {registers.name(load)}(g, {base_text.text})")
        registers.leave_if("v is None", k)
        for j, f in steps:
            self._fetched[j] = [f"l{j}_{i}" for i in range(len(f.dsts))]
        registers.lines.append(", ".join(name for j, _ in steps for name in self._fetched[j]) + " = v")
        if isinstance(load, SharedRows):
            self._batches.update((j, (load, number)) for number, (j, _) in enumerate(steps))
            self._told[load] = len(registers.lines)
        self._define(form, kind, self._fetched[k])
        return True

    def _rows(self, fmt: Fmt, bits: int, tensor: TensorMemory | None, accesses: list[Access]) -> RowLoader | None:
        """What loads a batch from an input, or else from shared memory; None where it cannot all lie there."""
        memory = self.target.memory
        low, end = min(a.offset for a in accesses), max(a.offset + bits // 8 * a.count for a in accesses)
        if tensor is not None:
            return input_rows(tensor, accesses) if end - low <= tensor.stop - tensor.first else None
        fits = fits_a_cell(memory, fmt, bits) and end - low <= memory.shared_bytes
        return SharedRows(memory, fmt, accesses) if fits else None

    def _later(self, k: int, form: Load, kind: Kind, tensor: TensorMemory | None) -> list[tuple[int, Load]]:
        """This load, and those of the same kind through the same register until that changes or what they read may."""
        found, elements = [(k, form)], len(form.dsts)
        for j in range(k + 1, len(self.block.forms)):
            if form.place.base in self.program.uses[self.block.start + j - 1].writes:
                break
            other = self.block.forms[j]
            if form.space == "shared" and (other is None or isinstance(other, Store)):
                break
            if not isinstance(other, Load) or (other.place.base, other.space, other.bits) != (form.place.base, form.space, form.bits):
                continue
            apart = (other.place.offset - form.place.offset) % (form.bits // 8 * len(other.dsts))
            if apart or registers_kind(self.registers, j) != kind or (form.space == "global" and self._tensor(j, other) is not tensor):
                continue
            elements += len(other.dsts)
            if elements > MOST_TOGETHER:
                break
            found.append((j, other))
        return found

    def store(self, k: int, form: Store) -> bool:
        """Write the code of a store; False where the closure is needed."""
        registers, memory = self.registers, self.target.memory
        if not self.target.symbolic or form.space != "shared":
            return False
        source = registers.operand(form.source)
        if source is None or source.kind.fmt is None or not fits_a_cell(memory, source.kind.fmt, form.bits):
            return False
        address = self._address(form.place, 32)
        if address is None or address.kind is INT:
            return False
        store = shared_storer(memory, source.kind.fmt, self.block.start + k)
        registers.settle()
        registers.leave_if(f"not {registers.name(store)}(g, {address.text}, {source.text})", k)
        return True

    def _address(self, place: Place, bits: int) -> Operand | None:
        if place.base is None:
            return Operand(str(place.offset), INT, place.offset) if place.offset >= 0 else None
        base = self.registers.operand(place.base)
        if base is None or not (base.kind is INT or base.kind is COLUMNS[bits]):
            return None
        if base.literal is None and self.target.widths[place.base] != bits:
            return None
        if place.offset == 0:
            return base
        return Operand(f"{base.text} {'+' if place.offset > 0 else '-'} {abs(place.offset)}", base.kind)

    def _tensor(self, k: int, form: Load) -> TensorMemory | None:
        """The input that a load has read."""
        seen = self.registers.recorded.addresses[k]
        return None if seen is None else input_at(self.target.memory, seen, form.bits)

    def _uniform(self, k: int, form: Load, tensor: TensorMemory) -> None:
        """One element of an input for all threads. What a block reads around one base is checked at once, at the first of its loads."""
        base, offset = form.place.base, form.place.offset
        entry = tensor.buffer.input
        assert entry is not None
        size = tensor.element_bytes
        if base is None:
            held = _Checked(0, tensor, "", frozenset())
        else:
            write = self.registers.writes.get(base, 0)
            found = self._checked.get(base)
            if found is None or (found.write, found.tensor) != (write, tensor) or offset not in found.offsets:
                found = self._checked[base] = _Checked(write, tensor, f"w{self._count}", self._offsets(k, base, tensor))
                self._count += 1
                self._check(k, form, found)
            held = found
        term = Kind(Shape.TERM, fmt=tensor.fmt)
        if base is None:
            self.registers.define(form.dsts[0], term, str(-1 - entry.base - (offset - tensor.first) // size))
            return
        self.registers.define(form.dsts[0], term, f"{-1 - entry.base - offset // size} - {held.local}")

    def _offsets(self, k: int, base: int, tensor: TensorMemory) -> frozenset[int]:
        """Offsets of the loads from step ``k`` on that read the tensor through the register before it changes."""
        size = tensor.element_bytes
        first = self.block.forms[k]
        assert isinstance(first, Load)
        offsets = {first.place.offset}
        for j in range(k, len(self.block.forms)):
            form = self.block.forms[j]
            if isinstance(form, Load) and form.place.base == base and form.bits == first.bits and form.space == "global":
                if form.place.offset % size == first.place.offset % size and self._tensor(j, form) is tensor:
                    offsets.add(form.place.offset)
            if base in self.program.uses[self.block.start + j].writes:
                break
        return frozenset(offsets)

    def _check(self, k: int, form: Load, checked: _Checked) -> None:
        """All the offsets lie in the tensor."""
        registers, tensor = self.registers, checked.tensor
        base = registers.operand(form.place.base) if form.place.base is not None else None
        assert base is not None
        size, rest = tensor.element_bytes, form.place.offset % tensor.element_bytes
        low, high = min(checked.offsets), max(checked.offsets)
        registers.settle()
        registers.lines.append(f"{checked.local} = {base.text} - {tensor.first - rest}")
        inside = f"{low - rest} + {checked.local} < 0 or {checked.local} + {high - rest} >= {tensor.stop - tensor.first}"
        registers.leave_if(inside + (f" or {checked.local} & {size - 1}" if size > 1 else ""), k)
        registers.lines.append(f"{checked.local} >>= {size.bit_length() - 1}")


def registers_kind(registers: Registers, k: int) -> Kind | None:
    """The kind of what a load gave, over the reals."""
    return registers.recorded.loaded[k] if registers.target.symbolic else None
