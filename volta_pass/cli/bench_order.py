"""``volta-pass bench order``: what order checking adds to execution, for Triton's matmul and flash attention, and how it grows.

CPU time, the least of several runs. What is added is the difference between runs with and without order checking, in turn. Growth along
the loop of each kernel is measured inside the checker: its time for a million accesses of single threads (to shared memory, and to
global memory that may be written), and the exponent over all sizes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from ptx_engine.findings import Finding
from ptx_engine.launch import Arg, Launch, Role, ScalarArg, TensorArg, bind
from ptx_engine.machine import Budget
from ptx_engine.machine.executor import Machine
from ptx_engine.machine.preparation import calls_inlined, choose_entry
from ptx_engine.machine.same_value import same_value_keys
from ptx_engine.order import OrderChecker
from ptx_engine.order.equal_writes import ValueKeys
from ptx_engine.order.records import Column
from ptx_engine.syntax import parse
from ptx_engine.syntax.ast import Module
from ptx_engine.terms import Arena
from volta_pass.check.imports import import_object
from volta_pass.check.triton_side import Compiled, compile_side
from volta_pass.cli import bench_exec
from volta_pass.configs_folder import configs_folder
from volta_pass.spec import read_spec

#: most that order checking may add to the execution of the kernels of ``bench triton``
OVERHEAD_TARGET_PERCENT = 60.0
#: most seconds of order checking for a million accesses
SECONDS_PER_MILLION_TARGET = 0.5
#: highest exponent that passes for linear: best-of-N times differ by a few percent
EXPONENT_TARGET = 1.2
#: most bytes held for each byte of shared memory
SHADOW_TARGET = 64.0
REPEATS = 3


@dataclass(frozen=True)
class Case:
    """A kernel of configs/bench: the size of its own launch, the sizes along its loop, and its launch at another size."""

    name: str
    size_name: str
    usual: int
    sizes: tuple[int, ...]
    resized: Callable[[Arg, int], Arg]


@dataclass(frozen=True)
class Cost:
    """CPU seconds of one execution with and without order checking, those inside the checker, and the accesses that were checked."""

    checked_s: float
    unchecked_s: float
    order_s: float
    accesses: int

    @property
    def overhead_percent(self) -> float:
        return 100 * (self.checked_s / self.unchecked_s - 1)


class TimedChecker(OrderChecker):
    """The order checker with a clock: ``cpu_s`` is what its accesses, barriers, waits and final examination took."""

    cpu_s = 0.0

    @contextmanager
    def _timed(self) -> Iterator[None]:
        start = time.process_time()
        yield
        self.cpu_s += time.process_time() - start

    def read(self, *args: Any) -> None:
        with self._timed():
            super().read(*args)

    def write(self, *args: Any) -> None:
        with self._timed():
            super().write(*args)

    def async_copy(self, *args: Any) -> None:
        with self._timed():
            super().async_copy(*args)

    def commit_group(self, *args: Any) -> None:
        with self._timed():
            super().commit_group(*args)

    def wait_group(self, *args: Any) -> None:
        with self._timed():
            super().wait_group(*args)

    def cta_barrier(self, *args: Any) -> None:
        with self._timed():
            super().cta_barrier(*args)

    def end_batch(self) -> None:
        with self._timed():
            super().end_batch()

    def finish(self) -> list[Finding]:
        with self._timed():
            return super().finish()


class WeighedChecker(OrderChecker):
    """The order checker that notes the most memory that it holds about shared memory."""

    most_bytes = 0

    def _access(self, *args: Any, **more: Any) -> Column | None:
        column = super()._access(*args, **more)
        self.most_bytes = max(self.most_bytes, self.shared_bytes_held)
        return column


class WeighedMachine(Machine):
    """A machine whose checker is weighed."""

    def _checker(self, shared_bytes: int) -> WeighedChecker:
        return WeighedChecker(self.bound.launch, shared_bytes, self.bound.buffers, reach=lambda pc: self.data_flow.reach(pc))


class TimedMachine(Machine):
    """A machine whose checker is timed."""

    def _checker(self, shared_bytes: int) -> TimedChecker:
        keys: ValueKeys = (*same_value_keys(self.bound.arena), *self.agreement)
        return TimedChecker(self.bound.launch, shared_bytes, self.bound.buffers, value_keys=keys, reach=lambda pc: self.data_flow.reach(pc))


def _matmul(arg: Arg, k: int) -> Arg:
    """The argument at another inner extent."""
    if isinstance(arg, TensorArg) and arg.name in ("a", "b"):
        return replace(arg, shape=(arg.shape[0], k) if arg.name == "a" else (k, arg.shape[1]))
    if isinstance(arg, ScalarArg) and arg.name in ("K", "stride_am"):
        return replace(arg, value=k)
    return arg


def _attention(arg: Arg, n: int) -> Arg:
    """The argument at another number of queries and keys."""
    if isinstance(arg, TensorArg):
        return replace(arg, shape=(arg.shape[0], n, arg.shape[2]))
    if isinstance(arg, ScalarArg) and arg.name in ("N_CTX", "stride_h"):
        return replace(arg, value=n if arg.name == "N_CTX" else n * 64)
    return arg


CASES = (
    Case("matmul", "K", 512, (256, 512, 1024, 2048), _matmul),
    Case("flash_attention", "N", 1024, (512, 1024, 2048), _attention),
)


def compiled(name: str) -> Compiled:
    """A kernel of configs/bench, compiled by Triton."""
    spec = read_spec(configs_folder() / "bench" / f"{name}.toml")
    return compile_side(spec.candidate, import_object(spec.candidate, spec.path.parent))


def at_size(case: Case, launch: Launch, size: int) -> Launch:
    """The launch of a case at a size along its loop."""
    return replace(launch, args=tuple(case.resized(arg, size) for arg in launch.args))


def cost(ptx: str, launch: Launch, repeats: int = REPEATS) -> Cost:
    """The least CPU times of ``repeats`` executions of each kind, in turn. Raises AssertionError for a kernel with findings."""
    module = parse(ptx)
    rows = [(_run(Machine, module, launch), _run(Machine, module, launch, order=False), inside(ptx, launch)) for _ in range(repeats)]
    return Cost(min(row[0][0] for row in rows), min(row[1][0] for row in rows), min(row[2][0] for row in rows), rows[0][2][1])


def inside(ptx: str, launch: Launch) -> tuple[float, int]:
    """(CPU seconds inside the checker, accesses) of one execution."""
    checker = _run(TimedMachine, parse(ptx), launch)[1].order
    assert isinstance(checker, TimedChecker)
    return checker.cpu_s, checker.accesses


def _run(kind: type[Machine], module: Module, launch: Launch, *, order: bool = True) -> tuple[float, Machine]:
    """CPU seconds of one execution, without decoding; and the machine."""
    bound = bind(launch, Arena())
    machine = kind(module, calls_inlined(choose_entry(module, None), module, {}, bound), bound, Budget(), order, "")
    start = time.process_time()
    done = machine.run(launch.ctas)
    seconds = time.process_time() - start
    assert not done.findings, f"the benchmark kernel has findings: {done.findings[0].message}"
    return seconds, machine


def shadow_bytes(threads: int, turns: int = 3) -> float:
    """Most bytes held about shared memory for each byte of it, for the kernel of ``bench exec``: two tiles of 4 KiB, all of which every
    warp reads between two barriers."""
    case = bench_exec.Case(threads, 1, turns, 0)
    args = (
        TensorArg("a", "f32", (1024,), Role.IN), TensorArg("b", "f32", (1024,), Role.IN), TensorArg("out", "f32", (threads,), Role.OUT),
        ScalarArg("tiles", "u32", turns),
    )  # fmt: skip
    machine = _run(WeighedMachine, parse(bench_exec.kernel(case)), Launch((1, 1, 1), (threads, 1, 1), args))[1]
    assert isinstance(machine.order, WeighedChecker)
    return machine.order.most_bytes / machine.memory.shared_bytes


def exponent(accesses: list[int], seconds: list[float]) -> float:
    """The slope of log(seconds) over log(accesses), by least squares."""
    x, y = [math.log(n) for n in accesses], [math.log(s) for s in seconds]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y)) / sum((a - mean_x) ** 2 for a in x)


def figures(case: Case, usual: Cost, grown: list[tuple[float, int]]) -> list[tuple[str, float, str, float]]:
    """(name, figure, unit, most allowed) of a case, given its cost and (CPU seconds inside the checker, accesses) for each of its sizes."""
    rows = [(f"{case.name}: order adds", usual.overhead_percent, "%", OVERHEAD_TARGET_PERCENT)]
    for size, (seconds, accesses) in zip(case.sizes, grown):
        name = f"{case.name} {case.size_name}={size}: order / accesses"
        rows.append((name, seconds / accesses * 1e6, "s/M", SECONDS_PER_MILLION_TARGET))
    power = exponent([accesses for _, accesses in grown], [seconds for seconds, _ in grown])
    return [*rows, (f"{case.name}: order over accesses", power, "exponent", EXPONENT_TARGET)]


def measure() -> list[tuple[str, float, str, float]]:
    """The figures of all cases, each with the most that is allowed. Needs Triton."""
    rows = []
    for case in CASES:
        kernel = compiled(case.name)
        usual = cost(kernel.ptx, at_size(case, kernel.launch, case.usual))
        launches = [at_size(case, kernel.launch, size) for size in case.sizes]
        rows += figures(case, usual, [min(inside(kernel.ptx, launch) for _ in range(REPEATS)) for launch in launches])
    for threads in (128, 1024):
        rows.append((f"tiles of 8 KiB, {threads} threads: shadow / shared memory", shadow_bytes(threads), "B/B", SHADOW_TARGET))
    return rows
