"""The step of an online softmax in normal form: two sums of exponentials, each scaled by its own maximum, joined under a comparison.

What is chosen where a > b and where not differs in form, d + e * exp(b - a) and e + d * exp(a - b), yet with m = max(a, b) both are
d * exp(a - m) + e * exp(b - m). So a value that is X where a > b and Y elsewhere is X * exp(k(a - m)) wherever that equals
Y * exp(k(b - m)): the factor is one where X is meant, and the other where Y is. k is read off the exponentials of the step.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ptx_engine.decide.budget import BudgetSpent
from ptx_engine.decide.normal_forms import Forms
from ptx_engine.decide.normal_functions import Functions
from ptx_engine.decide.normal_lattice import Lattice
from ptx_engine.decide.normal_ring import Poly, add_into
from ptx_engine.decide.normal_select import quotient
from ptx_engine.terms.ops import Op

#: nodes of a step that are looked at, and term operations that joining one may cost
_NODES, _WORK = 40, 50_000
_SUMS = frozenset({Op.ADD, Op.SUB, Op.NEG, Op.FMA, Op.MUL})
_GREATER, _LESS = frozenset({Op.MAX, Op.NMAX}), frozenset({Op.MIN, Op.NMIN})
_CHOOSING = _GREATER | _LESS | {Op.ITE, Op.ABS, Op.EXP2}


class Nodes(Protocol):
    """What a step is read from: an ``Evaluator``. ``values`` are the forms that there are: sums used once only have none."""

    values: dict[int, Poly]

    def value(self, node: int) -> Poly: ...

    def operands(self, node: int) -> tuple[int, ...]: ...

    def operator(self, node: int) -> int: ...


@dataclass(slots=True)
class _Step:
    """The nodes of a step, how many selections among them have which condition, and the exponentials."""

    selections: Counter[int] = field(default_factory=Counter)
    exponentials: list[int] = field(default_factory=list)
    seen: set[int] = field(default_factory=set)


class Rescaling:
    """Joins steps over the normal forms of one ``Evaluator``."""

    def __init__(self, nodes: Nodes, forms: Forms, functions: Functions, lattice: Lattice) -> None:
        self._nodes, self._op = nodes, nodes.operator
        self.forms, self.functions, self.lattice = forms, functions, lattice
        self._choosing: dict[int, bool] = {}
        #: whether a step was not looked into, as a difference in it is a variable in this attempt
        self.hindered = False

    def joined(self, root: int) -> Poly | None:
        """The form of a sum or a selection that is such a step; None for any other."""
        step = self._step(root)
        if not step.exponentials:
            return None
        own = self._nodes.operands(root)[0] if self._op(root) == Op.ITE else None
        for condition, count in step.selections.items():
            wanted = condition == own if own is not None else count > 1
            compared = self._compared(condition) if wanted else None
            if compared is None:
                continue
            try:
                with self.forms.meter.at_most(_WORK):
                    found = self._scaled(root, step, condition, *compared)
            except BudgetSpent:
                self.forms.meter.resume()
                return None
            if found is not None:
                return found
        return None

    def _step(self, root: int) -> _Step:
        """The nodes from which a value is computed by sums, products and exponentials, down to selections and anything else, the nearest
        first. What a selection chooses from belongs to it if it is the value itself."""
        step = _Step()
        waiting = deque([root])
        while waiting and len(step.seen) < _NODES:
            node = waiting.popleft()
            if node in step.seen:
                continue
            step.seen.add(node)
            op, operands = self._op(node), self._nodes.operands(node)
            if op == Op.ITE:
                step.selections[operands[0]] += 1
                waiting.extend(operands[1:] if node == root else ())
            elif op in _SUMS or op == Op.EXP2:
                step.exponentials += [node] if op == Op.EXP2 else []
                waiting.extend(operand for operand in operands if node == root or op == Op.EXP2 or self._chooses(operand))
        return step

    def _chooses(self, node: int) -> bool:
        """Whether anything is chosen, or raised to a power, among what a node is computed from by sums and products."""
        stack = [node]
        while stack:
            current = stack[-1]
            op, operands = self._op(current), self._nodes.operands(current)
            if op not in _SUMS:
                self._choosing[current] = op in _CHOOSING
            elif missing := [operand for operand in operands if operand not in self._choosing]:
                stack += missing
                continue
            else:
                self._choosing[current] = any(self._choosing[operand] for operand in operands)
            stack.pop()
        return self._choosing[node]

    def _compared(self, condition: int) -> tuple[Poly, Poly] | None:
        """(a, b) of a condition that holds where a > b and fails where a < b."""
        op, operands = self._op(condition), self._nodes.operands(condition)
        if op == Op.NOT and self._op(operands[0]) in (Op.LT, Op.LE):
            first, second = self._nodes.operands(operands[0])
            return self._nodes.value(first), self._nodes.value(second)
        if op in (Op.LT, Op.LE):
            return self._nodes.value(operands[1]), self._nodes.value(operands[0])
        return None

    def _scaled(self, root: int, step: _Step, condition: int, a: Poly, b: Poly) -> Poly | None:
        forms = self.forms
        difference = forms.add(b, a, -1)
        cases = [_Case(self, step, condition, pair, holds) for pair, holds in (((a, b), True), ((b, a), False))]
        rate = self._rate(step, cases[0], difference) if difference else None
        if rate is None:
            return None
        above, below = (case.value(root) for case in cases)
        greater = self.lattice.value(self.lattice.join("max", [self.lattice.argument(forms.argument(v)) for v in (a, b)]))
        for k in (rate, {t: -c for t, c in rate.items()}):
            left, right = self._times(above, k, a, greater), self._times(below, k, b, greater)
            if left is not None and left == right:
                return left
        return None

    def _times(self, value: Poly, k: Poly, a: Poly, greater: Poly) -> Poly | None:
        """value * exp(k(a - greater)), term by term."""
        factor = self.functions.exp2(self.forms.product(k, self.forms.add(a, greater, -1)))
        if len(factor) != 1:
            return None
        ((term, coef),) = factor.items()
        return self.forms.ring.times_term(value, term, coef)

    def _rate(self, step: _Step, case: _Case, difference: Poly) -> Poly | None:
        """k or -k, where an exponential of the step is exp(k(b - a)): which one it is depends on the case that it is meant for."""
        expand = self.forms.expander.expand
        expanded = expand(difference)
        for node in step.exponentials:
            exponent = expand(case.value(self._nodes.operands(node)[0]))
            found = quotient(self.forms, exponent, expanded) if exponent and expanded else None
            if found is not None:
                return found
            if self.forms.has_frozen and exponent:
                self.hindered |= quotient(self.forms, exponent, self.forms.abbreviated(difference)) is not None
        return None


class _Case:
    """Values of the nodes of a step where a condition holds, or does not: the first of a pair of values is not below the second then."""

    def __init__(self, of: Rescaling, step: _Step, condition: int, pair: tuple[Poly, Poly], holds: bool) -> None:
        self._of, self._step, self._condition, self._pair, self._holds = of, step, condition, pair, holds
        self._known: dict[int, Poly] = {}
        self._asks: dict[int, bool] = {}

    def value(self, node: int) -> Poly:
        """The form of a node in this case."""
        if node not in self._known:
            nodes = self._of._nodes
            self._known[node] = nodes.values[node] if node in nodes.values and not self._depends(node) else self._compute(node)
        return self._known[node]

    def _depends(self, node: int) -> bool:
        """Whether a node of the step is computed from a selection by the condition, or from the order of the pair."""
        if node not in self._asks:
            op, operands = self._of._op(node), self._of._nodes.operands(node)
            selects = (op == Op.ITE and operands[0] == self._condition) or self._ordered(op, operands) is not None
            inner = op in _SUMS or op == Op.EXP2
            self._asks[node] = node in self._step.seen and (selects or (inner and any(map(self._depends, operands))))
        return self._asks[node]

    def _ordered(self, op: int, operands: Sequence[int]) -> Poly | None:
        """The greater or the lesser one of the pair, or the size of its difference, if that is what an operator computes."""
        values = [v for node in operands if (v := self._of._nodes.values.get(node)) is not None]
        first, second = self._pair
        if op in _GREATER | _LESS and values in ([first, second], [second, first]):
            return first if op in _GREATER else second
        if op == Op.ABS and values:
            difference = self._of.forms.add(first, second, -1)
            return difference if values[0] in (difference, {t: -c for t, c in difference.items()}) else None
        return None

    def _compute(self, node: int) -> Poly:
        of = self._of
        op, operands = of._op(node), of._nodes.operands(node)
        if op == Op.ITE and operands[0] == self._condition:
            return self.value(operands[1 if self._holds else 2])
        if (ordered := self._ordered(op, operands)) is not None:
            return ordered
        if op == Op.EXP2:
            return of.functions.exp2(self.value(operands[0]))
        if op == Op.MUL:
            return of.forms.product(self._short(operands[0]), self._short(operands[1]))
        return self._sum(op, operands) if op in _SUMS else of._nodes.value(node)

    def _sum(self, op: int, operands: Sequence[int]) -> Poly:
        forms = self._of.forms
        total: Poly = {}
        if op == Op.FMA:
            add_into(total, forms.product(self._short(operands[0]), self._short(operands[1])))
            operands = operands[2:]
        for i, operand in enumerate(operands):
            add_into(total, self._short(operand), -1 if op == Op.NEG or (op == Op.SUB and i) else 1)
        return total

    def _short(self, node: int) -> Poly:
        return self._of.forms.abbreviated(self.value(node))
