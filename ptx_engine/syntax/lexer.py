"""Tokens of PTX, and where they stand: the text with its line table, and a cursor over it.

The cursor serves everything but the common statement line, which ``body`` matches with one regular expression. All
patterns are possessive: no input makes them backtrack. Columns count characters, a tab is one.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import NoReturn

from ptx_engine.errors import ParseError, Span

#: blanks and comments. Groups are repeated inside of (?>...), never by *+: Python before 3.11.5 does not go back to where a
#: possessive group's failing repetition began (gh-106052)
SKIP = r"(?>(?:\s++|//[^\n]*+|/\*(?s:.*?)\*/)*)"
IDENT = r"(?:[A-Za-z_$][\w$]*+|%[\w$]++)"
#: ``ld.global.L2::128B.b32``
MNEMONIC = r"(?>[A-Za-z_]\w*+(?:\.\w++(?:::\w++)*)*)"

_SKIP = re.compile(SKIP, re.ASCII)
_TOKEN = re.compile(
    rf"""{SKIP}(?:
      (?P<ident>{IDENT}(?:\.[A-Za-z_]\w*+)?)
    | (?P<float>(?:\d++(?:\.\d*+(?:[eE][+-]?\d++)?|[eE][+-]?\d++)|\.\d++(?:[eE][+-]?\d++)?)(?!\w))
    | (?P<int>\d\w*+)
    | (?P<directive>(?>\.[A-Za-z_]\w*+(?:::\w++)*))
    | (?P<string>"(?>(?:[^"\\\n]|\\.)*)")
    | (?P<punct><<|>>|<=|>=|==|!=|&&|\|\||/(?!\*)|[-+*%&|^~!?:;,(){{}}\[\]<>=@.])
    | (?P<end>\Z)
    )""",
    re.ASCII | re.VERBOSE,
)
_SUFFIX = re.compile(rf"{SKIP}((?>\.\w++(?:::\w++)*))", re.ASCII)
_MNEMONIC = re.compile(MNEMONIC, re.ASCII)

#: parentheses, braces and unary operators nest no deeper; real code stays under 10
MAX_DEPTH = 100


class Source:
    """A text and its line table. ``name`` stands in spans and messages."""

    __slots__ = ("ends", "name", "text")

    def __init__(self, text: str, name: str = "") -> None:
        self.text = text
        self.name = name
        self.ends = [m.start() for m in re.finditer("\n", text)]
        self.ends.append(len(text))

    def line_of(self, pos: int) -> int:
        """The 1-based line of a position."""
        return bisect_left(self.ends, pos) + 1

    def line_text(self, line: int) -> str:
        """The text of a 1-based line, without its end."""
        start = self.ends[line - 2] + 1 if line > 1 else 0
        return self.text[start : self.ends[line - 1]].rstrip("\r")

    def span(self, start: int, end: int) -> Span:
        """The span of ``[start, end)``, cut at the end of its first line."""
        index = bisect_left(self.ends, start)
        before = self.ends[index - 1] if index else -1
        return Span(index + 1, start - before, max(min(end, self.ends[index]), start + 1) - before, self.name)

    def error(self, message: str, start: int, end: int, hint: str = "") -> ParseError:
        """A ParseError about ``[start, end)`` that quotes the line."""
        span = self.span(start, end)
        return ParseError(message, span=span, hint=hint, source_line=self.line_text(span.line))


class Cursor:
    """One token of look-ahead over a source: ``kind``, ``value``, ``start``, ``end`` of the current token."""

    __slots__ = ("depth", "end", "kind", "previous_end", "source", "start", "value")

    def __init__(self, source: Source, pos: int = 0) -> None:
        self.source = source
        self.depth = 0
        self.previous_end = pos
        self.move(pos)

    def move(self, pos: int) -> None:
        """Read the token at or after a position."""
        match = _TOKEN.match(self.source.text, pos)
        if match is None:
            raise self._no_token(pos)
        self.kind = kind = match.lastgroup or "end"
        self.value: str = match.group(kind)
        self.start = match.start(kind)
        self.end = match.end()

    def _no_token(self, pos: int) -> ParseError:
        text = self.source.text
        skipped = _SKIP.match(text, pos)
        at = skipped.end() if skipped else pos
        if text.startswith("/*", at):
            return self.source.error("this comment has no end", at, at + 2, "close it with */")
        if text[at] == '"':
            return self.source.error("this string has no end on its line", at, at + 1)
        return self.source.error(f"unexpected character {text[at]!r}", at, at + 1)

    def advance(self) -> str:
        """Step over the current token and return its text."""
        value = self.value
        self.previous_end = self.end
        self.move(self.end)
        return value

    def take(self, value: str) -> bool:
        """Step over the current token if it is this punctuation, directive or word."""
        if self.value != value or self.kind == "string" or self.kind == "end":
            return False
        self.advance()
        return True

    def expect(self, value: str, what: str = "") -> None:
        """Step over a required token; an error points behind the previous token where the line ends there."""
        if self.take(value):
            return
        message = f"expected {value!r}{' ' + what if what else ''}, found {self.shown()}"
        if value in ";)]}" and self.previous_end and "\n" in self.source.text[self.previous_end : self.start]:
            raise self.source.error(message, self.previous_end, self.previous_end + 1)
        self.fail(message)

    def identifier(self, what: str) -> str:
        """Step over a required identifier without a ``.x`` suffix."""
        if self.kind != "ident" or "." in self.value:
            self.fail(f"expected {what}, found {self.shown()}")
        return self.advance()

    def shown(self) -> str:
        """The current token for a message."""
        if self.kind == "end":
            return "the end of the text"
        return repr(self.value if len(self.value) <= 40 else self.value[:37] + "...")

    def fail(self, message: str, hint: str = "", start: int = -1) -> NoReturn:
        """Raise a ParseError about the current token, or about the text since ``start``."""
        if start >= 0:
            raise self.source.error(message, start, self.previous_end, hint)
        raise self.source.error(message, self.start, self.end, hint)

    def enter(self) -> None:
        """Count one level of nesting; ``leave`` undoes it."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.fail(f"nested deeper than {MAX_DEPTH} levels")

    def leave(self) -> None:
        self.depth -= 1

    def mnemonic(self) -> str:
        """Step over an opcode with its modifiers (blanks between them allowed) and return it without blanks."""
        text = self.source.text
        match = _MNEMONIC.match(text, self.start)
        if match is None:
            self.fail(f"expected an instruction, found {self.shown()}")
        parts, pos = [match.group()], match.end()
        while suffix := _SUFFIX.match(text, pos):
            parts.append(suffix.group(1))
            pos = suffix.end()
        self.previous_end = pos
        self.move(pos)
        return "".join(parts)


def locate(text: str, span: Span, symbol: str) -> Span:
    """The place of a symbol in the statement that begins at ``span``: operands are shared and carry no place of their own.

    Returns ``span`` itself where the symbol does not stand there.
    """
    if not text or span.line < 1:
        return span
    source = Source(text, span.file)
    if span.line > len(source.ends):
        return span
    begin = (source.ends[span.line - 2] + 1 if span.line > 1 else 0) + max(span.col - 1, 0)
    stop = text.find(";", begin)
    found = re.compile(rf"(?<![\w$%]){re.escape(symbol)}(?![\w$])").search(text, begin, stop if stop >= 0 else len(text))
    return source.span(found.start(), found.end()) if found else span


def source_line(text: str, line: int) -> str:
    """The text of a 1-based line, empty where there is none."""
    source = Source(text)
    return source.line_text(line) if 1 <= line <= len(source.ends) else ""
