"""The algebra of the reals: operators emit terms; rounding, ``.ftz`` and approximation are the identity.

``.sat``, ``.relu`` and ``.satfinite`` are clamps. NaN and infinite constants behave as the ISA says; data are finite reals.
A zero counts as positive where an instruction copies signs, which is stated in the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from gmpy2 import mpq

from ptx_engine.errors import NotStructuredError
from ptx_engine.isa.algebra import ARITY, Function, Mode
from ptx_engine.isa.bits import integer_term, refused
from ptx_engine.isa.magnitude import LOW, rounded_sum
from ptx_engine.isa.values import F32, F64, UINT, Fmt, Sym, Value, as_parts, int_fmt, narrow, predicate_value, read_float, split_bits
from ptx_engine.terms import CONST_CAP, FALSE, NAN, NEG_INF, ONE, POS_INF, TRUE, UNDEF, ZERO, Arena, Ids, Op

Emit = Callable[..., Ids]

#: largest finite magnitude of each float format
MAX_FINITE = {
    "f16": mpq(65504), "bf16": mpq(255, 128) * mpq(2) ** 127, "e4m3": mpq(448), "e5m2": mpq(57344),
    "f32": (2 - mpq(1, 2**23)) * mpq(2) ** 127, "tf32": (2 - mpq(1, 2**10)) * mpq(2) ** 127,
}  # fmt: skip


def where_nan(ids: Ids, others: Ids, result: Ids) -> Ids:
    """``result`` in lanes where ``ids`` is the NaN constant, ``others`` elsewhere."""
    if isinstance(ids, int):
        return result if ids == NAN else others
    found = ids == NAN
    return np.where(found, np.int32(result) if isinstance(result, int) else result, others).astype(np.int32) if found.any() else others


def _positive_constant(arena: Arena, ids: Ids) -> bool:
    if not isinstance(ids, int) or not 0 <= ids < CONST_CAP or arena.consts[ids].special is not None:
        return False
    return bool(arena.consts[ids].coef > 0)


def maximum_nan(arena: Arena, a: Ids, b: Ids) -> Ids:
    """max that gives NaN where an operand is the NaN constant."""
    return where_nan(b, where_nan(a, arena.maximum(a, b), NAN), NAN)


def minimum_nan(arena: Arena, a: Ids, b: Ids) -> Ids:
    """min that gives NaN where an operand is the NaN constant."""
    return where_nan(b, where_nan(a, arena.minimum(a, b), NAN), NAN)


def _extremes() -> dict[str, Callable[[Arena], Emit]]:
    rows: dict[str, Callable[[Arena], Emit]] = {}
    for name, plain, propagating in (("max", Arena.maximum, maximum_nan), ("min", Arena.minimum, minimum_nan)):
        for nan, extreme in (("", plain), (".NaN", propagating)):
            rows[name + nan] = lambda arena, f=extreme: lambda a, b: f(arena, a, b)  # type: ignore[misc]
            rows[name + nan + ".abs"] = lambda arena, f=extreme: lambda a, b: f(arena, arena.abs(a), arena.abs(b))  # type: ignore[misc]
    return rows


def _unary(op: Op) -> Callable[[Arena], Emit]:
    return lambda arena: lambda x: arena.unary(op, x)


#: operator -> function of the arena that gives the emitter
EMITTERS: dict[str, Callable[[Arena], Emit]] = {
    "add": lambda arena: arena.add, "sub": lambda arena: arena.sub, "mul": lambda arena: arena.mul, "div": lambda arena: arena.div,
    "fma": lambda arena: arena.fma, "neg": lambda arena: arena.neg, "abs": lambda arena: arena.abs, "sqrt": lambda arena: arena.sqrt,
    "rcp": lambda arena: lambda x: arena.div(ONE, x), "rsqrt": lambda arena: lambda x: arena.div(ONE, arena.sqrt(x)),
    "ex2": lambda arena: arena.exp2, "lg2": lambda arena: arena.log2,
    "sin": _unary(Op.SIN), "cos": _unary(Op.COS), "tanh": _unary(Op.TANH),
    "id": lambda arena: lambda x: x,
    "rni": _unary(Op.ROUND_EVEN), "rzi": _unary(Op.TRUNC), "rmi": _unary(Op.FLOOR), "rpi": _unary(Op.CEIL),
    **_extremes(),
}  # fmt: skip

#: operators that look at sign bits: what each does with the two numbers and their 0/1 signs
SIGNED: dict[str, Callable[[Arena, Ids, Ids, Ids, Ids], Ids]] = {
    "copysign": lambda arena, a, b, p, q: arena.select(p, arena.neg(arena.abs(b)), arena.abs(b)),
    "min.xorsign.abs": lambda arena, a, b, p, q: _xorsign(arena, Arena.minimum, Arena.maximum, (a, b), (p, q)),
    "max.xorsign.abs": lambda arena, a, b, p, q: _xorsign(arena, Arena.maximum, None, (a, b), (p, q)),
    "min.NaN.xorsign.abs": lambda arena, a, b, p, q: _xorsign(arena, minimum_nan, maximum_nan, (a, b), (p, q)),
    "max.NaN.xorsign.abs": lambda arena, a, b, p, q: _xorsign(arena, maximum_nan, None, (a, b), (p, q)),
}


def _xorsign(arena: Arena, extreme: Emit, opposite: Emit | None, numbers: tuple[Ids, Ids], signs: tuple[Ids, Ids]) -> Ids:
    """The extreme of the magnitudes with the xor of the signs; min against a positive constant is a symmetric clamp."""
    for x, limit in (numbers, numbers[::-1]):
        if opposite is not None and _positive_constant(arena, limit):
            result: Ids = opposite(arena, extreme(arena, x, limit), arena.neg(limit))
            return result
    magnitude = extreme(arena, arena.abs(numbers[0]), arena.abs(numbers[1]))
    p, q = signs
    differ = arena.logic(Op.AND, arena.logic(Op.OR, p, q), arena.logic(Op.NOT, arena.logic(Op.AND, p, q)))
    return arena.select(differ, arena.neg(magnitude), magnitude)


def _with_large_sums(arena: Arena, operator: str, rnd: str) -> Emit:
    """f32 sums that are rounded to integers (``magnitude``); others are exact."""
    plain = EMITTERS[operator](arena)

    def emit(*ids: Ids) -> Ids:
        addend = ids[-1]
        if addend.__class__ is int and 0 <= addend < CONST_CAP:
            const = arena.consts[addend]
            if const.special is None and const.coef >= LOW:
                found = rounded_sum(arena, ids[0] if operator == "add" else arena.mul(ids[0], ids[1]), addend, rnd)
                if found is not None:
                    return found
        return plain(*ids)

    return emit


#: comparison -> (term operator, operands swapped)
TERMS: dict[str, tuple[Op, bool]] = {
    "eq": (Op.EQ, False), "ne": (Op.NE, False), "lt": (Op.LT, False), "le": (Op.LE, False), "gt": (Op.LT, True), "ge": (Op.LE, True),
}  # fmt: skip


def compare_terms(arena: Arena, cmp: str, x: Ids, y: Ids) -> Ids:
    """A comparison of two numbers as a 0/1 term; ordered comparisons are false on the NaN constant, the ``u`` forms true."""
    ordered = cmp in TERMS
    if cmp in ("num", "nan"):
        result: Ids = (TRUE if cmp == "num" else FALSE) if isinstance(x, int) and isinstance(y, int) else np.full(
            np.broadcast_shapes(np.shape(x), np.shape(y)), TRUE if cmp == "num" else FALSE, np.int32)  # fmt: skip
        on_nan = FALSE if cmp == "num" else TRUE
    else:
        op, swap = TERMS[cmp if ordered else cmp[:-1]]
        result = arena.compare(op, y, x) if swap else arena.compare(op, x, y)
        if ordered and op is not Op.NE:
            return result  # folded to false by the arena
        on_nan = FALSE if ordered else TRUE
    return where_nan(y, where_nan(x, result, on_nan), on_nan)


def is_special(ids: Ids, specials: tuple[int, ...]) -> "bool | np.ndarray":
    """Whether ids are one of some special constants."""
    return ids in specials if isinstance(ids, int) else np.isin(ids, specials)


class SymbolicAlgebra:
    """Terms of one arena."""

    number = np.dtype(np.int32)

    def __init__(self, arena: Arena) -> None:
        self.arena = arena

    # --- arithmetic -----------------------------------------------------------------------------

    def apply(self, operator: str, fmts: tuple[Fmt, ...], mode: Mode) -> Function:
        if operator in SIGNED:
            return self._apply_signed(operator, fmts)
        arena, emit = self.arena, EMITTERS[operator](self.arena)
        arena.beyond_floats |= F64 in fmts
        if operator in ("fma", "add") and fmts == (F32,):
            emit = _with_large_sums(arena, operator, mode.rnd)
        if mode.sat or mode.relu or mode.satfinite:
            bare, clamp = emit, self._clamp(fmts[0].name, mode)
            emit = lambda *ids: clamp(bare(*ids))  # noqa: E731
        if len(fmts) != 1:

            def packed(*values: Value) -> Value:
                columns = [self.read(v, fmts, operator) for v in values]
                return Sym(tuple((fmt, emit(*row)) for fmt, row in zip(fmts, zip(*columns))))

            return packed
        fmt = fmts[0]

        def one(x: Value) -> Value:
            return Sym(((fmt, emit(read_float(arena, x, fmt))),))

        def two(x: Value, y: Value) -> Value:
            return Sym(((fmt, emit(read_float(arena, x, fmt), read_float(arena, y, fmt))),))

        def three(x: Value, y: Value, z: Value) -> Value:
            return Sym(((fmt, emit(read_float(arena, x, fmt), read_float(arena, y, fmt), read_float(arena, z, fmt))),))

        by_arity: dict[int, Function] = {1: one, 2: two, 3: three}
        return by_arity[ARITY[operator]]

    def _apply_signed(self, operator: str, fmts: tuple[Fmt, ...]) -> Function:
        arena, emit = self.arena, SIGNED[operator]

        def run(a: Value, b: Value) -> Value:
            xs, ys = self.read(a, fmts, operator), self.read(b, fmts, operator)
            rows = zip(fmts, xs, ys, self._signs(a, xs, fmts), self._signs(b, ys, fmts))
            return Sym(tuple((fmt, emit(arena, x, y, p, q)) for fmt, x, y, p, q in rows))

        return run

    def _signs(self, value: Value, numbers: Sequence[Ids], fmts: tuple[Fmt, ...]) -> list[Ids]:
        """The sign of each part as 0/1: the sign bit of concrete bits, the comparison with zero of a term."""
        arena = self.arena
        if isinstance(value, Sym):
            bits: list[int | np.ndarray | None] = [ids if f.kind == "bits" else None for f, ids in value.parts]
        else:
            assert value is not None
            bits = list(split_bits(value, [f.bits for f in fmts]))
        signs: list[Ids] = []
        for piece, ids, fmt in zip(bits, numbers, fmts):
            if piece is None:
                arena.assumptions.setdefault("a zero whose sign is copied counts as positive")
                signs.append(arena.compare(Op.LT, ids, ZERO))
            elif isinstance(piece, int):
                signs.append(piece >> (fmt.bits - 1))
            else:
                signs.append((piece >> piece.dtype.type(fmt.bits - 1)).astype(np.int32))
        return signs

    def _clamp(self, target: str, mode: Mode) -> Emit:
        arena = self.arena
        steps: list[Emit] = []
        if mode.relu:
            steps.append(lambda x: maximum_nan(arena, x, ZERO))
        if mode.sat:
            steps.append(lambda x: arena.minimum(arena.maximum(x, ZERO), ONE))  # NaN gives +0
        if mode.satfinite and target in MAX_FINITE:
            top, bottom = arena.rational(MAX_FINITE[target]), arena.rational(-MAX_FINITE[target])
            steps.append(lambda x: minimum_nan(arena, maximum_nan(arena, x, bottom), top))

        def clamp(ids: Ids) -> Ids:
            for step in steps:
                ids = step(ids)
            return ids

        return clamp

    # --- conversions ----------------------------------------------------------------------------

    def convert(self, operator: str, source: tuple[Fmt, ...], target: tuple[Fmt, ...], mode: Mode) -> Function:
        emit, clamp = EMITTERS[operator](self.arena), self._clamp(target[0].name, mode)

        def run(value: Value) -> Value:
            return Sym(tuple((fmt, clamp(emit(ids))) for fmt, ids in zip(target, self.read(value, source, "cvt"))))

        return run

    def pack(self, source: Fmt, target: tuple[Fmt, ...], mode: Mode) -> Function:
        arena, clamp = self.arena, self._clamp(target[0].name, mode)

        def run(*values: Value) -> Value:
            return Sym(tuple((fmt, clamp(read_float(arena, v, source))) for fmt, v in zip(target, values)))

        return run

    def pack_random(self, source: Fmt, target: tuple[Fmt, ...], places: tuple[tuple[int, int], ...], mode: Mode) -> Function:
        convert = self.pack(source, target, mode)
        return lambda random, *values: convert(*values)

    def from_integer(self, bits: int, signed: bool, target: Fmt, mode: Mode) -> Function:
        arena, clamp = self.arena, self._clamp(target.name, mode)

        def run(value: Value) -> Value:
            number = integer_term(arena, narrow(value, bits), bits, signed)
            if number is None:
                raise refused("cvt", value)
            return Sym(((target, clamp(number[0])),))

        return run

    def to_integer(self, operator: str, source: Fmt, bits: int, signed: bool, mode: Mode) -> Function:
        arena, emit = self.arena, EMITTERS[operator](self.arena)
        lo, hi = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        top, bottom = arena.rational(hi), arena.rational(lo)
        register = max(bits, 16)
        nan = arena.rational(nan_integer(source.bits, bits, signed))

        def run(value: Value) -> Value:
            ids = emit(read_float(arena, value, source))
            ids = where_nan(ids, arena.minimum(arena.maximum(ids, bottom), top), nan)
            known = constant_integers(arena, ids)
            if known is None:
                return Sym(((int_fmt(register, lo, hi), ids),))
            return known & ((1 << register) - 1) if isinstance(known, int) else known.astype(np.int64).astype(UINT[register])

        return run

    # --- predicates -----------------------------------------------------------------------------

    def compare(self, cmp: str, fmts: tuple[Fmt, ...], mode: Mode) -> Callable[[Value, Value], list[Value]]:
        arena = self.arena
        arena.beyond_floats |= F64 in fmts
        if len(fmts) == 1:
            fmt = fmts[0]
            return lambda x, y: [predicate_value(compare_terms(arena, cmp, read_float(arena, x, fmt), read_float(arena, y, fmt)))]
        return lambda x, y: [
            predicate_value(compare_terms(arena, cmp, p, q)) for p, q in zip(self.read(x, fmts, "setp"), self.read(y, fmts, "setp"))
        ]

    def test(self, prop: str, fmt: Fmt) -> Function:
        arena = self.arena
        among = {"finite": (POS_INF, NEG_INF, NAN), "infinite": (POS_INF, NEG_INF), "number": (NAN,), "notanumber": (NAN,)}
        if prop not in among:
            raise NotStructuredError(f"testp.{prop} asks for a representation, which real numbers have not", feature=f"testp.{prop}")
        negative = prop in ("finite", "number")

        def run(value: Value) -> Value:
            ids = read_float(arena, value, fmt)
            if bool(np.any(is_special(ids, (UNDEF,)))):
                raise NotStructuredError("testp of an undefined value", feature="undefined value")
            found = is_special(ids, among[prop])
            return found ^ negative

        return run

    # --- numbers --------------------------------------------------------------------------------

    def read(self, value: Value, fmts: tuple[Fmt, ...], what: str) -> list[Ids]:
        if len(fmts) == 1 and fmts[0].kind == "float":
            return [read_float(self.arena, value, fmts[0])]
        found = as_parts(self.arena, value, fmts)
        if found is None:
            held = "+".join(f.name for f, _ in value.parts) if isinstance(value, Sym) else "concrete bits"
            raise NotStructuredError(f"{what}: an operand holds {held} where {'+'.join(f.name for f in fmts)} is read", feature=what)
        return found

    def write(self, fmts: tuple[Fmt, ...], columns: Sequence[np.ndarray]) -> Value:
        return Sym(tuple(zip(fmts, columns)))

    def dot(self, rows: np.ndarray, cols: np.ndarray, acc: np.ndarray) -> np.ndarray:
        return self.arena.dot(rows, cols, acc)


def nan_integer(source_bits: int, bits: int, signed: bool) -> int:
    """What NaN becomes as an integer: 0 between 32-bit and narrower types, else the type's top bit (ISA, cvt, integer notes)."""
    if source_bits != 64 and bits != 64:
        return 0
    return -(1 << bits - 1) if signed else 1 << bits - 1


def constant_integers(arena: Arena, ids: Ids) -> "int | np.ndarray | None":
    """Term ids as concrete integers, if every one of them is an integer constant."""
    if isinstance(ids, int):
        if not 0 <= ids < CONST_CAP:
            return None
        const = arena.consts[ids]
        return int(const.coef) if const.is_rational and const.coef.denominator == 1 else None
    if ids.size == 0 or int(ids.view(np.uint32).max()) >= CONST_CAP:
        return None
    unique, inverse = np.unique(ids, return_inverse=True)
    table = [arena.consts[int(u)] for u in unique]
    if not all(c.is_rational and c.coef.denominator == 1 and -(2**63) <= c.coef < 2**64 for c in table):
        return None
    numbers = np.array([int(c.coef) & (2**64 - 1) for c in table], np.uint64)
    return numbers.view(np.int64)[inverse].reshape(ids.shape)
