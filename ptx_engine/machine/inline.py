"""Calls: every call is replaced by the body of its callee, so that divergence and liveness need no notion of a stack.

``.param`` variables of a call become local memory of the thread, formal ``.param`` parameters other names of the actual ones,
register parameters moves. Functions without a body are operators where the launch's ``externs`` says so; ``vprintf`` does
nothing, a failed assertion traps. Recursion and indirect calls are refused.
Source: PTX ISA 9.1, "Control Flow Instructions: call, ret", "Function declarations and definitions".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ptx_engine.errors import ParseError, UnsupportedError
from ptx_engine.machine.call_site import CallSite, call_site
from ptx_engine.machine.extern_calls import extern_call
from ptx_engine.machine.operand_names import renamed
from ptx_engine.syntax import flatten
from ptx_engine.syntax.ast import FlatFunction, FloatLit, Function, Instruction, Mem, Module, Name, Operand, Param, Reg, Variable

#: instructions and labels of a function after inlining; a chain of functions that call the next one twice doubles at each
MAX_SIZE = 1 << 17
_STATIC = ("shared", "global", "const")


@dataclass
class Inlined:
    """A function without calls, and what was assumed about functions without a body."""

    flat: FlatFunction
    assumptions: list[str] = field(default_factory=list)


def inline(function: Function, module: Module, externs: Mapping[str, str]) -> Inlined:
    """The flat function with all calls replaced. Raises UnsupportedError (recursion, indirect calls, unknown externs) and ParseError."""
    flat = flatten(function, module)
    _check_inputs(flat)
    if not any(i.opcode == "call" for i in flat.instructions):
        return Inlined(flat)
    return _Inliner(module, externs).run(flat)


class _Inliner:
    """Expands callees before their callers; each function is expanded once."""

    def __init__(self, module: Module, externs: Mapping[str, str]) -> None:
        self.module = module
        self.externs = externs
        self.functions = {f.name: f for f in sorted(module.functions, key=lambda f: f.body is not None)}
        self.alias = {d.arguments[0]: d.arguments[1] for d in module.directives if d.name == "alias"}
        self.expanded: dict[str, FlatFunction] = {}
        self.assumptions: dict[str, None] = {}
        self.count = 0

    def run(self, entry: FlatFunction) -> Inlined:
        """Depth first over the call graph, with an explicit path so that a cycle can be named."""
        path = [entry.function.name]
        flats = {path[0]: _with_local_params(entry)}
        while path:
            name = path[-1]
            callee = next((c for c in self._callees(flats[name]) if c not in self.expanded), None)
            if callee is None:
                self.expanded[name] = self._expand(flats[name])
                path.pop()
                continue
            if callee in path:
                cycle = " -> ".join([*path[path.index(callee) :], callee])
                raise UnsupportedError(f"recursion: {cycle}", feature="recursion", span=self.functions[callee].span)
            flat = flatten(self.functions[callee], self.module)
            _check_inputs(flat)
            flats[callee] = _with_local_params(flat)
            path.append(callee)
        return Inlined(self.expanded[entry.function.name], list(self.assumptions))

    def _callees(self, flat: FlatFunction) -> list[str]:
        """Functions with a body that a function calls."""
        names = (self._target(call_site(i)) for i in flat.instructions if i.opcode == "call")
        return [n for n in names if self._has_body(n)]

    def _target(self, site: CallSite) -> str:
        return self.alias.get(site.target, site.target)

    def _has_body(self, name: str) -> bool:
        return name not in self.externs and name in self.functions and self.functions[name].body is not None

    def _expand(self, flat: FlatFunction) -> FlatFunction:
        build = _Build(flat)
        for instruction in flat.instructions:
            build.places.append(len(build.instructions))
            if instruction.opcode != "call":
                build.instructions.append(instruction)
                continue
            site = call_site(instruction)
            name = self._target(site)
            self.count += 1
            if self._has_body(name):
                if build.size() + _size(self.expanded[name]) > MAX_SIZE:
                    raise UnsupportedError(
                        f"more than {MAX_SIZE} instructions and labels after inlining", feature="code size", span=instruction.span
                    )
                _Splice(build, site, self.expanded[name], f"#{self.count}").run()
            else:
                declared = self.functions.get(name)
                replaced = extern_call(site, name, declared, self.externs.get(name), f"#{self.count}")
                self.assumptions.update(dict.fromkeys(replaced.assumptions))
                build.registers.update(replaced.registers)
                build.instructions.extend(replaced.instructions)
        return build.finish()


class _Build:
    """A function while its calls are replaced; ``places[pc]`` is where instruction ``pc`` went."""

    def __init__(self, flat: FlatFunction) -> None:
        self.flat = flat
        self.instructions: list[Instruction] = []
        self.places: list[int] = []
        self.labels: dict[str, int] = {}
        self.registers = dict(flat.registers)
        self.variables = {v.name: v for v in flat.variables}
        self.branch_targets = dict(flat.branch_targets)

    def size(self) -> int:
        return len(self.instructions) + len(self.labels)

    def finish(self) -> FlatFunction:
        places = [*self.places, len(self.instructions)]
        labels = {**{name: places[pc] for name, pc in self.flat.labels.items()}, **self.labels}
        return FlatFunction(
            self.flat.function, tuple(self.instructions), labels, self.registers, tuple(self.variables.values()), self.branch_targets
        )


class _Splice:
    """One call: the callee's instructions under names of their own, between the moves of arguments and results."""

    def __init__(self, build: _Build, site: CallSite, callee: FlatFunction, suffix: str) -> None:
        self.build, self.site, self.callee, self.suffix = build, site, callee, suffix
        own = (*callee.labels, *callee.branch_targets, *(v.name for v in callee.variables if v.space not in _STATIC))
        self.symbols = {name: name + suffix for name in own}
        #: where returns meet and results are brought to the caller; a call that a predicate skips has none to bring
        self.returned, self.after = f"return{suffix}", f"after{suffix}"

    def run(self) -> None:
        function, site = self.callee.function, self.site
        if (len(site.args), len(site.returns)) != (len(function.params), len(function.returns)):
            raise UnsupportedError(
                f"{function.name} takes {len(function.params)} arguments and returns {len(function.returns)} values; the call has "
                f"{len(site.args)} and {len(site.returns)}", feature="call with other parameters", span=site.instruction.span,
            )  # fmt: skip
        if site.instruction.predicate is not None:
            self._emit("bra", (), (Name(self.after),), predicate=site.instruction.predicate, negated=not site.instruction.negated)
        for formal, actual in zip(function.params, site.args):
            self._pass(formal, actual)
        results = [self._result(formal, actual) for formal, actual in zip(function.returns, site.returns)]
        self._body()
        self.build.labels[self.returned] = len(self.build.instructions)
        for result in results:
            if result is not None:
                self._emit(*result)
        self.build.labels[self.after] = len(self.build.instructions)

    def _emit(
        self, opcode: str, modifiers: tuple[str, ...], operands: tuple[Operand, ...], predicate: Reg | None = None, negated: bool = False
    ) -> None:
        call = self.site.instruction
        self.build.instructions.append(Instruction(opcode, modifiers, operands, predicate, negated, call.span, call.loc))

    def _register(self, formal: Param) -> Reg:
        """The register that stands for a register parameter."""
        if formal.vector != 1:
            raise UnsupportedError(f"vector register parameter {formal.name}", feature="vector parameter", span=self.site.instruction.span)
        name = formal.name + self.suffix
        self.build.registers[name] = formal.type
        return Reg(name)

    def _pass(self, formal: Param, actual: Operand) -> None:
        if formal.space == "reg":
            self._emit("mov", (_value_type(formal, actual),), (self._register(formal), actual))
        elif isinstance(actual, Name):
            self._alias(formal, actual)
        else:
            self._emit("st", ("local", _value_type(formal, actual)), (Mem(self._local(formal)), actual))

    def _result(self, formal: Param, actual: Operand) -> tuple[str, tuple[str, ...], tuple[Operand, ...]] | None:
        """The instruction that brings a result to the caller; None where the callee writes it there itself."""
        unused = isinstance(actual, Name) and actual.name == "_"
        if formal.space == "reg":
            register = self._register(formal)
            return None if unused else ("mov", (_bits_type(formal),), (actual, register))
        if isinstance(actual, Name) and not unused:
            self._alias(formal, actual)
            return None
        place = self._local(formal)
        return None if unused else ("ld", ("local", _bits_type(formal)), (actual, Mem(place)))

    def _alias(self, formal: Param, actual: Name) -> None:
        if actual.name not in self.build.variables and actual.name not in _formals(self.build.flat.function):
            raise UnsupportedError(
                f"argument {actual.name} is no .param variable", feature="argument of a call", span=self.site.instruction.span
            )
        if self.build.flat.function.is_entry and actual.name not in self.build.variables:
            raise UnsupportedError(f"kernel parameter {actual.name} is passed on without a copy", feature="argument of a call",
                                   span=self.site.instruction.span)  # fmt: skip
        passed = self.build.variables.get(actual.name)
        if passed is not None and passed.size != formal.size:
            raise UnsupportedError(
                f"{actual.name} has {passed.size} bytes, parameter {formal.name} of {self.callee.function.name} has {formal.size}",
                feature="argument of a call", span=self.site.instruction.span,
            )  # fmt: skip
        self.symbols[formal.name] = actual.name

    def _local(self, formal: Param) -> Name:
        name = formal.name + self.suffix
        self.build.variables[name] = Variable("local", formal.type, name, formal.size, max(formal.align, 1))
        self.symbols[formal.name] = name
        return Name(name)

    def _body(self) -> None:
        build, callee = self.build, self.callee
        formals = {p.name for p in (*callee.function.params, *callee.function.returns)}
        body = callee.instructions
        stop = len(body) - 1 if body and body[-1].opcode == "ret" and body[-1].predicate is None else len(body)
        start = len(build.instructions)
        for instruction in body[:stop]:
            build.instructions.append(self._renamed(instruction))
        build.labels.update({self.symbols[name]: start + min(pc, stop) for name, pc in callee.labels.items()})
        build.registers.update({name + self.suffix: type_ for name, type_ in callee.registers.items()})
        for name, targets in callee.branch_targets.items():
            build.branch_targets[self.symbols[name]] = tuple(self.symbols[t] for t in targets)
        for variable in callee.variables:
            name = self.symbols.get(variable.name, variable.name)
            if variable.name not in formals:
                build.variables.setdefault(name, variable if name == variable.name else replace(variable, name=name))

    def _renamed(self, instruction: Instruction) -> Instruction:
        predicate = None if instruction.predicate is None else Reg(instruction.predicate.name + self.suffix)
        if instruction.opcode == "ret":
            return replace(instruction, opcode="bra", modifiers=(), operands=(Name(self.returned),), predicate=predicate)
        operands = tuple(renamed(o, lambda r: r + self.suffix, lambda s: self.symbols.get(s, s)) for o in instruction.operands)
        return replace(instruction, operands=operands, predicate=predicate)


def _size(flat: FlatFunction) -> int:
    """What inlining a function adds: an empty one adds labels all the same."""
    return len(flat.instructions) + len(flat.labels) + 2


def _formals(function: Function) -> set[str]:
    return {p.name for p in (*function.params, *function.returns)}


def _bits_type(formal: Param) -> str:
    return "pred" if formal.type == "pred" else f"b{8 * formal.size}"


def _check_inputs(flat: FlatFunction) -> None:
    """Raise ParseError for a store to an input parameter: they are read only."""
    inputs = {p.name for p in flat.function.params} - {v.name for v in flat.variables}
    for instruction in flat.instructions:
        place = instruction.operands[0] if instruction.opcode == "st" and instruction.operands else None
        if isinstance(place, Mem) and isinstance(place.base, Name) and place.base.name in inputs:
            raise ParseError(f"{instruction.mnemonic}: input parameter {place.base.name} is written", span=instruction.span)


def _value_type(formal: Param, actual: Operand) -> str:
    """The type under which an argument goes to a parameter: a floating-point literal keeps its own."""
    return formal.type if isinstance(actual, FloatLit) and formal.type in ("f32", "f64") else _bits_type(formal)


def _with_local_params(flat: FlatFunction) -> FlatFunction:
    """``.param`` variables as local memory; a device function's static variables under the function's name."""
    function = flat.function
    params = {v.name for v in flat.variables if v.space == "param"}
    static = {} if function.is_entry else {v.name: f"{function.name}:{v.name}" for v in flat.variables if v.space in _STATIC}
    variables = tuple(replace(v, space="local" if v.space == "param" else v.space, name=static.get(v.name, v.name)) for v in flat.variables)
    instructions = tuple(_localised(i, function, params, static) for i in flat.instructions)
    return replace(flat, instructions=instructions, variables=variables)


def _localised(instruction: Instruction, function: Function, params: set[str], static: dict[str, str]) -> Instruction:
    if static:
        operands = tuple(renamed(o, lambda r: r, lambda s: static.get(s, s)) for o in instruction.operands)
        instruction = replace(instruction, operands=operands)
    if instruction.opcode not in ("ld", "st") or not any(m in ("param", "param::func") for m in instruction.modifiers):
        return instruction
    here = any(isinstance(o, Mem) and isinstance(o.base, Name) and o.base.name in params for o in instruction.operands)
    if function.is_entry and not here:
        return instruction
    return replace(instruction, modifiers=tuple("local" if m in ("param", "param::func") else m for m in instruction.modifiers))


__all__ = ["Inlined", "inline"]
