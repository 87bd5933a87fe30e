"""The commands and their arguments. A command's module is imported when it runs: ``volta-pass --help`` stays quick."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable
from typing import Any

_EXIT_CODES = "exit codes: 0 proved and clean, 1 refuted or racy, 2 bad input, 3 unknown, 4 unsupported"


def build_parser() -> argparse.ArgumentParser:
    """The parser; ``command_function`` of its result runs the command."""
    parser = argparse.ArgumentParser(prog="volta-pass", description="Translation validation of GPU kernels.", epilog=_EXIT_CODES)
    parser.add_argument("--version", action="version", version=_version())
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for add in (_add_check, _add_race, _add_run, _add_emulate, _add_demo, _add_bench, _add_baseline, _add_cache, _add_doctor):
        add(commands)
    return parser


def _version() -> str:
    from volta_pass.doctor import own_version

    return f"volta-pass {own_version()}"


def _command(module: str) -> Callable[[argparse.Namespace], int]:
    def run(args: argparse.Namespace) -> int:
        function: Callable[[argparse.Namespace], int] = importlib.import_module(f"volta_pass.cli.{module}").command
        return function(args)

    return run


def _add(commands: Any, name: str, help_text: str, *, json: bool = True) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=help_text, description=help_text, epilog=_EXIT_CODES)
    parser.set_defaults(command_function=_command(name))
    parser.add_argument("--no-color", action="store_true", help="no colours (NO_COLOR does the same)")
    if json:
        parser.add_argument("--json", action="store_true", help="print the result as JSON")
    return parser


def _add_report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--report", default=None, metavar="FILE", help="write a report: .html, .md, .json, .junit.xml or .sarif")


def _add_check_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-D", "--define", action="append", default=[], metavar="NAME[=VALUE]", help="a macro of a CUDA C candidate")
    parser.add_argument("--allow-code", action="store_true", help="import Python and Triton code that the spec names")
    _add_report(parser)
    parser.add_argument("--budget-seconds", type=_positive_float, metavar="S", help="stop each side after this time: unknown")
    parser.add_argument("--budget-instructions", type=_positive_int, metavar="N", help="stop each side after N thread-instructions")


def _add_check(commands: Any) -> None:
    parser = _add(commands, "check", "Compare the two kernels of a launch spec, or check one for races and memory faults.")
    what = "launch specs (TOML), each one comparison or a [sweep]; or .ptx and .cu files with --spec"
    parser.add_argument("files", metavar="SPEC ... | [REFERENCE] CANDIDATE", nargs="+", help=what)
    parser.add_argument("--spec", default=None, metavar="SPEC", help="the launch spec of kernel files, which replace those it names")
    _add_check_options(parser)
    _add_jobs(parser)


def _add_jobs(parser: argparse.ArgumentParser) -> None:
    _add_workers(parser, "work in N processes: on specs, or on the CTAs of one")
    parser.add_argument("--scheduler", default=None, metavar="ADDRESS", help="work on a Dask cluster (extra: cluster)")


def _add_workers(parser: argparse.ArgumentParser, help_text: str) -> None:
    parser.add_argument("--jobs", "-j", type=_positive_int, default=1, metavar="N", help=help_text)
    parser.add_argument("--memory-mib", type=_positive_int, default=None, metavar="M", help="memory of each of the N processes (Linux)")


def _add_race(commands: Any) -> None:
    parser = _add(commands, "race", "Look for races, deadlocks and memory faults in a kernel.")
    parser.add_argument("kernel", metavar="KERNEL", help="a .ptx or .cu file")
    parser.add_argument("--spec", required=True, metavar="SPEC", help="a launch spec; its [candidate] is replaced by KERNEL")
    _add_check_options(parser)
    _add_workers(parser, "run the CTAs in N processes")


def _add_run(commands: Any) -> None:
    parser = _add(commands, "run", "Run a Python program with validation on; exit code: its worst verdict.", json=False)
    parser.add_argument("--target", default=None, metavar="cuda:80", help="compile for this target and run without a GPU")
    parser.add_argument("--mode", choices=("1", "warn", "strict"), default=None, help="VOLTA_VALIDATE (default: 1)")
    _add_report(parser)
    parser.add_argument(
        "--jobs", "-j", type=_positive_int, default=None, metavar="N", help="run the CTA batches of large launches in N processes"
    )
    parser.add_argument("-m", dest="module", action="store_true", help="PROGRAM is a module name, as in python -m")
    parser.add_argument("program", metavar="PROGRAM", help="a Python file")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="the program's own arguments")


def _add_emulate(commands: Any) -> None:
    parser = _add(commands, "emulate", "Run a PTX kernel on IEEE values, without a GPU; exit code 1 if it faulted or raced.")
    parser.add_argument("kernel", metavar="KERNEL.ptx", help="a PTX file")
    parser.add_argument("arguments", nargs="*", metavar="ARG", help="in parameter order: x.npy, a number, f16:0.5, null")
    parser.add_argument("--grid", type=_extent, required=True, metavar="X[,Y[,Z]]", help="CTAs")
    parser.add_argument("--block", type=_extent, required=True, metavar="X[,Y[,Z]]", help="threads of a CTA")
    parser.add_argument("--entry", default=None, metavar="NAME", help="the kernel, where the file has several")
    parser.add_argument("--shared", type=int, default=0, metavar="BYTES", help="dynamic shared memory")
    parser.add_argument("--out", default=None, metavar="DIR", help="write changed arrays there instead of in place")
    parser.add_argument("--no-order", action="store_true", help="do not look for races")


def _extent(text: str) -> tuple[int, ...]:
    try:
        numbers = tuple(int(word) for word in text.split(","))
    except ValueError:
        numbers = ()
    if not 1 <= len(numbers) <= 3 or any(n < 1 for n in numbers):
        raise argparse.ArgumentTypeError(f"{text} is not one to three positive numbers")
    return numbers


def _add_demo(commands: Any) -> None:
    parser = _add(
        commands, "demo", "Validate an autotuned matmul with a wrong configuration and a flash attention, without a GPU.", json=False
    )
    parser.add_argument("--target", default="cuda:80", metavar="cuda:80", help="the target to compile for")


def _add_bench(commands: Any) -> None:
    parser = _add(commands, "bench", "Measure, and compare with the targets.")
    what = (
        "triton: validation time over Triton's compile time; exec: thread-instructions per second; order: what order checking adds; "
        "decide: proofs of attention, products and normalisations; paper: the published comparisons beside the published times; "
        "tilelang: validation time over nvcc's time, for TileLang kernels; "
        "store: recalling stored proofs; sweep: 200 configurations by one process and by two"
    )
    names = ("triton", "exec", "order", "decide", "paper", "tilelang", "store", "sweep")
    parser.add_argument("name", choices=names, metavar="NAME", help=what)
    _add_report(parser)


def _add_baseline(commands: Any) -> None:
    text = "Record validated launches under one compiler version, and compare with what another one makes of them."
    parser: argparse.ArgumentParser = commands.add_parser("baseline", help=text, description=text, epilog=_EXIT_CODES)
    actions = parser.add_subparsers(title="actions", required=True, metavar="ACTION")
    record = _add_action(actions, "record", "Record every launch of a program, or the candidates of launch specs.")
    record.add_argument("folder", metavar="DIR", help="the recording")
    record.add_argument("--target", default=None, metavar="cuda:80", help="compile for this target and run without a GPU")
    record.add_argument(
        "specs", nargs="*", metavar="SPEC", help="launch specs, also with a [sweep]; or, after --, a program and its arguments"
    )
    record.add_argument("-D", "--define", action="append", default=[], metavar="NAME[=VALUE]", help="a macro of CUDA C candidates")
    check = _add_action(
        actions, "check", "Compile the recorded kernels with the installed compiler and compare (their source is compiled, not run)."
    )
    check.add_argument("folder", metavar="DIR", help="the recording")
    diff = _add_action(actions, "diff", "Compare two recordings.")
    diff.add_argument("folder", metavar="A", help="the older recording")
    diff.add_argument("other", metavar="B", help="the newer recording")


def _add_action(actions: Any, name: str, help_text: str) -> argparse.ArgumentParser:
    parser = _add(actions, name, help_text)
    parser.set_defaults(command_function=_command("baseline"), action=name)
    _add_report(parser)
    _add_workers(parser, "work in N processes: on launches; of a recorded program, on the CTA batches of large launches")
    parser.add_argument("--scheduler", default=None, metavar="ADDRESS", help="work on a Dask cluster (extra: cluster)")
    parser.add_argument("--allow-code", action="store_true", help="import Python and Triton code that specs name")
    return parser


def _add_cache(commands: Any) -> None:
    parser = _add(commands, "cache", "Look after the stored verdicts: VOLTA_CACHE_DIR and, where there is one, VOLTA_STORE.")
    what = "stats: what is there; verify: read every entry, remove the damaged (exit code 1); clear: remove all local ones"
    parser.add_argument("action", choices=("stats", "verify", "clear"), help=what)
    again = "with verify: do the N last used proofs of each place again (all, without N), and remove those that do not come out"
    parser.add_argument("--recheck", nargs="?", type=_positive_int, const=0, default=None, metavar="N", help=again)


def _add_doctor(commands: Any) -> None:
    _add(commands, "doctor", "Show what is installed, what will be validated, and why not.")


def _positive_float(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a positive number of seconds")
    return value


def _positive_int(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value
