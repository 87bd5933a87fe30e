"""Identities of integers as compilers write them: divisions by multiplication, shifts, masks, carries; positions of maxima."""

from __future__ import annotations

from identity_register import EQUAL, TWINS, WRONG, Case, equal, wrong
from normal_terms import Builder, Ids

from ptx_engine.terms import Op

# --- divisions ----------------------------------------------------------------------------------


def _high(b: Builder, x: int, factor: int, bits: int) -> int:
    """The upper half of a product, as an unsigned word."""
    return int(b.arena.emit(Op.FIELD, b.arena.mul(x, b.c(factor)), bits, bits))  # type: ignore[call-overload]


def _unsigned(divisor: int, magic: int, shift: int, bits: int = 32) -> Case:
    """x / d as umulhi(x, m) >> s."""

    def case(b: Builder) -> tuple[Ids, Ids]:
        (x,), a = b.inputs(1, f"u{bits}"), b.arena
        quotient = a.emit(Op.SHR, _high(b, x, magic, bits), b.c(shift))
        rest = a.sub(x, a.mul(quotient, b.c(divisor)))
        return [a.emit(Op.FLOORDIV, x, b.c(divisor)), a.emit(Op.TRUNCREM, x, b.c(divisor))], [quotient, rest]

    return case


# magic numbers: m = ceil(2^(32 + s) / d) (Warren, Hacker's Delight, 10-9)
EQUAL["unsigned division by 3"] = _unsigned(3, 0xAAAAAAAB, 1)
EQUAL["unsigned division by 5"] = _unsigned(5, 0xCCCCCCCD, 2)
EQUAL["unsigned division by 1000"] = _unsigned(1000, 0x10624DD3, 6)
EQUAL["unsigned division of 16 bits by 10"] = _unsigned(10, 0xCCCD, 3, 16)
WRONG["unsigned division by 3 with a magic number too small"] = _unsigned(3, 0xAAAAAAAA, 1)
WRONG["unsigned division by 7 in a magic number of 32 bits"] = _unsigned(7, 0x24924925, 0)


@equal
def unsigned_division_by_7(b: Builder) -> tuple[Ids, Ids]:
    """A magic number of 33 bits: t = umulhi(x, m); (((x - t) >> 1) + t) >> 2."""
    (x,), a = b.inputs(1, "u32"), b.arena
    t = _high(b, x, 0x24924925, 32)
    half = a.emit(Op.SHR, a.emit(Op.WRAP, a.sub(x, t), 32), 1)
    return [a.emit(Op.FLOORDIV, x, b.c(7))], [a.emit(Op.SHR, a.emit(Op.WRAP, a.add(half, t), 32), b.c(2))]


def _signed(divisor: int, magic: int, shift: int) -> Case:
    """x / d towards zero as mulhi(x, m) >> s, less the sign."""

    def case(b: Builder) -> tuple[Ids, Ids]:
        (x,), a = b.inputs(1, "s32"), b.arena
        high = a.emit(Op.WRAP, _high(b, x, magic, 32), -32)
        sign = a.emit(Op.FIELD, high, 31, 1)
        return [a.emit(Op.TRUNCDIV, x, b.c(divisor))], [a.add(a.emit(Op.SHR, high, b.c(shift)), sign)]

    return case


EQUAL["signed division by 3"] = _signed(3, 0x55555556, 0)
EQUAL["signed division by 5"] = _signed(5, 0x66666667, 1)
EQUAL["signed division by 1000"] = _signed(1000, 0x10624DD3, 6)
WRONG["signed division by 5 with one shift too many"] = _signed(5, 0x66666667, 2)


@equal
def signed_division_by_a_power_of_two(b: Builder) -> tuple[Ids, Ids]:
    """(x + ((x >> 31) >>> 29)) >> 3."""
    (x,), a = b.inputs(1, "s32"), b.arena
    sign = a.emit(Op.SHR, x, b.c(31))
    bias = a.emit(Op.FIELD, sign, 29, 3)
    return [a.emit(Op.TRUNCDIV, x, b.c(8))], [a.emit(Op.SHR, a.add(x, bias), b.c(3))]


@wrong
def signed_division_by_a_shift(b: Builder) -> tuple[Ids, Ids]:
    (x,), a = b.inputs(1, "s32"), b.arena
    return [a.emit(Op.TRUNCDIV, x, b.c(8))], [a.emit(Op.SHR, x, b.c(3))]


@wrong
def signed_division_without_the_sign(b: Builder) -> tuple[Ids, Ids]:
    (x,), a = b.inputs(1, "s32"), b.arena
    high = a.emit(Op.WRAP, _high(b, x, 0x55555556, 32), -32)
    return [a.emit(Op.TRUNCDIV, x, b.c(3))], [high]


@equal
def division_of_a_division(b: Builder) -> tuple[Ids, Ids]:
    (x,), a = b.inputs(1, "u32"), b.arena
    return [a.emit(Op.FLOORDIV, a.emit(Op.FLOORDIV, x, b.c(6)), b.c(35))], [a.emit(Op.FLOORDIV, x, b.c(210))]


@equal
def index_taken_apart_and_put_together(b: Builder) -> tuple[Ids, Ids]:
    """(i // n) * n + i % n = i."""
    (x,), a, n = b.inputs(1, "u32"), b.arena, b.c(48)
    return [x], [a.fma(a.emit(Op.FLOORDIV, x, n), n, a.emit(Op.TRUNCREM, x, n))]


# --- masks, shifts, carries ---------------------------------------------------------------------


@equal
def remainder_by_a_mask(b: Builder) -> tuple[Ids, Ids]:
    (x,), a = b.inputs(1, "u32"), b.arena
    rounded_up = a.emit(Op.BITAND, a.add(x, b.c(7)), b.c(-8))
    left = [a.emit(Op.TRUNCREM, x, b.c(16)), a.mul(a.emit(Op.FLOORDIV, a.add(x, b.c(7)), b.c(8)), b.c(8))]
    return left, [a.emit(Op.BITAND, x, b.c(15)), rounded_up]


@wrong
def remainder_of_a_signed_value_by_a_mask(b: Builder) -> tuple[Ids, Ids]:
    (x,), a = b.inputs(1, "s32"), b.arena
    return [a.emit(Op.TRUNCREM, x, b.c(16))], [a.emit(Op.BITAND, x, b.c(15))]


@equal
def bits_by_logic_and_by_arithmetic(b: Builder) -> tuple[Ids, Ids]:
    x, y, z = b.inputs(3, "u8")
    a = b.arena
    whole = b.c(255)
    left = [
        a.emit(Op.BITXOR, x, whole), a.emit(Op.BITOR, x, b.c(12)), a.emit(Op.BITOR, a.mul(x, b.c(256)), y),
        a.emit(Op.BITXOR, a.emit(Op.BITXOR, x, y), y), a.emit(Op.BITAND, a.emit(Op.BITAND, x, y), z),
        a.emit(Op.BITOR, x, a.emit(Op.BITOR, y, a.emit(Op.BITOR, x, z))),
    ]  # fmt: skip
    right = [
        a.sub(whole, x), a.add(a.sub(x, a.emit(Op.BITAND, x, b.c(12))), b.c(12)), a.fma(x, b.c(256), y), x,
        a.emit(Op.BITAND, a.emit(Op.BITAND, z, x), y), a.emit(Op.BITOR, a.emit(Op.BITOR, z, y), x),
    ]  # fmt: skip
    return left, right


@wrong
def bits_added_that_overlap(b: Builder) -> tuple[Ids, Ids]:
    x, y = b.inputs(2, "u8")
    a = b.arena
    return [a.emit(Op.BITOR, a.mul(x, b.c(128)), y)], [a.fma(x, b.c(128), y)]


@equal
def word_of_four_bytes(b: Builder) -> tuple[Ids, Ids]:
    """Bytes packed by shifts and taken out again, in the other order of significance."""
    x, a = b.inputs(4, "u8"), b.arena
    word = 0
    for i, v in enumerate(x):
        word = a.emit(Op.BITOR, word, a.emit(Op.SHL, v, b.c(8 * i))) if i else v
    again = [a.emit(Op.FIELD, word, 8 * i, 8) for i in range(4)]
    swapped = a.emit(Op.WRAP, a.emit(Op.SHR, word, b.c(8)), 16)
    return [*x, a.fma(x[2], b.c(256), x[1])], [*again, swapped]


@wrong
def word_with_two_bytes_exchanged(b: Builder) -> tuple[Ids, Ids]:
    x, a = b.inputs(2, "u8"), b.arena
    word = a.emit(Op.BITOR, x[0], a.emit(Op.SHL, x[1], b.c(8)))
    return [x[0]], [a.emit(Op.FIELD, word, 8, 8)]


def _sum_of_words(lose_carry: bool = False) -> Case:
    """64-bit sums by halves of 32 bits with a carry (add.cc, addc)."""

    def case(b: Builder) -> tuple[Ids, Ids]:
        x, a, word = b.inputs(4, "s64"), b.arena, b.c(1 << 32)
        low, high = a.emit(Op.FIELD, x[0], 0, 32), a.emit(Op.FIELD, x[0], 32, 32)
        for v in x[1:]:
            total = a.add(low, a.emit(Op.FIELD, v, 0, 32))
            carry = 0 if lose_carry else a.emit(Op.SHR, total, b.c(32))
            low = a.emit(Op.WRAP, total, 32)
            high = a.emit(Op.WRAP, a.add(a.add(high, a.emit(Op.FIELD, v, 32, 32)), carry), 32)
        return [a.emit(Op.WRAP, b.total(x), -64)], [a.emit(Op.WRAP, a.fma(high, word, low), -64)]

    return case


EQUAL["64-bit sum by halves with carries"] = _sum_of_words()
WRONG["64-bit sum without the carries"] = _sum_of_words(lose_carry=True)


@equal
def sign_extension_by_shifts(b: Builder) -> tuple[Ids, Ids]:
    """(x << 24) >> 24 of a 32-bit word, (x ^ 0x80) - 0x80."""
    (x,), a = b.inputs(1, "u8"), b.arena
    shifted = a.emit(Op.SHR, a.emit(Op.WRAP, a.emit(Op.SHL, x, b.c(24)), -32), b.c(24))
    return [a.emit(Op.WRAP, x, -8)] * 2, [shifted, a.sub(a.emit(Op.BITXOR, x, b.c(128)), b.c(128))]


@wrong
def zero_extension_for_sign_extension(b: Builder) -> tuple[Ids, Ids]:
    (x,), a = b.inputs(1, "u8"), b.arena
    return [a.emit(Op.WRAP, x, -8)], [x]


# --- positions of maxima ------------------------------------------------------------------------

Pair = tuple[int, int]


def _better(b: Builder, p: Pair, q: Pair, *, least: bool = False, last: bool = False, settle: bool = True) -> Pair:
    """Triton's argmax and argmin: the greater value, the smaller position at a tie."""
    a = b.arena
    above = a.compare(Op.LT, p[0], q[0]) if least else a.compare(Op.LT, q[0], p[0])
    if settle:
        first = a.compare(Op.LT, q[1], p[1]) if last else a.compare(Op.LT, p[1], q[1])
        above = a.logic(Op.OR, above, a.logic(Op.AND, a.compare(Op.EQ, p[0], q[0]), first))
    return a.select(above, p[0], q[0]), a.select(above, p[1], q[1])  # type: ignore[return-value]


def _argmax(count: int, *, least: bool = False, wrong_tie: bool = False, settle: bool = True) -> Case:
    """Position and value, from the left against by halves as a warp's shuffles have it."""

    def case(b: Builder) -> tuple[Ids, Ids]:
        x = b.inputs(count)
        pairs = [(v, b.c(i)) for i, v in enumerate(x)]
        serial = pairs[0]
        for pair in pairs[1:]:
            serial = _better(b, serial, pair, least=least)
        lanes = list(pairs)
        step = count // 2
        while step:
            lanes = [_better(b, lanes[i], lanes[i ^ step], least=least, last=wrong_tie, settle=settle) for i in range(count)]
            step //= 2
        return [*serial] * 2, [*lanes[0], *lanes[count - 1]]

    return case


for _count in (2, 4, 16, 64):
    EQUAL[f"argmax of {_count}"] = _argmax(_count)
for _count in (8, 64):
    EQUAL[f"argmin of {_count}"] = _argmax(_count, least=True)
WRONG["argmax with the last position at ties"] = _argmax(4, wrong_tie=True)
WRONG["argmax that leaves ties to the order"] = _argmax(4, settle=False)


def _settled_apart(b: Builder, p: Pair, q: Pair, spelling: str, last: bool) -> Pair:
    """The same with the tie settled by a selection of its own, before, between or behind the comparison of the values."""
    a = b.arena
    (x, i), (y, j) = p, q
    first = a.compare(Op.LT, j, i) if last else a.compare(Op.LT, i, j)
    equal_, greater, less = a.compare(Op.EQ, x, y), a.compare(Op.LT, y, x), a.compare(Op.LT, x, y)
    tie = a.select(first, i, j)
    position = {
        "first": lambda: a.select(equal_, tie, a.select(greater, i, j)),
        "inside": lambda: a.select(greater, i, a.select(equal_, tie, j)),
        "inside the other": lambda: a.select(less, j, a.select(equal_, tie, i)),
        "unequal": lambda: a.select(a.compare(Op.NE, x, y), a.select(less, j, i), tie),
    }[spelling]()
    return a.maximum(x, y), position  # type: ignore[return-value]


def _argmax_settled_apart(spelling: str, count: int = 8, last: bool = False) -> Case:
    def case(b: Builder) -> tuple[Ids, Ids]:
        pairs = [(v, b.c(i)) for i, v in enumerate(b.inputs(count))]
        serial, lanes = pairs[0], list(pairs)
        for pair in pairs[1:]:
            serial = _better(b, serial, pair)
        step = count // 2
        while step:
            lanes = [_settled_apart(b, lanes[i], lanes[i ^ step], spelling, last) for i in range(count)]
            step //= 2
        return [*serial] * 2, [*lanes[0], *lanes[count - 1]]

    return case


for _spelling in ("first", "inside", "inside the other", "unequal"):
    EQUAL[f"argmax with ties settled {_spelling}"] = _argmax_settled_apart(_spelling)
    WRONG[f"argmax with ties settled {_spelling}, for the last one"] = _argmax_settled_apart(_spelling, 4, last=True)
    TWINS[f"argmax with ties settled {_spelling}"] = f"argmax with ties settled {_spelling}, for the last one"


@equal
def argmax_of_sorted_runs_without_comparing_positions(b: Builder) -> tuple[Ids, Ids]:
    """From the left, `>=` keeps the first; only positions that were not in order have to be compared."""
    x, a = b.inputs(6), b.arena
    pairs = [(v, b.c(i)) for i, v in enumerate(x)]
    left = pairs[0]
    for pair in pairs[1:]:
        keep = a.compare(Op.LE, pair[0], left[0])
        left = a.select(keep, left[0], pair[0]), a.select(keep, left[1], pair[1])
    right = pairs[5]
    for pair in pairs[4::-1]:
        right = _better(b, pair, right)
    return [*left], [*right]


@wrong
def argmax_with_the_later_one_kept(b: Builder) -> tuple[Ids, Ids]:
    (x, y), a = b.inputs(2), b.arena
    left, right = (a.select(a.compare(op, y, x), 0, 1) for op in (Op.LE, Op.LT))
    return [left], [right]
