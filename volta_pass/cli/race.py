"""``volta-pass race KERNEL --spec S``: order and memory of one kernel (PTX or CUDA C), under a spec's launch."""

from __future__ import annotations

import argparse
from dataclasses import replace

from volta_pass.check import check_spec
from volta_pass.check.ptx_file import read_ptx
from volta_pass.cli.check import check_options, show
from volta_pass.cuda.source import read_source
from volta_pass.progress_line import progress_line
from volta_pass.spec import SideKind, kind_of, read_spec, with_defines


def command(args: argparse.Namespace) -> int:
    """Check the kernel alone; the exit code is 1 if anything was found."""
    spec = with_defines(read_spec(args.spec, [args.kernel]), args.define)
    (read_source if kind_of(args.kernel) is SideKind.CUDA else read_ptx)(args.kernel)  # the command line's mistake, not the spec's
    options = replace(check_options(args), workers=args.jobs, memory_mib=args.memory_mib)
    with progress_line(args.kernel):
        report = check_spec(replace(spec, reference=None), options)
    return show(report, args, ptx_name=args.kernel)
