"""Fingerprints: terms evaluated at random points of finite fields, level by level over the whole arena.

A point gives every input a random value in each field of the chain (``field``). A term has a value in F_p0 and, where it
stands under an exponential, in F_p1 (and F_p2 below two): EXP2 maps the upper part w to 2^w, so 2^a * 2^b = 2^(a + b).
Sums, products and quotients are those of the field; max and min are hashes of the set of their arguments; any other
function is a hash of its arguments. Equal polynomials of exponentials have equal fingerprints; different ones agree at a
point with probability at most degree / 2^29. A match is evidence, a mismatch a suspicion: neither is a verdict.

Values depend on seed, input name, index and point only: they can be stored and compared between processes and machines.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptx_engine.decide.field import GOLDEN, Field, fields, key, mix
from ptx_engine.decide.levels import LEVELS, Plan, Step, plan, store
from ptx_engine.terms.arena import Arena
from ptx_engine.terms.constants import ONE, Const
from ptx_engine.terms.ops import Op

DEFAULT_POINTS = 4
#: nodes per evaluation batch: what the operands and temporaries of one batch take stays in the cache
_CHUNK = 1 << 14
#: field multiplications per matrix product batch
_DOT_CHUNK = 1 << 24


class Fingerprints:
    """The values of everything below some outputs, at all points. Arrays are (n, points) of uint32."""

    def __init__(
        self, arena: Arena, outputs: np.ndarray, *, seed: int = 0, points: int = DEFAULT_POINTS, order: Plan | None = None
    ) -> None:
        self.arena, self.seed, self.points = arena, seed, points
        self.plan = order if order is not None else plan(arena, outputs)
        self._levels: dict[int, _Level] = {}
        for level in self.plan.levels:
            part = _Level(self, level)
            self._levels[level] = part
            part.run()

    def above(self, level: int) -> "_Level | None":
        """The evaluation one level up, where there is one."""
        return self._levels.get(level + 1)

    def of(self, ids: np.ndarray, level: int = 0) -> np.ndarray:
        """Values of ids that are needed at a level."""
        return self._levels[level].values.take(self.plan.at(ids), axis=0)

    def same(self, x: int, y: int) -> bool | None:
        """Whether two ids agree at every point, at some level where both are known; None if there is no such level."""
        need = int(self.plan.need[x]) & int(self.plan.need[y])
        for level in range(LEVELS):
            if need >> level & 1:
                values = self._levels[level].values
                first, second = self.plan.at(np.array([x, y]))
                return bool((values[first] == values[second]).all())
        return None


def fingerprint(arena: Arena, ids: np.ndarray, *, seed: int = 0, points: int = DEFAULT_POINTS) -> np.ndarray:
    """Fingerprints of ids (any shape): uint32 of shape (*ids.shape, points)."""
    ids = np.asarray(ids, np.int32)
    return Fingerprints(arena, ids, seed=seed, points=points).of(ids.ravel()).reshape(*ids.shape, points)


def input_values(seed: int, name: str, index: np.ndarray, level: int, points: int) -> np.ndarray:
    """Values of input elements: (len(index), points), from a counter keyed by seed, tensor, level and point."""
    keys = np.array([key(seed, "input", name, level, point) for point in range(points)], np.uint64)
    return fields()[level].reduce(mix(index.astype(np.uint64)[:, None] * GOLDEN + keys))


class _Level:
    """The evaluation in one field of the chain."""

    def __init__(self, owner: Fingerprints, level: int) -> None:
        self.owner, self.level, self.points = owner, level, owner.points
        self.field: Field = fields()[level]
        self.plan, self.arena = owner.plan, owner.arena
        self.values = np.zeros((len(self.plan.ids), self.points), np.uint32)
        self._sets: np.ndarray | None = None

    def run(self) -> None:
        """Evaluate everything that is needed at this level, operands first."""
        self._load_leaves()
        for step in self.plan.upward(self.level):
            evaluator = EVALUATORS[step.op]
            for part in _chunks(step, self.points):
                result = evaluator(self, part)
                store(self.values, part.ids, result)

    def _load_leaves(self) -> None:
        ids = self.plan.input_ids(self.level)
        rows, flat = self.plan.at(ids), -1 - ids.astype(np.int64)
        bounds = np.searchsorted(flat, [*(entry.base for entry in self.arena.inputs), len(self.plan.need)])
        for entry, start, stop in zip(self.arena.inputs, bounds, bounds[1:]):
            if start < stop:
                self.values[rows[start:stop]] = input_values(
                    self.owner.seed, entry.name, flat[start:stop] - entry.base, self.level, self.points
                )
        constants = self.plan.constant_ids(self.level)
        if len(constants):
            self.values[constants] = [self.constant(self.arena.consts[int(i)]) for i in constants]

    def constant(self, const: Const) -> list[int]:
        """A constant at every point: the symbolic bases and what is not a number get random values, sqrt 2 a root of 2."""
        f, seed = self.field, self.owner.seed
        if const.special is not None:
            return [key(seed, "special", const.special.value, self.level, point) % f.p for point in range(self.points)]
        coef = f.rational(int(const.coef.numerator), int(const.coef.denominator))
        if const.sqrt2:
            # 2^(1/2) with the exponent's half taken in the next field, where there is one, so that exp2(1/2) is this root
            coef = coef * pow(2, (f.order + 1) // 2 if f.order else (f.p + 1) // 4, f.p) % f.p
        result = []
        for point in range(self.points):
            value = coef
            for name, power in (("log2e", const.log2e), ("pi", const.pi)):
                if power:
                    value = value * pow(key(seed, name, self.level, point) % f.p, power % (f.p - 1), f.p) % f.p
            result.append(value)
        return result

    # --- access for the evaluators --------------------------------------------------------------

    def get(self, ids: np.ndarray) -> np.ndarray:
        """Values of ids, as uint64 of shape (*ids.shape, points)."""
        return self.values.take(ids, axis=0).astype(np.uint64)

    def raised(self, ids: np.ndarray) -> np.ndarray | None:
        """Values of an exponential's arguments one level up; None at the end of the chain."""
        above = self.owner.above(self.level) if self.level + 1 < LEVELS else None
        return None if above is None else above.get(ids)

    def hashed(self, label: str, *arguments: "np.ndarray | int") -> np.ndarray:
        """A random function of its arguments, named by a label: a field element."""
        state: np.ndarray | np.uint64 = np.uint64(key(self.owner.seed, "function", label, self.level))
        for argument in arguments:
            word = np.uint64(argument) if isinstance(argument, int) else argument
            state = mix(np.asarray(state + word)) * GOLDEN + np.uint64(len(arguments))
        return self.field.reduce(mix(np.asarray(state)))

    @property
    def sets(self) -> np.ndarray:
        """Set hashes of max and min nodes: the sum of mixed members, so that nesting and order do not matter."""
        if self._sets is None:
            self._sets = np.zeros((len(self.plan.ids), self.points), np.uint64)
        return self._sets

    def members(self, ids: np.ndarray, values: np.ndarray, ops: tuple[Op, Op]) -> np.ndarray:
        """What operands add to a set: their own set if they are the same kind of node, else the mixed value."""
        mixed = mix(values + np.uint64(key(self.owner.seed, "member", self.level)))
        codes = self.plan.codes.take(ids)
        nested = (codes == ops[0]) | (codes == ops[1])
        if nested.any():
            mixed[nested] = self.sets[ids[nested]]
        return mixed

    def set_value(self, total: np.ndarray) -> np.ndarray:
        """The field element of a set hash."""
        return self.field.reduce(mix(total + np.uint64(key(self.owner.seed, "set", self.level))))


def _chunks(step: Step, points: int) -> list[Step]:
    """A step in pieces of bounded temporaries."""
    count = len(step.need)
    if step.rows is not None and step.cols is not None:
        _, m, k = step.rows.shape
        size = max(1, _DOT_CHUNK // max(1, (m + step.cols.shape[1]) * k * points))
    elif step.operands is not None:
        size = max(1, _CHUNK // max(1, step.operands.shape[1]))
    else:
        size = _CHUNK
    return [step] if count <= size else [step.pick(slice(start, start + size)) for start in range(0, count, size)]


# --- evaluators: one per operator ----------------------------------------------------------------

Evaluator = Callable[[_Level, Step], np.ndarray]
EVALUATORS: dict[Op, Evaluator] = {}


def _evaluates(*ops: Op) -> Callable[[Evaluator], Evaluator]:
    def register(function: Evaluator) -> Evaluator:
        for op in ops:
            if op in EVALUATORS:
                raise KeyError(f"two evaluators for {op.name}")
            EVALUATORS[op] = function
        return function

    return register


def _get(level: _Level, ids: "np.ndarray | None") -> np.ndarray:
    assert ids is not None
    return level.get(ids)


@_evaluates(Op.CONST)
def _const(level: _Level, step: Step) -> np.ndarray:
    assert step.a is not None
    return np.array([level.constant(level.arena.consts[int(i)]) for i in step.a], np.uint64)


@_evaluates(Op.ADD)
def _add(level: _Level, step: Step) -> np.ndarray:
    return level.field.add(_get(level, step.a), _get(level, step.b))


@_evaluates(Op.SUB)
def _sub(level: _Level, step: Step) -> np.ndarray:
    return level.field.sub(_get(level, step.a), _get(level, step.b))


@_evaluates(Op.MUL)
def _mul(level: _Level, step: Step) -> np.ndarray:
    return level.field.mul(_get(level, step.a), _get(level, step.b))


@_evaluates(Op.NEG)
def _neg(level: _Level, step: Step) -> np.ndarray:
    return level.field.neg(_get(level, step.a))


@_evaluates(Op.FMA)
def _fma(level: _Level, step: Step) -> np.ndarray:
    return level.field.fma(_get(level, step.a), _get(level, step.b), _get(level, step.c))


def _quotient(level: _Level, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x / y; where y is 0 the quotient is a random function of x, like any undefined value."""
    result = level.field.mul(x, level.field.inverse(y))
    zero = y == 0
    if zero.any():
        result[zero] = level.hashed("x/0", x)[zero]
    return result


@_evaluates(Op.DIV)
def _div(level: _Level, step: Step) -> np.ndarray:
    return _quotient(level, _get(level, step.a), _get(level, step.b))


@_evaluates(Op.EXP2)
def _exp2(level: _Level, step: Step) -> np.ndarray:
    assert step.a is not None
    exponent = level.raised(step.a)
    return level.hashed("exp2", level.get(step.a)) if exponent is None else level.field.exp2(exponent)


@_evaluates(Op.TANH)
def _tanh(level: _Level, step: Step) -> np.ndarray:
    """(e^2x - 1) / (e^2x + 1)."""
    assert step.a is not None
    exponent, above = level.raised(step.a), level.owner.above(level.level)
    if exponent is None or above is None:
        return level.hashed("tanh", level.get(step.a))
    scale = np.array(above.constant(Const(2 * ONE.coef, log2e=1)), np.uint64)
    power = level.field.exp2(above.field.mul(exponent, scale))
    return _quotient(level, level.field.sub(power, np.full_like(power, 1)), level.field.add(power, np.full_like(power, 1)))


def _pair_set(level: _Level, step: Step, ops: tuple[Op, Op], negated: bool) -> np.ndarray:
    """MAX as a hash of the set of arguments; min(S) = -max(-S). max(x, x) = x, whatever x is made of."""
    assert step.a is not None and step.b is not None
    x, y = level.get(step.a), level.get(step.b)
    if negated:
        x, y = level.field.neg(x), level.field.neg(y)
    mixed, other = level.members(step.a, x, ops), level.members(step.b, y, ops)
    same = mixed == other
    total = mixed + np.where(same, np.uint64(0), other)
    level.sets[step.ids] = total
    result = np.where(same, x, level.set_value(total))
    return level.field.neg(result) if negated else result


def _row_set(level: _Level, step: Step, ops: tuple[Op, Op], negated: bool) -> np.ndarray:
    """NMAX likewise; an id that stands twice in a row counts once."""
    assert step.operands is not None
    operands = np.sort(step.operands, axis=1)
    values = level.get(operands)
    if negated:
        values = level.field.neg(values)
    mixed = level.members(operands, values, ops)
    same = (mixed == mixed[:, :1]).all(axis=1)
    mixed[:, 1:][operands[:, 1:] == operands[:, :-1]] = 0
    total = np.where(same, mixed[:, 0], mixed.sum(axis=1, dtype=np.uint64))
    level.sets[step.ids] = total
    result = np.where(same, values[:, 0], level.set_value(total))
    return level.field.neg(result) if negated else result


@_evaluates(Op.MAX, Op.NMAX)
def _max(level: _Level, step: Step) -> np.ndarray:
    make = _pair_set if step.op is Op.MAX else _row_set
    return make(level, step, (Op.MAX, Op.NMAX), False)


@_evaluates(Op.MIN, Op.NMIN)
def _min(level: _Level, step: Step) -> np.ndarray:
    make = _pair_set if step.op is Op.MIN else _row_set
    return make(level, step, (Op.MIN, Op.NMIN), True)


@_evaluates(Op.ABS)
def _abs(level: _Level, step: Step) -> np.ndarray:
    """max(x, -x), as the set hash has it."""
    x = _get(level, step.a)
    seed = level.owner.seed
    member = np.uint64(key(seed, "member", level.level))
    total = mix(x + member) + mix(level.field.neg(x) + member)
    return np.where(x == 0, x, level.set_value(total))


@_evaluates(Op.SIN, Op.ERF)
def _odd(level: _Level, step: Step) -> np.ndarray:
    x = _get(level, step.a)
    return level.field.mul(x, level.hashed(step.op.name, level.field.mul(x, x)))


@_evaluates(Op.COS)
def _even(level: _Level, step: Step) -> np.ndarray:
    x = _get(level, step.a)
    return level.hashed(step.op.name, level.field.mul(x, x))


@_evaluates(Op.LOG2, Op.SQRT, Op.FLOOR, Op.CEIL, Op.ROUND_EVEN, Op.TRUNC)
def _unary(level: _Level, step: Step) -> np.ndarray:
    return level.hashed(step.op.name, _get(level, step.a))


@_evaluates(Op.POW)
def _pow(level: _Level, step: Step) -> np.ndarray:
    """Powers with a small constant whole exponent are products; any other is a hash."""
    assert step.b is not None
    base = _get(level, step.a)
    result = level.hashed("pow", base, level.get(step.b))
    for exponent in np.unique(step.b[step.b < level.plan.constants]):
        const = level.arena.consts[int(exponent)]
        if const.is_rational and const.coef.denominator == 1 and abs(const.coef) <= 64:
            chosen = step.b == exponent
            power = level.field.power(base[chosen], abs(int(const.coef)))
            result[chosen] = power if const.coef >= 0 else _quotient(level, np.ones_like(power), power)
    return result


@_evaluates(Op.DOT)
def _dot(level: _Level, step: Step) -> np.ndarray:
    assert step.rows is not None and step.cols is not None and step.c is not None
    rows = np.moveaxis(level.get(step.rows), -1, 0)
    cols = np.moveaxis(level.get(step.cols), -1, 0).swapaxes(-1, -2)
    product = np.moveaxis(level.field.matmul(rows, cols), 0, -1)
    return level.field.add(product, level.get(step.c))


@_evaluates(Op.NSUM)
def _nsum(level: _Level, step: Step) -> np.ndarray:
    return level.field.total(_get(level, step.operands), axis=1)


# Predicates are elements of the field, 1 and 0 where they are known; not, and, or are 1 - a, a*b, a + b - a*b, and a
# comparison depends on the difference of its sides only.


def _less(level: _Level, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return level.hashed("<", level.field.sub(y, x))


def _not_(level: _Level, x: np.ndarray) -> np.ndarray:
    return level.field.sub(np.ones_like(x), x)


@_evaluates(Op.LT)
def _lt(level: _Level, step: Step) -> np.ndarray:
    return _less(level, _get(level, step.a), _get(level, step.b))


@_evaluates(Op.LE)
def _le(level: _Level, step: Step) -> np.ndarray:
    return _not_(level, _less(level, _get(level, step.b), _get(level, step.a)))


def _equal(level: _Level, step: Step) -> np.ndarray:
    difference = level.field.sub(_get(level, step.a), _get(level, step.b))
    hashed = level.hashed("==", level.field.mul(difference, difference))
    return np.where(difference == 0, np.uint64(1), hashed)


@_evaluates(Op.EQ)
def _eq(level: _Level, step: Step) -> np.ndarray:
    return _equal(level, step)


@_evaluates(Op.NE)
def _ne(level: _Level, step: Step) -> np.ndarray:
    return _not_(level, _equal(level, step))


@_evaluates(Op.AND)
def _and(level: _Level, step: Step) -> np.ndarray:
    x, y = _get(level, step.a), _get(level, step.b)
    return np.where(x == y, x, level.field.mul(x, y))


@_evaluates(Op.OR)
def _or(level: _Level, step: Step) -> np.ndarray:
    x, y = _get(level, step.a), _get(level, step.b)
    return np.where(x == y, x, level.field.sub(level.field.add(x, y), level.field.mul(x, y)))


@_evaluates(Op.NOT)
def _not(level: _Level, step: Step) -> np.ndarray:
    return _not_(level, _get(level, step.a))


@_evaluates(Op.ITE)
def _ite(level: _Level, step: Step) -> np.ndarray:
    """b + condition * (a - b): linear in the condition, so that select(not c, a, b) = select(c, b, a)."""
    condition, yes, no = _get(level, step.a), _get(level, step.b), _get(level, step.c)
    return level.field.fma(condition, level.field.sub(yes, no), no)


@_evaluates(Op.WRAP, Op.FIELD)
def _bits(level: _Level, step: Step) -> np.ndarray:
    plain = [x.astype(np.int64).astype(np.uint64)[:, None] for x in (step.b, step.c) if x is not None]
    return level.hashed(step.op.name, _get(level, step.a), *plain)


@_evaluates(Op.FLOORDIV, Op.TRUNCDIV, Op.TRUNCREM)
def _integer_division(level: _Level, step: Step) -> np.ndarray:
    return level.hashed(step.op.name, _get(level, step.a), _get(level, step.b))


@_evaluates(Op.BITAND, Op.BITOR, Op.BITXOR)
def _bitwise(level: _Level, step: Step) -> np.ndarray:
    """Symmetric; and, or are idempotent, xor with itself is 0."""
    x, y = _get(level, step.a), _get(level, step.b)
    hashed = level.hashed(step.op.name, level.field.add(x, y), level.field.mul(x, y))
    return np.where(x == y, np.zeros_like(x) if step.op is Op.BITXOR else x, hashed)


@_evaluates(Op.SHL, Op.SHR)
def _shift(level: _Level, step: Step) -> np.ndarray:
    """By a constant: a product with, or a floor division by, a power of two."""
    assert step.b is not None
    x = _get(level, step.a)
    result = level.hashed(step.op.name, x, level.get(step.b))
    for amount in np.unique(step.b[step.b < level.plan.constants]):
        const = level.arena.consts[int(amount)]
        if const.is_rational and const.coef.denominator == 1 and 0 <= const.coef <= 64:
            chosen = step.b == amount
            power = np.uint64(pow(2, int(const.coef), level.field.p))
            part = x[chosen]
            result[chosen] = (
                level.field.mul(part, np.full_like(part, power))
                if step.op is Op.SHL
                else level.hashed("FLOORDIV", part, np.full_like(part, power))
            )
    return result


@_evaluates(Op.OPAQUE)
def _opaque(level: _Level, step: Step) -> np.ndarray:
    assert step.c is not None
    names = [key(0, "opaque", name) for name in level.arena.opaque_names]
    return level.hashed("opaque", _get(level, step.a), _get(level, step.b), np.array(names, np.uint64)[step.c][:, None])
