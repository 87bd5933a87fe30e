"""Reads a launch spec (TOML) into a ``Spec``: every error says file, line, key and what to write instead.

Per side, any [launch] key may be given in the side's table (``grid = ...`` or ``launch.grid = ...``), and ``args`` may
hold names (this side's parameter order), tables that override keys of an argument, or both. A list of tables only keeps
the order of [[args]].
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ptx_engine.errors import UnsupportedError
from volta_pass.reading import read_bytes
from volta_pass.spec.kernels import put_kernels
from volta_pass.spec.lines import LineTable, locate_keys
from volta_pass.spec.model import SideKind, Spec
from volta_pass.spec.schema import SCHEMA
from volta_pass.spec.sides import SideReader
from volta_pass.spec.structure import BeyondDouble, SpecError, check_numbers, check_structure, spec_error, suggestion
from volta_pass.spec.sweep import sweep_points

#: operators an extern device function may stand for
EXTERN_OPERATORS = (
    "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "rcp", "tanh", "sin", "cos", "erf", "abs", "floor", "ceil", "max", "min", "pow", "fma",
)  # fmt: skip


def read_spec(path: "str | Path", kernels: Sequence["str | Path"] = ()) -> Spec:
    """The spec in a file. ``kernels`` are files in the place of its candidate, or of its reference and candidate.

    Raises SpecError (bad input) or UnsupportedError (a feature that is not there yet).
    """
    place = Path(path)
    return parse_spec(_read_text(place), place, kernels)


def parse_spec(text: str, path: Path, kernels: Sequence["str | Path"] = ()) -> Spec:
    """The spec in a TOML text; relative paths in it start at ``path``'s folder. Raises as ``read_spec``."""
    table = locate_keys(text, str(path))
    data = _parse_toml(text, table)
    check_numbers(data, table)
    put_kernels(data, kernels)
    check_structure(data, SCHEMA, table)
    if "sweep" in data:
        raise spec_error(
            table, ("sweep",), "a [sweep] is many specs, and one is wanted here", "volta-pass check SPEC; read_sweep in Python"
        )
    return _spec(data, table, path)


def read_sweep(path: "str | Path") -> list[tuple[Spec, dict[str, Any]]]:
    """Every spec of a file's [sweep] with the constants and options that it stands for; the only spec of a file without.

    Raises as ``read_spec``.
    """
    place = Path(path)
    table = locate_keys(text := _read_text(place), str(place))
    data = _parse_toml(text, table)
    check_numbers(data, table)
    check_structure(data, SCHEMA, table)
    if "sweep" not in data:
        return [(_spec(data, table, place), {})]
    return [(_spec(point.data, table, place), point.configuration) for point in sweep_points(data, table)]


def _spec(data: dict[str, Any], table: LineTable, path: Path) -> Spec:
    """The spec of checked data."""
    _refuse_duplicates(data, table)
    _refuse_tensormaps(data, table)
    sides = SideReader(data, table, path.parent)
    reference = sides.read("reference") if "reference" in data else None
    candidate = sides.read("candidate")
    if candidate.kind is SideKind.PYTHON:
        raise spec_error(
            table, ("candidate", "python"), "a candidate cannot be a Python function", "give ptx or triton; python is for references"
        )
    return Spec(
        path, candidate, reference, _outputs(data, table), tuple(a["name"] for a in data["args"] if a.get("role") == "aux"),
        _externs(data, table), data.get("globals", {}), table,
    )  # fmt: skip


def _read_text(path: Path) -> str:
    try:
        return read_bytes(path).decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        raise SpecError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}", hint="a spec is a TOML file") from None
    except (OSError, ValueError) as error:  # ValueError: no file, or no name of one
        reason = getattr(error, "strerror", None) or error
        raise SpecError(f"cannot read {path}: {reason}", hint="give the path of a launch spec (TOML)") from None


def _parse_toml(text: str, table: LineTable) -> dict[str, Any]:
    try:
        return tomllib.loads(text, parse_float=_float)
    except (ValueError, RecursionError) as error:  # ValueError: not TOML, or an integer of more digits than Python reads
        message = (str(error) or "nested too deeply").split("; use sys.")[0]
        found = re.search(r"\(at line (\d+), column (\d+)\)", message)
        line, col = (int(found[1]), int(found[2])) if found else _longest_number(table.lines)
        table.places[("",)] = (min(line, max(1, len(table.lines))), col)
        hint = "a launch spec is a TOML file: tables such as [launch], and key = value lines"
        raise spec_error(table, ("",), "not TOML: " + re.sub(r" \(at .*\)$", "", message), hint) from None


def _longest_number(lines: Sequence[str]) -> tuple[int, int]:
    """Where the number is that Python does not read for its digits; the end of the text if that is not what is wrong."""
    for number, line in enumerate(lines, 1):
        found = re.search(r"[0-9_]{4301,}", line)
        if found:
            return number, found.start() + 1
    return max(1, len(lines)), 1


def _float(text: str) -> float:
    """A number too large for a double is kept as such, so that it can be refused at its key."""
    value = float(text)
    return BeyondDouble(text) if math.isinf(value) and "inf" not in text else value


def _refuse_duplicates(data: dict[str, Any], table: LineTable) -> None:
    seen: set[str] = set()
    for i, arg in enumerate(data["args"]):
        if arg["name"] in seen:
            raise spec_error(table, ("args", i, "name"), f"two arguments are named {arg['name']!r}", "give each argument its own name")
        seen.add(arg["name"])


def _refuse_tensormaps(data: dict[str, Any], table: LineTable) -> None:
    for i, arg in enumerate(data["args"]):
        if arg["kind"] == "tensormap":
            raise UnsupportedError(
                f"argument {arg['name']}: tensor maps (TMA) are not modelled", span=table.span(("args", i, "kind")), feature="tensormap"
            )


def _outputs(data: dict[str, Any], table: LineTable) -> tuple[str, ...]:
    """The tensors to compare: those named, else every tensor a kernel may write that is not auxiliary."""
    tensors = {a["name"]: a for a in data["args"] if a["kind"] == "tensor"}
    named = data.get("compare", {}).get("outputs")
    if named is None:
        return tuple(name for name, a in tensors.items() if a.get("role", "inout") in ("out", "inout"))
    for name in named:
        if name not in tensors:
            raise spec_error(table, ("compare", "outputs"), f"{name!r} is no tensor of [[args]]", suggestion(name, list(tensors)))
        if tensors[name].get("role") == "in":
            raise spec_error(table, ("compare", "outputs"), f'{name!r} has role "in": it is never written', 'give it role = "out"')
    return tuple(dict.fromkeys(named))


def _externs(data: dict[str, Any], table: LineTable) -> dict[str, str]:
    externs: dict[str, str] = data.get("externs", {})
    for name, operator in externs.items():
        if operator not in EXTERN_OPERATORS:
            message = f"extern {name}: {operator!r} is no operator"
            raise spec_error(table, ("externs", name), message, suggestion(operator, list(EXTERN_OPERATORS)))
    return externs
