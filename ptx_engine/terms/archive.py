"""Terms as bytes: what stands below some outputs, to be emitted again in another arena with the same inputs. Nothing in it is code.

Layout: the length of a JSON header, the header, one zlib stream of columns. Ids are numbered anew in their old order; operands are
kept as distances, which compress. ``unpack`` trusts nothing: counts, operators, operands and records are checked before any is
emitted, so that bytes of unknown origin give terms (perhaps not the ones that were wanted) or ArchiveError.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from gmpy2 import mpq

from ptx_engine.terms.constants import Const, Special
from ptx_engine.terms.ops import TABLE, Op
from ptx_engine.terms.reachable import Kept, reachable
from ptx_engine.terms.storage import CONST_CAP, MAX_ID, Storage

#: elements written, by tensor: storage indices (int64, sorted, unique) and the id of each (int32)
Written = Mapping[str, tuple[np.ndarray, np.ndarray]]
#: bytes of columns that an archive may unpack to
LARGEST = 1 << 31
_LEVEL = 1
_RECORD = np.array([op in TABLE and TABLE[op].record for op in sorted(TABLE)], bool)
#: operators by slot: which slots hold ids
_ID_SLOTS = np.array([[slot < TABLE[op].arity for op in sorted(TABLE)] for slot in range(3)], bool)


class ArchiveError(Exception):
    """Bytes that are no archive, or one of other inputs: why, in one sentence."""


def pack_terms(
    arena: Storage, written: Written, dropped: "list[np.ndarray] | None" = None, denominators: bool = False, level: int = _LEVEL
) -> bytes:  # fmt: skip
    """The bytes of all terms below what was written, and of the nodes that vanished in folding (``Storage.dropped``).

    ``level`` of compression: 0 for bytes that no disk sees.
    """
    vanished = np.concatenate(dropped).astype(np.int32) if dropped else np.zeros(0, np.int32)
    roots = [ids.astype(np.int32) for _, ids in written.values()]
    kept = reachable(arena, np.concatenate([np.zeros(0, np.int32), *roots, vanished]))
    header: dict[str, Any] = {
        "inputs": [[entry.name, entry.count, entry.fmt] for entry in arena.inputs],
        "consts": [_const_row(arena.consts[int(i)]) for i in kept.consts],
        "opaque": list(arena.opaque_names), "nodes": len(kept.ids), "emissions": len(kept.starts),
        "dots": [list(arena.dots[i].rows.shape) + [arena.dots[i].cols.shape[1]] for i in kept.dots],
        "naries": [list(arena.naries[i].operands.shape) for i in kept.naries],
        "written": [[name, len(index)] for name, (index, _) in written.items()],
        "dropped": len(vanished), "denominators": bool(denominators),
    }  # fmt: skip
    body = b"".join(column.tobytes() for column in _columns(arena, kept, written, vanished))
    header["bytes"] = len(body)
    text = json.dumps(header, separators=(",", ":")).encode()
    return b"%d\n" % len(text) + text + zlib.compress(body, level)


def _columns(arena: Storage, kept: Kept, written: Written, vanished: np.ndarray) -> list[np.ndarray]:
    codes, *slots = (column[kept.ids] for column in arena.columns())
    own = np.arange(CONST_CAP, CONST_CAP + len(kept.ids), dtype=np.int32)
    columns = [codes, kept.starts.astype(np.int32)]
    for slot, values in enumerate(slots):
        holds = _ID_SLOTS[slot][codes]
        moved = values.copy()
        moved[holds] = own[holds] - kept.number(values[holds])
        if slot == 0:
            for op, numbers in ((Op.DOT, kept.dots), *((op, kept.naries) for op in (Op.NSUM, Op.NMAX, Op.NMIN))):
                moved[codes == op] = np.searchsorted(numbers, values[codes == op])
            moved[codes == Op.CONST] = np.searchsorted(kept.consts, values[codes == Op.CONST])
        columns.append(moved)
    for i in kept.dots:
        record = arena.dots[i]
        columns += [np.array([kept.number_of_node(record.first)], np.int32), *map(kept.number, (record.rows, record.cols, record.acc))]
    for i in kept.naries:
        wide = arena.naries[i]
        columns += [np.array([kept.number_of_node(wide.first)], np.int32), kept.number(wide.operands)]
    for index, ids in written.values():
        columns += [np.diff(index.astype(np.int64), prepend=0), kept.number(ids)]
    return [*columns, kept.number(vanished)]


def _const_row(const: Const) -> list[Any]:
    special = const.special.value if const.special is not None else ""
    return [str(const.coef), const.log2e, const.sqrt2, const.pi, special, const.log2ten]


def content_of(data: bytes) -> tuple[Any, bytes]:
    """Header and columns, whatever compressed them: equal for archives of the same terms. Raises ArchiveError."""
    try:
        length, _, rest = data.partition(b"\n")
        size = int(length)
        header: dict[str, Any] = json.loads(rest[:size])
        total = _count(header["bytes"], LARGEST)
        unzip = zlib.decompressobj()
        body = unzip.decompress(rest[size:], total + 1)
        if len(body) != total or not unzip.eof or unzip.unused_data:
            raise ValueError("length")
    except (KeyError, ValueError, TypeError, RecursionError, OverflowError, zlib.error) as error:
        raise ArchiveError(f"malformed ({type(error).__name__}: {error})") from None
    return header, body


# --- reading ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Unpacked:
    """What an archive held, in the arena that it was unpacked into."""

    written: dict[str, tuple[np.ndarray, np.ndarray]]
    terms: int


def unpack_terms(data: bytes, arena: Storage) -> Unpacked:
    """Emit an archive's terms; inputs are found by name. Raises ArchiveError, and MemoryError beyond the arena's ``max_terms``."""
    try:
        return _Reader(data, arena).run()
    except (KeyError, ValueError, TypeError, IndexError, OverflowError, ZeroDivisionError, RecursionError, zlib.error) as error:
        raise ArchiveError(f"malformed ({type(error).__name__}: {error})") from None


class _Reader:
    """One archive: everything is read and checked, and only then emitted."""

    def __init__(self, data: bytes, arena: Storage) -> None:
        self.header, self.body = content_of(data)
        self.arena = arena
        self.at = 0

    def run(self) -> Unpacked:
        header, arena = self.header, self.arena
        self.bases = self._inputs()
        self.consts = [_const(row) for row in header["consts"]]
        self.count = count = _count(header["nodes"], MAX_ID)
        codes = self._take(np.uint8, count)
        starts = self._take(np.int32, _count(header["emissions"], count))
        slots = [self._take(np.int32, count).copy() for _ in range(3)]
        self.starts = self._begins(starts, count)
        self._check_nodes(codes, slots)
        dots = [self._dot(shape, codes, slots[0], i) for i, shape in enumerate(header["dots"])]
        naries = [self._nary(shape, codes, slots[0], i) for i, shape in enumerate(header["naries"])]
        if int((_RECORD[codes]).sum()) != sum(acc.size for _, _, _, acc in dots) + sum(len(rows) for _, rows in naries):
            raise ValueError("nodes of no record")
        written = {str(name): self._footprint(size) for name, size in header["written"]}
        vanished = self._ids(_count(header["dropped"], MAX_ID))
        if self.at != len(self.body) or not isinstance(header["denominators"], bool):
            raise ValueError("length")
        opaque = [str(name) for name in header["opaque"]]
        if (codes == Op.OPAQUE).any() and not 0 <= int(slots[2][codes == Op.OPAQUE].max()) < len(opaque):
            raise ValueError("opaque name")
        shift, table = self._emit(codes, starts, slots, opaque)
        move = _Move(self.bases, table, shift)
        self._records(dots, naries, move, shift)
        arena.dropped += [move(vanished)] if len(vanished) else []
        arena.dropped_denominators |= header["denominators"]
        return Unpacked({name: (index, move(ids)) for name, (index, ids) in written.items()}, count)

    # --- parts ----------------------------------------------------------------------------------

    def _inputs(self) -> np.ndarray:
        """For each archived input: its base, and by how much its ids move. Raises ArchiveError for an input that the arena lacks."""
        known = {(entry.name, entry.count, entry.fmt): entry for entry in self.arena.inputs}
        bases, self.total = [], 0
        for name, count, fmt in self.header["inputs"]:
            entry = known.get((name, count, fmt))
            if entry is None:
                raise ArchiveError(f"it has an input {name} of {count} {fmt} that is none here")
            bases.append((self.total, self.total - entry.base))
            self.total += entry.count
        return np.array(bases, np.int64).reshape(-1, 2)

    def _take(self, dtype: type, count: int) -> np.ndarray:
        size = count * np.dtype(dtype).itemsize
        if self.at + size > len(self.body):
            raise ValueError("cut short")
        taken: np.ndarray = np.frombuffer(self.body, dtype, count, self.at)
        self.at += size
        return taken

    def _ids(self, count: int, below: "int | None" = None) -> np.ndarray:
        """Ids that mean something: inputs, constants, nodes (below a position, where one is given)."""
        ids = self._take(np.int32, count)
        self._check_ids(ids, CONST_CAP + self.count if below is None else below)
        return ids

    def _check_ids(self, ids: np.ndarray, below: "int | np.ndarray") -> None:
        constant = (ids >= len(self.consts)) & (ids < CONST_CAP)
        if ids.size and (bool(constant.any()) or bool((ids >= below).any()) or int(ids.min()) < -self.total):
            raise ValueError("an id out of range")

    def _begins(self, starts: np.ndarray, count: int) -> np.ndarray:
        """For every node the first id of its emission: its operands lie below."""
        if count == 0:
            return np.zeros(0, np.int64)
        if not len(starts) or starts[0] != CONST_CAP or bool((np.diff(starts) <= 0).any()) or int(starts[-1]) >= CONST_CAP + count:
            raise ValueError("emissions")
        begins: np.ndarray = np.repeat(starts.astype(np.int64), np.diff(np.append(starts, CONST_CAP + count)))
        return begins

    def _check_nodes(self, codes: np.ndarray, slots: list[np.ndarray]) -> None:
        """Turn distances into ids; operands stand before their emission."""
        if codes.size and int(codes.max()) >= len(TABLE):
            raise ValueError("an operator")
        own = np.arange(CONST_CAP, CONST_CAP + self.count, dtype=np.int64)
        for slot, values in enumerate(slots):
            holds = _ID_SLOTS[slot][codes]
            ids = own[holds] - values[holds]
            if ids.size and int(ids.min()) < -MAX_ID:
                raise ValueError("an id out of range")
            self._check_ids(ids, self.starts[holds])
            values[holds] = ids
        constants = slots[0][codes == Op.CONST]
        if constants.size and not 0 <= int(constants.min()) <= int(constants.max()) < len(self.consts):
            raise ValueError("a constant out of range")

    def _span(self, first: int, size: int, codes: np.ndarray, numbers: np.ndarray, ops: tuple[Op, ...], record: int) -> int:
        """The nodes of a record are its own, and one emission begins with them. Gives the id below which its operands lie."""
        at = first - CONST_CAP
        own, own_codes = numbers[at : at + size], codes[at : at + size]
        if at < 0 or size < 1 or len(own) != size or bool((own != record).any()) or not np.isin(own_codes, ops).all():
            raise ValueError("a record's nodes")
        if bool((own_codes != own_codes[0]).any()):
            raise ValueError("a record of two kinds")
        return int(self.starts[at])

    def _dot(
        self, shape: list[int], codes: np.ndarray, numbers: np.ndarray, record: int
    ) -> "tuple[int, np.ndarray, np.ndarray, np.ndarray]":
        g, m, k, n = (_count(extent, MAX_ID) for extent in shape)
        first = int(self._take(np.int32, 1)[0])
        below = self._span(first, g * m * n, codes, numbers, (Op.DOT,), record)
        rows, cols, acc = (self._ids(a * b * c, below).reshape(a, b, c) for a, b, c in ((g, m, k), (g, n, k), (g, m, n)))
        return first, rows, cols, acc

    def _nary(self, shape: list[int], codes: np.ndarray, numbers: np.ndarray, record: int) -> "tuple[int, np.ndarray]":
        count, width = (_count(extent, MAX_ID) for extent in shape)
        if width < 1:
            raise ValueError("an empty sum")
        first = int(self._take(np.int32, 1)[0])
        below = self._span(first, count, codes, numbers, (Op.NSUM, Op.NMAX, Op.NMIN), record)
        return first, self._ids(count * width, below).reshape(count, width)

    def _footprint(self, size: Any) -> tuple[np.ndarray, np.ndarray]:
        count = _count(size, MAX_ID)
        steps = self._take(np.int64, count)
        if count and (int(steps[0]) < 0 or bool((steps[1:] < 1).any()) or int(steps.max()) > MAX_ID):
            raise ValueError("indices")
        return np.cumsum(steps), self._ids(count)

    # --- emitting -------------------------------------------------------------------------------

    def _emit(self, codes: np.ndarray, starts: np.ndarray, slots: list[np.ndarray], opaque: list[str]) -> tuple[int, np.ndarray]:
        """Append the nodes; by how much their ids move, and the constants' ids."""
        arena = self.arena
        table = np.array([arena.const(const) for const in self.consts], np.int32)
        places = np.array([i if i < CONST_CAP else arena.node(int(i))[1] for i in table.tolist()], np.int32)
        arena.flush()
        shift = arena.stored - CONST_CAP
        move = _Move(self.bases, table, shift)
        moved = []
        for slot, values in enumerate(slots):
            column, holds = values, _ID_SLOTS[slot][codes]
            column[holds] = move(values[holds])
            moved.append(column)
        if (codes == Op.CONST).any():
            moved[0][codes == Op.CONST] = places[moved[0][codes == Op.CONST]]
        for op, known in ((Op.DOT, len(arena.dots)), *((op, len(arena.naries)) for op in (Op.NSUM, Op.NMAX, Op.NMIN))):
            moved[0][codes == op] += known
        if (codes == Op.OPAQUE).any():
            moved[2][codes == Op.OPAQUE] = np.array([_named(arena, name) for name in opaque], np.int32)[moved[2][codes == Op.OPAQUE]]
        arena.emit_stored(codes, moved[0], moved[1], moved[2], starts.astype(np.int64) + shift)
        return shift, table

    def _records(self, dots: list[Any], naries: list[Any], move: "_Move", shift: int) -> None:
        for first, rows, cols, acc in dots:
            self.arena.add_dot(first + shift, move(rows), move(cols), move(acc))
        for first, operands in naries:
            self.arena.add_nary(first + shift, move(operands))


@dataclass(frozen=True)
class _Move:
    """Archived ids to ids of the arena."""

    bases: np.ndarray
    table: np.ndarray
    shift: int

    def __call__(self, ids: np.ndarray) -> np.ndarray:
        wide = ids.astype(np.int64)
        flat = wide.ravel()
        node, leaf = flat >= CONST_CAP, flat < 0
        constant = ~(node | leaf)
        flat[node] += self.shift
        if constant.any():
            flat[constant] = self.table[flat[constant]]
        if leaf.any():
            at = -1 - flat[leaf]
            which = np.searchsorted(self.bases[:, 0], at, "right") - 1
            flat[leaf] += self.bases[which, 1]
        return flat.reshape(ids.shape).astype(np.int32)


def _named(arena: Storage, name: str) -> int:
    if name not in arena.opaque_names:
        arena.opaque_names.append(name)
    return arena.opaque_names.index(name)


def _count(value: Any, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise ValueError("a count")
    return value


def _const(row: Any) -> Const:
    coef, log2e, sqrt2, pi, special, log2ten = row
    powers = [log2e, sqrt2, pi, log2ten]
    if any(not isinstance(p, int) or isinstance(p, bool) or abs(p) > _MOST_POWER for p in powers) or sqrt2 not in (0, 1):
        raise ValueError("a constant's powers")
    if not isinstance(coef, str) or len(coef) > _MOST_DIGITS:
        raise ValueError("a constant")
    return Const(mpq(coef), log2e, sqrt2, pi, Special(special) if special else None, log2ten)


_MOST_POWER = 1 << 16
_MOST_DIGITS = 1 << 14
