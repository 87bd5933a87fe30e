"""Flattens a function: scopes and labels go, every register, label and local variable gets a name of its own (``scopes``).

Registers and variables are declared before use; labels are visible in their whole scope and the scopes inside it. What is a
declared register becomes a ``Reg``, everything else stays a ``Name``; constant subscripts become addresses.
"""

from __future__ import annotations

from dataclasses import replace
from operator import is_

from ptx_engine.errors import ParseError, Span
from ptx_engine.syntax.ast import (
    Args,
    Block,
    Directive,
    FlatFunction,
    Function,
    Instruction,
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
from ptx_engine.syntax.scopes import Names, Range, Scope, Symbol

_COMPONENTS = {2: ("x", "y"), 4: ("x", "y", "z", "w"), 8: tuple("01234567")}
#: opcodes whose addresses carry coordinates, beside cp.*.tensor
_TEXTURES = frozenset(("tex", "tld4", "suld", "sust", "sured"))
_SELECTORS = ("b0", "b1", "b2", "b3", "h0", "h1")
_COLOURS = dict(zip("rgba", "xyzw"))
#: opcodes whose subscripted operand is an access; elsewhere it is an address
_ACCESSES = frozenset(("ld", "st", "ldu", "ldmatrix", "stmatrix", "atom", "red", "prefetch", "prefetchu", "wmma"))

#: what the ISA writes first in accesses and atomics, in its order. ptxas takes them in any order, and CUTLASS writes
#: ``ld.global.acquire.gpu.b32``: whoever reads a flattened function finds the ISA's order
_LEADING = frozenset(("ld", "st", "atom", "red"))
_RANKS = {
    modifier: rank
    for rank, modifiers in enumerate(
        (("weak", "volatile", "mmio", "relaxed", "acquire", "release", "acq_rel"), ("cta", "cluster", "gpu", "sys"),
         ("global", "shared", "shared::cta", "shared::cluster", "local", "const", "param", "param::entry", "param::func"))
    )
    for modifier in modifiers
}  # fmt: skip


def _in_order(modifiers: tuple[str, ...]) -> tuple[str, ...]:
    """Semantics, scope, space, then the others as they stand."""
    ranks = [_RANKS.get(modifier, len(_RANKS)) for modifier in modifiers]
    return modifiers if ranks == sorted(ranks) else tuple(sorted(modifiers, key=lambda modifier: _RANKS.get(modifier, len(_RANKS))))


def flatten(function: Function, module: Module) -> FlatFunction:
    """The function without scopes and labels; instructions that need no change are shared with it.

    Raises ParseError (with span) for an undeclared register or symbol, a redeclaration in one scope, a duplicate label, a
    branch to something that is no label, a function without a body.
    """
    return _Flattener(function, module).run()


class _Flattener:
    """Walks the body in order with the scope of each statement."""

    def __init__(self, function: Function, module: Module) -> None:
        self.function = function
        self.module = module
        self.globals = {v.name: v for v in module.variables}
        functions = {f.name for f in module.functions} | {d.arguments[0] for d in module.directives if d.name == "alias"}
        self.names = Names(functions | self.globals.keys())
        self.instructions: list[Instruction] = []
        self.labels: dict[str, int] = {}
        self.registers: dict[str, str] = {}
        self.variables: list[Variable] = []
        self.branch_targets: dict[str, tuple[str, ...]] = {}
        self.span = function.span
        self.instruction = Instruction("", (), ())

    def run(self) -> FlatFunction:
        body = self.function.body
        if body is None:
            raise self._error(f"function '{self.function.name}' has no body here", self.function.span, self.function.name)
        scope = self._open(None, body)
        self._declare_params(scope)
        todo: list[tuple[Scope, tuple[Statement, ...], int]] = [(scope, body, 0)]
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
            self.function, tuple(self.instructions), self.labels, self.registers, tuple(self.variables), self.branch_targets
        )

    # --- declarations ---------------------------------------------------------------------------

    def _open(self, parent: Scope | None, body: tuple[Statement, ...]) -> Scope:
        """A new scope that knows the labels and the target lists of its body."""
        scope = self.names.open(parent)
        for statement in body:
            if type(statement) is Label:
                if statement.name in scope.labels:
                    raise self._error(f"label '{statement.name}' is defined twice in one scope", statement.span, statement.name)
                scope.labels[statement.name] = self.names.unique(scope, statement.name)
                scope.note(statement.name)
            elif type(statement) is Directive and statement.name.startswith(("branch", "call")):
                symbol = Symbol("", targets=statement.name == "branchtargets")
                self._declare(scope, statement.arguments[0], symbol, statement.span)
        return scope

    def _declare_params(self, scope: Scope) -> None:
        for param in (*self.function.params, *self.function.returns):
            register = param.type if param.space == "reg" else ""
            symbol = Symbol("", register, param.vector if register else 1, TYPE_BYTES.get(param.type, 0) * param.vector)
            self._declare(scope, param.name, symbol, param.span)
            if not register:
                symbol.unique = param.name  # the launch binds parameters by this name

    def _declare(self, scope: Scope, name: str, symbol: Symbol, span: Span) -> str:
        if name in scope.symbols or name in scope.labels or scope.range_of(name) is not None:
            raise self._error(f"'{name}' is declared twice in one scope", span, name)
        symbol.unique = self.names.unique(scope, name)
        scope.symbols[name] = symbol
        scope.note(name)
        scope.memo.clear()
        return symbol.unique

    def _other(self, scope: Scope, statement: Statement) -> None:
        """Declarations, labels, target lists."""
        if isinstance(statement, Label):
            self.labels[scope.labels[statement.name]] = len(self.instructions)
        elif isinstance(statement, RegDecl):
            self._declare_registers(scope, statement)
        elif isinstance(statement, Variable):
            unit = TYPE_BYTES.get(statement.type, 0) * statement.vector
            unique = self._declare(scope, statement.name, Symbol("", element_bytes=unit), statement.span)
            self.variables.append(statement if unique == statement.name else replace(statement, name=unique))
        elif isinstance(statement, Directive) and statement.name == "branchtargets":
            name, *targets = statement.arguments
            found = tuple(self._label(scope, target, statement.span) for target in targets)
            self.branch_targets[scope.symbols[name].unique] = found

    def _declare_registers(self, scope: Scope, declaration: RegDecl) -> None:
        if declaration.count is None:
            for name in declaration.names:
                self._declare(scope, name, Symbol("", declaration.type, declaration.vector), declaration.span)
            return
        scope.memo.clear()
        for prefix in declaration.names:
            if not scope.add_range(prefix, Range(declaration.type, declaration.count, declaration.vector)):
                message = f"a register of '{prefix}<{declaration.count}>' is declared twice in one scope"
                raise self._error(message, declaration.span, prefix)

    # --- instructions ---------------------------------------------------------------------------

    def _instruction(self, scope: Scope, instruction: Instruction) -> None:
        self.span, self.instruction = instruction.span, instruction
        memo = scope.memo
        operands: list[Operand] = []
        if instruction.opcode in ("bra", "brx"):
            self._check_target(scope, instruction)
        for operand in instruction.operands:
            found = memo.get(id(operand)) or self._resolve(scope, operand)
            if type(found) is Subscript:
                found = self._subscript(scope, found, instruction.opcode)
            operands.append(found)
        if instruction.opcode == "bra":
            self._aim(scope, operands, instruction)
        guard: Operand | None = instruction.predicate
        if guard is not None:
            guard = memo.get(id(guard)) or self._resolve(scope, guard)
            if not isinstance(guard, Reg):
                raise self._error(
                    "a vector register is no predicate", self.span, instruction.predicate.name if instruction.predicate else ""
                )
        if guard is not instruction.predicate or not all(map(is_, operands, instruction.operands)):
            instruction = replace(instruction, operands=tuple(operands), predicate=guard)
        if instruction.opcode in _LEADING and (modifiers := _in_order(instruction.modifiers)) != instruction.modifiers:
            instruction = replace(instruction, modifiers=modifiers)
        self.instructions.append(instruction)

    def _check_target(self, scope: Scope, instruction: Instruction) -> None:
        """A branch ends with a label, an indexed one with the name of a target list."""
        target = instruction.operands[-1] if instruction.operands else None
        if not isinstance(target, Name):
            raise self._error(f"'{instruction.opcode}' needs a label", self.span, instruction.opcode)
        if instruction.opcode == "bra":
            self._label(scope, target.name, self.span)
            return
        symbol = self.names.find(scope, target.name)
        if symbol is None or not symbol.targets:
            raise self._error(f"'{target.name}' is no .branchtargets list", self.span, target.name)

    def _aim(self, scope: Scope, operands: list[Operand], instruction: Instruction) -> None:
        """The target is the label, whatever else has its name in an inner scope."""
        target = instruction.operands[-1]
        unique = Name(self._label(scope, target.name, self.span)) if isinstance(target, Name) else target
        if operands[-1] != unique:
            operands[-1] = unique

    def _label(self, scope: Scope, name: str, span: Span) -> str:
        unique = self.names.find_label(scope, name)
        if unique is None:
            raise self._error(f"branch to unknown label '{name}'", span, name)
        return unique

    def _resolve(self, scope: Scope, operand: Operand) -> Operand:
        """The operand with unique names; the same object where nothing changes."""
        found = scope.memo.get(id(operand))
        if found is None:
            if type(operand) is Reg:
                found = self._register(scope, operand)
            elif type(operand) is Name:
                found = self._name(scope, operand)
            else:
                found = self._compound(scope, operand)
                if isinstance(operand, Mem) and operand.extra:
                    self._check_coordinates()
                    return found  # not remembered: the next instruction with it is checked too
            scope.memo[id(operand)] = found
        return found

    def _check_coordinates(self) -> None:
        """Refuse ``[%rd1, %r2]`` where an instruction takes a plain address, so that no semantics can overlook the rest."""
        opcode, modifiers = self.instruction.opcode, self.instruction.modifiers
        if opcode not in _TEXTURES and not (opcode == "cp" and "tensor" in modifiers):
            raise self._error(f"'{self.instruction.mnemonic}' takes an address without coordinates", self.span, opcode)

    def _compound(self, scope: Scope, operand: Operand) -> Operand:
        """An operand that is neither register nor name; nesting is bounded by the parser."""
        if isinstance(operand, (Vec, Args)):
            elements = tuple(self._resolve(scope, element) for element in operand.elements)
            return operand if all(map(is_, elements, operand.elements)) else replace(operand, elements=elements)
        if isinstance(operand, Mem):
            parts = (operand.base, *operand.extra)
            found = tuple(self._resolve(scope, part) for part in parts)
            return operand if all(map(is_, found, parts)) else replace(operand, base=found[0], extra=found[1:])
        if isinstance(operand, Pair):
            first, second = self._resolve(scope, operand.first), self._resolve(scope, operand.second)
            same = first is operand.first and second is operand.second
            return operand if same else replace(operand, first=first, second=second)
        if isinstance(operand, Not):
            inner = self._resolve(scope, operand.operand)
            return operand if inner is operand.operand else replace(operand, operand=inner)
        if isinstance(operand, NameOffset):
            name = self._symbol(scope, operand.name)
            return operand if name == operand.name else replace(operand, name=name)
        return operand

    def _subscript(self, scope: Scope, operand: Subscript, opcode: str) -> Operand:
        """A constant subscript as an address in bytes; one with a register keeps its form, for the registry to refuse."""
        name = self._symbol(scope, operand.name)
        if operand.index is not None:
            return replace(operand, name=name, index=self._resolve(scope, operand.index))
        symbol = self.names.find(scope, operand.name)
        variable = self.globals.get(operand.name)
        unit = 0
        if symbol is not None:
            unit = symbol.element_bytes
        elif variable is not None:
            unit = TYPE_BYTES.get(variable.type, 0) * variable.vector
        if unit == 0:
            raise self._error(f"'{operand.name}' is no variable and takes no subscript", self.span, operand.name)
        if opcode in _ACCESSES:
            return Mem(Name(name), operand.offset * unit)
        return NameOffset(name, operand.offset * unit)

    # --- names ----------------------------------------------------------------------------------

    def _register(self, scope: Scope, operand: Reg) -> Operand:
        type_ = self.names.spared(scope, operand.name)
        if type_ is not None:
            self.registers[operand.name] = type_
            return operand
        found = self._declared(scope, operand.name)
        if found is None:
            raise self._undeclared(scope, operand.name)
        return operand if found == operand else found

    def _declared(self, scope: Scope, name: str) -> "Reg | Vec | None":
        """The register, vector register or component that a name is; None if it is none."""
        stem, dot, component = name.partition(".")
        symbol = self.names.find(scope, stem)
        if symbol is None or not symbol.register or (dot and symbol.vector == 1):
            return None
        if symbol.vector == 1:
            self.registers[symbol.unique] = symbol.register
            return Reg(symbol.unique)
        components = _COMPONENTS[symbol.vector]
        component = _COLOURS.get(component, component)
        if dot and component not in components:
            return None
        regs = tuple(Reg(f"{symbol.unique}.{c}") for c in components if not dot or c == component)
        self.registers.update({reg.name: symbol.register for reg in regs})
        return regs[0] if dot else Vec(regs)

    def _name(self, scope: Scope, operand: Name) -> Operand:
        name = operand.name
        if name == "_" or (name[0] == "%" and name[1:].partition(".")[0] in SPECIAL):
            return operand
        register = self._declared(scope, name)
        if register is not None:
            return register
        if "." in name:
            # a video instruction's %r1.b0 stays as it is, but its register must exist
            stem, _, selector = name.partition(".")
            if self._declared(scope, stem) is None or selector not in _SELECTORS:
                raise self._undeclared(scope, name)
            return operand
        unique = self._symbol(scope, name)
        return operand if unique == name else Name(unique, operand.span)

    def _symbol(self, scope: Scope, name: str) -> str:
        """The unique name of a variable, label, parameter, function or target list."""
        symbol = self.names.find(scope, name)
        if symbol is not None:
            return symbol.unique
        label = self.names.find_label(scope, name)
        if label is not None:
            return label
        if name in self.names.outside:
            return name
        raise self._undeclared(scope, name)

    # --- errors ---------------------------------------------------------------------------------

    def _error(self, message: str, span: Span, symbol: str, hint: str = "") -> ParseError:
        place = locate(self.module.source, span, symbol)
        return ParseError(message, span=place, hint=hint, source_line=source_line(self.module.source, place.line))

    def _undeclared(self, scope: Scope, name: str) -> ParseError:
        kind = "register" if name.startswith("%") else "symbol"
        nearest = scope.nearest_range(name)
        hint = f"'.reg {nearest[0]}<{nearest[1]}>' ends at {nearest[0]}{nearest[1] - 1}" if nearest and nearest[1] else ""
        return self._error(f"undeclared {kind} '{name}'", self.span, name, hint)
