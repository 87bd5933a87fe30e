"""Kernels whose instructions were changed at random: the machine runs them or raises a PtxError, and never anything else.

The texts parse nearly always, so that what is tried is decoding and execution: operands of wrong kinds and widths, forms that no assembler
takes, literals out of range. Work is bounded by the budget of instructions, not by time; none takes more than five seconds of a processor.
"""

from __future__ import annotations

import random
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptx_engine.errors import PtxError
from ptx_engine.launch import Launch, Role, ScalarArg, TensorArg, bind
from ptx_engine.machine import Budget, execute
from ptx_engine.syntax import parse
from ptx_engine.syntax.ast import Param
from ptx_engine.terms import Arena

sys.path.insert(0, str(Path(__file__).parents[1] / "isa"))
from access_table import PAIRS, round_trip
from form_kernels import instruction, signature
from form_table import VALUES, WIDTHS, Legal, forms

from ptx_engine import emulate

EVERY = forms(VALUES)
LITERALS = [
    "0",
    "1",
    "-1",
    "31",
    "64",
    "0xFFFFFFFF",
    "4294967296",
    "-9223372036854775808",
    "0f3F800000",
    "0d3FF0000000000000",
    "1.5",
    "WARP_SZ",
]
HEAD = ".version 9.1\n.target sm_100a\n.address_size 64\n"


#: processor time that a text may take
LIMIT_S = 5.0


@contextmanager
def soon() -> Iterator[None]:
    """What runs inside takes no longer than a text may."""
    start = time.process_time()
    yield
    assert time.process_time() - start < LIMIT_S


def test_the_limit_is_enforced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "LIMIT_S", 1e-9)
    with pytest.raises(AssertionError), soon():
        sum(range(1000))


def statements(source: random.Random) -> list[str]:
    """A few instructions with operands of their own kinds, each with its destinations, and the pair of a store and a load."""
    lines = []
    for index in range(source.randrange(1, 4)):
        form: Legal = source.choice(EVERY)
        found = signature(form)
        text = instruction(form, index)
        for i, kind in enumerate(found.sources):
            text = text.replace(f"%a{i}", f"%{_LETTER[32 if kind == 'count' else WIDTHS.get(kind, 32)]}{source.randrange(4)}")
            text = text.replace(f"%q{i}", f"%p{source.randrange(4)}")
        kinds = ["pred" if w == 1 else f"b{max(w, 16)}" for w in found.destinations]
        declared = "".join(f".reg .{k} %{'p' if k == 'pred' else 'd'}{index}x{n}; " for n, k in enumerate(kinds))
        lines += [declared + text]
    if source.randrange(3) == 0:
        lines += round_trip(0, *source.choice(PAIRS))
    return lines


_LETTER = {1: "p", 8: "h", 16: "h", 32: "r", 64: "d", 128: "q"}


def changed(line: str, source: random.Random) -> str:
    """A token of an instruction replaced, doubled, dropped or moved."""
    tokens = re.findall(r"%?[\w$:]+|[.,;{}\[\]|!+-]|\s+", line) or [";"]
    words = [i for i, token in enumerate(tokens) if token[0].isalnum() or token[0] == "%"]
    at = source.choice(words) if words and source.randrange(8) else source.randrange(len(tokens))
    kind = source.randrange(6)
    if kind == 0:
        tokens[at] = source.choice(LITERALS)
    elif kind == 1:
        tokens[at] = f"%{source.choice('phrdq')}{source.randrange(4)}"
    elif kind == 2:
        tokens[at] = source.choice([w for f in source.choices(EVERY, k=3) for w in f.modifiers] or ["s32"])
    elif kind == 3:
        tokens.insert(at, tokens[source.randrange(len(tokens))])
    elif kind == 4:
        del tokens[at]
    else:
        tokens[at] = source.choice(["{", "}", "[", "]", "|", "!", "%tid.x", "%laneid", "space", "shared_bytes", "_"])
    return "".join(tokens)


def kernel(source: random.Random, changes: int) -> str:
    lines = statements(source)
    for _ in range(changes):
        at = source.randrange(len(lines))
        lines[at] = changed(lines[at], source)
    filled = "".join(
        f"mov.b{w} %{c}{i}, {value};"
        for c, w in (("h", 16), ("r", 32), ("d", 64))
        for i, value in enumerate(source.choices(["0", "1", "5", "-1", "64"], k=4))
    )
    return HEAD + "\n".join([
        ".visible .entry k(.param .u64 in, .param .u64 out, .param .u64 space)", "{",
        ".reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<4>; .reg .b64 %d<4>; .reg .b128 %q<4>; .reg .b32 %lane; .reg .b64 %in, %out, %g, %s, %gen, %off, %policy;",
        ".shared .align 32 .b8 shared_bytes[1024]; .local .align 32 .b8 local_bytes[32];", filled,
        "mov.b64 %policy, 0; mov.u32 %lane, %tid.x; setp.lt.u32 %p0, %lane, 3; setp.ge.u32 %p1, %lane, 2; setp.eq.u32 %p2, %lane, 0; not.pred %p3, %p2;",
        "mov.b128 %q0, {%d0, %d1}; mov.b128 %q1, {%d2, %d3}; mov.b128 %q2, %q1; mov.b128 %q3, %q0; mul.wide.u32 %off, %lane, 32;",
        "ld.param.u64 %in, [in]; add.s64 %in, %in, %off; ld.param.u64 %out, [out]; add.s64 %out, %out, %off; ld.param.u64 %g, [space];",
        "add.s64 %g, %g, %off; mov.b64 %s, shared_bytes; add.s64 %s, %s, %off; mov.b64 %gen, %g;",
        "ld.global.b32 %r3, [%in]; ld.global.b64 %d3, [%in+8];", *lines,
        "st.global.b32 [%out], %r0; st.global.b64 [%out+8], %d0;", "ret;", "}"]) + "\n"  # fmt: skip


def check(text: str) -> bool:
    """Run on bits and on terms; whether both ran."""
    ran = 0
    data, out, space = (np.arange(32 * 32, dtype=np.uint8) for _ in range(3))
    budget = Budget(thread_instructions=20_000)
    try:
        emulate(text, None, 1, 32, [data, out, space], budget=budget)
        ran += 1
    except PtxError:
        pass
    args = (
        TensorArg("in", "u32", (256,), Role.IN),
        TensorArg("out", "u32", (256,), Role.OUT),
        TensorArg("space", "f32", (256,), Role.INOUT),
    )
    try:
        module = parse(text)
        execute(module, None, bind(Launch((1, 1, 1), (32, 1, 1), args), Arena()), budget=budget, source=text)
        ran += 1
    except PtxError:
        pass
    return ran == 2


TESTS = Path(__file__).parents[1]
#: what compilers wrote, and what people did
WHOLE = sorted(
    path
    for folder in (TESTS / "syntax" / "data", TESTS / "machine" / "cuda_library", TESTS.parent / "configs" / "examples")
    for path in folder.glob("*.ptx")
)
SHARED_BYTES = 32768


def whole_kernel(source: random.Random) -> str:
    """A text of a compiler in which a few instructions were changed."""
    lines = source.choice(WHOLE).read_text(encoding="utf-8").split("\n")
    body = [i for i, line in enumerate(lines) if line.strip().endswith(";")]
    for _ in range(source.choice([1, 1, 2, 4])):
        at = source.choice(body)
        lines[at] = changed(lines[at], source)
    return "\n".join(lines)


def bits_of(param: Param) -> object:
    """Something that a parameter takes: an array where a pointer fits."""
    if param.size == 8:
        return np.zeros(4096, np.uint8)
    return bytes(param.size) if param.size > 8 or param.shape else 0.5 if param.type[0] == "f" else 7


def check_whole(text: str) -> int:
    """Run an entry on bits and on terms; how many of them ran to the end."""
    budget, ran = Budget(thread_instructions=30_000), 0
    try:
        module = parse(text)
        entry = next(iter(module.entries()), None)
        if entry is None:
            return 0
        emulate(module, entry.name, 1, 32, [bits_of(p) for p in entry.params], SHARED_BYTES, budget=budget)
        ran += 1
    except PtxError:
        pass
    try:
        entry = parse(text).entries()[0]
        args = tuple(TensorArg(p.name, "f32", (1024,), Role.INOUT) if p.size == 8 else ScalarArg(p.name, "u32", 7) for p in entry.params)
        execute(parse(text), entry.name, bind(Launch((1, 1, 1), (32, 1, 1), args, SHARED_BYTES), Arena()), budget=budget, source=text)
        return ran + 1
    except PtxError:
        return ran


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_changed_kernels(seed: int) -> None:
    text = whole_kernel(random.Random(seed))
    with soon():
        check_whole(text)


@pytest.mark.slow
def test_many_changed_kernels() -> None:
    ran = 0
    for seed in range(5000):
        text = whole_kernel(random.Random(seed))
        with soon():
            ran += check_whole(text)
    assert ran > 300, "hardly anything ran"


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_changed_instructions(seed: int) -> None:
    source = random.Random(seed)
    text = kernel(source, source.choice([0, 1, 1, 2, 5]))
    with soon():
        check(text)


@pytest.mark.slow
def test_many_changed_instructions() -> None:
    ran = 0
    for seed in range(5000):
        source = random.Random(seed)
        text = kernel(source, source.choice([0, 1, 1, 2, 5]))
        with soon():
            ran += check(text)
    assert ran > 500, "hardly anything ran: the fuzzer tests nothing"
