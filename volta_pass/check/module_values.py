"""Contents of module-scope variables, from a spec's [globals], written into the module as initialisers."""

from __future__ import annotations

from dataclasses import replace

from ptx_engine.isa.decode import TYPE_BITS
from ptx_engine.launch import shown_number
from ptx_engine.syntax.ast import FloatLit, Initial, Module, Variable
from ptx_engine.terms.constants import FLOAT_FORMATS
from ptx_engine.terms.float_formats import largest, number_bits
from volta_pass.spec import SideSpec, SpecError

Value = int | float | list[int | float]


def with_globals(module: Module, values: dict[str, Value], side: SideSpec) -> Module:
    """The module with the named variables initialised; names it does not have are the other side's. Raises SpecError."""
    if not values:
        return module
    variables = tuple(_initialised(v, values[v.name], side) if v.name in values else v for v in module.variables)
    return replace(module, variables=variables)


def _initialised(variable: Variable, value: Value, side: SideSpec) -> Variable:
    elements = value if isinstance(value, list) else [value]
    width = TYPE_BITS.get(variable.type, 0) // 8
    capacity = variable.size // width if width else 0
    if not capacity or len(elements) > capacity:
        message = f"[globals] {variable.name}: {len(elements)} values for a .{variable.type} variable of {variable.size} bytes"
        raise SpecError(message, span=side.span, source_line=side.source_line, hint=f"at most {capacity} values")
    return replace(variable, initializer=tuple(_literal(element, variable, width, side) for element in elements))


def _literal(value: int | float, variable: Variable, width: int, side: SideSpec) -> Initial:
    def refused(why: str, hint: str = "") -> SpecError:
        message = f"[globals] {variable.name} is .{variable.type}: {shown_number(value)} {why}"
        return SpecError(message, span=side.span, source_line=side.source_line, hint=hint)

    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise refused("is no number", "write a number or a list of numbers")
    if variable.type in FLOAT_FORMATS:
        try:
            return FloatLit(number_bits(value, variable.type), 8 * width)
        except OverflowError:
            most = largest(variable.type)
            raise refused("does not fit", f"{-most!r} to {most!r}, inf or -inf") from None
    if isinstance(value, float):
        raise refused("is no integer", "write an integer")
    low, high = -(1 << 8 * width - 1), (1 << 8 * width) - 1
    if not low <= value <= high:
        raise refused("does not fit", f"{low} to {high}")
    return value
