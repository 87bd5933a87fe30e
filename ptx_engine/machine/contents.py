"""Concrete contents of a launch's tensors, as terms: one meaning for every side of a comparison."""

from __future__ import annotations

import numpy as np

from ptx_engine.errors import LaunchError
from ptx_engine.launch import TensorArg
from ptx_engine.order.pages import Marks, scattered
from ptx_engine.terms.arena import Arena
from ptx_engine.terms.float_formats import float_bits


class Contents:
    """A tensor's fixed contents as term ids: floats rounded to its dtype, integers as the bits it holds.

    A constant is made when its element is first asked for: of a hundred million elements a kernel may read a thousand. Raises LaunchError
    where their number is not the tensor's, or (when it is read) a float is beyond the dtype.
    """

    def __init__(self, arg: TensorArg, arena: Arena) -> None:
        self._arg, self._arena = arg, arena
        self._values = np.asarray(arg.contents).reshape(-1)
        if len(self._values) != arg.storage:
            raise LaunchError(f"argument {arg.name}: {len(self._values)} contents for {arg.storage} elements")
        self._ids = scattered(arg.storage, np.int32)
        self._made = Marks(arg.storage)

    def ids(self, index: np.ndarray) -> np.ndarray:
        """The constants of elements, in the shape of ``index``."""
        new = index[~self._made[index]]
        if new.size:
            self._ids[new] = self._constants(self._values[new])
            self._made.add(new)
        return np.asarray(self._ids[index])

    def _constants(self, values: np.ndarray) -> np.ndarray:
        arg = self._arg
        if not arg.is_float:
            # an element of an unsigned type is no negative number, whatever array its bits came in
            return self._arena.integers(values.astype(f"{'i' if arg.dtype[0] == 's' else 'u'}{arg.element_bytes}"))
        try:
            return self._arena.float_bits_column(float_bits(values.astype(np.float64), arg.dtype), arg.dtype)
        except OverflowError as error:
            raise LaunchError(f"contents of {arg.name}: {error}", hint="smaller numbers, or a wider dtype") from None
