"""Legal loads, stores and atomics, from the ISA's syntax boxes: spaces, vectors, types, and the modifiers that change no value.

Source: PTX ISA 9.1, "Data Movement and Conversion Instructions: ld, st, ldu", "Parallel Synchronization and Communication
Instructions: atom, red". A slow test asks ptxas whether each is legal.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations, product

from form_table import WIDTHS

SCALARS = ("b8", "b16", "b32", "b64", "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "f32", "f64")
EVICT = ("L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last", "L1::no_allocate")
SCOPES = ("cta", "cluster", "gpu", "sys")


@dataclass(frozen=True)
class Access:
    """A load or store: modifiers before vector and type, the space ("" generic), the vector's length and the type."""

    opcode: str
    before: tuple[str, ...]
    space: str
    after: tuple[str, ...]
    length: int
    type: str

    @property
    def mnemonic(self) -> str:
        vector = (f"v{self.length}",) if self.length > 1 else ()
        words = (self.opcode, *self.before, self.space, *self.after, *vector, self.type)
        return ".".join(w for w in words if w)

    @property
    def hinted(self) -> bool:
        return "L2::cache_hint" in self.after


def shapes(wide: bool) -> list[tuple[int, str]]:
    """Vector lengths and types of at most 128 bits, or of 256."""
    every = [(n, t) for n in (1, 2, 4, 8) for t in (*SCALARS, "b128")]
    if wide:
        return [(n, t) for n, t in every if n * WIDTHS[t] == 256 and n > 1 and t != "b128"]
    return [(n, t) for n, t in every if n * WIDTHS[t] <= 128 and n < 8]


def plain() -> list[tuple[Access, Access]]:
    """A store and the load that reads it back, in every space, vector and type."""
    pairs = []
    for space, (n, t) in product(("", "global", "shared", "shared::cta", "local"), shapes(False)):
        pairs.append((Access("st", (), space, (), n, t), Access("ld", (), space, (), n, t)))
    for space, (n, t) in product(("", "global"), shapes(True)):
        pairs.append((Access("st", (), space, (), n, t), Access("ld", (), space, (), n, t)))
    for space, before, (n, t) in product(("", "global", "shared"), (("weak",), ("volatile",)), shapes(False)):
        pairs.append((Access("st", before, space, (), n, t), Access("ld", before, space, (), n, t)))
    for space, scope, (n, t) in product(("", "global", "shared", "shared::cta"), SCOPES, ((1, "u32"), (2, "f32"), (1, "b64"), (1, "b128"))):
        for stored, loaded in (("relaxed", "relaxed"), ("release", "acquire")):
            pairs.append((Access("st", (stored, scope), space, (), n, t), Access("ld", (loaded, scope), space, (), n, t)))
    for i, (n, t) in enumerate(shapes(False)):
        for space, scope in (("global", SCOPES[i % 4]), ("shared::cta", SCOPES[(i + 1) % 4])):
            pairs.append((Access("st", ("relaxed", scope), space, (), n, t), Access("ld", ("relaxed", scope), space, (), n, t)))
        pairs.append((Access("st", ("volatile",), "shared::cta", (), n, t), Access("ld", ("volatile",), "shared::cta", (), n, t)))
    for space in ("", "global"):
        pairs += [
            (Access("st", ("mmio", "relaxed", "sys"), space, (), 1, t), Access("ld", ("mmio", "relaxed", "sys"), space, (), 1, t))
            for t in SCALARS
        ]
    return pairs


def cached() -> list[tuple[Access, Access]]:
    """Modifiers that say where copies are kept."""
    pairs = [*operators()]
    for stores, loads in (("wb", "ca"), ("cg", "cg"), ("cs", "cs"), ("wt", "lu"), ("wb", "cv")):
        pairs += [(Access("st", (), space, (stores,), 1, "u32"), Access("ld", (), space, (loads,), 1, "u32")) for space in ("", "global")]
    for evict, hint, prefetch in product((*EVICT, ""), ("L2::cache_hint", ""), ("L2::64B", "L2::128B", "L2::256B", "")):
        stored = tuple(w for w in (evict, hint) if w)
        for nc in ((), ("nc",)):
            loaded = tuple(w for w in (*nc, evict, hint, prefetch) if w)
            pairs.append((Access("st", (), "global", stored, 2, "f32"), Access("ld", (), "global", loaded, 2, "f32")))
        pairs.append((Access("st", ("relaxed", "gpu"), "global", stored, 1, "u32"),
                      Access("ld", ("relaxed", "gpu"), "global", tuple(w for w in (evict, hint, prefetch) if w), 1, "u32")))  # fmt: skip
    for level, before in product(("L2::evict_last", "L2::evict_normal", "L2::evict_first"), ((), ("volatile",), ("relaxed", "gpu"))):
        pairs.append((Access("st", before, "global", (level,), 8, "b32"), Access("ld", before, "global", (level,), 8, "b32")))
    for level, wide in product(("L2::evict_last", "L2::evict_normal", "L2::evict_first"), ((8, "b32"), (4, "b64"))):
        pairs += [
            (Access("st", (), "global", (), *wide), Access("ld", (), "global", order, *wide)) for order in ((level, "nc"), ("nc", level))
        ]
    for evict, hint in product(EVICT, ("L2::cache_hint", "")):
        words = tuple(w for w in (evict, "nc", hint, "L2::128B") if w)
        pairs.append((Access("st", (), "global", (), 1, "u32"), Access("ld", (), "global", words, 1, "u32")))
    pairs.append((Access("st", ("volatile",), "global", (), 1, "u32"), Access("ld", ("volatile",), "global", ("L2::64B",), 1, "u32")))
    pairs += [
        (Access("st", (), "global", (), 1, "u32"), Access("ld", ("volatile",), "global", (size,), 1, "u32"))
        for size in ("L2::128B", "L2::256B")
    ]
    pairs += [(Access("st", (), "global", (), 1, "u32"), Access("ld", (), "global", ("L1::evict_last", "nc", size), 1, "u32"))
              for size in ("L2::64B", "L2::256B")]  # fmt: skip
    pairs += [(Access("st", (), "global", (), n, t), Access("ld", (), "global", ("nc",), n, t)) for n, t in (*shapes(False), *shapes(True))]
    pairs += [(Access("st", (), "global", (), n, t), Access("ld", (), "global", ("L1::no_allocate", "nc"), n, t)) for n, t in shapes(False)]
    pairs += [(Access("st", (), "global", (), 1, "u32"), Access("ld", (), "global", (cop, "nc"), 1, "u32")) for cop in ("ca", "cg", "cs")]
    return pairs


def operators() -> list[tuple[Access, Access]]:
    """Cache operators with policies, prefetch sizes and every shape, and in the spaces near to the thread."""
    every = [*shapes(False), *shapes(True)]
    pairs = [(Access("st", (), "global", ("cg", *hint), n, t), Access("ld", (), "global", ("cg", *hint), n, t))
             for hint, (n, t) in zip(((), ("L2::cache_hint",)) * len(every), every)]  # fmt: skip
    pairs += [(Access("st", ("weak",), "global", ("cs",), 1, "u32"), Access("ld", ("weak",), "global", ("cs", size), 1, "u32"))
              for size in ("L2::64B", "L2::128B", "L2::256B")]  # fmt: skip
    nc = (("nc", "L2::cache_hint"), ("nc", "L2::64B"), ("nc", "L2::128B"), ("nc", "L2::256B"))
    pairs += [
        (Access("st", (), "global", (), n, t), Access("ld", (), "global", ("cg", *nc[i % 4]), n, t)) for i, (n, t) in enumerate(every)
    ]
    for space, (stores, loads) in product(("shared", "local"), (("wb", "ca"), ("cg", "cg"), ("cs", "cs"), ("wt", "lu"), ("wb", "cv"))):
        pairs.append((Access("st", (), space, (stores,), 2, "b32"), Access("ld", (), space, (loads,), 2, "b32")))
    return pairs


#: bytes of a lane's slot, as wide as the widest access
SLOT = 32
_REGISTER = {8: 16, 16: 16, 32: 32, 64: 64, 128: 128}


def registers(prefix: str, length: int) -> str:
    names = [f"%{prefix}{i}" for i in range(length)]
    return names[0] if length == 1 else "{" + ", ".join(names) + "}"


def round_trip(index: int, store: Access, load: Access) -> list[str]:
    """Raw bits from slot ``index`` of ``in`` through the pair of accesses to the same slot of ``out``."""
    length, width = store.length, WIDTHS[store.type]
    raw = f"b{_REGISTER[width]}" if width > 8 else "u8"
    at = {"": "%gen", "global": "%g", "local": "local_bytes", "shared": "%s", "shared::cta": "%s"}[store.space]
    step = width // 8
    lines = [f"{{ .reg .b{_REGISTER[width]} %x<{length}>, %y<{length}>;"]
    lines += [f"ld.global.{raw} %x{i}, [%in+{SLOT * index + step * i}];" for i in range(length)]
    lines.append(f"{store.mnemonic} [{at}], {registers('x', length)}{', %policy' if store.hinted else ''};")
    lines.append(f"{load.mnemonic} {registers('y', length)}, [{at}]{', %policy' if load.hinted else ''};")
    lines += [f"st.global.{raw} [%out+{SLOT * index + step * i}], %y{i};" for i in range(length)]
    return [*lines, "}"]


PAIRS = [*plain(), *cached()]


# --- atomics --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Atomic:
    """An atom or red: modifiers in order, the operation, the vector's length and the type."""

    opcode: str
    modifiers: tuple[str, ...]
    operation: str
    length: int
    type: str
    shared: bool

    @property
    def mnemonic(self) -> str:
        return ".".join((self.opcode, *self.modifiers))


_INTEGER = {
    "and": "b32 b64", "or": "b32 b64", "xor": "b32 b64", "add": "u32 s32 u64", "inc": "u32", "dec": "u32", "min": "u32 s32 u64 s64",
    "max": "u32 s32 u64 s64", "exch": "b32 b64 b128", "cas": "b16 b32 b64 b128",
}  # fmt: skip
_HALVES = "f16 f16x2 bf16 bf16x2"


def operations() -> list[tuple[str, tuple[str, ...], str]]:
    """Operation, what stands between it and its type, type."""
    rows = [(op, (), t) for op, types in _INTEGER.items() for t in types.split()]
    rows += [("add", (), "f32"), ("add", (), "f64")]
    return rows + [(op, ("noftz",), t) for op, types in (("add", _HALVES), ("min", _HALVES), ("max", _HALVES)) for t in types.split()]


def atomics() -> list[Atomic]:
    """Every operation and type in every space, every order, scope and place of modifiers of one, and the vectors."""
    found = []
    for (op, flush, t), space in product(operations(), ("", "global", "shared", "shared::cta")):
        # only adding has 16-bit floats outside of vectors
        if op in ("min", "max") and flush:
            continue
        opcodes = ("atom",) if op in ("exch", "cas") else ("atom", "red")
        found += [Atomic(o, tuple(w for w in (space, op, *flush, t) if w), op, 1, t, space.startswith("shared")) for o in opcodes]
    for sem, scope, hint in product(("relaxed", "acquire", "release", "acq_rel", ""), (*SCOPES, ""), ("L2::cache_hint", "")):
        for opcode in ("atom", "red"):
            if opcode == "atom" or sem in ("relaxed", "release", ""):
                found.append(Atomic(opcode, tuple(w for w in (sem, scope, "global", "add", hint, "u32") if w), "add", 1, "u32", False))
    for op, length, t in product(("add", "min", "max"), (2, 4, 8), ("f32", "f16", "bf16", "f16x2", "bf16x2")):
        if (op != "add" and t == "f32") or length * WIDTHS[t] > 128:
            continue
        flush = () if t == "f32" else ("noftz",)
        found += [Atomic(o, ("global", op, *flush, f"v{length}", t), op, length, t, False) for o in ("atom", "red")]
    return found + placed()


_SEM, _SPACES, _HINTS = (
    ("relaxed", "acquire", "release", "acq_rel"),
    ("global", "shared", "shared::cta", ""),
    ("L2::cache_hint", "", "", ""),
)

_PLACED: list[tuple[str, tuple[str, ...], str]] = [
    ("add", (), "u32"), ("cas", (), "b32"), ("exch", (), "b128"), ("add", (), "f32"), ("add", ("noftz",), "f16")
]  # fmt: skip


def placed() -> list[Atomic]:
    """Order, scope and space in every place that assemblers take, each with each of its values."""
    found = []
    for (op, flush, t), i, opcode in product(_PLACED, range(4), ("atom", "red")):
        sem, scope, hint = _SEM[i if opcode == "atom" else 2 * (i % 2)], SCOPES[i], _HINTS[i] if op != "cas" else ""
        if opcode == "red" and op in ("exch", "cas"):
            continue
        space = _SPACES[i]
        tail = tuple(w for w in (*flush, hint, t) if w)
        orders = [(*order, op) for order in permutations((sem, scope, space))] + [(op, sem, scope, space)]
        found += [Atomic(opcode, (*(w for w in order if w), *tail), op, 1, t, space.startswith("shared")) for order in orders]
    for (op, t, length), i, opcode in product(_VECTORS, range(4), ("atom", "red")):
        sem, scope, hint = _SEM[i if opcode == "atom" else 2 * (i % 2)], SCOPES[i], _HINTS[i]
        flush = () if t == "f32" else ("noftz",)
        for before in ((sem, scope, "global"), ("global", scope, sem)):
            vector, rest = (f"v{length}", t), (op, *flush, *([hint] if hint else []))
            found += [Atomic(opcode, (*before, *words), op, length, t, False) for words in ((*rest, *vector), (*vector, *rest))]
    return found


_VECTORS = [("add", "f32", 2), ("add", "f32", 4), ("add", "f16", 2), ("min", "bf16", 4), ("max", "f16", 8), ("add", "f16x2", 2), ("min", "bf16x2", 4),
            ("max", "f16x2", 4)]  # fmt: skip
