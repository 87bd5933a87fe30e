"""``volta-pass race KERNEL.ptx --spec S``: order and memory of one kernel, under a spec's launch."""

from __future__ import annotations

import argparse
from dataclasses import replace

from volta_pass.check import check_spec
from volta_pass.check.ptx_file import read_ptx
from volta_pass.cli.check import check_options, show
from volta_pass.spec import SideKind, read_spec


def command(args: argparse.Namespace) -> int:
    """Check the kernel alone; the exit code is 1 if anything was found."""
    spec = read_spec(args.spec)
    read_ptx(args.kernel)  # an unreadable one is the command line's mistake, not the spec's
    side = replace(spec.candidate, kind=SideKind.PTX, source=args.kernel)
    return show(check_spec(replace(spec, candidate=side, reference=None), check_options(args)), args, ptx_name=args.kernel)
