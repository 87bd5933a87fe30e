"""Fingerprints: terms evaluated at random points of finite fields, level by level over the whole arena.

A point gives every input a random value in each field of the chain (``field``). A term has a value in F_p0 and, where it
stands under an exponential, in F_p1 (and F_p2 below two): EXP2 maps the upper part w to 2^w, so 2^a * 2^b = 2^(a + b).
Sums, products and quotients are those of the field; max and min are hashes of the set of their arguments; any other
function is a hash of its arguments. Equal polynomials of exponentials have equal fingerprints; different ones agree at a
point with probability at most degree / 2^29. A match is evidence, a mismatch a suspicion: neither is a verdict.

Values depend on seed, input name, index and point only: they can be stored and compared between processes and machines.
"""

from __future__ import annotations

import numpy as np

from ptx_engine.decide.field import GOLDEN, Field, fields, key, mix
from ptx_engine.decide.fingerprint_ops import EVALUATORS
from ptx_engine.decide.levels import LEVELS, Plan, Step, plan, store
from ptx_engine.terms.arena import Arena
from ptx_engine.terms.constants import Const
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
        self._levels: dict[int, Level] = {}
        for level in self.plan.levels:
            part = Level(self, level)
            self._levels[level] = part
            part.run()

    def above(self, level: int) -> "Level | None":
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
    if not ids.size:
        return np.zeros((*ids.shape, points), np.uint32)
    return Fingerprints(arena, ids, seed=seed, points=points).of(ids.ravel()).reshape(*ids.shape, points)


def input_values(seed: int, name: str, index: np.ndarray, level: int, points: int) -> np.ndarray:
    """Values of input elements: (len(index), points), from a counter keyed by seed, tensor, level and point."""
    keys = np.array([key(seed, "input", name, level, point) for point in range(points)], np.uint64)
    return fields()[level].reduce(mix(index.astype(np.uint64)[:, None] * GOLDEN + keys))


class Level:
    """The evaluation in one field of the chain."""

    def __init__(self, owner: Fingerprints, level: int) -> None:
        self.owner, self.level, self.points = owner, level, owner.points
        self.field: Field = fields()[level]
        self.plan, self.arena = owner.plan, owner.arena
        self.values = np.zeros((self.plan.count, self.points), np.uint32)
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
            for name, power in (("log2e", const.log2e), ("pi", const.pi), ("log2(10)", const.log2ten)):
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
        """Set hashes of max and min nodes, by their number in ``extremes``: the sum of mixed members, so that nesting and order do
        not matter."""
        if self._sets is None:
            self._sets = np.zeros((int(self.plan.extremes[-1]), self.points), np.uint64)
        return self._sets

    def keep_set(self, ids: np.ndarray, total: np.ndarray) -> None:
        """Note the set hashes of max and min nodes."""
        self.sets[self.plan.extremes.take(ids)] = total

    def members(self, ids: np.ndarray, values: np.ndarray, ops: tuple[Op, Op]) -> np.ndarray:
        """What operands add to a set: their own set if they are the same kind of node, else the mixed value."""
        mixed = mix(values + np.uint64(key(self.owner.seed, "member", self.level)))
        codes = self.plan.codes.take(ids)
        nested = (codes == ops[0]) | (codes == ops[1])
        if nested.any():
            mixed[nested] = self.sets[self.plan.extremes.take(ids[nested])]
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
