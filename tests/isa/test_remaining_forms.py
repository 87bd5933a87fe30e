"""Forms that are no function of one thread's registers: carries, addresses, copies, hints, and reductions over warps of floats."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from float_model import FORMATS
from form_table import EXTENDED, Legal, forms
from integer_model import signed
from one_instruction import run

from ptx_engine import emulate

UINT = {32: np.uint32, 64: np.uint64}


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


CARRIES = forms(EXTENDED)


def extended_text(form: Legal) -> str:
    """a0 to a2 are operands, a3 the condition code to begin with; d0 is the result, d1 the condition code afterwards."""
    sources = ", ".join(f"a{i}" for i in range(form.operands.count("a:T")))
    return f"add.cc.u32 d2, a3, 0xFFFFFFFF; {form.mnemonic} d0, {sources}; addc.u32 d1, 0, 0;"


@pytest.mark.parametrize("form", CARRIES, ids=[f.mnemonic for f in CARRIES])
def test_carries(form: Legal) -> None:
    width = int(form.types[-1][1:])
    edges = [0, 1, (1 << width) - 1, 1 << width - 1, (1 << width - 1) - 1, 0x123456789ABCDEF0 % (1 << width)]
    rows = [(a, b, edges[(i + j) % 6], (i + j) % 2) for i, a in enumerate(edges) for j, b in enumerate(edges)]
    columns = [np.array([row[i] for row in rows], UINT[width] if i < 3 else np.uint32) for i in range(4)]
    found = run(extended_text(form), columns, [UINT[width], np.uint32, np.uint32])
    for row, result, carry in zip(rows, found[0].tolist(), found[1].tolist()):
        assert (result, carry) == extended(form, *row), (form.mnemonic, row)


# --- addresses ------------------------------------------------------------------------------------

SPACES = ("global", "local", "shared", "shared::cta", "const", "param", "param::entry")


@pytest.mark.parametrize("space", SPACES)
def test_generic_addresses_and_back(space: str) -> None:
    """To a generic address and back is where one was; a generic address lies in the space it was made from."""
    text = f"cvta.{space}.u64 d1, a0; cvta.to.{space}.u64 d0, d1;"
    tests = {"global": "global", "local": "local", "shared": "shared", "shared::cta": "shared::cta"}
    if space in tests:
        text += f" isspacep.{tests[space]} p2, d1; isspacep.{'local' if space == 'global' else 'global'} p3, d1;"
    found = run(text, [np.array([16, 64], np.uint64)], [np.uint64, np.uint64, np.uint32, np.uint32][: 4 if space in tests else 2])
    assert found[0].tolist() == [16, 64]
    if space in tests:
        assert found[2].tolist() == [1, 1] and found[3].tolist() == [0, 0]


def test_shared_addresses_lie_in_the_cluster_too() -> None:
    found = run("cvta.shared.u64 d0, a0; isspacep.shared::cluster p1, d0; isspacep.shared::cluster p2, a0;", [np.array([8], np.uint64)],
                [np.uint64, np.uint32, np.uint32])  # fmt: skip
    assert (found[1].tolist(), found[2].tolist()) == ([1], [0])


# --- asynchronous copies --------------------------------------------------------------------------


def copies() -> list[tuple[str, int, str, int]]:
    """Mnemonic, size, last operand, bytes that are copied."""
    found = []
    for cache, space, hint, prefetch in product(
        ("ca", "cg"), ("shared", "shared::cta"), ("", ".L2::cache_hint"), ("", ".L2::64B", ".L2::128B", ".L2::256B")
    ):
        name = f"cp.async.{cache}.{space}.global{hint}{prefetch}"
        for size in (16,) if cache == "cg" else (4, 8, 16):
            found += [(name, size, "", size), (name, size, ", %part", size // 2), (name, size, ", %yes", 0), (name, size, ", %no", size)]
    return found


COPIES = copies()
HEAD = ".version 9.1\n.target sm_100a\n.address_size 64\n"


def copy_kernel(name: str, size: int, last: str, wait: str) -> str:
    policy = ", %policy" if "cache_hint" in name else ""
    return HEAD + "\n".join([
        ".visible .entry k(.param .u64 in, .param .u64 out)", "{", ".reg .b32 %lane, %part; .reg .b64 %in, %out, %s, %off, %policy, %x, %y;",
        ".reg .pred %yes, %no; .shared .align 16 .b8 cells[512]; mov.u32 %lane, %tid.x; mul.wide.u32 %off, %lane, 16;",
        f"ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; add.s64 %in, %in, %off; add.s64 %out, %out, %off; mov.u32 %part, {size // 2};",
        "setp.eq.u32 %yes, %lane, %lane; setp.ne.u32 %no, %lane, %lane; mov.b64 %policy, 0; mov.b64 %s, cells; add.s64 %s, %s, %off;",
        "mov.b64 %x, -1; st.shared.v2.b64 [%s], {%x, %x};", f"{name} [%s], [%in], {size}{last}{policy};", wait,
        "ld.shared.v2.b64 {%x, %y}, [%s]; st.global.v2.b64 [%out], {%x, %y};", "ret;", "}"]) + "\n"  # fmt: skip


@pytest.mark.parametrize(("name", "size", "last", "copied"), COPIES, ids=[f"{n}-{s}{last}" for n, s, last, _ in COPIES])
def test_asynchronous_copies(name: str, size: int, last: str, copied: int) -> None:
    wait = "cp.async.wait_all;" if size == 8 else "cp.async.commit_group; cp.async.wait_group 0;"
    data = np.random.default_rng(size).integers(0, 255, (32, 16), dtype=np.uint8)
    out = np.zeros((32, 16), np.uint8)
    assert not emulate(copy_kernel(name, size, last, wait), None, 1, 32, [data, out]).findings
    wanted = np.full((32, 16), 255, np.uint8)
    wanted[:, :size] = 0
    wanted[:, :copied] = data[:, :copied]
    assert np.array_equal(out, wanted)


# --- what changes no value ------------------------------------------------------------------------

POLICIES = [
    f"createpolicy.{mode}.{first}{second}.b64 %policy{operands};"
    for mode, operands in (("fractional", ", 0.5"), ("fractional", ""), ("range", ", [%at], 32, 64"), ("range.global", ", [%at], 32, 64"))
    for first in ("L2::evict_last", "L2::evict_normal", "L2::evict_first", "L2::evict_unchanged")
    for second in ("", ".L2::evict_first", ".L2::evict_unchanged")
]  # fmt: skip
HINTS = [
    *(f"prefetch{space}.{level} [%at];" for space in ("", ".global", ".local") for level in ("L1", "L2")), "prefetchu.L1 [%at];",
    *(f"prefetch{space}.{level} [%at];" for space in ("", ".global") for level in ("L2::evict_last", "L2::evict_normal")),
    *(f"prefetch{space}.tensormap [%at];" for space in ("", ".const", ".param")), "nanosleep.u32 20;", "nanosleep.u32 d1;", "brkpt;",
    *(f"applypriority{space}.L2::evict_normal [%at], 128;" for space in ("", ".global")), *POLICIES, "createpolicy.cvt.L2.b64 %policy, %policy;",
    *(f"griddepcontrol.{action};" for action in ("launch_dependents", "wait")), *(f"membar.{level};" for level in ("cta", "gl", "sys")),
    *(f"setmaxnreg.{action}.sync.aligned.u32 64;" for action in ("inc", "dec")),
    *(f"fence{sem}.{scope};" for sem in ("", ".sc", ".acq_rel") for scope in ("cta", "cluster", "gpu", "sys")), "bar.warp.sync 0xFFFFFFFF;",
]  # fmt: skip


@pytest.mark.parametrize("hint", HINTS)
def test_hints_change_nothing(hint: str) -> None:
    x = np.arange(32, dtype=np.uint32)
    policy = ".reg .b64 %policy; " + ("mov.b64 %policy, 0; " if "cvt" in hint else "")
    assert run(f"{policy} mov.b32 d1, a0; {hint} mov.b32 d0, a0;", [x], [np.uint32, np.uint32])[0].tolist() == x.tolist()


# --- ldu ------------------------------------------------------------------------------------------

UNIFORM = [
    (space, n, kind)
    for space in ("", ".global")
    for n, kind in ((1, "u8"), (1, "s16"), (1, "b32"), (2, "u32"), (4, "f32"), (1, "f64"), (2, "b64"), (1, "b128"))
]


def uniform_kernel(space: str, count: int, kind: str) -> str:
    width = {"8": 8, "6": 16, "2": 32, "4": 64}[kind[-1]] if kind != "b128" else 128
    registers = [f"%x{i}" for i in range(count)]
    target = registers[0] if count == 1 else "{" + ", ".join(registers) + "}"
    vector = f".v{count}" if count > 1 else ""
    stores = [f"st.global.{'u8' if width == 8 else f'b{width}'} [%out+{i * width // 8}], %x{i};" for i in range(count)]
    return HEAD + "\n".join([
        ".visible .entry k(.param .u64 in, .param .u64 out)", "{", f".reg .b{max(width, 16)} %x<{count}>; .reg .b64 %in, %out, %off; .reg .b32 %lane;",
        "ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; mov.u32 %lane, %tid.x; mul.wide.u32 %off, %lane, 16; add.s64 %out, %out, %off;",
        f"ldu{space}{vector}.{kind} {target}, [%in];", *stores, "ret;", "}"]) + "\n"  # fmt: skip


@pytest.mark.parametrize(("space", "count", "kind"), UNIFORM)
def test_uniform_loads(space: str, count: int, kind: str) -> None:
    data, out = np.arange(1, 17, dtype=np.uint8), np.zeros((32, 16), np.uint8)
    assert not emulate(uniform_kernel(space, count, kind), None, 1, 32, [data, out]).findings
    size = count * {"u8": 1, "s16": 2, "b128": 16}.get(kind, 4 if kind[-2:] == "32" else 8)
    assert (out[:, :size] == data[:size]).all() and not out[:, size:].any()


# --- reductions -----------------------------------------------------------------------------------

REDUCTIONS = [f"redux.sync.{op}{size}{nan}.f32" for op in ("min", "max") for size in ("", ".abs") for nan in ("", ".NaN")]


@pytest.mark.parametrize("form", REDUCTIONS)
@pytest.mark.parametrize("with_nan", [False, True])
def test_reductions_of_floats(form: str, with_nan: bool) -> None:
    values = np.random.default_rng(6).standard_normal(64).astype(np.float32)
    values[[3, 40]] = np.nan if with_nan else -7.5
    found = run(f"{form} d0, a0, -1;", [values.view(np.uint32)], [np.uint32])[0]
    for first in (0, 32):
        numbers = [abs(float(v)) if ".abs" in form else float(v) for v in values[first : first + 32] if not np.isnan(v)]
        for bits in found[first : first + 32].tolist():
            if with_nan and ".NaN" in form:
                assert bits == FORMATS["f32"].nan
            else:
                assert FORMATS["f32"].value(bits) == (min if ".min" in form else max)(numbers)
