"""Kernels of one tensor-core instruction: each lane loads its fragment registers from memory in register order and stores the result's."""

from __future__ import annotations

import numpy as np

from ptx_engine import emulate
from ptx_engine.launch import Launch, Role, TensorArg, bind
from ptx_engine.machine import Execution, execute
from ptx_engine.syntax import parse
from ptx_engine.terms import Arena

HEAD = ".version 9.1\n.target sm_100a\n.address_size 64\n"


def registers(name: str, count: int) -> str:
    return "{" + ", ".join(f"%{name}{i}" for i in range(count)) + "}"


def fragment_kernel(instruction: str, counts: dict[str, int], bits: dict[str, int], extra: str = "") -> str:
    """``instruction`` uses {d}, {a}, {b}, {c}, {e}; ``counts`` registers a fragment, of ``bits`` each; lane l's registers of a fragment lie
    one after another at element l * count."""
    params = ", ".join(f".param .u64 p{name}" for name in counts)
    lines = [HEAD, f".visible .entry k({params})", "{", ".reg .b32 %lane, %off; .reg .b64 %at, %wide;", "mov.u32 %lane, %tid.x;"]
    for name, count in counts.items():
        lines.append(f".reg .b{bits[name]} %{name}<{count}>;")
    for name, count in counts.items():
        if name != "d":
            lines += _address(name, count, bits[name])
            lines += [f"ld.global.b{bits[name]} %{name}{i}, [%at+{i * bits[name] // 8}];" for i in range(count)]
    fields = {name: registers(name, count) if count > 1 or name not in "e" else f"%{name}0" for name, count in counts.items()}
    lines += [extra, instruction.format(**fields)]
    lines += _address("d", counts["d"], bits["d"])
    lines += [f"st.global.b{bits['d']} [%at+{i * bits['d'] // 8}], %d{i};" for i in range(counts["d"])]
    return "\n".join([*lines, "ret;", "}"]) + "\n"


def _address(name: str, count: int, bits: int) -> list[str]:
    return [f"ld.param.u64 %at, [p{name}]; mul.wide.u32 %wide, %lane, {count * bits // 8}; add.s64 %at, %at, %wide;"]


def run_bits(text: str, fragments: dict[str, np.ndarray]) -> np.ndarray:
    """Run on bits; ``fragments`` are arrays of lanes x registers, 'd' is written and returned."""
    arrays = {name: np.ascontiguousarray(x) for name, x in fragments.items()}
    emulation = emulate(text, None, 1, len(arrays["d"]), list(arrays.values()))
    assert not emulation.findings
    return arrays["d"]


def run_terms(text: str, dtypes: dict[str, str], sizes: dict[str, int], lanes: int = 32) -> tuple[Execution, Arena]:
    """Run on symbolic fragments with the given element types and numbers of elements."""
    arena = Arena()
    args = tuple(TensorArg(name, dtypes[name], (sizes[name],), Role.OUT if name == "d" else Role.IN) for name in dtypes)
    return execute(parse(text), None, bind(Launch((1, 1, 1), (lanes, 1, 1), args), arena), source=text), arena
