"""Every form of the ISA's syntax boxes that computes a value, in concrete mode against the models of ``form_model``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from float_model import FORMATS
from form_kernels import Signature, grouped, run_forms, table
from form_model import INTEGER_MODELS, Close, convert_result, float_result, is_nan, select_result
from form_table import CONVERT, FLOAT, INTEGER, MOVES, PREDICATES, SELECT, Legal, forms
from integer_model import _lop3 as lop3
from test_move_forms import permuted

Model = Callable[[Legal, Sequence[int]], "list[int | Close | None]"]


def integer_result(form: Legal, operands: Sequence[int]) -> "list[int | Close | None]":
    if form.opcode == "fns" and operands[1] > 31:
        return [None]  # the base must be a bit's number
    if form.opcode == "lop3":
        return [lop3(0x1E, *operands)]
    return [FNS(*operands) if form.opcode == "fns" else INTEGER_MODELS[form.mnemonic](*operands)]


def predicate_result(form: Legal, operands: Sequence[int]) -> "list[int | Close | None]":
    """Predicates in, predicates out; lop3 combines "the result is not zero" with a predicate."""
    if form.opcode == "lop3":
        result = lop3(0x1E, *operands[:3])
        return [result, int(result != 0) & operands[3] if form.modifiers[0] == "and" else int(result != 0) | operands[3]]
    p, q = operands[0], operands[-1]
    return [{"and": p & q, "or": p | q, "xor": p ^ q, "not": 1 - p}[form.opcode]]


def move_result(form: Legal, operands: Sequence[int]) -> "list[int | Close | None]":
    mode = form.modifiers[1] if len(form.modifiers) > 1 else ""
    return [permuted(mode, *operands) if form.opcode == "prmt" else operands[0]]


FNS = next(model for name, model in INTEGER_MODELS.items() if name.startswith("fns"))
MOVED = [form for form in forms(MOVES) if form.opcode in ("mov", "prmt") and "b128" not in form.modifiers]
FAMILIES: dict[str, tuple[list[Legal], Model]] = {
    "integer": (forms(INTEGER), integer_result), "float": (forms(FLOAT), float_result), "convert": (forms(CONVERT), convert_result),
    "select": (forms(SELECT), select_result), "predicate": (forms(PREDICATES), predicate_result), "move": (MOVED, move_result),
}  # fmt: skip
GROUPS = [(name, found, members) for name, (every, _) in FAMILIES.items() for found, members in grouped(every)]


def elements(found: Signature, results: list[list[int]], row: int, count: int) -> list[tuple[int, int]]:
    """(bits, width) of each of ``count`` results in a row: one a destination, or the parts of one destination."""
    if len(found.destinations) > 1 or count == 1:
        return [(column[row], 1 if w == 1 else max(w, 16)) for column, w in zip(results, found.destinations)]
    width = found.destinations[0] // count
    return [(results[0][row] >> width * k & ((1 << width) - 1), width) for k in range(count)]


def agree(form: Legal, found: Signature, results: list[list[int]], rows: Sequence[Sequence[int]], model: Model) -> None:
    """Each row's destinations against the model; NaN by any name where the format keeps payloads."""
    for i, row in enumerate(rows):
        wanted = model(form, row)
        for (have, width), want in zip(elements(found, results, i, len(wanted)), wanted, strict=True):
            assert matches(form, have, width, want), f"{form.mnemonic} of {[hex(x) for x in row]}: {have:#x}, not {want}"


def matches(form: Legal, have: int, width: int, want: "int | Close | None") -> bool:
    if want is None:
        return True
    if isinstance(want, Close):
        return want.holds(have)
    want &= (1 << width) - 1
    target = form.types[0].removesuffix("x2") if form.opcode == "cvt" else form.types[-1].removesuffix("x2") if form.types else ""
    if have == want or target not in FORMATS or not (form.opcode in ("neg", "abs", "copysign") or target == "f64"):
        return have == want
    return is_nan(want, FORMATS[target]) and is_nan(have, FORMATS[target])  # the payload of a NaN is open


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
