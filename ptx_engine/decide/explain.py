"""Why two terms differ, for people: missing, extra and changed terms, or the smallest sub-terms at which they part.

Both sides are expanded as polynomials over inputs and opaque sub-terms; where they differ by one opaque sub-term on each
side, or have the same operator with one differing operand, the explanation goes down into it. What is equal on the way
is judged by fingerprints: an explanation describes a difference that a witness has established.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from gmpy2 import mpq

from ptx_engine.decide.culprit import World, culprits, parts
from ptx_engine.decide.field import fields
from ptx_engine.decide.fingerprint import Fingerprints
from ptx_engine.decide.levels import LEVELS, Mode, plan
from ptx_engine.decide.names import NameOf, show
from ptx_engine.decide.polynomial import LINEAR, Difference, Expansion, Monomial, TooLarge, difference, lost_factor
from ptx_engine.decide.ratio import Scale, unmatched
from ptx_engine.terms.arena import Arena
from ptx_engine.terms.ops import TABLE, Op
from ptx_engine.verdict import Explanation

#: terms spelled out in a text, and kept in the lists
_SHOWN, _KEPT = 3, 64
_MAX_DESCENT = 10_000
#: factors spelled out in a product
_FACTORS = 4


@dataclass(frozen=True)
class Explained:
    """The explanation, and points (input id -> value) at which the differing terms alone do not vanish: witness hints."""

    explanation: Explanation
    hints: list[dict[int, mpq]]


def explain(
    arena: Arena,
    reference: int,
    candidate: int,
    name_of: NameOf,
    inputs: tuple[list[int], list[int]] = ([], []),
    world: World | None = None,
) -> Explained:
    """Explain a differing pair. ``inputs``: ids that only the reference, and only the candidate, depends on; ``world``: what
    the reference computes for other outputs, so that the line to which the difference is traced can be told from those."""
    explainer = _Explainer(arena, reference, candidate, name_of, inputs)
    found = explainer.run()
    mine, theirs = culprits(arena, explainer.prints, reference, candidate, world)
    left, right = explainer.origin(mine), explainer.origin(theirs)
    explanation = replace(found.explanation, reference_origin=left, candidate_origin=right)
    if world is not None and not _wrong_data(arena, explanation, theirs, world):
        explanation = replace(explanation, missing_inputs=(), extra_inputs=())
    return replace(found, explanation=explanation)


def _wrong_data(arena: Arena, explanation: Explanation, culprit: int, world: World) -> bool:
    """Whether inputs that stand on the candidate's side only tell of a wrong load: the culprit is made of them itself, or the
    reference reads them for no output. Otherwise the data is right, and what is computed from it goes to a wrong place."""
    extra = explanation.extra_inputs
    if not extra:
        return True
    known, direct = world.known(), set(parts(arena, culprit))
    return any(ident in direct or not world.covers(ident) or not known(ident) for ident in extra)


class _Explainer:
    def __init__(self, arena: Arena, reference: int, candidate: int, name_of: NameOf, inputs: tuple[list[int], list[int]]) -> None:
        self.arena, self.name_of, self.inputs = arena, name_of, inputs
        self.pair = (reference, candidate)
        ids = np.array(self.pair, np.int32)
        self.prints = Fingerprints(arena, ids, order=plan(arena, ids, Mode.CONE))
        self._atoms: dict[tuple[int, bytes], int] = {}

    def run(self) -> Explained:
        x, y = self.pair
        for _ in range(_MAX_DESCENT):
            step = self._polynomial(x, y) if self._is_sum(x) or self._is_sum(y) else None
            if isinstance(step, Explained):
                return step
            if step is None:
                step = self._operands(x, y)
            if isinstance(step, Explained):
                return step
            if step is None:
                break
            x, y = step
        return self._parted(x, y)

    def _is_sum(self, ident: int) -> bool:
        return ident < 0 or self.arena.node(ident)[0] in LINEAR or self.arena.node(ident)[0] is Op.CONST

    # --- sums of products -----------------------------------------------------------------------

    def _atom(self, ident: int) -> int:
        """The first id met with the same fingerprint."""
        level = self._level(ident)
        values = self.prints.of(np.array([ident]), level)
        return self._atoms.setdefault((level, values.tobytes()), ident)

    def _polynomial(self, x: int, y: int) -> "Explained | tuple[int, int] | None":
        """The difference as terms; or the one pair of atoms that the sides differ by; or None where neither says anything."""
        expansion = Expansion(self.arena, self._atom)
        try:
            found = difference(expansion.expand(x), expansion.expand(y))
        except TooLarge:
            return None
        if not found.missing and not found.extra and not found.changed:
            return None
        inner = _single_atoms(found)
        if inner is not None and (x, y) != inner:
            return inner
        if inner is not None or not self._speaks(found):
            return None
        return Explained(self._terms(found, x, y), _hints(found))

    def _speaks(self, found: Difference) -> bool:
        """Terms are worth printing if the sides share some, or consist of inputs alone."""
        shared = found.reference_terms - len(found.missing)
        only_inputs = all(factor < 0 for monomial, _ in found.missing + found.extra for factor in monomial)
        return only_inputs or shared > 0

    def _terms(self, found: Difference, x: int, y: int) -> Explanation:
        missing = [self._product(m, coef) for m, coef in found.missing[:_KEPT]]
        extra = [self._product(m, coef) for m, coef in found.extra[:_KEPT]]
        parts = self._one_factor(found)
        if not parts:
            for word, terms, total, count in (
                ("missing", missing, len(found.missing), found.reference_terms), ("extra", extra, len(found.extra), found.candidate_terms),
            ):  # fmt: skip
                if terms:
                    parts.append(f"{word} {_listed(terms, total)} ({total} of {count} {_kind(found)})")
        if found.changed:
            shown = [f"{self._product(m, mpq(1))} has coefficient {b}, reference {a}" for m, a, b in found.changed[:_SHOWN]]
            parts.append(_listed(shown, len(found.changed)))
        if found.reference_terms != found.candidate_terms:
            parts.insert(0, f"sum over {found.candidate_terms} {_kind(found)}, reference has {found.reference_terms}")
        kind = "changed" if found.changed or (missing and extra) else ("missing" if missing else "extra")
        return Explanation(
            kind, "; ".join(parts), tuple(missing), tuple(extra), len(found.missing), len(found.extra),
            missing_inputs=tuple(self.inputs[0]), extra_inputs=tuple(self.inputs[1]),
        )  # fmt: skip

    def _one_factor(self, found: Difference) -> list[str]:
        """In words, where all terms that differ lack one factor, or have one too many."""
        for said, whole, rest in (("lack the factor", found.missing, found.extra), ("have a factor too many,", found.extra, found.missing)):
            factor = lost_factor(whole, rest)
            if factor:
                example = self._product(*found.missing[0])
                count = f"{len(found.missing)} of {found.reference_terms} {_kind(found)}"
                return [f"{count} {said} {self._product(factor, mpq(1))}: missing {example}"]
        return []

    def _product(self, monomial: Monomial, coef: mpq) -> str:
        factors = [self._factor(factor, count) for factor, count in _powers(monomial)]
        if not factors:
            return str(coef)
        if len(factors) > _FACTORS:  # a rescaled accumulator carries one exponential per step
            factors = [*factors[:_FACTORS], f"({len(factors) - _FACTORS} more factors)"]
        head = "" if coef == 1 else ("-" if coef == -1 else f"{coef}*")
        return head + "*".join(factors)

    def _factor(self, factor: int, count: int) -> str:
        text = self.name_of(factor) if factor < 0 else show(self.arena, factor, self.name_of)
        return text if count == 1 else f"{text}^{count}"

    # --- the same operator ----------------------------------------------------------------------

    def _operands(self, x: int, y: int) -> "Explained | tuple[int, int] | None":
        """The one differing operand pair of two equal operators; members of two maxima; None where the sides part here."""
        if x < 0 or y < 0:
            return None
        (op, *xs), (other, *ys) = self.arena.node(x), self.arena.node(y)
        if _family(op) is not None and _family(op) == _family(other):
            return self._members(x, y)
        if op is not other or TABLE[op].record or op is Op.CONST:
            return None
        row = TABLE[op]
        if any(xs["abc".index(name)] != ys["abc".index(name)] for name in row.plain):
            return None
        if op is Op.DIV:
            found = self._quotient((xs[0], ys[0]), (xs[1], ys[1]))
            if found is not None:
                return found
        left, right = xs[: row.arity], ys[: row.arity]
        differing = [(p, q) for p, q in zip(left, right) if self.prints.same(p, q) is False]
        if row.commutative and len(differing) == 2:
            swapped = [(p, q) for p, q in zip(left, reversed(right)) if self.prints.same(p, q) is False]
            differing = min(differing, swapped, key=len)
        return differing[0] if len(differing) == 1 else None

    def _quotient(self, tops: tuple[int, int], bottoms: tuple[int, int]) -> Explained | None:
        """Two quotients whose numerators and denominators agree up to one factor, but for a few terms."""
        level = self._level(bottoms[0])
        scale = Scale(fields()[level].p, self.prints.points, lambda atom: tuple(self.prints.of(np.array([atom]), level)[0].tolist()))
        parts = []
        try:
            for name, (x, y) in (("denominator", bottoms), ("numerator", tops)):
                expansion = Expansion(self.arena, self._atom)
                mine, theirs = expansion.expand(x), expansion.expand(y)
                parts.append((name, mine, theirs, scale.of(mine), scale.of(theirs)))
        except (TooLarge, KeyError):
            return None
        if all(len(mine) == len(theirs) == 1 for _, mine, theirs, _, _ in parts):
            return None  # one term against one term: any factor would fit
        factor = scale.factor(list(parts[0][3].values()), list(parts[0][4].values()))
        if factor is None:
            return None
        for name, mine, theirs, left, right in parts:
            missing, extra = unmatched(left, {m: scale.scaled(v, factor) for m, v in right.items()})
            if missing or extra:
                found = Difference([(m, mine[m]) for m in missing], [(m, theirs[m]) for m in extra], [], len(mine), len(theirs))
                x, y = bottoms if name == "denominator" else tops
                explanation = self._terms(found, x, y)
                return Explained(replace(explanation, text=f"{name}: {explanation.text}"), [])
        return None

    def _level(self, ident: int) -> int:
        """The lowest level at which an id has a value."""
        need = int(self.prints.plan.need[ident])
        return next(level for level in range(LEVELS) if need >> level & 1)

    def _members(self, x: int, y: int) -> "Explained | tuple[int, int] | None":
        """Two maxima (minima): which members only one of them has."""
        mine, theirs = ({self._atom(m): m for m in _flattened(self.arena, ident)} for ident in (x, y))
        missing = [m for atom, m in mine.items() if atom not in theirs]
        extra = [m for atom, m in theirs.items() if atom not in mine]
        if len(missing) == 1 and len(extra) == 1 and len(mine) == len(theirs):
            return missing[0], extra[0]
        if (not missing and not extra) or len(missing) == len(mine):
            return None
        symbol = TABLE[self.arena.node(x)[0]].symbol
        texts = [[show(self.arena, m, self.name_of) for m in side[:_KEPT]] for side in (missing, extra)]
        parts = [
            f"{word} {_listed(text, len(side))} ({len(side)} of {len(whole)} arguments of {symbol})"
            for word, text, side, whole in (("missing", texts[0], missing, mine), ("extra", texts[1], extra, theirs))
            if side
        ]
        kind = "changed" if missing and extra else ("missing" if missing else "extra")
        explanation = Explanation(
            kind, "; ".join(parts), tuple(texts[0]), tuple(texts[1]), len(missing), len(extra),
            missing_inputs=tuple(self.inputs[0]), extra_inputs=tuple(self.inputs[1]),
        )  # fmt: skip
        return Explained(explanation, [])

    # --- the rest -------------------------------------------------------------------------------

    def _parted(self, x: int, y: int) -> Explained:
        left, right = (show(self.arena, ident, self.name_of) for ident in (x, y))
        where = "" if (x, y) == self.pair else "the sides part at a sub-term: "
        text = f"{where}{self._undivided(x, y)}candidate {right}, reference {left}"
        explanation = Explanation(
            "diverges", text,
            missing_inputs=tuple(self.inputs[0]), extra_inputs=tuple(self.inputs[1]),
        )  # fmt: skip
        return Explained(explanation, [])

    def _undivided(self, x: int, y: int) -> str:
        """In words, where the reference is the candidate divided by something."""
        op, top, bottom, _ = self.arena.node(x) if x >= 0 else (Op.CONST, 0, 0, 0)
        if op is not Op.DIV or self.prints.same(top, y) is not True:
            return ""
        return f"the division by {show(self.arena, bottom, self.name_of)} is missing: "

    def origin(self, ident: int) -> object:
        """Who emitted a node; None for inputs and constants."""
        return self.arena.origin_of(ident) if ident >= 0 and self.arena.node(ident)[0] is not Op.CONST else None


def _family(op: Op) -> int | None:
    return {Op.MAX: 0, Op.NMAX: 0, Op.MIN: 1, Op.NMIN: 1}.get(op)


def _flattened(arena: Arena, root: int) -> list[int]:
    """The members of nested maxima (minima), each once, in order."""
    family = _family(arena.node(root)[0])
    members: dict[int, None] = {}
    seen: set[int] = set()
    stack = [root]
    while stack:
        ident = stack.pop()
        if ident in seen:
            continue
        seen.add(ident)
        op, a, b, _ = arena.node(ident) if ident >= 0 else (Op.CONST, 0, 0, 0)
        if _family(op) != family:
            members[ident] = None
        else:
            stack.extend(reversed(arena.nary_operands(ident).tolist() if TABLE[op].record else [a, b]))
    return list(members)


def _single_atoms(found: Difference) -> tuple[int, int] | None:
    """The pair (p, q) of opaque factors if p put in place of q makes the sides equal, term by term."""
    if len(found.missing) != len(found.extra) or found.changed:
        return None
    left, right = ({factor for monomial, _ in side for factor in monomial} for side in (found.missing, found.extra))
    mine, theirs = left - right, right - left
    if len(mine) != 1 or len(theirs) != 1:
        return None
    p, q = mine.pop(), theirs.pop()
    replaced = {tuple(sorted(p if factor == q else factor for factor in monomial)): coef for monomial, coef in found.extra}
    return (p, q) if p >= 0 and q >= 0 and replaced == dict(found.missing) else None


def _powers(monomial: Monomial) -> list[tuple[int, int]]:
    """Factors with multiplicity; inputs in the order of their storage."""
    counts: dict[int, int] = {}
    for factor in sorted(monomial, key=lambda f: (f >= 0, -f if f < 0 else f)):
        counts[factor] = counts.get(factor, 0) + 1
    return list(counts.items())


def _listed(texts: list[str], total: int) -> str:
    return ", ".join(texts[:_SHOWN]) + (", ..." if total > _SHOWN else "")


def _kind(found: Difference) -> str:
    return "products" if any(len(monomial) > 1 for monomial, *_ in found.missing + found.extra + found.changed) else "terms"


def _hints(found: Difference) -> list[dict[int, mpq]]:
    """Ones for the inputs of one differing term, zero elsewhere."""
    monomials = [m for m, _ in found.missing[:2] + found.extra[:2]] + [m for m, _, _ in found.changed[:2]]
    return [{factor: mpq(1) for factor in m} for m in monomials if all(factor < 0 for factor in m)]
