"""Integer instructions on Python ints, written from the ISA's text: operands are bit patterns, results too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Model = Callable[..., int]


def signed(x: int, bits: int) -> int:
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> bits - 1 else x


def _reading(kind: str) -> Callable[[int], int]:
    bits = int(kind[1:])
    return (lambda x: signed(x, bits)) if kind[0] == "s" else (lambda x: x & ((1 << bits) - 1))


def _truncated(x: int, y: int) -> int:
    quotient = abs(x) // abs(y)
    return quotient if (x < 0) == (y < 0) else -quotient


@dataclass(frozen=True)
class Form:
    """An instruction: its text with operands a0 a1 ... and destination d0, operand bits, result bits, and the model."""

    text: str
    operands: tuple[int, ...]
    result: int
    model: Model


def _arithmetic() -> list[Form]:
    forms = []
    for kind in ("u16", "s16", "u32", "s32", "u64", "s64"):
        bits, read = int(kind[1:]), _reading(kind)
        two, three = (bits, bits), (bits, bits, bits)
        forms += [
            Form(f"add.{kind} d0, a0, a1;", two, bits, lambda a, b: a + b),
            Form(f"sub.{kind} d0, a0, a1;", two, bits, lambda a, b: a - b),
            Form(f"mul.lo.{kind} d0, a0, a1;", two, bits, lambda a, b: a * b),
            Form(f"mul.hi.{kind} d0, a0, a1;", two, bits, lambda a, b, n=bits, r=read: r(a) * r(b) >> n),
            Form(f"mad.lo.{kind} d0, a0, a1, a2;", three, bits, lambda a, b, c: a * b + c),
            Form(f"mad.hi.{kind} d0, a0, a1, a2;", three, bits, lambda a, b, c, n=bits, r=read: (r(a) * r(b) >> n) + r(c)),
            Form(f"min.{kind} d0, a0, a1;", two, bits, lambda a, b, r=read: min(r(a), r(b))),
            Form(f"max.{kind} d0, a0, a1;", two, bits, lambda a, b, r=read: max(r(a), r(b))),
            Form(f"sad.{kind} d0, a0, a1, a2;", three, bits, lambda a, b, c, r=read: abs(r(a) - r(b)) + r(c)),
            Form(f"div.{kind} d0, a0, a1;", two, bits, lambda a, b, r=read: _truncated(r(a), r(b)) if b else None),
            Form(f"rem.{kind} d0, a0, a1;", two, bits, lambda a, b, r=read: r(a) - r(b) * _truncated(r(a), r(b)) if b else None),
        ]
        if bits < 64:
            forms += [
                Form(f"mul.wide.{kind} d0, a0, a1;", two, 2 * bits, lambda a, b, r=read: r(a) * r(b)),
                Form(f"mad.wide.{kind} d0, a0, a1, a2;", (bits, bits, 2 * bits), 2 * bits, lambda a, b, c, r=read: r(a) * r(b) + c),
            ]
        if kind[0] == "s":
            forms += [Form(f"neg.{kind} d0, a0;", (bits,), bits, lambda a: -a),
                      Form(f"abs.{kind} d0, a0;", (bits,), bits, lambda a, r=read: abs(r(a)))]  # fmt: skip
    return forms


def _clamped(x: int) -> int:
    return min(max(x, -(2**31)), 2**31 - 1)


def _relu(x: int) -> int:
    return max(x, 0)


def _special_arithmetic() -> list[Form]:
    s = lambda x: signed(x, 32)  # noqa: E731
    low = {"u32": lambda x: x & 0xFFFFFF, "s32": lambda x: signed(x, 24)}
    forms = [
        Form("add.sat.s32 d0, a0, a1;", (32, 32), 32, lambda a, b: _clamped(s(a) + s(b))),
        Form("sub.sat.s32 d0, a0, a1;", (32, 32), 32, lambda a, b: _clamped(s(a) - s(b))),
        Form("mad.hi.sat.s32 d0, a0, a1, a2;", (32, 32, 32), 32, lambda a, b, c: _clamped((s(a) * s(b) >> 32) + s(c))),
        Form("min.relu.s32 d0, a0, a1;", (32, 32), 32, lambda a, b: _relu(min(s(a), s(b)))),
        Form("max.relu.s32 d0, a0, a1;", (32, 32), 32, lambda a, b: _relu(max(s(a), s(b)))),
        Form("mad24.hi.sat.s32 d0, a0, a1, a2;", (32, 32, 32), 32, lambda a, b, c: _clamped(s(signed(a, 24) * signed(b, 24) >> 16) + s(c))),
    ]
    for kind, read in low.items():
        forms += [
            Form(f"mul24.lo.{kind} d0, a0, a1;", (32, 32), 32, lambda a, b, r=read: r(a) * r(b)),
            Form(f"mul24.hi.{kind} d0, a0, a1;", (32, 32), 32, lambda a, b, r=read: r(a) * r(b) >> 16),
            Form(f"mad24.lo.{kind} d0, a0, a1, a2;", (32, 32, 32), 32, lambda a, b, c, r=read: r(a) * r(b) + c),
            Form(f"mad24.hi.{kind} d0, a0, a1, a2;", (32, 32, 32), 32, lambda a, b, c, r=read: (r(a) * r(b) >> 16) + c),
        ]
    return forms


def _pairwise(a: int, b: int, read: Callable[[int], int], op: Callable[[int, int], int]) -> int:
    halves = [op(read(a >> k & 0xFFFF), read(b >> k & 0xFFFF)) & 0xFFFF for k in (0, 16)]
    return halves[0] | halves[1] << 16


def _dot(a: int, b: int, c: int, kinds: tuple[str, str], width: int, first: int) -> int:
    count = 32 // width
    rows = [signed(a >> width * i, width) if kinds[0] == "s32" else a >> width * i & ((1 << width) - 1) for i in range(count)]
    cols = [signed(b >> 8 * i, 8) if kinds[1] == "s32" else b >> 8 * i & 255 for i in range(4)]
    return c + sum(x * y for x, y in zip(rows, cols[first:]))


def _packed() -> list[Form]:
    forms = []
    for kind in ("u16x2", "s16x2"):
        read = (lambda x: signed(x, 16)) if kind[0] == "s" else (lambda x: x)
        for name, op in (("add", lambda x, y: x + y), ("min", min), ("max", max)):
            forms.append(Form(f"{name}.{kind} d0, a0, a1;", (32, 32), 32, lambda a, b, r=read, f=op: _pairwise(a, b, r, f)))
            if kind == "s16x2" and name != "add":
                forms.append(
                    Form(
                        f"{name}.relu.{kind} d0, a0, a1;",
                        (32, 32),
                        32,
                        lambda a, b, r=read, f=op: _pairwise(a, b, r, lambda x, y: _relu(f(x, y))),
                    )
                )
    for a_kind in ("u32", "s32"):
        for b_kind in ("u32", "s32"):
            kinds = (a_kind, b_kind)
            forms.append(Form(f"dp4a.{a_kind}.{b_kind} d0, a0, a1, a2;", (32,) * 3, 32, lambda a, b, c, k=kinds: _dot(a, b, c, k, 8, 0)))
            for mode, first in (("lo", 0), ("hi", 2)):
                forms.append(
                    Form(
                        f"dp2a.{mode}.{a_kind}.{b_kind} d0, a0, a1, a2;",
                        (32,) * 3,
                        32,
                        lambda a, b, c, k=kinds, f=first: _dot(a, b, c, k, 16, f),
                    )
                )
    return forms


def _shifted(x: int, count: int, bits: int, kind: str) -> int:
    if kind == "shl":
        return x << count if count < bits else 0
    return signed(x, bits) >> min(count, bits) if kind == "s" else (x >> count if count < bits else 0)


def _lop3(table: int, a: int, b: int, c: int) -> int:
    return sum((table >> ((a >> i & 1) * 4 + (b >> i & 1) * 2 + (c >> i & 1)) & 1) << i for i in range(32))


def _logic() -> list[Form]:
    forms = []
    for bits in (16, 32, 64):
        two = (bits, bits)
        forms += [
            Form(f"and.b{bits} d0, a0, a1;", two, bits, lambda a, b: a & b), Form(f"or.b{bits} d0, a0, a1;", two, bits, lambda a, b: a | b),
            Form(f"xor.b{bits} d0, a0, a1;", two, bits, lambda a, b: a ^ b), Form(f"not.b{bits} d0, a0;", (bits,), bits, lambda a: ~a),
            Form(f"cnot.b{bits} d0, a0;", (bits,), bits, lambda a: int(a == 0)),
            Form(f"shl.b{bits} d0, a0, a1;", (bits, 32), bits, lambda a, b, n=bits: _shifted(a, b, n, "shl")),
            Form(f"shr.u{bits} d0, a0, a1;", (bits, 32), bits, lambda a, b, n=bits: _shifted(a, b, n, "u")),
            Form(f"shr.b{bits} d0, a0, a1;", (bits, 32), bits, lambda a, b, n=bits: _shifted(a, b, n, "u")),
            Form(f"shr.s{bits} d0, a0, a1;", (bits, 32), bits, lambda a, b, n=bits: _shifted(a, b, n, "s")),
        ]  # fmt: skip
    for table in (0x00, 0x01, 0x1E, 0x80, 0x96, 0xCA, 0xE8, 0xEA, 0xF8, 0xFE, 0xFF):
        forms.append(Form(f"lop3.b32 d0, a0, a1, a2, {table};", (32,) * 3, 32, lambda a, b, c, t=table: _lop3(t, a, b, c)))
    for way in "lr":
        for mode in ("clamp", "wrap"):
            forms.append(
                Form(f"shf.{way}.{mode}.b32 d0, a0, a1, a2;", (32,) * 3, 32, lambda a, b, c, w=way, m=mode: _funnel(a, b, c, w, m))
            )
    return forms


def _funnel(a: int, b: int, c: int, way: str, mode: str) -> int:
    n = c & 31 if mode == "wrap" else min(c, 32)
    word = b << 32 | a
    return word << n >> 32 if way == "l" else word >> n


def _bfe(x: int, pos: int, length: int, bits: int, is_signed: bool) -> int:
    """The ISA's pseudo code."""
    msb = bits - 1
    pos, length = pos & 0xFF, length & 0xFF
    sign = 0 if not is_signed or length == 0 else x >> min(pos + length - 1, msb) & 1
    result = 0
    for i in range(msb + 1):
        result |= (x >> pos + i & 1 if i < length and pos + i <= msb else sign) << i
    return result


def _bfi(a: int, b: int, pos: int, length: int, bits: int) -> int:
    result, pos, length = b, pos & 0xFF, length & 0xFF
    for i in range(length):
        if pos + i < bits:
            result = result & ~(1 << pos + i) | (a >> i & 1) << pos + i
    return result


def _bfind(x: int, bits: int, is_signed: bool, shift: bool) -> int:
    if is_signed and x >> bits - 1:
        x = ~x & ((1 << bits) - 1)
    found = x.bit_length() - 1
    return 0xFFFFFFFF if found < 0 else bits - 1 - found if shift else found


def _fns(mask: int, base: int, offset: int) -> int:
    base, offset = base & 31, signed(offset, 32)
    if offset == 0:
        return base if mask >> base & 1 else 0xFFFFFFFF
    left, step = abs(offset) - 1, 1 if offset > 0 else -1
    pos = base
    while 0 <= pos < 32:
        if mask >> pos & 1:
            if left == 0:
                return pos
            left -= 1
        pos += step
    return 0xFFFFFFFF


def _szext(a: int, b: int, is_signed: bool, wrap: bool) -> int:
    n = b & 31 if wrap else min(b, 32)
    low = a & ((1 << n) - 1)
    return low - (1 << n) if is_signed and n and low >> n - 1 else low


def _bmsk(a: int, b: int, wrap: bool) -> int:
    if wrap:
        a, b = a & 31, b & 31
    return sum(1 << i for i in range(a, min(a + b, 32))) if a < 32 else 0


def _fields() -> list[Form]:
    forms = []
    for bits in (32, 64):
        for kind in "us":
            forms.append(
                Form(f"bfe.{kind}{bits} d0, a0, a1, a2;", (bits, 32, 32), bits, lambda a, p, n, w=bits, s=kind == "s": _bfe(a, p, n, w, s))
            )
            for suffix in ("", ".shiftamt"):
                forms.append(
                    Form(
                        f"bfind{suffix}.{kind}{bits} d0, a0;",
                        (bits,),
                        32,
                        lambda a, w=bits, s=kind == "s", t=bool(suffix): _bfind(a, w, s, t),
                    )
                )
        forms += [
            Form(f"bfi.b{bits} d0, a0, a1, a2, a3;", (bits, bits, 32, 32), bits, lambda a, b, p, n, w=bits: _bfi(a, b, p, n, w)),
            Form(f"popc.b{bits} d0, a0;", (bits,), 32, lambda a: a.bit_count()), Form(f"clz.b{bits} d0, a0;", (bits,), 32, lambda a, w=bits: w - a.bit_length()),
            Form(f"brev.b{bits} d0, a0;", (bits,), bits, lambda a, w=bits: int(f"{a:0{w}b}"[::-1], 2)),
        ]  # fmt: skip
    forms.append(Form("and.b32 a1, a1, 31; fns.b32 d0, a0, a1, a2;", (32,) * 3, 32, _fns))
    for mode in ("clamp", "wrap"):
        for kind in "us":
            forms.append(
                Form(f"szext.{mode}.{kind}32 d0, a0, a1;", (32, 32), 32, lambda a, b, s=kind == "s", w=mode == "wrap": _szext(a, b, s, w))
            )
        forms.append(Form(f"bmsk.{mode}.b32 d0, a0, a1;", (32, 32), 32, lambda a, b, w=mode == "wrap": _bmsk(a, b, w)))
    return forms


FORMS = [*_arithmetic(), *_special_arithmetic(), *_packed(), *_logic(), *_fields()]
