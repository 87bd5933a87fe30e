"""The project's Triton kernels, as TTIR terms, against NumPy in float64; and wrong data, launches, twins."""

from __future__ import annotations

import numpy as np
import pytest
from reference_cases import out, run, tensor
from triton_ttir import kernel, ttir_of

from ptx_engine.errors import LaunchError
from ptx_engine.launch import ScalarArg

pytest.importorskip("triton")
RNG = np.random.default_rng(7)


def scalar(name, value="symbolic", dtype="s32"):
    return ScalarArg(name, dtype, value)


def softmax_rows(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_vector_add_masks_the_ragged_end():
    text = ttir_of(kernel("vector_add", "add_kernel"), {"x_ptr": "*fp32", "y_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32"}, {"BLOCK": 128})
    x, y = RNG.normal(size=(2, 300))
    args = [tensor("x", "f32", (300,)), tensor("y", "f32", (300,)), out("o", "f32", (300,)), scalar("n", 300)]
    result = run(text, args, {"x": x, "y": y}, (3, 1, 1))
    np.testing.assert_allclose(result.numbers["o"], x + y)
    assert not result.findings
    assert len(result.footprints["o"].index) == 300


def test_vector_add_with_a_wrong_length_is_out_of_bounds():
    text = ttir_of(kernel("vector_add", "add_kernel"), {"x_ptr": "*fp32", "y_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32"}, {"BLOCK": 128})
    args = [tensor("x", "f32", (300,)), tensor("y", "f32", (300,)), out("o", "f32", (300,)), scalar("n", 301)]
    result = run(text, args, {"x": np.zeros(300), "y": np.zeros(300)}, (3, 1, 1))
    found = {(f.kind, f.tensor, f.count) for f in result.findings}
    assert found == {("out of bounds", "x", 1), ("out of bounds", "y", 1), ("out of bounds", "o", 1)}
    finding = result.findings[0]
    assert finding.index == (300,) and finding.sites[0].cta == (2, 0, 0)
    assert "vector_add.py:12" in finding.sites[0].user_loc


def test_softmax():
    signature = {"out_ptr": "*fp32", "in_ptr": "*fp32", "in_row_stride": "i32", "out_row_stride": "i32", "n_cols": "i32"}
    text = ttir_of(kernel("softmax", "softmax_kernel"), signature, {"BLOCK": 128})
    x = RNG.normal(size=(5, 100))
    args = [out("o", "f32", (5, 100)), tensor("x", "f32", (5, 100)), scalar("a", 100), scalar("b", 100), scalar("n", 100)]
    result = run(text, args, {"x": x}, (5, 1, 1))
    np.testing.assert_allclose(result.numbers["o"].reshape(5, 100), softmax_rows(x), rtol=1e-12)
    assert not result.findings


def test_layer_norm():
    pointers = dict.fromkeys(("x_ptr", "out_ptr", "weight_ptr", "bias_ptr", "mean_ptr", "rstd_ptr"), "*fp32")
    text = ttir_of(
        kernel("layer_norm", "layer_norm_kernel"), {**pointers, "row_stride": "i32", "n_cols": "i32", "eps": "fp32"}, {"BLOCK": 64}
    )
    x, weight, bias = RNG.normal(size=(3, 150)), RNG.normal(size=150), RNG.normal(size=150)
    args = [
        tensor("x", "f32", (3, 150)), out("o", "f32", (3, 150)), tensor("w", "f32", (150,)), tensor("b", "f32", (150,)),
        out("mean", "f32", (3,)), out("rstd", "f32", (3,)), scalar("s", 150), scalar("n", 150), scalar("eps", "symbolic", "f32"),
    ]  # fmt: skip
    result = run(text, args, {"x": x, "w": weight, "b": bias, "eps": np.array([1e-3])}, (3, 1, 1))
    mean, rstd = x.mean(1), 1 / np.sqrt(x.var(1) + 1e-3)
    np.testing.assert_allclose(result.numbers["mean"], mean, atol=1e-12)
    np.testing.assert_allclose(result.numbers["rstd"], rstd)
    np.testing.assert_allclose(result.numbers["o"].reshape(3, 150), (x - mean[:, None]) * rstd[:, None] * weight + bias, atol=1e-12)


MATMUL_TYPES = {"fp16": "f16", "bf16": "bf16", "fp32": "f32"}


def matmul_case(kind, m, n, k, constexprs, specialised=True):
    """Text, arguments and grid of the project's matmul; the unit strides are constants, as at a real launch."""
    names = ("M", "N", "K", "stride_am", "stride_bk", "stride_cm")
    signature = {**dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), f"*{kind}"), **dict.fromkeys(names, "i32")}
    units = {"stride_ak": 1, "stride_bn": 1, "stride_cn": 1}
    text = ttir_of(kernel("matmul", "matmul_kernel"), signature, {**units, **constexprs})
    dtype = MATMUL_TYPES[kind]
    values = (m, n, k, k, n, n)
    args = [tensor("a", dtype, (m, k)), tensor("b", dtype, (k, n)), out("c", dtype, (m, n))]
    args += [scalar(name, value) for name, value in zip(names, values)]
    grid = -(-m // constexprs["BLOCK_M"]) * -(-n // constexprs["BLOCK_N"])
    return text, args, (grid, 1, 1)


@pytest.mark.parametrize("kind", list(MATMUL_TYPES))
def test_matmul_with_ragged_edges(kind):
    m, n, k = 70, 50, 40
    text, args, grid = matmul_case(kind, m, n, k, {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 16, "GROUP_M": 2})
    a, b = RNG.normal(size=(m, k)), RNG.normal(size=(k, n))
    result = run(text, args, {"a": a, "b": b}, grid)
    np.testing.assert_allclose(result.numbers["c"].reshape(m, n), a @ b, atol=1e-12)
    assert not result.findings


def test_a_chosen_program_writes_its_tile_only():
    text, args, grid = matmul_case("fp32", 64, 64, 32, {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 16, "GROUP_M": 1})
    a, b = RNG.normal(size=(64, 32)), RNG.normal(size=(32, 64))
    result = run(text, args, {"a": a, "b": b}, grid, programs=[(1, 0, 0)])
    c = result.numbers["c"].reshape(64, 64)
    np.testing.assert_allclose(c[:32, 32:], (a @ b)[:32, 32:], atol=1e-12)
    assert np.isnan(c[32:]).all() and np.isnan(c[:, :32]).all()


@pytest.mark.parametrize("causal", [False, True])
def test_flash_attention(causal):
    heads, length, depth = 2, 64, 16
    pointers = dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "o_ptr"), "*fp16")
    signature = {**pointers, "scale": "fp32", "N_CTX": "i32", "stride_h": "i32", "stride_n": "i32"}
    constexprs = {"BLOCK_M": 16, "BLOCK_N": 16, "D": depth, "CAUSAL": causal}
    text = ttir_of(kernel("flash_attention", "attention_kernel"), signature, constexprs)
    shape = (heads, length, depth)
    q, k, v = RNG.normal(size=(3, *shape))
    args = [tensor(x, "f16", shape) for x in "qkv"] + [out("o", "f16", shape), scalar("scale", "symbolic", "f32")]
    args += [scalar("n", length), scalar("sh", length * depth), scalar("sn", depth)]
    result = run(text, args, {"q": q, "k": k, "v": v, "scale": np.array([0.25])}, (length // 16, heads, 1))
    scores = 0.25 * q @ k.swapaxes(1, 2)
    if causal:
        scores = np.where(np.tril(np.ones((length, length), bool)), scores, -np.inf)
    np.testing.assert_allclose(result.numbers["o"].reshape(shape), softmax_rows(scores) @ v, atol=1e-7)
    assert not result.findings
    assert any("log2(e)" in line for line in result.arena.assumptions)


def test_wrong_number_of_arguments():
    text = ttir_of(kernel("vector_add", "add_kernel"), {"x_ptr": "*fp32", "y_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32"}, {"BLOCK": 128})
    with pytest.raises(LaunchError, match=r"takes 4 arguments \(x_ptr, y_ptr, out_ptr, n\), the launch gives 2"):
        run(text, [tensor("x", "f32", (8,)), scalar("n", 8)], {})
