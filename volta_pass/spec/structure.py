"""Checks parsed TOML against the spec's schema and says what is wrong at which key, and what to write instead.

Covers the JSON Schema keywords that ``schema`` uses: type, enum, pattern, minimum, lengths, items, properties, required,
additionalProperties and anyOf. Everything after this check may rely on types.
"""

from __future__ import annotations

import difflib
import re
import sys
from typing import Any

from ptx_engine.errors import LaunchError, Span
from ptx_engine.launch import MOST_BITS, shown_number
from volta_pass.spec.lines import LineTable, Path
from volta_pass.spec.schema import Schema


class SpecError(LaunchError):
    """A launch spec that cannot be used: file, line, key and remedy."""

    kind = "spec error"
    remedy = "the keys of a launch spec and their values: configs/launch_spec.schema.json, examples in configs/examples"


class BeyondDouble(float):
    """A float of a TOML text that Python reads as an infinity although it says a number."""

    def __init__(self, text: str) -> None:
        self.text = text


_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,), "array": (list,), "string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,),
}  # fmt: skip

#: names people use for our dtypes
_DTYPE_ALIASES = {
    "float16": "f16", "fp16": "f16", "half": "f16", "bfloat16": "bf16", "float32": "f32", "fp32": "f32", "float": "f32",
    "float64": "f64", "fp64": "f64", "double": "f64", "int8": "s8", "uint8": "u8", "int16": "s16", "uint16": "u16", "int32": "s32",
    "i32": "s32", "int": "s32", "uint32": "u32", "int64": "s64", "i64": "s64", "uint64": "u64", "bool": "pred", "b1": "pred",
    "fp8e4nv": "e4m3", "fp8e5": "e5m2",
}  # fmt: skip


def spec_error(table: LineTable, path: Path, message: str, hint: str = "") -> SpecError:
    """A SpecError at a key path."""
    span: Span = table.span(path)
    return SpecError(message, span=span, hint=hint, source_line=table.text(span), feature=dotted(path))


def dotted(path: Path) -> str:
    """``args[1].dtype``"""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def check_numbers(data: dict[str, Any], table: LineTable) -> None:
    """Raise SpecError at the first number that is beyond every type."""
    waiting: list[tuple[Path, object]] = [((), data)]  # no recursion: a dotted key may have thousands of parts
    while waiting:
        path, value = waiting.pop()
        _check_number(value, table, path)
        rows = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        waiting += reversed([((*path, key), item) for key, item in rows])


def _check_number(value: object, table: LineTable, path: Path) -> None:
    if isinstance(value, BeyondDouble):
        message = f"{dotted(path)} is {_clipped(value.text)}, which is beyond every float"
        raise spec_error(table, path, message, f"at most {sys.float_info.max!r}, or inf where that is meant")
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        raise spec_error(table, path, f"{dotted(path)} is {shown_number(value)}", "no type has more than 64; a float may be written 1e30")


def check_structure(value: object, schema: Schema, table: LineTable, path: Path = ()) -> None:
    """Raise SpecError at the first place where ``value`` does not have the schema's shape."""
    if "anyOf" in schema:
        _check_any(value, schema, table, path)
        return
    if not _is_type(value, schema["type"]) or not _fits(value, schema):
        raise spec_error(table, path, _mismatch(value, schema, path), _value_hint(value, schema))
    if isinstance(value, dict):
        _check_table(value, schema, table, path)
    elif isinstance(value, list) and "items" in schema:
        for i, item in enumerate(value):
            check_structure(item, schema["items"], table, (*path, i))


def _check_any(value: object, schema: Schema, table: LineTable, path: Path) -> None:
    """The first alternative of the value's own type decides the message; the union's description covers the rest."""
    for option in schema["anyOf"]:
        if isinstance(value, dict) and option.get("type") == "object":
            check_structure(value, option, table, path)
            return
    for option in schema["anyOf"]:
        try:
            check_structure(value, option, table, path)
        except SpecError:
            continue
        return
    raise spec_error(table, path, _mismatch(value, schema, path), _value_hint(value, schema))


def _check_table(value: dict[str, Any], schema: Schema, table: LineTable, path: Path) -> None:
    properties: dict[str, Schema] = schema.get("properties", {})
    rest = schema.get("additionalProperties", True)
    for key, item in value.items():
        if key in properties:
            check_structure(item, properties[key], table, (*path, key))
        elif isinstance(rest, dict):
            check_structure(item, rest, table, (*path, key))
        elif rest is False:
            where = f"in [{dotted(path)}]" if path else "at top level"
            raise spec_error(table, (*path, key), f"unknown key {key!r} {where}", suggestion(key, list(properties)))
    for key in schema.get("required", ()):
        if key not in value:
            where = f"[{dotted(path)}]" if path else "the spec"
            need = properties[key].get("description", "a value")
            raise spec_error(table, path, f"{where} has no {key!r}", f"add {key} = ...: {need}")


def _is_type(value: object, name: str) -> bool:
    if isinstance(value, bool) and name != "boolean":
        return False
    return isinstance(value, _TYPES[name])


def _fits(value: Any, schema: Schema) -> bool:
    if "enum" in schema and value not in schema["enum"]:
        return False
    if "pattern" in schema and not re.search(schema["pattern"], value):
        return False
    if "minimum" in schema and value < schema["minimum"]:
        return False
    least: int = schema.get("minItems") or schema.get("minLength") or 0
    most: int | None = schema.get("maxItems")
    return not isinstance(value, (list, str)) or (len(value) >= least and (most is None or len(value) <= most))


def _mismatch(value: object, schema: Schema, path: Path) -> str:
    return f"{dotted(path)} must be {schema.get('description', 'a ' + str(schema.get('type')))}, not {_shown(value)}"


def _shown(value: object) -> str:
    try:
        return _clipped(repr(value))
    except RecursionError:
        return "tables within tables"


def _clipped(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def _value_hint(value: object, schema: Schema) -> str:
    if not isinstance(value, str):
        return ""
    alternatives = [schema, *schema.get("anyOf", ())]
    allowed = [str(word) for option in alternatives for word in option.get("enum", ())]
    if _DTYPE_ALIASES.get(value) in allowed:
        return f'did you mean "{_DTYPE_ALIASES[value]}"?'
    return suggestion(value, allowed) if allowed else ""


def suggestion(word: str, known: list[str]) -> str:
    """ "did you mean ...?", or the list of what is known."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    if close:
        return f'did you mean "{close[0]}"?'
    return "known: " + ", ".join(known) if known else ""
