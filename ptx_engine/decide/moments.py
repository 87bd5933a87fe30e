"""Polynomials of degree two in many inputs, compared where multiplying them out would take n^2 terms: means and variances.

The inputs are replaced by running sums: where a sum that is carried on meets new inputs x_1, x_2, ..., variables T_1 = E + a_1 x_1,
T_2 = T_1 + a_2 x_2, ... take their place, x_k = (T_k - T_(k-1)) / a_k. That is a change of basis, so that polynomials are equal
exactly if they are equal over the new variables; and there means are one variable, deviations two or three, and a variance by
two passes, by moments, by Welford's recurrence or by Chan's merging has a few terms for each input.
"""

from __future__ import annotations

from gmpy2 import mpq

from ptx_engine.decide.budget import Meter
from ptx_engine.decide.term_view import TermView
from ptx_engine.decide.walk import CONSTANTS, INPUT, Template, postorder
from ptx_engine.terms.ops import Op

#: a linear form: variable -> coefficient; _UNIT is the constant 1
Linear = dict[int, mpq]
Quadratic = dict[tuple[int, int], mpq]
_UNIT = -1
_NONE = 9  # no polynomial of degree two at most
#: fewer linear nodes are no case for this, nor are more polynomials than that to be compared
_FEW_SUMS, _MANY = 32, 4096
#: bits of all sets of inputs together
_SUPPORT_BITS = 1 << 30
#: variables of a sum, and forms that mention one of them, where another takes its place
_PIVOTED = 8
#: what a sum already holds starts a chain of new variables if it has at most so many terms
_SHORT = 2


def equal_quadratics(arena: TermView, template: Template, meter: Meter, hidden: frozenset[int] = frozenset()) -> dict[int, int]:
    """Nodes of degree two at most that anything but such polynomials uses, by the class of those equal to them.

    Nodes that equal no other are left out, and what is made of ``hidden`` variables, which may be undefined somewhere: they
    could vanish. Raises ``BudgetSpent`` with the meter.
    """
    if not _may_be_case(template):
        return {}
    degrees = _Degrees(arena, template, hidden)
    outer = degrees.outer()
    if not 2 <= len(outer) <= _MANY or len(degrees.sums) < _FEW_SUMS or 2 not in {degrees.of[n] for n in outer}:
        return {}
    if len(degrees.sums) * degrees.inputs > _SUPPORT_BITS:
        return {}
    basis = _Basis(degrees, meter)
    classes: dict[object, list[int]] = {}
    for node in outer:
        classes.setdefault(frozenset(basis.quadratic(node).items()), []).append(node)
    shared = [nodes for nodes in classes.values() if len(nodes) > 1]
    return {node: number for number, nodes in enumerate(shared) for node in nodes}


def _may_be_case(template: Template) -> bool:
    """Whether there may be products of linear nodes and enough linear nodes, by the operators of nodes and of their operands alone:
    where there are not, there is no need to look at what lies further below."""
    ops = template.ops
    ring = [op in _RING or op == Op.CONST for op in ops]
    sums, multiplies = 0, False
    for op, args in zip(ops, template.args):
        if op not in _POLYNOMIAL:
            continue
        rest, pairs = (args, ()) if op in _SUMS else _products(op, args)
        linear = all(map(ring.__getitem__, rest))
        for x, y in pairs:
            if not linear and multiplies:
                break
            polynomial = ring[x] and ring[y]
            constant = ops[x] == Op.CONST or ops[y] == Op.CONST
            multiplies = multiplies or (polynomial and not constant)
            linear = linear and polynomial and constant
        sums += linear
        if multiplies and sums >= _FEW_SUMS:
            return True
    return False


_SUMS = frozenset({int(op) for op in (Op.ADD, Op.SUB, Op.NEG, Op.NSUM)})
_POLYNOMIAL = _SUMS | {int(op) for op in (Op.MUL, Op.FMA, Op.DOT)}
_RING = _POLYNOMIAL | {INPUT, CONSTANTS}


class _Degrees:
    """Degrees of the nodes below the roots, operands first, in ``order``."""

    def __init__(self, arena: TermView, template: Template, hidden: frozenset[int]) -> None:
        self.hidden = hidden
        self.arena, self.ops, self.args, self.roots = arena, template.ops, template.args, template.roots
        self.of = [_NONE] * len(self.ops)
        self.order = postorder(len(self.ops), self.roots, self.operands)
        self.uses = [0] * len(self.ops)
        #: values of constants (sums and products of constants are folded when terms are made)
        self.numbers: dict[int, mpq] = {}
        for node in self.order:
            self.of[node] = self._degree(node)
            for child in self.operands(node):
                self.uses[child] += 1
        #: linear nodes that are no inputs
        self.sums = [n for n in self.order if self.of[n] == 1 and self.ops[n] not in (INPUT, CONSTANTS)]
        self.inputs = sum(self.ops[n] in (INPUT, CONSTANTS) for n in self.order)

    def operands(self, node: int) -> tuple[int, ...]:
        """Operand nodes; those of functions too (plain operands are of no node that matters here)."""
        return _operands(self.ops[node], self.args[node])

    def _degree(self, node: int) -> int:
        op, of = self.ops[node], self.of
        if op in (INPUT, CONSTANTS):
            return 1 if node not in self.hidden else _NONE
        args = self.args[node]
        if op == Op.CONST:
            const = self.arena.consts[args[0]]
            if not const.is_rational:
                return _NONE
            self.numbers[node] = mpq(const.coef)
            return 0
        if op in (Op.ADD, Op.SUB, Op.NEG, Op.NSUM):
            return max(of[n] for n in args) or _NONE
        if op == Op.MUL:
            degree = of[args[0]] + of[args[1]]
        elif op == Op.FMA:
            degree = max(of[args[0]] + of[args[1]], of[args[2]])
        elif op == Op.DOT:
            degree = max([of[args[0]], *(of[args[i]] + of[args[i + 1]] for i in range(1, len(args), 2))])
        else:
            return _NONE
        return degree if 1 <= degree <= 2 else _NONE

    def outer(self) -> list[int]:
        """Sums and products that something else than such polynomials uses, or that are roots."""
        found = {n for n in self.roots if 1 <= self.of[n] <= 2}
        for node in self.order:
            if self.of[node] == _NONE:
                found.update(n for n in self.operands(node) if 1 <= self.of[n] <= 2)
        return sorted(n for n in found if self.ops[n] not in (INPUT, CONSTANTS))


_PLAIN = frozenset({Op.WRAP, Op.FIELD})


def _operands(op: int, args: tuple[int, ...]) -> tuple[int, ...]:
    if op in (INPUT, CONSTANTS, Op.CONST):
        return ()
    if op in _PLAIN:
        return args[:1]
    return args[:2] if op == Op.OPAQUE else args


class _Basis:
    """Linear forms over running sums."""

    def __init__(self, degrees: _Degrees, meter: Meter) -> None:
        self.degrees, self.meter = degrees, meter
        self.ops, self.args, self.of = degrees.ops, degrees.args, degrees.of
        #: forms of inputs that have been replaced, and of nodes that are met again
        self.forms: dict[int, Linear] = {}
        self.next = len(self.ops)
        #: per new variable the inputs and nodes whose forms mention it
        self.mentions: dict[int, set[int]] = {}
        for node in self._carried():
            self._keep(node, self._pivoted(self._shortened(self._flat(node))))

    def _carried(self) -> list[int]:
        """Sums that several others are made of, those of few inputs first; of equally many, those that larger ones are made of.

        A running mean is one, the deviation from it is not: variables for means are what makes deviations short.
        """
        degrees = self.degrees
        place: dict[int, int] = {}
        support: dict[int, int] = {}
        parents: dict[int, int] = {}
        larger: set[int] = set()
        for node in degrees.order:
            if self.of[node] != 1:
                continue
            if self.ops[node] in (INPUT, CONSTANTS):
                support[node] = 1 << place.setdefault(node, len(place))
                continue
            children = [n for n in degrees.operands(node) if self.of[n] == 1]
            mask = 0
            for child in children:
                mask |= support[child]
                parents[child] = parents.get(child, 0) + 1
            support[node] = mask
            larger.update(n for n in children if support[n] != mask)
        position = {node: i for i, node in enumerate(degrees.sums)}
        carried = [n for n in degrees.sums if degrees.uses[n] > 1 and (n in larger or parents.get(n, 0) > 1)]
        return sorted(carried, key=lambda n: (support[n].bit_count(), n not in larger, position[n]))

    def _flat(self, root: int) -> Linear:
        """The form of a linear node over what is known so far."""
        total: Linear = {}
        stack: list[tuple[int, mpq]] = [(root, mpq(1))]
        while stack:
            node, coef = stack.pop()
            known = self.forms.get(node)
            if known is not None:
                self._add(total, known, coef)
            elif self.ops[node] in (INPUT, CONSTANTS):
                self._add(total, {node: mpq(1)}, coef)
            else:
                self.meter.spend(1)
                stack.extend(self._summands(node, coef, total))
        return {v: c for v, c in total.items() if c}

    def _summands(self, node: int, coef: mpq, total: Linear) -> list[tuple[int, mpq]]:
        """The linear operands of a linear node with their coefficients; constants go into ``total``."""
        op, args = self.ops[node], self.args[node]
        if self.of[node] == 0:
            total[_UNIT] = total.get(_UNIT, 0) + coef * self.degrees.numbers[node]
            return []
        if op in (Op.ADD, Op.NSUM):
            return [(n, coef) for n in args]
        if op == Op.SUB:
            return [(args[0], coef), (args[1], -coef)]
        if op == Op.NEG:
            return [(args[0], -coef)]
        rest, pairs = _products(op, args)
        found = [(n, coef) for n in rest]
        for x, y in pairs:
            if self.of[x] == 0:
                x, y = y, x
            found.append((x, coef * self.degrees.numbers[y]))
        return found

    def _shortened(self, form: Linear) -> Linear:
        """The form with new inputs replaced by running sums of them."""
        fresh = [v for v in form if 0 <= v < len(self.ops)]
        if not fresh:
            return form
        rest = {v: c for v, c in form.items() if not 0 <= v < len(self.ops)}
        running: Linear = rest if len(rest) <= _SHORT else {}
        for x in fresh:
            inverse = 1 / form[x]
            self._keep(x, {self.next: inverse, **{v: -c * inverse for v, c in running.items()}})
            running = {self.next: mpq(1)}
            self.next += 1
        if len(rest) > _SHORT:
            self._add(running, rest, mpq(1))
        return running

    def _keep(self, node: int, form: Linear) -> None:
        self.forms[node] = form
        for v in form:
            self.mentions.setdefault(v, set()).add(node)

    def _pivoted(self, form: Linear) -> Linear:
        """A sum of few variables as a new one, which takes the place of the one that is mentioned least: two means become one."""
        known = [v for v in form if v >= len(self.ops)]
        if not 2 <= len(form) <= _PIVOTED or not known:
            return form
        old = min(known, key=lambda v: len(self.mentions.get(v, ())))
        users = self.mentions.pop(old, set())
        if len(users) > _PIVOTED:
            self.mentions[old] = users
            return form
        new, inverse = self.next, 1 / form[old]
        self.next += 1
        instead = {new: inverse, **{v: -c * inverse for v, c in form.items() if v != old}}
        for node in users:
            changed = dict(self.forms[node])
            coef = changed.pop(old, None)
            if coef is not None:  # (it may have been cancelled since)
                self._add(changed, instead, coef)
                self._keep(node, {v: c for v, c in changed.items() if c})
        return {new: mpq(1)}

    def _add(self, total: Linear, form: Linear, coef: mpq) -> None:
        self.meter.spend(len(form))
        for v, c in form.items():
            total[v] = total.get(v, 0) + c * coef

    def linear(self, node: int) -> Linear:
        """The form of a node of degree one at most."""
        known = self.forms.get(node)
        if known is None:
            known = self._flat(node)
            if self.degrees.uses[node] > 1:
                self.forms[node] = known
        return known

    def quadratic(self, root: int) -> Quadratic:
        """A node of degree two at most over the basis; a factor of degree 0 or 1 counts as multiplied by 1."""
        total: Quadratic = {}
        stack: list[tuple[int, mpq]] = [(root, mpq(1))]
        while stack:
            node, coef = stack.pop()
            op, args = self.ops[node], self.args[node]
            if self.of[node] <= 1:
                self._multiply(total, self.linear(node), {_UNIT: mpq(1)}, coef)
            elif op in (Op.ADD, Op.NSUM):
                stack.extend((n, coef) for n in args)
            elif op == Op.SUB:
                stack += [(args[0], coef), (args[1], -coef)]
            elif op == Op.NEG:
                stack.append((args[0], -coef))
            else:
                rest, pairs = _products(op, args)
                stack.extend((n, coef) for n in rest)
                for x, y in pairs:
                    self._product(total, stack, x, y, coef)
        return {key: c for key, c in total.items() if c}

    def _product(self, total: Quadratic, stack: list[tuple[int, mpq]], x: int, y: int, coef: mpq) -> None:
        if self.of[x] == 0:
            x, y = y, x
        if self.of[y] == 0:
            stack.append((x, coef * self.degrees.numbers[y]))
        else:
            self._multiply(total, self.linear(x), self.linear(y), coef)

    def _multiply(self, total: Quadratic, x: Linear, y: Linear, coef: mpq) -> None:
        self.meter.spend(len(x) * len(y))
        for v, c in x.items():
            scaled = c * coef
            for w, d in y.items():
                key = (v, w) if v <= w else (w, v)
                total[key] = total.get(key, 0) + scaled * d


def _products(op: int, args: tuple[int, ...]) -> tuple[list[int], list[tuple[int, int]]]:
    """Summands and pairs of factors of a product, a multiply-add or a sum of products."""
    if op == Op.MUL:
        return [], [(args[0], args[1])]
    if op == Op.FMA:
        return [args[2]], [(args[0], args[1])]
    return [args[0]], [(args[i], args[i + 1]) for i in range(1, len(args), 2)]
