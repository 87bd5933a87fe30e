"""What a block's registers held in one run of it by closures: what its fused code then expects."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ptx_engine.isa.group import Group
from ptx_engine.isa.simple import Floats, Load, sources_of, targets_of
from ptx_engine.isa.values import Value
from ptx_engine.machine.findings_log import FindingLog
from ptx_engine.machine.fused_kinds import Kind, Shape, kind_of
from ptx_engine.machine.memory import Memory
from ptx_engine.machine.order_port import OrderPort
from ptx_engine.terms import Arena

if TYPE_CHECKING:
    from ptx_engine.machine.program import Block, Program


class Counter(Protocol):
    """Who counts thread-instructions."""

    executed: int


@dataclass(frozen=True)
class Target:
    """What fused code works on; ``symbolic`` is False for IEEE bits."""

    arena: Arena
    memory: Memory
    log: FindingLog
    order: OrderPort
    counter: Counter
    template: list[Value]
    widths: list[int]
    symbolic: bool


@dataclass
class Recorded:
    """Kinds of the registers that simple instructions read or write: before the block, and after each step those that it wrote; what each
    load gave, and an address that it read."""

    before: dict[int, Kind] = field(default_factory=dict)
    after: list[dict[int, Kind]] = field(default_factory=list)
    loaded: list[Kind | None] = field(default_factory=list)
    addresses: list[int | None] = field(default_factory=list)


def record(g: Group, block: "Block", program: "Program", arena: Arena) -> Recorded:
    """Run the steps of a block and note what they read and wrote."""
    wanted, numbers = _wanted(block), _float_operands(block)
    found = Recorded(_kinds(g, wanted, numbers))
    for k, (origin, step) in enumerate(block.steps):
        form = block.forms[k]
        found.addresses.append(_address(g, form) if isinstance(form, Load) else None)
        arena.origin = origin
        step(g)
        found.after.append(_kinds(g, wanted & program.uses[block.start + k].writes, numbers))
        found.loaded.append(_one_kind(g, form.dsts) if isinstance(form, Load) else None)
    return found


def _one_kind(g: Group, slots: tuple[int, ...]) -> Kind | None:
    """The kind of all registers of a vector, None where they differ or have none."""
    kinds = {kind_of(g.R[slot]) for slot in slots}
    return kinds.pop() if len(kinds) == 1 else None


def _wanted(block: "Block") -> set[int]:
    slots = {slot for form in block.forms if form is not None for slot in sources_of(form)}
    slots |= {slot for form in block.forms if form is not None for slot in targets_of(form)}
    return slots | {slot for slot, _ in block.carried} | ({block.end.predicate} if block.end.predicate is not None else set())


def _float_operands(block: "Block") -> set[int]:
    """Registers that only float instructions read: plain bits in them are a constant, such as the 0 that a sum starts with."""
    slots: dict[bool, set[int]] = {True: set(), False: {slot for slot, _ in block.carried}}
    for form in block.forms:
        if form is not None:
            slots[isinstance(form, Floats)].update(sources_of(form))
    return slots[True] - slots[False]


def _kinds(g: Group, slots: set[int], numbers: set[int]) -> dict[int, Kind]:
    kinds: dict[int, Kind] = {}
    for slot in slots:
        value = g.R[slot]
        kind = Kind(Shape.INT, value=value) if slot in numbers and value.__class__ is int else kind_of(value)
        if kind is not None:
            kinds[slot] = kind
    return kinds


def _address(g: Group, form: Load) -> int | None:
    place = form.place
    base: Value = 0 if place.base is None else g.R[place.base]
    if isinstance(base, np.ndarray):
        return int(base[0]) + place.offset
    return base + place.offset if isinstance(base, int) else None
