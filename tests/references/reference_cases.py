"""Test harness: TTIR snippets and Triton kernels evaluated to terms, and the terms to float64 numbers at given inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ptx_engine.decide.oracle import Reals
from ptx_engine.findings import Finding
from ptx_engine.launch import BoundLaunch, Footprint, Launch, Role, ScalarArg, TensorArg, bind
from ptx_engine.terms.arena import Arena
from volta_pass.references.ttir import Budget, evaluate, load_ttir

DTYPE = {"f16": "f16", "bf16": "bf16", "f32": "f32", "f64": "f64", "i8": "s8", "i16": "s16", "i32": "s32", "i64": "s64"}


@dataclass
class Result:
    """Numbers written per tensor (NaN where nothing was written), with what they came from."""

    numbers: dict[str, np.ndarray]
    footprints: dict[str, Footprint]
    findings: list[Finding]
    arena: Arena
    bound: BoundLaunch


def numbers_of(bound: BoundLaunch, footprints: Mapping[str, Footprint], data: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Footprints as float64 arrays of storage length, at the input values in ``data``."""
    arena = bound.arena
    flat = np.concatenate([np.asarray(data[e.name], np.float64).ravel() for e in arena.inputs] or [np.zeros(0)])
    wanted = np.concatenate([f.ids for f in footprints.values()] or [np.zeros(0, np.int32)])
    reals = Reals(arena, wanted, lambda ids: flat[-1 - np.asarray(ids, np.int64)][:, None])
    result = {}
    for name, footprint in footprints.items():
        whole = np.full(bound.by_name[name].arg.storage, np.nan)
        whole[footprint.index] = reals.of(footprint.ids)[:, 0]
        result[name] = whole
    return result


def run(
    text: str,
    args: Sequence[TensorArg | ScalarArg],
    data: Mapping[str, object],
    grid: tuple[int, int, int] = (1, 1, 1),
    programs: Sequence[tuple[int, int, int]] | None = None,
    budget: Budget | None = None,
) -> Result:
    """Evaluate TTIR in generic form; symbolic tensors and scalars take their numbers from ``data``."""
    arena = Arena()
    bound = bind(Launch(grid, (128, 1, 1), tuple(args)), arena)
    findings: list[Finding] = []
    footprints = evaluate(load_ttir(text), bound, programs=programs, budget=budget, findings=findings)
    return Result(numbers_of(bound, footprints, data), footprints, findings, arena, bound)  # type: ignore[arg-type]


def tensor(name: str, dtype: str, shape: Sequence[int], role: Role = Role.IN, contents: object = "symbolic") -> TensorArg:
    return TensorArg(name, dtype, tuple(shape), role, contents=contents)  # type: ignore[arg-type]


def out(name: str, dtype: str, shape: Sequence[int]) -> TensorArg:
    return TensorArg(name, dtype, tuple(shape), Role.OUT)


def module(parameters: str, body: str, extra: str = "") -> str:
    """A module with one public function; ``parameters`` as "%x: !tt.ptr<f32>, %n: i32"."""
    kinds = ", ".join(p.split(":", 1)[1].strip() for p in parameters.split(", %")) if parameters else ""
    return f"""
"builtin.module"() ({{
  "tt.func"() <{{function_type = ({kinds}) -> (), sym_name = "kernel", sym_visibility = "public"}}> ({{
  ^bb0({parameters}):
{body}
    "tt.return"() : () -> ()
  }}) {{noinline = false}} : () -> ()
{extra}
}}) : () -> ()
"""


def pointers(pointer: str, element: str, n: int, result: str) -> str:
    """``result`` = addresses pointer[0 .. n)."""
    return f"""
    {result}_r = "tt.make_range"() <{{end = {n} : i32, start = 0 : i32}}> : () -> tensor<{n}xi32>
    {result}_s = "tt.splat"({pointer}) : (!tt.ptr<{element}>) -> tensor<{n}x!tt.ptr<{element}>>
    {result} = "tt.addptr"({result}_s, {result}_r) : (tensor<{n}x!tt.ptr<{element}>>, tensor<{n}xi32>) -> tensor<{n}x!tt.ptr<{element}>>"""


def load(pointer: str, element: str, n: int, result: str) -> str:
    kinds = f"(tensor<{n}x!tt.ptr<{element}>>) -> tensor<{n}x{element}>"
    return (
        pointers(pointer, element, n, f"{result}_p")
        + f"""
    {result} = "tt.load"({result}_p) <{{operandSegmentSizes = array<i32: 1, 0, 0>}}> : {kinds}"""
    )


def store(pointer: str, element: str, n: int, value: str) -> str:
    name = f"{value}_{pointer[1:]}_p"
    return (
        pointers(pointer, element, n, name)
        + f"""
    "tt.store"({name}, {value}) : (tensor<{n}x!tt.ptr<{element}>>, tensor<{n}x{element}>) -> ()"""
    )


def elementwise(op: str, kinds: Sequence[str], result: str, n: int, attributes: str = "") -> str:
    """Text of a kernel that applies one operation to loaded tensors: parameters %x0, %x1, ..., %o."""
    names = [f"%x{i}" for i in range(len(kinds))]
    parameters = ", ".join(f"{name}: !tt.ptr<{kind}>" for name, kind in [*zip(names, kinds), ("%o", memory_kind(result))])
    body = "".join(load(name, kind, n, f"%v{i}") for i, (name, kind) in enumerate(zip(names, kinds)))
    values = ", ".join(f"%v{i}" for i in range(len(kinds)))
    types = ", ".join(f"tensor<{n}x{kind}>" for kind in kinds)
    properties = f" <{{{attributes}}}>" if attributes else ""
    body += f'\n    %w = "{op}"({values}){properties} : ({types}) -> tensor<{n}x{result}>'
    if result == "i1":
        body += f'\n    %w8 = "arith.extui"(%w) : (tensor<{n}xi1>) -> tensor<{n}xi8>'
    return module(parameters, body + store("%o", memory_kind(result), n, "%w8" if result == "i1" else "%w"))


def memory_kind(kind: str) -> str:
    return "i8" if kind == "i1" else kind


def run_elementwise(
    op: str, kinds: Sequence[str], result: str, inputs: Sequence[np.ndarray], concrete: bool = False, attributes: str = ""
) -> Result:
    """Run ``elementwise`` on inputs, symbolic or as concrete contents; the result is in ``numbers["o"]``."""
    n = len(inputs[0])
    args = [
        tensor(f"x{i}", DTYPE[kind], (n,), Role.IN, np.asarray(values) if concrete else "symbolic")
        for i, (kind, values) in enumerate(zip(kinds, inputs))
    ]
    args.append(out("o", DTYPE[memory_kind(result)], (n,)))
    data = {f"x{i}": values for i, values in enumerate(inputs)}
    return run(elementwise(op, kinds, result, n, attributes), args, data)
