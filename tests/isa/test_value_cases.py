"""The case files of ``cases/``: the engine computes what stands there, and every form of the tables stands there."""

from __future__ import annotations

from collections import defaultdict

import pytest
from form_kernels import Signature, run_forms, signature
from form_table import Legal
from test_every_form import FAMILIES, elements, matches
from value_cases import FOLDER, Block, columns, edges, name_of, opcodes, read, rendered

FORMS: dict[str, Legal] = {name_of(form): form for forms, _ in FAMILIES.values() for form in forms}
PORTION = 100


def wrong(blocks: list[Block]) -> list[str]:
    """Forms whose results are not those of their file, with the row and both values."""
    found = []
    for block in blocks:
        groups: defaultdict[Signature, list[str]] = defaultdict(list)
        for name in block.results:
            groups[signature(FORMS[name])].append(name)
        for shape, names in groups.items():
            operands = columns(shape, block.rows)
            for start in range(0, len(names), PORTION):
                members = names[start : start + PORTION]
                for name, results in zip(members, run_forms(shape, [FORMS[m] for m in members], operands)):
                    found += [f"{name}: row {row}" for row in range(len(block.rows)) if not _agrees(name, shape, results, row, block)]
    return found


def _agrees(name: str, shape: Signature, results: list[list[int]], row: int, block: Block) -> bool:
    wanted = block.results[name][row]
    have = elements(shape, results, row, len(wanted))
    return all(matches(FORMS[name], bits, width, want) for (bits, width), want in zip(have, wanted, strict=True))


@pytest.mark.parametrize("opcode", opcodes())
def test_values(opcode: str) -> None:
    assert wrong(read((FOLDER / f"{opcode}.txt").read_text(encoding="ascii"))) == []


@pytest.mark.parametrize("opcode", opcodes())
def test_the_files_are_in_step_with_models_and_tables(opcode: str) -> None:
    """Every form of the tables has its line (and every form of the registry is in a table: test_case_coverage)."""
    text = (FOLDER / f"{opcode}.txt").read_text(encoding="ascii")
    assert text == rendered(opcode), "run: python -m value_cases in tests/isa"
    named = {name for block in read(text) for name in block.results}
    assert named == {name for name, form in FORMS.items() if form.opcode == opcode}


def test_there_is_a_file_for_each_instruction_and_no_other() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.txt")) == opcodes() and len(FORMS) > 5000


@pytest.mark.parametrize(("opcode", "line", "changed"), [
    ("add", "add.sat.s32 d,a,a = ", "f"), ("shl", "shl.b32 d,a,a = ", "f"), ("setp", "setp.lt.s32 p,a,a = ", "^"), ("rcp", "rcp.rn.f32 d,a = ", "f"),
])  # fmt: skip
def test_another_result_is_noticed(opcode: str, line: str, changed: str) -> None:
    """One result of one form, with its last bits changed."""
    text = (FOLDER / f"{opcode}.txt").read_text(encoding="ascii")
    at = text.index(line) + len(line)
    first = text[at:].split(" ")[0]
    other = f"{int(first, 16) ^ (1 if changed == '^' else 0xF):x}"
    assert wrong(read(text[:at] + other + text[at + len(first) :])) == [f"{line.removesuffix(' = ')}: row 0"]


def test_edge_values_are_among_the_operands() -> None:
    """0, 1, -1, least, greatest, counts beyond the width; zeros of both signs, infinities, NaN, subnormals."""
    assert {0, 1, 0xFFFFFFFF, 0x7FFFFFFF, 0x80000000} <= set(edges("s32")) and {31, 32, 33} <= set(edges("count"))
    assert {0, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 1} <= set(edges("f32")), [hex(x) for x in edges("f32")]
    for block in (b for opcode in opcodes() for b in read((FOLDER / f"{opcode}.txt").read_text(encoding="ascii"))):
        assert len(block.rows) >= 5
