"""The arrays of a large arena that nobody refers to any more serve the next one: fresh memory costs more than what is written to it.

Whoever ran a kernel leaves cycles of references behind, which hold its arena until they are looked for: that is done before another
large one takes more memory.
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Sequence

import numpy as np

#: elements from which on an array is large; bytes written of those that are kept
LARGE, MOST_KEPT = 1 << 22, 1 << 29
_BYTES = 13


def _references(columns: Sequence[np.ndarray]) -> list[int]:
    return [sys.getrefcount(columns[i]) for i in range(len(columns))]


#: of an array that only a list refers to
_ALONE = _references([np.zeros(0)])[0]


class Owner:
    """What holds large arrays, as long as it lives. ``touched``: elements of them that were ever written, by whomever."""

    def __init__(self) -> None:
        self.touched = 0


_owners: "weakref.WeakSet[Owner]" = weakref.WeakSet()
_kept: list[tuple[list[np.ndarray], int]] = []


def take(need: int, owner: Owner) -> list[np.ndarray] | None:
    """Arrays of at least ``need`` elements that an arena left behind, if there are any; arenas that only cycles hold end here."""
    _owners.add(owner)
    if len(_owners) > 1:
        gc.collect()
    try:
        columns, touched = _kept.pop()  # one step: threads may look here together
    except IndexError:
        return None
    if len(columns[0]) < need:
        return None
    owner.touched = touched
    return columns


def leave(columns: list[np.ndarray], written: int, owner: Owner) -> None:
    """Keep an ended arena's arrays, unless a view of one is still in use: that would change under who uses it. ``columns`` must be the
    only references to them."""
    touched = max(written, owner.touched)
    _owners.discard(owner)
    if len(columns[0]) >= LARGE and touched * _BYTES <= MOST_KEPT and all(count == _ALONE for count in _references(columns)):
        _kept[:] = [(columns, touched)]
