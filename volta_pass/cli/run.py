"""``volta-pass run program.py ...``: the program in a child process with validation on; exit code: its worst verdict."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from ptx_engine.errors import LaunchError
from ptx_engine.verdict import Status
from volta_pass.environment import environment_errors
from volta_pass.report import EXIT_CODES

#: words with which VOLTA_VALIDATE is off
_OFF = ("", "0", "off", "false", "no")


def command(args: argparse.Namespace) -> int:
    """Run the program. Where every verdict is proved, the exit code is the program's own."""
    if not args.module and not os.path.isfile(args.program):
        what = "it is a folder" if os.path.isdir(args.program) else "no such file"
        raise LaunchError(f"cannot read {args.program}: {what}", hint="give a Python file, or a module with -m")
    with tempfile.TemporaryDirectory(prefix="volta-pass-") as folder:
        report = Path(folder) / "report.json"
        code = run_program(args.program, args.arguments, child_environment(args, report), module=args.module)
        if not report.exists():
            print("volta-pass: no kernel was validated (see volta-pass doctor)", file=sys.stderr)
            return code
        kernels, worst = read_report(report)
    if kernels == 0:
        print("volta-pass: no kernel was validated (see volta-pass doctor)", file=sys.stderr)
    return EXIT_CODES[worst] or code


def child_environment(args: argparse.Namespace, report: Path) -> dict[str, str]:
    """The child's environment: validation on, target and report as asked."""
    asked = os.path.abspath(args.report) if args.report else os.environ.get("VOLTA_REPORT", "")
    environ = {**os.environ, "VOLTA_REPORT": os.pathsep.join(filter(None, [str(report), asked]))}
    if args.mode or environ.get("VOLTA_VALIDATE", "").lower() in _OFF:
        environ["VOLTA_VALIDATE"] = args.mode or "1"
    if args.target:
        environ["VOLTA_TARGET"] = args.target
    if args.jobs:
        environ["VOLTA_JOBS"] = str(args.jobs)
    if args.no_color:
        environ["NO_COLOR"] = "1"
    return checked(environ)


def checked(environ: dict[str, str]) -> dict[str, str]:
    """The environment for a child, if its VOLTA_* variables mean something. Raises LaunchError."""
    problems = environment_errors(environ)
    if problems:
        raise LaunchError("; ".join(problems), hint="the command's options set these variables for the program")
    return environ


def run_program(program: str, arguments: list[str], environ: dict[str, str], *, module: bool = False) -> int:
    """Run a Python program under the hook and wait; its exit code (128 + n where signal n ended it)."""
    kind = "module" if module else "file"
    command = [sys.executable, "-m", "volta_hooks.program", kind, program, *arguments]
    process = subprocess.run(command, env=with_source_tree(environ), check=False)
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


def with_source_tree(environ: dict[str, str]) -> dict[str, str]:
    """The environment, with our packages on the path where they are not installed but run from a source tree."""
    root = Path(__file__).parents[2]
    if not (root / "hooks" / "volta_hooks").is_dir():
        return environ
    paths = [str(root), str(root / "hooks"), *filter(None, [environ.get("PYTHONPATH", "")])]
    return {**environ, "PYTHONPATH": os.pathsep.join(paths)}


def read_report(report: Path) -> tuple[int, Status]:
    """The number of kernels in a JSON report, and the worst verdict. Raises LaunchError where there is none to read."""
    try:
        document = json.loads(report.read_text(encoding="utf-8"))
        return len(document["kernels"]), Status(document["verdict"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LaunchError(f"the program's report {report} cannot be read: {error}") from None
