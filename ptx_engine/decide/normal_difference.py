"""Normal forms as values for explanations: monomials over the inputs of one member of a class, what is missing and extra."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gmpy2 import mpq

from ptx_engine.decide.normal_ring import ONE_TERM, UNDECIDED_KINDS, Atom, Kind, Poly, Ring
from ptx_engine.decide.walk import Template
from ptx_engine.terms.arena import Arena

#: how an input id is shown
NameOf = Callable[[int], str]
_SHOWN_TERMS = 6
_SHOWN_DEPTH = 4


@dataclass(frozen=True)
class Monomial:
    """One term of a normal form; ``nodes`` are the template variables it mentions, with powers at top level."""

    ring: Ring
    template: Template
    arena: Arena
    term: int
    coefficient: mpq

    def inputs(self, member: int) -> tuple[int, ...]:
        """The input ids the term mentions (anywhere), for one member of the class (a position in it)."""
        nodes = sorted(variables(self.ring, {self.term: 1}))
        ids = (self.template.columns.id_at(node, member) for node in nodes)
        return tuple(i for i in ids if i < 0)

    def text(self, member: int, name_of: NameOf | None = None) -> str:
        """The term in words of that member's inputs: ``-1/2*A[3]*exp2(B[4])``."""
        shown = Printer(self, member, name_of or _input_name(self.arena))
        return shown.product(self.term, self.coefficient, 0)


@dataclass(frozen=True)
class NormalForm:
    """One side's normal form: a sum of monomials over the template's variables."""

    monomials: tuple[Monomial, ...]

    def text(self, member: int, name_of: NameOf | None = None, limit: int = _SHOWN_TERMS) -> str:
        """The sum, at most ``limit`` terms of it."""
        parts = [m.text(member, name_of) for m in self.monomials[:limit]]
        more = len(self.monomials) - limit
        return (" + ".join(parts) or "0") + (f" + ... ({more} more terms)" if more > 0 else "")


@dataclass(frozen=True)
class Difference:
    """``missing`` stand only in the reference, ``extra`` only in the candidate; ``changed`` on both sides (reference,
    candidate) with different coefficients. Rational forms are compared term by term, denominators as factors."""

    missing: tuple[Monomial, ...]
    extra: tuple[Monomial, ...]
    changed: tuple[tuple[Monomial, Monomial], ...]
    reference_terms: int
    candidate_terms: int
    #: no maxima, conditions or opaque functions are involved: unequal forms mean unequal functions
    decidable: bool


class Former:
    """Wraps polynomials of one template."""

    def __init__(self, arena: Arena, template: Template, ring: Ring) -> None:
        self._arena, self._template, self._ring = arena, template, ring

    def _wrap(self, term: int, coef: object) -> Monomial:
        return Monomial(self._ring, self._template, self._arena, term, mpq(coef))

    def form(self, poly: Poly) -> NormalForm:
        """The normal form of an expanded polynomial, terms in order of their ids."""
        return NormalForm(tuple(self._wrap(t, poly[t]) for t in sorted(poly)))

    def difference(self, reference: Poly, candidate: Poly) -> Difference:
        """Terms that only one side has, or that both have with different coefficients."""
        missing = [t for t in sorted(reference) if t not in candidate]
        extra = [t for t in sorted(candidate) if t not in reference]
        changed = [t for t in sorted(reference) if t in candidate and candidate[t] != reference[t]]
        differing = dict.fromkeys(missing + extra + changed, 1)
        return Difference(
            tuple(self._wrap(t, reference[t]) for t in missing),
            tuple(self._wrap(t, candidate[t]) for t in extra),
            tuple((self._wrap(t, reference[t]), self._wrap(t, candidate[t])) for t in changed),
            len(reference),
            len(candidate),
            decidable(self._ring, differing),
        )


def reachable(ring: Ring, poly: Poly) -> set[int]:
    """All atoms a polynomial mentions, in exponents, definitions and arguments too."""
    atoms: set[int] = set()
    seen: set[int] = set()
    stack: list[int] = list(poly)
    while stack:
        t = stack.pop()
        if t in seen:
            continue
        seen.add(t)
        stack.extend(ring.exps[ring.exponent[t]])
        for a, _ in ring.powers[t]:
            if a not in atoms:
                atoms.add(a)
                atom = ring.atoms[a]
                for inner in (atom.definition or {}, *atom.args):
                    stack.extend(inner)
    return atoms


def keeps_roots(ring: Ring, poly: Poly, other: Poly) -> bool:
    """Whether another spelling of a value has all its roots of what may be negative. Where they are lost (sqrt(x)^2 + 1 is x + 1), what is
    shown of the value's sign holds of the new spelling only where the roots have a value."""
    return not ring.partial or (reachable(ring, poly) & ring.partial) <= reachable(ring, other)


#: functions that are analytic where they are defined
_ANALYTIC = frozenset({"log2", "tanh", "sin", "cos", "erf", "pow"})


def vanishes_on_points_only(ring: Ring, number: int) -> bool:
    """Whether an atom is shown to be an analytic function of real inputs, so that it vanishes on a set without interior (x / x is
    1 but for x = 0). A maximum, a condition or a rounded value may be zero on whole intervals (max(x, 0)), and an integer is zero
    at one value out of few."""
    for a in {number, *reachable(ring, {ring.atom_term(number): 1})}:
        atom = ring.atoms[a]
        if atom.integer or atom.frozen or atom.kind in (Kind.MAXIMUM, Kind.LATTICE, Kind.INDICATOR):
            return False
        if atom.kind is Kind.FUNCTION and atom.name not in _ANALYTIC:
            return False
    return True


def variables(ring: Ring, poly: Poly) -> set[int]:
    """The template nodes of the variables a polynomial mentions."""
    return {ring.atoms[a].node for a in reachable(ring, poly) if ring.atoms[a].kind is Kind.VAR}


def decidable(ring: Ring, poly: Poly) -> bool:
    """Whether unequal forms mean unequal functions: polynomials, quotients and exponentials only, none abbreviated."""
    for a in reachable(ring, poly):
        atom = ring.atoms[a]
        if atom.kind in UNDECIDED_KINDS or atom.frozen:
            return False
    return True


def _input_name(arena: Arena) -> NameOf:
    def name(ident: int) -> str:
        entry, index = arena.input_of(ident)
        return f"{entry.name}[{index}]"

    return name


class Printer:
    """Prints terms for one member of a class; deep or long inner sums are cut short."""

    def __init__(self, monomial: Monomial, member: int, name_of: NameOf) -> None:
        self._ring, self._template, self._arena = monomial.ring, monomial.template, monomial.arena
        self._member = member
        self._name_of = name_of

    def product(self, term: int, coef: mpq, depth: int) -> str:
        """coefficient * atoms * exp2(...)."""
        factors = [self._atom(self._ring.atoms[a], depth) + (f"^{k}" if k != 1 else "") for a, k in self._ring.powers[term]]
        h = self._ring.exps[self._ring.exponent[term]]
        if h:
            factors.append(f"exp2({self.sum(h, depth + 1)})")
        if coef == -1 and factors:
            return "-" + "*".join(factors)
        if coef != 1 or not factors:
            factors.insert(0, str(coef))
        return "*".join(factors)

    def sum(self, poly: Poly, depth: int) -> str:
        """A sum, cut after a few terms."""
        if depth > _SHOWN_DEPTH:
            return "..."
        terms = sorted(poly, key=lambda t: (t == ONE_TERM, t))
        parts = [self.product(t, mpq(poly[t]), depth) for t in terms[:_SHOWN_TERMS]]
        return " + ".join(parts) + (" + ..." if len(terms) > _SHOWN_TERMS else "")

    def _atom(self, atom: Atom, depth: int) -> str:
        if atom.kind is Kind.VAR:
            ident = self._template.columns.id_at(atom.node, self._member)
            return self._name_of(ident) if ident < 0 else self._constant(ident)
        if atom.kind is Kind.CONSTANT:
            return atom.name
        if atom.kind is Kind.INDICATOR:
            return f"[{self.sum(atom.definition or {}, depth + 1)} {'> 0' if atom.name == 'positive' else '== 0'}]"
        if atom.definition is not None:
            inner = self.sum(atom.definition, depth + 1)
            return f"sqrt({inner})" if atom.kind is Kind.ROOT else f"({inner})"
        name = {Kind.MAXIMUM: "max", Kind.LATTICE: "maxmin"}.get(atom.kind, atom.name)
        shown = [self.sum(v, depth + 1) for v in atom.args[:_SHOWN_TERMS]]
        return f"{name}({', '.join(shown + ['...'] * (len(atom.args) > _SHOWN_TERMS))})"

    def _constant(self, ident: int) -> str:
        op, index, _, _ = self._arena.node(ident)
        del op
        return str(self._arena.consts[index])
