"""Functions of the device library (tt.extern_elementwise) read as operators, by name."""

from __future__ import annotations

import re

from volta_pass.references.library import approximated
from volta_pass.references.ttir_float import FUNCTIONS, apply, apply_library, call_key
from volta_pass.references.ttir_registry import OpInfo, Run, operation

#: libdevice base names (without __nv_ and the trailing f) -> row of the float function table
_LIBDEVICE: dict[str, str] = {
    "exp": "exp", "exp2": "exp2", "exp10": "exp10", "expm1": "expm1", "log": "log", "log2": "log2", "log10": "log10", "log1p": "log1p",
    "sqrt": "sqrt", "rsqrt": "rsqrt", "sin": "sin", "cos": "cos", "tan": "tan", "tanh": "tanh", "erf": "erf", "erfc": "erfc",
    "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "rint", "nearbyint": "rint", "round": "round", "fabs": "abs",
    "fmax": "max", "fmin": "min", "fma": "fma", "fmod": "fmod", "pow": "pow", "copysign": "copysign",
    "fast_exp": "exp", "fast_exp10": "exp10", "fast_log": "log", "fast_log2": "log2", "fast_log10": "log10", "fast_sin": "sin",
    "fast_cos": "cos", "fast_tan": "tan", "fast_pow": "pow", "fast_fdividef": "div", "fdividef": "div",
}  # fmt: skip
_ROUNDED = re.compile(r"__nv_[fd](add|sub|mul|div|sqrt|rsqrt|rcp|fma|ma)_r[nzdu]$")


def libdevice_function(symbol: str) -> str | None:
    """The float function that a libdevice symbol names, or None."""
    rounded = _ROUNDED.fullmatch(symbol)
    if rounded:
        return "fma" if rounded[1] == "ma" else rounded[1]
    if not symbol.startswith("__nv_"):
        return None
    base = symbol.removeprefix("__nv_")
    return _LIBDEVICE.get(base) or (_LIBDEVICE.get(base[:-1]) if base.endswith("f") else None)


@operation("tt.extern_elementwise")
def extern_elementwise(op: OpInfo) -> Run:
    """A known libdevice function of floats. Raises UnsupportedError naming any other symbol."""
    symbol = str(op.attribute("symbol").value)
    name = libdevice_function(symbol)
    if name is None or not all(kind.is_float for kind in (*op.operand_types, op.kind)):
        raise op.unsupported(f"extern function {symbol} is not known as an operator")
    if approximated(symbol, extern=True):
        return apply_library(FUNCTIONS[name], call_key(symbol, op), op)
    return apply(FUNCTIONS[name], op)
