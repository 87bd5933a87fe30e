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
from ptx_engine.decide.walk import CONSTANTS, INPUT, Template, postorder
from ptx_engine.terms.arena import Arena

#: nodes beyond which a new pool is begun
_MOST = 1 << 18
_VARIABLES = (INPUT, CONSTANTS)


class Pool:
    """The nodes of many templates, with the forms found so far."""

    def __init__(self, arena: Arena, partial_cuts: bool, meter: Meter) -> None:
        self.arena, self.partial_cuts, self.meter = arena, partial_cuts, meter
        self._begin()

        #: the last template
        self._poured_from: _Poured | None = None

    def _begin(self) -> None:
        #: nodes by operator and operands
        self._numbers: dict[int, dict[Hashable, int]] = {}
        self._template = Template([], [], [], Columns(1), False)
        self._leaves: dict[int, Leaf] = {}
        self._evaluator = Evaluator(self.arena, self._template, self._leaves, Forms(self.meter, freeze=True))

    def prove(self, template: Template, roots: tuple[int, int] | None = None) -> Proof:
        """Whether two nodes of a template (its first two roots) have one normal form; "unknown" says nothing about them."""
        if template.generalised and selects_constants(template):
            return Proof("unknown", "constants that are selected are told apart first")
        if len(self._template.ops) > _MOST:
            self._begin()
        evaluator = self._evaluator
        nodes = self._poured(template, roots or (template.roots[0], template.roots[1]))
        reference, candidate = nodes[-2:]
        try:
            evaluator.run((reference, candidate), list(set(nodes)))
            if not remainder_of(evaluator, evaluator.value(reference), evaluator.value(candidate)):
                return equal_proof(evaluator, reference, candidate)
            return Proof("unknown", "normal forms differ")
        except Undecided as reason:
            return Proof("unknown", str(reason))

    def _poured(self, template: Template, roots: tuple[int, int]) -> list[int]:
        """The nodes of the pool that those below two nodes of a template are, and those two at the end."""
        known = self._poured_from
        if known is None or known.template is not template:
            known = self._poured_from = _Poured(self.arena, template, self.partial_cuts)
        ops, args, below = template.ops, template.args, known.below
        order = postorder(len(ops), roots, below.__getitem__)
        place = [-1] * len(ops)
        for node, key in self._variables(known, [node for node in order if ops[node] in _VARIABLES]).items():
            place[node] = self._leaf(key, known.leaves[node])
        place_of = place.__getitem__
        for node in order:
            if place[node] < 0:
                op, mine, operands = ops[node], args[node], below[node]
                mapped = tuple(map(place_of, operands))
                if len(mine) > len(operands):
                    mapped += mine[len(operands) :]
                place[node] = self._node(op, mapped, mapped)
        return list(map(place_of, (*order, *roots)))

    def _variables(self, known: "_Poured", nodes: list[int]) -> dict[int, Hashable]:
        """A key for each variable, no two alike: what is known of it, the input it is of, and its rank among those."""
        if not nodes:
            return {}
        _, high = known.template.columns.bounds(nodes)
        bases = np.array([*(entry.base for entry in self.arena.inputs), -1 - end_of_inputs(self.arena)], np.int64)
        owner = np.searchsorted(bases, -1 - high, side="right").tolist()
        ranks: dict[Hashable, int] = {}
        keys: dict[int, Hashable] = {}
        for position in np.argsort(-high, kind="stable").tolist():
            node = nodes[position]
            kind = (owner[position], known.kinds[node])
            ranks[kind] = rank = ranks.get(kind, -1) + 1
            keys[node] = (*kind, rank)
        return keys

    def _leaf(self, key: Hashable, leaf: Leaf) -> int:
        node = self._node(INPUT, key, ())
        self._leaves[node] = leaf
        return node

    def _node(self, op: int, key: Hashable, args: tuple[int, ...]) -> int:
        numbers = self._numbers.setdefault(op, {})
        found = numbers.get(key)
        if found is None:
            found = numbers[key] = len(self._template.ops)
            self._template.ops.append(op)
            self._template.args.append(args)
        return found


class _Poured:
    """What does not depend on the two nodes of a template that are poured: operands, and what is known of variables."""

    def __init__(self, arena: Arena, template: Template, partial_cuts: bool) -> None:
        self.template = template
        self.leaves = leaves_of(arena, template, partial_cuts)
        self.below = [operands(template, node) for node in range(len(template.ops))]
        #: the operator and what is known of a variable
        self.kinds = {node: (template.ops[node], leaf) for node, leaf in self.leaves.items()}
