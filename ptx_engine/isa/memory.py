"""Loads, stores and asynchronous copies: addresses are concrete, data moves whole parts.

The machine's ``MemoryOps`` does bounds, alignment and order; a spec here only says how many registers of which width
move, and in which space.
Source: PTX ISA 9.1, "Data Movement and Conversion Instructions: ld, st, cp.async, prefetch".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptx_engine.errors import NotStructuredError, ParseError
from ptx_engine.isa.decode import TYPE_BITS, Decode, Step, Strength
from ptx_engine.isa.group import Group
from ptx_engine.isa.move import zero_parts
from ptx_engine.isa.registry import constraint, instruction
from ptx_engine.isa.simple import Load, Store
from ptx_engine.isa.values import INT, UINT, Sym, Value, int_fmt, wrap_int
from ptx_engine.syntax.ast import FloatLit, IntLit, Operand, Reg
from ptx_engine.terms import Arena

_S = "PTX ISA 9.1, Data Movement and Conversion Instructions: "
#: where cache hints are allowed: global memory, also by generic addresses
GLOBAL = "[space=global]"
NEAR = "space=shared|shared::cta|local"
EVICT = "[!evict=L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate]"
L2 = "[!l2evict=L2::evict_last|L2::evict_normal|L2::evict_first]"
HINT = "[L2::cache_hint]"
PREFETCH = "[!prefetch=L2::64B|L2::128B|L2::256B]"
WORDS = "b8|b16|b32|b64|u8|u16|u32|u64|s8|s16|s32|s64|f32|f64"
TYPES = f"type={WORDS}|b128"
#: vectors of 256 bits are for global memory
VEC, SHORT_VEC = f"[vec=v2|v4|v8] {TYPES}", f"[vec=v2|v4] {TYPES}"


def _vector_fits(mods: dict[str, str]) -> bool:
    length, width = int(mods.get("vec", "v1")[1:]), TYPE_BITS[mods["type"]]
    return (length * width <= 128 and length < 8) or (length, width) in ((8, 32), (4, 64))


VECTORS = "vectors hold at most 128 bits; of 256 there are .v8 of 32 and .v4 of 64 bits"
constraint("ld", VECTORS)(_vector_fits)
constraint("st", VECTORS)(_vector_fits)


@constraint("ldu", "vectors hold at most 128 bits")
def _short_vector(mods: dict[str, str]) -> bool:
    return int(mods.get("vec", "v1")[1:]) * TYPE_BITS[mods["type"]] <= 128


def _wide_eviction(mods: dict[str, str]) -> bool:
    return "l2evict" not in mods or (mods.get("vec"), TYPE_BITS[mods["type"]]) in (("v8", 32), ("v4", 64))


constraint("ld", "the eviction priority in L2 stands with .v8 of 32 or .v4 of 64 bits")(_wide_eviction)
constraint("st", "the eviction priority in L2 stands with .v8 of 32 or .v4 of 64 bits")(_wide_eviction)


def space_of(d: Decode) -> str:
    """The state space of the instruction: "global", "shared", "local", "param", "const" or "" (generic)."""
    return (d.mod("space") or "").split("::")[0]


@instruction("ld", f"[!weak] {GLOBAL} {EVICT} {L2} {HINT} {PREFETCH} {VEC}",
             f"[!weak] {GLOBAL} !cop=ca|cg|cs|lu|cv {HINT} {PREFETCH} {VEC}",
             f"[!weak] {NEAR}|param|const|param::entry|param::func [!cop=ca|cg|cs|lu|cv] {SHORT_VEC}",
             f"space=global nc {EVICT} {L2} {HINT} {PREFETCH} {VEC}", f"space=global {EVICT} {L2} nc {HINT} {PREFETCH} {VEC}",
             f"space=global !cop=ca|cg|cs nc {HINT} {PREFETCH} {VEC}", source=_S + "ld")  # fmt: skip
def ld(d: Decode) -> Step:
    step = _load(d, d.env.memory.load_noncoherent if d.has("nc") else d.env.memory.load)
    targets, width = d.elements(0), TYPE_BITS[d.mods["type"]]
    if all(register_bits(d, target) == width for target in targets):
        d.simple = Load(tuple(d.dst_of(target) for target in targets), d.place(1), space_of(d), width)
    return step


_SHARED = "space=shared|shared::cta"
_SCOPES = "scope=cta|cluster|gpu|sys"


@instruction("ld", f"volatile {GLOBAL} {L2} {PREFETCH} {VEC}", f"volatile {_SHARED} {SHORT_VEC}",
             f"sem=relaxed|acquire {_SCOPES} {GLOBAL} {EVICT} {L2} {HINT} {PREFETCH} {VEC}",
             f"sem=relaxed|acquire {_SCOPES} {_SHARED} {SHORT_VEC}", f"mmio sem=relaxed scope=sys {GLOBAL} type={WORDS}",
             source=_S + "ld")  # fmt: skip
def ld_strong(d: Decode) -> Step:
    """A strong load; ``.volatile`` is relaxed at the scope of the space, as the ISA has it."""
    env, strong, volatile = d.env, d.env.memory.strong_load, d.has("volatile")
    sem, scope = strength(d)
    targets = [d.dst_of(e) for e in d.elements(0)]

    def how() -> Strength:
        return Strength(sem, scope, any(map(env.is_read, targets)), any(map(env.decides, targets)), volatile)

    def load(g: Group, space: str, address: "int | np.ndarray", widths: tuple[int, ...], pc: int) -> list[Value]:
        return strong(g, space, address, widths, pc, how())

    return _load(d, load)


def strength(d: Decode) -> tuple[str, str]:
    """Memory order and scope by their PTX names."""
    if d.has("volatile"):
        return "relaxed", "cta" if space_of(d) == "shared" else "sys"
    return d.mods["sem"], d.mods["scope"]


@instruction("ldu", f"{GLOBAL} {SHORT_VEC}", source=_S + "ldu")
def ldu(d: Decode) -> Step:
    """A load of read-only data from an address that is the same in the warp."""
    return _load(d, d.env.memory.load_noncoherent)


Loader = Callable[[Group, str, "int | np.ndarray", tuple[int, ...], int], list[Value]]


def _load(d: Decode, load: Loader) -> Step:
    d.policy(2)
    targets, address, space, pc = d.dsts(0), d.address(1), space_of(d), d.pc
    width = TYPE_BITS[d.mods["type"]]
    if len(targets) != int((d.mod("vec") or "v1")[1:]):
        raise ParseError(f"{d.ins.mnemonic}: {len(targets)} registers do not fit the vector size", span=d.ins.span)
    widths = (width,) * len(targets)
    signed, arena = d.signed, d.arena
    for e in d.elements(0):
        if isinstance(e, Reg) and not (width <= register_bits(d, e) <= max(width, 64)):
            raise ParseError(f"{d.ins.mnemonic}: {width} bits do not go into {e.name}", span=d.ins.span)
    registers = [max(width, register_bits(d, e)) for e in d.elements(0)]
    if registers == [width]:
        only = targets[0]

        def single(g: Group) -> None:
            g.R[only] = load(g, space, address(g.R), widths, pc)[0]

        return single
    if all(bits == width for bits in registers):

        def plain(g: Group) -> None:
            values = load(g, space, address(g.R), widths, pc)
            for r, value in zip(targets, values):
                g.R[r] = value

        return plain

    def step(g: Group) -> None:
        values = load(g, space, address(g.R), widths, pc)
        for r, value, bits in zip(targets, values, registers):
            g.R[r] = widen(arena, value, width, bits, signed)

    return step


def register_bits(d: Decode, operand: Operand) -> int:
    """The width of a destination register (0 for ``_``): a datum narrower than it is extended."""
    return TYPE_BITS[d.env.register_type(operand.name)] if isinstance(operand, Reg) else 0


def widen(arena: Arena, value: Value, bits: int, register: int, signed: bool) -> Value:
    """A datum of ``bits`` in a wider register: sign- or zero-extended. A symbolic integer is read as the load's type has it;
    a float part gets zero bits above it."""
    if value is None or bits == register:
        return value
    if isinstance(value, Sym):
        fmt, ids = value.parts[0]
        if fmt.kind == "int" and len(value.parts) == 1:
            ids, lo, hi = wrap_int(arena, ids, fmt, bits, signed)
            return Sym(((int_fmt(register, lo, hi), ids),))
        if signed:
            raise NotStructuredError(f"{fmt.name} data is loaded with sign extension", feature=f"sign extension of {fmt.name}")
        return Sym((*value.parts, *zero_parts(register - bits)))
    if isinstance(value, int):
        return value | ((1 << register) - (1 << bits)) if signed and value >> (bits - 1) else value
    return value.view(INT[bits]).astype(INT[register]).view(UINT[register]) if signed else value.astype(UINT[register])


@instruction("st", f"[!weak] {GLOBAL} {EVICT} {L2} {HINT} {VEC}", f"[!weak] {GLOBAL} !cop=wb|cg|cs|wt {HINT} {VEC}",
             f"[!weak] {NEAR}|param|param::func [!cop=wb|cg|cs|wt] {SHORT_VEC}", source=_S + "st")  # fmt: skip
def st(d: Decode) -> Step:
    step = _store(d, d.env.memory.store)
    sources, width = d.elements(1), TYPE_BITS[d.mods["type"]]
    if len(sources) == 1 and register_bits(d, sources[0]) == width:
        d.simple = Store(d.src_of(sources[0], width), d.place(0), space_of(d), width)
    return step


@instruction("st", f"volatile {GLOBAL} {L2} {VEC}", f"volatile {_SHARED} {SHORT_VEC}",
             f"sem=relaxed|release {_SCOPES} {GLOBAL} {EVICT} {L2} {HINT} {VEC}",
             f"sem=relaxed|release {_SCOPES} {_SHARED} {SHORT_VEC}", f"mmio sem=relaxed scope=sys {GLOBAL} type={WORDS}",
             source=_S + "st")  # fmt: skip
def st_strong(d: Decode) -> Step:
    """A strong store."""
    strong = d.env.memory.strong_store
    how = Strength(*strength(d), False, False, d.has("volatile"))
    return _store(d, lambda g, space, address, values, widths, pc: strong(g, space, address, values, widths, pc, how))


Storer = Callable[[Group, str, "int | np.ndarray", list[Value], tuple[int, ...], int], None]


def _store(d: Decode, store: Storer) -> Step:
    d.policy(2)
    width = TYPE_BITS[d.mods["type"]]
    address, sources, space, pc = d.address(0), d.srcs(1, max(width, 16)), space_of(d), d.pc
    if len(sources) != int((d.mod("vec") or "v1")[1:]):
        raise ParseError(f"{d.ins.mnemonic}: {len(sources)} registers do not fit the vector size", span=d.ins.span)
    widths = (width,) * len(sources)

    def step(g: Group) -> None:
        R = g.R
        store(g, space, address(R), [R[i] for i in sources], widths, pc)

    return step


@instruction(
    "prefetch",
    "space=global|local !level=L1|L2",
    "!level=L1|L2",
    "[space=global] !level=L2::evict_last|L2::evict_normal",
    "[space=const|param] !level=tensormap",
    source=_S + "prefetch",
)
@instruction("prefetchu", "!L1", source=_S + "prefetchu")
def prefetch(d: Decode) -> Step:
    """A hint: moves no data."""
    d.expect(1)
    d.place(0)
    return lambda g: None


_PRIMARY = "!primary=L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged"
_SECONDARY = "[!secondary=L2::evict_first|L2::evict_unchanged]"


def _number(literal: FloatLit) -> float:
    dtype = np.dtype(f"u{literal.width // 8}")
    return float(np.array(literal.bits, dtype).view(f"f{literal.width // 8}"))


@instruction("createpolicy", f"!mode=fractional {_PRIMARY} {_SECONDARY} type=b64", f"!mode=range [global] {_PRIMARY} {_SECONDARY} type=b64",
             "!mode=cvt !level=L2 type=b64", source=_S + "createpolicy")  # fmt: skip
def createpolicy(d: Decode) -> Step:
    """A cache policy moves no data; its register holds 0."""
    mode = d.mods["mode"]
    d.expect(*((1, 2) if mode == "fractional" else (4,) if mode == "range" else (2,)))
    if mode == "range":
        d.address(1, "global")
        d.src(2, 32), d.src(3, 32)
        sizes = [operand.value if isinstance(operand, IntLit) else None for operand in (d.operand(2), d.operand(3))]
        if sizes[0] is not None and sizes[1] is not None and sizes[0] & 0xFFFFFFFF > sizes[1] & 0xFFFFFFFF:
            raise ParseError(f"{d.ins.mnemonic}: the primary size is at most the total one", span=d.ins.span)
    elif mode == "cvt":
        d.src(1, 64)
    elif d.count == 2:
        d.src(1, 32)
        fraction = d.operand(1)
        if isinstance(fraction, IntLit) or (isinstance(fraction, FloatLit) and not 0 < _number(fraction) <= 1):
            raise ParseError(f"{d.ins.mnemonic}: a fraction is a float above 0 and up to 1", span=d.ins.span)
    dst = d.dst()

    def step(g: Group) -> None:
        g.R[dst] = 0

    return step


@instruction("cp", f"async cop=ca|cg shared=shared|shared::cta global=global {HINT} {PREFETCH}", source=_S + "cp.async")
def cp_async(d: Decode) -> Step:
    """cp.async d, s, size [, src-size or ignore-src] [, cache policy]: an asynchronous agent copies; bytes past src-size become zero."""
    given = d.count - d.has("L2::cache_hint")
    d.expect(*(n + d.has("L2::cache_hint") for n in (3, 4)))
    d.policy(given)
    size = d.operand(2)
    if not isinstance(size, IntLit) or size.value not in ((16,) if d.mods["cop"] == "cg" else (4, 8, 16)):
        raise ParseError(f"{d.ins.mnemonic}: the copy size must be {'16' if d.mods['cop'] == 'cg' else '4, 8 or 16'}", span=d.ins.span)
    shared, source, count, pc = d.address(0, "shared"), d.address(1, "global"), size.value, d.pc
    copy = d.env.memory.async_copy
    if given == 3:
        return lambda g: copy(g, shared(g.R), source(g.R), count, count, pc)
    operand = d.operand(3)
    if isinstance(operand, Reg) and d.env.register_type(operand.name) == "pred":
        ignored = d.src(3, 1)

        def ignoring(g: Group) -> None:
            p = g.R[ignored]
            if isinstance(p, Sym) or p is None:
                raise NotStructuredError("cp.async with a symbolic ignore-src predicate", feature="cp.async")
            left: Value = (0 if p else count) if not isinstance(p, np.ndarray) else np.where(p, np.uint32(0), np.uint32(count))
            copy(g, shared(g.R), source(g.R), count, left, pc)

        return ignoring
    if isinstance(operand, IntLit) and not 0 <= operand.value <= count:
        raise ParseError(f"{d.ins.mnemonic}: the source size lies between 0 and {count}", span=d.ins.span)
    left = d.src(3, 32)
    return lambda g: copy(g, shared(g.R), source(g.R), count, g.R[left], pc)


@instruction("cp", "async commit_group", source=_S + "cp.async.commit_group")
def commit_group(d: Decode) -> Step:
    d.expect(0)
    order, pc = d.env.order, d.pc
    return lambda g: order.commit_group(pc, g.threads)


@instruction("cp", "async wait_group", source=_S + "cp.async.wait_group")
def wait_group(d: Decode) -> Step:
    d.expect(1)
    operand = d.operand(0)
    if not isinstance(operand, IntLit) or operand.value < 0:
        raise ParseError("cp.async.wait_group takes a non-negative number", span=d.ins.span)
    pending, order, pc = operand.value, d.env.order, d.pc
    return lambda g: order.wait_group(pc, g.threads, pending)


@instruction("cp", "async wait_all", source=_S + "cp.async.wait_all")
def wait_all(d: Decode) -> Step:
    d.expect(0)
    order, pc = d.env.order, d.pc

    return lambda g: order.wait_all(pc, g.threads)
