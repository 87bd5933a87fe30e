"""Decoding: a static instruction becomes a closure over register numbers; no modifier is looked at while running.

Immediates live in the register file after the registers, so that every source operand is one list index.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ptx_engine.errors import NotStructuredError, ParseError, UnsupportedError
from ptx_engine.isa.algebra import Algebra
from ptx_engine.isa.group import Group
from ptx_engine.isa.literals import float_literal
from ptx_engine.isa.operand_types import check_operands, exact_width, fits
from ptx_engine.isa.registry import find
from ptx_engine.isa.result_widths import result_bits
from ptx_engine.isa.simple import Place, Simple
from ptx_engine.isa.values import PARTLY, Sym, Value, is_partial, uninitialised
from ptx_engine.syntax.ast import FloatLit, Instruction, IntLit, Mem, Name, NameOffset, Not, Operand, Pair, Reg, Vec
from ptx_engine.terms import Arena

if TYPE_CHECKING:
    from ptx_engine.isa.atomic import AtomicOp
    from ptx_engine.isa.mbarrier import MbarrierOps

Step = Callable[[Group], None]
Address = Callable[[list[Value]], "int | np.ndarray"]

#: type suffix -> width in bits
TYPE_BITS = {
    "pred": 1, "b8": 8, "u8": 8, "s8": 8, "b16": 16, "u16": 16, "s16": 16, "f16": 16, "bf16": 16, "b32": 32, "u32": 32, "s32": 32,
    "f32": 32, "f16x2": 32, "bf16x2": 32, "tf32": 32, "b64": 64, "u64": 64, "s64": 64, "f64": 64, "f32x2": 64, "b128": 128,
    "e4m3x2": 16, "e5m2x2": 16, "e4m3x4": 32, "e5m2x4": 32, "e4m3": 8, "e5m2": 8, "u16x2": 32, "s16x2": 32,
}  # fmt: skip


#: special registers whose components 16-bit mov and cvt may read, too: their low bits
_COMPONENTS = frozenset({"%tid", "%ntid", "%ctaid", "%nctaid"})


@dataclass(frozen=True, slots=True)
class Strength:
    """How strong a load or store is: memory order and scope by their PTX names; whether anyone reads a loaded value, and whether
    control depends on it; whether it is strong by being volatile only."""

    sem: str
    scope: str
    wanted: bool
    decides: bool
    volatile: bool


#: instructions whose generic addresses lie in shared memory
_SHARED_ONLY = frozenset({"mbarrier", "ldmatrix", "stmatrix", "cp"})


class MemoryOps(Protocol):
    """What specs of memory instructions call; implemented by the machine."""

    def load(self, g: Group, space: str, address: "int | np.ndarray", widths: tuple[int, ...], instruction: int) -> list[Value]: ...

    def load_noncoherent(
        self, g: Group, space: str, address: "int | np.ndarray", widths: tuple[int, ...], instruction: int
    ) -> list[Value]: ...

    def store(
        self, g: Group, space: str, address: "int | np.ndarray", values: list[Value], widths: tuple[int, ...], instruction: int
    ) -> None: ...

    def strong_load(
        self, g: Group, space: str, address: "int | np.ndarray", widths: tuple[int, ...], instruction: int, how: Strength
    ) -> list[Value]: ...

    def strong_store(
        self,
        g: Group,
        space: str,
        address: "int | np.ndarray",
        values: list[Value],
        widths: tuple[int, ...],
        instruction: int,
        how: Strength,
    ) -> None: ...

    def load_rows(self, g: Group, address: np.ndarray, instruction: int) -> tuple[np.ndarray, np.ndarray]: ...

    def registers(self, ids: np.ndarray, tags: np.ndarray, picks: np.ndarray, what: str) -> list[Value]: ...

    def async_copy(
        self, g: Group, shared: "int | np.ndarray", source: "int | np.ndarray", size: int, source_size: Value, instruction: int
    ) -> None: ...

    def atomic(
        self, g: Group, space: str, address: "int | np.ndarray", op: "AtomicOp", operands: list[Value], instruction: int
    ) -> Value: ...


class OrderEvents(Protocol):
    """What specs tell the order checker; implemented by ``order.OrderChecker`` and by a null object. ``exchanging``: whether it wants to
    hear of exchanges of values."""

    exchanging: bool

    def commit_group(self, instruction: int, threads: np.ndarray) -> None: ...

    def wait_group(self, instruction: int, threads: np.ndarray, pending: int) -> None: ...

    def wait_all(self, instruction: int, threads: np.ndarray) -> None: ...

    def warp_barrier(self, instruction: int, threads: np.ndarray) -> None: ...

    def exchange(self, instruction: int, threads: np.ndarray, groups: np.ndarray) -> None: ...

    def fence(self, instruction: int, threads: np.ndarray, scope: str, total: bool) -> None: ...


class Environment(Protocol):
    """What a spec may use while decoding; its attributes are bound into the closures."""

    arena: Arena
    algebra: Algebra

    @property
    def memory(self) -> MemoryOps: ...

    @property
    def order(self) -> OrderEvents: ...

    @property
    def mbarriers(self) -> "MbarrierOps": ...

    def register(self, name: str) -> int: ...

    def register_type(self, name: str) -> str: ...

    def immediate(self, value: "int | bool") -> int: ...

    def sink(self) -> int: ...

    def carry(self) -> int: ...

    def is_read(self, slot: int) -> bool: ...

    def decides(self, slot: int) -> bool: ...

    def special_register(self, name: str) -> int: ...

    def symbol_address(self, name: str) -> int: ...

    def symbol_space(self, name: str) -> str: ...

    def is_symbol(self, name: str) -> bool: ...

    def finding(self, kind: str, message: str, g: Group, lanes: np.ndarray, instruction: int) -> None: ...

    def schedule_dependent(self, reason: str, instruction: int) -> None: ...

    def lanes_gone(self) -> np.ndarray: ...

    @property
    def exchanged(self) -> Callable[[int, np.ndarray, np.ndarray], None]: ...


class Decode:
    """One instruction while its spec looks at it: modifiers by slot, operands as register-file indices."""

    def __init__(self, env: Environment, instruction: Instruction, pc: int, mods: dict[str, str]) -> None:
        self.env = env
        self.ins = instruction
        self.name = instruction.mnemonic
        self.pc = pc
        self.mods = mods
        self.arena = env.arena
        self.algebra = env.algebra
        #: set by a spec whose instruction is one of the simple ones
        self.simple: Simple | None = None
        self.check_result()
        guard = instruction.predicate
        if guard is not None and env.register_type(guard.name) != "pred":
            raise ParseError(f"the guard {guard.name} of {self.ins.mnemonic} is no predicate", span=self.ins.span)
        check_operands(self.ins, self.mods, env.register_type)

    def mod(self, slot: str) -> str | None:
        """The modifier in a slot, None if absent."""
        return self.mods.get(slot)

    def has(self, slot: str) -> bool:
        return slot in self.mods

    @property
    def bits(self) -> int:
        """The width of the ``type`` slot."""
        return TYPE_BITS[self.mods["type"]]

    @property
    def signed(self) -> bool:
        return self.mods["type"].startswith("s")

    def operand(self, i: int) -> Operand:
        """Operand ``i``. Raises ParseError if the instruction has too few."""
        try:
            return self.ins.operands[i]
        except IndexError:
            raise ParseError(f"{self.ins.mnemonic} needs at least {i + 1} operands", span=self.ins.span) from None

    @property
    def count(self) -> int:
        return len(self.ins.operands)

    def expect(self, *counts: int) -> None:
        """Check the number of operands."""
        if self.count not in counts:
            raise ParseError(f"{self.ins.mnemonic} takes {' or '.join(map(str, counts))} operands, not {self.count}", span=self.ins.span)

    def dst(self, i: int = 0) -> int:
        """The register number of a destination (``_`` gives a scratch slot)."""
        return self.dst_of(self.operand(i))

    def dst_of(self, operand: Operand) -> int:
        if isinstance(operand, Reg):
            return self.env.register(operand.name)
        if isinstance(operand, Name) and operand.name == "_":
            return self.env.sink()
        raise ParseError(f"{self.ins.mnemonic}: destination must be a register", span=self.ins.span)

    def src(self, i: int, bits: int = 0) -> int:
        """The register-file index of a source operand; literals are cut to ``bits`` (default: the type slot's width)."""
        return self.src_of(self.operand(i), bits or self.bits)

    def src_of(self, operand: Operand, bits: int) -> int:
        if isinstance(operand, Not):
            raise UnsupportedError(f"{self.ins.mnemonic} takes no negated predicate in the ISA's syntax", feature=self.ins.mnemonic)
        if isinstance(operand, Reg):
            self._check_width(operand, bits)
            return self.env.register(operand.name)
        if bits == 1 and not isinstance(operand, IntLit):
            raise ParseError(f"{self.ins.mnemonic}: a predicate is needed", span=self.ins.span)
        if isinstance(operand, IntLit):
            if bits == 1:
                return self.env.immediate(bool(operand.value))
            return self.env.immediate(operand.value & ((1 << bits) - 1))
        if isinstance(operand, FloatLit):
            return self.env.immediate(float_literal(operand, bits, self.ins))
        if isinstance(operand, Name):
            self._check_symbol(operand.name)
            if self.env.is_symbol(operand.name):
                return self.env.immediate(self._address_in(operand.name, 0, bits))
            wide = "64" in operand.name or operand.name in ("%globaltimer", "%gridid")
            legacy = bits == 16 and self.ins.opcode in ("mov", "cvt") and operand.name.split(".")[0] in _COMPONENTS
            if legacy:
                bits = 32
            if bits not in (32, 64) or ((bits == 64) != wide and operand.name != "%gridid"):
                raise ParseError(f"{self.ins.mnemonic}: {operand.name} is not of {bits} bits", span=self.ins.span)
            return self.env.special_register(operand.name)
        if isinstance(operand, NameOffset):
            self._check_symbol(operand.name)
            return self.env.immediate(self._address_in(operand.name, operand.offset, bits))
        raise UnsupportedError(f"{self.ins.mnemonic}: operand {type(operand).__name__} is not modelled here", feature=self.ins.mnemonic)

    def _check_symbol(self, name: str) -> None:
        """Raise ParseError where no mov or cvta reads a variable's address, no mov or conversion of an integer a special register."""
        kind, symbol = self.mods.get("type", ""), self.env.is_symbol(name)
        readers = ("mov", "cvta") if symbol else ("mov", "cvt")
        special = not symbol and self.ins.opcode == "cvt" and not (self.count == 2 and kind[0] in "us" and self.mods["to"][0] in "us")
        unread = self.ins.opcode not in readers or special or (symbol and self.has("to"))
        if unread and name != "WARP_SZ":
            raise ParseError(f"{self.ins.mnemonic}: {name} must be moved to a register first", span=self.ins.span)
        if kind[:1] in ("f", "p") and name != "_":
            raise ParseError(f"{self.ins.mnemonic}: {name} is no value of type .{kind}", span=self.ins.span)
        if self.ins.opcode == "cvta":
            self._check_space(name, self.mods["space"].partition("::")[0])

    def _address_in(self, name: str, offset: int, bits: int) -> int:
        """The address of a variable plus an offset, as a value of a width. Raises UnsupportedError where it does not fit."""
        address = self.env.symbol_address(name) + offset
        if address >> bits:
            space = self.env.symbol_space(name)
            what = f"{self.ins.mnemonic}: the address of {name} in .{space} does not fit {bits} bits"
            raise UnsupportedError(what, feature=f"{bits}-bit address in .{space}")
        return address

    def policy(self, i: int) -> None:
        """Operand ``i``, a cache policy: there with ``.L2::cache_hint`` only. It changes no value and is not read."""
        hinted = self.has("L2::cache_hint")
        self.expect(i + hinted)
        operand = self.operand(i) if hinted else IntLit(0)
        kind = self.env.register_type(operand.name) if isinstance(operand, Reg) else "b8"
        wide = TYPE_BITS[kind] == 64 and fits(kind, "u64")
        if not wide and not isinstance(operand, IntLit):
            raise ParseError(f"{self.ins.mnemonic}: a cache policy is a register of 64 bits", span=self.ins.span)

    def _check_width(self, operand: Reg, bits: int) -> None:
        """Raise ParseError for a source register of another width: 8 bits may stand for 16, and conversions and stores take wider ones."""
        kind = self.env.register_type(operand.name)
        held = TYPE_BITS[kind]
        extends = self.ins.opcode in ("cvt", "st") and not exact_width(self.mods)
        byte = held == 8 and bits == 16 and TYPE_BITS[self.mods["type"]] == 8
        if (held == 1) != (bits == 1) or not (held == bits or byte or (extends and bits < held <= 64)):
            what = "a predicate is" if bits == 1 else f"{bits} bits are"
            raise ParseError(f"{self.ins.mnemonic}: {operand.name} is of type .{kind} where {what} needed", span=self.ins.span)

    def check_result(self) -> None:
        """Raise ParseError for a first destination that does not have the width of the result."""
        bits = result_bits(self.ins.opcode, self.mods, TYPE_BITS)
        operand = self.ins.operands[0] if self.ins.operands else None
        operand = operand.first if isinstance(operand, Pair) else operand
        if bits is None or not isinstance(operand, Reg):
            return
        kind = self.env.register_type(operand.name)
        wider = self.ins.opcode == "cvt" and not exact_width(self.mods) and TYPE_BITS[kind] in (16, 32, 64)
        if TYPE_BITS[kind] != bits and not (wider and TYPE_BITS[kind] > bits):
            raise ParseError(f"{self.ins.mnemonic}: a result of {bits} bits in {operand.name} of type .{kind}", span=self.ins.span)

    def carry_in(self) -> int:
        """The slot of the condition code register CC.CF, read."""
        return self.env.carry()

    def carry_out(self) -> int:
        """The slot of CC.CF, written."""
        return self.env.carry()

    def literal(self, i: int) -> int:
        """An operand that must be an integer literal."""
        operand = self.operand(i)
        if not isinstance(operand, IntLit):
            raise ParseError(f"{self.ins.mnemonic}: operand {i + 1} must be an integer constant", span=self.ins.span)
        return operand.value

    def bit_count(self, i: int) -> int:
        """The index of a source that is a position or number of bits: a literal lies between 0 and 255."""
        operand = self.operand(i)
        if isinstance(operand, IntLit) and not 0 <= operand.value <= 255:
            raise ParseError(f"{self.ins.mnemonic}: {operand.value} does not lie between 0 and 255", span=self.ins.span)
        return self.src(i, 32)

    def predicate(self, i: int) -> tuple[int, bool]:
        """A predicate source: register-file index and whether it is negated."""
        operand = self.operand(i)
        if isinstance(operand, Not):
            return self.src_of(operand.operand, 1), True
        return self.src_of(operand, 1), False

    def elements(self, i: int) -> tuple[Operand, ...]:
        """A vector operand's elements; a single operand is a vector of one."""
        operand = self.operand(i)
        return operand.elements if isinstance(operand, Vec) else (operand,)

    def dsts(self, i: int = 0) -> list[int]:
        return [self.dst_of(e) for e in self.elements(i)]

    def srcs(self, i: int, bits: int) -> list[int]:
        return [self.src_of(e, bits) for e in self.elements(i)]

    def pair(self, i: int = 0) -> tuple[int, int | None]:
        """``d|p``: first and, if present, second destination."""
        operand = self.operand(i)
        if isinstance(operand, Pair):
            return self.dst_of(operand.first), self.dst_of(operand.second)
        return self.dst_of(operand), None

    def _check_space(self, name: str, space: str) -> None:
        """Raise ParseError for a variable of another state space than an instruction accesses (a generic address says nothing)."""
        held = self.env.symbol_space(name)
        if space and held and held != space:
            raise ParseError(f"{self.ins.mnemonic}: {name} lies in .{held}, not in .{space}", span=self.ins.span)
        if not space and held and (held != "global" or self.ins.opcode in _SHARED_ONLY):
            raise ParseError(f"{self.ins.mnemonic}: {name} lies in .{held}, reached by a generic access through cvta", span=self.ins.span)

    def place(self, i: int, space: str = "") -> Place:
        """A memory operand: base register and offset; ``space`` where no modifier of the instruction says it."""
        operand = self.operand(i)
        if not isinstance(operand, Mem):
            raise ParseError(f"{self.ins.mnemonic}: operand {i + 1} must be an address in brackets", span=self.ins.span)
        space = space or self.mods.get("space", "").split("::")[0]
        if isinstance(operand.base, Reg):
            kind = self.env.register_type(operand.base.name)
            if kind[0] not in "bus" or TYPE_BITS[kind] not in (32, 64) or (TYPE_BITS[kind] == 32 and space in ("", "global")):
                where = f" in .{space}" if space else " of a generic access"
                raise ParseError(f"{self.ins.mnemonic}: {operand.base.name} of type .{kind} is no address{where}", span=self.ins.span)
            return Place(self.env.register(operand.base.name), operand.offset)
        if isinstance(operand.base, IntLit):
            if space != "local":
                raise ParseError(f"{self.ins.mnemonic}: a number as an address: only .local has them", span=self.ins.span)
            return Place(None, operand.base.value + operand.offset)
        if isinstance(operand.base, Name):
            self._check_space(operand.base.name, space)
            return Place(None, self.env.symbol_address(operand.base.name) + operand.offset)
        raise ParseError(f"{self.ins.mnemonic}: address base must be a register, a variable or a number", span=self.ins.span)

    def checked_address(self, i: int) -> Address:
        """``address``, refused here where it is not concrete: for collectives, which rearrange addresses first."""
        address, what = self.address(i), self.ins.mnemonic
        return lambda R: concrete_address(address(R), what)

    def address(self, i: int, space: str = "") -> Address:
        """A memory operand as a function of the register file; ``space`` as in ``place``."""
        place = self.place(i, space)
        base, offset = place.base, place.offset
        if base is None:
            return lambda R: offset
        if offset == 0:
            return lambda R: R[base]  # type: ignore[return-value]
        back = -offset

        def moved(R: list[Value]) -> "int | np.ndarray":
            at = R[base]
            if at is None or at.__class__ is Sym:
                return at  # type: ignore[return-value]  # refused where it is used
            return at + offset if offset > 0 else at - back  # type: ignore[operator]

        return moved


def concrete_address(address: Value, what: str) -> "int | np.ndarray":
    """An address that is concrete in all lanes, or the refusal."""
    if isinstance(address, (int, np.ndarray)):
        return address
    if address is None:
        raise uninitialised(f"address of a {what}")
    if is_partial(address):
        raise uninitialised(f"address of a {what} {PARTLY}")
    raise NotStructuredError(
        f"the address of a {what} depends on symbolic data", feature=f"symbolic address of a {what}",
        hint="give what it comes from contents: an integer argument in the launch, a module variable in [globals]",
    )  # fmt: skip


def decode(env: Environment, instruction: Instruction, pc: int) -> Step:
    """The closure of one instruction, without its predicate. Raises UnsupportedError or ParseError."""
    form, mods = find(instruction)
    for slot in form.slots:
        if slot.ignored and slot.name in mods:
            env.arena.assumptions.setdefault(f"modifier ignored: .{mods[slot.name]} of {instruction.opcode}")
    return form.spec(Decode(env, instruction, pc, mods))
