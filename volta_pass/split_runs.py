"""CTA batches in several processes first, the launch as one where that does not prove."""

from __future__ import annotations

from collections.abc import Callable

from ptx_engine.errors import NotSeparableError
from ptx_engine.verdict import Status
from volta_pass.kernel_report import KernelReport


def parts_first(attempt: Callable[[int], tuple[KernelReport, bool]], workers: int) -> KernelReport:
    """The report of ``attempt`` with so many workers, if it proved or nothing ran in parts, else of one worker, where every term knows its
    place. ``attempt`` gives the report and whether anything ran in parts, or raises NotSeparableError."""
    if workers > 1:
        try:
            report, split = attempt(workers)
        except NotSeparableError:
            pass
        else:
            if not split or report.status is Status.PROVED:
                return report
    return attempt(1)[0]
