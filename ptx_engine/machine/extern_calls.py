"""Calls of functions that have no body: operators by the launch's table, printing, assertions; anything else is refused."""

from __future__ import annotations

from dataclasses import dataclass, field

from ptx_engine.errors import UnsupportedError
from ptx_engine.isa.calls import EXTERN_CALL, OPERATORS
from ptx_engine.machine.call_site import CallSite
from ptx_engine.syntax.ast import Function, Instruction, IntLit, Mem, Name, Operand, Param, Reg

_FLOAT_OF_SIZE = {2: "f16", 4: "f32", 8: "f64"}
#: memory has no 16-bit floats: ld and st move their bits
_MOVED = {"f16": "b16", "bf16": "b16"}


@dataclass
class Replaced:
    """What stands for a call."""

    instructions: list[Instruction] = field(default_factory=list)
    registers: dict[str, str] = field(default_factory=dict)
    assumptions: list[str] = field(default_factory=list)


def extern_call(site: CallSite, name: str, declared: Function | None, operator: str | None, suffix: str) -> Replaced:
    """The instructions for a call of ``name``. Raises UnsupportedError for a function that nobody knows."""
    call = site.instruction
    if operator is not None:
        return _operator(site, name, declared, operator, suffix)
    if name == "vprintf":
        done = Replaced(assumptions=["vprintf prints nothing and returns 0"])
        for result in site.returns:
            done.instructions.append(_store(call, result, IntLit(0), "b32"))
        return done
    if name == "__assertfail":
        return Replaced([Instruction("trap", (), (), call.predicate, call.negated, call.span, call.loc)])
    raise UnsupportedError(
        f"call of {name}, which has no body here", feature=f"call of {name}", span=call.span,
        hint=f"say what it computes: [externs] {name} = \"exp\" (one of {', '.join(OPERATORS)})",
    )  # fmt: skip


def _operator(site: CallSite, name: str, declared: Function | None, operator: str, suffix: str) -> Replaced:
    row = OPERATORS.get(operator)
    span = site.instruction.span
    if row is None:
        raise UnsupportedError(f"[externs] {name} = {operator!r} is no operator", feature=f"operator {operator}", span=span,
                               hint="one of " + ", ".join(OPERATORS))  # fmt: skip
    if declared is None or len(declared.returns) != 1 or len(declared.params) != row.arity or len(site.args) != row.arity:
        raise UnsupportedError(
            f"{name} is no function of {row.arity} numbers to one, as {operator} is", feature=f"call of {name}", span=span
        )
    kind = _kind(declared.returns[0], name, site)
    if any(_kind(p, name, site) != kind for p in declared.params):
        raise UnsupportedError(f"{name} takes and returns numbers of different sizes", feature=f"call of {name}", span=span)
    done = Replaced(assumptions=[f"{name} is {operator}"])
    call = site.instruction
    sources: list[Operand] = []
    for i, arg in enumerate(site.args):
        if isinstance(arg, Name):
            register = Reg(f"%argument{i}{suffix}")
            done.registers[register.name] = kind
            done.instructions.append(_like(call, "ld", ("local", _MOVED.get(kind, kind)), (register, Mem(arg))))
            arg = register
        sources.append(arg)
    result = Reg(f"%result{suffix}")
    done.registers[result.name] = kind
    done.instructions.append(_like(call, EXTERN_CALL, (operator, kind), (result, *sources)))
    done.instructions.append(_store(call, site.returns[0], result, kind))
    return done


def _kind(param: Param, name: str, site: CallSite) -> str:
    kind = param.type if param.type in ("f16", "bf16", "f32", "f64") else _FLOAT_OF_SIZE.get(param.size, "")
    if not kind or param.shape:
        raise UnsupportedError(f"{name} has a parameter that is no number", feature=f"call of {name}", span=site.instruction.span)
    return kind


def _like(call: Instruction, opcode: str, modifiers: tuple[str, ...], operands: tuple[Operand, ...]) -> Instruction:
    return Instruction(opcode, modifiers, operands, call.predicate, call.negated, call.span, call.loc)


def _store(call: Instruction, target: Operand, value: Operand, kind: str) -> Instruction:
    """A result brought to the caller's register or ``.param`` variable."""
    if isinstance(target, Reg):
        bits = {"f16": "b16", "bf16": "b16", "f32": "b32", "f64": "b64"}.get(kind, kind)
        return _like(call, "mov", (bits,), (target, value))
    return _like(call, "st", ("local", _MOVED.get(kind, kind)), (Mem(target), value))
