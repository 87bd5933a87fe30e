"""parse(print(tree)) == tree over random trees of every kind of node."""

from __future__ import annotations

from math import prod

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ptx_engine.syntax import parse, print_module
from ptx_engine.syntax.ast import (
    AddressOf,
    Args,
    Block,
    Directive,
    FloatLit,
    Function,
    Instruction,
    IntLit,
    Label,
    Loc,
    LocDirective,
    Mem,
    Module,
    Name,
    NameOffset,
    Not,
    Operand,
    Pair,
    Param,
    Reg,
    RegDecl,
    Statement,
    Subscript,
    Variable,
    Vec,
)

BYTES = {"b8": 1, "u16": 2, "s32": 4, "b64": 8, "f32": 4, "f64": 8, "b128": 16}
words = st.from_regex(r"[A-Za-z$_][A-Za-z0-9_$]{1,6}", fullmatch=True).filter(lambda w: w not in ("WARP_SZ", "generic"))
signed = st.integers(-(2**63), 2**63 - 1)
regs = st.builds(Reg, st.from_regex(r"%(r|rd|f|p)[0-9]{1,4}", fullmatch=True))
names = st.builds(Name, words | st.sampled_from(["_", "%tid.x", "%laneid", "%clock64"]))
floats = st.builds(FloatLit, st.integers(0, 2**32 - 1), st.just(32)) | st.builds(FloatLit, st.integers(0, 2**64 - 1), st.just(64))
ints = st.builds(IntLit, st.integers(-(2**63), 2**64 - 1))
scalars: st.SearchStrategy[Operand] = regs | names | ints | floats
vectors = st.builds(Vec, st.lists(scalars, max_size=4).map(tuple))
bases = regs | st.builds(Name, words)
memory = st.builds(Mem, bases, signed, extra=st.lists(vectors | scalars, max_size=2).map(tuple)) | st.builds(Mem, ints)
operands: st.SearchStrategy[Operand] = st.one_of(
    scalars,
    vectors,
    memory,
    st.builds(Pair, regs | names, regs | names),
    st.builds(Not, regs | names),
    st.builds(NameOffset, words, signed),
    st.builds(Subscript, words, st.none() | regs, signed),
)
modifiers = st.lists(st.from_regex(r"[A-Za-z0-9_]{1,6}(::[a-z0-9]{1,5})?", fullmatch=True), max_size=3).map(tuple)
opcodes = st.from_regex(r"[a-z][a-z0-9]{1,5}", fullmatch=True).filter(lambda o: o != "call")
guards = st.none() | st.builds(Reg, words) | regs


@st.composite
def instructions(draw: st.DrawFn) -> Instruction:
    guard = draw(guards)
    negated = guard is not None and draw(st.booleans())
    if draw(st.integers(0, 9)) == 0:
        arguments = st.builds(Args, st.lists(scalars, max_size=3).map(tuple))
        return Instruction("call", draw(modifiers), (draw(arguments), draw(bases), draw(arguments)), guard, negated)
    return Instruction(draw(opcodes), draw(modifiers), draw(st.lists(operands, max_size=4).map(tuple)), guard, negated)


types = st.sampled_from(sorted(BYTES))
aligns = st.sampled_from([1, 2, 4, 8, 16, 128])
linkages = st.sampled_from(["", "extern", "visible", "weak", "common"])
vector_widths = st.sampled_from([1, 1, 1, 2, 4])
strings = st.text(st.characters(codec="ascii", exclude_characters='"\\\n', exclude_categories=["Cc"]), max_size=8)


@st.composite
def variables(draw: st.DrawFn) -> Variable:
    type_, vector = draw(types), draw(vector_widths)
    shape = tuple(draw(st.lists(st.integers(1, 3), max_size=3)))
    values: list[object] = []
    count = prod(shape) * vector
    space, linkage = draw(st.sampled_from(["global", "shared", "const", "local", "param"])), draw(linkages)
    if space in ("global", "const") and linkage != "extern" and draw(st.booleans()):
        width = 32 if type_ == "f32" else 64
        decimals = st.builds(FloatLit, st.integers(0, 2**width - 1), st.just(width))
        integers = st.integers(-(2**63), 2**64 - 1)
        numbers = decimals if type_[0] == "f" else integers if type_[0] in "us" else decimals | integers
        address = st.builds(Name, words) | st.builds(NameOffset, words, signed.filter(bool))
        special = st.builds(AddressOf, words, signed, st.just(True)) | st.builds(
            AddressOf, words, signed, st.booleans(), st.sampled_from([0xFF, 0xFF00])
        )
        values = draw(st.lists(numbers if type_[0] == "f" else numbers | address | special, min_size=1, max_size=count))
    elif shape and draw(st.booleans()):
        shape = (0, *shape[1:])
    size = BYTES[type_] * vector * prod(shape)
    attributes = tuple(draw(st.lists(st.sampled_from([".managed", ".unified(1,2)"]), max_size=1)))
    return Variable(
        space, type_, draw(words), size, draw(aligns), linkage, shape, tuple(values), vector=vector, attributes=attributes
    )  # fmt: skip


# call sites have files of their own: a site that is itself a row would get that row's chain
sites = st.none() | st.builds(Loc, st.integers(100, 120), st.integers(0, 999), st.integers(0, 99))
rows = st.builds(Loc, st.integers(1, 9), st.integers(0, 10**9 - 1), st.integers(0, 99))
located = st.builds(
    lambda row, function, site: Loc(row.file, row.line, row.col, function if site else "", site), rows, words, sites
)  # fmt: skip
declarations = st.builds(RegDecl, st.sampled_from(["pred", "b32", "f64"]), st.lists(words, min_size=1, max_size=3).map(tuple)) | st.builds(
    RegDecl, types, st.tuples(words), st.integers(0, 999), vector=st.sampled_from([1, 2, 4])
)
targets = st.builds(
    lambda kind, ws: Directive(kind, tuple(ws)), st.sampled_from(["branchtargets", "calltargets"]), st.lists(words, min_size=2, max_size=4)
)
prototypes = st.builds(lambda name: Directive("callprototype", (name, "( .param .b32 _ ) _ ( .param .b64 _ )")), words)
pragmas = st.builds(lambda ss: Directive("pragma", tuple(ss)), st.lists(strings, min_size=1, max_size=2))
simple: st.SearchStrategy[Statement] = st.one_of(
    instructions(), st.builds(Label, words), declarations, variables(), st.builds(LocDirective, located), targets, prototypes, pragmas
)
statements: st.SearchStrategy[Statement] = st.recursive(
    simple, lambda inner: st.builds(Block, st.lists(inner, max_size=4).map(tuple)), max_leaves=12
)


@st.composite
def params(draw: st.DrawFn) -> Param:
    type_, shape = draw(types), tuple(draw(st.lists(st.integers(1, 9), max_size=1)))
    size = BYTES[type_] * prod(shape)
    if draw(st.booleans()):
        return Param(type_, draw(words), size, draw(aligns), shape=shape)
    if draw(st.booleans()):
        return Param(type_, draw(words), BYTES[type_], BYTES[type_], space="reg")
    return Param("b64", draw(words), 8, 8, True, (), draw(st.sampled_from(["", "global", "shared"])), draw(st.sampled_from([0, 1, 16])))


headers = st.lists(
    st.sampled_from(
        [
            ("maxntid", ("128", "1", "1")),
            ("reqntid", ("32",)),
            ("noreturn", ()),
            ("attribute", (".unified(1,2)",)),
            ("pragma", ("nounroll",)),
        ]
    ),
    max_size=3,
    unique=True,
).map(lambda found: tuple(sorted(found, key=lambda d: d[0] != "attribute")))


@st.composite
def functions(draw: st.DrawFn) -> Function:
    entry = draw(st.booleans())
    returns = () if entry else draw(st.lists(params(), max_size=1).map(tuple))
    body = draw(st.none() | st.lists(statements, max_size=8).map(tuple))
    return Function(draw(words), entry, tuple(draw(st.lists(params(), max_size=3))), returns, body, draw(linkages), draw(headers))


def definitions_differ(module: Module) -> bool:
    """No two bodies or variables of a module have one name."""
    own = [f.name for f in module.functions if f.body is not None] + [v.name for v in module.variables if v.linkage != "extern"]
    return len(own) == len(set(own))


aliases = st.builds(lambda alias, aliasee: Directive("alias", (alias, aliasee)), words, words)
modules = st.builds(
    Module,
    st.tuples(st.integers(1, 99), st.integers(0, 9)),
    st.lists(words, min_size=1, max_size=2).map(tuple),
    st.sampled_from([32, 64]),
    st.lists(st.tuples(st.integers(1, 99), strings), max_size=2).map(tuple),
    st.lists(variables(), max_size=3).map(tuple),
    st.lists(functions(), max_size=2).map(tuple),
    directives=st.tuples(st.lists(pragmas, max_size=1), st.lists(aliases, max_size=1)).map(lambda found: (*found[0], *found[1])),
).filter(definitions_differ)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(modules)
def test_printed_modules_read_back(module: Module) -> None:
    printed = print_module(module)
    assert parse(printed) == module


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(modules)
def test_spelling_does_not_matter(module: Module) -> None:
    """Comments and line ends between statements change nothing."""
    printed = print_module(module)
    spread = "\n".join(line + " // ; } note\r\n/* { */" if line.endswith(";") else line for line in printed.split("\n"))
    assert parse(spread) == module
