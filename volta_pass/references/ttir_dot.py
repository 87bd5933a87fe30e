"""tt.dot: one dot node per output element, programs and batch axes as the batch of the record."""

from __future__ import annotations

import numpy as np

from ptx_engine.terms.arena import Arena
from volta_pass.references.ttir_frame import Frame
from volta_pass.references.ttir_int import exact_ids
from volta_pass.references.ttir_registry import OpInfo, Run, operation, refuse
from volta_pass.references.ttir_types import TtirType
from volta_pass.references.ttir_values import Sym, Value, bounds, spread


@operation("tt.dot")
def dot(op: OpInfo) -> Run:
    """a @ b + c. Input precision (tf32, bf16x3, ...) is rounding, hence the identity; integers are summed exactly."""
    left, right, start = op.operands
    kinds, result = op.operand_types, op.result

    def run(frame: Frame) -> None:
        a, b, c = frame.values((left, right, start))
        rows_a, cols_b, acc = (_operand(frame, v, kind) for v, kind in zip((a, b, c), kinds))
        ids = emit_dot(frame.arena, rows_a, cols_b, acc)
        frame.regs[result] = Sym(ids) if kinds[2].is_float else _bounded(ids, a, b, c, kinds)

    return run


def _operand(frame: Frame, value: Value, kind: TtirType) -> np.ndarray:
    """Full ids of an operand; an integer is the exact signed number."""
    if kind.is_float:
        return spread(value, kind.shape)
    ids = exact_ids(frame, value, kind.width, True)
    return np.broadcast_to(ids, (ids.shape[0], *kind.shape))


def emit_dot(arena: Arena, a: np.ndarray, b: np.ndarray, acc: np.ndarray) -> np.ndarray:
    """Ids of a (..., M, K) @ b (..., K, N) + acc (..., M, N); leading axes broadcast."""
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2], acc.shape[:-2])
    full = [np.broadcast_to(x, (*lead, *x.shape[-2:])) for x in (a, b.swapaxes(-1, -2), acc)]
    groups = int(np.prod(lead))
    flat = [x.reshape(groups, *x.shape[-2:]) for x in full]
    return arena.dot(flat[0], flat[1], flat[2]).reshape(*lead, *acc.shape[-2:])


def _bounded(ids: np.ndarray, a: Value, b: Value, c: Value, kinds: tuple[TtirType, ...]) -> Sym:
    pairs = [bounds(v) for v in (a, b, c)]
    if any(None in pair for pair in pairs):
        return Sym(ids)
    (al, ah), (bl, bh), (cl, ch) = ((lo or 0, hi or 0) for lo, hi in pairs)
    products = [x * y for x in (al, ah) for y in (bl, bh)]
    depth = kinds[0].shape[-1]
    return Sym(ids, cl + depth * min(products), ch + depth * max(products))


refuse("tt.dot_scaled", "block-scaled formats have no semantics here")
