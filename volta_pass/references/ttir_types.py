"""TTIR types from their text: element type, shape, pointee. Types of the tt dialect are opaque to an MLIR binding."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ptx_engine.errors import UnsupportedError

#: MLIR float type -> (format name of ``ptx_engine``, bytes)
FLOATS: dict[str, tuple[str, int]] = {
    "f16": ("f16", 2), "bf16": ("bf16", 2), "f32": ("f32", 4), "tf32": ("tf32", 4), "f64": ("f64", 8),
    "f8E4M3FN": ("e4m3", 1), "f8E5M2": ("e5m2", 1),
}  # fmt: skip
INT_DTYPES: dict[int, np.dtype] = {
    1: np.dtype(bool), 8: np.dtype(np.int8), 16: np.dtype(np.int16), 32: np.dtype(np.int32), 64: np.dtype(np.int64),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TtirType:
    """A scalar is a tensor of shape (). ``kind`` is "float", "int" or "ptr"; ``fmt`` names a float format; ``width`` in bits;
    ``pointee`` is the element a pointer points to."""

    kind: str
    width: int
    shape: tuple[int, ...] = ()
    fmt: str = ""
    pointee: "TtirType | None" = None

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def dtype(self) -> np.dtype:
        """The NumPy dtype of concrete contents: signed of the width, bool for i1, int64 for pointers; ids are int32."""
        return np.dtype(np.int32) if self.kind == "float" else INT_DTYPES[self.width]

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def lanes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def element_bytes(self) -> int:
        return max(1, self.width // 8)


@lru_cache(maxsize=4096)
def parse_type(text: str) -> TtirType:
    """The type behind its MLIR text. Raises UnsupportedError naming a type without a meaning here."""
    match = re.fullmatch(r"tensor<((?:\d+x)*)(.+)>", text)
    if match:
        element = _scalar(match[2].split(", ")[0] if not match[2].startswith("!tt.ptr") else match[2])
        shape = tuple(int(extent) for extent in match[1].split("x")[:-1])
        return TtirType(element.kind, element.width, shape, element.fmt, element.pointee)
    return _scalar(text)


def _scalar(text: str) -> TtirType:
    if text in FLOATS:
        fmt, size = FLOATS[text]
        return TtirType("float", 8 * size, (), fmt)
    if text == "index":
        return TtirType("int", 64)
    if re.fullmatch(r"i(1|8|16|32|64)", text):
        return TtirType("int", int(text[1:]))
    pointer = re.fullmatch(r"!tt\.ptr<(.+?)(?:, \d+)?>", text)
    if pointer and not pointer[1].startswith("tensor"):
        return TtirType("ptr", 64, (), "", _scalar(pointer[1]))
    raise UnsupportedError(f"TTIR type {text} has no meaning here", feature=text)
