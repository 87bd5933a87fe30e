"""Runs one instruction on columns of operand bits: a kernel that loads the operands of its thread, executes, and stores."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from ptx_engine import emulate

_WIDTHS = {1: 16, 2: 16, 4: 32, 8: 64}
BLOCK = 128


def kernel(text: str, inputs: Sequence[int], outputs: Sequence[int]) -> str:
    """A module whose thread i applies ``text`` to element i of its inputs. ``a0 a1 ...`` stand for sources, ``d0 ...`` for
    destinations and ``p0 p1`` for predicate destinations; sizes are in bytes."""
    params = [f".param .u64 i{i}" for i in range(len(inputs))] + [f".param .u64 o{i}" for i in range(len(outputs))] + [".param .u32 n"]
    declared = [f".reg .b{_WIDTHS[size]} %a{i};" for i, size in enumerate(inputs)]
    declared += [f".reg .b{_WIDTHS[size]} %d{i};" for i, size in enumerate(outputs)] + [".reg .pred %p<4>;"]
    body = re.sub(r"(?<![%\w])([adp]\d)\b", r"%\1", text)
    load = [line for i, size in enumerate(inputs) for line in _address("i", i, size) + [f"ld.global.{_type(size)} %a{i}, [%at];"]]
    for i in range(len(outputs)):
        if re.search(rf"(?<![%\w])p{i}\b", text):
            body += f" selp.b32 %d{i}, 1, 0, %p{i};"
    store = [line for i, size in enumerate(outputs) for line in _address("o", i, size) + [f"st.global.{_type(size)} [%at], %d{i};"]]
    lines = [
        ".version 9.1", ".target sm_100a", ".address_size 64", f".visible .entry k({', '.join(params)})", "{", *declared,
        ".reg .pred %out; .reg .b32 %id, %nt, %ct, %n, %k; .reg .b64 %at, %off;",
        "mov.u32 %id, %tid.x; mov.u32 %nt, %ntid.x; mov.u32 %ct, %ctaid.x; mad.lo.s32 %k, %ct, %nt, %id;",
        "ld.param.u32 %n, [n]; setp.ge.u32 %out, %k, %n; @%out bra DONE;", *load, body, *store, "DONE: ret;", "}",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _type(size: int) -> str:
    return f"u{8 * size}"


def _address(letter: str, i: int, size: int) -> list[str]:
    return [f"ld.param.u64 %at, [{letter}{i}]; mul.wide.u32 %off, %k, {size}; add.s64 %at, %at, %off;"]


def run(text: str, inputs: Sequence[np.ndarray], outputs: Sequence[type]) -> list[np.ndarray]:
    """The destinations' bits for each operand tuple. A lone case runs as one thread, so that values are uniform scalars."""
    arrays = [np.ascontiguousarray(x) for x in inputs]
    count = len(arrays[0])
    results = [np.zeros(count, dtype) for dtype in outputs]
    block = min(count, BLOCK)
    module = kernel(text, [x.itemsize for x in arrays], [r.itemsize for r in results])
    emulation = emulate(module, None, -(-count // block), block, [*arrays, *results, count])
    assert not emulation.findings
    return results


def run_one(text: str, operands: Sequence[np.ndarray], output: type) -> np.ndarray:
    """``run`` with one destination."""
    return run(text, operands, [output])[0]
