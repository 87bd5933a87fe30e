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
from ptx_engine.terms.arena import CONST_CAP, NEG_INF, POS_INF
from ptx_engine.terms.constants import Const
from ptx_engine.terms.ops import Op
from ptx_engine.terms.patterns import Guard, Pattern
from volta_pass.references.library import LANES, RECOGNISED, formula_of
from volta_pass.references.ttir_float import FUNCTIONS

#: what a logarithm of single precision may be off by, relative to the larger of 1 and its value
_NEAR = 2.0**-21


def patterns_of(texts: Mapping[str, str] | None) -> list[Pattern | Guard]:
    """Patterns of the recognised functions among a job's library code."""
    return [pattern for key, text in (texts or {}).items() for pattern in _patterns(key, text)]


@lru_cache(maxsize=32)
def _patterns(key: str, text: str) -> tuple["Pattern | Guard", ...]:
    name = RECOGNISED.get(key.partition("(")[0])
    if name is None or not key.endswith("(f32)") or not text or not _computes(text, getattr(np, name)):
        return ()
    formula = formula_of(key, text, 1)
    if formula is None:
        return ()
    arena, inputs, root = formula
    emit: Callable[[Arena, Ids], Ids] = FUNCTIONS[name]
    assumption = f"{key} of the compiler's device library is the function {name}: its code agrees on {LANES} numbers"
    leaf = int(inputs[0].ids(0))
    try:
        whole = Pattern(arena, root, leaf, emit, assumption)
        parts = _guarded(arena, root, leaf)
        if parts is None:
            return (whole,)
        zero, rest, factor = parts
        return (Pattern(arena, rest, leaf, emit if factor is None else _divided(emit, factor), assumption), Guard(zero), whole)
    except ValueError:
        return ()


def _divided(emit: Callable[[Arena, Ids], Ids], factor: Const) -> Callable[[Arena, Ids], Ids]:
    return lambda arena, x: arena.div(emit(arena, x), arena.const(factor))


def _guarded(arena: Arena, root: int, leaf: int) -> tuple[Pattern, int, Const | None] | None:
    """The test for zero and the rest of ``x == 0 ? -inf : (... ? y : inf)``, as which logarithms are computed, and a constant that
    logarithms of base ten multiply the rest by; None for other code.

    The rest is the logarithm of what is positive; of anything else a logarithm is no real number, whatever the rest would be there.
    """
    op, test, low, rest = arena.node(root)
    if op is not Op.ITE or low != NEG_INF or test < CONST_CAP or rest < CONST_CAP or not _tests_for_zero(arena, test, leaf):
        return None
    factor = None
    inner = arena.node(rest)
    if inner[0] is Op.MUL and 0 <= inner[2] < CONST_CAP <= inner[1] and arena.consts[inner[2]].coef > 0:
        factor, rest = arena.consts[inner[2]], inner[1]
        inner = arena.node(rest)
    if inner[0] is not Op.ITE or POS_INF not in inner[2:4]:
        return None
    return Pattern(arena, test, leaf, lambda target, x: target.compare(Op.EQ, x, 0), ""), rest, factor


def _tests_for_zero(arena: Arena, test: int, leaf: int) -> bool:
    """Whether a condition is ``x == 0``, or that of x scaled by a positive constant where it is small."""
    op, x, zero, _ = arena.node(test)
    if op is not Op.EQ or zero != 0:
        return False
    if x == leaf:
        return True
    if x < CONST_CAP:
        return False
    op, small, scaled, other = arena.node(x)
    if op is not Op.ITE or other != leaf or small < CONST_CAP or scaled < CONST_CAP:
        return False
    product, bound = arena.node(scaled), arena.node(small)
    if product[:2] != (Op.MUL, leaf) or not 0 <= product[2] < CONST_CAP or bound[:2] != (Op.LT, leaf):
        return False
    factor = arena.consts[product[2]]
    return bool(factor.is_rational and factor.coef > 0)


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
