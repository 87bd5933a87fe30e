"""Tile programs as TileLang 0.1.14 makes them, whose threads are loops, say what those of newer versions say, whose threads are bound."""

import json

import numpy as np
import pytest
import tilelang  # (it brings its own TVM)
import tvm
from tile_cases import run
from tvm import tirx
from tvm.script import from_source

from ptx_engine.errors import UnsupportedError
from volta_hooks.tilelang_gemm import with_fewer_slots
from volta_hooks.tilelang_source import tile_programs
from volta_hooks.tilelang_threads import with_bound_threads

HEAD = """
# from tvm.script import tirx as T
@T.prim_func
def main(A_handle: T.handle, C_handle: T.handle):
    A = T.match_buffer(A_handle, (72, 100), "float32", strides=(100, 1))
    C = T.match_buffer(C_handle, (72, 100), "float32", strides=(100, 1))
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        for by in T.thread_binding(3, thread="blockIdx.y"):
"""
BODY = """
with T.sblock("tilelang_root"):
    T.reads()
    T.writes()
    for i in T.parallel(32):
        for j in T.parallel(32):
            C[by * 32 + i, bx * 32 + j] = A[by * 32 + i, bx * 32 + j] * T.float32(3.0)
"""


def program(loops, body=BODY):
    """Some lines around the body, each loop's body one step further in."""
    text, depth = HEAD, 12
    for line in loops:
        text += " " * depth + line + "\n"
        depth += 4 if line.endswith(":") else 0
    return from_source(text + "\n".join(" " * depth + line for line in body.strip().splitlines()) + "\n")


THREADS = [f'for t{axis} in T.thread_binding({extent}, thread="threadIdx.{axis}"):' for axis, extent in zip("xyz", (128, 1, 1))]


def test_loops_over_threads_are_the_block() -> None:
    row = json.loads(tile_programs(program(THREADS))[0])
    assert row["block_threads"] == 128 and all(number >= 0 for number in row["threads"])
    assert [line["stmt"] for line in row["body"]] == ["for"]
    a = np.random.default_rng(1).integers(-9, 9, (72, 100)).astype(np.float64)
    found = run(program(THREADS), {"A": a, "C": np.zeros((72, 100))}).numbers["C"]
    np.testing.assert_array_equal(found, a * 3)


@pytest.mark.parametrize(
    "loops",
    [
        [THREADS[0], 'for again in T.thread_binding(128, thread="threadIdx.x"):'],
        [THREADS[0], 'for lane in T.thread_binding(2, thread="vthread.x"):'],
        [THREADS[0], 'for other in T.thread_binding(4, thread="blockIdx.z"):'],
    ],
)
def test_other_bindings_of_loops_have_no_meaning_here(loops) -> None:
    with pytest.raises(UnsupportedError, match="thread_binding"):
        run(program(loops), {"A": np.zeros((72, 100)), "C": np.zeros((72, 100))})


def test_what_depends_on_the_thread_has_none() -> None:
    body = BODY.replace("* T.float32(3.0)", '+ T.Cast("float32", tx)')
    with pytest.raises(UnsupportedError, match="index of a thread"):
        run(program(THREADS, body), {"A": np.zeros((72, 100)), "C": np.zeros((72, 100))})


def test_an_older_program_is_compiled_as_a_newer_one_writes_it() -> None:
    """Both forms of one kernel are one: the same row, and the threads are no loops any more."""
    older, newer = program(THREADS), with_bound_threads(program(THREADS))
    assert "threadIdx" in older.script() and "threadIdx" not in newer.script()
    assert '"tl.launch_threads": [128, 1, 1]' in newer.script() and newer.script().count("T.launch_thread_idx") == 3
    one, two = (json.loads(tile_programs(form)[0]) for form in (older, newer))
    assert one["block_threads"] == two["block_threads"] == 128
    a = np.random.default_rng(2).integers(-9, 9, (72, 100)).astype(np.float64)
    for form in (older, newer):
        np.testing.assert_array_equal(run(form, {"A": a, "C": np.zeros((72, 100))}).numbers["C"], a * 3)


def test_what_is_no_older_program_stays_as_it_is() -> None:
    newer = with_bound_threads(program(THREADS))
    assert with_bound_threads(newer).script() == newer.script()
    inner = program([THREADS[0], "for k in T.serial(2):", THREADS[1]])
    assert "threadIdx.x" in with_bound_threads(inner).script()


# --- products -------------------------------------------------------------------------------------


def product(clear=False):
    """C = A @ B in tiles, as the installed TileLang writes it."""
    T = tilelang.language

    @T.prim_func
    def main(A: T.Tensor((32, 64), "float16"), B: T.Tensor((64, 32), "float16"), C: T.Tensor((32, 32), "float32")):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((32, 32), "float16")
            b = T.alloc_shared((32, 32), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            T.clear(c)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[0, k * 32], a)
                T.copy(B[k * 32, 0], b)
                T.gemm(a, b, c, clear_accum=clear)
            T.copy(c, C)

    return main


def older(func, k_pack=1, wg_wait=0):
    """Its products with the slots of 0.1.14: strides, offsets, k_pack and wg_wait behind what both have."""

    def wider(call):
        if str(getattr(call.op, "name", "")) != "tl.tileop.gemm":
            return None
        more = [tirx.const(value, "int32") for value in (32, 32, 0, 0, k_pack, wg_wait)]
        return tirx.Call(call.dtype, call.op, [*call.args[:10], *more, *call.args[10:]], call.annotations)

    return func.with_body(tirx.stmt_functor.ir_transform(func.body, None, wider, ["tirx.Call"]))


def gemm_of(func):
    found = []
    tirx.stmt_functor.post_order_visit(
        func.body, lambda node: found.append(node) if isinstance(node, tirx.Call) and "tileop.gemm" in str(node.op) else None
    )
    (call,) = found
    return call


def test_products_of_an_older_program_have_the_slots_of_a_newer_one() -> None:
    newer = product()
    assert len(gemm_of(newer).args) == 13 and len(gemm_of(older(newer)).args) == 19
    assert with_fewer_slots(older(newer)).script() == newer.script()
    assert with_fewer_slots(newer).script() == newer.script()
    assert with_fewer_slots(older(product(clear=True))).script() == product(clear=True).script() != newer.script()


def test_how_a_back_end_packs_and_waits_is_kept() -> None:
    call = gemm_of(with_fewer_slots(older(product(), k_pack=2, wg_wait=-1)))
    assert {name: int(value) for name, value in call.annotations.items()} == {"k_pack": 2, "wg_wait": -1}


def test_an_older_product_is_compiled_to_what_the_newer_one_is() -> None:
    target = {"kind": "cuda", "arch": "sm_80"}
    with tvm.target.Target(target):
        with pytest.raises(Exception, match="13 positional slots"):
            tilelang.lower(older(product()), target=target)
        sources = [tilelang.lower(func, target=target).kernel_source for func in (product(), with_fewer_slots(older(product())))]
    assert sources[0] == sources[1] and "mma" in sources[0]
