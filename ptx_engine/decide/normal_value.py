"""The normal form of every node of a template that needs one, from the leaves up.

Additive operators used once are not given forms of their own: a chain of multiply-adds, a reduction tree and a dot
product are all collected into one sum, whatever their shape. Everything used more than once has one form, shared.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from ptx_engine.decide.budget import Undecided
from ptx_engine.decide.normal_forms import SMALL_SUM, Forms
from ptx_engine.decide.normal_functions import Functions
from ptx_engine.decide.normal_integers import Integers
from ptx_engine.decide.normal_lattice import ORDERED, Lattice
from ptx_engine.decide.normal_order import Maxima, positive, zero
from ptx_engine.decide.normal_rescale import Rescaling
from ptx_engine.decide.normal_ring import ONE_TERM, Coef, Kind, Poly, PolyKey, Sign, add_into
from ptx_engine.decide.normal_rounding import Rounding
from ptx_engine.decide.normal_select import Compared, Selections
from ptx_engine.decide.walk import CONSTANTS, INPUT, Template
from ptx_engine.terms.arena import Arena
from ptx_engine.terms.ops import TABLE, Op

#: comparisons of one condition that are looked at
_COMPARISONS = 8
#: what a value needs to be defined: what, of which value
Condition = tuple[str, Hashable]

SHARED = "values that both sides compute"
_PARTIAL = frozenset({int(op) for op in (Op.DIV, Op.SQRT, Op.LOG2, Op.POW, Op.FLOORDIV, Op.TRUNCDIV, Op.TRUNCREM)})

_ADDITIVE = frozenset({Op.ADD, Op.SUB, Op.NEG, Op.FMA, Op.DOT, Op.NSUM})
_LATTICE = {Op.MAX: "max", Op.NMAX: "max", Op.MIN: "min", Op.NMIN: "min"}


@dataclass(frozen=True, slots=True)
class Leaf:
    """What is known of a template variable."""

    sign: Sign
    integer: bool
    low: int | None
    high: int | None
    #: stands for a term that may be undefined somewhere: a value both sides compute, but perhaps in other outputs
    partial: bool = False


#: per operator code, how many of a node's arguments are operands (or more, where all of them are)
COUNTS = [0] * 256
for _row in TABLE.values():
    COUNTS[_row.op] = 1 << 30 if _row.record else _row.arity


def operands(template: Template, node: int) -> tuple[int, ...]:
    """The operand nodes of a template node."""
    return template.args[node][: COUNTS[template.ops[node]]]


def summands(op: int, args: tuple[int, ...]) -> tuple[int, ...]:
    """The operands that stand as summands, not as factors."""
    if op == Op.FMA:
        return args[2:]
    if op == Op.DOT:
        return args[:1]
    return args if op in _ADDITIVE else ()


class Evaluator:
    """Normal forms of the nodes of one template."""

    def __init__(
        self, arena: Arena, template: Template, leaves: dict[int, Leaf], forms: Forms, shared: dict[int, int] | None = None
    ) -> None:
        self.arena = arena
        self.template = template
        self.leaves = leaves
        self.forms = forms
        maxima = Maxima(self.forms)
        self.lattice = Lattice(self.forms, maxima)
        self.functions = Functions(self.forms, self.lattice)
        self.rounding = Rounding(self.forms, self.lattice)
        self.integers = Integers(self.forms, self.functions, self.rounding)
        self.selections = Selections(self.forms, self.lattice)
        self.rescaling = Rescaling(self, self.forms, self.functions, self.lattice)
        self.functions.note = self._note
        self.values: dict[int, Poly] = {}
        self.failed: dict[int, Undecided] = {}
        #: side conditions by the node that needs them, and those that hold everywhere (see ``normal_domain``)
        self.conditions: dict[int, list[Condition]] = {}
        self.shown: set[Condition] = set()
        #: whether any node is a selection: only then a condition may be needed in some cases only
        self.selects = False
        self._bits: dict[Condition, int] = {}
        self._noted_below: dict[int, int] = {}
        self.opaque: dict[int, str] = {}
        #: of maxima the formula without, and of all their arguments the terms with maxima beside it; canonical forms of arguments
        self._formulas: dict[int, int] = {}
        self._shifts: dict[int, PolyKey] = {}
        self._arguments: dict[int, Poly] = {}
        #: nodes taken as they are: node -> number of the variable that stands for it
        self._shared = shared or {}
        self._current = -1
        self._operands: list[tuple[int, ...]] = []
        self._partial = False
        self._inlined = bytearray()
        self._extend()

    def _note(self, what: str, key: Hashable, shown: bool) -> None:
        if shown:
            self.shown.add((what, key))
        else:
            self.conditions.setdefault(self._current, []).append((what, key))
            if self._current in self._noted_below:
                self._noted_below.clear()

    def _extend(self) -> None:
        """Take in the template's nodes that are new."""
        start, ops = len(self._operands), self.template.ops
        self._operands += [operands(self.template, node) for node in range(start, len(ops))]
        self._partial = self._partial or not _PARTIAL.isdisjoint(ops[start:])
        self.selects = self.selects or Op.ITE in ops[start:]

    def needs(self, root: int) -> int:
        """All conditions that are noted below a root and not shown to hold everywhere, as bits of a number; nodes that were looked at for
        another root are not looked at again."""
        known = self._noted_below
        stack = [root]
        while stack:
            node = stack[-1]
            missing = [child for child in self.operands(node) if child not in known] if node not in known else []
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            if node not in known:
                found = 0
                for child in self.operands(node):
                    found |= known[child]
                for condition in self.conditions.get(node, ()):
                    found |= 1 << self._bits.setdefault(condition, len(self._bits))
                known[node] = found
        shown = sum(1 << self._bits[condition] for condition in self.shown if condition in self._bits)
        return known[root] & ~shown

    def _below(self, roots: Sequence[int]) -> list[int]:
        """The nodes below some roots, and those."""
        nodes, stack, seen = [], list(roots), bytearray(len(self.template.ops))
        while stack:
            node = stack.pop()
            if not seen[node]:
                seen[node] = 1
                nodes.append(node)
                stack.extend(self._operands[node])
        return nodes

    def _find_inlined(self, roots: Sequence[int], nodes: Sequence[int]) -> bytearray:
        """Of the nodes below some roots: marks 1 for additive nodes whose only use is as a summand, and 2 for maxima used in other maxima
        only."""
        ops = self.template.ops
        uses, summand, within = [0] * len(ops), [0] * len(ops), [0] * len(ops)
        for root in (*roots, *self.template.roots):
            uses[root] += 2
        for node in nodes:
            op, children = ops[node], self._operands[node]
            for child in children:
                uses[child] += 1
            if op in _LATTICE:
                for child in children:
                    within[child] += 1
            elif op in _ADDITIVE:
                for child in summands(op, children):
                    summand[child] += 1
        marks = bytearray(len(ops))
        for n in nodes:
            op = ops[n]
            if op in _ADDITIVE:
                marks[n] = uses[n] == summand[n] == 1
            elif op in _LATTICE and uses[n] == within[n]:
                marks[n] = 2
        return marks

    def run(self, roots: Sequence[int], nodes: Sequence[int] | None = None) -> None:
        """Evaluate roots; a node that has no form is in ``failed`` with its reason, as are those that need it. ``nodes`` are all those
        below the roots, where the caller has them.

        Nodes may have been added to the template since the last run; forms that are known are kept.
        """
        self._extend()
        self._inlined = self._find_inlined(roots, self._below(roots) if nodes is None else nodes)
        stack = list(roots)
        entered = bytearray(len(self.template.ops))
        values = self.values
        while stack:
            node = stack[-1]
            if entered[node] == 0:
                if node in values:
                    entered[node] = 2
                    stack.pop()
                    continue
                entered[node] = 1
                if node in self._shared:
                    self.values[node] = self.forms.placeholder(self._shared[node])
                    self._current = node
                    if self._partial:
                        self._note(SHARED, self._shared[node], False)
                    entered[node] = 2
                    continue
                stack.extend([child for child in reversed(self._operands[node]) if not entered[child]])
                continue
            stack.pop()
            if entered[node] == 1:
                entered[node] = 2
                if self._inlined[node] != 1:
                    self._evaluate(node)

    def operands(self, node: int) -> tuple[int, ...]:
        """The operand nodes of a node, as far as they are looked into."""
        return () if node in self._shared else self._operands[node]

    def operator(self, node: int) -> int:
        """The operator of a node; that of an input where it is not looked into."""
        return INPUT if node in self._shared else self.template.ops[node]

    def _evaluate(self, node: int) -> None:
        self._current = node
        try:
            form = self._form(node)
            if form is not None:
                self.values[node] = form
        except Undecided as reason:
            self.failed[node] = reason

    def value(self, node: int) -> Poly:
        """The form of an evaluated node; raises the reason why there is none."""
        found = self.values.get(node)
        if found is None:
            raise self.failed[node]
        return found

    def _form(self, node: int) -> Poly | None:
        op = self.template.ops[node]
        if op in (INPUT, CONSTANTS):
            leaf = self.leaves[node]
            if leaf.partial:
                self._note(SHARED, ("leaf", node), False)
            return self.forms.variable(node, leaf.sign, leaf.integer, leaf.low, leaf.high)
        args = self.template.args[node]
        if op == Op.CONST:
            return self.forms.constant(self.arena.consts[args[0]])
        if self.selects and (op in _ADDITIVE or op == Op.ITE) and (joined := self.rescaling.joined(node)) is not None:
            return joined
        if op in _ADDITIVE:
            return self._sum(node)
        if op in _LATTICE:
            return self._extreme(node, _LATTICE[Op(op)], args)
        return self._apply(Op(op), node, args)

    # --- sums -----------------------------------------------------------------------------------

    def _sum(self, root: int) -> Poly:
        total: Poly = {}
        ops, args_of, inlined = self.template.ops, self.template.args, self._inlined
        stack: list[tuple[int, int]] = [(root, 1)]
        while stack:
            node, sign = stack.pop()
            if node != root and inlined[node] != 1:
                self._add_value(total, node, sign)
                continue
            op, args = ops[node], args_of[node]
            if op == Op.FMA:
                self._add_products(total, args[:2], sign)
                stack.append((args[2], sign))
            elif op == Op.DOT:
                self._add_products(total, args[1:], sign)
                stack.append((args[0], sign))
            elif op == Op.NEG:
                stack.append((args[0], -sign))
            elif op == Op.SUB:
                stack.append((args[1], -sign))
                stack.append((args[0], sign))
            else:
                stack.extend((child, sign) for child in reversed(args))
        self.forms.meter.spend(len(total))
        return total

    def _add_value(self, total: Poly, node: int, sign: int) -> None:
        add_into(total, self.forms.abbreviated(self.value(node)), sign)

    def _add_products(self, total: Poly, factors: tuple[int, ...], sign: int) -> None:
        values, forms = self.values, self.forms
        self.forms.meter.spend(len(factors) // 2)
        for i in range(0, len(factors), 2):
            p, q = values.get(factors[i]), values.get(factors[i + 1])
            if p is None or q is None:
                p, q = self.value(factors[i]), self.value(factors[i + 1])
            if len(p) == 1 and len(q) == 1:
                ((s, c),) = p.items()
                ((t, d),) = q.items()
                term = forms.pair(s, t)
                coef: Coef = total.get(term, 0) + sign * c * d
                if coef:
                    total[term] = coef
                else:
                    total.pop(term, None)
            else:
                add_into(total, forms.product(p, q), sign)

    # --- order ----------------------------------------------------------------------------------

    def _extreme(self, node: int, name: str, args: tuple[int, ...]) -> Poly | None:
        """The form of a max or min; None for one that is only used inside others.

        Maxima and minima that all arguments add in the same way come out first: max(x_i - min(x)) is max(x) - min(x), not the maximum
        of all differences.
        """
        if not args:
            raise Undecided("a maximum or minimum over infinities only")
        common = self._common(args)
        formula = self.lattice.join(name, [self._formula(child, common) for child in args])
        self._formulas[node], self._shifts[node] = formula, common
        if self._inlined[node] == 2:
            return None
        value = self.lattice.value(formula)
        return self.forms.add(value, dict(common)) if common else value

    def _common(self, args: tuple[int, ...]) -> PolyKey:
        """The terms with maxima that all arguments have, with one coefficient."""
        common: PolyKey | None = None
        for child in args:
            terms = self._shifts.get(child)
            if terms is None:
                canonical = self._canonical(child)
                ring = self.forms.ring
                terms = self._shifts[child] = frozenset(
                    (t, c)
                    for t, c in canonical.items()
                    if len(canonical) > 1 and any(ring.atoms[a].kind in ORDERED for a, _ in ring.powers[t])
                )
            common = terms if common is None else common & terms
            if not common:
                break
        return common or frozenset()

    def _canonical(self, child: int) -> Poly:
        """The canonical form of an argument."""
        found = self._arguments.get(child)
        if found is None:
            value = self.value(child)
            if len(value) > SMALL_SUM and self.forms.freeze:
                value = self.forms.abbreviated(value)
            found = self._arguments[child] = self.forms.argument(value)
        return found

    def _formula(self, child: int, less: PolyKey) -> int:
        """The formula of an argument, less some of its terms; of a maximum with terms of its own beside it, where others lack them, of
        their sum."""
        inner = self._formulas.get(child)
        if inner is None:
            canonical = self._canonical(child)
            return self.lattice.argument(self.forms.argument(self.forms.add(canonical, dict(less), -1)) if less else canonical)
        rest = self._shifts[child] - less
        if not rest:
            return inner
        return self.lattice.argument(self.forms.argument(self.forms.add(self.lattice.value(inner), dict(rest))))

    def condition(self, node: int) -> Poly:
        """A 0/1 value; anything not built from comparisons is compared with zero."""
        value = self.value(node)
        atoms = self.forms.ring.atoms
        if all(atoms[a].kind is Kind.INDICATOR for t in value for a, _ in self.forms.ring.powers[t]):
            return value
        return self.forms.add({ONE_TERM: 1}, zero(self.forms, value), -1)

    def _compare(self, op: Op, a: int, b: int) -> Poly:
        p, q = self.value(a), self.value(b)
        one: Poly = {ONE_TERM: 1}
        if op is Op.LT:
            return positive(self.forms, self.forms.add(q, p, -1))
        if op is Op.LE:
            return self.forms.add(one, positive(self.forms, self.forms.add(p, q, -1)), -1)
        equal = zero(self.forms, self.forms.add(p, q, -1))
        return equal if op is Op.EQ else self.forms.add(one, equal, -1)

    def _logic(self, op: Op, args: tuple[int, ...]) -> Poly:
        p = self.condition(args[0])
        if op is Op.NOT:
            return self.forms.add({ONE_TERM: 1}, p, -1)
        q = self.condition(args[1])
        both = self.forms.ring.times(p, q)
        self.forms.meter.spend(len(p) * len(q))
        if op is Op.AND:
            return both
        return self.forms.add(self.forms.add(p, q), both, -1)

    def _compared(self, node: int) -> list[Compared]:
        """The values that a condition compares, through its logic; of a few comparisons only."""
        found: list[Compared] = []
        stack = [node]
        while stack and len(found) < _COMPARISONS:
            current = stack.pop()
            op, args = self.template.ops[current], self.template.args[current]
            if op in (Op.LT, Op.LE, Op.EQ, Op.NE):
                found.append((self.value(args[0]), self.value(args[1])))
            elif op in (Op.AND, Op.OR, Op.NOT):
                stack.extend(operands(self.template, current))
        return found

    # --- everything else ------------------------------------------------------------------------

    def _apply(self, op: Op, node: int, args: tuple[int, ...]) -> Poly:
        if TABLE[op].predicate:
            return self._compare(op, *args) if op in (Op.LT, Op.LE, Op.EQ, Op.NE) else self._logic(op, args)
        if op is Op.ITE:
            condition = self.condition(args[0])
            return self.selections.select(condition, self.value(args[1]), self.value(args[2]), self._compared(args[0]))
        values = [self.value(child) for child in args[: TABLE[op].arity]]
        if op is Op.OPAQUE:
            name = self.arena.opaque_names[args[2]]
            self.opaque[node] = name
            return self.functions.opaque(f"opaque {name}", (values[0], values[1]))
        if len(values) == 1:
            return self._unary(op, values[0], args)
        return self._binary(op, values[0], values[1])

    def _unary(self, op: Op, p: Poly, args: tuple[int, ...]) -> Poly:
        functions = self.functions
        match op:
            case Op.EXP2:
                return functions.exp2(self.forms.abbreviated(p) if self.forms.freeze else p)
            case Op.LOG2:
                return functions.log2(p)
            case Op.SQRT:
                return functions.sqrt(p)
            case Op.TANH:
                return functions.tanh(p)
            case Op.ABS:
                return functions.absolute(p)
            case Op.SIN | Op.COS:
                return functions.circular(p, 0 if op is Op.SIN else 1)
            case Op.ERF:
                return functions.odd("erf", p)
            case Op.FLOOR:
                return self.rounding.floor(p)
            case Op.CEIL:
                return self.rounding.ceil(p)
            case Op.TRUNC | Op.ROUND_EVEN:
                return self.rounding.rounded(op.name.lower(), p)
            case Op.WRAP:
                return self.integers.wrap(p, args[1])
            case Op.FIELD:
                return self.integers.field(p, args[1], args[2])
        raise Undecided(f"no normal form for {op.name}")

    def _binary(self, op: Op, p: Poly, q: Poly) -> Poly:
        match op:
            case Op.MUL:
                return self.forms.product(p, q)
            case Op.DIV:
                return self.functions.divide(p, q)
            case Op.POW:
                return self.functions.pow(p, q)
            case Op.FLOORDIV:
                return self.integers.floordiv(p, q)
            case Op.TRUNCDIV:
                return self.integers.truncdiv(p, q)
            case Op.TRUNCREM:
                return self.integers.truncrem(p, q)
            case Op.SHL | Op.SHR:
                return self.integers.shift(op, p, q)
            case Op.BITAND | Op.BITOR | Op.BITXOR:
                return self.integers.bitwise(op, p, q)
        raise Undecided(f"no normal form for {op.name}")
