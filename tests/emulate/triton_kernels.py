"""The Triton kernels of configs/ compiled for a GPU that need not be there, with launches and NumPy references."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

KERNELS = Path(__file__).parents[2] / "configs" / "triton"
BF16 = np.dtype(ml_dtypes.bfloat16)
TYPES = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32"}


@dataclass
class Case:
    """One kernel on one launch: ``args`` in parameter order (arrays and scalars), constants, and what the outputs must be."""

    file: str
    function: str
    args: dict[str, Any]
    constants: dict[str, Any]
    grid: int
    outputs: tuple[str, ...]
    reference: Callable[[dict[str, Any]], dict[str, np.ndarray]]
    #: largest error of an output, relative to the outputs' largest magnitude, against the reference and between the two modes
    tolerance: float


@dataclass(frozen=True)
class Compiled:
    ptx: str
    threads: int
    shared: int


def vector_add() -> Case:
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=3000).astype(np.float32) for _ in range(2))
    args = {"x_ptr": x, "y_ptr": y, "out_ptr": np.zeros(3000, np.float32), "n": 3000}
    return Case("vector_add", "add_kernel", args, {"BLOCK": 1024}, 3, ("out_ptr",), lambda a: {"out_ptr": a["x_ptr"] + a["y_ptr"]}, 1e-7)


def softmax() -> Case:
    x = np.random.default_rng(1).normal(size=(3, 500)).astype(np.float32)
    args = {"out_ptr": np.zeros_like(x), "in_ptr": x, "in_row_stride": 500, "out_row_stride": 500, "n_cols": 500}

    def reference(a: dict[str, Any]) -> dict[str, np.ndarray]:
        e = np.exp(a["in_ptr"].astype(np.float64))
        return {"out_ptr": e / e.sum(1, keepdims=True)}

    return Case("softmax", "softmax_kernel", args, {"BLOCK": 512}, 3, ("out_ptr",), reference, 1e-5)


def layer_norm() -> Case:
    rng = np.random.default_rng(2)
    x, w, b = (rng.normal(size=s).astype(np.float16) for s in ((2, 300), 300, 300))
    args = {
        "x_ptr": x, "out_ptr": np.zeros_like(x), "weight_ptr": w, "bias_ptr": b, "mean_ptr": np.zeros(2, np.float32),
        "rstd_ptr": np.zeros(2, np.float32), "row_stride": 300, "n_cols": 300, "eps": 2.0**-17,
    }  # fmt: skip

    def reference(a: dict[str, Any]) -> dict[str, np.ndarray]:
        data = a["x_ptr"].astype(np.float64)
        mean, rstd = data.mean(1), 1 / np.sqrt(data.var(1) + 2.0**-17)
        out = (data - mean[:, None]) * rstd[:, None] * a["weight_ptr"].astype(np.float64) + a["bias_ptr"].astype(np.float64)
        return {"out_ptr": out, "mean_ptr": mean, "rstd_ptr": rstd}

    return Case("layer_norm", "layer_norm_kernel", args, {"BLOCK": 512}, 2, ("out_ptr", "mean_ptr", "rstd_ptr"), reference, 2e-3)


def matmul(dtype: np.dtype, tolerance: float, file: str = "matmul", K: int = 100) -> Case:
    rng = np.random.default_rng(3)
    M, N = 64, 64
    a, b = rng.normal(size=(M, K)).astype(dtype), rng.normal(size=(K, N)).astype(dtype)
    strides = {"stride_am": K, "stride_ak": 1, "stride_bk": N, "stride_bn": 1, "stride_cm": N, "stride_cn": 1}
    args = {"a_ptr": a, "b_ptr": b, "c_ptr": np.zeros((M, N), dtype), "M": M, "N": N, "K": K, **strides}
    constants = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 2}
    reference = lambda v: {"c_ptr": v["a_ptr"].astype(np.float64) @ v["b_ptr"].astype(np.float64)}  # noqa: E731
    return Case(file, f"{file}_kernel", args, constants, 1, ("c_ptr",), reference, tolerance)


def demo_matmul() -> Case:
    """The autotuned kernel of the demo, in a configuration whose BLOCK_K divides K."""
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=(64, 96)).astype(np.float16), rng.normal(size=(96, 64)).astype(np.float16)
    strides = {"stride_am": 96, "stride_bk": 64, "stride_cm": 64}
    args = {"a_ptr": a, "b_ptr": b, "c_ptr": np.zeros((64, 64), np.float16), "M": 64, "N": 64, "K": 96, **strides}
    reference = lambda v: {"c_ptr": v["a_ptr"].astype(np.float64) @ v["b_ptr"].astype(np.float64)}  # noqa: E731
    return Case("../demo/autotuned", "matmul_kernel", args, {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32}, 1, ("c_ptr",), reference, 1e-3)


def attention(causal: bool) -> Case:
    rng = np.random.default_rng(4)
    q, k, v = (rng.normal(size=(1, 128, 64)).astype(np.float16) for _ in range(3))
    args = {"q_ptr": q, "k_ptr": k, "v_ptr": v, "o_ptr": np.zeros_like(q), "scale": 0.125, "N_CTX": 128, "stride_h": 8192, "stride_n": 64}

    def reference(a: dict[str, Any]) -> dict[str, np.ndarray]:
        q_, k_, v_ = (a[n][0].astype(np.float64) for n in ("q_ptr", "k_ptr", "v_ptr"))
        scores = q_ @ k_.T * 0.125
        if causal:
            scores = np.where(np.tril(np.ones_like(scores)) > 0, scores, -np.inf)
        p = np.exp(scores - scores.max(1, keepdims=True))
        return {"o_ptr": (p / p.sum(1, keepdims=True) @ v_)[None]}

    constants = {"BLOCK_M": 64, "BLOCK_N": 32, "D": 64, "CAUSAL": causal}
    return Case("flash_attention", "attention_kernel", args, constants, 2, ("o_ptr",), reference, 3e-3)


CASES: dict[str, Callable[[], Case]] = {
    "vector_add": vector_add, "softmax": softmax, "layer_norm": layer_norm,
    "matmul_f16": lambda: matmul(np.dtype(np.float16), 1e-3), "matmul_bf16": lambda: matmul(BF16, 8e-3),
    "matmul_f32": lambda: matmul(np.dtype(np.float32), 2e-3),  # products in tf32
    "matmul_no_k_mask": lambda: matmul(np.dtype(np.float16), 1e-3, "matmul_no_k_mask", 96), "demo_matmul": demo_matmul,
    "attention": lambda: attention(False), "attention_causal": lambda: attention(True),
}  # fmt: skip


@cache
def compile_case(name: str, capability: int, warps: int, stages: int) -> Compiled:
    """The PTX that Triton emits; integers equal to 1 become constants and multiples of 16 are specialised, as at a launch."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    case = CASES[name]()
    fn = _function(case)
    signature: dict[str, str] = {}
    constants: dict[tuple[int], Any] = {}
    attributes: dict[tuple[int], list[list[Any]]] = {}
    for i, param in enumerate(fn.arg_names):
        value = case.constants.get(param, case.args.get(param))
        if param in case.constants or (isinstance(value, int) and value == 1):
            signature[param] = "constexpr"
            constants[(i,)] = value
            continue
        signature[param] = "*" + TYPES[value.dtype.name] if isinstance(value, np.ndarray) else "fp32" if isinstance(value, float) else "i32"
        if isinstance(value, np.ndarray) or (isinstance(value, int) and value % 16 == 0):
            attributes[(i,)] = [["tt.divisibility", 16]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        source = ASTSource(fn, signature, constants, attributes)
        compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32), options={"num_warps": warps, "num_stages": stages})
    return Compiled(compiled.asm["ptx"], 32 * int(compiled.metadata.num_warps), int(compiled.metadata.shared))


def _function(case: Case) -> Any:
    from triton.runtime.autotuner import Autotuner

    spec = importlib.util.spec_from_file_location(f"emulate_{case.file}", KERNELS / f"{case.file}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = getattr(module, case.function)
    return found.fn if isinstance(found, Autotuner) else found


def parameters(case: Case) -> dict[str, Any]:
    """The arguments that are parameters of the PTX (scratch pointers come after them)."""
    return {name: value for name, value in case.args.items() if not (isinstance(value, int) and value == 1)}
