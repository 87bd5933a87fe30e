"""Functions as a compiler's device library computes them: approximations, which over the reals are not the functions they are named after.

``math.erf`` becomes a polynomial in the PTX, chosen by a branch on the argument's size. A tile program that calls it is compared with
the library's own code: that code, compiled on its own, is executed once on an indeterminate, and its formula is put in wherever
the tile program calls the function. The verdict's ledger says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ptx_engine.errors import PtxError
from ptx_engine.launch import Launch, NullArg, Role, TensorArg, bind
from ptx_engine.terms import Arena, Ids
from ptx_engine.terms.replay import replayed

if TYPE_CHECKING:
    from ptx_engine.terms.arena import Input

#: lanes of the compiled function; the formula of the first is used
LANES = 32
#: operations of a tile program that are compiled to library code which is no exact instruction
OPERATIONS = frozenset({"math.erf", "math.erfc", "math.sin", "math.cos", "math.tan", "math.tanh", "math.powf", "math.log1p", "math.expm1"})
#: functions whose code is read as the function itself (``library_patterns``): name -> function
RECOGNISED = {
    "math.log": "log", "math.log2": "log2", "math.log10": "log10", "__nv_logf": "log", "__nv_log2f": "log2", "__nv_log10f": "log10",
    "log": "log", "log2": "log2", "log10": "log10",
}  # fmt: skip
#: extern functions that are one exact instruction, or exact over the reals
_EXACT = re.compile(
    r"__nv_(fast_)?(exp|exp2|exp10|log|log2|log10|sqrt|rsqrt|floor|ceil|trunc|rint|nearbyint|fabs|fmax|fmin|fma|fdividef|copysign)f?$"
    r"|__nv_[fd](add|sub|mul|div|sqrt|rsqrt|rcp|fma|ma)_r[nzdu]$"
)
_CALL = re.compile(r'"(math\.\w+|tt\.extern_elementwise)"\([^)]*\)(.*?):\s*\(([^)]*)\)\s*->\s*(\S+)')
_SYMBOL = re.compile(r'symbol = "(\w+)"')


@dataclass(frozen=True)
class Call:
    """A function by operation, or by symbol for an extern one, with the types of its operands."""

    name: str
    types: tuple[str, ...]
    extern: bool

    @property
    def key(self) -> str:
        """Such as ``math.erf(f32)`` or ``__nv_powf(f32, f32)``."""
        return f"{self.name}({', '.join(self.types)})"


def approximated(name: str, extern: bool) -> bool:
    """Whether a function is compiled to an approximation that no operator stands for."""
    return not _EXACT.fullmatch(name) if extern else name in OPERATIONS


def calls_of(generic_text: str) -> list[Call]:
    """The approximated and the recognised functions that a tile program (generic form) calls, each once."""
    found: dict[str, Call] = {}
    for operation, attributes, operands, result in _CALL.findall(generic_text):
        symbol = _SYMBOL.search(attributes)
        name = symbol[1] if symbol is not None else operation
        types = tuple(_element(text) for text in operands.split(","))
        compiled = name in RECOGNISED or approximated(name, symbol is not None)
        if compiled and _element(result) == types[0] and len(set(types)) == 1:
            call = Call(name, types, symbol is not None)
            found[call.key] = call
    return list(found.values())


def _element(text: str) -> str:
    return text.strip().removesuffix(">").rpartition("x")[2] if "tensor" in text else text.strip()


#: float functions that CUDA's library computes by code which can be executed and is no exact instruction
CUDA_FUNCTIONS = frozenset({"tanh", "erf", "erfc", "expm1", "log1p"})
#: formats to the types of CUDA C that have overloads of all of them
CUDA_TYPES = {"f32": "float", "f64": "double"}

_used: ContextVar[Library | None] = ContextVar("library", default=None)


@contextmanager
def using(library: Library | None) -> Iterator[None]:
    """References that are evaluated inside take their functions from a library where it has them."""
    token = _used.set(library)
    try:
        yield
    finally:
        _used.reset(token)


def applied(arena: Arena, name: str, fmt: str, operands: Sequence[Ids]) -> Ids | None:
    """A function by the library in use; None where there is none, or the function is not one of its own code."""
    library = _used.get()
    if library is None or name not in CUDA_FUNCTIONS or fmt not in CUDA_TYPES:
        return None
    return library.apply(arena, f"{name}({', '.join([fmt] * len(operands))})", operands)


def cuda_program(name: str, fmt: str) -> str:
    """CUDA C that applies a function of one operand to ``LANES`` elements."""
    ctype = CUDA_TYPES[fmt]
    return f'extern "C" __global__ void library(const {ctype}* x, {ctype}* out) {{\n    out[threadIdx.x] = {name}(x[threadIdx.x]);\n}}\n'


class Library:
    """PTX of functions by ``Call.key``: each has an entry over pointers to its operands' and its result's ``LANES`` elements."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        self._formulas: dict[str, tuple[Arena, list[Input], int] | None] = {}
        #: keys of what was applied
        self.used: set[str] = set()

    def apply(self, arena: Arena, key: str, operands: Sequence[Ids]) -> Ids | None:
        """The function of operand columns as terms; None where its code is not known or could not be executed."""
        if key not in self._formulas:
            self._formulas[key] = formula_of(key, self._texts.get(key, ""), len(operands))
        formula = self._formulas[key]
        if formula is None:
            return None
        self.used.add(key)
        own, inputs, root = formula
        for assumption in (f"{key} is what the compiler's device library computes", *own.assumptions):
            arena.assumptions.setdefault(assumption)
        leaves = {int(each.ids(0)): ids for each, ids in zip(inputs, operands)}
        return replayed(own, root, arena, leaves)


def formula_of(key: str, text: str, count: int) -> tuple[Arena, list[Input], int] | None:
    """What code computes of ``count`` indeterminates: its arena, its inputs, its result; None where it could not be executed."""
    from ptx_engine.machine import execute
    from ptx_engine.syntax import parse

    if not text:
        return None
    dtype = key.partition("(")[2].partition(",")[0].rstrip(")")
    arena = Arena()
    arena.words_of_floats = key.partition("(")[0] in RECOGNISED
    names = [f"x{i}" for i in range(count)]
    args = [TensorArg(name, dtype, (LANES,), Role.IN) for name in names] + [TensorArg("out", dtype, (LANES,), Role.OUT)]
    try:
        module = parse(text)
        scratch = [NullArg(f"null{i}") for i in range(len(module.entries()[0].params) - len(args))]
        bound = bind(Launch((1, 1, 1), (LANES, 1, 1), (*args, *scratch)), arena)
        written = execute(module, None, bound, source=text).footprints["out"]
    except (PtxError, IndexError, KeyError):
        return None
    first = np.flatnonzero(written.index == 0)
    if not len(first):
        return None
    inputs = [next(each for each in arena.inputs if each.name == name) for name in names]
    root = int(written.ids[first[0]])
    try:
        replayed(arena, root, Arena(), {int(each.ids(0)): int(each.ids(0)) for each in inputs})
    except (KeyError, ValueError):  # a formula of something else than its operands
        return None
    return arena, inputs, root
