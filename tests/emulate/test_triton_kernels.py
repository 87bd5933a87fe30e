"""Symbolic against concrete: the terms of a kernel's outputs, evaluated at its inputs, agree with the emulated values and NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from triton_kernels import CASES, KERNELS, Case, Compiled, compile_case, parameters

from ptx_engine import emulate
from ptx_engine.decide.oracle import Reals
from ptx_engine.findings import Severity
from ptx_engine.launch import Launch, NullArg, Role, ScalarArg, TensorArg, bind
from ptx_engine.machine import execute
from ptx_engine.syntax import parse
from ptx_engine.terms import Arena

DTYPES = {"float16": "f16", "bfloat16": "bf16", "float32": "f32"}


def emulated(case: Case, compiled: Compiled) -> dict[str, np.ndarray]:
    result = emulate(compiled.ptx, None, case.grid, compiled.threads, [*parameters(case).values(), None, None], compiled.shared)
    assert [f for f in result.findings if f.severity is Severity.ERROR] == []
    return {name: case.args[name].astype(np.float64) for name in case.outputs}


def symbolic(case: Case, compiled: Compiled) -> dict[str, np.ndarray]:
    """Outputs of the symbolic run, evaluated in float64 at the case's inputs."""
    args: list[Any] = []
    for name, value in parameters(case).items():
        if isinstance(value, np.ndarray):
            args.append(TensorArg(name, DTYPES[value.dtype.name], value.shape, Role.OUT if name in case.outputs else Role.IN))
        else:
            args.append(ScalarArg(name, "f32" if isinstance(value, float) else "s32", value))
    launch = Launch((case.grid, 1, 1), (compiled.threads, 1, 1), (*args, NullArg("a"), NullArg("b")), compiled.shared)
    arena = Arena()
    execution = execute(parse(compiled.ptx), None, bind(launch, arena), order=False)
    results = {}
    for name, footprint in execution.footprints.items():
        values = Reals(arena, footprint.ids, lambda ids: inputs_of(arena, case, ids)).of(footprint.ids)[:, 0]
        whole = np.full(case.args[name].size, np.nan)
        whole[footprint.index] = values
        results[name] = whole.reshape(case.args[name].shape)
    return results


def inputs_of(arena: Arena, case: Case, ids: np.ndarray) -> np.ndarray:
    flat = -1 - ids.astype(np.int64)
    values = np.zeros((len(ids), 1))
    for entry in arena.inputs:
        mine = (flat >= entry.base) & (flat < entry.base + entry.count)
        values[mine, 0] = case.args[entry.name].ravel()[flat[mine] - entry.base].astype(np.float64)
    return values


def check(name: str, capability: int, warps: int, stages: int) -> None:
    case = CASES[name]()
    compiled = compile_case(name, capability, warps, stages)
    wanted = case.reference(case.args)
    terms, concrete = symbolic(case, compiled), emulated(case, compiled)
    for output in case.outputs:
        scale = np.abs(wanted[output]).max()
        assert np.abs(terms[output] - wanted[output]).max() <= 1e-6 * scale, "the terms are not the reference"
        assert np.abs(concrete[output] - terms[output]).max() <= case.tolerance * scale, "the values are not the terms'"


@pytest.mark.parametrize("name", list(CASES))
def test_on_sm_80(name: str) -> None:
    check(name, 80, 4, 2)


@pytest.mark.slow
@pytest.mark.parametrize(("warps", "stages"), [(1, 1), (2, 3), (8, 4)])
@pytest.mark.parametrize("capability", [75, 80, 89])
@pytest.mark.parametrize("name", list(CASES))
def test_other_configurations(name: str, capability: int, warps: int, stages: int) -> None:
    if capability == 75 and name == "matmul_bf16":
        capability = 80  # sm_75 has no bf16
    check(name, capability, warps, stages)


def test_a_wrong_term_would_be_seen() -> None:
    """The comparison's negative twin: another input's values do not agree."""
    case, compiled = CASES["vector_add"](), compile_case("vector_add", 80, 4, 2)
    terms = symbolic(case, compiled)
    case.args["x_ptr"][7] += 0.5
    assert np.flatnonzero(np.abs(emulated(case, compiled)["out_ptr"] - terms["out_ptr"]) > 1e-3).tolist() == [7]


def test_every_kernel_of_configs_has_a_case() -> None:
    assert {path.stem for path in KERNELS.glob("*.py")} <= {make().file for make in CASES.values()}
