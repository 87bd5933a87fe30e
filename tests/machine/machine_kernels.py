"""Small PTX kernels for the machine's tests: a body between a standard head and tail, run over a launch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ptx_engine.launch import Arg, Launch, Role, ScalarArg, TensorArg, bind
from ptx_engine.machine import Budget, Execution, execute
from ptx_engine.syntax import parse
from ptx_engine.terms import Arena

REGISTERS = ".reg .pred %p<20>;\n.reg .b16 %h<20>;\n.reg .b32 %r<60>;\n.reg .b32 %f<60>;\n.reg .b64 %d<20>;\n"


def module(body: str, params: Sequence[str] = ("u64 out",), shared: str = "", directives: str = "") -> str:
    """A module with one entry ``k``; ``params`` are ``"u64 name"``; ``shared`` declares shared memory at module level."""
    declared = ", ".join(f".param .{p.split()[0]} {p.split()[1]}" for p in params)
    return (
        f".version 8.6\n.target sm_90\n.address_size 64\n{shared}\n.visible .entry k({declared})\n"
        f"{directives}\n{{\n{REGISTERS}{body}\nret;\n}}\n"
    )


def ints(name: str, contents: Sequence[int] | np.ndarray, role: Role = Role.IN) -> TensorArg:
    """An s32 tensor with concrete contents."""
    return TensorArg(name, "s32", (len(contents),), role, contents=np.asarray(contents, np.int32))


def out(count: int, dtype: str = "s32", name: str = "out") -> TensorArg:
    """An output tensor."""
    return TensorArg(name, dtype, (count,), Role.OUT)


def run(
    text: str, args: Sequence[Arg], *, block: int = 32, grid: int = 1, shared: int = 0, budget: Budget | None = None,
    block3: tuple[int, int, int] | None = None,
) -> tuple[Execution, Arena]:  # fmt: skip
    """Execute the module's only entry."""
    arena = Arena()
    launch = Launch((grid, 1, 1), block3 or (block, 1, 1), tuple(args), shared)
    return execute(parse(text), None, bind(launch, arena), budget=budget or Budget(), source=text), arena


def values(execution: Execution, arena: Arena, name: str = "out") -> dict[int, float]:
    """The written elements that are rational constants, by index."""
    footprint = execution.footprints[name]
    result = {}
    for index, ident in zip(footprint.index.tolist(), footprint.ids.tolist()):
        const = arena.consts[ident] if 0 <= ident < len(arena.consts) else None
        assert const is not None and const.is_rational, f"element {index} is no constant"
        result[index] = float(const.coef)
    return result


def column(execution: Execution, arena: Arena, name: str = "out") -> list[int]:
    """The written elements in order, as integers."""
    return [int(v) for _, v in sorted(values(execution, arena, name).items())]


def kinds(execution: Execution) -> list[str]:
    """The kinds of all findings, sorted."""
    return sorted(f.kind for f in execution.findings)


def scalar(name: str, value: int, dtype: str = "s32") -> ScalarArg:
    """A concrete scalar argument."""
    return ScalarArg(name, dtype, value)


#: each thread's own address of a 4-byte element in %d1
OWN = (
    "ld.param.u64 %d0, [out];\nmov.u32 %r0, %tid.x;\nmov.u32 %r50, %ctaid.x;\nmov.u32 %r51, %ntid.x;\n"
    "mad.lo.s32 %r52, %r50, %r51, %r0;\nmad.wide.s32 %d1, %r52, 4, %d0;\n"
)
