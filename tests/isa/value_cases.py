"""Case files of the instructions that compute values: operands and what the ISA's text makes of them, one file for each instruction.

A file has blocks of forms with the same operands: first the operands, one row a case, then for each form its results in the rows' order.
Numbers are bits in hexadecimal; ``?`` is open, ``~value relative absolute`` within an error. ``python -m value_cases`` writes them from the models of
``form_model``; a test holds them, the engine and the tables of forms together.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np
from float_model import FORMATS
from form_kernels import Signature, signature
from form_model import Close, format_of
from form_table import WIDTHS, Legal
from test_every_form import FAMILIES

FOLDER = Path(__file__).parent / "cases"
#: rows of a block; comparisons have many forms that differ in little
ROWS, FEW = 8, 5


@dataclass(frozen=True)
class Block:
    """Forms with the same operands, and the results of each in every row."""

    rows: tuple[tuple[int, ...], ...]
    results: dict[str, list[list["int | Close | None"]]]


def name_of(form: Legal) -> str:
    """The form as a file names it: mnemonic and kinds of operands."""
    return f"{form.mnemonic} {','.join(kind for kind, _ in form.slots())}"


def edges(kind: str) -> list[int]:
    """0, 1, -1, least, greatest, counts at and beyond the width; of floats zeros, ones, infinities, NaN, subnormals."""
    if kind == "pred":
        return [0, 1]
    if kind == "count":
        return [0, 1, 31, 32, 33, 64, 255, 0xFFFFFFFF]
    width = WIDTHS[kind]
    if kind in FORMATS:
        dtype = np.dtype(ml_dtypes.bfloat16) if kind == "bf16" else np.dtype(f"f{width // 8}")
        least, most = (float(x) for x in (ml_dtypes.finfo(dtype).smallest_subnormal, ml_dtypes.finfo(dtype).max))
        values = np.array([0.0, math.nan, 1.0, -0.0, math.inf, least, -math.inf, most]).astype(dtype)
        return [int(x) for x in values.view(f"u{width // 8}")]
    if kind.removesuffix("x2") in FORMATS or kind.endswith("x2"):
        half = width // 2
        parts = (
            edges(kind.removesuffix("x2"))
            if kind.removesuffix("x2") in FORMATS
            else edges(f"u{half}")
            if f"u{half}" in WIDTHS
            else [0, 1, 0x7F, 0x80, 0xFF]
        )
        return [low | parts[-1 - i] << half for i, low in enumerate(parts)]
    top = (1 << width) - 1
    return [0, 1, top, top >> 1, 1 << width - 1, 2, top - 1, 0x5555555555555555 & top]


def rows_of(found: Signature, count: int) -> tuple[tuple[int, ...], ...]:
    """Rows in which the edge values of the operands meet: each operand goes through its own at another pace."""
    lists = [edges(kind) for kind in found.sources]
    return tuple(tuple(values[(i * (2 * j + 1) + 3 * j) % len(values)] for j, values in enumerate(lists)) for i in range(count))


def blocks(opcode: str) -> Iterator[Block]:
    """What the models say, block by block."""
    for name, (forms, model) in FAMILIES.items():
        groups: defaultdict[Signature, list[Legal]] = defaultdict(list)
        for form in forms:
            if form.opcode == opcode:
                groups[signature(form)].append(form)
        for found, members in groups.items():
            rows = rows_of(found, FEW if name == "select" else ROWS)
            yield Block(rows, {name_of(form): [_cut(model(form, row), found) for row in rows] for form in members})


def _cut(results: "list[int | Close | None]", found: Signature) -> "list[int | Close | None]":
    """Numbers as the bits of their destinations, or of the parts of the only one."""
    widths = (
        found.destinations if len(found.destinations) > 1 or len(results) == 1 else (found.destinations[0] // len(results),) * len(results)
    )
    bits = [1 if width == 1 else max(width, 16) if len(results) == len(found.destinations) else width for width in widths]
    return [x & ((1 << width) - 1) if isinstance(x, int) else x for x, width in zip(results, bits, strict=True)]


def opcodes() -> list[str]:
    return sorted({form.opcode for forms, _ in FAMILIES.values() for form in forms})


def written(block: Block) -> Iterator[str]:
    yield "operands " + " | ".join(" ".join(f"{x:x}" for x in row) for row in block.rows)
    for form, results in block.results.items():
        yield f"{form} = " + " | ".join(" ".join(map(text_of, row)) for row in results)


def text_of(result: "int | Close | None") -> str:
    if result is None:
        return "?"
    if isinstance(result, Close):
        return f"~{result.value!r}:{result.fmt.name}:{result.relative!r}:{result.absolute!r}"
    return f"{result:x}"


def result_of(text: str) -> "int | Close | None":
    if text == "?":
        return None
    if text[0] != "~":
        return int(text, 16)
    value, fmt, relative, absolute = text[1:].split(":")
    return Close(float(value), format_of(fmt), float(relative), float(absolute))


def read(text: str) -> list[Block]:
    """The blocks of a file."""
    found: list[Block] = []
    for line in text.splitlines():
        if line.startswith("operands "):
            found.append(Block(tuple(tuple(int(x, 16) for x in row.split()) for row in line[9:].split(" | ")), {}))
        elif line and not line.startswith("#"):
            form, _, results = line.partition(" = ")
            found[-1].results[form] = [[result_of(x) for x in row.split()] for row in results.split(" | ")]
    return found


def columns(found: Signature, rows: Sequence[Sequence[int]]) -> list[np.ndarray]:
    """Operands as the kernels of ``form_kernels`` take them."""
    sizes = [16 if kind == "pred" else 32 if kind == "count" else max(8, WIDTHS[kind]) for kind in found.sources]
    return [np.array([row[j] for row in rows], np.uint64).astype(f"u{size // 8}") for j, size in enumerate(sizes)]


def rendered(opcode: str) -> str:
    """The text of an instruction's file."""
    lines = [f"# {opcode}: made by value_cases.py from the models; bits in hexadecimal"]
    for block in blocks(opcode):
        lines += ["", *written(block)]
    return "\n".join(lines) + "\n"


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for opcode in opcodes():
        (FOLDER / f"{opcode}.txt").write_text(rendered(opcode), encoding="ascii")


if __name__ == "__main__":
    main()
