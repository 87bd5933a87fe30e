"""Ids of concrete numbers in the text of a program, rounded to their type."""

from __future__ import annotations

import numpy as np

from ptx_engine.errors import UnsupportedError
from ptx_engine.terms.arena import Arena
from ptx_engine.terms.float_formats import float_bits


def float_ids(values: np.ndarray, fmt: str, arena: Arena) -> np.ndarray:
    """Constants of floats after rounding to a format (to nearest even). Raises UnsupportedError for a finite number beyond it."""
    try:
        return arena.float_bits_column(float_bits(values, fmt), fmt)
    except OverflowError as error:
        said = f"a constant of type {fmt}: {error}"
        raise UnsupportedError(said, feature="constant out of range", hint="write inf if it is meant") from None
