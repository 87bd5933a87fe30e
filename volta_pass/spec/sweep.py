"""A spec with a ``[sweep]``: lists of constants, options and kernels; one spec for every combination, in the order of the lists.

The grid may depend on the constants: a formula over them and the launch's integer scalars, with ``+ - * //``, parentheses and
``cdiv(a, b)``. It is read as an expression tree; nothing in it is run as code.
"""

from __future__ import annotations

import ast
import copy
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from volta_pass.spec.lines import LineTable
from volta_pass.spec.lines import Path as KeyPath
from volta_pass.spec.structure import spec_error

#: more than anybody waits for
MOST_POINTS = 100_000
#: larger values in a formula are mistakes
_LARGEST = 1 << 40


@dataclass(frozen=True)
class Point:
    """One combination: the spec's data without the sweep, and what it is called."""

    data: dict[str, Any]
    configuration: dict[str, Any]


#: where a value goes, and the values
Axes = list[tuple[tuple[str, ...], list[Any]]]


def sweep_points(data: Mapping[str, Any], table: LineTable) -> Iterator[Point]:
    """Every combination of a checked spec's sweep. Raises SpecError."""
    sweep = data["sweep"]
    axes: Axes = [(("triton",), sweep.get("triton", []))]
    axes += [((kind, name), values) for kind in ("constexprs", "options") for name, values in sweep.get(kind, {}).items()]
    axes = [(place, values) for place, values in axes if values]
    _refuse_misfits(data, axes, table)
    for values in itertools.product(*(values for _, values in axes)):
        yield _point(data, {place: value for (place, _), value in zip(axes, values)}, table)


def _refuse_misfits(data: Mapping[str, Any], axes: Axes, table: LineTable) -> None:
    if not axes:
        raise spec_error(
            table, ("sweep",), "[sweep] has no lists", "add constexprs = {BLOCK = [64, 128]} or options = {num_warps = [4, 8]}"
        )
    if "triton" not in data["candidate"]:
        raise spec_error(table, ("candidate",), "a [sweep] is over a Triton candidate", 'give candidate.triton = "file.py:kernel"')
    points = 1
    for _, values in axes:
        points *= len(values)
    if points > MOST_POINTS:
        raise spec_error(table, ("sweep",), f"a sweep of {points} configurations", f"at most {MOST_POINTS}")


def _point(data: Mapping[str, Any], chosen: Mapping[tuple[str, ...], Any], table: LineTable) -> Point:
    made: dict[str, Any] = copy.deepcopy({key: value for key, value in data.items() if key != "sweep"})
    candidate = made["candidate"]
    for place, value in chosen.items():
        if len(place) == 1:
            candidate["triton"] = value
        else:
            candidate.setdefault(place[0], {})[place[1]] = value
    formula = data["sweep"].get("grid")
    if formula is not None:
        scalars = {a["name"]: a["value"] for a in made["args"] if isinstance(a.get("value"), int)}
        names = {**scalars, **candidate.get("constexprs", {}), **candidate.get("options", {})}
        formulas = [formula] if isinstance(formula, str) else formula
        made["launch"]["grid"] = [_extent(text, names, table, ("sweep", "grid")) for text in formulas]
    return Point(made, {**candidate.get("constexprs", {}), **candidate.get("options", {})})


def _extent(text: str, names: Mapping[str, Any], table: LineTable, path: KeyPath) -> int:
    """The value of a formula, which must be a positive integer. Raises SpecError."""
    try:
        value = _value(ast.parse(text, mode="eval").body, names)
        if value < 1:
            raise ValueError(f"it is {value}")
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError) as error:
        hint = "integers, constexprs, options, integer arguments, + - * //, cdiv(a, b)"
        raise spec_error(table, path, f"sweep.grid: {text!r} is no positive integer: {error}", hint) from None
    return value


_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
}


def _value(node: ast.expr, names: Mapping[str, Any]) -> int:
    """Depth is bounded by Python's parser."""
    found: Any = None
    if isinstance(node, ast.Constant):
        found = node.value
    elif isinstance(node, ast.Name):
        if node.id not in names:
            raise ValueError(f"{node.id!r} is no constant and no integer argument")
        found = names[node.id]
    elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        found = _OPERATORS[type(node.op)](_value(node.left, names), _value(node.right, names))
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "cdiv" and len(node.args) == 2:
        left, right = (_value(argument, names) for argument in node.args)
        found = -(-left // right)
    if type(found) is not int or abs(found) > _LARGEST:
        raise ValueError(f"{ast.unparse(node)!r} is no integer that a formula may have")
    return found
