"""PTX and mathematics: parse, run (symbolically or on IEEE values), decide. Knows nothing of compilers.

Names are loaded when they are used: importing an exception or a value of this package loads no instruction tables.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ptx_engine.machine import Emulation as Emulation
    from ptx_engine.machine.emulate import Emulation, emulate

    return {"Emulation": Emulation, "emulate": emulate}[name]
