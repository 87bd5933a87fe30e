"""Global memory of the TTIR evaluator: loads give input ids or stored terms, stores go to an overlay per buffer.

Programs run as if alone: a load sees the inputs and the program's own stores. Reading what another program wrote, or two
programs writing different terms to one element, is a finding; so is any access out of bounds, which reads an undefined
value and writes nothing. Integers are kept as signed or unsigned numbers as the tensor's dtype says.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Union

import numpy as np

from ptx_engine.errors import UnsupportedError
from ptx_engine.findings import Severity
from ptx_engine.launch import BoundLaunch, Buffer, Footprint, Role
from ptx_engine.machine.contents import Contents
from ptx_engine.order.pages import Marks, scattered
from ptx_engine.terms.arena import UNDEF
from volta_pass.references.finding_log import FindingLog
from volta_pass.references.freedoms import Freedoms
from volta_pass.references.library import Library
from volta_pass.references.memory_format import from_memory, to_memory
from volta_pass.references.same_term import same_term
from volta_pass.references.ttir_types import TtirType
from volta_pass.references.ttir_values import Sym, Value, map_rows, rows, take_programs, unify

NOBODY, SEVERAL = -1, -2
#: the program of each lane; one int where a single program runs
Numbers = Union[int, np.ndarray]


@dataclass(frozen=True, slots=True)
class Part:
    """Lanes of an access that fall into one buffer: positions among the lanes (None: all) and storage indices."""

    buffer: Buffer
    lanes: np.ndarray | None
    index: np.ndarray


@dataclass(slots=True)
class Overlay:
    """What has been written to a buffer: ids, and by which atomic combination (0: a plain store)."""

    ids: np.ndarray
    atomic: np.ndarray
    written: Marks
    _writer: np.ndarray

    @classmethod
    def of(cls, count: int) -> "Overlay":
        """One without writes, which costs nothing however large the buffer is."""
        return cls(scattered(count, np.int32), scattered(count, np.uint8), Marks(count), scattered(count, np.int32))

    def writer(self, index: np.ndarray) -> np.ndarray:
        """The program that wrote each element (NOBODY: not written, SEVERAL: atomically by more)."""
        return np.where(self.written[index], self._writer[index], NOBODY)

    def write(self, index: np.ndarray, ids: np.ndarray, who: np.ndarray, atomic: int = 0) -> None:
        """Elements as a program left them."""
        self.ids[index] = ids
        self._writer[index] = who
        self.atomic[index] = atomic
        self.written.add(index)


class Memory:
    """All buffers of a launch, as one evaluation sees them."""

    def __init__(self, bound: BoundLaunch, log: FindingLog) -> None:
        self.bound = bound
        self.arena = bound.arena
        self.log = log
        #: code of functions that the compiler approximates
        self.library: Library | None = None
        #: what the program leaves open
        self.freedoms = Freedoms()
        self.overlays: dict[int, Overlay] = {}
        self._contents: dict[int, Contents] = {}
        self._starts = np.array([b.address for b in bound.buffers], np.int64)
        self._ends = np.array([b.address + b.bytes for b in bound.buffers], np.int64)

    # --- where lanes point ----------------------------------------------------------------------

    def locate(self, addresses: np.ndarray, width: int, role: str, numbers: Numbers) -> list[Part]:
        """Parts of a flat address column; lanes that hit nothing become findings and are in no part."""
        if addresses.size == 0:
            return []
        low, high = int(addresses.min()), int(addresses.max())
        buffer = self.bound.find(low)
        if buffer is not None and high + width <= buffer.address + buffer.bytes:
            part = self._part(buffer, None, addresses, width, role, numbers)
            return [part] if part is not None else []
        return self._scattered(addresses, width, role, numbers)

    def _scattered(self, addresses: np.ndarray, width: int, role: str, numbers: Numbers) -> list[Part]:
        which = np.searchsorted(self._starts, addresses, "right") - 1
        inside = which >= 0
        inside &= addresses + width <= np.where(inside, self._ends[which] if len(self._ends) else 0, 0)
        if not inside.all():
            self._outside(addresses, np.flatnonzero(~inside), width, role, numbers)
        parts = []
        for number in np.unique(which[inside]):
            lanes = np.flatnonzero(inside & (which == number))
            part = self._part(self.bound.buffers[int(number)], lanes, addresses[lanes], width, role, numbers)
            if part is not None:
                parts.append(part)
        return parts

    def _part(
        self, buffer: Buffer, lanes: np.ndarray | None, addresses: np.ndarray, width: int, role: str, numbers: Numbers
    ) -> Part | None:
        if buffer.arg.element_bytes != width:
            raise UnsupportedError(
                f"{role} of {8 * width}-bit elements from {buffer.arg.name}, whose elements are {buffer.arg.dtype}", feature="element width"
            )
        offset = addresses - buffer.address
        if width > 1:
            crooked = (offset & (width - 1)) != 0
            if crooked.any():
                self._misaligned(buffer, offset, np.flatnonzero(crooked), lanes, role, numbers)
                kept = np.flatnonzero(~crooked)
                lanes, offset = kept if lanes is None else lanes[kept], offset[kept]
            offset >>= width.bit_length() - 1
        return Part(buffer, lanes, offset)

    def _outside(self, addresses: np.ndarray, bad: np.ndarray, width: int, role: str, numbers: Numbers) -> None:
        address = int(addresses[bad[0]])
        buffer = self.bound.nearest(address)
        number = _number_at(numbers, int(bad[0]))
        if buffer is None:
            self.log.add("out of bounds", f"{role} at an address outside of every tensor", role, self.arena.origin, number, count=len(bad))
            return
        offset = address - buffer.address
        element = offset // width
        what = f"{buffer.arg.name}[{element}] (flat index), the tensor has {buffer.arg.storage} elements"
        self.log.add(
            "out of bounds", f"{role} of {what}", role, self.arena.origin, number, buffer=buffer, offset_bytes=offset, count=len(bad)
        )

    def _misaligned(
        self, buffer: Buffer, offset: np.ndarray, bad: np.ndarray, lanes: np.ndarray | None, role: str, numbers: Numbers
    ) -> None:
        lane = bad[0] if lanes is None else lanes[bad[0]]
        number = _number_at(numbers, int(lane))
        text = f"{role} of {buffer.arg.name} at byte {int(offset[bad[0]])}, no multiple of {buffer.arg.element_bytes}"
        self.log.add("misaligned", text, role, self.arena.origin, number, buffer=buffer, offset_bytes=int(offset[bad[0]]), count=len(bad))

    # --- loads ----------------------------------------------------------------------------------

    def load(self, addresses: np.ndarray, kind: TtirType, mask: np.ndarray | None, other: Value | None, numbers: np.ndarray) -> Value:
        """The value at byte addresses (programs, *tensor); lanes where ``mask`` is false give ``other``, or are undefined."""
        if mask is not None and mask.all():
            mask = None
        if addresses.shape[0] == 1 and len(numbers) > 1 and self.overlays:
            addresses = np.broadcast_to(addresses, (len(numbers), *addresses.shape[1:]))
        if mask is None:
            loaded = self._load_lanes(addresses.reshape(-1), kind, self._lane_numbers(addresses.shape, numbers, None))
            return _reshaped(loaded, addresses.shape)
        return self._load_masked(addresses, kind, mask, other, numbers)

    def _load_masked(self, addresses: np.ndarray, kind: TtirType, mask: np.ndarray, other: Value | None, numbers: np.ndarray) -> Value:
        if other is None:
            other = Sym(np.full((1,) * addresses.ndim, UNDEF, np.int32)) if kind.is_float else np.zeros((1,) * addresses.ndim, kind.dtype)
        shape = np.broadcast_shapes(addresses.shape, mask.shape, rows(other).shape)
        lanes = np.flatnonzero(np.broadcast_to(mask, shape))
        if not lanes.size:
            return other
        chosen = np.broadcast_to(addresses, shape).reshape(-1)[lanes]
        loaded = self._load_lanes(chosen, kind, self._lane_numbers(shape, numbers, lanes))
        arrays, remake = unify([loaded, other], kind, self.arena)
        result = np.broadcast_to(arrays[1], shape).astype(arrays[0].dtype)
        result.reshape(-1)[lanes] = arrays[0]
        return remake(result)

    @staticmethod
    def _lane_numbers(shape: tuple[int, ...], numbers: np.ndarray, lanes: np.ndarray | None) -> Numbers:
        """The program number of each lane; one int where there is one program."""
        if len(numbers) == 1 or shape[0] == 1:
            return int(numbers[0])
        whole = np.broadcast_to(numbers.reshape(-1, *(1,) * (len(shape) - 1)), shape).reshape(-1)
        return whole if lanes is None else whole[lanes]

    def _load_lanes(self, addresses: np.ndarray, kind: TtirType, numbers: Numbers) -> Value:
        parts = self.locate(addresses, kind.element_bytes, "load", numbers)
        if len(parts) == 1 and parts[0].lanes is None:
            return self._read(parts[0], kind, numbers)
        undefined: list[Value] = [Sym(np.full(addresses.size, UNDEF, np.int32))]
        if sum(part.index.size for part in parts) == addresses.size:
            undefined = []
        values = [self._read(part, kind, _numbers_at(numbers, part.lanes)) for part in parts]
        arrays, remake = unify(values + undefined, kind, self.arena)
        result = arrays[-1] if undefined else np.empty(addresses.size, arrays[0].dtype)
        for part, array in zip(parts, arrays):
            result[slice(None) if part.lanes is None else part.lanes] = array
        return remake(result)

    def _read(self, part: Part, kind: TtirType, numbers: Numbers) -> Value:
        """One buffer's elements: the program's own stores, else inputs or concrete contents."""
        buffer, index = part.buffer, part.index
        overlay = self.overlays.get(buffer.number)
        contents = buffer.arg.contents
        if overlay is None and not isinstance(contents, str) and not kind.is_float and not buffer.arg.is_float:
            return np.asarray(np.asarray(contents).reshape(-1)[index].astype(kind.dtype))
        ids = self._initial(buffer, index)
        if overlay is not None:
            ids = self._with_stores(overlay, buffer, index, ids, numbers)
        return from_memory(ids, kind, buffer.arg, self.arena)

    def _initial(self, buffer: Buffer, index: np.ndarray) -> np.ndarray:
        if buffer.input is not None:
            return np.asarray(buffer.input.ids(index))
        if isinstance(buffer.arg.contents, str):
            return np.full(index.shape, UNDEF, np.int32)
        if buffer.number not in self._contents:
            self._contents[buffer.number] = Contents(buffer.arg, self.arena)
        return self._contents[buffer.number].ids(index)

    def _with_stores(self, overlay: Overlay, buffer: Buffer, index: np.ndarray, initial: np.ndarray, numbers: Numbers) -> np.ndarray:
        writer = overlay.writer(index)
        ids = np.where(writer == NOBODY, initial, overlay.ids[index])
        foreign = (writer != NOBODY) & (writer != numbers)
        if foreign.any():
            bad = np.flatnonzero(foreign)
            lane = int(bad[0])
            other = self._who(int(writer[lane]))
            text = f"load of {buffer.arg.name}, an element that {other} writes: nothing orders the two programs"
            offset = int(index[lane]) * buffer.arg.element_bytes
            number = _number_at(numbers, lane)
            self.log.add(
                "race between programs", text, "load", self.arena.origin, number, buffer=buffer, offset_bytes=offset, count=len(bad)
            )
            ids[bad] = UNDEF
        return ids

    def _who(self, number: int) -> str:
        return "more than one program" if number == SEVERAL else f"program {self.log.program(number)}"

    # --- stores ---------------------------------------------------------------------------------

    def store(self, addresses: np.ndarray, value: Value, kind: TtirType, mask: np.ndarray | None, numbers: np.ndarray) -> None:
        """Write lanes where ``mask`` holds; all operands broadcast to (programs, *tensor)."""
        for part, chosen, who in self.targets(addresses, value, kind, mask, numbers, "store"):
            self._write(part, np.asarray(to_memory(chosen, kind, part.buffer.arg, self.arena)), who)

    def targets(
        self, addresses: np.ndarray, value: Value, kind: TtirType, mask: np.ndarray | None, numbers: np.ndarray, role: str
    ) -> "list[tuple[Part, Value, np.ndarray]]":
        """Per buffer: the lanes to write, the values there, and the program of each lane."""
        shape = np.broadcast_shapes(addresses.shape, rows(value).shape, (len(numbers), *(1,) * (addresses.ndim - 1)))
        if mask is not None:
            shape = np.broadcast_shapes(shape, mask.shape)
        lanes = None if mask is None or mask.all() else np.flatnonzero(np.broadcast_to(mask, shape))
        flat = _lanes_of(addresses, shape, lanes)
        who = _lanes_of(numbers.reshape(-1, *(1,) * (len(shape) - 1)), shape, lanes)
        result = []
        for part in self.locate(flat, kind.element_bytes, role, who):
            self._check_role(part, who, role)
            chosen = map_rows(value, partial(_lanes_of, shape=shape, lanes=lanes))
            if part.lanes is not None:
                chosen = take_programs(chosen, part.lanes) if len(flat) > 1 else chosen
            result.append((part, chosen, _picked(who, part.lanes)))
        return result

    def _check_role(self, part: Part, who: np.ndarray, role: str) -> None:
        if part.buffer.arg.role is Role.IN:
            first = int(part.index[0]) * part.buffer.arg.element_bytes
            text = f"{role} to {part.buffer.arg.name}, which the launch declares read-only"
            number = int(_picked(who, part.lanes)[0])
            self.log.add(
                "write to a read-only argument", text, role, self.arena.origin, number,
                buffer=part.buffer, offset_bytes=first, count=part.index.size,
            )  # fmt: skip

    def overlay(self, buffer: Buffer) -> Overlay:
        """The overlay of a buffer, made at its first write."""
        found = self.overlays.get(buffer.number)
        if found is None:
            found = self.overlays[buffer.number] = Overlay.of(buffer.arg.storage)
        return found

    def _write(self, part: Part, ids: np.ndarray, who: np.ndarray) -> None:
        overlay, index = self.overlay(part.buffer), part.index
        writer = overlay.writer(index)
        foreign = (writer != NOBODY) & (writer != who)
        foreign &= overlay.ids[index] != ids
        if foreign.any():
            self._conflict(part, overlay.ids[index], ids, who, np.flatnonzero(foreign), "programs", writer)
        overlay.write(index, ids, who)
        kept = overlay.ids[index]
        if (kept != ids).any():
            clash = np.flatnonzero(kept != ids)
            writer = overlay.writer(index)
            for scope, bad in (("programs", clash[writer[clash] != who[clash]]), ("lanes", clash[writer[clash] == who[clash]])):
                if bad.size:
                    self._conflict(part, kept, ids, who, bad, scope, writer)

    def _conflict(
        self, part: Part, first: np.ndarray, second: np.ndarray, who: np.ndarray, bad: np.ndarray, scope: str, writer: np.ndarray
    ) -> None:
        """Two writes of different ids to an element: an error unless the terms are built alike (checked for a sample)."""
        lane, severity = int(bad[0]), Severity.NOTE
        for candidate in bad[:: max(1, len(bad) // 16)][:17]:
            if same_term(self.arena, int(first[candidate]), int(second[candidate])) is False:
                lane, severity = int(candidate), Severity.ERROR
                break
        kind = f"write conflict between {scope}" if severity is Severity.ERROR else "same-value write"
        name = part.buffer.arg.name
        other = self._who(int(writer[lane])) if scope == "programs" else "another lane of the same tensor"
        text = f"store to {name}, an element that {other} writes too" + ("" if severity is Severity.NOTE else " with another value")
        offset = int(part.index[lane]) * part.buffer.arg.element_bytes
        self.log.add(
            kind,
            text,
            "store",
            self.arena.origin,
            int(who[lane]),
            buffer=part.buffer,
            offset_bytes=offset,
            severity=severity,
            count=len(bad),
        )

    def current(self, part: Part) -> np.ndarray:
        """The ids at a part's elements now, whoever wrote them (for atomics)."""
        overlay = self.overlay(part.buffer)
        return np.where(overlay.written[part.index], overlay.ids[part.index], self._initial(part.buffer, part.index)).astype(np.int32)

    def footprints(self) -> dict[str, Footprint]:
        """What was written, per tensor name."""
        result = {}
        for buffer in self.bound.buffers:
            overlay = self.overlays.get(buffer.number)
            if overlay is not None:
                index = overlay.written.where()
                result[buffer.arg.name] = Footprint(index, overlay.ids[index])
        return result


def _reshaped(value: Value, shape: tuple[int, ...]) -> Value:
    return map_rows(value, lambda x: x.reshape(shape))


def _lanes_of(array: np.ndarray, shape: tuple[int, ...], lanes: np.ndarray | None) -> np.ndarray:
    flat = np.broadcast_to(array, shape).reshape(-1)
    return flat if lanes is None else flat[lanes]


def _picked(array: np.ndarray, lanes: np.ndarray | None) -> np.ndarray:
    """Entries of a column at lanes; None means all."""
    return array if lanes is None else array[lanes]


def _numbers_at(numbers: Numbers, lanes: np.ndarray | None) -> Numbers:
    """Program numbers at lanes; one program stays one int."""
    return numbers if isinstance(numbers, int) or lanes is None else numbers[lanes]


def _number_at(numbers: Numbers, lane: int) -> int:
    return numbers if isinstance(numbers, int) else int(numbers[lane])
