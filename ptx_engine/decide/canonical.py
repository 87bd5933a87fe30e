"""The cheap proof: both sides of a template in one canonical form that expands nothing.

Sums are flattened into terms with rational coefficients, products into sorted factors with one exponential, maxima into
sets; a sum that stands as a factor, or below any other operator, is one atom. Two programs that differ in association,
commutation, contraction and the shape of their reduction trees get one form, in time linear in the template. No factor
cancels against a reciprocal, and nothing vanishes that is undefined somewhere: no side condition is needed. Equal forms
are a proof; different ones say nothing.
"""

from __future__ import annotations

from gmpy2 import mpq

from ptx_engine.decide.budget import Meter
from ptx_engine.decide.normal_ring import Coef
from ptx_engine.decide.normal_value import summands
from ptx_engine.decide.term_view import TermView
from ptx_engine.decide.walk import CONSTANTS, INPUT, Template
from ptx_engine.terms.ops import TABLE, Op

#: atoms 0..3 are the symbolic constants: their powers may cancel, since they are not zero
LOG2E, PI, SQRT2, LOG2TEN = 0, 1, 2, 3
_ADDITIVE = frozenset({Op.ADD, Op.SUB, Op.NEG, Op.FMA, Op.DOT, Op.NSUM})
_EXTREME: dict[int, str] = {Op.MAX: "max", Op.NMAX: "max", Op.MIN: "min", Op.NMIN: "min"}
#: operands that a flattened set of a maximum may have in all before it is kept as it was written
_SET_LIMIT = 1 << 20


#: atoms that are undefined somewhere
PARTIAL = frozenset({Op.SQRT, Op.LOG2, Op.POW, Op.FLOORDIV, Op.TRUNCDIV, Op.TRUNCREM, "reciprocal", "reciprocal of zero"})


def _forms_in(key: tuple) -> "tuple[int, ...] | frozenset[int]":
    """The forms that an atom's key refers to."""
    if key[0] in ("leaf", "reciprocal", "reciprocal of zero"):
        return ()
    if key[0] in ("max", "min"):
        return key[1]  # type: ignore[no-any-return]
    return key[1:] if key[0] in ("sum", "exp2") else key[1 : 1 + TABLE[key[0]].arity]


#: operator code -> how many arguments are operands (_ALL: every one)
_ALL = 1 << 30
_COUNT = [0] * 256
for _op, _row in TABLE.items():
    _COUNT[_op] = _ALL if _row.record else 0 if _op is Op.CONST else _row.arity
#: operators that are collected together: 1 sums, 2 maxima, 3 minima
_KIND = [0] * 256
for _op in _ADDITIVE:
    _KIND[_op] = 1
for _code, _name in _EXTREME.items():
    _KIND[_code] = 2 if _name == "max" else 3
_ORDERS = (Op.LT, Op.LE)
_PAIRED = frozenset({Op.ADD, Op.SUB, Op.MUL, Op.DIV})
_COMMUTES = frozenset(int(o) for o, row in TABLE.items() if row.commutative)


class Canonical:
    """Canonical forms of the nodes of one template. A form is a dict monomial -> coefficient, interned; -1 where there is
    none (a NaN or an infinity below)."""

    def __init__(
        self,
        arena: TermView,
        template: Template,
        meter: Meter,
        merged: dict[int, int] | None = None,
        hidden: frozenset[int] = frozenset(),
    ) -> None:
        self.arena, self.template, self.meter = arena, template, meter
        #: variables that stand for terms that may be undefined somewhere
        self._hidden = hidden
        #: nodes known to be equal, by the number of their class: each class is a variable
        self._merged = merged or {}
        self._ops = [INPUT if n in self._merged else op for n, op in enumerate(template.ops)] if merged else template.ops
        self.forms: list[dict[int, Coef]] = [{}]  # form 0 is zero
        self._form_ids: dict[frozenset, int] = {frozenset(): 0}
        #: monomial: (form of its exponent of 2, ((atom, power), ...))
        self.monomials: list[tuple[int, tuple[tuple[int, int], ...]]] = [(0, ())]
        self._monomial_ids: dict[tuple, int] = {(0, ()): 0}
        self._products: dict[tuple[int, int], tuple[int, int]] = {}
        self._atoms: dict[tuple, int] = {("log2e",): LOG2E, ("pi",): PI, ("sqrt2",): SQRT2, ("log2ten",): LOG2TEN}
        #: atoms that are undefined somewhere, or hold one that is: a sum or product in which they vanish has no form
        self._partial: set[int] = set()
        self._form_is_partial: dict[int, bool] = {}
        self._sets: dict[int, frozenset[int]] = {}  # atom of a maximum -> forms of its operands
        self._set_total = 0
        self._sums: dict[tuple[tuple[int, int], ...], int] = {}
        self._extremes: dict[tuple[str, tuple[int, ...]], int] = {}
        self.of: list[int] = [-1] * len(template.ops)
        self._factors: dict[int, tuple[Coef, int]] = {}
        self._operands = [args[: _COUNT[op]] for op, args in zip(self._ops, template.args)]
        self._atom_forms: dict[int, int] = {}
        self._leaves: dict[int, int] = {}  # form of a variable -> its atom
        self._terms: dict[tuple[int, int], tuple[Coef, int]] = {}  # forms -> coefficient and monomial of their product
        self._singles: dict[tuple[int, Coef], int] = {}  # monomial and coefficient -> form of that one term
        self._pairs: dict[tuple[int, int, int], int] = {}  # operator and forms of both operands -> form
        self._inlined = self._find_inlined()
        self._run()

    def equal(self, reference: int, candidate: int) -> bool:
        """Whether two nodes have one canonical form."""
        return reference == candidate or self.of[reference] == self.of[candidate] >= 0

    # --- order of work --------------------------------------------------------------------------

    def _find_inlined(self) -> bytearray:
        """Additive nodes whose only use is as a summand, and maxima whose only use is in a maximum: they are collected into
        their user's sum or set."""
        ops, args = self._ops, self.template.args
        uses = [0] * len(ops)
        for root in self.template.roots:
            uses[root] += 2
        for operands in self._operands:
            for child in operands:
                uses[child] += 1
        inlined = bytearray(len(ops))
        for node, op in enumerate(ops):
            kind = _KIND[op]
            if kind:
                for child in args[node] if kind > 1 else summands(op, args[node]):
                    if _KIND[ops[child]] == kind and uses[child] == 1:
                        inlined[child] = 1
        return inlined

    def _variables(self) -> bytearray:
        """Forms of all variables; marks them as done."""
        done = bytearray(len(self._ops))
        for node, op in enumerate(self._ops):
            if op not in (INPUT, CONSTANTS):
                continue
            done[node] = 2
            key = ("leaf", -1 - self._merged[node] if node in self._merged else node)
            atom = self._atoms.get(key)
            if atom is None:
                atom = self._atoms[key] = len(self._atoms)
                monomial = self._monomial_ids[0, ((atom, 1),)] = len(self.monomials)
                self.monomials.append((0, ((atom, 1),)))
                form = self._atom_forms[atom] = self._singles[monomial, 1] = len(self.forms)
                self.forms.append({monomial: 1})
                self._leaves[form] = atom
            if node in self._hidden:
                self._partial.add(atom)
            self.of[node] = self._atom_forms[atom]
        self.meter.spend(2 * len(self._leaves))
        return done

    def _run(self) -> None:
        template = self.template
        entered = self._variables()
        stack = [root for root in template.roots if not entered[root]]
        while stack:
            node = stack[-1]
            if entered[node] == 0:
                entered[node] = 1
                stack.extend([child for child in self._operands[node] if not entered[child]])
                continue
            stack.pop()
            if entered[node] == 1:
                entered[node] = 2
                if not self._inlined[node]:
                    self.of[node] = self._paired(node) if self._ops[node] in _PAIRED else self._form(node)

    # --- interning ------------------------------------------------------------------------------

    def _intern(self, form: dict[int, Coef]) -> int:
        if len(form) == 1:
            ((monomial, coefficient),) = form.items()
            return self._single(monomial, coefficient)
        self.meter.spend(len(form) + 1)
        key = frozenset(form.items())
        found = self._form_ids.get(key)
        if found is None:
            found = self._form_ids[key] = len(self.forms)
            self.forms.append(form)
        return found

    def _single(self, monomial: int, coefficient: Coef) -> int:
        """The form of one term."""
        found = self._singles.get((monomial, coefficient))
        if found is None:
            self.meter.spend(2)
            found = self._singles[monomial, coefficient] = len(self.forms)
            self.forms.append({monomial: coefficient})
        return found

    def _monomial(self, exponent: int, factors: tuple[tuple[int, int], ...]) -> int:
        key = (exponent, factors)
        found = self._monomial_ids.get(key)
        if found is None:
            found = self._monomial_ids[key] = len(self.monomials)
            self.monomials.append(key)
        return found

    def _atom(self, key: tuple) -> int:
        """The form of an atom."""
        found = self._atoms.get(key)
        if found is None:
            found = self._atoms[key] = len(self._atoms)
            if key[0] in PARTIAL or (self._partial and any(self._form_partial(f) for f in _forms_in(key))):
                self._partial.add(found)
        form = self._atom_forms.get(found)
        if form is None:
            form = self._atom_forms[found] = self._single(self._monomial(0, ((found, 1),)), 1)
        return form

    def _form_partial(self, form: int) -> bool:
        if not self._partial:
            return False
        found = self._form_is_partial.get(form)
        if found is None:
            found = self._form_is_partial[form] = any(self._monomial_partial(m) for m in self.forms[form])
        return found

    def _monomial_partial(self, monomial: int) -> bool:
        exponent, factors = self.monomials[monomial]
        return any(atom in self._partial for atom, _ in factors) or (exponent != 0 and self._form_partial(exponent))

    def _factor(self, form: int) -> tuple[Coef, int]:
        """A form as one factor: coefficient and monomial; a sum of several terms is an atom."""
        found = self._factors.get(form)
        if found is None:
            terms = self.forms[form]
            if len(terms) == 1:
                ((monomial, coefficient),) = terms.items()
                found = (coefficient, monomial)
            else:
                found = (1, next(iter(self.forms[self._atom(("sum", form))])))
            self._factors[form] = found
        return found

    def _multiply(self, x: int, y: int) -> tuple[int, int]:
        """The product of two monomials, and the integer that came out of sqrt2 * sqrt2."""
        key = (x, y) if x <= y else (y, x)
        found = self._products.get(key)
        if found is None:
            found = self._products[key] = self._product(*key)
        return found

    def _product(self, x: int, y: int) -> tuple[int, int]:
        (e, f), (g, h) = self.monomials[x], self.monomials[y]
        if e == g == 0 and len(f) == len(h) == 1 and (f[0][0] != h[0][0] or f is h) and SQRT2 not in (f[0][0], h[0][0]):
            return self._monomial(0, ((f[0][0], 2 * f[0][1]),) if f is h else f + h if f < h else h + f), 1
        powers = dict(f)
        for atom, power in h:
            powers[atom] = powers.get(atom, 0) + power
        twos, root = divmod(powers.get(SQRT2, 0), 2)
        if SQRT2 in powers:
            powers[SQRT2] = root
        exponent = g if e == 0 else e if g == 0 else self._total({}, [(e, 1), (g, 1)])
        if exponent < 0:  # partial terms cancel: keep the two exponentials apart
            twin = self._atom(("exp2", g))
            ((_, ((number, _),)),) = (self.monomials[m] for m in self.forms[twin])
            exponent, powers[number] = e, 1
        factors = tuple(sorted((atom, power) for atom, power in powers.items() if power))
        return self._monomial(exponent, factors), 2**twos

    # --- forms ----------------------------------------------------------------------------------

    def _form(self, node: int) -> int:
        op, args = self._ops[node], self.template.args[node]
        if op == Op.CONST:
            return self._constant(args[0])
        if op in _ADDITIVE:
            return self._sum(node)
        if op in _EXTREME:
            return self._maximum(node)
        operands = [self.of[n] for n in self._operands[node]]
        if any(f < 0 for f in operands):
            return -1
        if op in (Op.MUL, Op.DIV):
            factor = operands[1] if op == Op.MUL else self._reciprocal(operands[1])
            return -1 if self._lost(operands[0], factor) else self._scaled(self._times(operands[0], factor))
        if op == Op.EXP2:
            return self._single(self._monomial(operands[0], ()), 1)
        if op == Op.ITE and (name := self._chosen(args[0], operands)):
            return self._extreme(name, operands[1:])
        if op in _COMMUTES:
            operands.sort()
        return self._atom((op, *operands, *args[_COUNT[op] :]))

    def _chosen(self, condition: int, operands: list[int]) -> str:
        """ "max" or "min" where a selection chooses by comparing the two values that it chooses between, else ""."""
        turned = False
        while self._ops[condition] == Op.NOT:
            condition, turned = self.template.args[condition][0], not turned
        if self._ops[condition] not in _ORDERS:
            return ""
        compared = [self.of[n] for n in self._operands[condition]]
        if compared not in (operands[1:], operands[:0:-1]):
            return ""
        return "max" if (compared == operands[1:]) == turned else "min"

    def _paired(self, node: int) -> int:
        """The form of an operator of two operands, made once where those have the same forms again."""
        x, y = self.template.args[node]
        if self._inlined[x] or self._inlined[y]:
            return self._form(node)
        key = (self._ops[node], self.of[x], self.of[y])
        found = self._pairs.get(key)
        if found is None:
            short = self._short_sum(*key) if key[0] in (Op.ADD, Op.SUB) else None
            found = self._pairs[key] = self._form(node) if short is None else short
        return found

    def _short_sum(self, op: int, x: int, y: int) -> int | None:
        """The sum or difference of two different terms."""
        if x < 0 or y < 0:
            return -1
        left, right = self.forms[x], self.forms[y]
        if not len(left) == len(right) == 1:
            return None
        ((first, a),), ((second, b),) = left.items(), right.items()
        return None if first == second else self._intern({first: a, second: b if op == Op.ADD else -b})

    def _constant(self, index: int) -> int:
        const = self.arena.consts[index]
        if const.special is not None:
            return -1
        if not const.coef:
            return 0
        known = (LOG2E, const.log2e), (PI, const.pi), (SQRT2, const.sqrt2), (LOG2TEN, const.log2ten)
        factors = tuple((atom, power) for atom, power in known if power)
        coefficient = int(const.coef) if const.coef.denominator == 1 else const.coef
        return self._single(self._monomial(0, factors), coefficient)

    def _times(self, x: int, y: int) -> tuple[Coef, int]:
        if x == 0 or y == 0:
            return 0, 0
        (a, p), (b, q) = self._factor(x), self._factor(y)
        monomial, twos = self._multiply(p, q)
        return a * b * twos, monomial

    def _lost(self, x: int, y: int) -> bool:
        """Whether a factor that is undefined somewhere vanishes with its product."""
        return (x == 0 and self._form_partial(y)) or (y == 0 and self._form_partial(x))

    def _scaled(self, term: tuple[Coef, int]) -> int:
        coefficient, monomial = term
        return self._single(monomial, coefficient) if coefficient else 0

    def _reciprocal(self, form: int) -> int:
        """1/form: exponentials and constants turn over, every other factor becomes the atom of its reciprocal."""
        if form == 0:
            return self._atom(("reciprocal of zero",))
        coefficient, monomial = self._factor(form)
        exponent, factors = self.monomials[monomial]
        negated = self._intern({m: -c for m, c in self.forms[exponent].items()}) if exponent else 0
        turned: dict[int, int] = {}
        scale = mpq(1, coefficient) if isinstance(coefficient, int) else 1 / coefficient
        for atom, power in factors:
            if atom in (LOG2E, PI, LOG2TEN):
                turned[atom] = -power
            elif atom == SQRT2:
                turned[atom], scale = 1, scale / 2
            else:
                inverse = self._atom(("reciprocal", atom))
                ((_, ((number, _),)),) = (self.monomials[m] for m in self.forms[inverse])
                turned[number] = power
        result = self._monomial(negated, tuple(sorted(turned.items())))
        return self._single(result, int(scale) if scale.denominator == 1 else scale)

    def _maximum(self, node: int) -> int:
        """A maximum (minimum) of all its operands, through the maxima that only it uses."""
        operands: list[int] = []
        stack = [node]
        while stack:
            for child in self.template.args[stack.pop()]:
                if self._inlined[child]:
                    stack.append(child)
                elif self.of[child] < 0:
                    return -1
                else:
                    operands.append(self.of[child])
        return self._extreme(_EXTREME[self._ops[node]], operands)

    def _extreme(self, name: str, operands: list[int]) -> int:
        key = (name, tuple(sorted(operands)))
        found = self._extremes.get(key)
        if found is None:
            found = self._extremes[key] = self._new_extreme(name, operands)
        return found

    def _new_extreme(self, name: str, operands: list[int]) -> int:
        members: set[int] = set()
        for form in operands:
            inner = self._set_of(name, form)
            if inner is not None and self._set_total + len(inner) <= _SET_LIMIT:
                members |= inner
            else:
                members.add(form)
        if len(members) == 1:
            return members.pop()
        self._set_total += len(members)
        self.meter.spend(len(members))
        chosen = frozenset(members)
        result = self._atom((name, chosen))
        ((_, ((atom, _),)),) = (self.monomials[m] for m in self.forms[result])
        self._sets[atom] = chosen
        return result

    def _set_of(self, name: str, form: int) -> frozenset[int] | None:
        """The operands behind a form that is a maximum (minimum) and nothing else."""
        terms = self.forms[form]
        if len(terms) != 1:
            return None
        ((monomial, coefficient),) = terms.items()
        exponent, factors = self.monomials[monomial]
        if coefficient != 1 or exponent or len(factors) != 1 or factors[0][1] != 1:
            return None
        atom = factors[0][0]
        chosen = self._sets.get(atom)
        # the atom itself, not merely one over the same operands: max(a, b) may stand beside min(a, b)
        return chosen if chosen is not None and self._atoms.get((name, chosen)) == atom else None

    # --- sums -----------------------------------------------------------------------------------

    def _sum(self, node: int) -> int:
        """All terms of a sum, through the additive nodes that only it uses."""
        products: dict[int, Coef] = {}
        summands: list[tuple[int, int]] = []
        stack: list[tuple[int, int]] = []
        if not self._collect(products, stack, node, 1):
            return -1
        while stack:
            current, sign = stack.pop()
            if self._inlined[current]:
                if not self._collect(products, stack, current, sign):
                    return -1
            else:
                summands.append((self.of[current], sign))
        if any(form < 0 for form, _ in summands):
            return -1
        if products:
            return self._total(products, summands)
        # lanes of a butterfly add the same two forms: x + y and y + x
        summands.sort()
        key = tuple(summands)
        found = self._sums.get(key)
        if found is None:
            found = self._sums[key] = self._total({}, summands)
        return found

    def _total(self, total: dict[int, Coef], summands: list[tuple[int, int]]) -> int:
        """The form of products and forms with signs."""
        get = total.get
        for form, sign in summands:
            self.meter.spend(len(self.forms[form]))
            if not total and sign > 0:
                total = dict(self.forms[form])
                get = total.get
                continue
            for monomial, coefficient in self.forms[form].items():
                total[monomial] = get(monomial, 0) + (coefficient if sign > 0 else -coefficient)
        gone = [m for m, c in total.items() if not c]
        if not gone:
            return self._intern(total)
        if self._partial and any(map(self._monomial_partial, gone)):
            return -1
        return self._intern({m: c for m, c in total.items() if c})

    def _collect(self, total: dict[int, Coef], stack: list[tuple[int, int]], node: int, sign: int) -> bool:
        op, args = self._ops[node], self.template.args[node]
        if op == Op.FMA:
            stack.append((args[2], sign))
            return self._add_products(total, args[:2], sign)
        if op == Op.DOT:
            stack.append((args[0], sign))
            return self._add_products(total, args[1:], sign)
        if op == Op.SUB:
            stack.append((args[0], sign))
            stack.append((args[1], -sign))
        elif op == Op.NEG:
            stack.append((args[0], -sign))
        else:
            stack.extend((child, sign) for child in args)
        return True

    def _add_products(self, total: dict[int, Coef], pairs: tuple[int, ...], sign: int) -> bool:
        of, terms = self.of, self._terms
        self.meter.spend(len(pairs))
        for i in range(0, len(pairs), 2):
            x, y = of[pairs[i]], of[pairs[i + 1]]
            if x < 0 or y < 0 or (x * y == 0 and self._lost(x, y)):
                return False
            term = terms.get((x, y))
            if term is None:
                term = terms[x, y] = self._leaf_product(x, y) or self._times(x, y)
            coefficient, monomial = term
            if coefficient:
                total[monomial] = total.get(monomial, 0) + (coefficient if sign > 0 else -coefficient)
        return True

    def _leaf_product(self, x: int, y: int) -> tuple[Coef, int] | None:
        """The product of two variables: by far the most common one."""
        a, b = self._leaves.get(x), self._leaves.get(y)
        if a is None or b is None:
            return None
        return 1, self._monomial(0, ((a, 1), (b, 1)) if a < b else ((b, 1), (a, 1)) if b < a else ((a, 2),))
