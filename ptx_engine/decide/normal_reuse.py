"""Normal forms that templates share: the rows of a causal mask differ in their last keys only.

Templates are poured into one, node by node: equal operators over equal operands are one node, and variables of one kind are
paired by their rank among the ids they stand for. Any such pairing is sound, as long as different variables of one template
stay different: a proof speaks about one template, and holds for all values of its variables. The rank only says how much of
the work is met again.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from ptx_engine.decide.budget import Meter, Undecided
from ptx_engine.decide.columns import Columns
from ptx_engine.decide.cuts import end_of_inputs
from ptx_engine.decide.normal_forms import Forms
from ptx_engine.decide.normal_value import Evaluator, Leaf, operands
from ptx_engine.decide.proof import Proof, equal_proof, leaves_of, remainder_of, selects_constants
from ptx_engine.decide.walk import CONSTANTS, INPUT, Template
from ptx_engine.terms.arena import Arena

#: nodes beyond which a new pool is begun
_MOST = 1 << 18


class Pool:
    """The nodes of many templates, with the forms found so far."""

    def __init__(self, arena: Arena, partial_cuts: bool, meter: Meter) -> None:
        self.arena, self.partial_cuts, self.meter = arena, partial_cuts, meter
        self._begin()

    def _begin(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._template = Template([], [], [], Columns(1), False)
        self._leaves: dict[int, Leaf] = {}
        self._evaluator = Evaluator(self.arena, self._template, self._leaves, Forms(self.meter, freeze=True))

    def prove(self, template: Template) -> Proof:
        """Whether the first two roots of a template have one normal form; "unknown" says nothing about them."""
        if template.generalised and selects_constants(template):
            return Proof("unknown", "constants that are selected are told apart first")
        if len(self._numbers) > _MOST:
            self._begin()
        evaluator = self._evaluator
        reference, candidate = self._poured(template)[:2]
        try:
            evaluator.run((reference, candidate))
            if not remainder_of(evaluator, evaluator.value(reference), evaluator.value(candidate)):
                return equal_proof(evaluator, reference, candidate)
            return Proof("unknown", "normal forms differ")
        except Undecided as reason:
            return Proof("unknown", str(reason))

    def _poured(self, template: Template) -> list[int]:
        """The nodes of the pool that a template's roots are."""
        known = leaves_of(self.arena, template, self.partial_cuts)
        ops, args = template.ops, template.args
        place = [-1] * len(ops)
        for node, key in self._variables(template, known).items():
            place[node] = self._leaf(key, known[node])
        stack = list(template.roots)
        while stack:
            node = stack[-1]
            if place[node] >= 0:
                stack.pop()
                continue
            op, mine = ops[node], args[node]
            below = operands(template, node)
            mapped = tuple([place[child] for child in below])
            if -1 in mapped:
                stack.extend([child for child, found in zip(below, mapped) if found < 0])
                continue
            stack.pop()
            if len(mine) > len(below):
                mapped += mine[len(below) :]
            place[node] = self._node((op, mapped), op, mapped)
        return [place[root] for root in template.roots]

    def _variables(self, template: Template, known: dict[int, Leaf]) -> dict[int, Hashable]:
        """A key for each variable, no two alike: what is known of it, the input it is of, and its rank among those."""
        nodes = [node for node, op in enumerate(template.ops) if op in (INPUT, CONSTANTS)]
        if not nodes:
            return {}
        _, high = template.columns.bounds(nodes)
        bases = np.array([*(entry.base for entry in self.arena.inputs), -1 - end_of_inputs(self.arena)], np.int64)
        owner = np.searchsorted(bases, -1 - high, side="right").tolist()
        ranks: dict[Hashable, int] = {}
        keys: dict[int, Hashable] = {}
        for position in np.argsort(-high, kind="stable").tolist():
            node = nodes[position]
            kind = (template.ops[node], owner[position], known[node])
            ranks[kind] = rank = ranks.get(kind, -1) + 1
            keys[node] = ("variable", *kind, rank)
        return keys

    def _leaf(self, key: Hashable, leaf: Leaf) -> int:
        node = self._node(key, INPUT, ())
        self._leaves[node] = leaf
        return node

    def _node(self, key: Hashable, op: int, args: tuple[int, ...]) -> int:
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self._template.ops)
            self._template.ops.append(op)
            self._template.args.append(args)
        return found
