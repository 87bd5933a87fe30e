"""Whether what a region combines depends on the order: tried on fresh values once a comparison has failed.

Compilers combine in an order of their own, the reference in another. Both are the same formula only if the region is
associative, and for a reduction commutative too. A difference then says nothing about the compiler unless both laws are proved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ptx_engine.decide import Budget, decide
from ptx_engine.errors import InternalError, PtxError
from ptx_engine.launch import Footprint
from ptx_engine.verdict import OutputVerdict, Status
from volta_pass.references.memory_format import dtype_range
from volta_pass.references.ttir_frame import Frame
from volta_pass.references.ttir_registry import Block, OpInfo
from volta_pass.references.ttir_types import TtirType
from volta_pass.references.ttir_values import Sym, Value, int_ids, rows, wrapped

Apply = Callable[[Frame, Block, Sequence[Value]], list[Value]]

#: regions of one such operation on their two arguments obey both laws (floats: over the reals)
_LAWFUL = frozenset(
    f"arith.{name}"
    for name in ("addf", "mulf", "maxnumf", "maximumf", "minnumf", "minimumf", "addi", "muli", "maxsi", "maxui", "minsi", "minui",
                 "andi", "ori", "xori")
)  # fmt: skip

#: of one law; a build must not wait for it
_SECONDS = 10.0


@dataclass(frozen=True)
class Combine:
    """A reduction or scan that ran: ``frame`` holds nothing but what its region reads from outside."""

    op: OpInfo
    frame: Frame
    apply: Apply

    @property
    def kinds(self) -> list[TtirType]:
        return [TtirType(kind.kind, kind.width, (), kind.fmt) for kind in self.op.operand_types]


@dataclass(frozen=True)
class Dependence:
    """A law that a region breaks (``example`` shows it), or of which that is not known (no example)."""

    op_name: str
    user_loc: str
    law: str
    example: str = ""


def note_combine(frame: Frame, op: OpInfo, apply: Apply) -> None:
    """Remember a reduction or scan the first time it runs, unless its region obeys the laws by its looks."""
    region = op.regions[0]
    known = frame.memory.freedoms.combines
    if op.origin in known or _lawful(op):
        return
    light = frame.with_registers(len(frame.regs))
    light.assign(region.captures, frame.values(region.captures))
    known[op.origin] = Combine(op, light, apply)


def _lawful(op: OpInfo) -> bool:
    block = op.regions[0].block
    alone = len(op.operands) == 1 and len(block.steps) == 1 and op.region_reads(0) == sorted(block.args)
    return alone and block.steps[0].origin.op_name in _LAWFUL


def dependences(combines: Sequence[Combine]) -> list[Dependence]:
    """The laws that do not hold, or could not be proved; broken ones first."""
    found = [row for combine in combines for row in _of_one(combine)]
    return sorted(found, key=lambda row: not row.example)


def _of_one(combine: Combine) -> list[Dependence]:
    laws = [("associative", _regrouped)]
    if combine.op.name == "tt.reduce":
        laws.append(("commutative", _exchanged))
    found = []
    for law, sides in laws:
        try:
            status, example = _holds(combine, sides)
        except InternalError:
            raise
        except PtxError:
            status, example = Status.UNKNOWN, ""
        if status is not Status.PROVED:
            found.append(Dependence(combine.op.name, combine.op.origin.user_loc, law, example))
    return found


Sides = Callable[[Callable[[Sequence[Value], Sequence[Value]], list[Value]], list[list[Value]]], tuple[list[Value], list[Value]]]
_SHOWN = {"associative": ("f(f(a, b), c)", "f(a, f(b, c))"), "commutative": ("f(a, b)", "f(b, a)")}


def _regrouped(f: Callable[..., list[Value]], operands: list[list[Value]]) -> tuple[list[Value], list[Value]]:
    a, b, c = operands
    return f(f(a, b), c), f(a, f(b, c))


def _exchanged(f: Callable[..., list[Value]], operands: list[list[Value]]) -> tuple[list[Value], list[Value]]:
    a, b, _ = operands
    return f(a, b), f(b, a)


def _holds(combine: Combine, sides: Sides) -> tuple[Status, str]:
    """Whether both sides of a law are equal for all values, and else an example."""
    frame, kinds = combine.frame, combine.kinds
    if any(rows(value).size > 1 for value in frame.regs if value is not None):
        return Status.UNKNOWN, ""  # a program's own scalar: one law per program
    operands = [[_fresh(frame, kind, _name(letter, i, len(kinds))) for i, kind in enumerate(kinds)] for letter in "abc"]

    def f(left: Sequence[Value], right: Sequence[Value]) -> list[Value]:
        return combine.apply(frame, combine.op.regions[0].block, [*left, *right])

    first, second = (_written(frame, values, kinds) for values in sides(f, operands))
    verdict = decide(frame.arena, {"combined": first}, {"combined": second}, budget=Budget(seconds=_SECONDS))
    law = "commutative" if sides is _exchanged else "associative"
    return verdict.status, _example(verdict.outputs, law) if verdict.status is Status.REFUTED else ""


def _name(letter: str, number: int, count: int) -> str:
    """No parameter of a kernel has such a name."""
    return f"'{letter}'" if count == 1 else f"'{letter}.{number}'"


def _fresh(frame: Frame, kind: TtirType, name: str) -> Value:
    dtype = kind.fmt if kind.is_float else {1: "pred"}.get(kind.width, f"s{kind.width}")
    ids = np.array([-1 - frame.arena.add_input(name, 1, dtype).base], np.int32)
    return Sym(ids) if kind.is_float else Sym(ids, *dtype_range(dtype))


def _written(frame: Frame, values: Sequence[Value], kinds: Sequence[TtirType]) -> Footprint:
    ids = [_exact(frame, value, kind).ravel()[:1] for value, kind in zip(values, kinds)]
    return Footprint(np.arange(len(ids), dtype=np.int64), np.concatenate(ids).astype(np.int32))


def _exact(frame: Frame, value: Value, kind: TtirType) -> np.ndarray:
    if kind.is_float:
        return rows(value)
    return wrapped(value, kind.width, kind.width > 1, frame.arena).ids if isinstance(value, Sym) else int_ids(value, frame.arena)


def _example(outputs: Sequence[OutputVerdict], law: str) -> str:
    witness = next((output.witness for output in outputs if output.witness is not None), None)
    if witness is None:
        return "the results differ"
    inputs = ", ".join(f"{name.replace(chr(39), '')} = {_short(value)}" for name, value in sorted(witness.inputs.items()))
    left, right = _SHOWN[law]
    return f"{left} = {_short(witness.reference_value)} and {right} = {_short(witness.candidate_value)} at {inputs or 'any values'}"


def _short(text: str) -> str:
    try:
        return f"{float(text):.6g}"
    except ValueError:
        return text
