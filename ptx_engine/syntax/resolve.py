"""Flattens a function: scopes and labels go, every register, label and local variable gets a name of its own.

An inner declaration shadows an outer one. A name declared in several scopes keeps its spelling the first time (always in the
function's outermost scope) and is ``name@N`` in the N-th scope; ``@`` stands in no PTX identifier. Registers are declared
before use; labels are visible in their whole scope and the scopes inside it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from operator import is_
from typing import Union

from ptx_engine.errors import ParseError, Span
from ptx_engine.syntax.ast import (
    Args,
    Block,
    Directive,
    FlatFunction,
    FloatLit,
    Function,
    Instruction,
    IntLit,
    Label,
    Mem,
    Module,
    Name,
    NameOffset,
    Not,
    Operand,
    Pair,
    Reg,
    RegDecl,
    Statement,
    Subscript,
    Variable,
    Vec,
)
from ptx_engine.syntax.declarations import TYPE_BYTES
from ptx_engine.syntax.lexer import locate, source_line
from ptx_engine.syntax.operands import SPECIAL

_NUMBERED = re.compile(r"(.*[^\d])(0|[1-9]\d{0,8})", re.ASCII | re.DOTALL)
_COMPONENTS = {2: ("x", "y"), 4: ("x", "y", "z", "w"), 8: tuple("01234567")}
_COLOURS = dict(zip("rgba", "xyzw"))
#: opcodes whose subscripted operand is an access; elsewhere it is an address
_ACCESSES = frozenset("ld st ldu ldmatrix stmatrix atom red prefetch prefetchu wmma".split())


@dataclass
class _Symbol:
    """A declared name: ``unique`` is what operands get, ``register`` its type or "", ``vector`` its width."""

    unique: str
    register: str = ""
    vector: int = 1
    element_bytes: int = 0


@dataclass
class _Scope:
    """Names of one ``{ }``; ``ranges`` are ``prefix -> (type, count, vector)``."""

    number: int
    parent: "_Scope | None"
    symbols: dict[str, _Symbol] = field(default_factory=dict)
    ranges: dict[str, tuple[str, int, int]] = field(default_factory=dict)
    #: whether some range's prefix ends in a digit
    digits: bool = False
    labels: dict[str, str] = field(default_factory=dict)
    #: resolved operands by identity: the function keeps the keys alive
    memo: dict[int, Operand] = field(default_factory=dict)


def flatten(function: Function, module: Module) -> FlatFunction:
    """The function without scopes and labels; instructions that need no change are shared with it.

    Raises ParseError (with span) for an undeclared register or symbol, a redeclaration in one scope, a duplicate label, a
    branch to something that is no label, a function without a body.
    """
    return _Flattener(function, module).run()


class _Flattener:
    def __init__(self, function: Function, module: Module) -> None:
        self.function = function
        self.module = module
        self.globals = {v.name: v for v in module.variables}
        self.outside = {f.name for f in module.functions} | {d.arguments[0] for d in module.directives if d.name == "alias"}
        self.instructions: list[Instruction] = []
        self.labels: dict[str, int] = {}
        self.registers: dict[str, str] = {}
        self.variables: list[Variable] = []
        self.branch_targets: dict[str, tuple[str, ...]] = {}
        self.taken: set[str] = set()
        self.scopes = 0
        self.span = function.span

    def run(self) -> FlatFunction:
        if self.function.body is None:
            raise self._error(f"function '{self.function.name}' has no body here", self.function.span, self.function.name)
        scope = self._open(None, self.function.body)
        self._declare_params(scope)
        todo: list[tuple[_Scope, tuple[Statement, ...], int]] = [(scope, self.function.body, 0)]
        while todo:
            scope, body, at = todo.pop()
            for index in range(at, len(body)):
                statement = body[index]
                if type(statement) is Instruction:
                    self._instruction(scope, statement)
                elif type(statement) is Block:
                    todo.append((scope, body, index + 1))
                    todo.append((self._open(scope, statement.body), statement.body, 0))
                    break
                else:
                    self._other(scope, statement)
        return FlatFunction(
            self.function,
            tuple(self.instructions),
            self.labels,
            self.registers,
            tuple(self.variables),
            self.branch_targets,
        )

    # --- declarations ---------------------------------------------------------------------------

    def _open(self, parent: _Scope | None, body: tuple[Statement, ...]) -> _Scope:
        """A new scope that knows the labels (and branch target lists) of its body."""
        scope = _Scope(self.scopes, parent)
        self.scopes += 1
        for statement in body:
            if type(statement) is Label:
                if statement.name in scope.labels:
                    raise self._error(f"label '{statement.name}' is defined twice in one scope", statement.span, statement.name)
                scope.labels[statement.name] = self._unique(scope, statement.name)
            elif type(statement) is Directive and statement.name.startswith(("branch", "call")):
                self._declare(scope, statement.arguments[0], _Symbol(""), statement.span)
        return scope

    def _declare_params(self, scope: _Scope) -> None:
        for param in (*self.function.params, *self.function.returns):
            register = param.type if param.space == "reg" else ""
            symbol = _Symbol("", register, param.vector if register else 1, TYPE_BYTES.get(param.type, 0) * param.vector)
            self._declare(scope, param.name, symbol, param.span)

    def _declare(self, scope: _Scope, name: str, symbol: _Symbol, span: Span) -> str:
        if name in scope.symbols or name in scope.labels:
            raise self._error(f"'{name}' is declared twice in one scope", span, name)
        symbol.unique = self._unique(scope, name)
        scope.symbols[name] = symbol
        return symbol.unique

    def _unique(self, scope: _Scope, name: str) -> str:
        """The name itself if no other scope, parameter or module-level symbol has it, else ``name@scope``."""
        shadows = name in self.taken or name in self.globals or name in self.outside
        if not shadows and scope.parent is not None:
            shadows = self._find_range(scope.parent, name) is not None
        unique = f"{name}@{scope.number}" if shadows else name
        self.taken.add(unique)
        return unique

    def _other(self, scope: _Scope, statement: Statement) -> None:
        """Declarations, labels, target lists."""
        if isinstance(statement, Label):
            self.labels[scope.labels[statement.name]] = len(self.instructions)
        elif isinstance(statement, RegDecl):
            self._declare_registers(scope, statement)
        elif isinstance(statement, Variable):
            unit = TYPE_BYTES[statement.type] * statement.vector
            unique = self._declare(scope, statement.name, _Symbol("", element_bytes=unit), statement.span)
            scope.memo.clear()
            self.variables.append(statement if unique == statement.name else replace(statement, name=unique))
        elif isinstance(statement, Directive) and statement.name == "branchtargets":
            name, *targets = statement.arguments
            found = tuple(self._label(scope, target, statement.span) for target in targets)
            self.branch_targets[scope.symbols[name].unique] = found

    def _declare_registers(self, scope: _Scope, declaration: RegDecl) -> None:
        scope.memo.clear()
        if declaration.count is None:
            for name in declaration.names:
                self._declare(scope, name, _Symbol("", declaration.type, declaration.vector), declaration.span)
            return
        for prefix in declaration.names:
            if prefix in scope.ranges:
                raise self._error(f"'{prefix}<{declaration.count}>' is declared twice in one scope", declaration.span, prefix)
            scope.digits = scope.digits or prefix[-1].isdigit()
            scope.ranges[prefix] = (declaration.type, declaration.count, declaration.vector)

    # --- look-up --------------------------------------------------------------------------------

    def _find_range(self, scope: "_Scope | None", name: str) -> "tuple[_Scope, str, int] | None":
        """The scope whose register range covers a name, with type and vector width."""
        while scope is not None:
            found = _in_ranges(scope, name)
            if found is not None:
                return scope, found[0], found[1]
            scope = scope.parent
        return None

    def _find(self, scope: _Scope, name: str) -> _Symbol | None:
        """The declaration that a name means in a scope: plain names, then register ranges, from the inside out."""
        at: _Scope | None = scope
        while at is not None:
            symbol = at.symbols.get(name)
            if symbol is not None:
                return symbol
            found = _in_ranges(at, name)
            if found is not None:
                symbol = _Symbol(self._unique(at, name), *found)
                at.symbols[name] = symbol
                return symbol
            at = at.parent
        return None

    def _find_label(self, scope: _Scope, name: str) -> str | None:
        at: _Scope | None = scope
        while at is not None:
            if name in at.labels:
                return at.labels[name]
            at = at.parent
        return None

    def _label(self, scope: _Scope, name: str, span: Span) -> str:
        unique = self._find_label(scope, name)
        if unique is None:
            raise self._error(f"branch to unknown label '{name}'", span, name)
        return unique

    # --- instructions ---------------------------------------------------------------------------

    def _instruction(self, scope: _Scope, instruction: Instruction) -> None:
        self.span = instruction.span
        memo = scope.memo
        resolved = []
        for operand in instruction.operands:
            found = memo.get(id(operand)) or self._resolve(scope, operand)
            if type(found) is Subscript:
                found = self._subscript(scope, found, instruction.opcode)
            resolved.append(found)
        changed = not all(map(is_, resolved, instruction.operands))
        if instruction.opcode == "bra":
            self._check_branch(scope, instruction)
        predicate = instruction.predicate
        if predicate is not None:
            guard = memo.get(id(predicate)) or self._resolve(scope, predicate)
            if not isinstance(guard, Reg):
                raise self._error(f"'{predicate.name}' is a vector, not a predicate", self.span, predicate.name)
            changed = changed or guard is not predicate
            predicate = guard
        if changed:
            instruction = replace(instruction, operands=tuple(resolved), predicate=predicate)
        self.instructions.append(instruction)

    def _check_branch(self, scope: _Scope, instruction: Instruction) -> None:
        target = instruction.operands[-1] if instruction.operands else None
        if not isinstance(target, Name):
            raise self._error("'bra' needs a label", self.span, "bra")
        self._label(scope, target.name, self.span)

    def _resolve(self, scope: _Scope, operand: Operand) -> Operand:
        """The operand with unique names; the same object where nothing changes."""
        found = scope.memo.get(id(operand))
        if found is None:
            if type(operand) is Reg:
                register = self._register(scope, operand.name)
                found = operand if type(register) is Reg and register.name == operand.name else register
            else:
                found = self._operand(scope, operand)
            scope.memo[id(operand)] = found
        return found

    def _operand(self, scope: _Scope, operand: Operand) -> Operand:
        """An operand that is no register; nesting is bounded by the parser."""
        if isinstance(operand, (IntLit, FloatLit, Reg)):
            return operand
        if isinstance(operand, Name):
            return self._name(scope, operand)
        if isinstance(operand, (Vec, Args)):
            elements = tuple(self._resolve(scope, element) for element in operand.elements)
            return operand if _same(elements, operand.elements) else replace(operand, elements=elements)
        if isinstance(operand, Mem):
            parts = (self._resolve(scope, operand.base), *(self._resolve(scope, extra) for extra in operand.extra))
            same = _same(parts, (operand.base, *operand.extra))
            return operand if same else replace(operand, base=parts[0], extra=parts[1:])
        if isinstance(operand, Pair):
            first, second = self._resolve(scope, operand.first), self._resolve(scope, operand.second)
            same = first is operand.first and second is operand.second
            return operand if same else replace(operand, first=first, second=second)
        if isinstance(operand, Not):
            inner = self._resolve(scope, operand.operand)
            return operand if inner is operand.operand else replace(operand, operand=inner)
        return self._indexed(scope, operand)

    def _indexed(self, scope: _Scope, operand: Union[NameOffset, Subscript]) -> Operand:
        name = self._symbol_name(scope, operand.name)
        if isinstance(operand, NameOffset):
            return operand if name == operand.name else replace(operand, name=name)
        index = None if operand.index is None else self._resolve(scope, operand.index)
        return operand if name == operand.name and index is operand.index else replace(operand, name=name, index=index)

    def _subscript(self, scope: _Scope, operand: Subscript, opcode: str) -> Operand:
        """A constant subscript as an address in bytes; one with a register stays, for the registry to refuse."""
        if operand.index is not None:
            return operand
        spelled = operand.name.partition("@")[0]
        symbol = self._find(scope, spelled)
        if symbol is not None:
            unit = symbol.element_bytes
        else:
            variable = self.globals.get(spelled)
            unit = TYPE_BYTES[variable.type] * variable.vector if variable is not None else 0
        if unit == 0:
            raise self._error(f"'{spelled}' is no variable and takes no subscript", self.span, spelled)
        if opcode in _ACCESSES:
            return Mem(Name(operand.name), operand.offset * unit)
        return NameOffset(operand.name, operand.offset * unit)

    def _register(self, scope: _Scope, name: str) -> "Reg | Vec":
        if scope.parent is None and name not in scope.symbols:
            found = _in_ranges(scope, name)
            if found is not None and found[1] == 1:
                # the outermost scope keeps its spellings: inner scopes look here before they take a name
                self.registers[name] = found[0]
                return Reg(name)
        symbol = self._find(scope, name)
        if symbol is None or not symbol.register:
            component = self._component(scope, name)
            if component is not None:
                return component
            raise self._undeclared(scope, name)
        if symbol.vector == 1:
            self.registers[symbol.unique] = symbol.register
            return Reg(symbol.unique)
        names = [f"{symbol.unique}.{component}" for component in _COMPONENTS[symbol.vector]]
        self.registers.update(dict.fromkeys(names, symbol.register))
        return Vec(tuple(Reg(n) for n in names))

    def _component(self, scope: _Scope, name: str) -> Reg | None:
        """``v.x`` or ``v.r`` of a vector register."""
        stem, dot, component = name.partition(".")
        symbol = self._find(scope, stem) if dot else None
        if symbol is None or not symbol.register or symbol.vector == 1:
            return None
        component = _COLOURS.get(component, component)
        if component not in _COMPONENTS[symbol.vector]:
            return None
        unique = f"{symbol.unique}.{component}"
        self.registers[unique] = symbol.register
        return Reg(unique)

    def _name(self, scope: _Scope, operand: Name) -> Operand:
        name = operand.name
        if name == "_" or (name[0] == "%" and name[1:].partition(".")[0] in SPECIAL):
            return operand
        symbol = self._find(scope, name)
        if symbol is not None and symbol.register:
            return self._register(scope, name)
        if "." in name:
            component = self._component(scope, name)
            if component is not None:
                return component
            self._register(scope, name.partition(".")[0])  # a video instruction's %r1.b0: the register must exist
            return operand
        unique = self._symbol_name(scope, name)
        return operand if unique == name else replace(operand, name=unique)

    def _symbol_name(self, scope: _Scope, name: str) -> str:
        """The unique name of a variable, label, parameter, function or target list."""
        symbol = self._find(scope, name)
        if symbol is not None:
            return symbol.unique
        label = self._find_label(scope, name)
        if label is not None:
            return label
        if name in self.globals or name in self.outside:
            return name
        raise self._undeclared(scope, name)

    # --- errors ---------------------------------------------------------------------------------

    def _error(self, message: str, span: Span, symbol: str, hint: str = "") -> ParseError:
        place = locate(self.module.source, span, symbol)
        return ParseError(message, span=place, hint=hint, source_line=source_line(self.module.source, place.line))

    def _undeclared(self, scope: _Scope, name: str) -> ParseError:
        kind = "register" if name.startswith("%") else "symbol"
        hint = ""
        match = _NUMBERED.fullmatch(name)
        at: _Scope | None = scope
        while at is not None and match:
            if match[1] in at.ranges:
                hint = f"'.reg {match[1]}<{at.ranges[match[1]][1]}>' ends at {match[1]}{at.ranges[match[1]][1] - 1}"
                break
            at = at.parent
        return self._error(f"undeclared {kind} '{name}'", self.span, name, hint)


def _in_ranges(scope: _Scope, name: str) -> tuple[str, int] | None:
    """Type and vector width of ``%r12`` where a range of the scope covers it."""
    if not scope.ranges:
        return None
    match = _NUMBERED.fullmatch(name)
    if match is not None:
        found = scope.ranges.get(match[1])
        if found is not None and int(match[2]) < found[1]:
            return found[0], found[2]
    return _after_digits(scope, name) if scope.digits else None


def _after_digits(scope: _Scope, name: str) -> tuple[str, int] | None:
    """The same for prefixes that end in a digit: ``%a1<20>`` covers ``%a10`` and ``%a119``."""
    for width in range(1, 10):
        suffix = name[-width:]
        if len(name) <= width or not suffix.isdecimal():
            return None
        found = scope.ranges.get(name[:-width])
        if found is not None and (suffix[0] != "0" or width == 1) and int(suffix) < found[1]:
            return found[0], found[2]
    return None


def _same(found: tuple[Operand, ...], before: tuple[Operand, ...]) -> bool:
    return all(a is b for a, b in zip(found, before))
