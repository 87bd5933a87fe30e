"""How the two sides of ``bench decide`` are emitted: chains as one thread runs them, trees as warps do, fragments as tensor cores do.

A problem is built straight in the arena, without a kernel, so that its time is the decider's alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ptx_engine.launch import Footprint
from ptx_engine.terms.arena import ZERO, Arena
from ptx_engine.terms.ops import Op

#: shape of a tensor-core instruction: m16n8k16
FRAGMENT_ROWS, FRAGMENT_COLS, FRAGMENT_DEPTH = 16, 8, 16


@dataclass(frozen=True)
class Problem:
    """Two sides over one arena, each one output tensor named ``out``."""

    arena: Arena
    reference: dict[str, Footprint]
    candidate: dict[str, Footprint]

    @property
    def outputs(self) -> int:
        return len(self.reference["out"].index)


def problem(arena: Arena, reference: np.ndarray, candidate: np.ndarray) -> Problem:
    """The problem whose sides write these ids, element by element."""
    index = np.arange(reference.size, dtype=np.int64)
    return Problem(arena, {"out": Footprint(index, reference.ravel())}, {"out": Footprint(index, candidate.ravel())})


def tensor(arena: Arena, name: str, fmt: str, *shape: int) -> np.ndarray:
    """The ids of an input tensor."""
    count = int(np.prod(shape, dtype=np.int64))
    return np.asarray(arena.add_input(name, count, fmt).ids(np.arange(count))).reshape(shape)


def chain(arena: Arena, rows: np.ndarray, cols: np.ndarray, acc: "np.ndarray | int" = ZERO) -> np.ndarray:
    """rows (M, K) times cols (N, K) plus acc (M, N), one multiply-add after the other."""
    total: np.ndarray | int = acc
    for k in range(rows.shape[1]):
        left, right = np.broadcast_arrays(rows[:, None, k], cols[None, :, k])
        total = np.asarray(arena.fma(left, right, total))
    return np.asarray(total)


def fragments(arena: Arena, rows: np.ndarray, cols: np.ndarray, acc: "np.ndarray | int" = ZERO) -> np.ndarray:
    """The same product as tensor cores do it: fragments of 16 x 8, 16 products deep, the accumulators handed on."""
    m, k = rows.shape
    n = len(cols)
    shape = (m // FRAGMENT_ROWS, FRAGMENT_ROWS, n // FRAGMENT_COLS, FRAGMENT_COLS)
    total = np.broadcast_to(np.asarray(acc, np.int32), (m, n)).reshape(shape).swapaxes(1, 2).reshape(-1, FRAGMENT_ROWS, FRAGMENT_COLS)
    down, across = (x.ravel() for x in np.meshgrid(np.arange(shape[0]), np.arange(shape[2]), indexing="ij"))
    for start in range(0, k, FRAGMENT_DEPTH):
        span = slice(start, start + FRAGMENT_DEPTH)
        left = np.ascontiguousarray(rows[:, span]).reshape(shape[0], FRAGMENT_ROWS, -1)[down]
        right = np.ascontiguousarray(cols[:, span]).reshape(shape[2], FRAGMENT_COLS, -1)[across]
        total = arena.dot(left, right, np.ascontiguousarray(total))
    return total.reshape(shape[0], shape[2], FRAGMENT_ROWS, FRAGMENT_COLS).swapaxes(1, 2).reshape(m, n)


def product(arena: Arena, rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
    """The same product as one operation of a tile program."""
    acc = np.full((1, len(rows), len(cols)), ZERO, np.int32)
    return np.asarray(arena.dot(np.ascontiguousarray(rows)[None], np.ascontiguousarray(cols)[None], acc)[0])


def tree(join: Callable[..., "np.ndarray | int"], columns: np.ndarray) -> np.ndarray:
    """A balanced reduction over the last axis, whose length is a power of two: halves against each other, as shuffles do it."""
    while columns.shape[-1] > 1:
        half = columns.shape[-1] // 2
        columns = np.asarray(join(columns[..., :half], columns[..., half:]))
    return columns[..., 0]


def sequence(join: Callable[..., "np.ndarray | int"], columns: np.ndarray) -> np.ndarray:
    """The same reduction as a loop does it."""
    total = columns[..., 0]
    for k in range(1, columns.shape[-1]):
        total = np.asarray(join(total, columns[..., k]))
    return total


def wide(arena: Arena, op: Op, columns: np.ndarray) -> np.ndarray:
    """The same reduction as one operation of a tile program."""
    return arena.nary(op, columns)
