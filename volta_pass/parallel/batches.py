"""The CTA batches of one launch over processes: the same execution as in one, or NotSeparableError.

This process runs the first batches itself, meanwhile the others run theirs. What a killed worker had is done again.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from ptx_engine.launch import BoundLaunch
from ptx_engine.machine import Budget, Execution, execute
from ptx_engine.machine.executor import NO_EXTERNS
from ptx_engine.machine.parts import Part, PartTask, Split, is_small, run_part
from ptx_engine.syntax.ast import Module
from volta_pass.parallel.pool import Lost, run_tasks


def execute_in_parts(
    module: Module, entry: str | None, bound: BoundLaunch, workers: int, *, budget: Budget, source: str = "",
    externs: Mapping[str, str] = NO_EXTERNS, memory_mib: int | None = None, outputs: bool = True,
) -> tuple[Execution, bool]:  # fmt: skip
    """As ``machine.execute``, over so many processes, and whether there was more than one part. Raises what ``execute`` raises.

    Without ``outputs`` only order and memory are checked: footprints are empty.

    Raises NotSeparableError where the parts do not make up the whole: then the launch is to be run as one, in a fresh arena.
    """
    if is_small(bound):
        return execute(module, entry, bound, budget=budget, source=source, externs=externs), False
    split = Split(module, entry, bound, workers, budget=budget, source=source, externs=externs, outputs=outputs)
    stop = threading.Event()
    with ThreadPoolExecutor(1) as waiting:
        others = waiting.submit(_elsewhere, split.tasks, memory_mib, stop)
        try:
            return split.joined(split.here(), others.result()), True
        except BaseException:  # Ctrl-C above all: leaving the thread's pool waits for it
            stop.set()
            raise


def _elsewhere(tasks: list[PartTask], memory_mib: int | None, stop: threading.Event) -> list[Part]:
    found = run_tasks(run_part, tasks, workers=len(tasks), memory_mib=memory_mib, own_main=False, here=False, stop=stop)
    return [Part(why=row.reason) if isinstance(row, Lost) else row for row in found]
