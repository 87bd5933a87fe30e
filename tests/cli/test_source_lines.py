"""Lines as compilers count them, and what is shown of long ones: the caret stays under its column."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptx_engine.errors import ParseError, Span, lines_of, window
from volta_pass.diagnostics.source import excerpt, source_line
from volta_pass.terminal import Painter


@given(st.lists(st.text(st.characters(exclude_characters="\n\r"))))
def test_lines_end_with_a_line_feed_only(lines: list[str]) -> None:
    for end in ("\n", "\r\n"):
        assert lines_of("".join(line + end for line in lines)) == lines


@given(st.text(st.characters(exclude_characters="."), min_size=1, max_size=2000), st.data())
def test_a_window_holds_its_column(line: str, data: st.DataObject) -> None:
    column = data.draw(st.integers(1, len(line)))
    shown, at = window(line, column)
    assert shown[at - 1] == line[column - 1] and len(shown) <= 206 and shown.strip(".") in line
    assert (shown == line) == (len(line) <= 200)


def test_a_column_behind_the_line_stays_behind_what_is_shown() -> None:
    shown, at = window("x" * 1000, 1001)
    assert at == len(shown) + 1


@pytest.mark.parametrize("column", [1, 5000, 9998])
def test_an_error_shows_the_place_in_a_long_line(column: int) -> None:
    line = "a" * (column - 1) + "BAD" + "c" * (9998 - column)
    rows = ParseError("no", span=Span(7, column, column + 3), source_line=line).render().split("\n")
    at = rows[-2].index("^")
    assert rows[-3][at : at + 3] == "BAD" and rows[-2].strip(" |") == "^^^" and max(map(len, rows)) < 250


def test_an_excerpt_shows_the_place_in_a_long_line_behind_a_form_feed(tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    path.write_text("// \f\n// \u2028 \x85\n" + "a" * 5000 + "BAD" + "c" * 5000 + "\r\nlast\n", encoding="utf-8", newline="")
    assert source_line(f"{path}:4") == "last"
    rows = excerpt(f"{path}:3:5001", Painter(color=False), "here")
    at = rows[-1].index("^")
    assert rows[-2][at : at + 3] == "BAD" and rows[-1].endswith("^ here") and max(map(len, rows[1:])) < 250
