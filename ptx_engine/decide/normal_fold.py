"""A zero test that keeps sums of inputs together: variances by moments, by blocks and by two passes.

Expanding (x_1 + ... + x_n)^2 costs n^2 terms. Instead the linear sums in play are cut into blocks, the coarsest sets of
inputs of which every sum holds all or none with one coefficient; a block is an indeterminate, and terms that run through
a whole block with one cofactor are folded into it. What vanishes so vanishes: a block only names its sum.
"""

from __future__ import annotations

from ptx_engine.decide.budget import Meter, Undecided
from ptx_engine.decide.normal_expand import Expander, PowerGroups
from ptx_engine.decide.normal_ring import NO_EXP, Atom, Coef, Kind, Poly, Ring, Sign, add_into

_LONG = 8  # shorter sums are multiplied out
_VERY_LONG = 24


class NotFoldable(Undecided):
    """A quotient is involved."""


class FoldingExpander(Expander):
    """Expands with the linear sums below a polynomial defined over blocks."""

    def __init__(self, ring: Ring, meter: Meter, sums: list[int]) -> None:
        super().__init__(ring, meter)
        self._block_of: dict[int, tuple[int, int]] = {}  # atom of an input -> (its block's term, the block's size)
        self._over_blocks = self._cut(sums)

    def _cut(self, sums: list[int]) -> dict[int, Poly]:
        """Definitions of the sums over blocks."""
        ring = self.ring
        membership: dict[int, list[tuple[int, Coef]]] = {}
        for a in sums:
            for t, c in (ring.atoms[a].definition or {}).items():
                membership.setdefault(t, []).append((a, c))
        blocks: dict[tuple[tuple[int, Coef], ...], list[int]] = {}
        for t, where in membership.items():
            blocks.setdefault(tuple(where), []).append(t)
        over: dict[int, Poly] = {a: {} for a in sums}
        for signature, terms in blocks.items():
            term = terms[0]
            if len(terms) > 1:
                make = Atom(Kind.FUNCTION, Sign.UNKNOWN, name="block", args=(dict.fromkeys(terms, 1),))
                term = ring.atom_term(ring.atom(("block", frozenset(terms)), make))
                self._block_of.update((ring.powers[t][0][0], (term, len(terms))) for t in terms)
            for a, c in signature:
                over[a][term] = c
        return over

    def replace(self, a: int, by_power: PowerGroups) -> Poly:
        """Sums over blocks are put in after their cofactors have been folded."""
        if min(by_power) < 0:
            raise NotFoldable("a quotient")
        definition = self._over_blocks.get(a)
        if definition is None:
            return super().replace(a, by_power)
        return self.horner({k: self.fold(group) for k, group in by_power.items()}, definition)

    def fold(self, poly: Poly) -> Poly:
        """Terms x * cofactor for all x of a block, with one coefficient, as block * cofactor."""
        ring = self.ring
        runs: dict[tuple[int, int, Coef], list[int]] = {}
        self.meter.spend(len(poly))
        for t, c in poly.items():
            inputs = [(a, k) for a, k in ring.powers[t] if a in self._block_of]
            if len(inputs) == 1 and inputs[0][1] == 1:
                cofactor = ring.mul(t, ring.atom_term(inputs[0][0], -1))
                runs.setdefault((self._block_of[inputs[0][0]][0], cofactor, c), []).append(t)
        folded = dict(poly)
        for (block, cofactor, c), terms in runs.items():
            atom = ring.powers[block][0][0]
            if len(terms) == len(ring.atoms[atom].args[0]):
                for t in terms:
                    del folded[t]
                add_into(folded, {ring.mul(block, cofactor): c})
        return folded


def vanishes_folded(ring: Ring, meter: Meter, poly: Poly) -> bool:
    """Whether a polynomial is shown to be zero without multiplying out its linear sums (False: not shown)."""
    sums = _linear_sums(ring, poly)
    if not sums:
        return False
    expander = FoldingExpander(ring, meter, sums)
    try:
        return not expander.fold(expander.expand(poly))
    except NotFoldable:
        return False


def needs_folding(ring: Ring, poly: Poly) -> bool:
    """Whether multiplying out would multiply a very long sum of inputs with something else, itself perhaps."""
    seen: set[tuple[int, bool]] = set()
    stack = [(t, False) for t in poly]
    while stack:
        t, within = stack.pop()
        product = within or sum(abs(k) for _, k in ring.powers[t]) > 1
        for a, _ in ring.powers[t]:
            atom = ring.atoms[a]
            if (a, product) in seen or atom.kind is not Kind.SUM or atom.definition is None:
                continue
            seen.add((a, product))
            if product and len(atom.definition) > _VERY_LONG and all(_is_input(ring, s) for s in atom.definition):
                return True
            stack.extend((s, product) for s in atom.definition)
    return False


def _linear_sums(ring: Ring, poly: Poly) -> list[int]:
    """The long sums of plain indeterminates that a polynomial mentions, directly or in other sums."""
    found: set[int] = set()
    seen: set[int] = set()
    stack = list(poly)
    while stack:
        for a, _ in ring.powers[stack.pop()]:
            atom = ring.atoms[a]
            if a in seen or atom.kind is not Kind.SUM or atom.definition is None:
                continue
            seen.add(a)
            if len(atom.definition) > _LONG and all(_is_input(ring, t) for t in atom.definition):
                found.add(a)
            else:
                stack.extend(atom.definition)
    return sorted(found)


def _is_input(ring: Ring, term: int) -> bool:
    powers = ring.powers[term]
    return len(powers) == 1 and powers[0][1] == 1 and ring.exponent[term] == NO_EXP and ring.atoms[powers[0][0]].kind is Kind.VAR
