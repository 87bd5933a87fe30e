"""CUDA's library functions as calls: a text compiled so that functions whose code has no formula here stay functions without a body.

Logarithms take a float's bits apart, sines reduce large arguments in a loop: such code cannot be executed on symbols. The prelude declares
the function itself, which a launch maps to its operator, and macros put it in the place of CUDA's; what other functions are
made of these (``log1p(x)`` is ``log(1 + x)``) is written out, exactly over the reals. What is executed then is no longer the PTX
that ships, which the ledger says.
"""

from __future__ import annotations

import re
from dataclasses import replace

from volta_pass.cuda.source import CudaSource

#: functions without a body: name -> operator; the name in PTX carries the width
_OPERATORS = {"log": "log", "log2": "log2", "exp": "exp", "exp2": "exp2", "sin": "sin", "cos": "cos", "tanh": "tanh", "erf": "erf"}
_TYPES = {"float": "f", "double": ""}
#: the file that the prelude's lines are said to be of: a library's, so that what happens there is shown where the user's text calls it
_PLACE = "cuda/std/library_calls.h"
#: functions of one operand as expressions in x; ``{f}`` is the suffix of the type's functions
_OF_ONE = {
    "log": "cuda_log{f}(x)",
    "log2": "cuda_log2{f}(x)",
    "log10": "cuda_log{f}(x) / cuda_log{f}(10)",
    "log1p": "cuda_log{f}(1 + x)",
    "expm1": "cuda_exp{f}(x) - 1",
    "exp10": "cuda_pow{f}(10, x)",
    "sin": "cuda_sin{f}(x)",
    "cos": "cuda_cos{f}(x)",
    "tan": "cuda_sin{f}(x) / cuda_cos{f}(x)",
    "sinh": "(cuda_exp{f}(x) - cuda_exp{f}(-x)) / 2",
    "cosh": "(cuda_exp{f}(x) + cuda_exp{f}(-x)) / 2",
    "asinh": "cuda_log{f}(x + sqrt{f}(x * x + 1))",
    "acosh": "cuda_log{f}(x + sqrt{f}(x * x - 1))",
    "atanh": "cuda_log{f}((1 + x) / (1 - x)) / 2",
    "erfc": "1 - cuda_erf{f}(x)",
    "normcdf": "(1 + cuda_erf{f}(x * 0.70710678118654752{f})) / 2",
}
_OF_TWO = {
    "pow": "cuda_pow{f}(x, y)",
    "fmod": "x - y * trunc{f}(x / y)",
    "hypot": "sqrt{f}(x * x + y * y)",
}
#: functions whose float form has a formula: only the double one is replaced
_DOUBLE_ONLY = {"exp": "cuda_exp(x)", "exp2": "cuda_exp2(x)", "tanh": "cuda_tanh(x)"}

#: functions that have a formula, although none that is exact: replaced in a second look at what differs
_APPROXIMATED = {
    "tanh": "cuda_tanh{f}(x)",
    "erf": "cuda_erf{f}(x)",
    "sinpi": "cuda_sin{f}(3.14159265358979324{f} * x)",
    "cospi": "cuda_cos{f}(3.14159265358979324{f} * x)",
}
_INEXACT = re.compile(r"\b((?:tanh|erf|erfc|sinpi|cospi)f?)\s*\(")

#: names in PTX -> operator, for ``[externs]``
EXTERNS: dict[str, str] = {
    **{f"cuda_{name}{suffix}": operator for name, operator in _OPERATORS.items() for suffix in _TYPES.values()},
    **{f"cuda_pow{suffix}": "pow" for suffix in _TYPES.values()},
}


def _tables(inexact: bool) -> tuple[dict[str, str], dict[str, str]]:
    """The functions of one operand that become calls, and those of doubles alone: of floats with an inexact formula, if asked for."""
    approximated = _APPROXIMATED if inexact else {}
    return {**_OF_ONE, **approximated}, {name: text for name, text in _DOUBLE_ONLY.items() if name not in approximated}


def _replaced(inexact: bool) -> list[str]:
    """The names that become calls."""
    singles, doubles = _tables(inexact)
    both = [*singles, *_OF_TWO, "sincos"]
    return [*both, *(f"{name}f" for name in both), *doubles]


_CALLED = re.compile(rf"\b({'|'.join(_replaced(False))})\s*\(")


def functions_in(text: str) -> tuple[str, ...]:
    """The functions that a text names and that can be calls, in order."""
    return tuple(dict.fromkeys(_CALLED.findall(text)))


def inexact_in(text: str) -> tuple[str, ...]:
    """The functions that a text names whose code has a formula that only approximates them, in order."""
    return tuple(dict.fromkeys(_INEXACT.findall(text)))


def as_calls(source: CudaSource, inexact: bool = False) -> CudaSource:
    """The translation unit with its library functions as calls, with ``inexact`` also those whose code has a formula; its lines keep
    their numbers."""
    name = source.name.replace("\\", "\\\\").replace('"', '\\"')
    return replace(source, text=f'#line 1 "{_PLACE}"\n{_prelude(inexact)}#line 1 "{name}"\n{source.text}')


def _prelude(inexact: bool) -> str:
    """Declarations, overloads as CUDA has them (integers are taken as doubles), and macros."""
    lines: list[str] = []
    singles, doubles = _tables(inexact)
    for ctype, f in _TYPES.items():
        lines += [f'extern "C" __device__ __nv_pure__ {ctype} cuda_{name}{f}({ctype});' for name in _OPERATORS]
        lines.append(f'extern "C" __device__ __nv_pure__ {ctype} cuda_pow{f}({ctype}, {ctype});')
    for table, names in ((singles, "x"), (_OF_TWO, "xy")):
        for name, text in table.items():
            lines += _overloads(name, names, f"return {text.format(f='f')};", f"return {text.format(f='')};")
    for name, text in doubles.items():
        lines += _overloads(name, "x", f"return ::{name}f(x);", f"return {text};")
    for ctype, f in _TYPES.items():
        for suffix in {f, ""}:
            params = f"{ctype} x, {ctype}* s, {ctype}* c"
            lines.append(_function("void", f"volta_sincos{suffix}", params, f"*s = cuda_sin{f}(x); *c = cuda_cos{f}(x);"))
    lines.append("namespace std { " + " ".join(f"using ::volta_{name};" for name in (*singles, *_OF_TWO, *doubles, "sincos")) + " }")
    lines += [f"#define {name} volta_{name}" for name in _replaced(inexact)]
    return "\n".join(lines) + "\n"


def _overloads(name: str, names: str, single: str, double: str) -> list[str]:
    """A function of floats by its two names, of doubles, and of anything that converts to a double."""
    floats, doubles = (", ".join(f"{ctype} {x}" for x in names) for ctype in ("float", "double"))
    types, anything = ", ".join(f"class {x.upper()}" for x in names), ", ".join(f"{x.upper()} {x}" for x in names)
    converted = ", ".join(f"(double){x}" for x in names)
    return [
        _function("float", f"volta_{name}f", floats, single),
        _function("float", f"volta_{name}", floats, single),
        _function("double", f"volta_{name}", doubles, double),
        f"template <{types}> " + _function("double", f"volta_{name}", anything, f"return volta_{name}({converted});"),
    ]


def _function(result: str, name: str, params: str, body: str) -> str:
    return f"static __device__ __forceinline__ {result} {name}({params}) {{ {body} }}"
