"""The proof of one template: a cheap attempt with large inner polynomials as atoms, then the full normal form."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ptx_engine.decide.budget import BudgetSpent, Meter, Undecided
from ptx_engine.decide.canonical import Canonical
from ptx_engine.decide.cuts import CutView, end_of_inputs
from ptx_engine.decide.moments import equal_quadratics
from ptx_engine.decide.names import storage_names
from ptx_engine.decide.normal_assumed import positive_variables
from ptx_engine.decide.normal_cases import equal_by_cases
from ptx_engine.decide.normal_difference import Difference, Former, NormalForm, decidable, reachable
from ptx_engine.decide.normal_domain import below, compared_domains
from ptx_engine.decide.normal_forms import SMALL_SUM, Forms
from ptx_engine.decide.normal_ring import UNDECIDED_KINDS, Poly, Sign
from ptx_engine.decide.normal_value import Evaluator, Leaf, operands
from ptx_engine.decide.term_view import TermView
from ptx_engine.decide.walk import CONSTANTS, INPUT, Template
from ptx_engine.terms.arena import Arena
from ptx_engine.terms.ops import Op

#: how a reason names the inputs of which it is enough that they are positive
EQUAL_WHERE = "equal where "
#: term operations that a cheap attempt may take
_CANONICAL_TERMS = 2_000_000


@dataclass
class Proof:
    """``outcome`` is "equal", "different" or "unknown"."""

    outcome: str
    reason: str = ""
    reference: NormalForm | None = None
    candidate: NormalForm | None = None
    difference: Difference | None = None
    assumptions: tuple[str, ...] = ()
    #: how the candidate is undefined on more than the reference, as far as shown; "" if it is not
    narrower: str = ""


def prove_template(
    arena: Arena,
    template: Template,
    pairs: list[tuple[int, int]],
    meter: Meter,
    canonical: Canonical | None = None,
    partial_cuts: bool = True,
) -> list[Proof]:
    """One proof for each pair of roots (indices into ``template.roots``): reference and candidate.

    ``canonical`` spares the first attempt the sums that both sides have in one canonical form. ``partial_cuts`` says that cuts
    (inputs beyond the arena's) may stand for terms that are undefined somewhere.
    """
    if template.generalised and selects_constants(template):
        return [Proof("unknown", "constants that are selected are told apart first")] * len(pairs)
    proofs: dict[int, Proof] = {}
    leaves = leaves_of(arena, template, partial_cuts)
    for freeze in (True, False):
        shared = shared_sums(canonical, template, pairs) if canonical is not None and freeze else {}
        attempt = _Attempt(arena, template, leaves, meter, freeze, shared)
        for number, (i, j) in enumerate(pairs):
            if number not in proofs or not _settled(proofs[number]):
                proofs[number] = attempt.prove(template.roots[i], template.roots[j])
        if not attempt.forms.has_frozen or all(map(_settled, proofs.values())):
            break
    return [proofs[number] for number in range(len(pairs))]


def _settled(proof: Proof) -> bool:
    """Whether a proof says all that was asked: of what is not looked into, little is known about where it vanishes."""
    return proof.outcome == "equal" and not proof.narrower


def selects_constants(template: Template) -> bool:
    """Whether a selection yields a variable that stands for several constants: positions of maxima are such, and their order
    matters."""
    selected = {n for op, args in zip(template.ops, template.args) if op == Op.ITE for n in args[1:3]}
    variables = [n for n in selected if template.ops[n] == INPUT]
    mixed = bool(variables) and bool((template.columns.bounds(variables)[1] >= 0).any())
    return mixed or any(template.ops[n] == CONSTANTS for n in selected)


def canonical_forms(arena: TermView, template: Template, meter: Meter) -> Canonical | None:
    """The canonical forms of a template; none where it holds opaque operations, which the full proof has to name, or where sums
    that hold sums that hold sums make them too large."""
    if Op.OPAQUE in template.ops:
        return None
    try:
        with meter.at_most(_CANONICAL_TERMS):
            return Canonical(arena, template, meter, hidden=hidden_cuts(arena, template))
    except BudgetSpent:
        meter.resume()
        return None


def moment_proofs(arena: TermView, template: Template, pairs: list[tuple[int, int]], meter: Meter) -> dict[int, Proof]:
    """The pairs whose sides have one canonical form when equal means and variances are variables."""
    if Op.OPAQUE in template.ops:
        return {}
    try:
        with meter.at_most(_CANONICAL_TERMS):
            hidden = hidden_cuts(arena, template)
            merged = equal_quadratics(arena, template, meter, hidden)
            return canonical_proofs(Canonical(arena, template, meter, merged, hidden), template, pairs) if merged else {}
    except BudgetSpent:
        meter.resume()
        return {}


def hidden_cuts(arena: TermView, template: Template) -> frozenset[int]:
    """The variables that may stand for terms that are undefined somewhere: where one vanishes, so does that."""
    if not isinstance(arena, CutView) or not arena.partial:
        return frozenset()
    nodes = [node for node, op in enumerate(template.ops) if op == INPUT]
    if not nodes:
        return frozenset()
    low, _ = template.columns.bounds(nodes)
    return frozenset(node for node, lowest in zip(nodes, low.tolist()) if lowest <= arena.end)


def canonical_proofs(canonical: Canonical | None, template: Template, pairs: list[tuple[int, int]]) -> dict[int, Proof]:
    """The pairs whose sides have one canonical form."""
    if canonical is None:
        return {}
    return {number: Proof("equal") for number, (i, j) in enumerate(pairs) if canonical.equal(template.roots[i], template.roots[j])}


def shared_sums(canonical: Canonical, template: Template, pairs: list[tuple[int, int]]) -> dict[int, int]:
    """Nodes whose canonical form is a long sum without exponentials that both sides hold: node -> form. One variable may
    stand for all nodes of a form."""
    sides = [_forms_below(canonical, template, {template.roots[pair[side]] for pair in pairs}) for side in (0, 1)]
    common = sides[0].keys() & sides[1].keys()
    long = {f for f in common if len(canonical.forms[f]) > SMALL_SUM and not any(canonical.monomials[m][0] for m in canonical.forms[f])}
    return {node: f for f in long for side in sides for node in side[f]}


def _forms_below(canonical: Canonical, template: Template, roots: set[int]) -> dict[int, list[int]]:
    """Per canonical form the nodes below some roots that have it, the roots left out."""
    found: dict[int, list[int]] = {}
    seen, stack = set(roots), list(roots)
    while stack:
        node = stack.pop()
        if canonical.of[node] >= 0 and node not in roots:
            found.setdefault(canonical.of[node], []).append(node)
        for child in operands(template, node):
            if child not in seen:
                seen.add(child)
                stack.append(child)
    return found


class _Attempt:
    def __init__(
        self, arena: Arena, template: Template, leaves: dict[int, Leaf], meter: Meter, freeze: bool, shared: dict[int, int]
    ) -> None:
        self.arena = arena
        self.template = template
        self.leaves = leaves
        self.forms = Forms(meter, freeze)
        self.evaluator = Evaluator(arena, template, leaves, self.forms, shared)
        self.evaluator.run(template.roots)
        self.former = Former(arena, template, self.forms.ring)

    def prove(self, reference: int, candidate: int) -> Proof:
        """The proof for two roots."""
        if reference == candidate:
            return Proof("equal")
        try:
            if self.evaluator.rescaling.hindered:
                return Proof("unknown", "sums in exponents are looked into first")
            left, right = self.evaluator.value(reference), self.evaluator.value(candidate)
            remainder = remainder_of(self.evaluator, left, right)
            if not remainder or self._equal_by_cases(reference, candidate, remainder):
                return equal_proof(self.evaluator, reference, candidate)
            proof = self._unequal(left, right, remainder)
            if proof.outcome == "unknown":
                proof.reason += self._if_positive(reference, candidate)
            return proof
        except Undecided as reason:
            return Proof("unknown", str(reason))

    def _if_positive(self, reference: int, candidate: int) -> str:
        """What is said of sides that are equal where some variables are positive."""
        if self.forms.freeze and self.forms.has_frozen:
            return ""
        template = self.template
        found = positive_variables(self.arena, template, self.leaves, (reference, candidate), self.forms.meter, remainder_of)
        name_of = storage_names(self.arena)
        names = [name_of(ident) for node in found if (ident := template.columns.id_at(node, 0)) < 0]
        return f"; {EQUAL_WHERE}{' and '.join(names)} {'is' if len(names) == 1 else 'are'} positive" if names else ""

    def _equal_by_cases(self, reference: int, candidate: int, remainder: Poly) -> bool:
        if self.forms.freeze and self.forms.has_frozen:
            return False  # the full attempt comes first

        def remainder_in_case() -> Poly:
            evaluator = Evaluator(self.arena, self.template, self.leaves, self.forms)
            evaluator.run((reference, candidate))
            return remainder_of(evaluator, evaluator.value(reference), evaluator.value(candidate))

        return equal_by_cases(self.forms, remainder, remainder_in_case, len(self.template.ops), not self.template.generalised)

    def _unequal(self, left: Poly, right: Poly, remainder: Poly) -> Proof:
        ring = self.forms.ring
        expander = self.forms.expander
        first, second = expander.expand(left), expander.expand(right)
        proof = Proof("different", "", self.former.form(first), self.former.form(second), self.former.difference(first, second))
        if not decidable(ring, remainder):
            atoms = [ring.atoms[a] for a in reachable(ring, remainder)]
            kinds = sorted({a.name or a.kind.value for a in atoms if a.kind in UNDECIDED_KINDS})
            proof.outcome, proof.reason = "unknown", "normal forms differ, which does not decide over: " + ", ".join(kinds)
        return proof


def equal_proof(evaluator: Evaluator, reference: int, candidate: int) -> Proof:
    """The proof of two equal sides: where they are defined, and what is taken as it is."""
    domains = compared_domains(evaluator, reference, candidate)
    opaque = [f"opaque operation {name} is a function of its arguments" for name in _opaque(evaluator, reference, candidate)]
    return Proof("equal", assumptions=tuple(sorted({*opaque, *domains.lines})), narrower=domains.narrower)


def _opaque(evaluator: Evaluator, reference: int, candidate: int) -> set[str]:
    opaque = evaluator.opaque
    if not opaque:
        return set()
    return {opaque[n] for root in (reference, candidate) for n in below(evaluator, root) if n in opaque}


def remainder_of(evaluator: Evaluator, left: Poly, right: Poly) -> Poly:
    """What is left of the difference of two forms, wraps written out if need be: empty if they are equal."""
    forms = evaluator.forms
    remainder = forms.expander.remainder(forms.add(right, left, -1))
    opened = evaluator.integers.opened(remainder) if remainder else remainder
    return forms.expander.remainder(opened) if opened is not remainder else remainder


def leaves_of(arena: Arena, template: Template, partial_cuts: bool) -> dict[int, Leaf]:
    """What is known of the variables of a template."""
    cut = Leaf(Sign.UNKNOWN, False, None, None, partial_cuts)
    leaves: dict[int, Leaf] = {}
    formats = [_leaf_of_format(entry.fmt) for entry in arena.inputs]
    bases = np.array([entry.base for entry in arena.inputs], np.int64)
    nodes = [node for node, op in enumerate(template.ops) if op == INPUT]
    if nodes:
        low, high = template.columns.bounds(nodes)
        end = end_of_inputs(arena)
        first, last = (np.searchsorted(bases, -1 - ids, side="right") - 1 for ids in (high, low))
        inputs_only = (low > end) & (high < 0)  # neither constants among them nor leaves beyond all inputs
        for node, i, j, plain in zip(nodes, first.tolist(), last.tolist(), inputs_only.tolist()):
            known = plain and all(formats[n] == formats[i] for n in range(i + 1, j + 1))
            leaves[node] = formats[i] if known else _UNKNOWN
        for node, lowest in zip(nodes, low.tolist()):
            if lowest <= end:
                leaves[node] = cut
    for node, op in enumerate(template.ops):
        if op == CONSTANTS:
            leaves[node] = _leaf_of_constants(arena, template.columns.blocks(node))
    return leaves


_UNKNOWN = Leaf(Sign.UNKNOWN, False, None, None)


def _leaf_of_format(fmt: str) -> Leaf:
    if fmt == "pred":
        return Leaf(Sign.NONNEGATIVE, True, 0, 1)
    if fmt[:1] not in ("s", "u", "i") or not fmt[1:].isdigit():
        return _UNKNOWN
    bits = int(fmt[1:])
    if fmt[0] == "u":
        return Leaf(Sign.NONNEGATIVE, True, 0, (1 << bits) - 1)
    return Leaf(Sign.UNKNOWN, True, -(1 << bits - 1), (1 << bits - 1) - 1)


def _leaf_of_constants(arena: Arena, ids: np.ndarray) -> Leaf:
    index = arena.columns()[1][ids]
    consts = [arena.consts[i] for i in np.unique(index).tolist()]
    integer = all(c.is_rational and c.coef.denominator == 1 for c in consts)
    sign = Sign.POSITIVE if all(c.coef > 0 for c in consts) else Sign.UNKNOWN
    return Leaf(sign, integer, None, None)
