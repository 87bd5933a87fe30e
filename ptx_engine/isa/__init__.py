"""Instruction specs; importing this package registers all of them."""

from ptx_engine.isa import bitfield, compare, convert, floating, integer, memory, move, shuffle, tensor_core
from ptx_engine.isa.registry import FORMS, REFUSED

__all__ = ["FORMS", "REFUSED", "bitfield", "compare", "convert", "floating", "integer", "memory", "move", "shuffle", "tensor_core"]
