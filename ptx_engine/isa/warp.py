"""Groups as tables of (warp, lane): what votes, matches and reductions need. Nothing assumes that a warp is complete."""

from __future__ import annotations

from enum import Enum

import numpy as np

from ptx_engine.errors import NotStructuredError, UnsupportedError
from ptx_engine.isa.group import WARP, Group
from ptx_engine.isa.values import Sym, Value, uninitialised


class Meeting(Enum):
    """Where lanes of a warp meet: at any instruction of a kind (``bar.warp.sync``); those of a mask at one instruction; or all lanes of the
    warp at one instruction, which is the same for all (``.aligned``: exited lanes are missing too)."""

    ANYWHERE = "anywhere"
    INSTRUCTION = "instruction"
    ALIGNED = "aligned"


class LanesMissing(Exception):
    """Raised by an instruction, before it has done anything, for lanes of its member mask that have not come yet.

    ``threads`` execute it, ``members`` are their masks, ``absent`` (0 for a lane that may go on) the lanes each waits for.
    """

    def __init__(self, what: str, threads: np.ndarray, members: np.ndarray, absent: np.ndarray, meeting: Meeting) -> None:
        super().__init__(what)
        self.what = what
        self.threads = threads
        self.members = members
        self.absent = absent
        self.meeting = meeting


def lane_bits(lane: np.ndarray) -> np.ndarray:
    """Each lane's bit of a member mask."""
    return np.uint32(1) << lane.astype(np.uint32)


def absent_lanes(lane: np.ndarray, warp: np.ndarray, members: np.ndarray, gone: np.ndarray) -> np.ndarray:
    """For each lane those of its member mask that are neither among the lanes here with the same mask nor ``gone`` (by warp)."""
    absent = np.zeros(len(lane), np.uint32)
    for mask in np.unique(members):
        alike = members == mask
        present = gone.copy()
        np.bitwise_or.at(present, warp[alike], lane_bits(lane[alike]))
        absent[alike] = mask & ~present[warp[alike]]
    return absent


def lane_names(mask: int) -> str:
    """ "lane 3", "lanes 0-15, 20" of a mask."""
    lanes = [i for i in range(WARP) if mask >> i & 1]
    runs: list[list[int]] = []
    for i in lanes:
        if runs and runs[-1][-1] == i - 1:
            runs[-1].append(i)
        else:
            runs.append([i])
    return f"lane{'s' * (len(lanes) != 1)} " + ", ".join(f"{r[0]}-{r[-1]}" if len(r) > 1 else str(r[0]) for r in runs)


class Lanes:
    """The lanes of a group: ``row`` numbers the warps that are present, ``lane`` the lane in the warp; ``present`` is bool (warps, 32)."""

    def __init__(self, g: Group) -> None:
        self.n = g.n
        if g.whole_warps:
            self.rows = g.n // WARP
            self.row = np.repeat(np.arange(self.rows), WARP)
            self.lane = np.tile(np.arange(WARP), self.rows)
        else:
            lane, warp = g.lane_and_warp()
            numbers, self.row = np.unique(warp, return_inverse=True)
            self.rows, self.lane = len(numbers), lane.astype(np.int64)
        self.present = np.zeros((self.rows, WARP), bool)
        self.present[self.row, self.lane] = True

    def table(self, column: np.ndarray, fill: "int | bool") -> np.ndarray:
        """A column as (warps, 32); absent lanes hold ``fill``."""
        table = np.full((self.rows, WARP), fill, column.dtype)
        table[self.row, self.lane] = column
        return table

    def spread(self, per_warp: np.ndarray) -> np.ndarray:
        """One value per warp as a column."""
        return per_warp[self.row]

    def pick(self, table: np.ndarray) -> np.ndarray:
        """A (warps, 32) table as a column."""
        return table[self.row, self.lane]


_POWERS = np.uint64(1) << np.arange(WARP, dtype=np.uint64)


def bits_of(flags: np.ndarray) -> np.ndarray:
    """Flags (..., 32) as 32-bit words."""
    words: np.ndarray = (flags * _POWERS).sum(axis=-1).astype(np.uint32)
    return words


def members(lanes: Lanes, mask: Value) -> np.ndarray:
    """The member mask of each warp (all its lanes must give the same) as bool (warps, 32), lanes that are present only."""
    if isinstance(mask, Sym):
        raise NotStructuredError("a symbolic member mask", feature="symbolic member mask")
    if mask is None:
        raise uninitialised("member mask")
    column = np.broadcast_to(np.asarray(mask, np.uint32), (lanes.n,))
    table = lanes.table(column, 0)
    word = table.max(axis=1)
    if bool((lanes.present & (table != word[:, None])).any()):
        raise UnsupportedError("lanes of one warp give different member masks to one instruction", feature="different member masks")
    named: np.ndarray = ((word[:, None] >> np.arange(WARP, dtype=np.uint32)) & np.uint32(1)).astype(bool)
    return named & lanes.present


def concrete_column(value: Value, n: int, what: str, dtype: "np.dtype | type") -> np.ndarray:
    """A concrete value as a column. Raises NotStructuredError for symbolic data."""
    if isinstance(value, Sym):
        raise NotStructuredError(f"{what} on symbolic data", feature=what)
    if value is None:
        raise uninitialised(f"operand of {what}")
    return np.broadcast_to(np.asarray(value).astype(dtype), (n,))


def squeeze(column: np.ndarray) -> Value:
    """A column that is the same everywhere as a scalar."""
    first = column[0]
    if bool((column == first).all()):
        return bool(first) if column.dtype == bool else int(first)
    return column
