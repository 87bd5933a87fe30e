"""Expressions in max and min over common arguments, as truth tables.

A lattice polynomial over a chain is determined by its values on {0, 1} (take the indicator of "at least c" for every c),
so two of them are equal over the reals if their truth tables are. Arguments known to be ordered (constants, a dominated
argument) only meet in assignments that respect the order. Sorting networks, top-k by compare-exchange and clamps are such.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ptx_engine.decide.normal_content import divided
from ptx_engine.decide.normal_forms import Forms
from ptx_engine.decide.normal_order import Maxima, is_nonnegative
from ptx_engine.decide.normal_ring import Atom, Coef, Kind, Poly, Sign
from ptx_engine.decide.normal_sign import integral, poly_range, poly_sign
from ptx_engine.decide.normal_tables import Range, columns, combine, joined_range, low_half, restrict, table_bounds

_MAX_ARGUMENTS = 16
_MAX_OPENED = 16  # longer arguments are not searched for maxima
_MAX_ORDERED = 12  # among more arguments no order is looked for

#: atoms that are maxima, or made of maxima and minima
ORDERED = (Kind.MAXIMUM, Kind.LATTICE)

#: a formula: ("gen", argument number), ("max" | "min", formula numbers)
Formula = tuple[str, "int | frozenset[int]"]


@dataclass(frozen=True, slots=True)
class Affine:
    """x -> shift + coef * unit * x with a positive factor."""

    forms: Forms
    shift: Poly
    coef: Coef
    unit: int

    def apply(self, poly: Poly) -> Poly:
        return self.forms.add(self.shift, self.forms.ring.times_term(poly, self.unit), self.coef)

    def invert(self, poly: Poly) -> Poly:
        return divided(self.forms.ring, self.forms.add(poly, self.shift, -1), self.coef, self.unit)


@dataclass(frozen=True, slots=True)
class Table:
    """A truth table over the arguments that matter, and the map from its value to the formula's; or a pure value."""

    members: tuple[int, ...]
    table: int
    affine: Affine
    pure: Poly | None


class Lattice:
    """Formulas over the arguments of a ``Maxima`` table, interned; pure maxima and minima stay sets of arguments."""

    def __init__(self, forms: Forms, maxima: Maxima) -> None:
        self.forms = forms
        self.maxima = maxima
        self._formulas: list[Formula] = []
        self._ids: dict[Formula, int] = {}
        self._pure: list[dict[str, frozenset[int]]] = []  # per formula: the set it is the max (min) of, if it is pure
        self._values: dict[int, Poly] = {}
        #: per lattice atom a formula it is the value of, and the map from the formula's arguments to the atom's
        self._sources: dict[int, tuple[int, Affine]] = {}

    def argument(self, poly: Poly) -> int:
        """The formula of one argument in canonical form; an affine function of a maximum is the max or min of the affine
        functions of its arguments: c + s*max(a, b) = max(c + s*a, c + s*b) for s > 0, the min for s < 0."""
        term = self._inner(poly)
        if term is None:
            return self._generator(poly)
        ring = self.forms.ring
        atom = next(a for a, k in ring.powers[term] if ring.atoms[a].kind in ORDERED)
        rest = {t: c for t, c in poly.items() if t != term}
        unit, coef = ring.mul(term, ring.atom_term(atom, -1)), poly[term]
        self.forms.meter.spend(len(ring.atoms[atom].args))
        return self._mapped(atom, lambda value: self.forms.add(rest, ring.times_term(value, unit), coef), coef < 0)

    def _generator(self, poly: Poly) -> int:
        number = self.maxima.intern(poly)
        members = frozenset((number,))
        return self._intern(("gen", number), {"max": members, "min": members})

    def _inner(self, poly: Poly) -> int | None:
        """The term of an argument that is a positive unit times a maximum, if the arguments it opens into are few."""
        if len(poly) > _MAX_OPENED:
            return None
        ring = self.forms.ring
        found, atom, opened = None, -1, 1
        for t, c in poly.items():
            ordered = [a for a, _ in ring.powers[t] if ring.atoms[a].kind in ORDERED]
            if not ordered:
                continue
            others = (ring.atoms[a].sign is Sign.POSITIVE or k % 2 == 0 for a, k in ring.powers[t] if a != ordered[0])
            if len(ordered) > 1 or (ordered[0], 1) not in ring.powers[t] or not all(others):
                continue
            if ring.atoms[ordered[0]].kind is Kind.LATTICE and ordered[0] not in self._sources:
                continue
            size = len(ring.atoms[ordered[0]].args)
            plain = (c > 0 or len(poly) == 1) and ring.atoms[ordered[0]].kind is Kind.MAXIMUM and found is None
            opened *= 1 if plain and len(poly) <= 2 else size
            found, atom = t, ordered[0]
        if found is None or opened > _MAX_ARGUMENTS:
            return None
        # over a common denominator a clamp stands in every term of the denominator: one opened leaves the others, whose opening brings the
        # next power of it, without end
        return found if all(t == found or all(a != atom for a, _ in ring.powers[t]) for t in poly) else None

    def _mapped(self, atom: int, affine: Callable[[Poly], Poly], reverse: bool) -> int:
        """The formula of an affine image of a maximum or lattice atom; ``reverse`` swaps max and min."""
        swap = {"max": "min", "min": "max"} if reverse else {"max": "max", "min": "min"}
        details = self.forms.ring.atoms[atom]
        if details.kind is Kind.MAXIMUM:
            return self.join(swap["max"], [self.argument(affine(v)) for v in details.args])
        formula, undo = self._sources[atom]
        done: dict[int, int] = {}
        stack = [formula]
        while stack:
            f = stack[-1]
            kind, inner = self._formulas[f]
            if f in done:
                stack.pop()
            elif isinstance(inner, int):
                done[f] = self.argument(affine(undo.invert(self.maxima.value(inner))))
            elif kind.startswith("pure "):
                done[f] = self.join(swap[kind[5:]], [self.argument(affine(undo.invert(self.maxima.value(m)))) for m in sorted(inner)])
            elif missing := [g for g in sorted(inner) if g not in done]:
                stack.extend(missing)
            else:
                done[f] = self.join(swap[kind], [done[g] for g in sorted(inner)])
        return done[formula]

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

    def members(self, formula: int, name: str) -> frozenset[int] | None:
        """The arguments that a formula is the max or min (``name``) of, if it is one."""
        return self._pure[formula].get(name)

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
        """The value by truth table: of the formula or of its dual over the negated arguments, f(a) = -dual(-a), whichever
        comes first among the two spellings."""
        plain = self._tabulate(formula, members, "max")
        if plain.pure is not None:
            return plain.pure
        negated = [self.maxima.intern(_negate(self.maxima.value(m))) for m in members]
        dual = self._tabulate(formula, negated, "min")
        if dual.pure is not None:
            return _negate(dual.pure)
        if (plain.members, plain.table) <= (dual.members, dual.table):
            return self._lattice_atom(formula, plain)
        return _negate(self._lattice_atom(self._dual(formula), dual))

    def _tabulate(self, formula: int, members: list[int], join: str) -> Table:
        """The table of a formula over ``members`` in place of its sorted arguments; ``join`` is what its max is read as."""
        scaled, shift, coef, unit = self.maxima.normalised(members)
        same = self._merged(scaled)
        ordered = sorted(set(same.values()))
        bits = columns(len(ordered))
        place = {m: i for i, m in enumerate(ordered)}
        below = self._order(ordered)
        allowed = (1 << (1 << len(ordered))) - 1
        for i, j in below:
            allowed &= ~(bits[i] & ~bits[j])
        assignment = {m: bits[place[same[s]]] for m, s in zip(sorted(self._arguments(formula)), scaled)}
        table = self._evaluate(formula, assignment, join) & allowed
        used = [i for i in range(len(ordered)) if self._matters(table, allowed, i)]
        affine = Affine(self.forms, shift, coef, unit)
        for name in ("max", "min"):
            if combine(name, [bits[i] for i in used], allowed) == table:
                chosen = frozenset(ordered[i] for i in used)
                return Table((), 0, affine, affine.apply(self.maxima.of(chosen) if name == "max" else self._minimum(chosen)))
        short = restrict(table, len(ordered), used, below)
        return Table(tuple(ordered[i] for i in used), short, affine, None)

    def _lattice_atom(self, formula: int, form: Table) -> Poly:
        values = tuple(self.maxima.value(m) for m in form.members)
        ring = self.forms.ring
        sign = Sign.UNKNOWN if any(poly_sign(ring, v) is Sign.UNKNOWN for v in values) else Sign.NONNEGATIVE
        low, high = table_bounds(form.table, [poly_range(ring, v) for v in values])
        integer = all(integral(ring, v) for v in values)
        make = Atom(Kind.LATTICE, sign, args=values, table=form.table, integer=integer, low=low, high=high)
        atom = self.forms.ring.atom(("lattice", form.members, form.table), make)
        self._sources.setdefault(atom, (formula, form.affine))
        return form.affine.apply({self.forms.ring.atom_term(atom): 1})

    def range_of(self, poly: Poly) -> Range:
        """An interval that holds a value, by the ranges of what its maxima and minima are over."""
        formula = self.argument(poly)
        done: dict[int, Range] = {}
        stack = [formula]
        while stack:
            f = stack[-1]
            kind, inner = self._formulas[f]
            if f in done:
                stack.pop()
            elif isinstance(inner, int):
                done[f] = poly_range(self.forms.ring, self.maxima.value(inner))
            elif kind.startswith("pure "):
                done[f] = joined_range(kind[5:], [poly_range(self.forms.ring, self.maxima.value(m)) for m in inner])
            elif missing := [g for g in sorted(inner) if g not in done]:
                stack.extend(missing)
            else:
                done[f] = joined_range(kind, [done[g] for g in inner])
        return done[formula]

    def image(self, poly: Poly, function: Callable[[Poly], Poly]) -> Poly | None:
        """The value of a non-decreasing function at a max-min expression: applied to the arguments. None for any other value."""
        formula = self.argument(poly)
        if self._formulas[formula][0] == "gen":
            return None
        done: dict[int, int] = {}
        stack = [formula]
        while stack:
            f = stack[-1]
            kind, inner = self._formulas[f]
            if f in done:
                stack.pop()
            elif isinstance(inner, int):
                done[f] = self.argument(function(self.maxima.value(inner)))
            elif kind.startswith("pure "):
                done[f] = self.join(kind[5:], [self.argument(function(self.maxima.value(m))) for m in sorted(inner)])
            elif missing := [g for g in sorted(inner) if g not in done]:
                stack.extend(missing)
            else:
                done[f] = self.join(kind, [done[g] for g in sorted(inner)])
        return self.value(done[formula])

    def _dual(self, formula: int) -> int:
        """The formula over the negated arguments with max and min exchanged."""
        swap = {"max": "min", "min": "max"}
        done: dict[int, int] = {}
        stack = [formula]
        while stack:
            f = stack[-1]
            kind, inner = self._formulas[f]
            if f in done:
                stack.pop()
            elif isinstance(inner, int):
                done[f] = self._generator(_negate(self.maxima.value(inner)))
            elif kind.startswith("pure "):
                done[f] = self.join(swap[kind[5:]], [self._generator(_negate(self.maxima.value(m))) for m in sorted(inner)])
            elif missing := [g for g in sorted(inner) if g not in done]:
                stack.extend(missing)
            else:
                done[f] = self.join(swap[kind], [done[g] for g in sorted(inner)])
        return done[formula]

    def _evaluate(self, formula: int, assignment: dict[int, int], join: str) -> int:
        names = {"max": join, "min": "min" if join == "max" else "max"}
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
                done[f] = combine(names[name], [assignment[m] for m in members])
                continue
            name, inner = self._formulas[f]
            assert isinstance(inner, frozenset)
            missing = [g for g in inner if g not in done]
            if missing:
                stack.extend(missing)
                continue
            self.forms.meter.spend(len(inner) * max(1, len(assignment) ** 2 // 16))
            done[f] = combine(names[name], [done[g] for g in inner])
        return done[formula]

    def _merged(self, members: list[int]) -> dict[int, int]:
        """Arguments shown to be equal by their order both ways (in a case) have one representative: the order of the
        others is then antisymmetric, and each of them can be told apart from its neighbours."""
        ordered = sorted(members)
        below = set(self._order(ordered))
        return {
            m: ordered[min([i, *(j for j in range(len(ordered)) if (i, j) in below and (j, i) in below)])] for i, m in enumerate(ordered)
        }

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
        both = allowed & (allowed >> step) & low_half(i, allowed.bit_length())
        return bool((table ^ (table >> step)) & both)


def _negate(poly: Poly) -> Poly:
    return {t: -c for t, c in poly.items()}
