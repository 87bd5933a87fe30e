"""Cases of memory: loads, stores, atomics, copies, addresses, hints and carries. What should come out is bytes moved, and Python's arithmetic."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import product

import numpy as np
from access_table import Access, Atomic, atomics, cached, plain
from float_model import FORMATS, calculate
from form_model import parts
from form_table import EXTENDED, WIDTHS, Legal, forms
from integer_model import signed
from program_cases import Block, Column, Group

THREADS = 4
_KINDS = {"": "global", "global": "global", "shared": "shared", "shared::cta": "shared", "local": "local", "const": "const"}
EVICTIONS = ("L2::evict_last", "L2::evict_normal", "L2::evict_first", "L2::evict_unchanged")


def words(name: str, bits: int, count: int) -> tuple[int, ...]:
    """Numbers of any bits, the same each time, all ones and the sign bit alone among them."""
    rng = np.random.default_rng([ord(c) for c in name] + [bits, count])
    found = [int.from_bytes(rng.bytes(16), "little") >> (128 - bits) for _ in range(count)]
    found[:2] = [(1 << bits) - 1, 1 << (bits - 1)][:count]
    return tuple(found)


def vector(name: str, length: int) -> str:
    names = [f"%{name}{i}" for i in range(length)]
    return names[0] if length == 1 else "{" + ", ".join(names) + "}"


# --- loads and stores -----------------------------------------------------------------------------


def accesses() -> list[Block]:
    """Blocks of ld and st, by length and width; loads of one number extend it to 64 bits."""
    every = [access for pair in (*plain(), *cached()) for access in pair]
    every += [
        Access("ld", (), "const", (), n, t) for n in (1, 2, 4) for t in WIDTHS if t[0] in "busf" and n * WIDTHS[t] <= 128 and t in LOADED
    ]
    shapes = defaultdict(list)
    for access in dict.fromkeys(every):
        shapes[access.length, WIDTHS[access.type]].append(access)
    return [_access_block(length, width, members) for (length, width), members in sorted(shapes.items())]


LOADED = frozenset(["b8", "b16", "b32", "b64", "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "f32", "f64", "b128"])


def _access_block(length: int, width: int, members: list[Access]) -> Block:
    value, memory = (Column(width, words(name, width, THREADS * length)) for name in ("v", "m"))
    kinds = dict.fromkeys(_KINDS[access.space] for access in members)
    names = {kind: kind[0] for kind in kinds}
    operands = {"v": ("in", value)} | {name: (kind, memory) for kind, name in names.items()}
    groups: dict[tuple[str, ...], list[Access]] = defaultdict(list)
    for access in members:
        generic_too = [""] if access.space or length * width > 128 or "mmio" in access.before else ["", "cvta.shared.u64 %s, %s; "]
        for make in generic_too:
            kind = "shared" if make else _KINDS[access.space]
            wide = access.opcode == "ld" and length == 1 and width <= 64 and access.type[0] != "f"
            groups[access.opcode, kind, make, access.type[0] if wide else "", (access.hinted and "hinted") or ""].append(access)
    if any(make for _, _, make, _, _ in groups):
        operands |= {"s": ("shared", memory)}
    return Block(THREADS, operands, [_access_group(key, found, length, width) for key, found in groups.items()])


def _access_group(key: tuple[str, ...], members: list[Access], length: int, width: int) -> Group:
    opcode, kind, make, extended, hinted = key
    name, policy = kind[0], ", %policy" if hinted else ""
    value, memory = (Column(width, words(x, width, THREADS * length)) for x in ("v", "m"))
    mnemonics = tuple(dict.fromkeys(access.mnemonic for access in members))
    back = "cvta.to.shared.u64 %s, %s;" if make else ""
    if opcode == "st":
        return Group((f"{make}{{form}} [%{name}], {vector('v', length)}{policy}; {back}".strip(),), mnemonics, {name: value})
    text = f"{make}{{form}} {vector('d', length)}, [%{name}]{policy}; {back}".strip()
    if not extended:
        return Group((text,), mnemonics, {"d": memory})
    numbers = [signed(int(x), width) % 2**64 if extended == "s" else x for x in memory.numbers]  # type: ignore[arg-type]
    return Group((text,), mnemonics, {"d": Column(64, tuple(numbers))})


def parameters() -> list[Block]:
    """st.param and ld.param around a call, and in the function that is called."""
    groups, module = [], []
    types = [t for t in sorted(LOADED) if t != "b128"]
    for n, t in ((n, t) for n in (1, 2, 4) for t in types if n * WIDTHS[t] <= 128):
        name, v = f"f{n}{t}", f".v{n}" if n > 1 else ""
        size, width = n * WIDTHS[t] // 8, max(16, WIDTHS[t])
        shape = f".param .align 16 .b8 {{}}[{size}]"
        module.append(
            f".func ({shape.format('r0')}) {name}({shape.format('p0')}) {{ .reg .b{width} %x<4>; ld.param{v}.{t} {vector('x', n)}, [p0]; "
            f"st.param{v}.{t} [r0], {vector('x', n)}; ret; }}"
        )
        stored, loaded = f"st.param{v}.{t} [a], {vector(f'v{WIDTHS[t]}_', n)};", f"ld.param{v}.{t} {vector('d', n)}, [b];"
        text = f"{shape.format('a')}; {shape.format('b')}; {stored} call.uni (b), {name}, (a); {loaded}"
        column = words("p", WIDTHS[t], THREADS * 4)
        wanted = tuple(column[4 * thread + i] for thread in range(THREADS) for i in range(n))
        groups.append(Group((text,), (), {"d": Column(WIDTHS[t], wanted)}))
    operands = {f"v{w}_": ("in", Column(w, words("p", w, THREADS * 4))) for w in (8, 16, 32, 64)}
    return [Block(THREADS, operands, groups, tuple(module))]


UNIFORM = [
    (f"ldu{space}{vector}.{t}", n, t)
    for space in ("", ".global") for n, vector in ((1, ""), (2, ".v2"), (4, ".v4")) for t in sorted(LOADED) if n * WIDTHS[t] <= 128
]  # fmt: skip


def uniform() -> list[Block]:
    """Every thread reads the same."""
    shapes = defaultdict(list)
    for form, n, t in UNIFORM:
        shapes[n, WIDTHS[t]].append(form)
    blocks = []
    for (n, width), members in shapes.items():
        memory = Column(width, words("u", width, THREADS * n))
        wanted = Column(width, memory.numbers[:n] * THREADS)
        blocks.append(
            Block(THREADS, {"g": ("global", memory)}, [Group((f"{{form}} {vector('d', n)}, [%all_g];",), tuple(members), {"d": wanted})])
        )
    return blocks


# --- atomics --------------------------------------------------------------------------------------


def updated(form: Atomic, memory: int, value: int, other: int) -> int:
    """What one element of the cell becomes."""
    kind = form.type
    if kind.removesuffix("x2") in FORMATS:
        fmt = FORMATS[kind.removesuffix("x2")]
        results = []
        for m, v in zip(parts(memory, kind), parts(value, kind)):
            a, b = fmt.value(m), fmt.value(v)
            results.append(
                calculate(fmt, "add", "rn", m, v) if form.operation == "add" else m if (a < b) == (form.operation == "min") else v
            )
        return sum(r << i * WIDTHS[kind] // len(results) for i, r in enumerate(results))
    read = (lambda x: signed(x, WIDTHS[kind])) if kind[0] == "s" else (lambda x: x)
    table = {
        "and": lambda: memory & value, "or": lambda: memory | value, "xor": lambda: memory ^ value, "add": lambda: memory + value,
        "inc": lambda: 0 if memory >= value else memory + 1, "dec": lambda: value if memory == 0 or memory > value else memory - 1,
        "min": lambda: min(memory, value, key=read), "max": lambda: max(memory, value, key=read), "exch": lambda: value,
        "cas": lambda: other if memory == value else memory,
    }  # fmt: skip
    return table[form.operation]() % (1 << WIDTHS[kind])


def _atomic_words(kind: str, count: int) -> tuple[tuple[int, ...], ...]:
    """Memory, operand and third operand: floats are eighths; of integers some operands are what stands in memory, some memory is zero."""
    if kind.removesuffix("x2") in FORMATS:
        fmt, halves, rng = FORMATS[kind.removesuffix("x2")], 2 if kind.endswith("x2") else 1, np.random.default_rng(count)
        rows = []
        for _ in range(3):
            values = (rng.integers(-64, 64, (count, halves)) / 8).astype(fmt.dtype).view(fmt.uint)
            rows.append(tuple(sum(int(h) << i * WIDTHS[kind] // halves for i, h in enumerate(row)) for row in values))
        return tuple(rows)
    memory, value, other = (words(name, WIDTHS[kind], count) for name in ("memory", "value", "other"))
    value = tuple(m if i % 3 == 0 else v for i, (m, v) in enumerate(zip(memory, value)))
    return tuple(0 if i % 7 == 4 else m for i, m in enumerate(memory)), value, other


def atomic(opcode: str) -> list[Block]:
    """Each thread has a cell; a block for every type and length."""
    shapes = defaultdict(list)
    for form in atomics():
        if form.opcode == opcode:
            shapes[form.type, form.length].append(form)
    return [_atomic_block(kind, length, members) for (kind, length), members in shapes.items()]


def _atomic_block(kind: str, length: int, members: list[Atomic]) -> Block:
    threads = 8
    memory, value, other = (Column(WIDTHS[kind], x) for x in _atomic_words(kind, threads * length))
    groups: dict[tuple[str, bool, bool], list[Atomic]] = defaultdict(list)
    for form in members:
        groups[form.operation, form.shared, "L2::cache_hint" in form.modifiers].append(form)
    operands = {"v": ("in", value), "w": ("in", other), "g": ("global", memory)}
    if any(shared for _, shared, _ in groups):
        operands["s"] = "shared", memory
    found = []
    for (operation, shared, hinted), forms_ in groups.items():
        name = "s" if shared else "g"
        sources = [f"[%{name}]", vector("v", length)] + [vector("w", length)] * (operation == "cas") + ["%policy"] * hinted
        result = {name: Column(memory.bits, tuple(updated(forms_[0], *x) for x in zip(memory.numbers, value.numbers, other.numbers)))}  # type: ignore[arg-type]
        if forms_[0].opcode == "atom":
            sources.insert(0, vector("o", length))
            result["o"] = memory
        found.append(Group((f"{{form}} {', '.join(sources)};",), tuple(dict.fromkeys(form.mnemonic for form in forms_)), result))
    return Block(threads, operands, found)


# --- asynchronous copies --------------------------------------------------------------------------


def copies() -> list[Block]:
    """cp.async of all sizes, of a part of them (the rest is zeros) and of nothing."""
    source, before = (Column(8, words(name, 8, THREADS * 16)) for name in ("source", "before"))
    groups = []
    for size, policy in product((4, 8, 16), ("", ", %policy")):
        names = tuple(
            f"cp.async.{cache}.{space}.global{'.L2::cache_hint' if policy else ''}{prefetch}"
            for cache in (("ca", "cg") if size == 16 else ("ca",)) for space in ("shared", "shared::cta")
            for prefetch in ("", ".L2::64B", ".L2::128B", ".L2::256B")
        )  # fmt: skip
        for last, copied in (("", size), (f", {size // 2}", size // 2), (", 0", 0), (", %p1", 0), (", %p2", size)):
            numbers = list(before.numbers)
            for thread in range(THREADS):
                at = 16 * thread
                numbers[at : at + size] = [*source.numbers[at : at + copied], *([0] * (size - copied))]
            wait = "cp.async.wait_all;" if size == 8 else "cp.async.commit_group; cp.async.wait_group 0;"
            text = f"setp.eq.u32 %p1, %lane, %lane; setp.ne.u32 %p2, %lane, %lane; {{form}} [%s], [%g], {size}{last}{policy}; {wait}"
            groups.append(Group((text,), names, {"s": Column(8, tuple(numbers))}))
    blocks = [Block(THREADS, {"g": ("global", source), "s": ("shared", before)}, groups)]
    return [*blocks, _arrivals()]


def _arrivals() -> Block:
    """cp.async.mbarrier.arrive: one arrival counted from before, or one more that it adds itself (and takes back) without .noinc."""
    groups = []
    for noinc, space in product(("", ".noinc"), ("", ".shared", ".shared::cta")):
        make = "" if space else "cvta.shared.u64 %q1, %s; "
        text = (
            f"mbarrier.init.shared.b64 [%s], {2 if noinc else 1}; mov.b64 %q1, %s; {make}"
            "cp.async.ca.shared.global [%s+8], [%g], 8; {form} [%q1]; mbarrier.arrive.shared.b64 %q2, [%s]; "
            "W: mbarrier.test_wait.shared.b64 %p1, [%s], %q2; @!%p1 bra W; ld.shared.b64 %d0, [%s+8]; mbarrier.inval.shared.b64 [%s]; "
            "st.shared.b64 [%s], 0; st.shared.b64 [%s+8], 0;"
        )
        groups.append(Group((text,), (f"cp.async.mbarrier.arrive{noinc}{space}.b64",), {"d": Column(64, (0x123456789ABCDEF,))}))
    return Block(1, {"g": ("global", Column(64, (0x123456789ABCDEF,))), "s": ("shared", Column(64, (0, 0)))}, groups)


# --- addresses and hints --------------------------------------------------------------------------


def addresses() -> list[Block]:
    """To a generic address and back is where one was, and the generic address reads what stands there."""
    column = Column(32, words("address", 32, THREADS))
    operands = {kind[0]: (kind, column) for kind in ("global", "shared", "local", "const")}
    groups = []
    for space, name in (("global", "g"), ("shared", "s"), ("shared::cta", "s"), ("local", "l"), ("const", "c")):
        text = f"cvta.{space}.u64 %q1, %{name}; ld.b32 %d0, [%q1]; {{form}} %q2, %q1; ld.{space}.b32 %e0, [%q2]; setp.eq.u64 %t0, %q2, %{name};"
        groups.append(Group((text,), (f"cvta.to.{space}.u64",), {"d": column, "e": column, "t": Column(1, (1,) * THREADS)}))
    for space in ("param", "param::entry"):
        text = f"mov.b64 %q1, 16; cvta.{space}.u64 %q1, %q1; {{form}} %q2, %q1; setp.eq.u64 %t0, %q2, 16;"
        groups.append(Group((text,), (f"cvta.to.{space}.u64",), {"t": Column(1, (1,) * THREADS)}))
    return [Block(THREADS, operands, groups)]


WITHIN = {
    "global": ("global",), "shared": ("shared", "shared::cta"), "shared::cta": ("shared", "shared::cta"), "local": ("local",), "const": ("const",),
    "shared::cluster": ("shared", "shared::cta"), "param": ("param",), "param::entry": ("param", "param::entry"),
}  # fmt: skip


def spaces() -> list[Block]:
    """A generic address lies in the space it was made from, and in no other."""
    column = Column(32, words("space", 32, THREADS))
    operands = {kind[0]: (kind, column) for kind in ("global", "shared", "local", "const")}
    groups: dict[tuple[str, int], list[str]] = defaultdict(list)
    for made, asked in product(("global", "shared", "local", "const"), WITHIN):
        groups[made, int(made in WITHIN[asked])].append(f"isspacep.{asked}")
    return [Block(THREADS, operands, [
        Group((f"cvta.{made}.u64 %q1, %{made[0]}; {{form}} %t0, %q1;",), tuple(names), {"t": Column(1, (inside,) * THREADS)})
        for (made, inside), names in groups.items()])]  # fmt: skip


POLICIES = [
    (f"createpolicy.{mode}.{first}{second}.b64", operands)
    for mode, operands in (("fractional", ", 0.5"), ("fractional", ""), ("range", ", [%g], 32, 64"), ("range.global", ", [%g], 32, 64"))
    for first in EVICTIONS for second in ("", ".L2::evict_first", ".L2::evict_unchanged")
]  # fmt: skip
#: instructions that compute nothing, with their operands
HINTS = [
    *((f"prefetch{space}.{level}", " [%l]" if space == ".local" else " [%g]") for space in ("", ".global", ".local") for level in ("L1", "L2")),
    *((f"prefetch{space}.{level}", " [%g]") for space in ("", ".global") for level in ("L2::evict_last", "L2::evict_normal")),
    ("prefetchu.L1", " [%g]"), ("prefetch.tensormap", " [%g]"), ("prefetch.const.tensormap", " [%c]"), ("prefetch.param.tensormap", " [%q4]"),
    ("nanosleep.u32", " 20"), ("nanosleep.u32", " %r1"), ("brkpt", ""), *((f"applypriority{space}.L2::evict_normal", " [%g], 128") for space in ("", ".global")),
    *((f"griddepcontrol.{action}", "") for action in ("launch_dependents", "wait")), *((f"membar.{level}", "") for level in ("cta", "gl", "sys")),
    *((f"setmaxnreg.{action}.sync.aligned.u32", " 64") for action in ("inc", "dec")), ("bar.warp.sync", " 0xFFFFFFFF"),
    *((f"fence{sem}.{scope}", "") for sem in ("", ".sc", ".acq_rel") for scope in ("cta", "cluster", "gpu", "sys")),
]  # fmt: skip


def hints(opcode: str) -> list[Block]:
    """A word stored before and loaded after is the same; nothing else changes."""
    threads = 32
    value, zeros = Column(32, words("hint", 32, threads)), Column(32, (0,) * threads)
    operands = {"v": ("in", value), "g": ("global", zeros), "l": ("local", zeros), "c": ("const", zeros)}
    texts: dict[str, list[str]] = defaultdict(list)
    for name, rest in (*HINTS, *((name, f" %policy{rest}") for name, rest in POLICIES), ("createpolicy.cvt.L2.b64", " %policy, %policy")):
        if name.partition(".")[0] == opcode:
            texts[rest].append(name)
    return [Block(threads, operands, [
        Group((f"mov.b64 %q4, 0; mov.b32 %r1, %v0; st.global.b32 [%g], %v0; {{form}}{rest}; ld.global.b32 %d0, [%g]; mov.b32 %e0, %r1;",), tuple(names),
              {"d": value, "e": value, "g": value}) for rest, names in texts.items()])]  # fmt: skip


# --- extended precision ---------------------------------------------------------------------------


def extended(form: Legal, a: int, b: int, c: int, carry: int) -> tuple[int, int]:
    """Result and condition code after an instruction that found ``carry`` in it."""
    kind = form.types[-1]
    width = int(kind[1:])
    top = 1 << width
    used = carry if form.opcode.endswith("c") else 0
    if form.opcode in ("sub", "subc"):
        total = a - b - used
    elif form.opcode in ("add", "addc"):
        total = a + b + used
    else:
        x, y = (signed(a, width), signed(b, width)) if kind[0] == "s" else (a, b)
        part = (x * y >> width if form.modifiers[0] == "hi" else x * y) % top
        total = part + c + used
    return total % top, int(not 0 <= total < top) if "cc" in form.modifiers else carry


def carries() -> list[Block]:
    """The condition code goes in by an addition that overflows or not, and comes out by addc."""
    return [block for width in (32, 64) for block in _carries(width)]


def _carries(width: int) -> Iterator[Block]:
    edges = [0, 1, (1 << width) - 1, 1 << width - 1, (1 << width - 1) - 1, 0x123456789ABCDEF0 % (1 << width)]
    rows = [(a, b, edges[(i + j) % 6], (i + j) % 2) for i, a in enumerate(edges) for j, b in enumerate(edges)]
    operands = {name: ("in", Column(32 if name == "k" else width, tuple(row[i] for row in rows))) for i, name in enumerate("xyzk")}
    groups = []
    for form in forms(EXTENDED):
        if int(form.types[-1][1:]) == width:
            sources = ", ".join(f"%{name}0" for name in "xyz"[: form.operands.count("a:T")])
            text = f"add.cc.u32 %r1, %k0, 0xFFFFFFFF; {{form}} %d0, {sources}; addc.u32 %c0, 0, 0;"
            results = [extended(form, *row) for row in rows]
            wanted = {"d": Column(width, tuple(r for r, _ in results)), "c": Column(32, tuple(c for _, c in results))}
            groups.append(Group((text,), (form.mnemonic,), wanted))
    yield Block(len(rows), operands, groups)  # type: ignore[arg-type]
