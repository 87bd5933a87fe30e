"""Loads of less than an element: compilers narrow ``(q[i] >> 4) & 15`` to a byte, and kernels read packed words as bytes."""

from __future__ import annotations

import numpy as np
import pytest

from ptx_engine.launch import Role, TensorArg
from ptx_engine.verdict import Status
from volta_hooks.cuda import cuda_kernel

Y = TensorArg("y", "f32", (64,), Role.OUT)
#: type of an element, contents, body of a kernel that reads pieces, body of one that reads elements, and a change that makes that one wrong
ROWS: dict[str, tuple[str, object, str, str, tuple[str, str]]] = {
    "bytes of words": (
        "u32", "symbolic", "const unsigned char *b = (const unsigned char *)q; y[i] = b[i]; y[i + 32] = b[i + 32];",
        "y[i] = (q[i / 4] >> 8 * (i % 4)) & 255; y[i + 32] = (q[i / 4 + 8] >> 8 * (i % 4)) & 255;", ("(i % 4)", "(i % 2)"),
    ),
    "vectors of bytes": (
        "u32", "symbolic", "uchar4 v = ((const uchar4 *)q)[i]; y[i] = v.x * v.w; y[i + 32] = (int)v.y - (int)v.z;",
        "y[i] = (int)((q[i] & 255) * (q[i] >> 24)); y[i + 32] = (int)((q[i] >> 8) & 255) - (int)((q[i] >> 16) & 255);", (">> 16", ">> 15"),
    ),
    "halves of symbolic words": (
        "s64", "symbolic", "y[i] = ((const int *)q)[2 * i]; y[i + 32] = ((const int *)q)[2 * i + 1];",
        "y[i] = (int)q[i]; y[i + 32] = (int)(q[i] >> 32);", (">> 32", ">> 31"),
    ),
    "halves of known words": (
        "s64", np.arange(-5, 27) * 4000000007, "y[i] = ((const int *)q)[2 * i]; y[i + 32] = ((const int *)q)[2 * i + 1];",
        "y[i] = (int)q[i]; y[i + 32] = (int)(q[i] >> 32);", (">> 32", ">> 31"),
    ),
    "narrowed by the compiler": (
        "s64", np.arange(32)[::-1].copy(), "y[(int)q[i]] = (q[i + 0] & 15); y[(int)q[i] + 32] = 1.0f;",
        "y[31 - i] = (31 - i) % 16; y[63 - i] = 1.0f;", ("% 16", "% 8"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_pieces_of_elements(name: str) -> None:
    dtype, contents, pieces, elements, (old, new) = ROWS[name]
    kind = {"u32": "unsigned", "s64": "long long"}[dtype]
    args = {"q": TensorArg("q", dtype, (32,), Role.IN, contents=contents), "y": Y}
    assert old in elements
    texts = (pieces, elements, elements.replace(old, new))
    head = f'extern "C" __global__ void k(const {kind} *q, float *y) {{ const int i = threadIdx.x; '
    read, right, wrong = (cuda_kernel(f"{head}{text} }}")[1, 32] for text in texts)
    report = read.validate(args, reference=right)
    assert report.status is Status.PROVED, (report.reason, report.errors)
    assert read.validate(args, reference=wrong).status is Status.REFUTED


def test_a_piece_over_two_elements_is_refused() -> None:
    text = 'extern "C" __global__ void k(const unsigned *q, float *y) { y[threadIdx.x] = ((const float *)q)[threadIdx.x]; }'
    args = {"q": TensorArg("q", "u16", (64,), Role.IN), "y": Y}
    assert cuda_kernel(text)[1, 32](**args).status is Status.UNSUPPORTED
