"""The child of ``volta-pass run``: ``python -m volta_hooks.program file|module PROGRAM ...`` runs it under the hook.

The hook is installed here too, for installations whose ``.pth`` file is not active (a source tree on PYTHONPATH).
"""

from __future__ import annotations

import os
import runpy
import sys

from volta_hooks import autoload


def run(argv: list[str]) -> None:
    """Run the program as Python itself would: ``sys.argv``, ``sys.path[0]`` and ``__main__`` are its own."""
    kind, program, *_ = argv
    autoload.install()
    sys.argv = argv[1:]
    sys.path[0] = os.getcwd() if kind == "module" else os.path.dirname(os.path.abspath(program))
    if kind == "module":
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    run(sys.argv[1:])
