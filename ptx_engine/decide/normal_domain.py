"""Where the two sides of a template have values: the conditions of their roots, logarithms, powers and quotients, compared.

A proof holds where both sides are defined. Every condition carries the selections that guard it (a root in a branch that is
not taken is not needed), as a disjunction of sets of 0/1 normal forms. Conditions are compared as normal forms: equal ones
restrict both sides alike. What only one side needs is named in the ledger; if the candidate needs it and it fails on more
than isolated points, the candidate is defined on less than the reference, as far as shown.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from ptx_engine.decide.normal_difference import vanishes_on_points_only
from ptx_engine.decide.normal_forms import Forms
from ptx_engine.decide.normal_functions import DENOMINATOR
from ptx_engine.decide.normal_order import positive, zero
from ptx_engine.decide.normal_ring import ONE_TERM, Poly, PolyKey
from ptx_engine.decide.normal_value import Condition, Evaluator
from ptx_engine.decide.walk import postorder
from ptx_engine.terms.ops import Op

#: a disjunction of conjunctions of 0/1 values under which a node is needed
Guards = frozenset[frozenset[object]]
_TRUE: PolyKey = frozenset({(ONE_TERM, 1)})
_FALSE: PolyKey = frozenset()
_ALWAYS: Guards = frozenset((frozenset(),))
#: alternatives that a disjunction may have before it is taken for one like no other
_ALTERNATIVES = 8


@dataclass(frozen=True)
class Domains:
    """``lines`` for the ledger; ``narrower`` says that the candidate is undefined on more than isolated points of the
    reference's domain, as far as shown ("" if not)."""

    lines: tuple[str, ...] = ()
    narrower: str = ""


def compared_domains(evaluator: Evaluator, reference: int, candidate: int) -> Domains:
    """The side conditions that only one of two roots has."""
    if not evaluator.conditions:
        return Domains()
    if not evaluator.selects and evaluator.needs(reference) == evaluator.needs(candidate):
        return Domains()  # without selections a condition is needed always or never: both sides need the same ones
    mine, theirs = _Needs(evaluator, reference).conditions(), _Needs(evaluator, candidate).conditions()
    missing = {c for c, guards in mine.items() if not _covered(guards, theirs.get(c))}
    extra = {c for c, guards in theirs.items() if not _covered(guards, mine.get(c))}
    lines = []
    for what in {what for what, _ in missing | extra}:
        sides = [name for name, found in (("reference", missing), ("candidate", extra)) if any(w == what for w, _ in found)]
        lines.append(what + (f" (only in the {sides[0]})" if len(sides) == 1 else ""))
    inner = {c for c in extra if c[0] != DENOMINATOR or not _harmless(evaluator.forms, c[1], theirs[c])}
    interior = sorted({_NONZERO if what == DENOMINATOR else what for what, _ in inner})
    return Domains(tuple(sorted(lines)), f"the candidate needs {', '.join(interior)}" if interior else "")


_NONZERO = "denominators that are not zero"


def _harmless(forms: Forms, denominator: Hashable, guards: Guards) -> bool:
    """Whether an atom vanishes on isolated points at most, or is only divided by where it is compared with zero before."""
    if not isinstance(denominator, int):
        return False
    if vanishes_on_points_only(forms.ring, denominator):
        return True
    value: Poly = {forms.ring.atom_term(denominator): 1}
    negative: Poly = {forms.ring.atom_term(denominator): -1}
    unequal = forms.add({ONE_TERM: 1}, zero(forms, value), -1)
    apart = {forms.key(condition) for condition in (positive(forms, value), positive(forms, negative), unequal)}
    return all(not apart.isdisjoint(guard) for guard in guards)


def _covered(guards: Guards, other: Guards | None) -> bool:
    """Whether a condition needed under ``guards`` is one that the other side needs there too."""
    return other is not None and other in (guards, _ALWAYS)


def below(evaluator: Evaluator, root: int) -> list[int]:
    """The nodes of a root's term that have been evaluated, every operand before all its users."""
    return postorder(len(evaluator.template.ops), (root,), evaluator.operands)


class _Needs:
    """What one root needs, and under which selections."""

    def __init__(self, evaluator: Evaluator, root: int) -> None:
        self.evaluator, self.root = evaluator, root
        self._guards: dict[int, Guards] = {root: _ALWAYS}

    def conditions(self) -> dict[Condition, Guards]:
        """Every condition that is not shown to hold everywhere, with its guards."""
        found: dict[Condition, Guards] = {}
        noted, ops = self.evaluator.conditions, self.evaluator.template.ops
        for node in reversed(below(self.evaluator, self.root)):
            guards = self._guards.get(node)
            if guards is None:  # only in branches that are never taken
                continue
            for condition in noted.get(node, ()):
                if condition not in self.evaluator.shown:
                    found[condition] = self._either(found.get(condition), guards)
            args = self.evaluator.operands(node)
            branches = self._branches(args[0]) if args and ops[node] == Op.ITE else (_TRUE,) * len(args)
            for child, branch in zip(args, branches):
                if branch != _FALSE:
                    self._need(child, guards if branch == _TRUE else frozenset(g | {branch} for g in guards))
        return found

    def _need(self, node: int, guards: Guards) -> None:
        self._guards[node] = self._either(self._guards.get(node), guards)

    def _either(self, known: Guards | None, more: Guards) -> Guards:
        if known is None or known == more:
            return more
        both = known | more
        least = frozenset(g for g in both if not any(h < g for h in both))
        return least if len(least) <= _ALTERNATIVES else frozenset((frozenset((("root", self.root),)),))

    def _branches(self, node: int) -> tuple[PolyKey, PolyKey, PolyKey]:
        """Where a selection needs its condition, its first and its second value."""
        forms = self.evaluator.forms
        value = self.evaluator.condition(node)
        return _TRUE, forms.key(value), forms.key(forms.add({ONE_TERM: 1}, value, -1))
