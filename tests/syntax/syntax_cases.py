"""Small PTX modules for the syntax tests: a body or a declaration in the least text around it."""

from __future__ import annotations

from pathlib import Path

from ptx_engine.errors import ParseError
from ptx_engine.syntax import flatten, parse
from ptx_engine.syntax.ast import FlatFunction, Instruction, Module, Operand, Statement, Variable

DATA = Path(__file__).parent / "data"
SAMPLES = sorted(DATA.glob("*.ptx"))
HEADER = ".version 8.8\n.target sm_90\n.address_size 64\n"
REGISTERS = ".reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>;"


def module_of(body: str, declarations: str = "") -> Module:
    """A module with one entry ``k`` of this body."""
    return parse(f"{HEADER}{declarations}\n.entry k(.param .u64 p)\n{{\n{body}\n}}\n")


def body_of(body: str) -> tuple[Statement, ...]:
    statements = module_of(body).functions[-1].body
    assert statements is not None
    return statements


def instruction(text: str) -> Instruction:
    (statement,) = body_of(text)
    assert isinstance(statement, Instruction)
    return statement


def operand(text: str) -> Operand:
    """The operand that a text denotes, read alone and read where the quick pattern cannot help (a comment before it)."""
    quick = instruction(f"op {text};").operands
    slow = instruction(f"op /* */ {text};").operands
    assert quick == slow
    assert len(quick) == 1
    return quick[0]


def variable(text: str) -> Variable:
    (found,) = parse(HEADER + text).variables
    return found


def flat(body: str, declarations: str = "") -> FlatFunction:
    module = module_of(body, declarations)
    return flatten(module.functions[-1], module)


def parse_error(text: str) -> ParseError:
    """The ParseError of a text; it must be complete."""
    try:
        parse(text)
    except ParseError as error:
        check_error(error, text)
        return error
    raise AssertionError("no ParseError")


def flatten_error(body: str, declarations: str = "") -> ParseError:
    module = module_of(body, declarations)
    try:
        flatten(module.functions[-1], module)
    except ParseError as error:
        check_error(error, module.source)
        return error
    raise AssertionError("no ParseError")


def check_error(error: ParseError, text: str) -> None:
    """Every error has a place in the text and quotes its line."""
    lines = text.split("\n")
    assert error.span is not None
    assert 1 <= error.span.line <= len(lines)
    assert 1 <= error.span.col < error.span.end_col
    assert error.source_line == lines[error.span.line - 1].rstrip("\r")
    assert error.message
    assert error.render().startswith("parse error: ")
