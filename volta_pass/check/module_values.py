"""Contents of module-scope variables, from a spec's [globals], written into the module as initialisers."""

from __future__ import annotations

import struct
from dataclasses import replace

from ptx_engine.syntax.ast import FloatLit, Initial, Module, Variable
from volta_pass.spec import SideSpec, SpecError

Value = int | float | list[int | float]

_FLOAT_LAYOUTS = {"f32": "<f", "f64": "<d"}


def with_globals(module: Module, values: dict[str, Value], side: SideSpec) -> Module:
    """The module with the named variables initialised; names it does not have are the other side's. Raises SpecError."""
    if not values:
        return module
    variables = tuple(_initialised(v, values[v.name], side) if v.name in values else v for v in module.variables)
    return replace(module, variables=variables)


def _initialised(variable: Variable, value: Value, side: SideSpec) -> Variable:
    elements = value if isinstance(value, list) else [value]
    width = _width_bytes(variable.type)
    capacity = variable.size // width if width else 0
    if not capacity or len(elements) > capacity:
        message = f"[globals] {variable.name}: {len(elements)} values for a .{variable.type} variable of {variable.size} bytes"
        raise SpecError(message, span=side.span, source_line=side.source_line, hint=f"at most {capacity} values")
    return replace(variable, initializer=tuple(_literal(element, variable, width, side) for element in elements))


def _width_bytes(type_name: str) -> int:
    digits = "".join(c for c in type_name if c.isdigit())
    return int(digits) // 8 if digits else 0


def _literal(value: int | float, variable: Variable, width: int, side: SideSpec) -> Initial:
    def refused(why: str, hint: str = "") -> SpecError:
        message = f"[globals] {variable.name} is .{variable.type}: {value!r} {why}"
        return SpecError(message, span=side.span, source_line=side.source_line, hint=hint)

    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise refused("is no number", "write a number or a list of numbers")
    layout = _FLOAT_LAYOUTS.get(variable.type)
    if layout is not None:
        try:
            return FloatLit(int.from_bytes(struct.pack(layout, value), "little"), 8 * width)
        except OverflowError:
            raise refused("does not fit") from None
    if isinstance(value, float):
        raise refused("is no integer", "write an integer")
    low, high = -(1 << 8 * width - 1), (1 << 8 * width) - 1
    if not low <= value <= high:
        raise refused("does not fit", f"{low} to {high}")
    return value
