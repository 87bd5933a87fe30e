"""Small concurrent programs as PTX, run by the machine itself: what the checker is told then, and which schedules are tried, is the machine's.

Thread t of a program is lane 0 of a warp of its own, whose other lanes only come to the barriers of the CTA, so that these count whole
warps. A load stores what it has read to a place of its own: nobody can say then that nothing comes of it.
"""

from __future__ import annotations

import re
from itertools import groupby

import numpy as np
from order_programs import ARRIVALS, Op, Program

from ptx_engine.findings import Finding, Severity
from ptx_engine.launch import Launch, Role, TensorArg, bind
from ptx_engine.machine import Execution, execute
from ptx_engine.syntax import parse
from ptx_engine.terms import Arena

HEAD = """.version 8.4
.target sm_80
.address_size 64
.visible .entry k(.param .u64 g, .param .u64 f, .param .u64 o)
{
.reg .pred %p<8>; .reg .pred %q<64>; .reg .b32 %r<8>; .reg .b64 %d<8>; .shared .align 16 .b8 s[64]; .shared .align 8 .b8 m[256];
ld.param.u64 %d0, [g]; ld.param.u64 %d1, [f]; ld.param.u64 %d2, [o]; mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x;
shr.u32 %r2, %r0, 5; and.b32 %r3, %r0, 31; setp.eq.u32 %p0, %r0, 0;
"""
BASE = {"s": "s", "g": "%d0"}
STATE = {"s": "shared", "g": "global"}
WIDTH = {4: "u32", 8: "u64"}
#: ways to run an operation only if a test has succeeded
GUARDS = ("predicate", "branch", "word")


class _Writer:
    def __init__(self, program: Program, guards: str) -> None:
        self.p, self.guards = program, guards
        self.lines: list[str] = []
        #: operation by line of PTX, counted from 1
        self.ops: dict[int, Op] = {}
        self.labels = 0
        self.mbarriers = sorted(
            {op.id for ops in program.threads for op in ops if op.kind in (*ARRIVALS, "mb_wait", "mb_test")}
            | {n for ops in program.threads for op in ops if op.kind == "mb_either" for n in (op.id, op.other)}
        )
        self.loads = 0

    def text(self) -> str:
        self.lines += HEAD.strip().split("\n")
        for number in self.mbarriers:
            counts = {op.count for ops in self.p.threads for op in ops if op.kind in ARRIVALS and op.id == number}
            self.lines.append(f"@%p0 mbarrier.init.shared.b64 [{self._mbarrier(number)}], {max(counts, default=1)};")
        self.lines.append(
            "setp.lt.u32 %p5, %r0, 16; shl.b32 %r6, %r0, 2; mov.u32 %r5, s; add.u32 %r6, %r6, %r5; @%p5 st.shared.u32 [%r6], 7;"
        )
        self.lines.append("bar.sync 0; setp.ne.u32 %p1, %r3, 0;")
        self.lines.append(f"mad.lo.u32 %r4, %r1, {self.p.threads_per_cta}, %r2;")
        self.lines += [f"setp.eq.u32 %p2, %r4, {t}; @%p2 bra T{t};" for t in range(len(self.p.threads))]
        for t, ops in enumerate(self.p.threads):
            self.lines.append(f"T{t}:")
            for part, (together, run) in enumerate(groupby(enumerate(ops), lambda item: item[1].kind in ("bar", "arrive"))):
                self.lines.append("" if together else f"@%p1 bra X{t}_{part};")
                for j, op in run:
                    self._write(j, op)
                self.lines.append("" if together else f"X{t}_{part}: bar.warp.sync -1;")
            self.lines.append("ret;")
        return "\n".join([*self.lines, "}"]) + "\n"

    def _mbarrier(self, number: int) -> str:
        return f"m+{8 * self.mbarriers.index(number)}"

    def _write(self, j: int, op: Op) -> None:
        code = self._code(j, op)
        test, yes, no = (op.given, "", "!") if op.given >= 0 else (op.unless, "!", "")
        if test < 0:
            self._line(op, code)
        elif self.guards == "predicate" and op.kind != "mb_wait":
            self._line(op, " ".join(f"@{yes}%q{test} {one};" for one in code.split(";") if one.strip()))
        else:
            self.labels += 1
            label = f"S{self.labels}"
            if self.guards == "word":
                self.lines.append(f"selp.b32 %r6, 1, 0, %q{test}; setp.eq.s32 %p4, %r6, {0 if no else 1}; @%p4 bra {label};")
            else:
                self.lines.append(f"@{no}%q{test} bra {label};")
            self._line(op, code)
            self.lines.append(f"{label}:")

    def _line(self, op: Op, code: str) -> None:
        self.lines.append(code)
        self.ops[len(self.lines)] = op

    def _code(self, j: int, op: Op) -> str:
        if op.kind in ("load", "store", "rmw", "copy"):
            return self._access(op)
        if op.kind == "mb_either":
            return self._either(op)
        if op.kind in ("mb_wait", "mb_test") or op.kind in ARRIVALS:
            return self._phase(j, op)
        flag = f"[%d1+{4 * op.id}]"
        if op.kind in ("set", "add"):
            order = "release" if op.strong else "relaxed"
            return f"st.{order}.gpu.global.u32 {flag}, 1;" if op.kind == "set" else f"red.{order}.gpu.global.add.u32 {flag}, 1;"
        if op.kind in ("await", "await_count"):
            order = "acquire" if op.strong else "relaxed"
            return self._loop(f"ld.{order}.gpu.global.u32 %r5, {flag}; setp.lt.u32 %p3, %r5, {max(op.count, 1)};", "@%p3")
        return {
            "fence": "fence.acq_rel.gpu;", "commit": "cp.async.commit_group;",
            "wait": f"cp.async.wait_group {op.count};" if op.count >= 0 else "cp.async.wait_all;",
            "bar": f"bar.sync {op.id}, {32 * op.count};", "arrive": f"bar.arrive {op.id}, {32 * op.count};", "warp": "bar.warp.sync 1;",
        }[op.kind]  # fmt: skip

    def _loop(self, test: str, again: str) -> str:
        self.labels += 1
        return f"L{self.labels}: {test} {again} bra L{self.labels};"

    def _access(self, op: Op) -> str:
        place, width = f"[{BASE[op.space]}+{op.address}]", WIDTH[op.nbytes]
        if op.kind == "copy":
            return f"cp.async.ca.shared.global {place}, [%d0+{op.source}], {op.nbytes};"
        if op.kind == "load":
            self.loads += 1
            register = "%r7" if op.nbytes == 4 else "%d7"
            return f"ld.{STATE[op.space]}.{width} {register}, {place}; st.global.{width} [%d2+{8 * self.loads - 8}], {register};"
        if op.kind == "store":
            return f"st.{STATE[op.space]}.{width} {place}, {op.value * 0x100000001 if op.nbytes == 8 else op.value};"
        return f"red.relaxed.{'gpu' if op.beyond_cta else 'cta'}.{STATE[op.space]}.add.{width} {place}, 1;"

    def _either(self, op: Op) -> str:
        """A loop until one of two tests succeeds, in the manner of the guards."""
        first, second = (f"mbarrier.test_wait.parity.shared.b64 {{}}, [{self._mbarrier(number)}], 0;" for number in (op.id, op.other))
        if self.guards == "branch":
            self.labels += 2
            again, on = f"L{self.labels - 1}", f"L{self.labels}"
            return f"{again}: {first.format('%p3')} @%p3 bra {on}; {second.format('%p3')} @!%p3 bra {again}; {on}:"
        either = {"predicate": "or.pred %p3, %p3, %p4;", "word": "selp.b32 %r6, 1, 0, %p3; selp.b32 %r5, 1, 0, %p4; add.u32 %r6, %r6, %r5; "
                  "setp.ne.u32 %p3, %r6, 0;"}[self.guards]  # fmt: skip
        return self._loop(f"{first.format('%p3')} {second.format('%p4')} {either}", "@!%p3")

    def _phase(self, j: int, op: Op) -> str:
        place = f"[{self._mbarrier(op.id)}]"
        if op.kind == "mb_wait":
            return self._loop(f"mbarrier.test_wait.parity.shared.b64 %p3, {place}, {op.count & 1};", "@!%p3")
        return {
            "mb_test": f"mbarrier.test_wait.parity.shared.b64 %q{j}, {place}, {op.count & 1};",
            "mb_arrive": f"mbarrier.arrive.shared.b64 _, {place};",
            "copy_arrive": f"cp.async.mbarrier.arrive.noinc.shared.b64 {place};",
            "copy_count": f"cp.async.mbarrier.arrive.shared.b64 {place};",
        }[op.kind]  # fmt: skip


def ran(program: Program, guards: str = "predicate") -> tuple[Execution, dict[int, Op]]:
    """What the machine says of a program, and the operations by line. Raises PtxError where it cannot run it."""
    writer = _Writer(program, guards)
    text = writer.text()
    args = (
        TensorArg("G", "s32", (16,), Role.INOUT, contents=np.zeros(16, np.int32)),
        TensorArg("F", "s32", (64,), Role.INOUT, contents=np.zeros(64, np.int32)), TensorArg("O", "s32", (256,), Role.OUT),
    )  # fmt: skip
    launch = Launch((program.ctas, 1, 1), (32 * program.threads_per_cta, 1, 1), args)
    return execute(parse(text), None, bind(launch, Arena()), source=text), writer.ops


def racing(findings: list[Finding], ops: dict[int, Op]) -> frozenset[tuple[int, int, bool]]:
    """(lower instruction, higher one, same value) of findings, as the explorer has them."""
    found = set()
    for finding in findings:
        if finding.kind in ("data race", "same-value write", "unused read"):
            low, high = sorted(ops[site.ptx_line].instruction for site in finding.sites[:2])
            found.add((low, high, finding.kind == "same-value write"))
    return frozenset(found)


def stuck(findings: list[Finding]) -> bool:
    """Whether a deadlock is among the findings."""
    return any(finding.kind == "deadlock" for finding in findings)


def misuses(findings: list[Finding]) -> bool:
    """Whether a barrier or an mbarrier is misused."""
    return any(f.severity is Severity.ERROR and re.search("misuse", f.kind) for f in findings)
