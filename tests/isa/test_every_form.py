"""Every form of the ISA's syntax boxes that computes a value, in concrete mode against the models of ``form_model``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from form_kernels import Signature, grouped, run_forms, table
from form_model import INTEGER_MODELS, Close, convert_result, float_result, format_of, is_nan, select_result
from form_table import CONVERT, FLOAT, INTEGER, SELECT, Legal, forms

Model = Callable[[Legal, Sequence[int]], "list[int | Close | None]"]


def integer_result(form: Legal, operands: Sequence[int]) -> "list[int | Close | None]":
    if form.opcode == "fns":
        operands = [operands[0], operands[1] & 31, operands[2]]
    if form.opcode == "lop3":
        return [sum((0x1E >> ((a >> 2) | (b >> 1 & 2) | c & 1) & 1) << i
                    for i in range(32) for a, b, c in [[(x >> i & 1) << 2 for x in operands]] for c in [c >> 2])]  # fmt: skip
    return [INTEGER_MODELS[form.mnemonic](*operands)]


FAMILIES: dict[str, tuple[list[Legal], Model]] = {
    "integer": ([f for f in forms(INTEGER) if f.opcode not in ("lop3", "fns")], integer_result),
    "float": (forms(FLOAT), float_result), "convert": (forms(CONVERT), convert_result), "select": (forms(SELECT), select_result),
}  # fmt: skip
GROUPS = [(name, found, members) for name, (every, _) in FAMILIES.items() for found, members in grouped(every)]


def element_width(form: Legal, found: Signature, count: int) -> int:
    """The width in bits of each of ``count`` elements of a result register."""
    width = found.destinations[0]
    return width // count if count > 1 else max(width, 16)


def agree(form: Legal, found: Signature, results: list[list[int]], rows: Sequence[Sequence[int]], model: Model) -> None:
    """Each row's destinations against the model; NaN by any name where the format keeps payloads."""
    for i, row in enumerate(rows):
        wanted = model(form, row)
        if len(found.destinations) > 1 or found.destinations == (1,):
            got = [column[i] for column in results]
        else:
            width = element_width(form, found, len(wanted))
            got = [results[0][i] >> width * k & ((1 << width) - 1) for k in range(len(wanted))]
        for have, want in zip(got, wanted):
            assert matches(form, found, have, want, len(wanted)), f"{form.mnemonic} of {[hex(x) for x in row]}: {have:#x}, not {want}"


def matches(form: Legal, found: Signature, have: int, want: "int | Close | None", count: int) -> bool:
    if want is None:
        return True
    if isinstance(want, Close):
        return want.holds(have)
    if found.destinations[0] == 1:
        return have == want
    want &= (1 << element_width(form, found, count)) - 1
    target = form.types[0].removesuffix("x2") if form.opcode == "cvt" else form.types[-1].removesuffix("x2") if form.types else ""
    nans = form.opcode in ("neg", "abs", "copysign") or target == "f64"  # the payload of a NaN is open
    return have == want or (
        nans and target in ("f16", "bf16", "f32", "f64") and is_nan(want, format_of(target)) and is_nan(have, format_of(target))
    )


@pytest.mark.parametrize(("name", "found", "members"), GROUPS, ids=[f"{n}-{m[0].mnemonic}" for n, _, m in GROUPS])
def test_values(name: str, found: Signature, members: list[Legal]) -> None:
    columns = table(found.sources, 24)
    rows = [[int(x) for x in row] for row in zip(*columns)]
    for form, results in zip(members, run_forms(found, members, columns)):
        agree(form, found, results, rows, FAMILIES[name][1])
    some = members[::4]
    alone = run_forms(found, some, [x[3:4] for x in columns])  # one thread: uniform values are Python ints
    for form, results in zip(some, alone):
        agree(form, found, results, rows[3:4], FAMILIES[name][1])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "found", "members"), GROUPS, ids=[f"{n}-{m[0].mnemonic}" for n, _, m in GROUPS])
@pytest.mark.parametrize("seed", range(1, 4))
def test_values_of_more_operands(name: str, found: Signature, members: list[Legal], seed: int) -> None:
    columns = table(found.sources, 400, seed)
    rows = [[int(x) for x in row] for row in zip(*columns)]
    for form, results in zip(members, run_forms(found, members, columns)):
        agree(form, found, results, rows, FAMILIES[name][1])
