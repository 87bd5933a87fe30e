"""Checking a launch spec: ``check_file(path)`` or ``check_spec(spec)`` give a report."""

from volta_pass.check.options import CheckOptions
from volta_pass.check.pipeline import check_file, check_spec
from volta_pass.kernel_report import KernelReport as CheckReport

__all__ = ["CheckOptions", "CheckReport", "check_file", "check_spec"]
