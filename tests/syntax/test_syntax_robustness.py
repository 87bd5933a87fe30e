"""Any text gives a Module or a complete ParseError, in linear time."""

from __future__ import annotations

import random
import re
import sys
import time
import tracemalloc
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from syntax_cases import HEADER, SAMPLES, check_error

from ptx_engine import syntax
from ptx_engine.errors import ParseError
from ptx_engine.syntax import flatten, parse, print_module

TEXTS = [path.read_text() for path in SAMPLES]
PIECES = [
    "{", "}", "[", "]", "(", ")", ";", ",", ":", "|", "@", "!", "+", "-", "<", ">", "=", '"', "//", "/*", "*/", "\n", "\0", "\x80", "٣",
    ".reg", ".b32", ".v4", ".loc 1 2 3", ".section x {", ".global .b8 x[", " = {", "generic(", ".branchtargets", ".callprototype",
    ".func", ".entry f", ".param .b32", ".align", "call", "bra", "mov.u32", "0x", "1e5", "0f123", "9" * 40, "%r", "%p1", "_", "$L",
    "WARP_SZ", "inlined_at", "1/0", "? 1 : 2",
]  # fmt: skip


#: processor time that a text may take
LIMIT_S = 5.0


def check(text: str) -> None:
    """The law, within five seconds of a processor."""
    start = time.process_time()
    check_law(text)
    assert time.process_time() - start < LIMIT_S


def check_law(text: str) -> None:
    """A module that prints back and whose functions flatten or are refused, or an error with its place."""
    try:
        module = parse(text)
    except ParseError as error:
        check_error(error, text.rstrip("\0"))
        return
    assert parse(print_module(module)) == module
    for function in module.functions:
        if function.body is not None:
            try:
                flatten(function, module)
            except ParseError as error:
                check_error(error, module.source)


def mutated(source: random.Random) -> str:
    text = source.choice(TEXTS)
    start = source.randrange(len(text))
    text = source.choice([text[: start + 1500], text])
    for _ in range(source.choice([1, 1, 2, 6])):
        at = source.randrange(len(text) + 1)
        end = min(len(text), at + source.choice([0, 1, 2, 5, 50, 400]))
        piece = source.choice([source.choice(PIECES), text[at:end] * 2, "", chr(source.randrange(1, 500))])
        text = text[:at] + piece + text[end:]
    return text


@settings(max_examples=150, deadline=None)
@given(st.randoms(use_true_random=False))
def test_mutated_text(source: random.Random) -> None:
    check(mutated(source))


@pytest.mark.slow
def test_much_mutated_text() -> None:
    for seed in range(20_000):
        check(mutated(random.Random(seed)))


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=20))
def test_pieces_in_a_body(pieces: list[str]) -> None:
    check(f"{HEADER}.entry k() {{\n{' '.join(pieces)}\n}}\n")


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=60))
def test_any_text(text: str) -> None:
    check(text)
    check(HEADER + text)


ENTRY = HEADER + ".entry k() {\n"
GROWING = {
    "blanks": lambda n: ENTRY + " " * n + "x",
    "blanks in operands": lambda n: ENTRY + "mov.u32 a," + " " * n,
    "scopes": lambda n: ENTRY + "{" * n,
    "empty scopes": lambda n: ENTRY + "{}" * n + "}",
    "labels": lambda n: ENTRY + "a:" * n,
    "spaced labels": lambda n: ENTRY + "a :" * n,
    "parentheses": lambda n: ENTRY + "mov.u32 a, " + "(" * n,
    "signs": lambda n: ENTRY + "mov.u32 a, " + "-" * n,
    "sum": lambda n: ENTRY + "mov.u32 a, 1" + "+1" * n + ";}",
    "operators": lambda n: ENTRY + "x " + "1||1&&1|1^1&1==1<1<<1+1*" * n,
    "conditions": lambda n: ENTRY + "x 1" + "?1" * n,
    "vector": lambda n: ENTRY + "x {" + "a," * n + "a};}",
    "open comments": lambda n: ENTRY + "/*" * n,
    "comments": lambda n: ENTRY + "/**/" * n + "}",
    "comments in statements": lambda n: ENTRY + "a /* */ b " * n,
    "digits": lambda n: ENTRY + "x " + "9" * n,
    "identifier": lambda n: ENTRY + "x " + "a" * n + ";}",
    "register name": lambda n: ENTRY + ".reg .b32 %r<5>; x %r" + "1" * n + ";}",
    "modifiers": lambda n: ENTRY + "x" + " .a" * n + ";}",
    "no semicolons": lambda n: ENTRY + "add a, b\n" * n,
    "quotes": lambda n: ENTRY + '"' * n,
    "initialiser": lambda n: HEADER + ".global .b32 x[] = {" + "1," * n + "1};",
    "braces": lambda n: HEADER + ".global .b32 x[] = " + "{" * n,
    "dimensions": lambda n: HEADER + ".global .b32 x" + "[2]" * n,
    "sections": lambda n: HEADER + ".section a {" * n,
    "closed sections": lambda n: HEADER + ".section a {}\n" * n,
    "rows": lambda n: ENTRY + ".loc 1 2 3, function_name a, inlined_at 1 2 3\n" * n + "}",
    "call sites": lambda n: ENTRY + "".join(f".loc 1 {i + 1} 1, function_name a, inlined_at 1 {i} 1\n" for i in range(n)) + "}",
    "fences": lambda n: ENTRY + "// begin inline asm\n.loc 1 9 3\n" * n + "}",
    "an open fence": lambda n: ENTRY + "// begin inline asm\n" + ".loc 1 9 3\n" * n + "}",
    "slow operands": lambda n: ENTRY + "add 1/1;\n" * n + "}",
    "register ranges": lambda n: ENTRY + "".join(f".reg .b32 r{i}<1>;" for i in range(10, n)) + "}",
    "register scopes": lambda n: ENTRY + "{.reg .b32 %r<3>; mov.b32 %r1,%r2;}\n" * n + "}",
    "parameters": lambda n: HEADER + ".entry k(" + ".param .u32 a," * n,
}


def read(text: str) -> None:
    try:
        module = parse(text)
        for function in module.functions:
            flatten(function, module)
    except ParseError:
        pass


def calls(text: str) -> int:
    """Function calls that reading a text makes, Python's and C's."""
    count = 0

    def count_one(frame: FrameType, event: str, arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(count_one)
    try:
        read(text)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("name", GROWING)
def test_work_grows_linearly(name: str) -> None:
    """Eight times the text takes about eight times the calls, where 64 times would be quadratic."""
    calls(GROWING[name](10))  # what is made once
    assert calls(GROWING[name](2000)) < 12 * calls(GROWING[name](250)) + 1000


@pytest.mark.slow
@pytest.mark.parametrize("name", GROWING)
def test_time_grows_linearly(name: str) -> None:
    """What happens inside of one call, such as backtracking in a regular expression, shows in processor time only."""

    def seconds(n: int) -> float:
        text = GROWING[name](n)
        best = 9e9
        for _ in range(3):
            start = time.process_time()
            read(text)
            best = min(best, time.process_time() - start)
        return best

    assert seconds(16000) < 30 * max(seconds(2000), 0.001)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda p: p.stem)
def test_line_ends_of_other_systems(path: Path) -> None:
    text = path.read_text()
    assert parse(text.replace("\n", "\r\n")) == parse(text)


@pytest.mark.slow
@pytest.mark.parametrize("line", ["add.s32 %r1, %r1, 1; " * 450_000, "x" * 10_000_000 + ";", "mov.b32 %r1, " + "1" * 10_000_000 + ";",
                                  "add {" + "%r1," * 2_500_000 + "%r1};"], ids=["statements", "identifier", "digits", "vector"])  # fmt: skip
def test_a_line_of_ten_megabytes(line: str) -> None:
    """Calls grow with the number of tokens, not with its square; a token of any length is one."""
    tokens = 4 * line.count(",") + 2
    assert calls(f"{ENTRY}.reg .b32 %r<2>; {line} }}\n") < 12 * tokens + 10_000


def test_huge_numbers_allocate_nothing() -> None:
    tracemalloc.start()
    try:
        module = parse(HEADER + ".global .b8 x[4611686018427387904]; .entry k() { .reg .b32 %r<999999999>; mov.b32 %r7, 1; }")
        assert len(flatten(module.functions[0], module).registers) == 1
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_no_group_is_repeated_possessively() -> None:
    """Python 3.11.0 to 3.11.4 match ``(...)*+`` wrongly where a repetition fails midway; ``(?>(...)*)`` is right everywhere."""
    folder = Path(syntax.__file__).parent
    for path in folder.glob("*.py"):
        assert not re.search(r"\)(?:[*+?]|\{[\d,]+\})\+", path.read_text(encoding="utf-8")), path.name
    open_comment = parse_failure(HEADER + ".entry k() { /* * no end }")
    assert open_comment is not None and "this comment has no end" in open_comment.message


def parse_failure(text: str) -> ParseError | None:
    try:
        parse(text)
    except ParseError as error:
        return error
    return None
