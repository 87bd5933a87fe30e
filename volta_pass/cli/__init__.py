"""The command line: ``volta-pass``."""

from volta_pass.cli.main import main

__all__ = ["main"]
