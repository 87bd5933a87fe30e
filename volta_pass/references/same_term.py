"""Structural equality of two terms of one arena: the arena does not share equal terms, so different ids may mean one formula."""

from __future__ import annotations

from ptx_engine.terms.arena import Arena
from ptx_engine.terms.ops import Op
from volta_pass.references.ttir_values import operand_ids


def same_term(arena: Arena, first: int, second: int, limit: int = 20000) -> bool | None:
    """Whether two terms are built alike (operands in order); None where ``limit`` pairs did not suffice."""
    stack, seen = [(first, second)], set[tuple[int, int]]()
    while stack:
        pair = stack.pop()
        if pair[0] == pair[1] or pair in seen:
            continue
        if pair[0] < 0 or pair[1] < 0:
            return False
        if len(seen) >= limit:
            return None
        seen.add(pair)
        nodes = [arena.node(ident) for ident in pair]
        if nodes[0][0] is not nodes[1][0]:
            return False
        operands = [operand_ids(arena, ident, *node) for ident, node in zip(pair, nodes)]
        if len(operands[0]) != len(operands[1]) or _plain(nodes[0]) != _plain(nodes[1]):
            return False
        stack.extend(zip(*operands))
    return True


def _plain(node: tuple[Op, int, int, int]) -> tuple[int, ...]:
    """The operand slots of a node that hold plain ints rather than ids."""
    op, a, b, c = node
    return {"CONST": (a,), "WRAP": (b,), "FIELD": (b, c), "OPAQUE": (c,)}.get(op.name, ())
