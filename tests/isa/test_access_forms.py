"""Loads, stores and atomics of every form: bytes that go through memory and come back, and read-modify-writes against Python."""

from __future__ import annotations

import numpy as np
import pytest
from access_table import Access, Atomic, atomics, cached, plain
from float_model import FORMATS, calculate
from form_model import parts
from form_table import WIDTHS
from integer_model import signed

from ptx_engine import emulate

HEAD = ".version 9.1\n.target sm_100a\n.address_size 64\n"
LANES, SLOT = 32, 32
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


def access_kernel(pairs: list[tuple[Access, Access]], generic_shared: bool = False) -> str:
    """Each lane has its own slots; generic accesses go to global memory, or to shared memory."""
    body = [line for i, (store, load) in enumerate(pairs) for line in round_trip(i, store, load)]
    stride = SLOT * len(pairs)
    generic = "mov.b64 %gen, shared_bytes; add.s64 %gen, %gen, %off; cvta.shared.u64 %gen, %gen;" if generic_shared else "mov.b64 %gen, %g;"
    return HEAD + "\n".join([
        ".visible .entry k(.param .u64 in, .param .u64 out, .param .u64 space)", "{",
        ".reg .b32 %lane; .reg .b64 %in, %out, %g, %s, %gen, %off, %policy;", f".shared .align 32 .b8 shared_bytes[{LANES * SLOT}];",
        f".local .align 32 .b8 local_bytes[{SLOT}];", "mov.u32 %lane, %tid.x; createpolicy.fractional.L2::evict_first.b64 %policy, 1.0;",
        f"mul.wide.u32 %off, %lane, {stride}; ld.param.u64 %in, [in]; add.s64 %in, %in, %off; ld.param.u64 %out, [out]; add.s64 %out, %out, %off;",
        f"mul.wide.u32 %off, %lane, {SLOT}; ld.param.u64 %g, [space]; add.s64 %g, %g, %off; mov.b64 %s, shared_bytes; add.s64 %s, %s, %off;",
        generic, *body, "ret;", "}"]) + "\n"  # fmt: skip


PAIRS = [*plain(), *cached()]
PORTIONS = [PAIRS[i : i + 60] for i in range(0, len(PAIRS), 60)]


def sound(pair: tuple[Access, Access]) -> int:
    """Bytes that pass."""
    return pair[0].length * WIDTHS[pair[0].type] // 8


@pytest.mark.parametrize("pairs", PORTIONS, ids=[p[0][1].mnemonic for p in PORTIONS])
@pytest.mark.parametrize("generic_shared", [False, True])
def test_bytes_come_back(pairs: list[tuple[Access, Access]], generic_shared: bool) -> None:
    if generic_shared:
        pairs = [p for p in pairs if p[0].space == "" and sound(p) <= 16 and "mmio" not in p[0].before]
    if not pairs:
        return
    data = np.random.default_rng(4).integers(0, 256, (LANES, len(pairs), SLOT), dtype=np.uint8)
    out = np.zeros_like(data)
    assert not emulate(access_kernel(pairs, generic_shared), None, 1, LANES, [data, out, np.zeros(LANES * SLOT, np.uint8)]).findings
    for i, pair in enumerate(pairs):
        assert np.array_equal(out[:, i, : sound(pair)], data[:, i, : sound(pair)]), f"{pair[0].mnemonic} and {pair[1].mnemonic}"
        assert not out[:, i, sound(pair) :].any(), pair[0].mnemonic


@pytest.mark.parametrize("space", ["global", "shared", "local", ""])
@pytest.mark.parametrize("kind", ["u8", "s8", "b8", "u16", "s16", "b16", "u32", "s32", "b32"])
def test_narrow_loads_extend(space: str, kind: str) -> None:
    """A register wider than the datum gets its sign, or zeros."""
    width = WIDTHS[kind]
    store, load = Access("st", (), space, (), 1, kind), Access("ld", (), space, (), 1, kind)
    trip = [line.replace("%y<1>", "%unused<1>").replace("%y0", "%wide") for line in round_trip(0, store, load)[:-2]]
    text = (
        access_kernel([])
        .replace("ret;", "\n".join([*trip, "st.global.b64 [%out], %wide; }", "ret;"]))
        .replace(".reg .b32 %lane;", ".reg .b32 %lane; .reg .b64 %wide;")
    )
    text = text.replace(f"mul.wide.u32 %off, %lane, {0};", f"mul.wide.u32 %off, %lane, {SLOT};")
    data = np.random.default_rng(5).integers(0, 256, (LANES, SLOT), dtype=np.uint8)
    out = np.zeros((LANES, SLOT), np.uint8)
    assert not emulate(text, None, 1, LANES, [data, out, np.zeros(LANES * SLOT, np.uint8)]).findings
    numbers = [int.from_bytes(row[: width // 8].tobytes(), "little") for row in data]
    wanted = [signed(x, width) % 2**64 if kind[0] == "s" else x for x in numbers]
    assert out[:, :8].copy().view(np.uint64).ravel().tolist() == wanted


# --- atomics --------------------------------------------------------------------------------------


def atomic_kernel(form: Atomic) -> str:
    """Each lane has a cell in ``mem`` (or a copy in shared memory), an operand in ``val``, one more in ``alt``; old values go to ``old``."""
    width, length = WIDTHS[form.type], form.length
    size = width // 8 * length
    kind = f"b{width}"
    declared = f".reg .b{width} %o<{length}>, %v<{length}>, %w<{length}>, %m<{length}>;"
    load = [
        f"ld.global.{kind} %{r}{i}, [%{p}+{i * width // 8}];" for r, p in (("v", "val"), ("w", "alt"), ("m", "mem")) for i in range(length)
    ]
    at = "%mem"
    if form.shared:
        load += ["mov.b64 %s, cells; add.s64 %s, %s, %off;", f"st.shared.{kind} [%s], %m0;"]
        at = "%s"
    operands = [f"[{at}]", registers("v", length)]
    if form.operation == "cas":
        operands.append(registers("w", length))
    if "L2::cache_hint" in form.modifiers:
        operands.append("%policy")
    if form.opcode == "atom":
        operands.insert(0, registers("o", length))
    else:
        load += [f"mov.b{width} %o{i}, %m{i};" for i in range(length)]
    after = [f"ld.shared.{kind} %m0, [%s]; st.global.{kind} [%mem], %m0;"] if form.shared else []
    after += [f"st.global.{kind} [%old+{i * width // 8}], %o{i};" for i in range(length)]
    pointers = [f"ld.param.u64 %{p}, [{p}]; add.s64 %{p}, %{p}, %off;" for p in ("mem", "val", "alt", "old")]
    return HEAD + "\n".join([
        ".visible .entry k(.param .u64 mem, .param .u64 val, .param .u64 alt, .param .u64 old)", "{",
        f".reg .b32 %lane; .reg .b64 %mem, %val, %alt, %old, %s, %off, %policy; {declared} .shared .align 16 .b8 cells[{LANES * size}];",
        f"mov.u32 %lane, %tid.x; mul.wide.u32 %off, %lane, {size}; mov.b64 %policy, 0;", *pointers, *load, f"{form.mnemonic} {', '.join(operands)};",
        *after, "ret;", "}"]) + "\n"  # fmt: skip


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


def operand_words(form: Atomic) -> tuple[list[int], list[int], list[int]]:
    """Memory, operand and third operand of each element of each lane, as bits."""
    rng = np.random.default_rng(len(form.mnemonic))
    count, kind = LANES * form.length, form.type
    if kind.removesuffix("x2") in FORMATS:
        fmt = FORMATS[kind.removesuffix("x2")]
        halves = 2 if kind.endswith("x2") else 1
        rows = []
        for _ in range(3):
            values = (rng.integers(-64, 64, (count, halves)) / 8).astype(fmt.dtype).view(fmt.uint)
            rows.append([sum(int(h) << i * WIDTHS[kind] // halves for i, h in enumerate(row)) for row in values])
        return rows[0], rows[1], rows[2]
    width = WIDTHS[kind]
    wide = [[int.from_bytes(rng.bytes(width // 8), "little") for _ in range(count)] for _ in range(3)]
    if form.operation in ("cas", "inc", "dec"):
        wide[1] = [m if i % 3 == 0 else v for i, (m, v) in enumerate(zip(wide[0], wide[1]))]
        wide[0] = [0 if i % 7 == 3 else m for i, m in enumerate(wide[0])]
    return wide[0], wide[1], wide[2]


def as_bytes(words: list[int], width: int) -> np.ndarray:
    return np.frombuffer(b"".join(w.to_bytes(width // 8, "little") for w in words), np.uint8).copy()


ATOMICS = atomics()


@pytest.mark.parametrize("form", ATOMICS, ids=[f.mnemonic for f in ATOMICS])
def test_atomics(form: Atomic) -> None:
    memory, values, others = operand_words(form)
    width = WIDTHS[form.type]
    cells, old = as_bytes(memory, width), np.zeros(LANES * form.length * width // 8, np.uint8)
    assert not emulate(atomic_kernel(form), None, 1, LANES, [cells, as_bytes(values, width), as_bytes(others, width), old]).findings
    assert cells.tolist() == as_bytes([updated(form, m, v, w) for m, v, w in zip(memory, values, others)], width).tolist()
    assert old.tolist() == as_bytes(memory, width).tolist()
