"""Modules: version, target, files, variables, functions; DWARF sections are skipped.

``parse`` takes any text: it returns a Module or raises ParseError, in time linear in the text. It checks syntax only;
``resolve`` checks names, the instruction registry checks instructions.
"""

from __future__ import annotations

import re

from ptx_engine.errors import ParseError
from ptx_engine.syntax import declarations, locations
from ptx_engine.syntax.ast import Directive, Function, Module, Param, Statement, Variable
from ptx_engine.syntax.body import Body, pragma
from ptx_engine.syntax.lexer import SKIP, Cursor, Source

#: a DWARF section up to its end, comments read as comments
_SECTION = re.compile(rf"{SKIP}\.section\b[^{{\n]*+{SKIP}\{{(?>(?:[^{{}}/]++|//[^\n]*+|/\*(?s:.*?)\*/|/)*)\}}", re.ASCII)
_OLD_DWARF = re.compile(rf"{SKIP}@@DWARF[^\n]*+", re.ASCII)
#: header directives and how many integers they take
_HEADER = {
    ".maxntid": (1, 3), ".reqntid": (1, 3), ".minnctapersm": (1, 1), ".maxnctapersm": (1, 1), ".maxnreg": (1, 1),
    ".reqnctapercluster": (1, 3), ".maxclusterrank": (1, 1), ".explicitcluster": (0, 0), ".blocksareclusters": (0, 0),
    ".noreturn": (0, 0), ".abi_preserve": (1, 1), ".abi_preserve_control": (1, 1), ".language": (1, 2), ".unified": (0, 0),
}  # fmt: skip
_TOP = (
    ".version", ".target", ".address_size", ".file", ".section", ".pragma", ".alias", ".entry", ".func",
    *(f".{word}" for word in (*declarations.LINKAGES, *declarations.SPACES)),
)  # fmt: skip
#: beginnings of texts that people pass by mistake
_OTHER_LANGUAGES = (
    (re.compile(r"\s*(?:module\s*(?:attributes\s*)?\{|#\w+\s*=|\"builtin\.module\")"), "this looks like MLIR (TTIR or TTGIR), not PTX"),
    (re.compile(r"\s*(?:; ModuleID|source_filename|target (?:datalayout|triple))"), "this looks like LLVM IR, not PTX"),
    (re.compile(r"(?s:.*?)(?:#include|__global__)", re.ASCII), "this looks like CUDA C, not PTX; compile it with nvcc -ptx"),
    (re.compile(r".?ELF"), "this looks like a cubin, not PTX"),
)


def parse(text: str, name: str = "<ptx>") -> Module:
    """Read a PTX module.

    ``name`` stands in spans and errors. Raises ParseError with a span, the offending line and, where one is known, a hint.
    Source: PTX ISA 9.1, chapters "Syntax", "State Spaces, Types, and Variables", "Directives".
    """
    return _Parser(Source(text.rstrip("\0"), name)).module()


class _Parser:
    """Reads the module level; bodies go to ``Body``."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.body = Body(source)
        self.files: list[tuple[int, str]] = []
        self.variables: list[Variable] = []
        self.functions: list[Function] = []
        self.directives: list[Directive] = []
        self.address_size = 0
        self.target: list[str] = []

    def module(self) -> Module:
        source = self.source
        cursor = self._first()
        version = self._version(cursor)
        while cursor.kind != "end":
            self._item(cursor)
        self._refuse_second_definitions()
        if not self.target:
            raise source.error("the module has no .target directive", 0, 1, "add one after .version, such as .target sm_80")
        return Module(
            version,
            tuple(self.target),
            self.address_size or 32,
            (*self.files, *self.body.files),
            tuple(self.variables),
            tuple(self.functions),
            source.name,
            tuple(self.directives),
            source.text,
        )

    def _refuse_second_definitions(self) -> None:
        """A function has one body, a variable of the module one declaration that is its own."""
        own: set[str] = set()
        bodies = [(f.name, f.span) for f in self.functions if f.body is not None]
        for name, span in (*bodies, *((v.name, v.span) for v in self.variables if "extern" not in v.linkage)):
            if name in own:
                line = self.source.line_text(span.line)
                raise ParseError(f"{name} is defined twice", span=span, source_line=line, hint="give one of them another name")
            own.add(name)

    def _first(self) -> Cursor:
        """The cursor at ``.version``, or a ParseError that says what the text is instead."""
        try:
            cursor = Cursor(self.source)
            self._skip(cursor)
            if cursor.value == ".version" and cursor.kind == "directive":
                return cursor
            cursor.fail(f"a PTX module begins with .version, found {cursor.shown()}")
        except ParseError as error:
            head = self.source.text[:2000]
            error.hint = next((hint for pattern, hint in _OTHER_LANGUAGES if pattern.match(head)), error.hint)
            raise

    def _skip(self, cursor: Cursor) -> None:
        """Step over DWARF lines of PTX 2.x."""
        while match := _OLD_DWARF.match(self.source.text, cursor.start):
            cursor.move(match.end())

    def _version(self, cursor: Cursor) -> tuple[int, int]:
        cursor.expect(".version")
        major, dot, minor = cursor.value.partition(".")
        if cursor.kind != "float" or not dot or not major.isdecimal() or not minor.isdecimal() or len(cursor.value) > 9:
            cursor.fail(f"expected a version, found {cursor.shown()}", "such as .version 8.8")
        cursor.advance()
        return int(major), int(minor)

    def _item(self, cursor: Cursor) -> None:
        """One directive of the module level."""
        if cursor.value == "@" and cursor.kind == "punct":
            before = cursor.start
            self._skip(cursor)
            if cursor.start != before:
                return
        if cursor.kind == "punct" and cursor.value == ";":
            cursor.advance()
        elif cursor.kind != "directive":
            cursor.fail(f"expected a directive, found {cursor.shown()}", "instructions stand only inside the { } of a function")
        elif cursor.value == ".section":
            self._section(cursor)
        elif cursor.value == ".file":
            self.files.append(locations.file_row(cursor))
        elif cursor.value in (".target", ".address_size", ".version"):
            self._header(cursor)
        elif cursor.value in (".pragma", ".alias"):
            self._directive(cursor)
        else:
            self._declaration(cursor)

    def _section(self, cursor: Cursor) -> None:
        match = _SECTION.match(self.source.text, cursor.start)
        if match is None:
            cursor.fail("this section has no { } or no end")
        cursor.move(match.end())

    def _header(self, cursor: Cursor) -> None:
        if cursor.value == ".version":
            self._version(cursor)
        elif cursor.take(".target"):
            self.target.append(cursor.identifier("a target such as sm_80"))
            while cursor.take(","):
                self.target.append(cursor.identifier("a target option"))
        else:
            cursor.advance()
            if cursor.value not in ("32", "64"):
                cursor.fail(f"expected 32 or 64, found {cursor.shown()}")
            self.address_size = int(cursor.advance())

    def _directive(self, cursor: Cursor) -> None:
        start = cursor.start
        if cursor.value == ".pragma":
            name, arguments = "pragma", pragma(cursor)
        else:
            cursor.advance()
            first = cursor.identifier("a function")
            cursor.expect(",")
            name, arguments = "alias", (first, cursor.identifier("a function"))
            cursor.expect(";", "after the alias")
        self.directives.append(Directive(name, arguments, self.source.span(start, cursor.previous_end)))

    def _declaration(self, cursor: Cursor) -> None:
        """A variable or a function, with its linkage."""
        linkage: list[str] = []
        while cursor.value[1:] in declarations.LINKAGES and cursor.kind == "directive":
            if len(linkage) > 1:
                cursor.fail(f"one linkage directive too many: {cursor.shown()}")
            linkage.append(cursor.advance()[1:])
        space = cursor.value[1:].partition("::")[0]
        if cursor.value in (".entry", ".func"):
            self._function(cursor, " ".join(linkage))
        elif cursor.kind == "directive" and space in declarations.SPACES:
            self.variables.extend(declarations.variables(cursor, " ".join(linkage)))
        else:
            cursor.fail(f"unknown directive {cursor.shown()}", locations.closest(cursor.value, _TOP))

    def _function(self, cursor: Cursor, linkage: str) -> None:
        start = cursor.start
        is_entry = cursor.advance() == ".entry"
        directives: list[tuple[str, tuple[str, ...]]] = []
        while cursor.value == ".attribute":
            directives += [("attribute", (text,)) for text in declarations.attributes(cursor)]
        returns: tuple[Param, ...] = ()
        if cursor.value == "(" and not is_entry:
            returns = declarations.parameters(cursor)
        name = cursor.identifier("a function name")
        span = self.source.span(start, cursor.previous_end)
        params = declarations.parameters(cursor) if cursor.value == "(" else ()
        while cursor.kind == "directive":
            directives.append(self._function_directive(cursor))
        body: tuple[Statement, ...] | None = None
        if cursor.value == "{" and cursor.kind == "punct":
            body, end = self.body.parse(cursor.end)
            cursor.previous_end = end
            cursor.move(end)
        else:
            cursor.expect(";", "or '{' after the function header")
        self.functions.append(Function(name, is_entry, params, returns, body, linkage, tuple(directives), span))

    def _function_directive(self, cursor: Cursor) -> tuple[str, tuple[str, ...]]:
        if cursor.value == ".pragma":
            return "pragma", pragma(cursor)
        if cursor.value == ".attribute":
            return "attribute", tuple(declarations.attributes(cursor))
        least_most = _HEADER.get(cursor.value)
        if least_most is None:
            cursor.fail(f"unknown directive {cursor.shown()} in a function header", locations.closest(cursor.value, _HEADER))
        name = cursor.advance()[1:]
        arguments: list[str] = []
        while cursor.kind == "int" and len(arguments) < least_most[1]:
            if not cursor.value.isdecimal():
                cursor.fail(f"expected a number, found {cursor.shown()}")
            arguments.append(cursor.advance())
            if not cursor.take(","):
                break
        if len(arguments) < least_most[0]:
            cursor.fail(f"'.{name}' needs a number, found {cursor.shown()}")
        return name, tuple(arguments)
