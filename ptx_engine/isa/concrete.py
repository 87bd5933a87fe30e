"""The algebra of IEEE bits, for the concrete mode: registers are unsigned columns or Python ints, never terms.

Arithmetic is correctly rounded in the modifier's mode. ``dot`` (tensor cores) multiplies and adds in float64 and rounds
once to the accumulator's format; hardware adds in an unspecified order with fewer bits, so results differ within that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ptx_engine.errors import InternalError
from ptx_engine.isa.algebra import Function, Mode
from ptx_engine.isa.algebra_symbolic import nan_integer
from ptx_engine.isa.concrete_exact import directed, to_odd
from ptx_engine.isa.concrete_formats import LAYOUTS, canonical, decode, flush, infinity, is_nan, round_bits, round_stochastic, sign_bit
from ptx_engine.isa.concrete_operators import BUILDERS, Kernel, clamp_bits, evaluator
from ptx_engine.isa.values import INT, PARTLY, UINT, Fmt, Sym, Value, is_partial, split_bits, uninitialised

Word = "int | np.ndarray"


def concrete_bits(value: Value) -> "int | np.ndarray":
    """A register's bits. Raises for one never written."""
    if value is None:
        raise uninitialised()
    if is_partial(value):
        raise uninitialised(PARTLY)
    if isinstance(value, Sym):
        if any(fmt.kind != "bits" for fmt, _ in value.parts):  # bytes packed beside a register that was never written
            raise uninitialised()
        raise InternalError(f"a symbolic value in concrete mode: {value!r}"[:200])
    return value


def columns_of(values: Sequence[Value], bits: int) -> tuple[list[np.ndarray], bool]:
    """Registers as columns of one length and of the unsigned type of ``bits``; and whether all were uniform."""
    words = [concrete_bits(v) for v in values]
    n = max((w.size for w in words if isinstance(w, np.ndarray)), default=0)
    dtype = UINT[bits]
    mask = (1 << bits) - 1
    return [w.astype(dtype, copy=False) if isinstance(w, np.ndarray) else np.full(n or 1, int(w) & mask, dtype) for w in words], n == 0


def run_columns(kernel: Kernel, values: Sequence[Value], bits: int) -> Value:
    """A kernel over registers; uniform operands give a uniform result."""
    dtype = UINT[bits]
    if all(v.__class__ is np.ndarray and v.dtype is dtype for v in values):
        return kernel(*values)
    columns, uniform = columns_of(values, bits)
    result = kernel(*columns)
    return result[0].item() if uniform else result


def join_fields(fields: "Sequence[int | np.ndarray]", widths: Sequence[int]) -> "int | np.ndarray":
    """Fields side by side, low first, as one register of their total width."""
    total = sum(widths)
    if all(not isinstance(f, np.ndarray) for f in fields):
        word, shift = 0, 0
        for f, width in zip(fields, widths):
            word |= int(f) << shift
            shift += width
        return word
    dtype = UINT[total]
    column: "int | np.ndarray" = 0
    shift = 0
    for f, width in zip(fields, widths):
        piece = f.astype(dtype) if isinstance(f, np.ndarray) else dtype.type(int(f))
        column = column | (piece << dtype.type(shift))
        shift += width
    return column


class ConcreteAlgebra:
    """IEEE bits."""

    number = np.dtype(np.float64)

    def apply(self, operator: str, fmts: tuple[Fmt, ...], mode: Mode) -> Function:
        kernel, width = evaluator(operator, fmts[0], mode), fmts[0].bits
        if len(fmts) == 1:
            return lambda *values: run_columns(kernel, values, width)
        widths = [f.bits for f in fmts]

        def packed(*values: Value) -> Value:
            pieces = [split_bits(concrete_bits(v), widths) for v in values]
            results = [run_columns(kernel, row, width) for row in zip(*pieces)]
            return join_fields(results, widths)  # type: ignore[arg-type]

        return packed

    # --- conversions ----------------------------------------------------------------------------

    def convert(self, operator: str, source: tuple[Fmt, ...], target: tuple[Fmt, ...], mode: Mode) -> Function:
        kernel = converter(operator, source[0], target[0], mode)
        widths, out, width = [f.bits for f in source], [f.bits for f in target], source[0].bits
        if len(source) == 1:
            return lambda value: run_columns(kernel, (value,), width)

        def run(value: Value) -> Value:
            return join_fields([run_columns(kernel, (p,), width) for p in split_bits(concrete_bits(value), widths)], out)  # type: ignore[misc]

        return run

    def pack(self, source: Fmt, target: tuple[Fmt, ...], mode: Mode) -> Function:
        kernel, out = converter("id", source, target[0], mode), [f.bits for f in target]
        return lambda *values: join_fields([run_columns(kernel, (v,), source.bits) for v in values], out)  # type: ignore[misc]

    def pack_random(self, source: Fmt, target: tuple[Fmt, ...], places: tuple[tuple[int, int], ...], mode: Mode) -> Function:
        fmt, out = target[0], [f.bits for f in target]

        def kernel(word: np.ndarray, random: np.ndarray) -> np.ndarray:
            with np.errstate(all="ignore"):
                return clamp_bits(round_stochastic(decode(word, source), random, fmt, mode.satfinite), fmt, mode)

        def run(random: Value, *values: Value) -> Value:
            word = concrete_bits(random)
            shares = [((word >> lo) & mask) << (16 - width) for lo, width in places for mask in ((1 << width) - 1,)]
            return join_fields([run_columns(kernel, pair, 32) for pair in zip(values, shares)], out)  # type: ignore[misc]

        return run

    def from_integer(self, bits: int, signed: bool, target: Fmt, mode: Mode) -> Function:
        def kernel(column: np.ndarray) -> np.ndarray:
            with np.errstate(all="ignore"):
                values = column.view(INT[bits]) if signed else column
                if bits < 64:
                    rounded = round_bits(values.astype(np.float64), target, mode.rnd)
                else:
                    rounded = _round_wide(values, target, mode.rnd)
                return clamp_bits(rounded, target, mode)

        return lambda value: run_columns(kernel, (value,), bits)

    def to_integer(self, operator: str, source: Fmt, bits: int, signed: bool, mode: Mode) -> Function:
        lo, hi = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        register, nan = max(bits, 16), nan_integer(source.bits, bits, signed)
        integral = _INTEGRAL[operator]
        wide = np.dtype(np.int64 if signed else np.uint64)
        top, bottom = float(hi), float(lo)  # float(2^63 - 1) is 2^63: such values clamp

        def kernel(column: np.ndarray) -> np.ndarray:
            with np.errstate(all="ignore"):
                values = integral(decode(flush(column, source) if mode.ftz else column, source))
                over, under, bad = values >= top, values <= bottom, np.isnan(values)
                plain = np.where(over | under | bad, 0.0, values).astype(wide)
                result = np.where(over, wide.type(hi), np.where(under, wide.type(lo), plain))
                result = np.where(bad, wide.type(nan), result)
                return result.astype(INT[register] if signed else UINT[register]).view(UINT[register])

        return lambda value: run_columns(kernel, (value,), source.bits)

    # --- predicates -----------------------------------------------------------------------------

    def compare(self, cmp: str, fmts: tuple[Fmt, ...], mode: Mode) -> Callable[[Value, Value], list[Value]]:
        fmt, widths = fmts[0], [f.bits for f in fmts]

        def kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            if mode.ftz:
                a, b = flush(a, fmt), flush(b, fmt)
            with np.errstate(invalid="ignore"):
                return compare_reals(cmp, decode(a, fmt), decode(b, fmt))

        def run(x: Value, y: Value) -> list[Value]:
            pairs = zip(split_bits(concrete_bits(x), widths), split_bits(concrete_bits(y), widths))
            return [run_columns(kernel, pair, fmt.bits) for pair in pairs]

        if len(fmts) == 1:
            return lambda x, y: [run_columns(kernel, (x, y), fmt.bits)]
        return run

    def test(self, prop: str, fmt: Fmt) -> Function:
        sign, top, layout = sign_bit(fmt), infinity(fmt), LAYOUTS[fmt.name]
        least = layout.uint(1 << (layout.precision - 1))

        def kernel(bits: np.ndarray) -> np.ndarray:
            size = bits & ~sign
            table: dict[str, Callable[[], np.ndarray]] = {
                "finite": lambda: size < top, "infinite": lambda: size == top, "number": lambda: size <= top,
                "notanumber": lambda: size > top, "normal": lambda: (size < top) & ((size >= least) | (size == 0)),
                "subnormal": lambda: (size < least) & (size != 0),
            }  # fmt: skip
            return table[prop]()

        return lambda value: run_columns(kernel, (value,), fmt.bits)

    # --- numbers --------------------------------------------------------------------------------

    def read(self, value: Value, fmts: tuple[Fmt, ...], what: str) -> "list[int | float | np.ndarray]":
        pieces = split_bits(concrete_bits(value), [f.bits for f in fmts])
        numbers: list[int | float | np.ndarray] = []
        for piece, fmt in zip(pieces, fmts):
            column = piece if isinstance(piece, np.ndarray) else np.full(1, piece, UINT[max(fmt.bits, 8)])
            if fmt.kind == "float":
                values = decode(column.astype(UINT[fmt.bits], copy=False), fmt)
            else:
                values = _integers(column, fmt)
            numbers.append(values if isinstance(piece, np.ndarray) else values[0].item())
        return numbers

    def write(self, fmts: tuple[Fmt, ...], columns: Sequence[np.ndarray]) -> Value:
        with np.errstate(all="ignore"):
            fields = [
                round_bits(c, f, "rn") if f.kind == "float" else c.astype(np.int64).astype(UINT[f.bits]) for f, c in zip(fmts, columns)
            ]
        return fields[0] if len(fields) == 1 else join_fields(fields, [f.bits for f in fmts])

    def dot(self, rows: np.ndarray, cols: np.ndarray, acc: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.asarray(rows @ cols.swapaxes(-1, -2) + acc)


def _integers(column: np.ndarray, fmt: Fmt) -> np.ndarray:
    """Bits of an integer format (also narrower than a byte) as int64."""
    values = column.astype(np.int64) & ((1 << fmt.bits) - 1) if fmt.bits < 64 else column.view(np.int64)
    return np.where(values >> (fmt.bits - 1) & 1, values - (1 << fmt.bits), values) if fmt.lo < 0 and fmt.bits < 64 else values


_INTEGRAL: dict[str, Callable[[np.ndarray], np.ndarray]] = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def converter(operator: str, source: Fmt, target: Fmt, mode: Mode) -> Kernel:
    """Float to float on bits: ``operator`` is "id" or a rounding to an integral value; ``.ftz`` concerns f32 sides only."""
    integral = _INTEGRAL.get(operator)
    flush_in, flush_out = mode.ftz and source.name == "f32", mode.ftz and target.name == "f32"
    same = source.name == target.name

    def kernel(bits: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            if flush_in:
                bits = flush(bits, source)
            if same and integral is None:
                result = canonical(bits, target)
            elif target.name == "f64" and source.name != "f64" and integral is None:
                result = decode(bits, source).view(np.uint64)
            else:
                values = decode(bits, source)
                values = integral(values) if integral is not None else values
                result = round_bits(values, target, mode.rnd, mode.satfinite)
            if flush_out:
                result = flush(result, target)
            return clamp_bits(result, target, mode)

    return kernel


def _round_wide(values: np.ndarray, target: Fmt, rnd: str) -> np.ndarray:
    """64-bit integers to a float: the float64 neighbours are found first, since 53 bits do not hold them."""
    nearest = values.astype(np.float64)
    error = _integer_error(values, nearest)
    if target.name == "f64":
        return directed(nearest, error, rnd).view(np.uint64)
    return round_bits(to_odd(nearest, error), target, rnd)


def _integer_error(values: np.ndarray, nearest: np.ndarray) -> np.ndarray:
    """The sign of ``values - nearest``, exactly, also where ``nearest`` is 2^63 or 2^64."""
    low = values.astype(np.uint64) & np.uint64(0xFFFFFFFF)
    high = values >> values.dtype.type(32)
    return np.asarray((np.ldexp(high.astype(np.float64), 32) - nearest) + low.astype(np.float64))


def compare_reals(cmp: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """A float comparison of the ISA's table; the ``u`` forms also hold where an operand is NaN."""
    unordered = np.isnan(x) | np.isnan(y)
    if cmp in ("num", "nan"):
        return np.asarray(~unordered if cmp == "num" else unordered)
    loose = cmp.endswith("u")
    operator = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}[cmp[:2]]
    result = operator(x, y)
    return np.asarray(result | unordered if loose else result & ~unordered)


__all__ = ["BUILDERS", "ConcreteAlgebra", "compare_reals", "concrete_bits", "converter", "is_nan", "join_fields"]
