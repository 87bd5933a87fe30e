"""Expressions in max and min over common arguments, as truth tables.

A lattice polynomial over a chain is determined by its values on {0, 1} (take the indicator of "at least c" for every c),
so two of them are equal over the reals if their truth tables are. Arguments known to be ordered (constants, a dominated
argument) only meet in assignments that respect the order. Sorting networks, top-k by compare-exchange and clamps are such.
"""

from __future__ import annotations

from ptx_engine.decide.normal_forms import Forms
from ptx_engine.decide.normal_order import Maxima, is_nonnegative
from ptx_engine.decide.normal_ring import Atom, Kind, Poly, Sign, add_into

_MAX_ARGUMENTS = 16
_MAX_ORDERED = 12  # among more arguments no order is looked for

#: a formula: ("gen", argument number), ("max" | "min", formula numbers)
Formula = tuple[str, "int | frozenset[int]"]


class Lattice:
    """Formulas over the arguments of a ``Maxima`` table, interned; pure maxima and minima stay sets of arguments."""

    def __init__(self, forms: Forms, maxima: Maxima) -> None:
        self.forms = forms
        self.maxima = maxima
        self._formulas: list[Formula] = []
        self._ids: dict[Formula, int] = {}
        self._pure: list[dict[str, frozenset[int]]] = []  # per formula: the set it is the max (min) of, if it is pure
        self._values: dict[int, Poly] = {}

    def argument(self, poly: Poly) -> int:
        """The formula of one argument in canonical form."""
        number = self.maxima.intern(poly)
        members = frozenset((number,))
        return self._intern(("gen", number), {"max": members, "min": members})

    def join(self, name: str, parts: list[int]) -> int:
        """The formula of the max or min (``name``) of formulas."""
        pure = [self._pure[f].get(name) for f in parts]
        if all(p is not None for p in pure):
            members: frozenset[int] = frozenset().union(*(p for p in pure if p is not None))
            formula: Formula = (name, frozenset(members))
            if len(members) == 1:
                return self._intern(("gen", next(iter(members))), {"max": members, "min": members})
            return self._intern(("pure " + name, formula[1]), {name: members})
        children: set[int] = set()
        for f in parts:
            kind, inner = self._formulas[f]
            children.update(inner if kind == name and isinstance(inner, frozenset) else (f,))
        if len(children) == 1:
            return children.pop()
        return self._intern((name, frozenset(children)), {})

    def _intern(self, formula: Formula, pure: dict[str, frozenset[int]]) -> int:
        found = self._ids.get(formula)
        if found is None:
            found = self._ids[formula] = len(self._formulas)
            self._formulas.append(formula)
            self._pure.append(pure)
        return found

    def value(self, formula: int) -> Poly:
        """The normal form of a formula."""
        found = self._values.get(formula)
        if found is None:
            found = self._values[formula] = self._build(formula)
        return found

    def _build(self, formula: int) -> Poly:
        pure = self._pure[formula]
        if "max" in pure:
            return self.maxima.of(pure["max"])
        if "min" in pure:
            return self._minimum(pure["min"])
        members = sorted(self._arguments(formula))
        if len(members) > _MAX_ARGUMENTS:
            return self._nested(formula)
        return self._by_table(formula, members)

    def _minimum(self, members: frozenset[int]) -> Poly:
        negated = frozenset(self.maxima.intern(_negate(self.maxima.value(m))) for m in members)
        return _negate(self.maxima.of(negated))

    def _arguments(self, formula: int) -> set[int]:
        members: set[int] = set()
        seen, stack = {formula}, [formula]
        while stack:
            f = stack.pop()
            pure = self._pure[f]
            if pure:
                members |= next(iter(pure.values()))
                continue
            inner = self._formulas[f][1]
            assert isinstance(inner, frozenset)
            fresh = inner - seen
            seen |= fresh
            stack.extend(fresh)
        return members

    def _nested(self, formula: int) -> Poly:
        """Too many arguments for a table: the max (min) of its parts, each an atom of its own."""
        name, inner = self._formulas[formula]
        assert isinstance(inner, frozenset)
        members = frozenset(self.maxima.intern(self.forms.argument(self.value(f))) for f in sorted(inner))
        return self.maxima.of(members) if name == "max" else self._minimum(members)

    # --- truth tables ---------------------------------------------------------------------------

    def _by_table(self, formula: int, members: list[int]) -> Poly:
        ring = self.forms.ring
        scaled, shift, coef, unit = self.maxima.normalised(members)
        ordered = sorted(scaled)
        columns = _columns(len(ordered))
        place = {m: i for i, m in enumerate(ordered)}
        below = self._order(ordered)
        allowed = (1 << (1 << len(ordered))) - 1
        for i, j in below:
            allowed &= ~(columns[i] & ~columns[j])
        table = self._evaluate(formula, {m: columns[place[s]] for m, s in zip(members, scaled)}) & allowed
        inner = self._of_table(table, allowed, ordered, columns, below)
        result = dict(shift)
        add_into(result, ring.times_term(inner, unit, coef))
        return result

    def _of_table(self, table: int, allowed: int, members: list[int], columns: list[int], below: list[tuple[int, int]]) -> Poly:
        used = [i for i in range(len(members)) if self._matters(table, allowed, i)]
        for name in ("max", "min"):
            if _combine(name, [columns[i] for i in used], allowed) == table:
                chosen = frozenset(members[i] for i in used)
                return self.maxima.of(chosen) if name == "max" else self._minimum(chosen)
        short = _restrict(table, len(members), used, below)
        values = tuple(self.maxima.value(members[i]) for i in used)
        sign = Sign.NONNEGATIVE if all(is_nonnegative(self.forms, v) for v in values) else Sign.UNKNOWN
        key = ("lattice", tuple(members[i] for i in used), short)
        return {self.forms.ring.atom_term(self.forms.ring.atom(key, Atom(Kind.LATTICE, sign, args=values, table=short))): 1}

    def _evaluate(self, formula: int, assignment: dict[int, int]) -> int:
        done: dict[int, int] = {}
        stack = [formula]
        while stack:
            f = stack[-1]
            if f in done:
                stack.pop()
                continue
            pure = self._pure[f]
            if pure:
                name, members = next(iter(pure.items()))
                done[f] = _combine(name, [assignment[m] for m in members])
                continue
            name, inner = self._formulas[f]
            assert isinstance(inner, frozenset)
            missing = [g for g in inner if g not in done]
            if missing:
                stack.extend(missing)
                continue
            self.forms.meter.spend(len(inner) * max(1, len(assignment) ** 2 // 16))
            done[f] = _combine(name, [done[g] for g in inner])
        return done[formula]

    def _order(self, members: list[int]) -> list[tuple[int, int]]:
        """Pairs of places (i, j) with argument i shown to be at most argument j, transitively closed."""
        if len(members) > _MAX_ORDERED:
            return []
        values = [self.maxima.value(m) for m in members]
        add, places = self.forms.add, range(len(members))
        below = {(i, j) for i in places for j in places if i != j and is_nonnegative(self.forms, add(values[j], values[i], -1))}
        for k in places:  # transitive closure: what is shown termwise need not be transitive
            below |= {(i, j) for i in places for j in places if i != j and (i, k) in below and (k, j) in below}
        return sorted(below)

    def _matters(self, table: int, allowed: int, i: int) -> bool:
        """Whether the value depends on argument i among the allowed assignments."""
        step = 1 << i
        both = allowed & (allowed >> step) & _low_half(i, allowed.bit_length())
        return bool((table ^ (table >> step)) & both)


def _negate(poly: Poly) -> Poly:
    return {t: -c for t, c in poly.items()}


def _columns(count: int) -> list[int]:
    """Column i has bit a set where assignment a gives argument i the value 1."""
    total = 1 << count
    columns = []
    for i in range(count):
        block = ((1 << (1 << i)) - 1) << (1 << i)
        width = 2 << i
        while width < total:
            block |= block << width
            width *= 2
        columns.append(block)
    return columns


def _low_half(i: int, bits: int) -> int:
    """Assignments below ``bits`` in which argument i is 0."""
    block, width = (1 << (1 << i)) - 1, 2 << i
    while width < bits:
        block |= block << width
        width *= 2
    return block


def _combine(name: str, tables: list[int], allowed: int = -1) -> int:
    result = 0 if name == "max" else -1
    for table in tables:
        result = result | table if name == "max" else result & table
    return result & allowed


def _restrict(table: int, total: int, used: list[int], below: list[tuple[int, int]]) -> int:
    """The table over the arguments at ``used`` only. The others, on which it does not depend, take the least values that
    the order allows: 1 only where a used argument below them is 1."""
    if len(used) == total:
        return table
    short = 0
    for a in range(1 << len(used)):
        true = {place for bit, place in enumerate(used) if a >> bit & 1}
        forced = {j for i, j in below if i in true and j not in used}
        short |= (table >> sum(1 << place for place in true | forced) & 1) << a
    return short
