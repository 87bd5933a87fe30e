"""Device library code that is read as the function it computes: logarithms, which take a float's bits apart.

The library's own code, compiled on its own, gives the pattern, once it has been run on numbers and agreed with the function to
single precision: that it computes the function is checked, not believed from its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

import numpy as np

from ptx_engine.errors import PtxError
from ptx_engine.terms import Arena, Ids
from ptx_engine.terms.patterns import Pattern
from volta_pass.references.library import LANES, RECOGNISED, formula_of
from volta_pass.references.ttir_float import FUNCTIONS

#: what a logarithm of single precision may be off by, relative to the larger of 1 and its value
_NEAR = 2.0**-21


def patterns_of(texts: Mapping[str, str] | None) -> list[Pattern]:
    """Patterns of the recognised functions among a job's library code."""
    found = [_pattern(key, text) for key, text in (texts or {}).items()]
    return [pattern for pattern in found if pattern is not None]


@lru_cache(maxsize=32)
def _pattern(key: str, text: str) -> Pattern | None:
    name = RECOGNISED.get(key.partition("(")[0])
    if name is None or not key.endswith("(f32)") or not text or not _computes(text, getattr(np, name)):
        return None
    formula = formula_of(key, text, 1)
    if formula is None:
        return None
    arena, inputs, root = formula
    emit: Callable[[Arena, Ids], Ids] = FUNCTIONS[name]
    try:
        assumption = f"{key} of the compiler's device library is the function {name}: its code agrees on {LANES} numbers"
        return Pattern(arena, root, int(inputs[0].ids(0)), emit, assumption)
    except ValueError:
        return None


def _computes(text: str, function: Callable[[np.ndarray], np.ndarray]) -> bool:
    """Whether the code gives the function's values on numbers of all sizes, and -inf at zero."""
    from ptx_engine.machine.emulate import emulate
    from ptx_engine.syntax import parse

    x = np.geomspace(1e-42, 3e38, LANES).astype(np.float32)
    x[:6] = [0.0, 1.0, 0.75, 1.0000001, 0.5, np.e]
    out = np.zeros(LANES, np.float32)
    try:
        count = len(parse(text).entries()[0].params)
        findings = emulate(text, None, 1, LANES, [x, out, *[None] * (count - 2)]).findings
    except (PtxError, IndexError):
        return False
    with np.errstate(divide="ignore"):
        expected = function(x.astype(np.float64))
    near = np.abs(out[1:] - expected[1:]) <= _NEAR * np.maximum(1.0, np.abs(expected[1:]))
    return not findings and bool(near.all()) and out[0] == -np.inf
