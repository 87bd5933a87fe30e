"""What a kernel is launched with: grid, block, arguments; and where each argument lives in the address space.

Reference and candidate of one comparison share one ``BoundLaunch``, so that the same element has the same term id on
both sides. Tensors get disjoint address ranges with guard gaps; an access between them hits nothing.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Union

import numpy as np

from ptx_engine.errors import LaunchError
from ptx_engine.terms.arena import MAX_ID, Arena, Input
from ptx_engine.terms.float_formats import largest, rounded_number


class Role(Enum):
    """IN tensors are read-only, OUT start without contents, INOUT start with symbolic contents, AUX outputs are not compared."""

    IN = "in"
    OUT = "out"
    INOUT = "inout"
    AUX = "aux"


SYMBOLIC = "symbolic"

#: dtype name -> (bytes, is_float); names as in launch specs
DTYPES: dict[str, tuple[int, bool]] = {
    "f16": (2, True), "bf16": (2, True), "f32": (4, True), "tf32": (4, True), "f64": (8, True), "e4m3": (1, True), "e5m2": (1, True),
    "s8": (1, False), "u8": (1, False), "s16": (2, False), "u16": (2, False), "s32": (4, False), "u32": (4, False),
    "s64": (8, False), "u64": (8, False), "pred": (1, False),
}  # fmt: skip


@dataclass(frozen=True)
class TensorArg:
    """A pointer argument. ``strides`` in elements (row-major contiguous if None); ``contents`` is SYMBOLIC or a concrete
    array of storage length for integer tensors (or floats to be fixed). ``alias`` names another tensor argument whose
    storage this pointer shares (an in-place call), from its element ``offset_elements`` on. ``extra_elements`` are
    addressable after the last element of the view (a tensor that is a view into a larger allocation)."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    role: Role = Role.INOUT
    strides: tuple[int, ...] | None = None
    contents: "str | np.ndarray" = SYMBOLIC
    alias: str = ""
    extra_elements: int = 0
    offset_elements: int = 0

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise LaunchError(f"argument {self.name}: unknown dtype {self.dtype!r}", hint="one of " + ", ".join(DTYPES))
        if any(extent < 0 for extent in self.shape):
            raise LaunchError(f"argument {self.name}: negative extent in shape {self.shape}")
        if self.strides is not None and len(self.strides) != len(self.shape):
            raise LaunchError(f"argument {self.name}: {len(self.strides)} strides for {len(self.shape)} dimensions")
        if self.strides is not None and any(s < 0 for s in self.strides):
            raise LaunchError(f"argument {self.name}: negative stride in {self.strides}")
        if self.offset_elements < 0 or (self.offset_elements and not self.alias):
            raise LaunchError(f"argument {self.name}: an offset of {self.offset_elements} elements", hint="0, or more in an alias")

    @property
    def element_bytes(self) -> int:
        return DTYPES[self.dtype][0]

    @property
    def is_float(self) -> bool:
        return DTYPES[self.dtype][1]

    def element_strides(self) -> tuple[int, ...]:
        """Strides in elements."""
        if self.strides is not None:
            return self.strides
        strides, step = [], 1
        for extent in reversed(self.shape):
            strides.append(step)
            step *= extent
        return tuple(reversed(strides))

    @property
    def storage(self) -> int:
        """Elements from the first to the last one addressed."""
        if any(extent == 0 for extent in self.shape):
            return self.extra_elements
        return 1 + sum((extent - 1) * stride for extent, stride in zip(self.shape, self.element_strides())) + self.extra_elements

    def index_of(self, flat: int) -> tuple[int, ...]:
        """The multi-index of a storage index. An element outside of a strided view gets an index beyond the view's extents
        (column 96 of 96 columns), or ``(flat,)`` where no index reaches it."""
        for inside in (True, False):
            rest, found = flat, [0] * len(self.shape)
            for stride, d in sorted(((stride, d) for d, stride in enumerate(self.element_strides())), key=lambda row: -row[0]):
                if stride and (self.shape[d] > 1 or not inside):
                    found[d] = min(rest // stride, self.shape[d] - 1) if inside else rest // stride
                    rest -= found[d] * stride
            if rest == 0:
                return tuple(found)
        return (flat,)


@dataclass(frozen=True)
class ScalarArg:
    """A scalar argument: a number (integers as Python ints), or SYMBOLIC (an indeterminate; floats, or int data).

    The number is the one that its type has: a float rounded to the format, an integer of the other signedness as the same bits. So every
    side of a comparison reads the same. Raises LaunchError for one that does not fit."""

    name: str
    dtype: str
    value: "int | float | str" = SYMBOLIC

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise LaunchError(f"argument {self.name}: unknown dtype {self.dtype!r}", hint="one of " + ", ".join(DTYPES))
        object.__setattr__(self, "value", scalar_value(self.name, self.dtype, self.value))


def integer_range(dtype: str) -> tuple[int, int]:
    """Least and largest value of an integer format."""
    if dtype == "pred":
        return 0, 1
    bits = 8 * DTYPES[dtype][0]
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if dtype[0] == "s" else (0, (1 << bits) - 1)


def scalar_value(name: str, dtype: str, value: object) -> "int | float | str":
    """What a scalar of a type holds when it is given a number. Raises LaunchError where that is none of the type."""
    if isinstance(value, str) and value == SYMBOLIC:
        return SYMBOLIC
    if isinstance(value, (bool, np.bool_, np.integer)):
        value = int(value)
    is_float = DTYPES[dtype][1]
    if is_float and isinstance(value, (int, float, np.floating)):
        try:
            number = rounded_number(value if isinstance(value, int) else float(value), dtype)
        except OverflowError:
            most = largest(dtype)
            hint = f"{-most!r} to {most!r}" + (", inf or -inf" if dtype != "e4m3" else "") + ", or a wider dtype"
            raise LaunchError(f"argument {name}: {shown_number(value)} is no {dtype}", hint=hint) from None
        return math.nan if math.isnan(number) else number  # the one object, so that equal arguments compare equal
    if is_float or not isinstance(value, int):
        hint = f'write {"a number" if is_float else "an integer"}, or "{SYMBOLIC}"'
        raise LaunchError(f"argument {name} is {dtype}, but its value is {value!r}", hint=hint)
    least, most_int = integer_range(dtype)
    bits = 1 if dtype == "pred" else 8 * DTYPES[dtype][0]
    if not min(least, -(1 << bits - 1)) <= value < 1 << bits or (dtype == "pred" and value < 0):
        raise LaunchError(f"argument {name}: {shown_number(value)} is no {dtype}", hint=f"{least} to {most_int}")
    return value if least <= value <= most_int else value + (1 << bits if value < least else -1 << bits)


#: integers longer than this are not printed
MOST_BITS = 256


def shown_number(value: object) -> str:
    """A number as it is written, or how long it is (Python does not print integers of more than 4300 digits)."""
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        return f"an integer of {value.bit_length()} bits"
    return str(value)


@dataclass(frozen=True)
class NullArg:
    """A pointer that the launch passes as 0 (Triton's scratch pointers)."""

    name: str = "null"


Arg = Union[TensorArg, ScalarArg, NullArg]


#: what a CUDA launch may be (CUDA C++ Programming Guide, compute capabilities); no GPU has more shared memory in a multiprocessor
GRID_LIMITS = (2**31 - 1, 65535, 65535)
BLOCK_LIMITS = (1024, 1024, 64)
MAX_THREADS = 1024
MAX_SHARED_BYTES = 256 << 10


def check_shared_bytes(size: int, what: str) -> None:
    """Raise LaunchError for an amount of shared memory that no GPU has."""
    if not 0 <= size <= MAX_SHARED_BYTES:
        raise LaunchError(f"{size} bytes {what}", hint=f"0 to {MAX_SHARED_BYTES}: a multiprocessor has no more")


@dataclass(frozen=True)
class Launch:
    """Grid and block in CTAs and threads, arguments in parameter order, dynamic shared memory in bytes."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    args: tuple[Arg, ...]
    dynamic_shared_bytes: int = 0
    #: None: all CTAs; else the CTAs to execute
    ctas: tuple[tuple[int, int, int], ...] | None = None

    def __post_init__(self) -> None:
        for what, extents, limits in (("grid", self.grid, GRID_LIMITS), ("block", self.block, BLOCK_LIMITS)):
            for axis, extent, limit in zip("xyz", extents, limits):
                if not 1 <= extent <= limit:
                    raise LaunchError(f"{what}.{axis} is {extent}", hint=f"1 to {limit}")
        if self.threads > MAX_THREADS:
            raise LaunchError(f"a block of {self.threads} threads", hint=f"a CTA has at most {MAX_THREADS} threads")
        check_shared_bytes(self.dynamic_shared_bytes, "of dynamic shared memory")

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def cta_count(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]


@dataclass
class Buffer:
    """A tensor argument in place: ``[address, address + bytes)``; ``input`` is None for OUT tensors."""

    arg: TensorArg
    number: int
    address: int
    input: Input | None
    bytes: int = field(init=False)

    def __post_init__(self) -> None:
        self.bytes = self.arg.storage * self.arg.element_bytes


#: first address, and the least gap between two buffers; both well aligned
ADDRESS_BASE = 1 << 40
GUARD_BYTES = 1 << 20


@dataclass
class BoundLaunch:
    """A launch with addresses and input ids; made once per comparison and given to both sides.

    ``values[name]`` of a parameter: the address of a tensor, the Python int/float of a concrete scalar, or the term
    id of a symbolic scalar (see ``scalar_ids``).
    """

    launch: Launch
    arena: Arena
    buffers: list[Buffer]
    by_name: dict[str, Buffer]
    scalar_ids: dict[str, int]
    _starts: list[int]

    def find(self, address: int) -> Buffer | None:
        """The buffer an address points into, or None."""
        i = bisect_right(self._starts, address) - 1
        if i < 0:
            return None
        buffer = self.buffers[i]
        return buffer if address < buffer.address + max(buffer.bytes, 1) else None

    def nearest(self, address: int) -> Buffer | None:
        """The buffer whose range is nearest to an address (for messages about out-of-bounds accesses)."""
        if not self.buffers:
            return None
        return min(self.buffers, key=lambda b: max(b.address - address, address - (b.address + b.bytes - 1), 0))


def bind(launch: Launch, arena: Arena) -> BoundLaunch:
    """Give every tensor an address range and input ids, every symbolic scalar an id. Raises LaunchError."""
    buffers: list[Buffer] = []
    by_name: dict[str, Buffer] = {}
    scalar_ids: dict[str, int] = {}
    address = ADDRESS_BASE
    for arg in launch.args:
        if isinstance(arg, ScalarArg) and arg.value == SYMBOLIC:
            if arg.name not in scalar_ids:
                scalar_ids[arg.name] = -1 - arena.add_input(arg.name, 1, arg.dtype).base
        if not isinstance(arg, TensorArg):
            continue
        if arg.name in by_name:
            if by_name[arg.name].arg != arg:
                raise LaunchError(f"two different tensor arguments are named {arg.name}")
            continue
        if arg.alias:
            continue
        if arg.storage > MAX_ID:
            raise LaunchError(
                f"argument {arg.name} spans {arg.storage} elements", hint=f"at most {MAX_ID}: give smaller extents or strides"
            )
        symbolic = isinstance(arg.contents, str)
        entry = _input(arena, arg) if symbolic and arg.role in (Role.IN, Role.INOUT) else None
        buffer = Buffer(arg, len(buffers), address, entry)
        buffers.append(buffer)
        by_name[arg.name] = buffer
        address += (buffer.bytes + GUARD_BYTES + 0xFFFF) & ~0xFFFF
    for arg in launch.args:
        if isinstance(arg, TensorArg) and arg.alias:
            by_name[arg.name] = _shared(arg, by_name)
    return BoundLaunch(launch, arena, buffers, by_name, scalar_ids, [b.address for b in buffers])


def _shared(arg: TensorArg, by_name: Mapping[str, Buffer]) -> Buffer:
    """The buffer of an alias: the owner's, at the alias' own address."""
    owner = by_name.get(arg.alias)
    if owner is None:
        raise LaunchError(f"argument {arg.name} is an alias of {arg.alias}, which is no tensor argument with memory of its own")
    if not arg.offset_elements:
        return owner
    if arg.offset_elements + arg.storage > owner.arg.storage:
        raise LaunchError(f"argument {arg.name} reaches past the end of {arg.alias}, of which it is a part")
    return Buffer(owner.arg, owner.number, owner.address + arg.offset_elements * owner.arg.element_bytes, owner.input)


def _input(arena: Arena, arg: TensorArg) -> Input:
    try:
        return arena.add_input(arg.name, arg.storage, arg.dtype)
    except OverflowError as error:
        raise LaunchError(str(error), hint="give smaller tensors: the claim is per shape anyway") from None


@dataclass(frozen=True)
class Footprint:
    """What one side wrote to one tensor: storage indices (int64, sorted, unique) and the term id of each."""

    index: np.ndarray
    ids: np.ndarray
