"""Decode-time environment: register numbers, immediates, special registers, and where variables live."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptx_engine.errors import LaunchError, UnsupportedError
from ptx_engine.isa.algebra import Algebra
from ptx_engine.isa.decode import TYPE_BITS
from ptx_engine.isa.group import WARP, Group
from ptx_engine.isa.values import Sym, Value, dtype_fmt, int_fmt
from ptx_engine.launch import DTYPES, BoundLaunch, NullArg, ScalarArg, check_shared_bytes
from ptx_engine.machine.findings_log import FindingLog
from ptx_engine.machine.mbarriers import Mbarriers
from ptx_engine.machine.memory import Memory
from ptx_engine.machine.operand_names import source_name
from ptx_engine.machine.order_port import OrderPort, SpecEvents
from ptx_engine.machine.parameters import assigned
from ptx_engine.machine.warp_syncs import WarpSyncs
from ptx_engine.syntax.ast import FlatFunction, Module
from ptx_engine.terms import Arena
from ptx_engine.terms.float_formats import number_bits

_AXES = {"x": 0, "y": 1, "z": 2}


class MachineEnvironment:
    """Implements ``isa.decode.Environment`` for one launch of one function."""

    def __init__(
        self, module: Module, flat: FlatFunction, bound: BoundLaunch, memory: Memory, order: OrderPort, log: FindingLog, algebra: Algebra,
        variables: dict[str, int],
    ) -> None:  # fmt: skip
        self.arena: Arena = bound.arena
        self.algebra = algebra
        self.memory = memory
        self.order = SpecEvents(order)
        self.log = log
        self.launch = bound.launch
        self._numbers = {name: i for i, name in enumerate(flat.registers)}
        self._types = flat.registers
        self.template: list[Value] = [None] * len(self._numbers)
        self.widths: list[int] = [TYPE_BITS.get(t, 32) for t in flat.registers.values()]
        self._immediates: dict[tuple[type, int], int] = {}
        self.specials: dict[str, int] = {}
        self.warp_syncs = WarpSyncs(0, bound.launch.threads)
        self.mbarriers = Mbarriers(0, memory)
        #: told which lanes read from which in a shuffle: (instruction, source lanes, lanes)
        self.exchanged: Callable[[int, np.ndarray, np.ndarray], None] = lambda instruction, source, lane: None
        self.read_slots: set[int] = set()
        self.control_slots: set[int] = set()
        self._carry: int | None = None
        self._symbols = layout_variables(module, flat, bound, memory)
        self._symbols.update(variables)
        self._spaces = {v.name: v.space for v in (*module.variables, *flat.variables)}
        self._spaces.update({p.name: "param" for p in flat.function.params if p.name not in self._spaces})
        self.module = module
        self._functions = frozenset(f.name for f in module.functions)

    def register(self, name: str) -> int:
        return self._numbers[name]

    def register_type(self, name: str) -> str:
        return self._types[name]

    def _slot(self, value: Value, width: int) -> int:
        self.template.append(value)
        self.widths.append(width)
        return len(self.template) - 1

    def immediate(self, value: "int | bool") -> int:
        key = (type(value), int(value))
        if key not in self._immediates:
            self._immediates[key] = self._slot(value, 1 if isinstance(value, bool) else 64)
        return self._immediates[key]

    def sink(self) -> int:
        """A slot that is written and never read (the destination ``_``)."""
        return self._slot(None, 64)

    def carry(self) -> int:
        """The slot of the condition code register CC.CF."""
        if self._carry is None:
            self._carry = self._slot(None, 1)
        return self._carry

    def is_read(self, slot: int) -> bool:
        """Whether any instruction reads a register (known once all are decoded)."""
        return slot in self.read_slots

    def decides(self, slot: int) -> bool:
        """Whether control depends on a register (known once all are decoded)."""
        return slot in self.control_slots

    def special_register(self, name: str) -> int:
        """The slot of a special register; its value is set when a group is made. Unknown ones are refused by name."""
        if name not in self.specials:
            fixed = self._fixed_special(name)
            slot = self._slot(fixed, 64 if name.endswith("64") else 32)
            self.specials[name] = slot
        return self.specials[name]

    def _fixed_special(self, name: str) -> Value:
        if name == "WARP_SZ":
            return WARP
        base, _, axis = name.partition(".")
        if axis == "w" and base in ("%tid", "%ntid", "%ctaid", "%nctaid"):
            return 0  # the fourth element is unused and always zero
        if base == "%ntid" and axis in _AXES:
            return self.launch.block[_AXES[axis]]
        if base == "%nctaid" and axis in _AXES:
            return self.launch.grid[_AXES[axis]]
        if base == "%nwarpid" and not axis:
            return (self.launch.threads + WARP - 1) // WARP
        if name in ("%dynamic_smem_size", "%total_smem_size"):
            return self.launch.dynamic_shared_bytes if name[1] == "d" else self.memory.shared_bytes
        if name in ("%tid.x", "%tid.y", "%tid.z", "%ctaid.x", "%ctaid.y", "%ctaid.z", "%laneid", "%warpid", *_LANEMASKS):
            return None
        raise UnsupportedError(f"special register {name} is not modelled", feature=name)

    def symbol_address(self, name: str) -> int:
        """The address of a variable or parameter in its state space. Raises UnsupportedError for a symbol that has none here."""
        found = self._symbols.get(name)
        if found is None:
            what = "a function" if name in self._functions else "a symbol that is no variable here"
            raise UnsupportedError(f"the address of {name}, {what}", feature=f"address of {name}")
        return found

    def symbol_space(self, name: str) -> str:
        """The state space that a variable or parameter was declared in; empty for a symbol that is neither."""
        return self._spaces.get(name, "")

    def is_symbol(self, name: str) -> bool:
        return name in self._symbols or name in self._functions

    def finding(self, kind: str, message: str, g: Group, lanes: np.ndarray, instruction: int) -> None:
        self.log.add(kind, message, g, lanes, instruction)

    def schedule_dependent(self, reason: str, instruction: int) -> None:
        """Note that a value differs between schedules that are free of races."""
        self.log.schedule_dependent(reason, instruction)

    def lanes_gone(self) -> np.ndarray:
        """The lanes that do not run any more, as a mask for each warp of the batch (numbered as ``Group.lane_and_warp`` does)."""
        return self.warp_syncs.gone()

    def new_group(self, ctas: np.ndarray) -> Group:
        """All threads of a batch of CTAs (linear numbers) at pc 0, with special registers set."""
        block, threads = self.launch.block, self.launch.threads
        tid = np.arange(threads, dtype=np.uint32)
        R = list(self.template)
        for name, slot in self.specials.items():
            if R[slot] is None:
                R[slot] = self._column(name, tid, ctas, block, threads)
        return Group(R, np.arange(len(ctas) * threads, dtype=np.int32), threads, 0)

    def _column(self, name: str, tid: np.ndarray, ctas: np.ndarray, block: tuple[int, int, int], threads: int) -> Value:
        base, _, axis = name.partition(".")
        if base == "%ctaid":
            gx, gy, _ = self.launch.grid
            number = (ctas % gx, ctas // gx % gy, ctas // (gx * gy))[_AXES[axis]].astype(np.uint32)
            return int(number[0]) if (number == number[0]).all() else np.repeat(number, threads)
        per_thread = {
            "%tid.x": tid % block[0], "%tid.y": tid // block[0] % block[1], "%tid.z": tid // (block[0] * block[1]),
            "%laneid": tid % WARP, "%warpid": tid // WARP,
        }  # fmt: skip
        column = per_thread[name] if name in per_thread else _lanemask(name, tid % WARP)
        if (column == column[0]).all():
            return int(column[0])
        return np.tile(column.astype(np.uint32), len(ctas))


_LANEMASKS = ("%lanemask_eq", "%lanemask_lt", "%lanemask_le", "%lanemask_gt", "%lanemask_ge")


def _lanemask(name: str, lane: np.ndarray) -> np.ndarray:
    one = np.uint64(1) << lane.astype(np.uint64)
    full = np.uint64(0xFFFFFFFF)
    table = {
        "eq": one,
        "lt": one - np.uint64(1),
        "le": 2 * one - np.uint64(1),
        "gt": full & ~(2 * one - np.uint64(1)),
        "ge": full & ~(one - np.uint64(1)),
    }
    return (table[name[-2:]] & full).astype(np.uint32)


def _align(offset: int, to: int) -> int:
    return (offset + to - 1) // to * to


def shared_layout(module: Module, flat: FlatFunction, dynamic_bytes: int) -> tuple[dict[str, int], int]:
    """Offsets of shared variables in the CTA's window, and the window's size: static ones first, extern arrays after them.

    Raises LaunchError for a size that no GPU has.
    """
    offsets: dict[str, int] = {}
    used = 0
    variables = [v for v in (*module.variables, *flat.variables) if v.space == "shared"]
    for v in variables:
        if v.linkage != "extern":
            used = _align(used, max(v.align, 1))
            offsets[v.name] = used
            used += v.size
    dynamic = [v for v in variables if v.linkage == "extern"]
    start = _align(used, max([16, *(v.align for v in dynamic)])) if dynamic else used
    for v in dynamic:
        offsets[v.name] = start
    size = start + dynamic_bytes if dynamic or dynamic_bytes else used
    check_shared_bytes(size, "of shared memory in a CTA")
    return offsets, size


#: local memory of a thread on every GPU
MAX_LOCAL_BYTES = 512 * 1024


def local_layout(flat: FlatFunction) -> tuple[dict[str, int], int]:
    """Offsets of local variables in a thread's window. Raises LaunchError for a size that no GPU has."""
    offsets: dict[str, int] = {}
    used = 0
    for v in flat.variables:
        if v.space == "local":
            used = _align(used, max(v.align, 1))
            offsets[v.name] = used
            used += v.size
    if used > MAX_LOCAL_BYTES:
        raise LaunchError(f"{used} bytes of local memory in a thread", hint=f"{MAX_LOCAL_BYTES} at most")
    return offsets, used


def layout_variables(module: Module, flat: FlatFunction, bound: BoundLaunch, memory: Memory) -> dict[str, int]:
    """Addresses of every variable and parameter; parameter values go into ``memory.params``."""
    symbols, _ = shared_layout(module, flat, bound.launch.dynamic_shared_bytes)
    local, _ = local_layout(flat)
    sizes = {v.name: v.size for v in (*module.variables, *flat.variables)}
    for space, offsets in (("shared", symbols), ("local", local)):
        memory.places[space] = sorted(
            (offset, sizes[name] or memory.shared_bytes - offset, source_name(name))
            for name, offset in offsets.items()  # dynamic: the rest
        )
    symbols.update(local)
    offset = 0
    params = flat.function.params
    try:
        taken = assigned(flat.function.name, params, bound.launch.args)
    except LaunchError as error:
        error.span = flat.function.span
        raise
    for param, fields in zip(params, taken):
        offset = _align(offset, max(param.align, param.size if param.size in (1, 2, 4, 8) else 1))
        symbols[param.name] = offset
        for arg, place, size in fields:
            memory.params[offset + place] = (size * 8, parameter_value(bound, param.name, param.type, size, arg))
        offset += param.size
    return symbols


def parameter_value(bound: BoundLaunch, param: str, type_: str, size: int, arg: object) -> Value:
    """What ``ld.param`` of a parameter gives. Raises LaunchError where the argument does not fit the declared width."""
    if isinstance(arg, NullArg):
        return 0
    if not isinstance(arg, ScalarArg):
        name = arg.name  # type: ignore[attr-defined]
        if size != 8:
            raise LaunchError(f"argument {name} is a tensor, but parameter {param} is {type_}", hint="check the order of the arguments")
        return bound.by_name[name].address
    nbytes, is_float = DTYPES[arg.dtype]
    if arg.name in bound.scalar_ids and isinstance(arg.value, str):
        ids = bound.scalar_ids[arg.name]
        fmt = dtype_fmt(arg.dtype)
        if fmt.kind == "int" and size * 8 > fmt.bits:
            fmt = int_fmt(size * 8, fmt.lo, fmt.hi)
        if fmt.bits != size * 8:
            raise LaunchError(f"argument {arg.name} is {arg.dtype}, but parameter {param} is {type_}")
        return Sym(((fmt, ids),))
    if is_float:
        if nbytes != size:
            raise LaunchError(f"argument {arg.name} is {arg.dtype}, but parameter {param} is {type_}", hint="give it the parameter's type")
        return number_bits(float(arg.value), arg.dtype)
    value = int(arg.value)
    if not -(1 << size * 8 - 1) <= value < 1 << size * 8:
        raise LaunchError(f"argument {arg.name} = {value} does not fit parameter {param} of type {type_}")
    return value & ((1 << size * 8) - 1)
