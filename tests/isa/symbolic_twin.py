"""A kernel run twice: on symbolic inputs, whose terms are then evaluated exactly at given inputs, and on those inputs' bits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from gmpy2 import mpq

from ptx_engine import emulate
from ptx_engine.decide.precise import Cone
from ptx_engine.launch import Launch, Role, TensorArg, bind
from ptx_engine.machine import execute
from ptx_engine.machine.emulate_arguments import DTYPE_NAMES
from ptx_engine.syntax import parse
from ptx_engine.terms import Arena

from one_instruction import BLOCK, kernel  # isort: skip


def symbolic_results(
    text: str, inputs: Sequence[np.ndarray], outputs: Sequence[type], dtypes: Sequence[str] | None = None
) -> list[np.ndarray]:
    """Outputs of the kernel made of ``text`` as exact numbers (float64 or int64), by way of terms.

    ``dtypes`` are the launch dtypes of the inputs, several elements of which may stand in one element of ``inputs``.
    """
    arrays = [np.ascontiguousarray(x) for x in inputs]
    count = len(arrays[0])
    names = list(dtypes or [DTYPE_NAMES[x.dtype.name] for x in arrays])
    module = kernel(text, [x.itemsize for x in arrays], [np.dtype(r).itemsize for r in outputs])
    args = [TensorArg(f"i{i}", name, (x.nbytes // _bytes(name),), Role.IN) for i, (x, name) in enumerate(zip(arrays, names))]
    args += [TensorArg(f"o{i}", DTYPE_NAMES[np.dtype(r).name], (count,), Role.OUT) for i, r in enumerate(outputs)]
    arena = Arena()
    block = min(count, BLOCK)
    from ptx_engine.launch import ScalarArg

    launch = Launch((-(-count // block), 1, 1), (block, 1, 1), (*args, ScalarArg("n", "u32", count)))
    bound = bind(launch, arena)
    done = execute(parse(module), None, bound, source=module)
    assert not done.findings
    values: dict[int, mpq] = {}
    for arg, x in zip(args, arrays):
        buffer = bound.by_name[arg.name]
        assert buffer.input is not None
        numbers = x.view(_numpy(arg.dtype)).tolist()
        values.update({int(buffer.input.ids(j)): mpq(v) for j, v in enumerate(numbers)})
    results = []
    for i, r in enumerate(outputs):
        footprint = done.footprints[f"o{i}"]
        found = Cone(arena, footprint.ids).evaluate(values, 200)
        every = {**found, **values}
        wide = np.float64 if np.dtype(r).kind == "f" else object
        results.append(np.array([_number(every, arena, int(t)) for t in footprint.ids], wide))
    return results


def _number(found: dict[int, object], arena: Arena, ident: int) -> object:
    value = found[ident] if ident in found else arena.consts[ident].coef
    return int(value) if isinstance(value, (int, type(mpq(1)))) and mpq(value).denominator == 1 else float(value)  # type: ignore[arg-type, call-overload]


def _bytes(dtype: str) -> int:
    return np.dtype(_numpy(dtype)).itemsize


def _numpy(dtype: str) -> type:
    return {
        "s8": np.int8, "u8": np.uint8, "s16": np.int16, "u16": np.uint16, "s32": np.int32, "u32": np.uint32, "s64": np.int64, "u64": np.uint64,
        "f16": np.float16, "f32": np.float32, "f64": np.float64,
    }[dtype]  # fmt: skip


def concrete_results(text: str, inputs: Sequence[np.ndarray], outputs: Sequence[type]) -> list[np.ndarray]:
    """The same kernel on bits."""
    arrays = [np.ascontiguousarray(x) for x in inputs]
    count = len(arrays[0])
    results = [np.zeros(count, r) for r in outputs]
    block = min(count, BLOCK)
    module = kernel(text, [x.itemsize for x in arrays], [r.itemsize for r in results])
    emulation = emulate(module, None, -(-count // block), block, [*arrays, *results, count])
    assert not emulation.findings
    return results


def check(text: str, inputs: Sequence[np.ndarray], outputs: Sequence[type], dtypes: Sequence[str] | None = None) -> None:
    """Both runs agree: integers modulo their width, floats as numbers."""
    for term, bits in zip(symbolic_results(text, inputs, outputs, dtypes), concrete_results(text, inputs, outputs)):
        if bits.dtype.kind == "f":
            np.testing.assert_allclose(term, bits.astype(np.float64), rtol=1e-3)
            continue
        size = 1 << 8 * bits.dtype.itemsize
        assert [int(v) % size for v in term] == [int(v) % size for v in bits]
