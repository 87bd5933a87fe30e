"""What tile programs mean, against NumPy: every operation, on ragged tiles, in loops, under conditions.

(No lazy annotations here: TileLang reads those of its kernels where they stand.)
"""

import numpy as np
import pytest
import tilelang.language as T
from tile_cases import run

from ptx_engine.errors import NotStructuredError, UnsupportedError

RNG = np.random.default_rng(1)


def numbers(*shape: int) -> np.ndarray:
    return RNG.integers(-64, 64, shape) / 16


@pytest.mark.parametrize(("transpose_A", "transpose_B"), [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize("clear", [False, True])
def test_products_of_ragged_tiles(transpose_A: bool, transpose_B: bool, clear: bool) -> None:
    """Out of bounds a copy reads zero and writes nothing; clearing in the first step only sums all."""
    M, N, K, tile = 20, 24, 40, 16
    A_shape, B_shape = (K, M) if transpose_A else (M, K), (N, K) if transpose_B else (K, N)

    @T.prim_func
    def main(A: T.Tensor(A_shape, "float16"), B: T.Tensor(B_shape, "float16"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, tile), T.ceildiv(M, tile), threads=64) as (bx, by):
            a = T.alloc_shared((tile, tile), "float16")
            b = T.alloc_shared((tile, tile), "float16")
            c = T.alloc_fragment((tile, tile), "float32")
            if not clear:
                T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, tile), num_stages=2):
                if transpose_A:
                    T.copy(A[k * tile, by * tile], a)
                else:
                    T.copy(A[by * tile, k * tile], a)
                if transpose_B:
                    T.copy(B[bx * tile, k * tile], b)
                else:
                    T.copy(B[k * tile, bx * tile], b)
                T.gemm(a, b, c, transpose_A=transpose_A, transpose_B=transpose_B, clear_accum=(k == 0) if clear else False)
            T.copy(c, C[by * tile, bx * tile])

    a, b = numbers(*A_shape), numbers(*B_shape)
    found = run(main, {"A": a, "B": b, "C": np.zeros((M, N))}).numbers["C"]
    np.testing.assert_allclose(found, (a.T if transpose_A else a) @ (b.T if transpose_B else b))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("sum", lambda x: x.sum(1)), ("max", lambda x: x.max(1)), ("min", lambda x: x.min(1)),
        ("absmax", lambda x: np.abs(x).max(1)), ("abssum", lambda x: np.abs(x).sum(1)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_reductions(kind: str, expected: object, dtype: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((8, 16), dtype), B: T.Tensor((8,), dtype)):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((8, 16), dtype)
            y = T.alloc_fragment((8,), dtype)
            T.copy(A, x)
            getattr(T, f"reduce_{kind}")(x, y, dim=1)
            T.copy(y, B)

    a = numbers(8, 16) if dtype == "float32" else RNG.integers(-99, 99, (8, 16))
    np.testing.assert_allclose(run(main, {"A": a, "B": np.zeros(8)}).numbers["B"], expected(a))  # type: ignore[operator]


@pytest.mark.parametrize(("kind", "combine"), [("sum", np.add), ("max", np.maximum), ("min", np.minimum)])
def test_reductions_onto_what_was_there(kind: str, combine: np.ufunc) -> None:
    @T.prim_func
    def main(A: T.Tensor((8, 16), "float32"), B: T.Tensor((16,), "float32")):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((8, 16), "float32")
            y = T.alloc_fragment((16,), "float32")
            T.copy(A, x)
            T.copy(B, y)
            getattr(T, f"reduce_{kind}")(x, y, dim=0, clear=False)
            T.copy(y, B)

    a, b = numbers(8, 16), numbers(16)
    np.testing.assert_allclose(run(main, {"A": a, "B": b}).numbers["B"], combine.reduce(np.vstack((b, a)), axis=0))


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("reverse", [False, True])
def test_prefix_sums(dim: int, reverse: bool) -> None:
    @T.prim_func
    def main(A: T.Tensor((8, 12), "float32"), B: T.Tensor((8, 12), "float32")):
        with T.Kernel(1, threads=32):
            x = T.alloc_shared((8, 12), "float32")
            T.copy(A, x)
            T.cumsum(x, dim=dim, reverse=reverse)
            T.copy(x, B)

    a = numbers(8, 12)
    turned = np.flip(a, dim) if reverse else a
    expected = np.cumsum(turned, axis=dim)
    np.testing.assert_allclose(run(main, {"A": a, "B": a}).numbers["B"], np.flip(expected, dim) if reverse else expected)


def test_conditions_bindings_and_ragged_elements() -> None:
    """The last block of rows reaches out of bounds: reads give zero, stores vanish."""

    @T.prim_func
    def main(A: T.Tensor((20, 16), "float32"), s: T.float32, B: T.Tensor((20, 16), "float32")):
        with T.Kernel(2, threads=64) as bx:
            for i, j in T.Parallel(16, 16):
                row = bx * 16 + i
                x = A[row, j] * s
                if j > i:
                    B[row, j] = x
                elif j == i:
                    B[row, j] = T.if_then_else(x > 0, x, -2.0 * x)
                else:
                    B[row, j] = T.max(A[row, j // 2], A[row, 15 - j])

    a, s = numbers(20, 16), 1.5
    i, j = np.arange(20)[:, None] % 16, np.arange(16)[None, :]
    x = a * s
    diagonal = np.where(x > 0, x, -2 * x)
    below = np.maximum(a[:, np.arange(16) // 2], a[:, ::-1])
    expected = np.where(j > i, x, np.where(j == i, diagonal, below))
    found = run(main, {"A": a, "s": s, "B": np.zeros((20, 16))})
    np.testing.assert_allclose(found.numbers["B"], expected)
    assert not found.findings


def test_loops_whose_bounds_differ_between_blocks() -> None:
    @T.prim_func
    def main(A: T.Tensor((4, 8), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(4, threads=32) as bx:
            total = T.alloc_var("float32", init=1.0)
            for k in T.serial(bx, 8, 2):
                total += A[bx, k]
            if bx % 2 == 1:
                total = total * 2.0
            B[bx] = total

    a = numbers(4, 8)
    expected = [(1 + a[b, b::2].sum()) * (2 if b % 2 else 1) for b in range(4)]
    np.testing.assert_allclose(run(main, {"A": a, "B": np.zeros(4)}).numbers["B"], expected)


def test_while_and_loops_in_parallel_loops() -> None:
    @T.prim_func
    def main(A: T.Tensor((8, 8), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((8,), "float32")
            n = T.alloc_var("int32", init=0)
            T.clear(x)
            for i in T.Parallel(8):
                for k in T.serial(i + 1):
                    x[i] += A[i, k]
            while n < 3:
                for i in T.Parallel(8):
                    x[i] = x[i] * 2.0
                n = n + 1
            T.copy(x, B)

    a = numbers(8, 8)
    np.testing.assert_allclose(run(main, {"A": a, "B": np.zeros(8)}).numbers["B"], 8 * np.tril(a).sum(1))


def test_a_condition_on_data_selects() -> None:
    @T.prim_func
    def main(A: T.Tensor((16,), "float32"), B: T.Tensor((16,), "float32")):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((16,), "float32")
            T.fill(x, 5.0)
            for i in T.Parallel(16):
                if A[i] > 0:
                    x[i] = A[i]
                else:
                    x[i] = x[i] - A[i]
            T.copy(x, B)

    a = numbers(16)
    np.testing.assert_allclose(run(main, {"A": a, "B": np.zeros(16)}).numbers["B"], np.where(a > 0, a, 5 - a))


INTEGERS = {
    "sum": (lambda a, b: a + b, lambda a, b: a + b), "product": (lambda a, b: a * b, lambda a, b: a * b),
    "bits": (lambda a, b: (a & b) | (a ^ 5), lambda a, b: (a & b) | (a ^ 5)),
    "shifts": (lambda a, b: (a >> 3) + (b << 2), lambda a, b: (a >> 3) + (b << 2)),
    "floor": (lambda a, b: a // 4 - b % 8, lambda a, b: a // 4 - b % 8),
    "least": (lambda a, b: T.min(a, b), np.minimum), "order": (lambda a, b: T.if_then_else(a < b, a, b), np.minimum),
}  # fmt: skip


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("dtype", ["int32", "uint8", "int8", "uint32"])
@pytest.mark.parametrize("concrete", [False, True])
def test_integers_wrap_at_their_width(name: str, dtype: str, concrete: bool) -> None:
    formula, expected = INTEGERS[name]

    @T.prim_func
    def main(A: T.Tensor((64,), dtype), B: T.Tensor((64,), dtype), C: T.Tensor((64,), dtype)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(64):
                C[i] = formula(A[i], B[i])

    info, most = np.iinfo(dtype), 1 << 26 if name == "product" else 1 << 32  # (products are checked in float64)
    a, b = (RNG.integers(max(info.min, -most), min(info.max, most), 64, endpoint=True).astype(dtype) for _ in range(2))
    with np.errstate(over="ignore"):
        wanted = expected(a, b).astype(dtype)
    found = run(main, {"A": a, "B": b, "C": a}, fixed=("A", "B") if concrete else ()).numbers["C"]
    np.testing.assert_array_equal(found, wanted.astype(np.float64))


def test_packed_halves_of_bytes() -> None:
    @T.prim_func
    def main(A: T.Tensor((4, 8), "uint8"), B: T.Tensor((4, 16), "float16")):
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(4, 16):
                B[i, j] = T.cast((A[i, j // 2] >> T.cast(j % 2 * 4, "uint8")) & T.uint8(15), "float16") - T.cast(8, "float16")

    a = RNG.integers(0, 255, (4, 8), endpoint=True).astype(np.uint8)
    expected = np.stack((a & 15, a >> 4), -1).reshape(4, 16).astype(float) - 8
    np.testing.assert_array_equal(run(main, {"A": a, "B": np.zeros((4, 16))}).numbers["B"], expected)


@pytest.mark.parametrize(
    ("before", "after", "values"),
    [
        ("float32", "int32", [-2.5, -0.5, 0.5, 2.75]), ("int8", "float32", [-128, -1, 0, 127]), ("uint8", "int8", [0, 127, 128, 255]),
        ("int32", "uint8", [-1, 255, 256, 1000]), ("int8", "uint32", [-1, -128, 5, 0]), ("float32", "float8_e4m3fn", [1.5, 1e6, -1e6, 0]),
        ("uint8", "bool", [0, 1, 2, 255]),
    ],
)  # fmt: skip
def test_conversions(before: str, after: str, values: list[float]) -> None:
    stored = "uint8" if after == "bool" else after

    @T.prim_func
    def main(A: T.Tensor((4,), before), B: T.Tensor((4,), stored)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                B[i] = T.cast(T.cast(A[i], after), stored)

    a = np.array(values)
    if after == "float8_e4m3fn":
        expected = np.clip(a, -448, 448)
    elif after == "bool":
        expected = (a != 0).astype(float)
    else:
        with np.errstate(invalid="ignore"):
            expected = np.trunc(a).astype(np.int64).astype(after).astype(float)
    np.testing.assert_array_equal(run(main, {"A": a, "B": a}).numbers["B"], expected)


FUNCTIONS = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "sqrt": np.sqrt, "tanh": np.tanh, "sin": np.sin, "cos": np.cos,
    "floor": np.floor, "ceil": np.ceil, "abs": np.abs, "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "rsqrt": lambda x: 1 / np.sqrt(x),
    "trunc": np.trunc, "nearbyint": np.rint, "__exp": np.exp, "__log2": np.log2,
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((16,), "float32"), B: T.Tensor((16,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(16):
                B[i] = getattr(T, name)(A[i])

    a = np.abs(numbers(16)) + 0.25
    np.testing.assert_allclose(run(main, {"A": a, "B": a}).numbers["B"], FUNCTIONS[name](a), rtol=1e-12)


def test_clamps_and_infinities() -> None:
    @T.prim_func
    def main(A: T.Tensor((16,), "float32"), B: T.Tensor((16,), "float32")):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((16,), "float32")
            T.fill(x, -T.infinity("float32"))
            for i in T.Parallel(16):
                B[i] = T.clamp(T.max(A[i], x[i]), -1.0, 2.0)

    a = numbers(16)
    np.testing.assert_allclose(run(main, {"A": a, "B": a}).numbers["B"], np.clip(a, -1, 2))


@pytest.mark.parametrize("whole", [False, True])
def test_atomic_sums_of_all_blocks(whole: bool) -> None:
    @T.prim_func
    def main(A: T.Tensor((24, 8), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(3, threads=32) as bx:
            x = T.alloc_fragment((8, 8), "float32")
            y = T.alloc_fragment((8,), "float32")
            T.copy(A[bx * 8, 0], x)
            T.reduce_sum(x, y, dim=0)
            if whole:
                T.atomic_add(B, y)
            else:
                for i in T.Parallel(8):
                    T.atomic_add(B[i], y[i])

    a, b = numbers(24, 8), numbers(8)
    found = run(main, {"A": a, "B": b})
    np.testing.assert_allclose(found.numbers["B"], b + a.sum(0))
    assert not found.findings


def test_plain_sums_of_all_blocks_are_a_race() -> None:
    @T.prim_func
    def main(A: T.Tensor((16,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(2, threads=32) as bx:
            for i in T.Parallel(8):
                B[i] = B[i] + A[bx * 8 + i]

    assert any("race" in f.kind or "conflict" in f.kind for f in run(main, {"A": numbers(16), "B": numbers(8)}).findings)


@pytest.mark.parametrize(("name", "any_zero"), [("any_of", True), ("all_of", False)])
def test_conditions_on_adjacent_elements(name: str, any_zero: bool) -> None:
    @T.prim_func
    def main(M: T.Tensor((4, 8), "int32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=32):
            m = T.alloc_shared((4, 8), "int32")
            T.copy(M, m)
            for i in T.serial(4):
                if getattr(T, name)(m[i, 2:6]):
                    B[i] = 1.0
                else:
                    B[i] = 0.0

    mask = RNG.integers(0, 2, (4, 8))
    mask[0], mask[1] = 0, 1
    found = run(main, {"M": mask, "B": np.zeros(4)}, fixed=("M",)).numbers["B"]
    np.testing.assert_array_equal(found, (mask[:, 2:6] != 0).any(1) if any_zero else (mask[:, 2:6] != 0).all(1))


def test_tiles_of_more_dimensions_and_other_shapes() -> None:
    @T.prim_func
    def main(A: T.Tensor((2, 16, 3, 8), "float32"), B: T.Tensor((2, 3, 128), "float32")):
        with T.Kernel(3, 2, threads=32) as (bx, by):
            x = T.alloc_shared((16, 8), "float32")
            T.copy(A[by, 0:16, bx, :], x)
            T.copy(T.reshape(x, (128,)), B[by, bx, :])

    a = numbers(2, 16, 3, 8)
    np.testing.assert_array_equal(run(main, {"A": a, "B": np.zeros((2, 3, 128))}).numbers["B"], a.transpose(0, 2, 1, 3).reshape(2, 3, 128))


def test_symbolic_extents_and_strides() -> None:
    M, N = T.dynamic("m, n")

    @T.prim_func
    def main(A: T.Tensor((M, N), "float32"), B: T.Tensor((N, M), "float32")):
        with T.Kernel(T.ceildiv(N, 8), T.ceildiv(M, 8), threads=32) as (bx, by):
            for i, j in T.Parallel(8, 8):
                B[bx * 8 + j, by * 8 + i] = A[by * 8 + i, bx * 8 + j]

    a = numbers(10, 13)
    np.testing.assert_array_equal(run(main, {"A": a, "B": a.T}, grid=(2, 2, 1)).numbers["B"], a.T)


# --- what has no one meaning, and what has none here --------------------------------------------------


def shifted(offset: int) -> object:
    @T.prim_func
    def main(A: T.Tensor((16,), "float32"), B: T.Tensor((16,), "float32")):
        with T.Kernel(1, threads=32):
            x = T.alloc_shared((32,), "float32")
            T.clear(x)
            T.copy(A, x[0:16])
            for i in T.Parallel(16):
                x[i] = x[i + offset] * 2.0
            T.copy(x[0:16], B)

    return main


def test_iterations_that_depend_on_each_other_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="depend on each other through x"):
        run(shifted(1), {"A": numbers(16), "B": numbers(16)})
    a = numbers(16)
    np.testing.assert_array_equal(run(shifted(0), {"A": a, "B": a}).numbers["B"], 2 * a)
    assert np.array_equal(run(shifted(16), {"A": a, "B": a}).numbers["B"], np.zeros(16))


def test_iterations_that_write_one_element_are_refused() -> None:
    def summed(own: bool) -> object:
        @T.prim_func
        def main(A: T.Tensor((8, 8), "float32"), B: T.Tensor((8,), "float32")):
            with T.Kernel(1, threads=32):
                x = T.alloc_shared((8, 8), "float32")
                for i, j in T.Parallel(8, 8):
                    x[i, j if own else 0] = A[i, j]
                T.copy(x[0:8, 0], B)

        return main

    with pytest.raises(UnsupportedError, match="different values to one element of x"):
        run(summed(own=False), {"A": numbers(8, 8), "B": numbers(8)})
    a = numbers(8, 8)
    np.testing.assert_array_equal(run(summed(own=True), {"A": a, "B": numbers(8)}).numbers["B"], a[:, 0])


def test_memory_that_nothing_wrote_and_bounds_of_own_buffers() -> None:
    @T.prim_func
    def main(A: T.Tensor((16,), "float32"), B: T.Tensor((16,), "float32")):
        with T.Kernel(1, threads=32):
            x = T.alloc_shared((8,), "float32")
            for i in T.Parallel(8):
                x[i] = A[i]
            for i in T.Parallel(16):
                B[i] = x[i]

    found = run(main, {"A": numbers(16), "B": numbers(16)})
    assert [f.kind for f in found.findings] == ["out of bounds"]
    assert np.isnan(found.numbers["B"][8:]).all()


def test_what_has_no_tile_semantics_is_named_with_its_line() -> None:
    @T.prim_func
    def main(A: T.Tensor((16,), "float32")):
        with T.Kernel(1, threads=32):
            T.call_extern("handle", "mystery", A.data)

    with pytest.raises(UnsupportedError, match="call_extern mystery has no tile semantics") as raised:
        run(main, {"A": numbers(16)})
    assert "test_tile_programs.py" in raised.value.user_loc


def test_thread_indices_are_refused() -> None:
    @T.prim_func
    def main(A: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            A[tx] = 1.0

    with pytest.raises(UnsupportedError, match="the index of a thread"):
        run(main, {"A": numbers(32)})


def test_an_index_that_is_data_needs_its_contents() -> None:
    @T.prim_func
    def main(I: T.Tensor((16,), "int32"), A: T.Tensor((16,), "float32"), B: T.Tensor((16,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(16):
                B[i] = A[I[i]]

    order, a = RNG.permutation(16), numbers(16)
    with pytest.raises(NotStructuredError, match="an index depends on symbolic data"):
        run(main, {"I": order, "A": a, "B": a})
    np.testing.assert_array_equal(run(main, {"I": order, "A": a, "B": a}, fixed=("I",)).numbers["B"], a[order])
