"""``volta-pass check SPEC ...`` and ``check REF CAND --spec SPEC``, and their output, shared with ``race``."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path

from ptx_engine.errors import LaunchError
from volta_pass.check import CheckOptions, check_spec
from volta_pass.check.ptx_file import read_ptx
from volta_pass.cuda.source import read_source
from volta_pass.diagnostics import render
from volta_pass.kernel_report import KernelReport
from volta_pass.progress_line import progress_line
from volta_pass.report import EXIT_CODES, summary_line
from volta_pass.reports import write_report
from volta_pass.spec import SideKind, Spec, kind_of, read_spec, with_defines
from volta_pass.terminal import wants_color


def command(args: argparse.Namespace) -> int:
    """Check specs, or kernel files under one; the exit code is the verdict, of many the worst."""
    kernels = _kernels(args)
    if args.spec is None:
        from volta_pass.cli.check_many import check_points, points_of

        points = [(with_defines(spec, args.define) if isinstance(spec, Spec) else spec, named) for spec, named in points_of(args.files)]
        if len(points) > 1 or points[0][1] or args.scheduler:
            return check_points(points, check_options(args), args)
    if args.scheduler:
        raise LaunchError("--scheduler with kernel files", hint="volta-pass check SPEC ... --scheduler ADDRESS")
    spec = with_defines(read_spec(args.spec or args.files[0], kernels), args.define)
    options = replace(check_options(args), workers=args.jobs, memory_mib=args.memory_mib)
    with progress_line(Path(args.spec or args.files[0]).name):
        report = check_spec(spec, options)
    return show(report, args, ptx_name=spec.candidate.source)


def _kernels(args: argparse.Namespace) -> list[str]:
    """The kernel files of the command line. Raises LaunchError where they and the spec do not fit."""
    if args.spec is None:
        if any(kind_of(path) is SideKind.CUDA or Path(path).suffix.lower() == ".ptx" for path in args.files):
            hint = "volta-pass check SPEC.toml, or volta-pass check REFERENCE.cu CANDIDATE.cu --spec SPEC.toml"
            raise LaunchError("kernels need a launch spec", hint=hint)
        return []
    if len(args.files) > 2:
        raise LaunchError(f"{len(args.files)} kernels", hint="a reference and a candidate, or a candidate alone")
    for path in args.files:
        if Path(path).suffix.lower() == ".toml":
            raise LaunchError(f"{path} is a launch spec, and --spec names another", hint="with --spec, give .ptx or .cu files")
        (read_source if kind_of(path) is SideKind.CUDA else read_ptx)(path)  # a mistake of the command line, not of the spec
    return list(args.files)


def check_options(args: argparse.Namespace) -> CheckOptions:
    """The options given on the command line."""
    return CheckOptions(args.allow_code, args.budget_seconds, args.budget_instructions)


def show(report: KernelReport, args: argparse.Namespace, ptx_name: str) -> int:
    """Print a report as text or JSON, and write it where that was asked for; its exit code."""
    if args.json:
        print(json.dumps(report.to_json(), indent=2))
    else:
        color = not args.no_color and wants_color(sys.stdout)
        print(render(report, color=color, ptx_name=ptx_name))
        print(summary_line(report))
    if args.report:
        write_report([report], args.report)
    return EXIT_CODES[report.status]
