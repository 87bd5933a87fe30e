"""docs/instructions.md says what the registry says."""

from __future__ import annotations

from pathlib import Path

from ptx_engine.isa.instruction_page import CONTROL, IGNORED, page
from ptx_engine.isa.registry import FORMS, REFUSED
from ptx_engine.machine.control_flow import ENDS
from ptx_engine.machine.program import BARRIERS, BRANCHES

PAGE = Path(__file__).parents[2] / "docs" / "instructions.md"


def test_the_page_is_in_step() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: make instructions"


def test_every_ignored_modifier_has_a_reason() -> None:
    slots = {slot.name for forms in FORMS.values() for form in forms for slot in form.slots if slot.ignored}
    assert slots == set(IGNORED)


def test_control_flow_is_listed() -> None:
    listed = {name.strip() for row in CONTROL for name in row.split(",")}
    assert listed == BRANCHES | ENDS | BARRIERS | {"call"}


def test_no_instruction_is_both_modelled_and_refused() -> None:
    assert not FORMS.keys() & REFUSED.keys()
    assert all(name.split(".")[0] in FORMS or "." not in name or name.startswith(("st.", "red.", "cp.", "barrier.")) for name in REFUSED)
