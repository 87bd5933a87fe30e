"""Element types of tile programs by TVM's names, in the vocabulary of launches and of the evaluator."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ptx_engine.errors import UnsupportedError
from volta_pass.references.ttir_types import TtirType

_FLOATS = {
    "float16": ("f16", 16), "bfloat16": ("bf16", 16), "float32": ("f32", 32), "tfloat32": ("tf32", 32), "float64": ("f64", 64),
    "float8_e4m3fn": ("e4m3", 8), "float8_e4m3": ("e4m3", 8), "float8_e5m2": ("e5m2", 8),
}  # fmt: skip
_INTEGERS = {f"{prefix}int{width}": (not prefix, width) for prefix in ("", "u") for width in (8, 16, 32, 64)}


@dataclass(frozen=True, slots=True)
class Element:
    """An element type: its name in launches, and whether it is a signed integer."""

    launch: str
    signed: bool


@lru_cache(maxsize=256)
def element(dtype: str) -> Element:
    """What a TVM type name means. Raises UnsupportedError naming a type without a meaning here."""
    if dtype in _FLOATS:
        return Element(_FLOATS[dtype][0], True)
    if dtype == "bool":
        return Element("pred", False)
    if dtype in _INTEGERS:
        signed, width = _INTEGERS[dtype]
        return Element(f"{'s' if signed else 'u'}{width}", signed)
    raise UnsupportedError(f"elements of type {dtype} have no meaning here", feature=dtype)


@lru_cache(maxsize=1024)
def kind_of(dtype: str, rank: int) -> TtirType:
    """The evaluator's type of a column with ``rank`` axes besides that of the programs."""
    element(dtype)
    shape = (1,) * rank
    if dtype in _FLOATS:
        fmt, width = _FLOATS[dtype]
        return TtirType("float", width, shape, fmt)
    return TtirType("int", 1 if dtype == "bool" else _INTEGERS[dtype][1], shape)
