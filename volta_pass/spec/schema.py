"""The shape of a launch spec, as JSON Schema: the one table that the reader, the schema file and the documentation share.

``configs/launch_spec.schema.json`` is this table printed (``python -m volta_pass.spec.schema``); a test keeps the two
equal. Only the keywords that ``structure`` checks are used. Every ``description`` completes the sentence "must be ...".
"""

from __future__ import annotations

import json
from typing import Any

from ptx_engine.launch import DTYPES

Schema = dict[str, Any]

_EXTENT: Schema = {"type": "integer", "minimum": 0, "description": "an integer of at least 0"}
_POSITIVE: Schema = {"type": "integer", "minimum": 1, "description": "a positive integer"}
_NAME: Schema = {"type": "string", "minLength": 1, "description": "a name"}
_DIM3: Schema = {
    "description": "1 to 3 positive integers, such as [64, 1, 1]",
    "anyOf": [_POSITIVE, {"type": "array", "items": _POSITIVE, "minItems": 1, "maxItems": 3}],
}
_NUMBERS: Schema = {"type": "array", "items": {"type": "number"}}

_LAUNCH_KEYS: Schema = {
    "grid": _DIM3,
    "block": _DIM3,
    "ctas": {
        "description": '"all" or a list of CTAs such as [[0, 0, 0], [3, 1, 0]]',
        "anyOf": [
            {"type": "string", "enum": ["all"]},
            {"type": "array", "minItems": 1, "items": {"type": "array", "items": _EXTENT, "minItems": 1, "maxItems": 3}},
        ],
    },
    "dynamic_shared_bytes": {**_EXTENT, "description": "a number of bytes"},
}

_ARG_KEYS: Schema = {
    "name": _NAME,
    "kind": {"type": "string", "enum": ["tensor", "scalar", "tensormap"], "description": '"tensor", "scalar" or "tensormap"'},
    "dtype": {"type": "string", "enum": list(DTYPES), "description": "one of " + ", ".join(DTYPES)},
    "shape": {"type": "array", "items": _EXTENT, "description": "a list of extents such as [4096, 64]"},
    "strides": {"type": "array", "items": _EXTENT, "description": "a list of strides in elements, one per dimension"},
    "role": {"type": "string", "enum": ["in", "out", "inout", "aux"], "description": '"in", "out", "inout" or "aux"'},
    "contents": {
        "description": '"symbolic", "arange", "random:SEED:LOW:HIGH" or a list of numbers',
        "anyOf": [
            {"type": "string", "pattern": r"^(symbolic|arange|random:[0-9]+:-?[0-9]+(\.[0-9]+)?:-?[0-9]+(\.[0-9]+)?)$"},
            _NUMBERS,
        ],
    },
    "value": {
        "description": '"symbolic" or a number',
        "anyOf": [{"type": "string", "enum": ["symbolic"]}, {"type": "number"}],
    },
}

_ARG: Schema = {"type": "object", "properties": _ARG_KEYS, "additionalProperties": False, "description": "a table"}

_CONSTANT: Schema = {
    "description": "a number, a boolean or a string",
    "anyOf": [{"type": "number"}, {"type": "boolean"}, {"type": "string"}],
}

_SIDE_KEYS: Schema = {
    "ptx": {"type": "string", "minLength": 1, "description": "the path of a PTX file, relative to the spec"},
    "cuda": {"type": "string", "minLength": 1, "description": "the path of a CUDA C file, relative to the spec"},
    "triton": {"type": "string", "pattern": r"^[^:]+:[A-Za-z_]\w*$", "description": '"pkg.mod:kernel" or "file.py:kernel"'},
    "python": {"type": "string", "pattern": r"^[^:]+:[A-Za-z_]\w*$", "description": '"pkg.mod:function" or "file.py:function"'},
    "entry": _NAME,
    "args": {
        "description": 'a list of argument names, or of tables such as {name = "A", strides = [64, 1]}',
        "type": "array",
        "items": {"description": "an argument name or a table", "anyOf": [_NAME, {**_ARG, "required": ["name"]}]},
    },
    "constexprs": {
        "type": "object", "additionalProperties": _CONSTANT, "description": "a table of compile-time constants such as {BLOCK = 128}",
    },
    "options": {
        "description": "a table of compiler options such as {num_warps = 4}, or for cuda a list such as [\"--use_fast_math\"]",
        "anyOf": [
            {"type": "object", "additionalProperties": _CONSTANT, "description": "a table of compiler options such as {num_warps = 4}"},
            {"type": "array", "items": _NAME, "description": "a list of compiler options"},
        ],
    },
    "defines": {
        "type": "object", "additionalProperties": _CONSTANT, "description": "a table of preprocessor macros such as {TILE = 64}",
    },
    "include": {"type": "array", "items": _NAME, "description": "a list of include folders, relative to the spec"},
    "compiler": {"type": "string", "enum": ["nvrtc", "nvcc"], "description": '"nvrtc" or "nvcc"'},
    "target": {"type": "string", "pattern": r"^cuda:[0-9]+$", "description": 'a target such as "cuda:80"'},
    "launch": {
        "type": "object", "properties": _LAUNCH_KEYS, "additionalProperties": False,
        "description": "a table of [launch] keys that this side overrides",
    },
    **_LAUNCH_KEYS,
}  # fmt: skip

_SIDE: Schema = {"type": "object", "properties": _SIDE_KEYS, "additionalProperties": False, "description": "a table"}

_CHOICES: Schema = {
    "description": "a list of numbers, booleans or strings", "type": "array", "minItems": 1, "items": _CONSTANT,
}  # fmt: skip

_SWEEP: Schema = {
    "type": "object",
    "description": "a table",
    "additionalProperties": False,
    "properties": {
        "grid": {
            "description": 'a formula such as "cdiv(M, BLOCK_M)", or a list of 1 to 3',
            "anyOf": [_NAME, {"type": "array", "items": _NAME, "minItems": 1, "maxItems": 3}],
        },
        "constexprs": {"type": "object", "additionalProperties": _CHOICES, "description": "a table of lists such as {BLOCK = [64, 128]}"},
        "options": {"type": "object", "additionalProperties": _CHOICES, "description": "a table of lists such as {num_warps = [4, 8]}"},
        "triton": {"type": "array", "minItems": 1, "items": _SIDE_KEYS["triton"], "description": 'a list of "file.py:kernel"'},
    },
}

SCHEMA: Schema = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "volta-pass launch spec",
    "type": "object",
    "description": "a table",
    "additionalProperties": False,
    "required": ["launch", "args", "candidate"],
    "properties": {
        "launch": {
            "type": "object", "properties": _LAUNCH_KEYS, "required": ["grid"], "additionalProperties": False, "description": "a table",
        },
        "args": {
            "type": "array",
            "description": "a list of [[args]] tables, in kernel-parameter order",
            "items": {**_ARG, "required": ["name", "kind", "dtype"]},
        },
        "reference": _SIDE,
        "candidate": _SIDE,
        "sweep": _SWEEP,
        "compare": {
            "type": "object",
            "description": "a table",
            "additionalProperties": False,
            "properties": {"outputs": {"type": "array", "items": _NAME, "minItems": 1, "description": "a list of tensor names"}},
        },
        "externs": {"type": "object", "additionalProperties": _NAME, "description": "a table of device functions and operators"},
        "globals": {
            "type": "object",
            "description": "a table of module-scope variables and their contents",
            "additionalProperties": {"description": "a number or a list of numbers", "anyOf": [{"type": "number"}, _NUMBERS]},
        },
    },
}  # fmt: skip


def schema_text() -> str:
    """The schema file's text."""
    return json.dumps(SCHEMA, indent=2, sort_keys=False) + "\n"


if __name__ == "__main__":
    print(schema_text(), end="")
