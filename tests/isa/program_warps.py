"""Cases of warps: what lanes give each other, by plain Python over 32 lanes; moves of what one instruction reads besides registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from itertools import product
from math import inf, nan

import numpy as np
from float_model import FORMATS
from integer_model import signed
from program_cases import Block, Column, Group
from program_memory import words

LANES = 32
ALL = range(LANES)


def beside(first: Block, second: Block) -> Block:
    """Two warps that do the same on other values."""

    def joined(a: Column, b: Column) -> Column:
        return Column(a.bits, a.numbers + b.numbers)

    operands = {name: (kind, joined(column, second.operands[name][1])) for name, (kind, column) in first.operands.items()}
    groups = [replace(a, expected={name: joined(x, b.expected[name]) for name, x in a.expected.items()})
              for a, b in zip(first.groups, second.groups, strict=True)]  # fmt: skip
    return Block(2 * LANES, operands, groups)


def pairs(blocks: Sequence[Block]) -> list[Block]:
    """Each block beside the next one."""
    return [beside(a, b) for a, b in zip(blocks, [*blocks[1:], blocks[0]])]


def shuffled(mode: str, values: Sequence[int], b: int, c: int) -> tuple[list[int], list[int]]:
    """The ISA's pseudo code: what each lane gets, and whether its source lane was in range."""
    clamp, segment = c & 31, c >> 8 & 31
    found, valid = [], []
    for lane in ALL:
        highest = (lane & segment) | (clamp & ~segment & 31)
        lowest = lane & segment
        b5 = b & 31
        if mode == "up":
            j, ok = lane - b5, lane - b5 >= highest
        elif mode == "down":
            j, ok = lane + b5, lane + b5 <= highest
        elif mode == "bfly":
            j, ok = lane ^ b5, (lane ^ b5) <= highest
        else:
            j = lowest | (b5 & ~segment & 31)
            ok = j <= highest
        found.append(values[j if ok else lane])
        valid.append(int(ok))
    return found, valid


def shuffles() -> list[Block]:
    """Whole warps and segments, distances at and beyond the warp; then a source lane of each lane's own."""
    return [beside(_shuffle_block(words("shfl", 32, LANES), 7), _shuffle_block(words("other", 32, LANES), 11))]


def _shuffle_block(values: tuple[int, ...], step: int) -> Block:
    groups = []
    for mode, (b, c) in product(
        ("up", "down", "bfly", "idx"), ((1, 0), (1, 31), (16, 31), (3, 0x1807), (5, 0x1C03), (31, 31), (0, 0), (33, 31))
    ):
        found, valid = shuffled(mode, values, b, c)
        run = f"{{form}} %d0|%t0, %v0, {b}, {c}, 0xFFFFFFFF;"
        groups.append(Group((run,), (f"shfl.sync.{mode}.b32",), {"d": Column(32, tuple(found)), "t": Column(1, tuple(valid))}))
    sources = tuple(step * lane % 32 for lane in ALL)
    wanted = Column(32, tuple(values[s] for s in sources))
    groups.append(Group(("{form} %d0, %v0, %s0, 31, 0xFFFFFFFF;",), ("shfl.sync.idx.b32",), {"d": wanted}))
    return Block(LANES, {"v": ("in", Column(32, values)), "s": ("in", Column(32, sources))}, groups)


def votes() -> list[Block]:
    """Predicates of all lanes alike, of one lane other than the rest, mixed; negated ones; half of the lanes while the others are elsewhere."""
    blocks = []
    for q in ((1,) * 32, (0,) * 32, (0,) * 31 + (1,), (1,) * 31 + (0,), tuple(lane % 3 % 2 for lane in ALL)):
        groups = []
        for sign, row in (("", q), ("!", tuple(1 - x for x in q))):
            for mode, result in (("all", all(row)), ("any", any(row)), ("uni", len(set(row)) == 1)):
                groups.append(
                    Group((f"{{form}} %t0, {sign}%q_0, 0xFFFFFFFF;",), (f"vote.sync.{mode}.pred",), {"t": Column(1, (int(result),) * 32)})
                )
            ballot = sum(x << lane for lane, x in enumerate(row))
            groups.append(Group((f"{{form}} %d0, {sign}%q_0, 0xFFFFFFFF;",), ("vote.sync.ballot.b32",), {"d": Column(32, (ballot,) * 32)}))
        ballot = sum(x << lane for lane, x in enumerate(q) if lane % 2 == 0)
        run = "and.b32 %r1, %lane, 1; setp.ne.u32 %p1, %r1, 0; mov.b32 %d0, 7; @%p1 bra ODD; {form} %d0, %q_0, 0x55555555; ODD:"
        groups.append(Group((run,), ("vote.sync.ballot.b32",), {"d": Column(32, tuple(7 if lane % 2 else ballot for lane in ALL))}))
        blocks.append(Block(LANES, {"q_": ("in", Column(1, q))}, groups))
    return pairs(blocks)


def matches() -> list[Block]:
    """Few values, one value, all different."""
    return [block for bits in (32, 64) for block in pairs(_match_blocks(bits))]


def _match_blocks(bits: int) -> list[Block]:
    blocks = []
    top = 1 << bits - 1
    for row in (tuple(top + lane % 3 for lane in ALL), (9,) * 32, tuple(top - lane for lane in ALL)):
        masks = Column(32, tuple(sum(1 << j for j in ALL if row[j] == v) for v in row))
        same = len(set(row)) == 1
        every = {"d": Column(32, (0xFFFFFFFF if same else 0,) * 32), "t": Column(1, (int(same),) * 32)}
        blocks.append(Block(LANES, {"v": ("in", Column(bits, row))}, [
            Group(("{form} %d0, %v0, 0xFFFFFFFF;",), (f"match.any.sync.b{bits}",), {"d": masks}),
            Group(("{form} %d0|%t0, %v0, 0xFFFFFFFF;",), (f"match.all.sync.b{bits}",), every)]))  # fmt: skip
    return blocks


REDUCTIONS: list[tuple[str, Callable[[Sequence[int]], int]]] = [
    ("add.u32", sum), ("add.s32", sum), ("min.u32", min), ("max.u32", max), ("min.s32", lambda row: min(signed(x, 32) for x in row)),
    ("max.s32", lambda row: max(signed(x, 32) for x in row)), ("and.b32", lambda row: reduce(lambda x, y: x & y, row)),
    ("or.b32", lambda row: reduce(lambda x, y: x | y, row)), ("xor.b32", lambda row: reduce(lambda x, y: x ^ y, row)),
]  # fmt: skip


def reductions() -> list[Block]:
    """Integers; floats with and without NaN among them, all NaN, and zeros of both signs."""
    blocks = []
    for row in (words("redux", 32, LANES), tuple(range(0xFFFFFFF0, 0xFFFFFFF0 + 16)) * 2):
        groups = [
            Group(("{form} %d0, %v0, 0xFFFFFFFF;",), (f"redux.sync.{op}",), {"d": Column(32, (model(row) % 2**32,) * 32)})
            for op, model in REDUCTIONS
        ]
        blocks.append(Block(LANES, {"v": ("in", Column(32, row))}, groups))
    return [*pairs(blocks), *pairs(_float_reductions())]


def _float_reductions() -> list[Block]:
    blocks = []
    usual = [(-1) ** i * (i + 0.5) for i in range(32)]
    fmt = FORMATS["f32"]
    for numbers in (usual, [nan, *usual[1:]], [nan] * 32, [inf, -inf, *usual[2:]]):
        groups = []
        for op, size, mark in product(("min", "max"), ("", ".abs"), ("", ".NaN")):
            known = [abs(x) if size else x for x in numbers if x == x]
            poisoned = not known or (mark and len(known) < 32)
            bits = fmt.nan if poisoned else int(np.float32((min if op == "min" else max)(known)).view(np.uint32))
            groups.append(Group(("{form} %d0, %v0, 0xFFFFFFFF;",), (f"redux.sync.{op}{size}{mark}.f32",), {"d": Column(32, (bits,) * 32)}))
        column = Column(32, tuple(np.array(numbers, np.float32).view(np.uint32).tolist()))
        blocks.append(Block(LANES, {"v": ("in", column)}, groups))
    return blocks


def elections() -> list[Block]:
    """The ISA leaves open which lane is chosen: it is one of the mask, the same for all."""
    run = (
        "{form} %r1|%p1, 0xFFFFFFFF; vote.sync.ballot.b32 %r2, %p1, 0xFFFFFFFF; popc.b32 %d0, %r2; shl.b32 %r3, 1, %r1; "
        "setp.eq.u32 %one0, %r3, %r2;"
    )
    groups = [Group((run,), ("elect.sync",), {"d": Column(32, (1,) * 32), "one": Column(1, (1,) * 32)})]
    return pairs([Block(LANES, {}, groups)])


def active() -> list[Block]:
    """All lanes, and the even ones while the odd ones are elsewhere."""
    text = "and.b32 %r1, %lane, 1; setp.ne.u32 %p1, %r1, 0; mov.b32 %d0, 0; @%p1 bra ODD; {form} %d0; ODD:"
    some = Column(32, tuple(0 if lane % 2 else 0x55555555 for lane in ALL))
    every = Column(32, (0xFFFFFFFF,) * 32)
    groups = [Group(("{form} %d0;",), ("activemask.b32",), {"d": every}), Group((text,), ("activemask.b32",), {"d": some})]
    return pairs([Block(LANES, {}, groups)])


#: special registers of thread t of 64, in a block and a grid of one dimension
SPECIAL: dict[str, Callable[[int], int]] = {
    "%tid.x": lambda t: t, "%tid.y": lambda t: 0, "%tid.z": lambda t: 0, "%ntid.x": lambda t: 64, "%ntid.y": lambda t: 1, "%ntid.z": lambda t: 1,
    "%ctaid.x": lambda t: 0, "%ctaid.y": lambda t: 0, "%ctaid.z": lambda t: 0, "%nctaid.x": lambda t: 1, "%nctaid.y": lambda t: 1, "%nctaid.z": lambda t: 1,
    "%laneid": lambda t: t % 32, "%warpid": lambda t: t // 32, "%nwarpid": lambda t: 2,
    "%lanemask_eq": lambda t: 1 << t % 32, "%lanemask_le": lambda t: (2 << t % 32) - 1, "%lanemask_lt": lambda t: (1 << t % 32) - 1,
    "%lanemask_ge": lambda t: 2**32 - (1 << t % 32), "%lanemask_gt": lambda t: 2**32 - (2 << t % 32), "WARP_SZ": lambda t: 32,
}  # fmt: skip


def moves() -> list[Block]:
    """Vectors into a register and out of it, 128 bits, special registers, addresses of variables."""
    groups = []
    for width, element, count in ((32, 16, 2), (64, 32, 2), (64, 16, 4), (128, 64, 2)):
        names = {side: ", ".join(f"%{side}{i}" for i in range(count)) for side in (f"v{element}_", "d")}
        big = {32: "%r1", 64: "%q1", 128: "%wide1"}[width]
        column = Column(element, words("mov", element, 64 * count))
        text = f"{{form}} {big}, {{{names[f'v{element}_']}}}; {{form}} {{{names['d']}}}, {big};"
        groups.append((element, count, Group((text,), (f"mov.b{width}",), {"d": column})))
    blocks = [Block(64, {f"v{element}_": ("in", group.expected["d"])}, [group]) for element, _, group in groups]
    wide = Column(128, words("wide", 128, 64))
    blocks.append(Block(64, {"v": ("in", wide)}, [Group(("{form} %d0, %v0;",), ("mov.b128",), {"d": wide})]))
    special = [Group((f"{{form}} %d0, {name};",), ("mov.u32", "mov.b32"), {"d": Column(32, tuple(model(t) for t in range(64)))})
               for name, model in SPECIAL.items()]  # fmt: skip
    q = Column(1, tuple(t % 3 % 2 for t in range(64)))
    special.append(Group(("{form} %t0, %b0;",), ("mov.pred",), {"t": q}))
    return [*blocks, Block(64, {"b": ("in", q)}, special), _variables()]


def _variables() -> Block:
    """The address of a variable, and of what lies behind it; an array of addresses."""
    module = (
        ".global .align 8 .b32 numbers[4] = {11, 22, 33, 44};", ".const .align 8 .b32 fixed[3] = {5, 6, 7};",
        ".global .align 8 .u64 places[2] = {numbers, numbers+8};",
    )  # fmt: skip
    groups = [
        Group(("{form} %q1, numbers; ld.global.b32 %d0, [%q1+4];",), ("mov.u64", "mov.b64"), {"d": Column(32, (22,))}),
        Group(("{form} %q1, numbers+12; ld.global.b32 %d0, [%q1];",), ("mov.u64", "mov.b64"), {"d": Column(32, (44,))}),
        Group(("{form} %q1, fixed; ld.const.b32 %d0, [%q1+8];",), ("mov.u64", "mov.b64"), {"d": Column(32, (7,))}),
        Group(
            ("{form} %q1, places; ld.global.b64 %q2, [%q1+8]; cvta.to.global.u64 %q2, %q2; ld.global.b32 %d0, [%q2];",),
            ("mov.u64",),
            {"d": Column(32, (33,))},
        ),
    ]
    return Block(1, {}, groups, module)
