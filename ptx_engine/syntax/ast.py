"""The PTX abstract syntax tree: values with spans; nothing here knows what an instruction means.

Scopes stay nested (``Block``); ``syntax.resolve`` flattens a function and gives every register and
label a unique name. The parser shares equal operands of a text, so that an operand's ``span`` stays
``NO_SPAN``: an instruction's span and ``lexer.locate`` give the place.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Union

from ptx_engine.errors import Span

NO_SPAN = Span(0, 0, 0)


@dataclass(frozen=True, slots=True)
class Loc:
    """A ``.loc`` row: file number, line, column, and the call site it was inlined at."""

    file: int
    line: int
    col: int
    function: str = ""
    inlined_at: "Loc | None" = None


# --- operands -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reg:
    """A register use: ``%r12``. After ``resolve`` the name is unique in the function."""

    name: str
    span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class IntLit:
    value: int
    span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class FloatLit:
    """``0f3F800000`` (width 32) or ``0d...`` / decimal (width 64): the exact bits."""

    bits: int
    width: int
    span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Name:
    """A symbol that is no declared register: variable, label, function, parameter, special register (``%tid.x``), ``_``."""

    name: str
    span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Vec:
    """``{%r1, %r2}``"""

    elements: tuple["Operand", ...]
    span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Mem:
    """``[base + offset]``; ``base`` is a register, a name or an integer literal.

    ``extra`` holds what follows a comma inside the brackets: tensor coordinates (``[%rd1, {%r1, %r2}]``), texture operands.
    """

    base: "Operand"
    offset: int = 0
    span: Span = field(default=NO_SPAN, compare=False)
    extra: tuple["Operand", ...] = ()


@dataclass(frozen=True, slots=True)
class Pair:
    """``%p1|%p2``: two destinations."""

    first: "Operand"
    second: "Operand"
    span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Not:
    """``!%p1`` as a source operand."""

    operand: "Operand"
    span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class NameOffset:
    """``symbol+4`` as an immediate address operand (``mov.u64 %rd1, table+16``)."""

    name: str
    offset: int
    span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Subscript:
    """``table[%r1+2]``: an element of a variable; ``index`` is None for a constant ``offset``, both count elements."""

    name: str
    index: "Operand | None"
    offset: int = 0
    span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class AddressOf:
    """``generic(table)+4`` or ``0xFF00(table)`` in an initialiser: a generic address, and the byte of it that a mask selects."""

    name: str
    offset: int = 0
    generic: bool = False
    mask: int | None = None
    span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Args:
    """``(a, b)``: the parenthesised lists of ``call``."""

    elements: tuple["Operand", ...]
    span: Span = field(default=NO_SPAN, compare=False)


Operand = Union[Reg, IntLit, FloatLit, Name, Vec, Mem, Pair, Not, NameOffset, Subscript, Args]
Initial = Union[int, FloatLit, Name, NameOffset, AddressOf]


# --- statements ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Instruction:
    """``@!%p1 ld.global.v2.f32 {%f1,%f2}, [%rd1+8];``: opcode ``ld``, modifiers ``("global","v2","f32")``.

    The modifiers keep ``::`` qualifiers in one piece (``L2::128B``).
    """

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    predicate: Reg | None = None
    negated: bool = False
    span: Span = field(default=NO_SPAN, compare=False)
    loc: Loc | None = field(default=None, compare=False)

    @property
    def mnemonic(self) -> str:
        return ".".join((self.opcode, *self.modifiers))


@dataclass(frozen=True, slots=True)
class Label:
    name: str
    span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class RegDecl:
    """``.reg .b32 %r<9>;`` -> type ``b32``, names ``("%r",)``, count 9; plain names have count None; ``vector`` is 2 or 4 for ``.v4``."""

    type: str
    names: tuple[str, ...]
    count: int | None = None
    span: Span = field(default=NO_SPAN, compare=False)
    vector: int = 1


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of any state space, at module or function level.

    ``size`` is the total size in bytes (0 for an unsized ``extern`` array, whose shape begins with 0); ``initializer`` the
    values in element order (ints, FloatLit, or Name/NameOffset/AddressOf for addresses), empty if there is none; elements after
    the last one are zero. ``vector`` is 2, 4 or 8 for ``.v2``...; a ``tex`` variable and sampler fields (``Name("k=v")``) are opaque.
    """

    space: str  # "global", "shared", "const", "local", "param", "tex"
    type: str
    name: str
    size: int
    align: int
    linkage: str = ""  # "extern", "visible", "weak", "common", ""
    shape: tuple[int, ...] = ()
    initializer: tuple[Initial, ...] = ()
    span: Span = field(default=NO_SPAN, compare=False)
    vector: int = 1
    attributes: tuple[str, ...] = ()  # ".managed", ".unified(1,2)"


@dataclass(frozen=True, slots=True)
class LocDirective:
    loc: Loc
    span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Directive:
    """Any other directive that carries no semantics here (``.pragma``), kept for printing; also ``.branchtargets``,
    ``.calltargets`` and ``.callprototype`` (name first), and at module level ``.alias`` (alias, aliasee)."""

    name: str
    arguments: tuple[str, ...] = ()
    span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Block:
    """A nested ``{ }`` scope."""

    body: tuple["Statement", ...]
    span: Span = field(default=NO_SPAN, compare=False)


Statement = Union[Instruction, Label, RegDecl, Variable, LocDirective, Directive, Block]


@dataclass(frozen=True, slots=True)
class Param:
    """A kernel or function parameter; ``size`` in bytes; ``pointer`` when declared ``.ptr``."""

    type: str
    name: str
    size: int
    align: int
    pointer: bool = False
    shape: tuple[int, ...] = ()
    pointer_space: str = ""
    pointer_align: int = 0
    span: Span = field(default=NO_SPAN, compare=False)
    space: str = "param"  # "reg" for a register parameter of a .func
    vector: int = 1


@dataclass(frozen=True, slots=True)
class Function:
    """``.entry`` or ``.func``. ``body`` is None for a declaration. ``directives``: ``{"reqntid": (128,), ...}``."""

    name: str
    is_entry: bool
    params: tuple[Param, ...]
    returns: tuple[Param, ...]
    body: tuple[Statement, ...] | None
    linkage: str = ""
    directives: tuple[tuple[str, tuple[str, ...]], ...] = ()
    span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Module:
    """A PTX text: version ``(8, 8)``, target ``("sm_80",)``, variables and functions in order, ``.file`` table.

    ``source`` is the text it was parsed from (empty for a module made by hand); errors quote it.
    """

    version: tuple[int, int]
    target: tuple[str, ...]
    address_size: int
    files: tuple[tuple[int, str], ...]
    variables: tuple[Variable, ...]
    functions: tuple[Function, ...]
    name: str = field(default="", compare=False)
    directives: tuple[Directive, ...] = ()
    source: str = field(default="", compare=False, repr=False)

    def entries(self) -> tuple[Function, ...]:
        return tuple(f for f in self.functions if f.is_entry and f.body is not None)


@dataclass(frozen=True, slots=True)
class FlatFunction:
    """A function as the machine wants it: no scopes, no labels.

    ``instructions[i]`` is what pc ``i`` executes; ``labels[name]`` is the pc a (unique) label stands at; branch
    operands are ``Name`` of such a label. ``registers`` maps every register that is used, by its unique name, to its type.
    ``variables`` holds function-level variables under unique names (operands refer to those).
    """

    function: Function
    instructions: tuple[Instruction, ...]
    labels: dict[str, int]
    registers: dict[str, str]
    variables: tuple[Variable, ...]
    branch_targets: dict[str, tuple[str, ...]]
