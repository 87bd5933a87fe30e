"""What ``make compat`` says of upgrades: all equal is good, anything else is not; a seeded miscompilation must be refuted."""

from collections import Counter
from pathlib import Path

import pytest
import version_matrix
from version_matrix import COMPILERS, Row, table

from volta_pass.baseline.compare import Change


@pytest.mark.parametrize(
    "seeded, changes, code, good",
    [
        (False, {"same text": 1, "proved equal": 2}, 0, True),
        (False, {"proved equal": 2, "refuted": 1}, 1, False),
        (False, {"proved equal": 2, "unknown": 1}, 3, False),
        (False, {"proved equal": 2, "new races": 1}, 1, False),
        (False, {"proved equal": 2, "no longer compiles": 1}, 1, False),
        (False, {"proved equal": 2}, 3, False),  # (a damaged entry)
        (False, {}, 70, False),
        (True, {"proved equal": 2, "refuted": 1}, 1, True),
        (True, {"proved equal": 3}, 0, False),
        (True, {"proved equal": 2, "new races": 1}, 1, False),
        (True, {"refuted": 3}, 0, False),
        (True, {}, 70, False),
    ],
)
def test_what_is_good(seeded, changes, code, good):
    row = Row("1", "2", seeded, Counter(changes), code)
    assert row.good is good
    assert ("NOT OK" in table([row])) is not good


def test_changes_are_called_as_the_comparison_calls_them():
    assert {change.value for change in Change} >= version_matrix.GOOD | {"refuted"}


def test_what_is_recorded_is_there():
    for compiler in COMPILERS.values():
        assert all(Path(name).is_file() for name in (compiler.program[0], *compiler.specs))
    suite = Path(COMPILERS["tilelang"].program[0]).read_text()
    for name in COMPILERS["tilelang"].program[1:]:
        assert f'"{name}"' in suite or "matmul 32x32x32 s{s}" in suite
