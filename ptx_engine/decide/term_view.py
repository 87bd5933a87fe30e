"""What a walk needs to see of an arena: the arena itself, or one whose operands are mapped (``cuts.CutView``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ptx_engine.terms.arena import Input, NaryRecord
from ptx_engine.terms.constants import Const
from ptx_engine.terms.ops import Op
from ptx_engine.terms.turns import Turns


class NaryRecords(Protocol):
    """Wide reductions by number."""

    def __getitem__(self, index: int, /) -> NaryRecord: ...


class TermView(Protocol):
    """Columns of operators and operands, wide reductions, constants, inputs, and what was emitted in turns of loops (where that is
    still so of operands)."""

    @property
    def consts(self) -> list[Const]: ...
    @property
    def inputs(self) -> list[Input]: ...
    @property
    def turns(self) -> Sequence[Turns]: ...
    @property
    def naries(self) -> NaryRecords: ...

    def columns(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]: ...

    def node(self, ident: int) -> tuple[Op, int, int, int]: ...
