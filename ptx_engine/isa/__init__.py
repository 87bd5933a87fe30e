"""Instruction specs; importing this package registers all of them."""

from ptx_engine.isa import (
    atomic,
    bitfield,
    calls,
    carry,
    compare,
    convert,
    floating,
    hints,
    integer,
    masks,
    matrix_moves,
    mbarrier,
    memory,
    mma_integer,
    move,
    packed,
    refused,
    shuffle,
    sparse,
    tensor_core,
    vote,
    wmma,
)
from ptx_engine.isa.registry import FORMS, REFUSED

__all__ = [
    "FORMS", "REFUSED", "atomic", "bitfield", "calls", "carry", "compare", "convert", "floating", "hints", "integer", "masks",
    "matrix_moves", "mbarrier", "memory", "mma_integer", "move", "packed", "refused", "shuffle", "sparse", "tensor_core", "vote", "wmma",
]  # fmt: skip
