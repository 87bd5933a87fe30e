"""Declarations: registers, variables of every state space with their initialisers, parameters.

Sizes follow PTX ISA 9.1, "Fundamental Types" and "Variables"; the default alignment is that of the (vector) type.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from math import prod

from ptx_engine.syntax import constants
from ptx_engine.syntax.ast import AddressOf, FloatLit, Initial, Name, NameOffset, Param, RegDecl, Variable
from ptx_engine.syntax.lexer import Cursor

#: bytes of a fundamental type; predicates have registers only, opaque types are 64-bit handles
TYPE_BYTES = {
    "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "b32": 4, "u32": 4, "s32": 4, "f32": 4,
    "f16x2": 4, "bf16x2": 4, "tf32": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8, "f32x2": 8, "b128": 16,
    "e4m3": 1, "e5m2": 1, "e4m3x2": 2, "e5m2x2": 2, "texref": 8, "samplerref": 8, "surfref": 8,
}  # fmt: skip
REGISTER_TYPES = TYPE_BYTES.keys() | {"pred"}
SPACES = ("global", "shared", "const", "local", "param", "tex")
LINKAGES = ("extern", "visible", "weak", "common")
_VECTORS = {".v2": 2, ".v4": 4}
#: types whose variables start without a value of their own
_NO_INITIAL = ("f16", "f16x2", "bf16", "bf16x2")
MAX_DIMENSIONS = 16


def registers(cursor: Cursor) -> list[RegDecl]:
    """``.reg .b32 %r<9>, %q<3>, a, b;`` at the cursor: one declaration per range and per run of plain names."""
    start = cursor.start
    cursor.expect(".reg")
    vector = _vector(cursor)
    type_ = _type(cursor, REGISTER_TYPES)
    span = cursor.source.span(start, cursor.previous_end)
    found: list[RegDecl] = []
    plain: list[str] = []
    while True:
        name, count = _register(cursor)
        if count is None:
            plain.append(name)
        else:
            if plain:
                found.append(RegDecl(type_, tuple(plain), None, span, vector))
                plain = []
            found.append(RegDecl(type_, (name,), count, span, vector))
        if not cursor.take(","):
            break
    cursor.expect(";", "or ','")
    if plain:
        found.append(RegDecl(type_, tuple(plain), None, span, vector))
    return found


def _register(cursor: Cursor) -> tuple[str, int | None]:
    name = cursor.identifier("a register name")
    if not cursor.take("<"):
        return name, None
    value = constants.number(cursor.value) if cursor.kind == "int" else None
    if not isinstance(value, constants.Integer) or value.value < 0:
        cursor.fail(f"expected the number of registers, found {cursor.shown()}")
    cursor.advance()
    cursor.expect(">")
    return name, value.value


def variables(cursor: Cursor, linkage: str = "") -> list[Variable]:
    """``.global .align 4 .u32 a[2] = {1, 2}, b;`` at the cursor, after its linkage."""
    prefix = _Prefix(cursor, linkage)
    found = [_declarator(cursor, prefix)]
    while cursor.take(","):
        found.append(_declarator(cursor, prefix))
    cursor.expect(";", "after the declaration")
    return found


def parameters(cursor: Cursor) -> tuple[Param, ...]:
    """A parenthesised parameter list at the cursor."""
    cursor.expect("(")
    found: list[Param] = []
    if cursor.take(")"):
        return ()
    while True:
        found.append(_parameter(cursor))
        if cursor.take(")"):
            return tuple(found)
        cursor.expect(",", "or ')'")


@dataclass
class _Prefix:
    """What stands before the names of a variable declaration, read from the cursor."""

    cursor: Cursor
    linkage: str
    space: str = ""
    type: str = ""
    align: int = 0
    vector: int = 1
    attributes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        cursor = self.cursor
        self.space = _space(cursor)
        while True:
            if cursor.value == ".attribute":
                self.attributes += attributes(cursor)
            elif cursor.value == ".align":
                self.align = _alignment(cursor)
            elif cursor.value in _VECTORS:
                self.vector = _vector(cursor)
            else:
                break
        self.type = _type(cursor, TYPE_BYTES.keys())
        # .v4 and .align also stand after the type in older texts of the ISA
        if cursor.value == ".align":
            self.align = _alignment(cursor)


def _declarator(cursor: Cursor, prefix: _Prefix) -> Variable:
    start = cursor.start
    name = cursor.identifier("a variable name")
    span = cursor.source.span(start, cursor.previous_end)
    shape = _shape(cursor)
    values: tuple[Initial, ...] = ()
    if cursor.value == "=" and cursor.kind == "punct":
        values = _initial_values(cursor, prefix, shape)
        if shape[:1] == (0,):
            inner = prod(shape[1:]) * prefix.vector
            shape = (-(-len(values) // max(inner, 1)), *shape[1:])
    unit = TYPE_BYTES[prefix.type] * prefix.vector
    size, align = unit * prod(shape), prefix.align or unit
    return Variable(
        prefix.space, prefix.type, name, size, align, prefix.linkage, shape, values, span, prefix.vector, tuple(prefix.attributes)
    )


def _parameter(cursor: Cursor) -> Param:
    start = cursor.start
    space = "reg" if cursor.value == ".reg" else "param"
    if not cursor.take(".reg"):
        cursor.expect(".param")
    align, vector = 0, 1
    while cursor.value == ".align" or cursor.value in _VECTORS:
        if cursor.value == ".align":
            align = _alignment(cursor)
        else:
            vector = _vector(cursor)
    type_ = _type(cursor, REGISTER_TYPES if space == "reg" else TYPE_BYTES.keys())
    pointer, pointer_space, pointer_align = _pointer(cursor)
    if cursor.value == ".align":
        align = _alignment(cursor)
    name = cursor.identifier("a parameter name")
    span = cursor.source.span(start, cursor.previous_end)
    shape = _shape(cursor)
    if shape[:1] == (0,):
        cursor.fail("a parameter that is an array needs its size", "functions of any number of arguments are not in the ISA any more")
    unit = TYPE_BYTES.get(type_, 0) * vector
    return Param(type_, name, unit * prod(shape), align or unit, pointer, shape, pointer_space, pointer_align, span, space, vector)


def _pointer(cursor: Cursor) -> tuple[bool, str, int]:
    """``.ptr .global .align 16``: whether it is there, space, alignment."""
    if not cursor.take(".ptr"):
        return False, "", 0
    space = ""
    if cursor.value in (".global", ".shared", ".const", ".local", ".param"):
        space = cursor.advance()[1:]
    align = _alignment(cursor) if cursor.value == ".align" else 0
    return True, space, align


def _space(cursor: Cursor) -> str:
    # .shared::cta is .shared in a declaration; .const[3] is the bank syntax of PTX 2.1 and older
    space = cursor.advance()[1:].partition("::")[0]
    if space == "const" and cursor.take("["):
        constants.integer(cursor)
        cursor.expect("]")
    return space


def _type(cursor: Cursor, known: Container[str]) -> str:
    name = cursor.value[1:]
    if cursor.kind != "directive" or name not in known:
        cursor.fail(f"expected a type, found {cursor.shown()}", "such as .b32, .u64 or .f32")
    cursor.advance()
    return name


def _vector(cursor: Cursor) -> int:
    return _VECTORS[cursor.advance()] if cursor.value in _VECTORS else 1


def _alignment(cursor: Cursor) -> int:
    cursor.expect(".align")
    start = cursor.start
    value = constants.integer(cursor)
    if value <= 0 or value & (value - 1) or value > 1 << 32:
        cursor.fail(f"alignment {value} is no power of two", start=start)
    return value


def _shape(cursor: Cursor) -> tuple[int, ...]:
    """``[2][3]``; an empty first extent is 0."""
    shape: list[int] = []
    while cursor.take("["):
        start = cursor.start
        if cursor.value == "]" and shape:
            cursor.fail("only the first extent of an array can be left out")
        extent = 0 if cursor.value == "]" else constants.integer(cursor)
        if extent < 0:
            cursor.fail(f"negative array extent {extent}", start=start)
        if len(shape) == MAX_DIMENSIONS:
            cursor.fail(f"an array of more than {MAX_DIMENSIONS} dimensions", start=start)
        shape.append(extent)
        cursor.expect("]")
    return tuple(shape)


def _initial_values(cursor: Cursor, prefix: _Prefix, shape: tuple[int, ...]) -> tuple[Initial, ...]:
    """What follows the name from ``=`` on; only variables of .global and .const that are no one else's have it.

    Integers stand for .u and .s types, numbers with a point or bits for .f32 (here as its 32 bits) and .f64, both for .b types.
    """
    if prefix.space not in ("global", "const") or "extern" in prefix.linkage or prefix.type in _NO_INITIAL:
        where = "an .extern variable" if "extern" in prefix.linkage else f"a .{prefix.space} variable of type .{prefix.type}"
        cursor.fail(f"{where} takes no initial value")
    cursor.advance()
    start = cursor.start
    values = _initializer(cursor, shape, prefix.vector)
    unfit = {"u": True, "s": True, "f": False}.get(prefix.type[0])
    if any(isinstance(v, FloatLit) is unfit for v in values):
        cursor.fail(f"an initial value is no number of type .{prefix.type}", start=start)
    return tuple(constants.single(v) if isinstance(v, FloatLit) else v for v in values) if prefix.type == "f32" else values


def _initializer(cursor: Cursor, shape: tuple[int, ...], vector: int) -> tuple[Initial, ...]:
    """The values after ``=``: a scalar, or braces nested as the shape (then the vector) is.

    A row that has too few values is refused unless nothing follows it: the ISA fills it with zeros, ptxas 13 with what follows.
    """
    if cursor.value != "{":
        return (_value(cursor),)
    extents = [*shape, vector] if vector > 1 else list(shape)
    # elements that one brace of a depth holds; 0 for an unsized outermost extent
    capacity = [prod(extents[depth:]) for depth in range(len(extents))]
    values: list[Initial] = []
    starts: list[int] = []
    short = False
    while True:
        if cursor.take("{"):
            starts.append(len(values))
            if len(starts) > max(len(extents), 1):
                cursor.fail("the initialiser is nested deeper than the array", start=cursor.previous_end - 1)
            if cursor.value != "}":
                continue
        elif short:
            cursor.fail("values after a row with too few values", "give every row its zeros: the ISA and ptxas disagree on short rows")
        else:
            values.append(_value(cursor))
        while cursor.take("}"):
            begin = starts.pop()
            if not starts:
                return _checked(cursor, values, capacity[0] if capacity else 1)
            row = capacity[len(starts)]
            if len(values) > begin + row:
                cursor.fail(f"more than {row} values in a row")
            short = short or len(values) < begin + row
        cursor.expect(",", "or '}'")
        if cursor.value == "}" and cursor.kind == "punct":
            cursor.fail("expected a value after ','")


def _checked(cursor: Cursor, values: list[Initial], capacity: int) -> tuple[Initial, ...]:
    if capacity and len(values) > capacity and not any(isinstance(v, Name) and "=" in v.name for v in values):
        cursor.fail(f"{len(values)} initial values for {capacity} elements")
    return tuple(values)


def _value(cursor: Cursor) -> Initial:
    """One initial value: a number, an address, ``generic(a)+4``, ``0xFF(a)``, or a sampler field ``k = v``."""
    if cursor.kind == "ident" and cursor.value != "WARP_SZ":
        start, name = cursor.start, cursor.advance()
        if name == "generic" and cursor.take("("):
            return _generic(cursor, None)
        if cursor.take("="):
            return Name(f"{name}={cursor.advance()}")
        span = cursor.source.span(start, cursor.previous_end)
        offset = constants.offset(cursor)
        return NameOffset(name, offset, span) if offset else Name(name, span)
    value = constants.expression(cursor)
    if isinstance(value, FloatLit):
        return value
    if cursor.take("("):
        return _masked(cursor, value.value)
    return value.value


def _masked(cursor: Cursor, mask: int) -> AddressOf:
    """What follows ``0xFF00(``: an address, generic or not."""
    if cursor.take("generic"):
        cursor.expect("(")
        inner = _generic(cursor, mask)
    else:
        name = cursor.identifier("a variable")
        inner = AddressOf(name, constants.offset(cursor), False, mask)
    cursor.expect(")")
    return inner


def _generic(cursor: Cursor, mask: int | None) -> AddressOf:
    """What follows ``generic(``; the offset stands behind the parenthesis, or in it."""
    name = cursor.identifier("a variable")
    offset = constants.offset(cursor)
    cursor.expect(")")
    return AddressOf(name, offset + constants.offset(cursor), True, mask)


def attributes(cursor: Cursor) -> list[str]:
    """``.attribute(.managed, .unified(1, 2))`` at the cursor: the texts of its attributes, without blanks."""
    cursor.expect(".attribute")
    cursor.expect("(")
    found: list[str] = []
    while True:
        if cursor.kind != "directive":
            cursor.fail(f"expected an attribute, found {cursor.shown()}")
        text = cursor.advance()
        if cursor.take("("):
            values = [str(constants.integer(cursor))]
            while cursor.take(","):
                values.append(str(constants.integer(cursor)))
            cursor.expect(")")
            text += f"({','.join(values)})"
        found.append(text)
        if cursor.take(")"):
            return found
        cursor.expect(",", "or ')'")
