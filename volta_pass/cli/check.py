"""``volta-pass check SPEC`` and its output, shared with ``race``."""

from __future__ import annotations

import argparse
import json
import sys

from volta_pass.check import CheckOptions, check_spec
from volta_pass.diagnostics import render
from volta_pass.kernel_report import KernelReport
from volta_pass.report import EXIT_CODES, summary_line
from volta_pass.spec import read_spec
from volta_pass.terminal import wants_color


def command(args: argparse.Namespace) -> int:
    """Check a spec; the exit code is the verdict."""
    spec = read_spec(args.spec)
    return show(check_spec(spec, check_options(args)), args, ptx_name=spec.candidate.source)


def check_options(args: argparse.Namespace) -> CheckOptions:
    """The options given on the command line."""
    return CheckOptions(args.allow_code, args.budget_seconds, args.budget_instructions)


def show(report: KernelReport, args: argparse.Namespace, ptx_name: str) -> int:
    """Print a report as text or JSON; its exit code."""
    if args.json:
        print(json.dumps(report.to_json(), indent=2))
    else:
        color = not args.no_color and wants_color(sys.stdout)
        print(render(report, color=color, ptx_name=ptx_name))
        print(summary_line(report))
    return EXIT_CODES[report.status]
