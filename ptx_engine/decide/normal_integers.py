"""Integer operators in normal form: wrapping rings, bit fields, shifts, division and remainder.

``wrap(x, w)`` is dropped where the range of x shows that it cannot matter, and inner wraps of at least w bits are dropped
under an outer one (both sides are the same modulo 2^w); powers of two come out of it. Bit fields and right shifts are wraps
of floors of quotients by powers of two, bit operations with constants are sums of fields; others are opaque.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gmpy2 import mpq

from ptx_engine.decide.normal_forms import Forms
from ptx_engine.decide.normal_functions import Functions
from ptx_engine.decide.normal_order import signwise
from ptx_engine.decide.normal_ring import ONE_TERM, Coef, Poly, PolyKey, Sign, add_into, small
from ptx_engine.decide.normal_rounding import Rounding, is_constant
from ptx_engine.decide.normal_sign import integral, poly_range
from ptx_engine.terms.ops import Op

#: wraps that are written out in one value
_OPENED = 64


class Integers:
    """Applies integer operators to normal forms."""

    def __init__(self, forms: Forms, functions: Functions, rounding: Rounding) -> None:
        self.forms = forms
        self.functions, self.rounding = functions, rounding
        self._bitwise: dict[int, tuple[Op, frozenset[PolyKey]]] = {}

    def wrap(self, p: Poly, width: int) -> Poly:
        """p modulo 2^|width|, in the signed range if ``width`` is negative."""
        signed, bits = width < 0, abs(width)
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        p = self.forms.argument(p)
        if not integral(self.forms.ring, p):
            return self._bounded(f"wrap{width}", p, low, high)

        def wrapped(value: Coef) -> int:
            return (int(value) - low) % (1 << bits) + low

        cases = signwise(self.forms, p, wrapped)
        if cases is not None:
            return cases
        for value in (p, p := self._modulo(p, bits)):
            for known in self._ranges():
                below, above = known(value)
                if below is not None and above is not None and wrapped(below) - below == wrapped(above) - above:
                    if above - below < 1 << bits:  # all in one period
                        return self.forms.add(value, self.forms.rational(wrapped(below) - below))
        common = _twos(p)
        if 0 < common < bits:  # wrap(2^j q, b) = 2^j wrap(q, b - j)
            inner = self.wrap({t: c // (1 << common) for t, c in p.items()}, -(bits - common) if signed else bits - common)
            return {t: c * (1 << common) for t, c in inner.items()}
        if is_constant(p):
            return self.forms.rational(wrapped(p.get(ONE_TERM, 0)))
        sign = Sign.UNKNOWN if signed else Sign.NONNEGATIVE
        atom = self.forms.application(f"wrap{width}", (p,), sign, integer=True, low=low, high=high)
        self.forms.ring.atoms[atom].table = bits
        self.rounding.wraps[atom] = (p, width)
        return {self.forms.ring.atom_term(atom): 1}

    def _ranges(self) -> tuple[Callable[[Poly], tuple[Coef | None, Coef | None]], ...]:
        """What finds ranges, the cheapest first."""
        return (lambda p: poly_range(self.forms.ring, p)), self.rounding.range_of, self.functions.lattice.range_of

    def opened(self, poly: Poly) -> Poly:
        """A value with its wraps written as what they are: x - 2^b floor(x / 2^b), and for signed ones
        x + 2^b floor(x / 2^b) - 2^b floor(x / 2^(b-1))."""
        ring = self.forms.ring
        for _ in range(_OPENED):
            found = next(((t, a) for t in poly for a, k in ring.powers[t] if a in self.rounding.wraps and k == 1), None)
            if found is None:
                break
            _, atom = found
            p, width = self.rounding.wraps[atom]
            bits = abs(width)
            value = dict(p)
            add_into(value, self._right(p, bits), (1 if width < 0 else -1) << bits)
            if width < 0:
                add_into(value, self._right(p, bits - 1), -1 << bits)
            plain: Poly = {}
            for t, c in poly.items():
                power = dict(ring.powers[t]).get(atom, 0)
                rest = ring.mul(t, ring.atom_term(atom, -1)) if power == 1 else t
                self.forms.meter.spend(len(value))
                add_into(plain, ring.times_term(value, rest) if power == 1 else {t: 1}, c)
            poly = plain
        return poly

    def _modulo(self, p: Poly, bits: int) -> Poly:
        """A representative modulo 2^bits: inner wraps of at least as many bits undone, coefficients reduced."""
        ring = self.forms.ring
        p, waiting = dict(p), list(p)
        self.forms.meter.spend(len(p))
        while waiting:
            t = waiting.pop()
            if (c := p.get(t)) is None:
                continue
            twos = (int(c) & -int(c)).bit_length() - 1  # wrap(x, 32) * 2^32 modulo 2^64 is x * 2^32
            inner = next(
                (a for a, _ in ring.powers[t] if ring.atoms[a].name.startswith("wrap") and ring.atoms[a].table + twos >= bits), None
            )
            if inner is None:
                continue
            opened = ring.times_term(ring.atoms[inner].args[0], ring.mul(t, ring.atom_term(inner, -1)), c)
            self.forms.meter.spend(len(opened))
            del p[t]
            add_into(p, opened)
            waiting += opened  # what was looked at before may have got another coefficient
        p = self._rejoined(self._floors_modulo(p, bits))
        half = 1 << bits - 1
        reduced = ((t, (int(c) + half - 1) % (2 * half) - half + 1) for t, c in p.items())
        return {t: c for t, c in reduced if c}

    def _rejoined(self, p: Poly) -> Poly:
        """Parts of words put together: wrap(y, b) + 2^b floor(y / 2^b) = y. The upper part may itself be put together first."""
        waiting = [t for t in p if self._unsigned_wrap(t) is not None]
        while waiting:
            t = waiting.pop()
            known = self._unsigned_wrap(t)
            if known is None or t not in p:
                continue
            y, bits = known
            high, c = self._right(y, bits), p[t]
            if len(high) == 1 and (upper := next(iter(high))) in p and p[upper] == c * high[upper] * (1 << bits):
                p = {s: d for s, d in p.items() if s not in (t, upper)}
                self.forms.meter.spend(len(p))
                add_into(p, y, c)
                waiting = [s for s in p if self._unsigned_wrap(s) is not None]
        return p

    def _unsigned_wrap(self, term: int) -> tuple[Poly, int] | None:
        """Argument and width of a term that is an unsigned wrap."""
        powers = self.forms.ring.powers[term]
        known = self.rounding.wraps.get(powers[0][0]) if len(powers) == 1 and powers[0][1] == 1 else None
        return known if known is not None and known[1] > 0 else None

    def _floors_modulo(self, p: Poly, bits: int) -> Poly:
        """floor(q / 2^k) modulo 2^bits depends on q modulo 2^(bits + k) only."""
        ring = self.forms.ring
        for t, c in list(p.items()):
            found = self._power_quotient(t)
            if found is None:
                continue
            q, k = found
            reduced = self._modulo(q, bits + k)
            if reduced != q:
                p = {s: d for s, d in p.items() if s != t}
                add_into(p, ring.times_term(self.rounding.floor({s: mpq(d, 1 << k) for s, d in reduced.items()}), ONE_TERM, c))
        return p

    def _power_quotient(self, term: int) -> tuple[Poly, int] | None:
        """(q, k) of a term that is floor(q / 2^k) for an integer q."""
        ring = self.forms.ring
        powers = ring.powers[term]
        if ring.exponent[term] or len(powers) != 1 or powers[0][1] != 1 or ring.atoms[powers[0][0]].name != "floor":
            return None
        argument = ring.atoms[powers[0][0]].args[0]
        bottom = max((int(mpq(c).denominator) for c in argument.values()), default=1)
        q: Poly = {t: small(mpq(c) * bottom) for t, c in argument.items()}
        if bottom & (bottom - 1) or not integral(ring, q):
            return None
        return q, bottom.bit_length() - 1

    def field(self, p: Poly, low_bit: int, width: int) -> Poly:
        """Bits [low_bit, low_bit + width) of an integer as an unsigned number: wrap(floor(p / 2^low_bit), width)."""
        p = self.forms.argument(p)
        if not integral(self.forms.ring, p):
            return self._bounded(f"field{low_bit}.{width}", p, 0, (1 << width) - 1)
        return self.wrap(self._right(self._modulo(p, low_bit + width), low_bit), width)

    def _right(self, p: Poly, count: int) -> Poly:
        """floor(p / 2^count); of a wrap of b bits, the wrap of b - count bits of the floor."""
        ring = self.forms.ring
        common = min(_twos(p), count) if p else count
        if common:
            p, count = {t: int(c) >> common for t, c in p.items()}, count - common
        if count and len(p) == 1:
            ((t, c),) = p.items()
            quotient = self._power_quotient(t) if c == 1 else None
            if quotient is not None:  # a floor of a floor
                return self.rounding.floor({u: small(mpq(d, 1 << quotient[1] + count)) for u, d in quotient[0].items()})
            powers = ring.powers[t]
            name = ring.atoms[powers[0][0]].name if len(powers) == 1 and powers[0][1] == 1 and not ring.exponent[t] else ""
            bits = ring.atoms[powers[0][0]].table if name.startswith("wrap") else 0
            if c == 1 and bits > count:
                inner = self._right(ring.atoms[powers[0][0]].args[0], count)
                return self.wrap(inner, -(bits - count) if name.startswith("wrap-") else bits - count)
        return self.rounding.floor({t: small(mpq(c, 1 << count)) for t, c in p.items()}) if count else p

    def _bounded(self, name: str, p: Poly, low: int, high: int) -> Poly:
        sign = Sign.NONNEGATIVE if low >= 0 else Sign.UNKNOWN
        return {self.forms.ring.atom_term(self.forms.application(name, (p,), sign, integer=True, low=low, high=high)): 1}

    def floordiv(self, p: Poly, q: Poly) -> Poly:
        """floor(p / q)."""
        return self.rounding.floor(self.functions.divide(p, q))

    def truncdiv(self, p: Poly, q: Poly) -> Poly:
        """p / q towards zero: the floor where both are shown to be non-negative."""
        p, q = self.forms.argument(p), self.forms.argument(q)
        if all(self.forms.sign(v) is not Sign.UNKNOWN for v in (p, q)):
            return self.floordiv(p, q)
        return self.rounding.rounded("trunc", self.functions.divide(p, q))

    def truncrem(self, p: Poly, q: Poly) -> Poly:
        """p - q * truncdiv(p, q)."""
        return self.forms.add(p, self.forms.product(q, self.truncdiv(p, q)), -1)

    def shift(self, op: Op, p: Poly, q: Poly) -> Poly:
        """Shifts by a constant are multiplication by a power of two and floor division."""
        q = self.forms.argument(q)
        count = q.get(ONE_TERM, 0)
        if is_constant(q) and count == int(count) and 0 <= count < 64:
            factor: Coef = 1 << int(count)
            if op is Op.SHL:
                return self.forms.product(p, {ONE_TERM: factor})
            p = self.forms.argument(p)
            if integral(self.forms.ring, p):
                return self._right(p, int(count))
            return self.rounding.floor(self.forms.product(p, {ONE_TERM: mpq(1, factor)}))
        return self.functions.opaque(op.name.lower(), (p, q), integer=True)

    def bitwise(self, op: Op, p: Poly, q: Poly) -> Poly:
        """and, or, xor of integers: with a constant through bit fields, of others as sets; what has no bit in common adds."""
        p, q = self.forms.argument(p), self.forms.argument(q)
        if not all(integral(self.forms.ring, v) for v in (p, q)):
            return self._over_sets(op, p, q)
        for x, y in ((p, q), (q, p)):
            if is_constant(y):
                return self._from_and(op, x, y, self._masked(x, int(y.get(ONE_TERM, 0))))
        if self._disjoint(p, q):
            return self._from_and(op, p, q, {})
        return self._over_sets(op, p, q)

    def _from_and(self, op: Op, p: Poly, q: Poly, both: Poly) -> Poly:
        """x & y, x | y = x + y - (x & y), x ^ y = x + y - 2 (x & y)."""
        if op is Op.BITAND:
            return both
        return self.forms.add(self.forms.add(p, q), both, -1 if op is Op.BITOR else -2)

    def _masked(self, p: Poly, mask: int) -> Poly:
        """p & mask for a constant: the fields of its runs of ones; a negative mask is what the others leave."""
        if mask < 0:
            return self.forms.add(p, self._masked(p, ~mask), -1)
        result: Poly = {}
        low = 0
        while mask >> low:
            low += ((mask >> low) & -(mask >> low)).bit_length() - 1
            width = ((mask >> low) + 1 & -((mask >> low) + 1)).bit_length() - 1
            add_into(result, self.field(p, low, width), 1 << low)
            low += width
        return result

    def _disjoint(self, p: Poly, q: Poly) -> bool:
        """Whether one is a multiple of a power of two that the other, not negative, is below."""
        for x, y in ((p, q), (q, p)):
            low, high = poly_range(self.forms.ring, x)
            if low is not None and high is not None and low >= 0 and high < 1 << _twos(y):
                return True
        return False

    def _over_sets(self, op: Op, p: Poly, q: Poly) -> Poly:
        """An associative and commutative operation of unknown integers, over the set of its operands: idempotent, or where two
        equal ones cancel."""
        left, right = (self._members(op, v) for v in (p, q))
        members = left ^ right if op is Op.BITXOR else left | right
        if len(members) < 2:
            return dict(next(iter(members), frozenset()))
        ordered = tuple(dict(key) for key in sorted(members, key=sorted))
        low, high = self._word(ordered)
        sign = Sign.NONNEGATIVE if low is not None and low >= 0 else Sign.UNKNOWN
        atom = self.forms.application(op.name.lower(), ordered, sign, integer=True, low=low, high=high)
        self._bitwise[atom] = (op, members)
        return {self.forms.ring.atom_term(atom): 1}

    def _word(self, values: Sequence[Poly]) -> tuple[int | None, int | None]:
        """The range of the smallest word, signed if one of them may be negative, that holds all of these integers: bit operations stay
        in it."""
        ranges = [poly_range(self.forms.ring, p) for p in values]
        if any(low is None or high is None for low, high in ranges):
            return None, None
        bits = max(max(int(high), -1 - int(low)).bit_length() for low, high in ranges)  # type: ignore[arg-type]
        return (-(1 << bits) if any(low < 0 for low, _ in ranges) else 0), (1 << bits) - 1  # type: ignore[operator]

    def _members(self, op: Op, p: Poly) -> frozenset[PolyKey]:
        if len(p) == 1:
            ((t, c),) = p.items()
            powers = self.forms.ring.powers[t]
            if c == 1 and len(powers) == 1 and powers[0][1] == 1:
                known = self._bitwise.get(powers[0][0])
                if known is not None and known[0] is op:
                    return known[1]
        return frozenset((self.forms.key(p),))


def _twos(p: Poly) -> int:
    """How often 2 divides all coefficients."""
    union = 0
    for c in p.values():
        union |= int(c)
    return (union & -union).bit_length() - 1
