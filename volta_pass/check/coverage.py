"""What can be compared where a side ran only some of its CTAs: the elements that those wrote.

A side that ran in full is compared in full: what it writes beyond a sampled side's elements is left out, what it does not
write of them is a difference.
"""

from __future__ import annotations

import numpy as np

from ptx_engine.launch import Footprint

Footprints = dict[str, Footprint]


def comparable(
    reference: Footprints, candidate: Footprints, *, reference_sampled: bool, candidate_sampled: bool
) -> tuple[Footprints, Footprints]:
    """Both sides' footprints without the elements that only a side's unexecuted CTAs could have written on the other."""
    left = _within(reference, candidate) if candidate_sampled else reference
    right = _within(candidate, reference) if reference_sampled else candidate
    return left, right


def _within(side: Footprints, other: Footprints) -> Footprints:
    """The elements of ``side`` that ``other`` wrote."""
    kept = {}
    for name, footprint in side.items():
        if name in other:
            where = np.isin(footprint.index, other[name].index, assume_unique=True)
            kept[name] = Footprint(footprint.index[where], footprint.ids[where])
    return kept


def element_count(footprints: Footprints, outputs: tuple[str, ...]) -> int:
    """Elements written to the compared tensors."""
    return sum(len(footprint.index) for name, footprint in footprints.items() if name in outputs)
