"""Atomics: atom and red on all types; the machine applies the operation to memory, this says what it computes.

Lanes that hit one address take effect one after another, in lane order: one of the schedules that the ISA allows. What a
lane gets back depends on the schedule; the machine says so where the result is read.
Source: PTX ISA 9.1, "Parallel Synchronization and Communication Instructions: atom, red".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ptx_engine.errors import NotStructuredError, ParseError
from ptx_engine.isa.algebra import Mode
from ptx_engine.isa.bits import symbolic_integer
from ptx_engine.isa.decode import TYPE_BITS, Decode, Step
from ptx_engine.isa.floating import PACKS
from ptx_engine.isa.group import Group
from ptx_engine.isa.integer import to_bits, to_signed
from ptx_engine.isa.memory import space_of
from ptx_engine.isa.move import unpack
from ptx_engine.isa.registry import constraint, instruction
from ptx_engine.isa.values import BITS, Sym, Value, uninitialised
from ptx_engine.syntax.ast import Reg

_S = "PTX ISA 9.1, Parallel Synchronization and Communication Instructions: "
SEM = "[sem=relaxed|acquire|release|acq_rel]"
SCOPE = "[scope=cta|cluster|gpu|sys]"
SPACE = "[space=global|shared|shared::cta]"
HINT = "[L2::cache_hint]"
#: as flattened functions have them, whatever the order they are written in: Triton writes .global.gpu.acq_rel, CUDA's C++ library has
#: them behind the operation
PLACE = f"{SEM} {SCOPE} {SPACE}"


@dataclass(frozen=True)
class AtomicOp:
    """One atomic instruction: ``update(old, operands)`` is what is stored; ``merge`` joins operands of lanes that hit one address
    (None where the operation is not associative); ``wants`` says whether the old value is read by anyone, ``decides`` whether control
    depends on it."""

    width: int
    update: Callable[[Value, list[Value]], Value]
    merge: Callable[[Value, Value], Value] | None
    scope: str
    sem: str
    name: str
    wants: Callable[[], bool]
    decides: Callable[[], bool]


def integer_update(d: Decode, op: str, bits: int, signed: bool) -> Callable[[Value, list[Value]], Value]:
    """An integer operation on memory and operand, bit-exact; symbolic integers for add only."""
    arena = d.arena

    def concrete(old: "int | np.ndarray", b: "int | np.ndarray", c: "int | np.ndarray | None") -> "int | np.ndarray":
        p, q = np.asarray(old), np.asarray(b)
        if op in ("min", "max"):
            s, t = (to_signed(v, bits) if signed else v for v in (p, q))
            return np.asarray(to_bits(np.minimum(s, t) if op == "min" else np.maximum(s, t), bits))
        one = p.dtype.type(1)
        table: dict[str, Callable[[], np.ndarray]] = {
            "add": lambda: p + q, "and": lambda: p & q, "or": lambda: p | q, "xor": lambda: p ^ q, "exch": lambda: q,
            "inc": lambda: np.where(p >= q, p.dtype.type(0), p + one), "dec": lambda: np.where((p == 0) | (p > q), q, p - one),
            "cas": lambda: np.where(p == q, np.asarray(c), p),
        }  # fmt: skip
        return table[op]()

    def update(old: Value, operands: list[Value]) -> Value:
        b, c = operands[0], operands[1] if len(operands) > 1 else None
        if op == "exch":
            return b
        if isinstance(old, Sym) or any(isinstance(v, Sym) for v in operands):
            if op != "add":
                raise NotStructuredError(f"atomic {op} on symbolic data", feature=f"atomic {op}")
            return symbolic_integer(arena, "add", (old, b), bits, signed)
        if old is None or b is None:
            raise uninitialised("operand of an atomic")
        dtype = np.dtype(f"u{bits // 8}")
        typed = [None if v is None else np.asarray(v).astype(dtype) for v in (old, b, c)]
        with np.errstate(over="ignore"):
            result = np.asarray(concrete(*typed))  # type: ignore[arg-type]
        return int(result) if result.ndim == 0 else result.astype(dtype)

    return update


def wide_update(d: Decode, op: str) -> Callable[[Value, list[Value]], Value]:
    """cas and exch of 128 bits, on concrete words (exch takes any)."""
    arena = d.arena

    def halves(value: Value) -> list[Value]:
        words = unpack(arena, value, 64, 2)
        if any(isinstance(w, Sym) for w in words):
            raise NotStructuredError(f"atomic {op} on symbolic data", feature=f"atomic {op}")
        return words

    def update(old: Value, operands: list[Value]) -> Value:
        if op == "exch":
            return operands[0]
        now, wanted, new = (halves(v) for v in (old, *operands))
        equal = np.logical_and(*(np.asarray(x) == np.asarray(y) for x, y in zip(now, wanted)))
        chosen = [np.where(equal, np.asarray(x, np.uint64), np.asarray(y, np.uint64)) for x, y in zip(new, now)]
        return Sym(tuple((BITS[64], int(w) if w.ndim == 0 else w) for w in chosen))

    return update


#: integer operation -> the types that it has
_INTEGER_TYPES = {
    **dict.fromkeys(("and", "or", "xor"), ("b32", "b64")), "exch": ("b32", "b64", "b128"), **dict.fromkeys(("inc", "dec"), ("u32",)),
    **dict.fromkeys(("min", "max"), ("u32", "s32", "u64", "s64")), "add": ("u32", "s32", "u64"), "cas": ("b16", "b32", "b64", "b128"),
}  # fmt: skip


def _types_of(op: str) -> Callable[[dict[str, str]], bool]:
    def allowed(mods: dict[str, str]) -> bool:
        kind = mods["type"]
        return mods["op"] != op or kind[0] not in "bus" or kind in PACKS or kind in _INTEGER_TYPES[op]

    return allowed


def _policy_in_global(mods: dict[str, str]) -> bool:
    return "L2::cache_hint" not in mods or mods.get("space", "global") == "global"


for _opcode in ("atom", "red"):
    for _op, _types in _INTEGER_TYPES.items():
        if _opcode == "atom" or _op not in ("exch", "cas"):
            constraint(_opcode, f"the integer types of .{_op} are .{', .'.join(_types)}")(_types_of(_op))
    constraint(_opcode, "a cache policy is for global memory")(_policy_in_global)


def _decode(d: Decode, returns: bool) -> Step:
    kind, op = d.mods["type"], d.mods["op"]
    sources = 2 if op == "cas" else 1
    first = 1 if returns else 0
    d.policy(first + 1 + sources)
    count = int((d.mod("vec") or "v1")[1:])
    targets: list[int | None] = list(d.dsts(0)) if returns else [None] * count
    address, space, pc = d.address(first), space_of(d), d.pc
    width = TYPE_BITS[kind]
    operands = [d.srcs(first + 1 + i, width) for i in range(sources)]
    if len(targets) != count or any(len(row) != count for row in operands):
        raise ParseError(f"{d.ins.mnemonic}: vectors of {count} are needed", span=d.ins.span)
    for element in d.elements(0) if returns else ():
        if isinstance(element, Reg) and TYPE_BITS[d.env.register_type(element.name)] != width:
            raise ParseError(f"{d.ins.mnemonic}: {width} bits do not go into {element.name}", span=d.ins.span)
    update = _update(d, op, kind, width)
    merge = (lambda x, y: update(x, [y])) if op in ("add", "min", "max", "and", "or", "xor") else None
    specs = [_spec(d, width, update, merge, dst) for dst in targets]
    atomic = d.env.memory.atomic

    def step(g: Group) -> None:
        R = g.R
        where = address(R)
        for i, (spec, dst) in enumerate(zip(specs, targets)):  # each element on its own, as the ISA has it
            old = atomic(g, space, where + i * width // 8 if i else where, spec, [R[row[i]] for row in operands], pc)
            if dst is not None:
                R[dst] = old

    return step


def _update(d: Decode, op: str, kind: str, width: int) -> Callable[[Value, list[Value]], Value]:
    if width == 128:
        return wide_update(d, op)
    if kind not in PACKS:
        return integer_update(d, op, width, kind[0] == "s")
    function = d.algebra.apply(op, PACKS[kind], Mode())
    return lambda old, args: function(old, args[0])


def _spec(
    d: Decode, width: int, update: Callable[[Value, list[Value]], Value], merge: Callable[[Value, Value], Value] | None, dst: int | None
) -> AtomicOp:
    env = d.env
    return AtomicOp(width, update, merge, d.mod("scope") or "gpu", d.mod("sem") or "relaxed", d.ins.mnemonic,
                    lambda: dst is not None and env.is_read(dst), lambda: dst is not None and env.decides(dst))  # fmt: skip


_VECTORS = [
    f"{SEM} {SCOPE} [space=global] {order}"
    for vec, types, ops in (("v2|v4", "f32", "op=add"), ("v2|v4|v8", "f16|bf16", "op=add|min|max !noftz"),
                            ("v2|v4", "f16x2|bf16x2", "op=add|min|max !noftz"))
    for order in (f"{ops} {HINT} vec={vec} type={types}", f"vec={vec} type={types} {ops} {HINT}")
]  # fmt: skip


def _placed(*rest: str) -> list[str]:
    """Forms with semantics, scope and space before the rest."""
    return [f"{PLACE} {pattern}" for pattern in rest]


@instruction("atom", *_placed(f"op=and|or|xor|exch|add|inc|dec|min|max {HINT} type=b32|b64|u32|u64|s32|s64",
                                "op=cas type=b16|b32|b64|b128", f"op=exch {HINT} type=b128", f"op=add {HINT} type=f32|f64",
                                f"op=add !noftz {HINT} type=f16|f16x2|bf16|bf16x2"), *_VECTORS, source=_S + "atom")  # fmt: skip
def atom(d: Decode) -> Step:
    return _decode(d, True)


@instruction("red", *(form.replace(SEM, "[sem=relaxed|release]") for form in (*_placed(
    f"op=and|or|xor|add|inc|dec|min|max {HINT} type=b32|b64|u32|u64|s32|s64", f"op=add {HINT} type=f32|f64",
    f"op=add !noftz {HINT} type=f16|f16x2|bf16|bf16x2"), *_VECTORS)), source=_S + "red")  # fmt: skip
def red(d: Decode) -> Step:
    return _decode(d, False)
