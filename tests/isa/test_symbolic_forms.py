"""Forms on symbolic data: the terms mean what the bits do, or the form is refused by name, for a reason that the docs give."""

from __future__ import annotations

import pytest
from form_table import CONVERT, FLOAT, INTEGER, SELECT, Legal, forms
from form_terms import Refused, agrees, run_terms

from ptx_engine.isa.instruction_page import SYMBOLIC

EVERY = [*forms(INTEGER), *forms(FLOAT), *forms(CONVERT), *forms(SELECT)]
#: relative error of each format's rounding and of approximate functions
TOLERANCE = {"bf16": 2e-2, "f16": 4e-3, "e4m3": 0.3, "e5m2": 0.3}


def tolerance(form: Legal) -> float:
    kind = form.types[0] if form.opcode == "cvt" else form.types[-1]
    return max(TOLERANCE.get(t.removesuffix("x2").removesuffix("x4"), 2e-3) for t in (kind, form.types[0]))


def outcome(form: Legal) -> "Refused | None":
    """None where terms and bits agree."""
    found = run_terms(form)
    if isinstance(found, Refused):
        assert form.opcode in found.message, f"{form.mnemonic}: {found.message}"
        assert form.opcode in SYMBOLIC, f"{form.mnemonic} is refused and docs/instructions.md does not say why: {found.message}"
        return found
    for pair in found:
        assert agrees(form, pair, tolerance(form)), f"{form.mnemonic}: terms {pair[0]}, bits {pair[1]}"
    return None


SOME = EVERY[::29]


@pytest.mark.parametrize("form", SOME, ids=[f.mnemonic for f in SOME])
def test_terms_mean_what_bits_do(form: Legal) -> None:
    outcome(form)


@pytest.mark.slow
def test_every_form_and_exactly_the_listed_refusals() -> None:
    refused = {form.opcode for form in EVERY if outcome(form) is not None}
    assert refused == set(SYMBOLIC)
