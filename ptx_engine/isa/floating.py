"""Floating-point arithmetic over the reals: columns of term ids in, columns of term ids out.

Rounding modifiers, ``.ftz`` and ``.approx``/``.full`` are the identity over the reals (declared ignored); ``.sat`` is a
clamp to [0, 1] and ``.relu`` a max with 0, and are not ignored. Packed types act on each half.
Source: PTX ISA 9.1, "Floating Point Instructions", "Half Precision Floating Point Instructions".
"""

from __future__ import annotations

from collections.abc import Callable

from ptx_engine.isa.decode import Decode, Step
from ptx_engine.isa.group import Group
from ptx_engine.isa.registry import instruction
from ptx_engine.isa.values import BF16, F16, F32, F64, Fmt, Sym, Value, as_parts, read_float
from ptx_engine.terms import ONE, ZERO, Arena, Ids, Op

#: type slot -> formats of the parts, low half first
PACKS: dict[str, tuple[Fmt, ...]] = {
    "f16": (F16,), "bf16": (BF16,), "f32": (F32,), "f64": (F64,), "f16x2": (F16, F16), "bf16x2": (BF16, BF16), "f32x2": (F32, F32),
}  # fmt: skip

RND = "[!rnd=rn|rz|rm|rp]"
FTZ = "[!ftz]"
Operator = Callable[..., Ids]


def read_packed(arena: Arena, value: Value, fmts: tuple[Fmt, ...]) -> list[Ids]:
    """The ids of each part of a register read as packed floats."""
    if len(fmts) == 1:
        return [read_float(arena, value, fmts[0])]
    found = as_parts(arena, value, fmts)
    if found is None:
        # a whole register that came in one piece cannot be two halves: the error names what it holds
        return [read_float(arena, value, fmts[0])]
    return found


def finish(d: Decode) -> Callable[[Ids], Ids]:
    """What ``.sat`` and ``.relu`` do to a result."""
    arena = d.arena
    if d.has("sat"):
        return lambda ids: arena.minimum(arena.maximum(ids, ZERO), ONE)
    if d.has("relu"):
        return lambda ids: arena.maximum(ids, ZERO)
    return lambda ids: ids


def elementwise(d: Decode, operator: Operator, sources: int) -> Step:
    """A step that applies an operator of the arena to each part."""
    d.expect(sources + 1)
    fmts = PACKS[d.mods["type"]]
    dst, arena, post = d.dst(), d.arena, finish(d)
    where = [d.src(i + 1) for i in range(sources)]
    plain = not (d.has("sat") or d.has("relu"))
    if len(fmts) == 1:
        fmt = fmts[0]
        if sources == 2 and plain:
            a, b = where

            def two(g: Group) -> None:
                R = g.R
                R[dst] = Sym(((fmt, operator(read_float(arena, R[a], fmt), read_float(arena, R[b], fmt))),))

            return two

        def one_part(g: Group) -> None:
            R = g.R
            R[dst] = Sym(((fmt, post(operator(*[read_float(arena, R[i], fmt) for i in where]))),))

        return one_part

    def packed(g: Group) -> None:
        R = g.R
        columns = [read_packed(arena, R[i], fmts) for i in where]
        R[dst] = Sym(tuple((fmt, post(operator(*row))) for fmt, row in zip(fmts, zip(*columns))))

    return packed


_S = "PTX ISA 9.1, Floating Point Instructions: "


@instruction("add", f"{RND} {FTZ} [sat] type=f32|f64|f16|f16x2|bf16|bf16x2|f32x2", source=_S + "add")
def add(d: Decode) -> Step:
    return elementwise(d, d.arena.add, 2)


@instruction("sub", f"{RND} {FTZ} [sat] type=f32|f64|f16|f16x2|bf16|bf16x2|f32x2", source=_S + "sub")
def sub(d: Decode) -> Step:
    return elementwise(d, d.arena.sub, 2)


@instruction("mul", f"{RND} {FTZ} [sat] type=f32|f64|f16|f16x2|bf16|bf16x2|f32x2", source=_S + "mul")
def mul(d: Decode) -> Step:
    return elementwise(d, d.arena.mul, 2)


@instruction("fma", f"{RND} {FTZ} [sat] [relu] type=f32|f64|f16|f16x2|bf16|bf16x2|f32x2", source=_S + "fma")
def fma(d: Decode) -> Step:
    return elementwise(d, d.arena.fma, 3)


@instruction("mad", f"{RND} {FTZ} [sat] type=f32|f64", source=_S + "mad")
def mad(d: Decode) -> Step:
    return elementwise(d, d.arena.fma, 3)


@instruction("div", f"[!mode=approx|full|rn|rz|rm|rp] {FTZ} type=f32|f64", source=_S + "div")
def div(d: Decode) -> Step:
    return elementwise(d, d.arena.div, 2)


@instruction("neg", f"{FTZ} type=f32|f64|f16|f16x2|bf16|bf16x2", source=_S + "neg")
def neg(d: Decode) -> Step:
    return elementwise(d, d.arena.neg, 1)


@instruction("abs", f"{FTZ} type=f32|f64|f16|f16x2|bf16|bf16x2", source=_S + "abs")
def absolute(d: Decode) -> Step:
    return elementwise(d, d.arena.abs, 1)


MINMAX = f"{FTZ} [!NaN] [xorsign.abs] type=f32|f64|f16|f16x2|bf16|bf16x2"


def _extreme(d: Decode, operator: Operator) -> Step:
    if d.count == 4:
        return elementwise(d, lambda a, b, c: operator(operator(a, b), c), 3)
    return elementwise(d, operator, 2)


# ``.NaN`` chooses what a NaN operand gives; data are reals and a NaN *constant* folds as maxNum, so the modifier is
# declared ignored and stands in the ledger.
@instruction("max", f"{FTZ} [!NaN] type=f32|f64|f16|f16x2|bf16|bf16x2", source=_S + "max")
def maximum(d: Decode) -> Step:
    return _extreme(d, d.arena.maximum)


@instruction("min", f"{FTZ} [!NaN] type=f32|f64|f16|f16x2|bf16|bf16x2", source=_S + "min")
def minimum(d: Decode) -> Step:
    return _extreme(d, d.arena.minimum)


@instruction("rcp", f"[!mode=approx|rn|rz|rm|rp] {FTZ} type=f32|f64", source=_S + "rcp")
def rcp(d: Decode) -> Step:
    return elementwise(d, lambda x: d.arena.div(ONE, x), 1)


@instruction("sqrt", f"[!mode=approx|rn|rz|rm|rp] {FTZ} type=f32|f64", source=_S + "sqrt")
def sqrt(d: Decode) -> Step:
    return elementwise(d, d.arena.sqrt, 1)


@instruction("rsqrt", f"!approx {FTZ} type=f32|f64", source=_S + "rsqrt")
def rsqrt(d: Decode) -> Step:
    return elementwise(d, lambda x: d.arena.div(ONE, d.arena.sqrt(x)), 1)


@instruction("ex2", f"!approx {FTZ} type=f32|f16|f16x2|bf16|bf16x2", source=_S + "ex2")
def ex2(d: Decode) -> Step:
    return elementwise(d, d.arena.exp2, 1)


@instruction("lg2", f"!approx {FTZ} type=f32", source=_S + "lg2")
def lg2(d: Decode) -> Step:
    return elementwise(d, d.arena.log2, 1)


@instruction("sin", f"!approx {FTZ} type=f32", source=_S + "sin")
def sin(d: Decode) -> Step:
    return elementwise(d, lambda x: d.arena.unary(Op.SIN, x), 1)


@instruction("cos", f"!approx {FTZ} type=f32", source=_S + "cos")
def cos(d: Decode) -> Step:
    return elementwise(d, lambda x: d.arena.unary(Op.COS, x), 1)


@instruction("tanh", "!approx type=f32|f16|f16x2|bf16|bf16x2", source=_S + "tanh")
def tanh(d: Decode) -> Step:
    return elementwise(d, lambda x: d.arena.unary(Op.TANH, x), 1)


def _copysign(arena: Arena, a: Ids, b: Ids) -> Ids:
    """The magnitude of b with the sign of a (over the reals a zero counts as positive)."""
    magnitude = arena.abs(b)
    return arena.select(arena.compare(Op.LT, a, ZERO), arena.neg(magnitude), magnitude)


@instruction("copysign", "type=f32|f64", source=_S + "copysign")
def copysign(d: Decode) -> Step:
    return elementwise(d, lambda a, b: _copysign(d.arena, a, b), 2)
