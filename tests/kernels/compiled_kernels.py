"""Test harness: the project's Triton kernels compiled without a GPU, each with a small ragged launch, as validation jobs.

A compilation is kept for the session, in this process and in a Triton cache of the session's own folder (content-addressed).
"""

from __future__ import annotations

import functools
import importlib.util
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from ptx_engine.launch import Arg, Launch, NullArg, Role, ScalarArg, TensorArg
from volta_pass.job import Options, ValidationJob

ROOT = Path(__file__).parents[2]
KERNELS = ROOT / "configs" / "triton"
DEFAULTS = Options()
#: Triton's name of each element type
TYPES = {"f16": "fp16", "bf16": "bf16", "f32": "fp32", "s8": "i8", "s32": "i32", "u32": "u32", "s64": "i64"}


@dataclass(frozen=True)
class Case:
    """A kernel of a file with the values of its parameters: arguments (in any order) and constants; ``grid`` in programs."""

    file: str
    function: str
    args: tuple[Arg, ...]
    constexprs: tuple[tuple[str, Any], ...]
    grid: tuple[int, int, int]
    folder: Path = field(default=KERNELS)

    @property
    def path(self) -> Path:
        return self.folder / f"{self.file}.py"


@dataclass(frozen=True)
class Configuration:
    """What an autotuner varies for one and the same source."""

    arch: int = 80
    warps: int = 4
    stages: int = 3

    def __str__(self) -> str:
        return f"sm{self.arch}-w{self.warps}-s{self.stages}"


@functools.cache
def _cache_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="volta-kernels-")


@functools.cache
def kernel_function(path: Path, name: str) -> Any:
    """The Triton function of a file."""
    spec = importlib.util.spec_from_file_location(f"compiled_kernels_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def _signature(names: list[str], args: Mapping[str, Arg], constants: Mapping[str, Any]) -> tuple[dict[str, str], dict[Any, Any]]:
    """Types by parameter and Triton's specialisation attributes: pointers, and integers that 16 divides."""
    types: dict[str, str] = {}
    attributes: dict[Any, Any] = {}
    for position, name in enumerate(names):
        arg = args.get(name)
        if arg is None or (isinstance(arg, ScalarArg) and arg.value == 1):
            types[name] = "constexpr"
            assert arg is not None or name in constants, f"no value for {name}"
            continue
        assert not isinstance(arg, NullArg)
        types[name] = ("*" if isinstance(arg, TensorArg) else "") + TYPES[arg.dtype]
        if isinstance(arg, TensorArg) or (isinstance(arg.value, int) and arg.value % 16 == 0):
            attributes[(position,)] = [["tt.divisibility", 16]]
    return types, attributes


@functools.cache
def compiled_job(case: Case, configuration: Configuration, options: Options = DEFAULTS) -> ValidationJob:
    """Compile one configuration and describe its validation against its own TTIR. Needs Triton."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from volta_pass.references.generic import generic_of_text

    fn = kernel_function(case.path, case.function)
    given = {arg.name: arg for arg in case.args}
    constants = {**dict(case.constexprs), **{n: 1 for n, a in given.items() if isinstance(a, ScalarArg) and a.value == 1}}
    types, attributes = _signature(fn.arg_names, given, constants)
    values = {(fn.arg_names.index(name),): value for name, value in constants.items()}
    settings = {"num_warps": configuration.warps, "num_stages": configuration.stages}
    with patch.dict(os.environ, TRITON_CACHE_DIR=_cache_folder().name, TRITON_DEFAULT_FP_FUSION="1"):
        target = GPUTarget("cuda", configuration.arch, 32)
        kernel = triton.compile(ASTSource(fn, types, values, attributes), target=target, options=settings)
    args = tuple(given[name] for name in fn.arg_names if types[name] != "constexpr")
    scratch = (NullArg("global_scratch"), NullArg("profile_scratch"))
    launch = Launch(case.grid, (32 * kernel.metadata.num_warps, 1, 1), args + scratch, kernel.metadata.shared)
    return ValidationJob(
        case.function, kernel.asm["ptx"], launch, kernel.metadata.name, {**dict(case.constexprs), **settings}, f"sm_{configuration.arch}",
        generic_of_text(kernel.asm["ttir"]), toolchain={"Triton": triton.__version__}, options=options,
    )  # fmt: skip


# ---------------------------------------------------------------------- the five kernels


def tensor(name: str, dtype: str, *shape: int, strides: tuple[int, ...] | None = None) -> TensorArg:
    return TensorArg(name, dtype, shape, Role.IN, strides)


def output(name: str, dtype: str, *shape: int, strides: tuple[int, ...] | None = None) -> TensorArg:
    return TensorArg(name, dtype, shape, Role.OUT, strides)


def integers(**values: int) -> tuple[ScalarArg, ...]:
    return tuple(ScalarArg(name, "s32", value) for name, value in values.items())


def vector_add(n: int = 3000, block: int = 1024) -> Case:
    """``n`` is no multiple of the block: the last program is partly masked."""
    args = (tensor("x_ptr", "f32", n), tensor("y_ptr", "f32", n), output("out_ptr", "f32", n), *integers(n=n))
    return Case("vector_add", "add_kernel", args, (("BLOCK", block),), (-(-n // block), 1, 1))


def softmax(rows: int = 3, cols: int = 1000, block: int = 1024, **other: Any) -> Case:
    args = (
        output("out_ptr", "f32", rows, cols), tensor("in_ptr", "f32", rows, cols),
        *integers(in_row_stride=cols, out_row_stride=cols, n_cols=cols),
    )  # fmt: skip
    return Case("softmax", "softmax_kernel", args, (("BLOCK", block),), (rows, 1, 1))


def layer_norm(rows: int = 2, cols: int = 1300, block: int = 1024, dtype: str = "f16") -> Case:
    args = (
        tensor("x_ptr", dtype, rows, cols), output("out_ptr", dtype, rows, cols), tensor("weight_ptr", dtype, cols),
        tensor("bias_ptr", dtype, cols), output("mean_ptr", "f32", rows), output("rstd_ptr", "f32", rows),
        *integers(row_stride=cols, n_cols=cols), ScalarArg("eps", "f32"),
    )  # fmt: skip
    return Case("layer_norm", "layer_norm_kernel", args, (("BLOCK", block),), (rows, 1, 1))


def matmul(dtype: str = "f16", m: int = 80, n: int = 144, k: int = 80, blocks: tuple[int, int, int] = (64, 64, 32)) -> Case:
    """All three edges are ragged by default; fp32 inputs are multiplied as tf32. Strides are those of contiguous matrices."""
    out = "f32" if dtype == "f32" else "f16"
    args = (
        tensor("a_ptr", dtype, m, k), tensor("b_ptr", dtype, k, n), output("c_ptr", out, m, n), *integers(M=m, N=n, K=k),
        *integers(stride_am=k, stride_ak=1, stride_bk=n, stride_bn=1, stride_cm=n, stride_cn=1),
    )  # fmt: skip
    constants = (*zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), blocks), ("GROUP_M", 2))
    return Case("matmul", "matmul_kernel", args, constants, (-(-m // blocks[0]) * -(-n // blocks[1]), 1, 1))


def flash_attention(causal: bool = False, n: int = 128, d: int = 32, heads: int = 1, block_m: int = 64, block_n: int = 32) -> Case:
    args = (
        *(tensor(f"{name}_ptr", "f16", heads, n, d) for name in "qkv"), output("o_ptr", "f16", heads, n, d), ScalarArg("scale", "f32"),
        *integers(N_CTX=n, stride_h=n * d, stride_n=d),
    )  # fmt: skip
    constants = (("BLOCK_M", block_m), ("BLOCK_N", block_n), ("D", d), ("CAUSAL", causal))
    return Case("flash_attention", "attention_kernel", args, constants, (n // block_m, heads, 1))
