"""Floating-point arithmetic: a spec names an operator and a mode; the environment's algebra computes it.

Over the reals rounding, ``.ftz`` and ``.approx``/``.full`` are the identity (the ``!`` slots); ``.sat`` clamps to [0, 1],
``.relu`` to non-negative, and ``.NaN`` decides what a NaN constant gives. Packed types act on each part.
Source: PTX ISA 9.1, "Floating Point Instructions", "Half Precision Floating Point Instructions".
"""

from __future__ import annotations

from ptx_engine.errors import ParseError
from ptx_engine.isa.algebra import PROPERTIES, Mode
from ptx_engine.isa.decode import Decode, Step
from ptx_engine.isa.group import Group
from ptx_engine.isa.registry import instruction, refuse
from ptx_engine.isa.simple import Floats
from ptx_engine.isa.values import BF16, F16, F32, F64, Fmt

#: type slot -> formats of the parts, low half first
PACKS: dict[str, tuple[Fmt, ...]] = {
    "f16": (F16,), "bf16": (BF16,), "f32": (F32,), "f64": (F64,), "f16x2": (F16, F16), "bf16x2": (BF16, BF16), "f32x2": (F32, F32),
}  # fmt: skip

RND = "[!rnd=rn|rz|rm|rp]"
RN = "[!rnd=rn]"
FTZ = "[!ftz]"


def mode_of(d: Decode) -> Mode:
    """The mode that an instruction's modifiers name; ``mode`` slots hold a rounding or an approximation."""
    word = d.mod("mode") or d.mod("rnd") or "rn"
    approx = word if word in ("approx", "full") else "approx" if d.has("approx") else ""
    rnd = word if word in ("rn", "rz", "rm", "rp", "rna") else "rn"
    return Mode(rnd, approx, d.has("ftz"), d.has("sat"), d.has("relu"), d.has("satfinite"))


def elementwise(d: Decode, operator: str, sources: int) -> Step:
    """A step that applies an operator of the algebra to each part."""
    d.expect(sources + 1)
    fmts, mode = PACKS[d.mods["type"]], mode_of(d)
    compute = d.algebra.apply(operator, fmts, mode)
    dst, where = d.dst(), [d.src(i + 1) for i in range(sources)]
    if len(fmts) == 1 and not (mode.sat or mode.relu or mode.satfinite):
        d.simple = Floats(operator, dst, tuple(where), fmts[0])
    if sources == 1:
        (a,) = where

        def one(g: Group) -> None:
            g.R[dst] = compute(g.R[a])

        return one
    if sources == 2:
        a, b = where

        def two(g: Group) -> None:
            R = g.R
            R[dst] = compute(R[a], R[b])

        return two
    a, b, c = where

    def three(g: Group) -> None:
        R = g.R
        R[dst] = compute(R[a], R[b], R[c])

    return three


_S = "PTX ISA 9.1, Floating Point Instructions: "
_SUM_FORMS = (
    f"{RND} {FTZ} [sat] type=f32", f"{RND} {FTZ} type=f32x2", f"{RND} type=f64", f"{RN} {FTZ} [sat] type=f16|f16x2",
    f"{RN} type=bf16|bf16x2",
)  # fmt: skip


@instruction("add", *_SUM_FORMS, source=_S + "add")
def add(d: Decode) -> Step:
    return elementwise(d, "add", 2)


@instruction("sub", *_SUM_FORMS, source=_S + "sub")
def sub(d: Decode) -> Step:
    return elementwise(d, "sub", 2)


@instruction("mul", *_SUM_FORMS, source=_S + "mul")
def mul(d: Decode) -> Step:
    return elementwise(d, "mul", 2)


refuse("fma.oob", "out-of-bounds NaN as zero (sm_90) is not modelled")


@instruction("fma", f"!rnd=rn|rz|rm|rp {FTZ} [sat] type=f32", f"!rnd=rn|rz|rm|rp {FTZ} type=f32x2", "!rnd=rn|rz|rm|rp type=f64",
             f"!rnd=rn {FTZ} [sat] type=f16|f16x2", f"!rnd=rn {FTZ} relu type=f16|f16x2", "!rnd=rn [relu] type=bf16|bf16x2",
             source=_S + "fma")  # fmt: skip
def fma(d: Decode) -> Step:
    return elementwise(d, "fma", 3)


# Without a rounding modifier mad.f32 is for .target sm_1x, where it truncates the product; from sm_20 on it has one and is fma.
@instruction("mad", f"!rnd=rn|rz|rm|rp {FTZ} [sat] type=f32", "!rnd=rn|rz|rm|rp type=f64", source=_S + "mad")
def mad(d: Decode) -> Step:
    return elementwise(d, "fma", 3)


_DIRECTED = (f"!mode=rn|rz|rm|rp {FTZ} type=f32", "!mode=rn|rz|rm|rp type=f64")


@instruction("div", f"!mode=approx|full {FTZ} type=f32", *_DIRECTED, source=_S + "div")
def div(d: Decode) -> Step:
    return elementwise(d, "div", 2)


@instruction("neg", f"{FTZ} type=f32|f16|f16x2", "type=f64|bf16|bf16x2", source=_S + "neg")
def neg(d: Decode) -> Step:
    return elementwise(d, "neg", 1)


@instruction("abs", f"{FTZ} type=f32|f16|f16x2", "type=f64|bf16|bf16x2", source=_S + "abs")
def absolute(d: Decode) -> Step:
    return elementwise(d, "abs", 1)


_EXTREME_FORMS = (
    f"{FTZ} [NaN] [xorsign] [abs] type=f32|f16|f16x2", "[NaN] [xorsign] [abs] type=bf16|bf16x2", "type=f64",
)  # fmt: skip


def _extreme(d: Decode, name: str) -> Step:
    """Two operands (also ``.xorsign.abs``) or three (also ``.abs``, f32)."""
    operator = ".".join([name, *(m for m in ("NaN", "xorsign", "abs") if d.has(m))])
    d.expect(3, 4)
    if d.has("xorsign") != d.has("abs") and not (d.count == 4 and d.has("abs")):
        raise ParseError(f"{d.ins.mnemonic}: .xorsign and .abs stand together", span=d.ins.span)
    if d.count == 3:
        return elementwise(d, operator, 2)
    if d.mods["type"] != "f32" or d.has("xorsign"):
        raise ParseError(f"{d.ins.mnemonic}: three operands are for .f32 without .xorsign", span=d.ins.span)
    compute = d.algebra.apply(operator, PACKS["f32"], mode_of(d))
    dst, a, b, c = d.dst(), d.src(1), d.src(2), d.src(3)

    def step(g: Group) -> None:
        R = g.R
        R[dst] = compute(compute(R[a], R[b]), R[c])

    return step


@instruction("max", *_EXTREME_FORMS, source=_S + "max")
def maximum(d: Decode) -> Step:
    return _extreme(d, "max")


@instruction("min", *_EXTREME_FORMS, source=_S + "min")
def minimum(d: Decode) -> Step:
    return _extreme(d, "min")


@instruction("rcp", f"!mode=approx {FTZ} type=f32", *_DIRECTED, "!mode=approx !ftz type=f64", source=_S + "rcp")
def rcp(d: Decode) -> Step:
    return elementwise(d, "rcp", 1)


@instruction("sqrt", f"!mode=approx {FTZ} type=f32", *_DIRECTED, source=_S + "sqrt")
def sqrt(d: Decode) -> Step:
    return elementwise(d, "sqrt", 1)


@instruction("rsqrt", f"!approx {FTZ} type=f32|f64", source=_S + "rsqrt")
def rsqrt(d: Decode) -> Step:
    return elementwise(d, "rsqrt", 1)


@instruction("ex2", f"!approx {FTZ} type=f32", "!approx type=f16|f16x2", "!approx !ftz type=bf16|bf16x2", source=_S + "ex2")
def ex2(d: Decode) -> Step:
    return elementwise(d, "ex2", 1)


@instruction("lg2", f"!approx {FTZ} type=f32", source=_S + "lg2")
def lg2(d: Decode) -> Step:
    return elementwise(d, "lg2", 1)


@instruction("sin", f"!approx {FTZ} type=f32", source=_S + "sin")
def sin(d: Decode) -> Step:
    return elementwise(d, "sin", 1)


@instruction("cos", f"!approx {FTZ} type=f32", source=_S + "cos")
def cos(d: Decode) -> Step:
    return elementwise(d, "cos", 1)


@instruction("tanh", "!approx type=f32|f16|f16x2|bf16|bf16x2", source=_S + "tanh")
def tanh(d: Decode) -> Step:
    return elementwise(d, "tanh", 1)


@instruction("copysign", "type=f32|f64", source=_S + "copysign")
def copysign(d: Decode) -> Step:
    """The magnitude of the second source with the sign of the first."""
    return elementwise(d, "copysign", 2)


@instruction("testp", f"prop={'|'.join(PROPERTIES)} type=f32|f64", source=_S + "testp")
def testp(d: Decode) -> Step:
    d.expect(2)
    test = d.algebra.test(d.mods["prop"], PACKS[d.mods["type"]][0])
    dst, a = d.dst(), d.src(1)

    def step(g: Group) -> None:
        g.R[dst] = test(g.R[a])

    return step
