"""PTX text to values and back: ``parse``, ``print_module``, ``flatten``, source positions."""

from ptx_engine.syntax.parser import parse
from ptx_engine.syntax.printer import print_module
from ptx_engine.syntax.resolve import flatten
from ptx_engine.syntax.source_map import frames, user_loc

__all__ = ["flatten", "frames", "parse", "print_module", "user_loc"]
