"""Tasks over workers: results in the order of the tasks, and the work of a worker that was killed is done again.

A worker that dies breaks its whole pool, and nothing says which of the tasks in flight killed it. So only as many are in flight as
there are workers, and after a break each of them is repeated in a pool of its own: one that kills its worker every time is given up
with the reason, and takes no other with it. What crosses the border to our own processes is pickled by ``concurrent.futures``.
"""

from __future__ import annotations

import multiprocessing
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ProcessPoolExecutor, as_completed, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Generic, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")

#: how often a task whose worker died is repeated
RETRIES = 2


#: seconds between two looks at whether to stop
_LOOKS_S = 0.1


class Stopped(Exception):
    """Somebody else has no use for the results any more."""


@dataclass(frozen=True)
class Lost:
    """A task that has no result, and why."""

    reason: str


def run_tasks(
    step: Callable[[Task], Result],
    tasks: Sequence[Task],
    *,
    workers: int = 1,
    executor: Executor | None = None,
    retries: int = RETRIES,
    memory_mib: int | None = None,
    on_done: Callable[[int], None] = lambda number: None,
    own_main: bool = True,
    here: bool = True,
    stop: threading.Event | None = None,
) -> list[Result | Lost]:
    """``step`` of every task, in the order of the tasks.

    One worker and no executor: in this process. ``executor`` is used as it is: what it loses is Lost, unless it repeats work itself.
    ``memory_mib`` bounds each of our workers (Linux; an allocation beyond it is a MemoryError there). ``on_done`` is told the number of
    each task that is done. ``step`` must be importable, and raises only what is to be Lost. Without ``own_main`` our processes do
    not import the program that runs (which may have no ``__main__`` guard); without ``here`` one worker is a process, too. Where this is
    interrupted, or ``stop`` is set by another thread (then it raises Stopped), our processes are ended: nobody waits for their work.
    """
    if executor is not None:
        return _on_given(step, tasks, executor, on_done)
    if workers <= 1 and here:
        return _here(step, tasks, on_done)
    return _Pools(step, tasks, min(workers, max(1, len(tasks))), retries, memory_mib, on_done, own_main, stop or threading.Event()).run()


def _here(step: Callable[[Task], Result], tasks: Sequence[Task], on_done: Callable[[int], None]) -> list[Result | Lost]:
    results: list[Result | Lost] = []
    for number, task in enumerate(tasks):
        results.append(step(task))
        on_done(number)
    return results


def _on_given(
    step: Callable[[Task], Result], tasks: Sequence[Task], executor: Executor, on_done: Callable[[int], None]
) -> list[Result | Lost]:
    results: list[Result | Lost] = [Lost("the executor took no more work")] * len(tasks)
    running: dict[Future[Result], int] = {}
    for number in range(len(tasks)):
        _submit(step, tasks, number, executor, running, results)
    suspects: list[int] = []
    for future in as_completed(running):
        if type(future.exception()).__name__ in _WORKER_DIED:
            suspects.append(running[future])
        else:
            results[running[future]] = _result_of(future)
            on_done(running[future])
    for number in sorted(suspects):  # a cluster blames all tasks that were on the worker: alone, only the one that killed it dies again
        again: dict[Future[Result], int] = {}
        _submit(step, tasks, number, executor, again, results)
        for future in as_completed(again):
            results[number] = _result_of(future)
        on_done(number)
    return results


#: what executors raise for a task whose worker died, apart from those that are broken then: Dask's
_WORKER_DIED = frozenset({"KilledWorker"})


def _submit(
    step: Callable[[Task], Result], tasks: Sequence[Task], number: int, executor: Executor, running: dict[Future[Result], int],
    results: list[Result | Lost],
) -> None:  # fmt: skip
    try:
        running[executor.submit(step, tasks[number])] = number
    except RuntimeError as error:  # (BrokenExecutor is one)
        results[number] = Lost(f"the executor takes no more work: {error}")


def _result_of(future: Future[Result]) -> Result | Lost:
    """A result, or why there is none; whatever an executor raises is a reason."""
    try:
        return future.result()
    except Exception as error:
        return Lost(f"{type(error).__name__}: {error}")


def limit_memory(mib: int) -> None:
    """Bound what this process may allocate; systems that count no private mappings (macOS, Windows) do not hold to it."""
    if sys.platform != "linux":
        return
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = min(mib << 20, sys.maxsize)
    resource.setrlimit(resource.RLIMIT_DATA, (wanted if most == resource.RLIM_INFINITY else min(wanted, most), most))


_HIDING = threading.Lock()


@contextmanager
def _hidden_main() -> Iterator[None]:
    """``multiprocessing`` finds no main module to import in the processes that it starts."""
    with _HIDING:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = main


@dataclass
class _Pools(Generic[Task, Result]):
    """One pool after the other, until every task has a result or was given up."""

    step: Callable[[Task], Result]
    tasks: Sequence[Task]
    workers: int
    retries: int
    memory_mib: int | None
    on_done: Callable[[int], None]
    own_main: bool = True
    stop: threading.Event = field(default_factory=threading.Event)
    results: dict[int, Result | Lost] = field(default_factory=dict)

    def run(self) -> list[Result | Lost]:
        waiting = deque(range(len(self.tasks)))
        barren = 0
        while waiting and barren <= self.retries:
            known = len(self.results)
            for number in self._until_broken(waiting):
                self._alone(number)
            barren = barren + 1 if len(self.results) == known else 0
        for number in waiting:
            self._keep(number, Lost("its workers died before they took any work"))
        return [self.results[number] for number in range(len(self.tasks))]

    def _pool(self, workers: int) -> ProcessPoolExecutor:
        """Fresh interpreters: a fork of a process with threads (NumPy's, a progress bar's) may hang."""
        spawn = multiprocessing.get_context("spawn")
        if self.memory_mib is None:
            return ProcessPoolExecutor(workers, spawn)
        return ProcessPoolExecutor(workers, spawn, limit_memory, (self.memory_mib,))

    def _submitted(self, pool: ProcessPoolExecutor, number: int) -> Future[Result]:
        """Processes start when work comes; the module that they would import as their main one is looked up then."""
        if self.own_main:
            return pool.submit(self.step, self.tasks[number])
        with _hidden_main():
            return pool.submit(self.step, self.tasks[number])

    def _until_broken(self, waiting: deque[int]) -> list[int]:
        """Work until nothing waits or the pool breaks; the tasks that were in flight then."""
        running: dict[Future[Result], int] = {}
        suspects: list[int] = []
        with self._ended(self._pool(self.workers)) as pool:
            while not suspects and self._fill(pool, waiting, running) and running:
                suspects += self._collect(self._finished(running), running)
            wait(running)  # a broken pool ends them all at once
            suspects += self._collect(set(running), running)
        return sorted(suspects)

    @contextmanager
    def _ended(self, pool: ProcessPoolExecutor) -> Iterator[ProcessPoolExecutor]:
        """A pool whose processes are ended with whoever waits for them: it is Ctrl-C's meaning, and ``shutdown`` would wait."""
        try:
            yield pool
        except BaseException:
            for process in list(pool._processes.values()):  # (``terminate_workers`` is there from Python 3.14 on)
                process.terminate()
            raise
        finally:
            pool.shutdown(cancel_futures=True)

    def _finished(self, running: Iterable[Future[Result]]) -> set[Future[Result]]:
        """Those of the futures that are done, once one is. Raises Stopped."""
        while True:
            finished, _ = wait(running, _LOOKS_S, FIRST_COMPLETED)
            if self.stop.is_set():
                raise Stopped
            if finished:
                return finished

    def _fill(self, pool: ProcessPoolExecutor, waiting: deque[int], running: dict[Future[Result], int]) -> bool:
        """Put as many tasks in flight as there are workers; False for a broken pool."""
        while waiting and len(running) < self.workers:
            try:
                running[self._submitted(pool, waiting[0])] = waiting[0]
            except BrokenExecutor:
                return False
            waiting.popleft()
        return True

    def _collect(self, finished: set[Future[Result]], running: dict[Future[Result], int]) -> list[int]:
        """Keep the results; the tasks whose pool broke."""
        lost = []
        for future in finished:
            number = running.pop(future)
            if isinstance(future.exception(), BrokenExecutor):
                lost.append(number)
            else:
                result = _result_of(future)
                self._keep(number, result)
        return lost

    def _alone(self, number: int) -> None:
        for _ in range(self.retries):
            with self._ended(self._pool(1)) as pool:
                try:
                    future = self._submitted(pool, number)
                    self._finished([future])
                    if not isinstance(future.exception(), BrokenExecutor):
                        result = _result_of(future)
                        self._keep(number, result)
                        return
                except BrokenExecutor:
                    continue
        times = self.retries + 1
        self._keep(number, Lost(f"its worker died {times} times: killed from outside, out of memory, or a crash in native code"))

    def _keep(self, number: int, result: Result | Lost) -> None:
        self.results[number] = result
        self.on_done(number)
