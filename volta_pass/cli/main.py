"""The edge of the program: arguments in, exit code out. The only place that catches everything.

Exit codes: 0 proved and clean, 1 refuted or racy, 2 bad input, 3 unknown, 4 unsupported, 70 a defect of ours, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import traceback
from collections.abc import Callable, Sequence

from ptx_engine.errors import BudgetError, InternalError, NotStructuredError, PtxError, UnsupportedError
from volta_pass.cli.arguments import build_parser
from volta_pass.cli.streams import lasting_streams
from volta_pass.environment import environment_errors, environment_warnings
from volta_pass.terminal import printable

BAD_INPUT, UNKNOWN, UNSUPPORTED, DEFECT, INTERRUPTED = 2, 3, 4, 70, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code. Usage errors leave through argparse with code 2."""
    with lasting_streams():
        return guarded(lambda: _run(list(sys.argv[1:] if argv is None else argv)))


def _run(words: list[str]) -> int:
    words, program = program_apart(words)
    try:
        args = _parsed(build_parser(), words)
    except SystemExit:
        sys.stdout.flush()  # the help
        raise
    args.recorded_program = program
    return _dispatch(args.command_function, args)


#: a negative number is a kernel's argument, and no option
_NEGATIVE = re.compile(r"-(\.?\d|inf|nan)", re.IGNORECASE)


def _parsed(parser: argparse.ArgumentParser, words: list[str]) -> argparse.Namespace:
    """As ``parse_args``; files and a kernel's arguments may stand on both sides of an option (``check a.toml --json b.toml``), too."""
    args, rest = parser.parse_known_args(words)
    files = next((name for name in ("files", "specs", "arguments") if hasattr(args, name)), None)
    if rest and (files is None or any(word.startswith("-") and not _NEGATIVE.match(word) for word in rest)):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if files is not None:
        setattr(args, files, [*getattr(args, files), *rest])
    return args


def program_apart(words: list[str]) -> tuple[list[str], list[str]]:
    """``baseline record ... -- PROGRAM ARGUMENTS``: our words, and the program's, which are not ours to read."""
    if words[:2] != ["baseline", "record"] or "--" not in words:
        return words, []
    at = words.index("--")
    return words[:at], words[at + 1 :]


def _dispatch(command: Callable[..., int], args: object) -> int:
    problems = environment_errors(os.environ)
    if problems:
        return _complain("error", "; ".join(problems), "unset the variable or give it such a value")
    if getattr(args, "report", None) is not None:
        from volta_pass.reports import check_report_path

        check_report_path(args.report)  # type: ignore[attr-defined]
    if getattr(args, "memory_mib", None) and args.jobs == 1:  # type: ignore[attr-defined]  # (else that of the others)
        from volta_pass.parallel.pool import limit_memory

        limit_memory(args.memory_mib)  # type: ignore[attr-defined]
    for warning in environment_warnings(os.environ):
        print(f"warning: {warning}", file=sys.stderr)
    return command(args)


def guarded(step: Callable[[], int]) -> int:
    """Run a command and turn what it raises into a message and an exit code; no traceback unless VOLTA_DEBUG=1."""
    try:
        code = step()
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except InternalError as error:
        return _defect(error)
    except PtxError as error:
        print(printable_lines(error.render()), file=sys.stderr)
        return _code_of(error)
    except MemoryError as error:
        said = f"not enough memory: {error}" if str(error) else "not enough memory"
        print(f"budget exhausted: {printable(said)}\n  help: check fewer CTAs (launch.ctas), or give more (--memory-mib)", file=sys.stderr)
        return UNKNOWN
    except Exception as error:
        return _defect(error)


def _code_of(error: PtxError) -> int:
    if isinstance(error, (UnsupportedError, NotStructuredError)):
        return UNSUPPORTED
    return UNKNOWN if isinstance(error, BudgetError) else BAD_INPUT


def printable_lines(text: str) -> str:
    """Every line made safe for a terminal."""
    return "\n".join(printable(line) for line in text.split("\n"))


def _complain(kind: str, message: str, hint: str) -> int:
    print(f"{kind}: {printable(message)}\n  help: {hint}", file=sys.stderr)
    return BAD_INPUT


def _defect(error: Exception) -> int:
    """The text of a bug report: what happened, where in our code, with which versions."""
    from volta_pass.doctor import version_line

    if os.environ.get("VOLTA_DEBUG") == "1":
        traceback.print_exc()
    frames = traceback.extract_tb(error.__traceback__)
    where = f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno} in {frames[-1].name}" if frames else "unknown"
    message = error.render() if isinstance(error, PtxError) else f"{type(error).__name__}: {error}"
    print(
        f"internal error: this is a defect of volta-pass, not of your kernel\n  what     {printable_lines(message)}\n  where    {where}\n"
        f"  versions {version_line()}\n"
        "  help     please report it to the project with these lines, the spec and the PTX; VOLTA_DEBUG=1 prints the traceback",
        file=sys.stderr,
    )
    return DEFECT
