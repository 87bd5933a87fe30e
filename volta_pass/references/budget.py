"""What an evaluation may cost: seconds and terms. Running out raises BudgetError, which is the verdict ``unknown``."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from ptx_engine.errors import BudgetError
from ptx_engine.terms.arena import Arena


@dataclass
class Budget:
    """``seconds`` of wall-clock time from construction on, ``terms`` emitted into the arena; None is unlimited."""

    seconds: float | None = None
    terms: int | None = None
    _start_s: float = field(default_factory=time.monotonic)

    def check(self, arena: Arena) -> None:
        """Raise BudgetError where a limit is exceeded."""
        if self.seconds is not None and time.monotonic() - self._start_s > self.seconds:
            raise BudgetError(f"the reference took more than {self.seconds:g} s", feature="seconds")
        if self.terms is not None and len(arena) > self.terms:
            raise BudgetError(f"the reference needs more than {self.terms} terms", feature="terms")
