"""PTX and mathematics: parse, run (symbolically or on IEEE values), decide. Knows nothing of compilers.

Names are loaded when they are used: importing an exception or a value of this package loads no instruction tables.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ptx_engine import decide as decide
    from ptx_engine.machine.emulate import Emulation as Emulation
    from ptx_engine.machine.emulate import emulate as emulate

#: public name -> module that defines it
_HOMES = {"Emulation": "ptx_engine.machine.emulate", "emulate": "ptx_engine.machine.emulate", "decide": "ptx_engine.decide"}

__all__ = ["Emulation", "decide", "emulate"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ptx_engine' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
