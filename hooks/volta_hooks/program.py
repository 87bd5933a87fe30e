"""The child of ``volta-pass run``: ``python -m volta_hooks.program file|module PROGRAM ...`` runs it under the hook.

The hook is installed here too, for installations whose ``.pth`` file is not active (a source tree on PYTHONPATH).
"""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys
from types import TracebackType

from volta_hooks import autoload


def run(argv: list[str]) -> None:
    """Run the program as Python itself would: ``sys.argv``, ``sys.path[0]`` and ``__main__`` are its own."""
    kind, program, *_ = argv
    autoload.install()
    sys.argv = argv[1:]
    sys.path[0] = os.getcwd() if kind == "module" else os.path.dirname(os.path.abspath(program))
    sys.excepthook = show_users_own
    if kind == "module":
        if not _is_module(program):
            hint = "it is looked for as by python -m, in this folder and on Python's path"
            print(f"error: No module named {program}\n  help: {hint}", file=sys.stderr)
            sys.exit(2)  # bad input, as a file that is not there; 1 would say that a kernel is refuted
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(program, run_name="__main__")


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def show_users_own(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """A program's traceback as Python shows it: without the frames that started the program."""
    inner = trace
    while inner is not None and inner.tb_frame.f_code.co_filename in (__file__, "<frozen runpy>", runpy.__file__):
        inner = inner.tb_next
    sys.__excepthook__(kind, error.with_traceback(inner), inner)


if __name__ == "__main__":
    run(sys.argv[1:])
