"""Function bodies: statements, scopes and the current source location.

One regular expression reads the common statement (guard, opcode, operands; label; ``.loc``); what it does not take, and every
error, goes through the cursor.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ptx_engine.syntax import declarations, locations
from ptx_engine.syntax.ast import Args, Block, Directive, Instruction, Label, LocDirective, Operand, Statement
from ptx_engine.syntax.lexer import IDENT, MAX_DEPTH, MNEMONIC, SKIP, Cursor, Source
from ptx_engine.syntax.operands import Operands, parse_arguments, parse_operand

_STATEMENT = re.compile(
    rf"""{SKIP}(?:
      (?:@(!?)({IDENT})\s++)?({MNEMONIC})(?:(?=[\s\[{{])([^;/":]*+))?;
    | ({IDENT})\s*+:(?!:)
    | \.loc\s++(\d{{1,9}})\s++(\d{{1,9}})\s++(\d{{1,9}})(?![\w.])(?:\s*+,\s*+function_name\s++([\w$.]++(?:\s*+\+\s*+\d++)?)
      \s*+,\s*+inlined_at\s++(\d{{1,9}})\s++(\d{{1,9}})\s++(\d{{1,9}})(?![\w.]))?(?!\s*+,)
    )""",
    re.ASCII | re.VERBOSE,
)
#: numbers of the groups of ``_STATEMENT``
_OPCODE, _OPERANDS, _LABEL, _COLUMN, _INLINED_COLUMN = 3, 4, 5, 8, 12
_NAMED = (".branchtargets", ".calltargets", ".callprototype")


class Body:
    """Reads the bodies of one text; operands and mnemonics are shared between them."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._operands = Operands()
        self._mnemonics: dict[str, tuple[str, tuple[str, ...]]] = {}
        self._locs = locations.Locations(source.text)
        self._statements: list[Statement] = []
        self._files: list[tuple[int, str]] = []
        self._directives: dict[str, Callable[[Cursor], None]] = {
            ".reg": self._registers,
            ".pragma": self._pragma,
            ".file": self._file,
            ".loc": self._loc,
            **dict.fromkeys(_NAMED, self._named),
            **dict.fromkeys((f".{space}" for space in declarations.SPACES), self._variables),
            **dict.fromkeys((f".{linkage}" for linkage in declarations.LINKAGES), self._variables),
        }

    @property
    def files(self) -> list[tuple[int, str]]:
        """The ``.file`` rows met inside bodies."""
        return self._files

    def parse(self, pos: int) -> tuple[tuple[Statement, ...], int]:
        """The statements of the body whose ``{`` ends at ``pos``; returns them and the position after its ``}``."""
        self._locs.reset()
        outer: list[tuple[list[Statement], int]] = []
        self._statements = []
        opened = pos
        match_statement = _STATEMENT.match
        text = self.source.text
        while True:
            match = match_statement(text, pos)
            if match is not None and self._quick(match):
                pos = match.end()
                continue
            cursor = Cursor(self.source, pos)
            if cursor.kind == "punct" and cursor.value == "{":
                if len(outer) >= MAX_DEPTH:
                    cursor.fail(f"scopes nested deeper than {MAX_DEPTH} levels")
                outer.append((self._statements, opened))
                self._statements, opened, pos = [], cursor.start, cursor.end
            elif cursor.kind == "punct" and cursor.value == "}":
                pos = cursor.end
                if not outer:
                    return tuple(self._statements), pos
                block = Block(tuple(self._statements), self.source.span(opened, opened + 1))
                self._statements, opened = outer.pop()
                self._statements.append(block)
            elif cursor.kind == "end":
                raise self.source.error("this '{' is never closed", max(opened - 1, 0) if not outer else opened, opened + 1)
            else:
                pos = self._slow(cursor)

    def _quick(self, match: "re.Match[str]") -> bool:
        """Take a statement that the pattern matched whole; False where its operands need the cursor."""
        kind = match.lastindex
        if kind in (_OPCODE, _OPERANDS):
            return self._instruction(match)
        if kind == _LABEL:
            self._statements.append(Label(match[5], self.source.span(match.start(5), match.end())))
            return True
        start = match.start(6) - len(".loc ")
        inlined = (int(match[10]), int(match[11]), int(match[12])) if kind == _INLINED_COLUMN else None
        self._locate(start, match.end(), (int(match[6]), int(match[7]), int(match[8])), match[9] or "", inlined)
        return True

    def _instruction(self, match: "re.Match[str]") -> bool:
        negation, guard, mnemonic, text = match.group(1, 2, 3, 4)
        decoded = self._mnemonics.get(mnemonic)
        if decoded is None:
            opcode, *modifiers = mnemonic.split(".")
            decoded = self._mnemonics[mnemonic] = (opcode, tuple(modifiers))
        if decoded[0] == "call":
            return False
        operands = () if text is None or text.isspace() else self._operands.split(text)
        if operands is None:
            return False
        start = match.start(3) if guard is None else match.start(2) - 1 - len(negation)
        span = self.source.span(start, match.end())
        predicate = None if guard is None else self._operands.register(guard)
        self._statements.append(Instruction(decoded[0], decoded[1], operands, predicate, negation == "!", span, self._locs.current))
        return True

    def _locate(self, start: int, end: int, place: tuple[int, int, int], function: str, inlined: tuple[int, int, int] | None) -> None:
        loc = self._locs.at(start, place, function.replace(" ", "").replace("\t", ""), inlined)
        if loc is not None:
            self._statements.append(LocDirective(loc, self.source.span(start, end)))

    # --- what the pattern does not take ---------------------------------------------------------

    def _slow(self, cursor: Cursor) -> int:
        """One statement through the cursor; returns the position after it."""
        if cursor.kind == "directive":
            handler = self._directives.get(cursor.value)
            if handler is None:
                cursor.fail(f"unknown directive {cursor.shown()} in a function", locations.closest(cursor.value, self._directives))
            handler(cursor)
        elif cursor.kind == "ident" and _is_label(cursor):
            start, name = cursor.start, cursor.identifier("a label")
            cursor.expect(":")
            self._statements.append(Label(name, self.source.span(start, cursor.previous_end)))
        else:
            self._any_instruction(cursor)
        return cursor.previous_end

    def _any_instruction(self, cursor: Cursor) -> None:
        start = cursor.start
        predicate, negated = None, False
        if cursor.take("@"):
            negated = cursor.take("!")
            predicate = self._operands.register(cursor.identifier("a predicate register"))
        if cursor.kind != "ident":
            cursor.fail(f"expected a statement, found {cursor.shown()}")
        opcode, *modifiers = cursor.mnemonic().split(".")
        operands: list[Operand] = []
        if not cursor.take(";"):
            while True:
                operands.append(self._operand(cursor, opcode))
                if not cursor.take(","):
                    break
            cursor.expect(";", "or ','")
        span = self.source.span(start, cursor.previous_end)
        self._statements.append(Instruction(opcode, tuple(modifiers), tuple(operands), predicate, negated, span, self._locs.current))

    def _operand(self, cursor: Cursor, opcode: str) -> Operand:
        if opcode == "call" and cursor.value == "(" and cursor.kind == "punct":
            arguments: Args = parse_arguments(cursor)
            return arguments
        return parse_operand(cursor)

    def _registers(self, cursor: Cursor) -> None:
        self._statements.extend(declarations.registers(cursor))

    def _variables(self, cursor: Cursor) -> None:
        linkage = cursor.advance()[1:] if cursor.value[1:] in declarations.LINKAGES else ""
        if cursor.kind != "directive" or cursor.value[1:].partition("::")[0] not in declarations.SPACES:
            cursor.fail(f"expected a state space, found {cursor.shown()}")
        self._statements.extend(declarations.variables(cursor, linkage))

    def _pragma(self, cursor: Cursor) -> None:
        start = cursor.start
        arguments = pragma(cursor)
        self._statements.append(Directive("pragma", arguments, self.source.span(start, cursor.previous_end)))

    def _file(self, cursor: Cursor) -> None:
        self._files.append(locations.file_row(cursor))

    def _loc(self, cursor: Cursor) -> None:
        start = cursor.start
        place, function, inlined = locations.loc_row(cursor)
        self._locate(start, cursor.previous_end, place, function, inlined)

    def _named(self, cursor: Cursor) -> None:
        """``NAME: .branchtargets A, B;``: the label before the directive is its name, not a place."""
        start, name = cursor.start, cursor.advance()[1:]
        if not self._statements or not isinstance(label := self._statements[-1], Label):
            cursor.fail(f"'.{name}' needs a label before it", start=start)
        self._statements.pop()
        if name == "callprototype":
            arguments = [locations.joined_until_semicolon(cursor)]
        else:
            arguments = [cursor.identifier("a label")]
            while cursor.take(","):
                arguments.append(cursor.identifier("a label"))
            cursor.expect(";", "or ','")
        self._statements.append(Directive(name, (label.name, *arguments), label.span))


def _is_label(cursor: Cursor) -> bool:
    """Whether a colon (not the ``::`` of a modifier) follows the identifier at the cursor."""
    ahead = Cursor(cursor.source, cursor.end)
    return "." not in cursor.value and ahead.value == ":" and not cursor.source.text.startswith("::", ahead.start)


def pragma(cursor: Cursor) -> tuple[str, ...]:
    """``.pragma "a", "b";`` at the cursor: its strings without quotes."""
    cursor.expect(".pragma")
    found: list[str] = []
    while True:
        if cursor.kind != "string":
            cursor.fail(f"expected a string, found {cursor.shown()}")
        found.append(cursor.advance()[1:-1])
        if not cursor.take(","):
            break
    cursor.expect(";", "after the pragma")
    return tuple(found)
