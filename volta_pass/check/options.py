"""What a check may do and how much it may cost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ptx_engine.machine import Budget


@dataclass(frozen=True)
class CheckOptions:
    """``allow_code``: Python and Triton code named by the spec may be imported. None: the engine's default budget."""

    allow_code: bool = False
    budget_seconds: float | None = None
    budget_instructions: int | None = None
    #: processes for the CTA batches of one side, and what each may allocate
    workers: int = 1
    memory_mib: int | None = None
    #: False: what is written is not compared with anything
    outputs: bool = True
    #: what the proof alone may take, where that is less
    proof_seconds: float | None = None

    def budget(self) -> Budget:
        """The machine's budget for one side."""
        from ptx_engine.machine import Budget

        budget = Budget()
        if self.budget_seconds is not None:
            budget = replace(budget, seconds=self.budget_seconds)
        if self.budget_instructions is not None:
            budget = replace(budget, thread_instructions=self.budget_instructions)
        return budget
