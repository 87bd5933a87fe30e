"""Which tensors a tile program reads and writes, and where: roles of launch arguments and lines for blame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from volta_pass.references.tile_hazards import regions, subexpressions
from volta_pass.references.tile_program import Alloc, Bind, For, If, Operand, Region, Stmt, Store, TileOp, TileProgram, While, load_program
from volta_pass.ttir_uses import AccessSite, ParameterUse

#: operation -> positions of the regions that it writes; it reads all others, and those that it updates
_WRITTEN = {"copy": (1,), "transpose": (1,), "fill": (0,), "gemm": (2,), "reduce": (1,), "cumsum": (1,), "cummax": (1,)}
_UPDATED = {
    "gemm": (2,), "reduce": (1,), "atomicadd": (1,), "atomicmax": (1,), "atomicmin": (1,),
    "atomic_add_elem_op": (0,), "atomic_max_elem_op": (0,), "atomic_min_elem_op": (0,),
}  # fmt: skip


def tile_parameter_uses(text: str) -> list[ParameterUse]:
    """The tensors of a tile program in order of appearance. Raises ParseError on a text that is none."""
    program = load_program(text)
    uses = {decl.param: ParameterUse(decl.param, decl.dtype) for decl in program.buffers if decl.param}
    for stored, buffer, stmt in _accesses(program.body):
        name = program.buffers[buffer].param
        if name:
            site = AccessSite(stmt.op if isinstance(stmt, TileOp) else "store", stmt.at, True)
            (uses[name].stores if stored else uses[name].loads).append(site)
    return list(uses.values())


def reads_and_writes(program: TileProgram) -> tuple[frozenset[str], frozenset[str]]:
    """Names of the tensors that are read, and of those that are written."""
    found: tuple[set[str], set[str]] = (set(), set())
    for stored, buffer, _ in _accesses(program.body):
        found[stored].add(program.buffers[buffer].param)
    return frozenset(found[0] - {""}), frozenset(found[1] - {""})


def _accesses(block: Sequence[Stmt]) -> Iterator[tuple[bool, int, Stmt]]:
    """(stored?, buffer, statement) of every access."""
    stack = list(block)
    while stack:
        stmt = stack.pop(0)
        operands: tuple[Operand, ...] = ()
        if isinstance(stmt, For):
            operands = (stmt.start, stmt.extent)
            stack[:0] = stmt.body
        elif isinstance(stmt, While):
            operands = (stmt.condition,)
            stack[:0] = stmt.body
        elif isinstance(stmt, If):
            operands = (stmt.condition,)
            stack[:0] = (*stmt.then, *stmt.orelse)
        elif isinstance(stmt, Bind):
            operands = (stmt.value,)
        elif isinstance(stmt, Store):
            yield True, stmt.buffer, stmt
            operands = (*stmt.index, stmt.value)
        elif isinstance(stmt, TileOp):
            yield from _of_operation(stmt)
            continue
        else:
            assert isinstance(stmt, Alloc)
        for operand in operands:
            yield from _of_operand(operand, stmt)


def _of_operation(op: TileOp) -> Iterator[tuple[bool, int, Stmt]]:
    known = op.op in _WRITTEN or op.op in _UPDATED
    written, updated = _WRITTEN.get(op.op, ()), _UPDATED.get(op.op, ())
    for i, arg in enumerate(op.args):
        if not isinstance(arg, Region):
            yield from _of_operand(arg, op)
            continue
        if not known or i in written or i in updated:
            yield True, arg.buffer, op
        if not known or i in updated or i not in written:
            yield False, arg.buffer, op
        for e in (*arg.start, *arg.extent):
            yield from _of_operand(e, op)


def _of_operand(operand: Operand, stmt: Stmt) -> Iterator[tuple[bool, int, Stmt]]:
    for region in regions(operand):
        yield False, region.buffer, stmt
    for e in subexpressions(operand):
        if e.op == "load":
            yield False, int(e.data), stmt
