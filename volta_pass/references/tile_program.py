"""Tile programs as values: what a TileLang kernel says before its first compiler pass, as JSON text and as trees.

The text holds all that the program means (buffers, grid, statements with their source places) and nothing of the compiler,
so that it can be a cache key, stand in a bug bundle, and be evaluated without TileLang. ``load_program`` reads it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Union

from ptx_engine.errors import ParseError

#: the version of the text's layout
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Expr:
    """An operation on expressions. ``data``: a constant's value, a variable's number, a load's buffer number; a call's options."""

    op: str
    dtype: str
    args: "tuple[Operand, ...]" = ()
    data: Any = None


@dataclass(frozen=True, slots=True)
class Region:
    """Part of a buffer: first index and extent per dimension. A pointer is the region from an element on."""

    buffer: int
    start: tuple[Expr, ...]
    extent: tuple[Expr, ...]


Operand = Union[Expr, Region, str]


@dataclass(frozen=True, slots=True)
class For:
    """``kind``: serial, parallel, vectorized or unrolled; a pipelined loop is a serial one."""

    at: str
    kind: str
    var: int
    start: Expr
    extent: Expr
    body: "tuple[Stmt, ...]"


@dataclass(frozen=True, slots=True)
class While:
    at: str
    condition: Expr
    body: "tuple[Stmt, ...]"


@dataclass(frozen=True, slots=True)
class If:
    at: str
    condition: Expr
    then: "tuple[Stmt, ...]"
    orelse: "tuple[Stmt, ...]"


@dataclass(frozen=True, slots=True)
class Bind:
    """A name for a value, for the rest of the block."""

    at: str
    var: int
    value: Expr


@dataclass(frozen=True, slots=True)
class Store:
    at: str
    buffer: int
    index: tuple[Expr, ...]
    value: Expr


@dataclass(frozen=True, slots=True)
class Alloc:
    """A buffer of the block starts without contents."""

    at: str
    buffer: int


@dataclass(frozen=True, slots=True)
class TileOp:
    """An operation on regions: copy, fill, gemm, reduce, ...; ``options`` are its annotations."""

    at: str
    op: str
    args: tuple[Operand, ...]
    options: Mapping[str, Any]


Stmt = Union[For, While, If, Bind, Store, Alloc, TileOp]


@dataclass(frozen=True, slots=True)
class BufferDecl:
    """``storage`` numbers the memory that views of one another share; ``param`` names the launch argument of a global buffer."""

    name: str
    dtype: str
    shape: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    scope: str
    storage: int
    param: str = ""


@dataclass(frozen=True, slots=True)
class TileProgram:
    """One kernel. ``scalars``: variable number -> launch argument; ``sizes``: variable number -> (launch argument, dimension),
    where the strides of a tensor follow its extents.

    ``blocks`` and ``threads`` are the variables of block and thread indices along x, y, z (-1: none); ``swizzled``: the
    compiler was asked to run the blocks in another order.
    """

    name: str
    buffers: tuple[BufferDecl, ...]
    scalars: Mapping[int, str]
    sizes: Mapping[int, tuple[str, int]]
    grid: tuple[Expr, ...]
    blocks: tuple[int, ...]
    threads: tuple[int, ...]
    block_threads: int
    body: tuple[Stmt, ...]
    swizzled: bool


def load_program(text: str) -> TileProgram:
    """Read a tile program's text. Raises ParseError on anything else."""
    try:
        row = json.loads(text)
        if row["format"] != FORMAT:
            raise ParseError(f"a tile program of format {row['format']}; this release reads format {FORMAT}")
        return _program(row)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise ParseError(f"no tile program: {type(error).__name__}: {error}") from None


def _program(row: Mapping[str, Any]) -> TileProgram:
    return TileProgram(
        name=str(row["name"]),
        buffers=tuple(_buffer(b) for b in row["buffers"]),
        scalars={int(var): str(name) for var, name in row["scalars"].items()},
        sizes={int(var): (str(name), int(dim)) for var, (name, dim) in row["sizes"].items()},
        grid=tuple(_expr(e) for e in row["grid"]),
        blocks=tuple(int(v) for v in row["blocks"]),
        threads=tuple(int(v) for v in row["threads"]),
        block_threads=int(row["block_threads"]),
        body=_block(row["body"]),
        swizzled=bool(row["swizzled"]),
    )


def _buffer(row: Mapping[str, Any]) -> BufferDecl:
    shape, strides = (tuple(_expr(e) for e in row[key]) for key in ("shape", "strides"))
    return BufferDecl(str(row["name"]), str(row["dtype"]), shape, strides, str(row["scope"]), int(row["storage"]), str(row["param"]))


def _expr(row: Any) -> Expr:
    """``[op, dtype, [operands], data]``."""
    op, dtype, args, data = row
    return Expr(str(op), str(dtype), tuple(_operand(arg) for arg in args), data)


def _operand(row: Any) -> Operand:
    if isinstance(row, str):
        return row
    if isinstance(row, dict):
        return Region(int(row["buffer"]), tuple(_expr(e) for e in row["start"]), tuple(_expr(e) for e in row["extent"]))
    return _expr(row)


def _block(rows: Any) -> tuple[Stmt, ...]:
    return tuple(_STATEMENTS[row["stmt"]](row) for row in rows)


_STATEMENTS: dict[str, Callable[[Mapping[str, Any]], Stmt]] = {
    "for": lambda r: For(r["at"], r["kind"], int(r["var"]), _expr(r["start"]), _expr(r["extent"]), _block(r["body"])),
    "while": lambda r: While(r["at"], _expr(r["condition"]), _block(r["body"])),
    "if": lambda r: If(r["at"], _expr(r["condition"]), _block(r["then"]), _block(r["else"])),
    "bind": lambda r: Bind(r["at"], int(r["var"]), _expr(r["value"])),
    "store": lambda r: Store(r["at"], int(r["buffer"]), tuple(_expr(e) for e in r["index"]), _expr(r["value"])),
    "alloc": lambda r: Alloc(r["at"], int(r["buffer"])),
    "op": lambda r: TileOp(r["at"], r["op"], tuple(_operand(a) for a in r["args"]), dict(r["options"])),
}
