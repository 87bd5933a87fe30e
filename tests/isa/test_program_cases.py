"""The case files of ``program_cases/``: the engine computes what stands there, and they are what the models say."""

from __future__ import annotations

from dataclasses import replace

import pytest
from program_case_files import FILES, rendered
from program_cases import FOLDER, Block, Column, Group, numbers, numbers_text, read, wrong


@pytest.mark.parametrize("name", FILES)
def test_programs(name: str) -> None:
    assert wrong(read((FOLDER / f"{name}.txt").read_text(encoding="ascii"))) == []


@pytest.mark.parametrize("name", FILES)
def test_the_files_are_in_step_with_the_models(name: str) -> None:
    text = (FOLDER / f"{name}.txt").read_text(encoding="ascii")
    assert text == rendered(name), "run: python -m program_case_files in tests/isa"
    assert read(text) == FILES[name][1]()


def test_there_is_a_file_for_each_name_and_no_other() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.txt")) == sorted(FILES)


def with_another_number(block: Block, at: int) -> Block:
    """One group of a block, whose first result has its last number's lowest bit changed."""
    group = block.groups[at]
    name, column = next(iter(group.expected.items()))
    last = column.numbers[-1]
    assert isinstance(last, int)
    changed = replace(
        group, forms=group.forms[:1], expected={**group.expected, name: Column(column.bits, (*column.numbers[:-1], last ^ 1))}
    )
    return replace(block, groups=[changed])


@pytest.mark.parametrize("name", [name for name in FILES if name != "extern"])
def test_another_result_is_noticed(name: str) -> None:
    """In the first and in the last text of each block."""
    for block in read((FOLDER / f"{name}.txt").read_text(encoding="ascii")):
        for at in {0, len(block.groups) - 1}:
            assert len(wrong([with_another_number(block, at)])) == 1


def test_an_approximate_result_has_a_bound() -> None:
    text = (FOLDER / "extern.txt").read_text(encoding="ascii")
    assert wrong(read(text.replace("~1.6487212707001282:f32", "~1.6487222707001282:f32"))) != []


def test_memory_that_is_not_named_must_not_change() -> None:
    memory = {"g": ("global", Column(32, (1, 2))), "s": ("shared", Column(32, (3, 4)))}
    group = Group(("mov.b32 %d0, 9; st.{space}.b32 [%{name}], 9;",), (), {"d": Column(32, (9, 9))})
    for space, name in (("global", "g"), ("shared", "s")):
        text = group.run[0].replace("{space}", space).replace("{name}", name)
        assert len(wrong([Block(2, memory, [Group((text,), (), group.expected)])])) == 1
    assert wrong([Block(2, memory, [Group(("mov.b32 %d0, 9;",), (), group.expected)])]) == []


def test_findings_are_those_of_the_file() -> None:
    text = (FOLDER / "trap.txt").read_text(encoding="ascii")
    assert wrong(read(text.replace("finding trap\n", ""))) != []


@pytest.mark.parametrize(
    "row", [(), (5,), (1, 2), (1, 2, 3), (7, 7, 7, 7), (1, 2, 3, 1, 2, 3, 1, 2, 3), (0, 255, 0xFFFFFFFF, 0xFFFFFFFF), (None, 3, None)]
)
def test_numbers_and_their_text(row: tuple[int | None, ...]) -> None:
    assert numbers(numbers_text(row)) == row
