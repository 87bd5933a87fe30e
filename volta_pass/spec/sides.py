"""One side of a spec: what it runs, and its ``Launch`` after this side's argument order and overrides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ptx_engine.errors import LaunchError
from ptx_engine.launch import (
    BLOCK_LIMITS,
    DTYPES,
    GRID_LIMITS,
    MAX_THREADS,
    SYMBOLIC,
    Arg,
    Launch,
    Role,
    ScalarArg,
    TensorArg,
    check_shared_bytes,
    integer_range,
    shown_number,
)  # fmt: skip
from volta_pass.spec.contents import build_contents
from volta_pass.spec.lines import LineTable
from volta_pass.spec.lines import Path as KeyPath
from volta_pass.spec.model import SideKind, SideSpec
from volta_pass.spec.structure import spec_error, suggestion

#: keys of a side that say how it is compiled, and the kinds that are
_KEYS_OF_KINDS = {
    "constexprs": (SideKind.TRITON,), "options": (SideKind.TRITON, SideKind.CUDA), "target": (SideKind.TRITON, SideKind.CUDA),
    "defines": (SideKind.CUDA,), "include": (SideKind.CUDA,), "compiler": (SideKind.CUDA,),
}  # fmt: skip

LAUNCH_KEYS = ("grid", "block", "ctas", "dynamic_shared_bytes")

#: of a block of 1024 threads
_MOST_WARPS = 32


class SideReader:
    """Reads ``[reference]`` and ``[candidate]`` of one checked spec."""

    def __init__(self, data: dict[str, Any], table: LineTable, folder: Path) -> None:
        self._data = data
        self._table = table
        self._folder = folder
        self._made: dict[tuple[str, str, int], str | np.ndarray] = {}
        self._index = {arg["name"]: i for i, arg in enumerate(data["args"])}

    def read(self, side: str) -> SideSpec:
        """The side. Raises SpecError."""
        table = self._data[side]
        kind = self._kind(side, table)
        source = str(table[kind.value])
        if kind in (SideKind.PTX, SideKind.CUDA):
            source = str(self._folder / source)
        self._refuse_foreign_keys(side, table, kind)
        options = table.get("options", {})
        launch = self._launch(side, table, kind)
        span = self._table.span((side, kind.value))
        return SideSpec(
            side, kind, source, launch, table.get("entry"), table.get("constexprs", {}), options if isinstance(options, dict) else {},
            table.get("target", "cuda:80"), span, self._table.text(span), tuple(options) if isinstance(options, list) else (),
            table.get("defines", {}), tuple(str(self._folder / name) for name in table.get("include", ())), table.get("compiler", "nvrtc"),
        )  # fmt: skip

    def _refuse_foreign_keys(self, side: str, table: dict[str, Any], kind: SideKind) -> None:
        """Raise SpecError for a key that says how another kind of side is compiled."""
        for key, kinds in _KEYS_OF_KINDS.items():
            if key in table and kind not in kinds:
                only = " and ".join(f"{k.value} = ..." for k in kinds)
                raise spec_error(self._table, (side, key), f"{side}.{key} is for {only} only", "remove it")
        wanted, example = (list, '["--use_fast_math"]') if kind is SideKind.CUDA else (dict, "{num_warps = 4}")
        if not isinstance(table.get("options", wanted()), wanted):
            message = f"{side}.options of {kind.value} = ... is a {'list' if wanted is list else 'table'}"
            raise spec_error(self._table, (side, "options"), message, f"options = {example}")

    def _kind(self, side: str, table: dict[str, Any]) -> SideKind:
        given = [kind for kind in SideKind if kind.value in table]
        if not given:
            raise spec_error(self._table, (side,), f"[{side}] names no kernel", 'add ptx = "kernel.ptx" (or triton, python, cuda)')
        if len(given) > 1:
            both = " and ".join(kind.value for kind in given)
            raise spec_error(self._table, (side, given[1].value), f"[{side}] has {both}", "keep one of them")
        return given[0]

    # --- launch ---------------------------------------------------------------------------------

    def _launch(self, side: str, table: dict[str, Any], kind: SideKind) -> Launch:
        grid = self._dim3(*self._launch_key(side, table, "grid"), GRID_LIMITS)
        block_value, block_path = self._launch_key(side, table, "block")
        if kind is SideKind.TRITON and (side == block_path[0] or block_value is None):
            warps = table.get("options", {}).get("num_warps", 4)
            if not isinstance(warps, int) or isinstance(warps, bool) or not 1 <= warps <= _MOST_WARPS:
                path = (side, "options", "num_warps")
                raise spec_error(self._table, path, f"num_warps must be 1 to {_MOST_WARPS}, not {warps!r}", "options = {num_warps = 4}")
            block_value = block_value or 32 * warps
        if block_value is None and kind is SideKind.PYTHON:
            block_value = 1
        if block_value is None:
            raise spec_error(self._table, ("launch",), "[launch] has no 'block'", "add block = [THREADS, 1, 1]")
        block = self._dim3(block_value, block_path, BLOCK_LIMITS)
        threads = block[0] * block[1] * block[2]
        if threads > MAX_THREADS:
            raise spec_error(self._table, block_path, f"a block of {threads} threads", f"a CTA has at most {MAX_THREADS} threads")
        shared, shared_path = self._launch_key(side, table, "dynamic_shared_bytes")
        try:
            check_shared_bytes(shared or 0, "of dynamic shared memory")
        except LaunchError as error:
            raise spec_error(self._table, shared_path, error.message, error.hint) from None
        return Launch(grid, block, self._args(side, table), shared or 0, self._ctas(side, table, grid))

    def _launch_key(self, side: str, table: dict[str, Any], key: str) -> tuple[Any, KeyPath]:
        """A launch key's value and where it stands: the side's own, else the common one."""
        nested = table.get("launch", {})
        if key in table and key in nested:
            raise spec_error(self._table, (side, key), f"{side}.{key} is given twice", f"remove {side}.launch.{key}")
        if key in table:
            return table[key], (side, key)
        if key in nested:
            return nested[key], (side, "launch", key)
        return self._data["launch"].get(key), ("launch", key)

    def _dim3(self, value: "int | list[int]", path: KeyPath, limits: tuple[int, int, int]) -> tuple[int, int, int]:
        extents = [value] if isinstance(value, int) else value
        x, y, z = (*extents, 1, 1)[:3]
        for axis, extent, limit in zip("xyz", (x, y, z), limits):
            if extent > limit:
                raise spec_error(self._table, path, f"{path[-1]}.{axis} is {extent}", f"at most {limit}")
        return x, y, z

    def _ctas(self, side: str, table: dict[str, Any], grid: tuple[int, int, int]) -> "tuple[tuple[int, int, int], ...] | None":
        value, path = self._launch_key(side, table, "ctas")
        own_grid = self._launch_key(side, table, "grid")[1][0] == side
        if value is None or value == "all" or (own_grid and path[0] != side):
            return None  # the common list of CTAs means the common grid
        chosen: list[tuple[int, int, int]] = []
        for entry in value:
            x, y, z = (*entry, 0, 0)[:3]
            if not (x < grid[0] and y < grid[1] and z < grid[2]):
                raise spec_error(self._table, path, f"CTA {entry} is outside the grid {list(grid)}", "indices start at 0")
            chosen.append((x, y, z))
        return tuple(dict.fromkeys(chosen))

    # --- arguments ------------------------------------------------------------------------------

    def _args(self, side: str, table: dict[str, Any]) -> tuple[Arg, ...]:
        given = table.get("args", [])
        tables_only = bool(given) and all(isinstance(entry, dict) for entry in given)
        overrides = {e["name"]: ((side, "args", i), e) for i, e in enumerate(given) if isinstance(e, dict)}
        names = [e["name"] if isinstance(e, dict) else e for e in given]
        for i, name in enumerate(names):
            if name not in self._index:
                hint = suggestion(name, list(self._index)) or "add an [[args]] table for it"
                raise spec_error(self._table, (side, "args", i), f"{side}.args: {name!r} is no argument of [[args]]", hint)
        order = list(self._index) if tables_only or not given else names
        return tuple(self._arg(name, *overrides.get(name, ((), {}))) for name in order)

    def _arg(self, name: str, override_path: KeyPath, override: dict[str, Any]) -> Arg:
        base_path: KeyPath = ("args", self._index[name])
        merged = {**self._data["args"][self._index[name]], **override}
        places = {key: (override_path if key in override else base_path) for key in merged}
        if merged["kind"] == "scalar":
            return self._scalar(merged, places, base_path)
        return self._tensor(merged, places, base_path)

    def _scalar(self, merged: dict[str, Any], places: dict[str, KeyPath], base_path: KeyPath) -> ScalarArg:
        for key in ("shape", "strides", "role", "contents"):
            if key in merged:
                raise spec_error(self._table, (*places[key], key), f"{key} is for tensors", 'a scalar has value = "symbolic" or a number')
        name, dtype, value = merged["name"], merged["dtype"], merged.get("value", SYMBOLIC)
        path = (*places["value" if "value" in places else "dtype"], "value")
        if isinstance(value, int) and not DTYPES[dtype][1]:
            least, largest = integer_range(dtype)
            if not least <= value <= largest:
                raise spec_error(self._table, path, f"argument {name}: {shown_number(value)} is no {dtype}", f"{least} to {largest}")
        try:
            return ScalarArg(name, dtype, value)
        except LaunchError as error:
            raise spec_error(self._table, path, error.message, error.hint) from None

    def _contents(self, given: "str | list[int | float]", dtype: str, storage: int) -> "str | np.ndarray":
        """What a tensor holds: made once for both sides where it is long. Raises ValueError."""
        if not isinstance(given, str):
            return build_contents(given, dtype, storage)
        key = (given, dtype, storage)
        if key not in self._made:
            self._made[key] = build_contents(given, dtype, storage)
        return self._made[key]

    def _tensor(self, merged: dict[str, Any], places: dict[str, KeyPath], base_path: KeyPath) -> TensorArg:
        name = merged["name"]
        if "shape" not in merged:
            raise spec_error(self._table, base_path, f"tensor {name!r} has no 'shape'", "add shape = [...], in elements")
        if "value" in merged:
            raise spec_error(self._table, (*places["value"], "value"), "value is for scalars", "a tensor has contents = ...")
        shape, strides = tuple(merged["shape"]), merged.get("strides")
        role = Role(merged.get("role", "inout"))
        try:
            plain = TensorArg(name, merged["dtype"], shape, role, None if strides is None else tuple(strides))
            contents = self._contents(merged.get("contents", SYMBOLIC), merged["dtype"], plain.storage)
        except LaunchError as error:
            key = "strides" if "strides" in merged else "shape"
            raise spec_error(self._table, (*places[key], key), error.message, error.hint) from None
        except ValueError as error:
            raise spec_error(self._table, (*places["contents"], "contents"), f"contents of {name}: {error}") from None
        return TensorArg(name, merged["dtype"], shape, role, plain.strides, contents)
