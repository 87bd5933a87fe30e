"""Outputs whose input columns coincide alike: what a template takes for independent variables may be one input in some outputs."""

from __future__ import annotations

import numpy as np

from ptx_engine.decide.walk import INPUT, Template

_LARGE_TABLE = 1 << 22  # ids; larger tables are looked through only where lanes are permuted


def coincidences(template: Template) -> np.ndarray:
    """Labels (outputs,) of outputs whose input columns coincide alike.

    A template takes columns of inputs for independent variables. Where two columns hold the same inputs in another order
    (lanes of a butterfly), which of them coincide differs from output to output, and equality may rest on it. Labels are
    hashes: a collision leaves outputs in one class, which is only less precise.
    """
    columns = template.columns
    leaves = _overlapping(template)
    outputs = columns.outputs
    if not leaves or (len(leaves) * outputs > _LARGE_TABLE and not permuted(template)):
        return np.zeros(outputs, np.intp)
    table = np.stack([columns.blocks(n)[columns.partitions[columns.part_of(n)].inverse] for n in leaves], axis=1)
    order = np.argsort(table, axis=1, kind="stable")
    ranked = np.take_along_axis(table, order, axis=1)
    starts = np.hstack([np.ones((outputs, 1), bool), ranked[:, 1:] != ranked[:, :-1]])
    # the first leaf (in template order) of each run of equal inputs names the run
    first = np.maximum.accumulate(np.where(starts, np.arange(len(leaves)), 0), axis=1)
    names = np.empty_like(order)
    np.put_along_axis(names, order, np.take_along_axis(order, first, axis=1), axis=1)
    weights = np.random.default_rng(0xC01).integers(-(2**63), 2**63, len(leaves), dtype=np.int64)
    _, labels = np.unique(names @ weights, return_inverse=True)
    return np.asarray(labels.reshape(-1))


def permuted(template: Template) -> bool:
    """Whether two input columns hold the same inputs in different orders, as the lanes of a butterfly do."""
    columns = template.columns
    seen: dict[tuple[int, bytes], int] = {}
    for node, op in enumerate(template.ops):
        if op == INPUT and columns.part_of(node):
            ids = columns.blocks(node)
            key = columns.part_of(node), np.sort(ids).tobytes()
            if key in seen:
                return True
            seen[key] = node
    return False


def _overlapping(template: Template) -> list[int]:
    """The input columns that share an input with another one; columns of inputs of their own cannot coincide."""
    columns = template.columns
    leaves = [node for node, op in enumerate(template.ops) if op == INPUT]
    distinct = [np.unique(columns.blocks(n)) if columns.part_of(n) else columns.blocks(n) for n in leaves]
    if not distinct:
        return []
    _, inverse, counts = np.unique(np.concatenate(distinct), return_inverse=True, return_counts=True)
    ends = np.cumsum([len(ids) for ids in distinct])
    shared = np.add.reduceat((counts[inverse] > 1).astype(np.int64), np.concatenate(([0], ends[:-1])))
    return [node for node, count in zip(leaves, shared.tolist()) if count]
