"""Exchanges whose lanes stand at different instructions: the ISA has lanes meet that execute the same instruction, wherever it is written.

"shfl.sync will cause the executing thread to wait until all non-exited threads corresponding to membermask have executed shfl.sync with the
same qualifiers and same membermask value" (so vote, match and redux): nothing is said of one place in the program. A lane stays where it is
until its mask is complete, so that who meets whom is the same in every schedule. The first of the instructions is executed for all lanes,
with the operands that each lane's own instruction names. Of sm_70 and later; before, the ISA wants one instruction "in convergence".
Source: PTX ISA 9.1, "shfl.sync", "vote.sync", "match.sync", "redux.sync".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ptx_engine.errors import PtxError, UnsupportedError
from ptx_engine.isa.group import Group
from ptx_engine.isa.values import Value, join, take
from ptx_engine.machine.environment import MachineEnvironment
from ptx_engine.machine.program import Program, PtxOrigin, located
from ptx_engine.machine.warp_syncs import Standing, WarpSyncs
from ptx_engine.syntax.ast import Instruction, Name, Not, Operand, Pair, Reg


def exchange_parted(syncs: WarpSyncs, env: MachineEnvironment, program: Program, origins: Sequence[PtxOrigin]) -> list[tuple[Group, int]]:
    """Let lanes exchange that are complete if one instruction counts wherever it is written; the groups that go on, each with where.
    Raises UnsupportedError where operands cannot be matched."""
    parts = syncs.take_parted(lambda pc: program.flat.instructions[pc].mnemonic)
    if not parts:
        return []
    first = program.flat.instructions[parts[0].pc]
    try:
        pairs = [_matched(first, program.flat.instructions[part.pc]) for part in parts]
        everyone, order = _together(parts, pairs, env, program)
        program.enter(parts[0].pc)
        env.arena.origin, step = program.blocks[parts[0].pc].steps[0]
        step(everyone)
    except PtxError as error:
        raise located(error, first, origins[parts[0].pc]) from None
    start, back = 0, np.argsort(order)
    for part, matched in zip(parts, pairs):
        where = back[start : start + part.group.n]
        start += part.group.n
        for own, its in matched[0]:
            part.group.R[program.register(its.name)] = take(everyone.R[program.register(own.name)], where)
        program.enter(part.pc + 1)
    return [(part.group, part.pc + 1) for part in parts]


#: (register of the first instruction, of another one): destinations and sources
Matched = tuple[list[tuple[Reg, Reg]], list[tuple[Reg, Reg]]]


def _matched(first: Instruction, other: Instruction) -> Matched:
    found: Matched = ([], [])
    for at, (a, b) in enumerate(zip(first.operands, other.operands)):
        for own, its in zip(_parts(a), _parts(b)):
            if isinstance(own, Reg) and isinstance(its, Reg) and type(a) is type(b):
                found[at > 0].append((own, its))
            elif own != its or (at == 0 and own != Name("_")):
                what = f"lanes of a warp meet at different {first.mnemonic} instructions with different kinds of operands"
                raise UnsupportedError(what, feature=f"parted {first.mnemonic}")
    return found


def _parts(operand: Operand) -> list[Operand]:
    if isinstance(operand, Pair):
        return [operand.first, operand.second]
    return [operand.operand if isinstance(operand, Not) else operand]


def _together(parts: Sequence[Standing], pairs: Sequence[Matched], env: MachineEnvironment, program: Program) -> tuple[Group, np.ndarray]:
    """All lanes as one group at the first instruction, and the order of the lanes of the parts in it."""
    groups = [part.group for part in parts]
    threads, sizes = np.concatenate([g.threads for g in groups]), [g.n for g in groups]
    order = np.argsort(threads, kind="stable")
    values: list[Value] = list(env.template)
    for slot in env.specials.values():
        values[slot] = join(env.arena, [g.R[slot] for g in groups], sizes, order, env.widths[slot])
    for i, (own, _) in enumerate(pairs[0][1]):
        slot = program.register(own.name)
        columns = [g.R[program.register(matched[1][i][1].name)] for g, matched in zip(groups, pairs)]
        values[slot] = join(env.arena, columns, sizes, order, env.widths[slot])
    guard = program.flat.instructions[parts[0].pc].predicate
    if guard is not None:
        values[program.register(guard.name)] = not program.flat.instructions[parts[0].pc].negated
    return Group(values, threads[order], groups[0].block_threads, parts[0].pc), order
