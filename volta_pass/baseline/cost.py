"""What a kernel costs, as far as its PTX says: instructions of each kind, barriers, shared memory, warps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from ptx_engine.errors import LaunchError, PtxError
from ptx_engine.launch import Launch
from ptx_engine.syntax import flatten, parse
from ptx_engine.syntax.ast import FlatFunction

_MEMORY = frozenset({"ld", "st", "atom", "red", "ldmatrix", "stmatrix"})
_TENSOR_CORES = frozenset({"mma", "wmma"})
_BARRIERS = frozenset({"bar", "barrier"})


@dataclass(frozen=True)
class Cost:
    """``instructions`` as they stand in the text, ``executed`` by all threads of the CTAs that ran; shared memory in bytes."""

    instructions: int = 0
    memory: int = 0
    tensor_core: int = 0
    barriers: int = 0
    shared_bytes: int = 0
    warps: int = 0
    executed: int = 0

    def changes(self, newer: "Cost") -> dict[str, tuple[int, int]]:
        """What is not the same: name -> (before, after). ``executed`` counts only where both are known."""
        mine, other = asdict(self), asdict(newer)
        return {
            name: (mine[name], other[name])
            for name in mine
            if mine[name] != other[name] and (name != "executed" or mine[name] * other[name])
        }


def cost_of(ptx: str, entry: str, launch: Launch, report: Mapping[str, object]) -> Cost:
    """The cost of one kernel; zeros where the PTX cannot be read."""
    executed = report.get("instructions", 0)
    ran = int(executed) if isinstance(executed, int) else 0
    try:
        flat = _flat(ptx, entry)
    except PtxError:
        return Cost(shared_bytes=launch.dynamic_shared_bytes, warps=-(-launch.threads // 32), executed=ran)
    opcodes = [instruction.opcode for instruction in flat.instructions]

    def count(kinds: frozenset[str]) -> int:
        return sum(opcode in kinds for opcode in opcodes)

    barriers = sum(i.opcode in _BARRIERS and i.modifiers[:1] != ("warp",) for i in flat.instructions)
    return Cost(len(opcodes), count(_MEMORY), count(_TENSOR_CORES), barriers, launch.dynamic_shared_bytes, -(-launch.threads // 32), ran)


def _flat(ptx: str, entry: str) -> FlatFunction:
    module = parse(ptx)
    functions = [function for function in module.entries() if not entry or function.name == entry]
    if not functions:
        raise LaunchError(f"there is no entry {entry}")
    return flatten(functions[0], module)
