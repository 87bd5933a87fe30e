"""Nested scopes of a function body: which declaration a name means, and the unique name it gets.

Plain names and ranges (``%r<9>``) are searched from the inside out. A name keeps its spelling where no other scope, parameter
or module-level symbol has it, and always in the outermost scope; else it is ``name@N`` in the N-th scope. ``@`` stands in no
PTX identifier.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from ptx_engine.syntax.ast import Operand

_NUMBERED = re.compile(r"(.*[^\d])(0|[1-9]\d{0,8})", re.ASCII | re.DOTALL)


class Range(NamedTuple):
    """A register range's type, size and vector width."""

    type: str
    size: int
    vector: int


@dataclass(slots=True)
class Symbol:
    """A declared name: ``register`` is its type or "" for what is no register, ``vector`` the width of a vector register,
    ``element_bytes`` the element size of a variable, ``targets`` whether it names a ``.branchtargets`` list."""

    unique: str
    register: str = ""
    vector: int = 1
    element_bytes: int = 0
    targets: bool = False


@dataclass(slots=True)
class Scope:
    """Names of one ``{ }``."""

    number: int
    parent: Scope | None
    symbols: dict[str, Symbol] = field(default_factory=dict)
    ranges: dict[str, Range] = field(default_factory=dict)
    #: prefix -> least number of the declared names that begin with it, the first names of ranges among them
    smallest: dict[str, int] = field(default_factory=dict)
    #: whether some range's prefix ends in a digit
    digits: bool = False
    labels: dict[str, str] = field(default_factory=dict)
    #: resolved operands by identity: the function keeps the keys alive
    memo: dict[int, Operand] = field(default_factory=dict)

    def chain(self) -> Iterator[Scope]:
        """This scope and those around it."""
        at: Scope | None = self
        while at is not None:
            yield at
            at = at.parent

    def range_of(self, name: str) -> Range | None:
        """The range of this scope that covers a name such as ``%r12``."""
        if not self.ranges:
            return None
        match = _NUMBERED.fullmatch(name)
        if match is not None:
            found = self.ranges.get(match[1])
            if found is not None and int(match[2]) < found.size:
                return found
        return self._range_after_digits(name) if self.digits else None

    def _range_after_digits(self, name: str) -> Range | None:
        """The same for prefixes that end in a digit: ``%a1<20>`` covers ``%a10`` and ``%a119``."""
        for width in range(1, 10):
            suffix = name[-width:]
            if len(name) <= width or not suffix.isdecimal():
                return None
            found = self.ranges.get(name[:-width])
            if found is not None and (suffix[0] != "0" or width == 1) and int(suffix) < found.size:
                return found
        return None

    def note(self, name: str) -> None:
        """Remember a declared name by its splits into prefix and number, against later ranges."""
        for width in range(1, 10):
            suffix = name[-width:]
            if len(name) <= width or not suffix.isdecimal():
                return
            if suffix[0] != "0" or width == 1:
                prefix = name[:-width]
                self.smallest[prefix] = min(int(suffix), self.smallest.get(prefix, int(suffix)))

    def add_range(self, prefix: str, new: Range) -> bool:
        """Declare a range; False where it shares a name with an earlier declaration of this scope.

        ``%r<20>`` and ``%r1<5>`` share ``%r10``, the first name of the longer prefix: looking at first names is enough.
        """
        first = f"{prefix}0"
        if prefix in self.ranges or (new.size and self.range_of(first)) or self.smallest.get(prefix, new.size) < new.size:
            return False
        self.ranges[prefix] = new
        self.digits = self.digits or prefix[-1].isdigit()
        if new.size:
            self.note(first)
        return True

    def nearest_range(self, name: str) -> tuple[str, int] | None:
        """Prefix and count of the range that a name of no range would belong to, for messages."""
        match = _NUMBERED.fullmatch(name)
        for scope in self.chain() if match else ():
            found = scope.ranges.get(match[1]) if match else None
            if match and found is not None:
                return match[1], found.size
        return None


class Names:
    """Gives unique names; ``outside`` are the symbols of the module."""

    def __init__(self, outside: set[str]) -> None:
        self.outside = outside
        self.taken: set[str] = set()
        self._count = 0

    def open(self, parent: Scope | None) -> Scope:
        """A new, empty scope."""
        self._count += 1
        return Scope(self._count - 1, parent)

    def unique(self, scope: Scope, name: str) -> str:
        """The unique name of a declaration in a scope."""
        shadows = name in self.taken or name in self.outside
        if not shadows and scope.parent is not None:
            shadows = any(around.range_of(name) is not None for around in scope.parent.chain())
        unique = f"{name}@{scope.number}" if shadows else name
        self.taken.add(unique)
        return unique

    def find(self, scope: Scope, name: str) -> Symbol | None:
        """The declaration that a name means in a scope; a range's register becomes a symbol at its first use."""
        for at in scope.chain():
            symbol = at.symbols.get(name)
            if symbol is not None:
                return symbol
            found = at.range_of(name)
            if found is not None:
                symbol = at.symbols[name] = Symbol(self.unique(at, name), found.type, found.vector)
                return symbol
        return None

    def find_label(self, scope: Scope, name: str) -> str | None:
        """The unique name of the label that a name means in a scope."""
        return next((at.labels[name] for at in scope.chain() if name in at.labels), None)

    def spared(self, scope: Scope, name: str) -> str | None:
        """The type of an outermost scope's scalar range register whose spelling is unique already: the common case.

        It needs no symbol of its own, since inner scopes look at the ranges around them before they take a name.
        """
        if scope.parent is not None or name in scope.symbols or name in self.taken or name in self.outside:
            return None
        found = scope.range_of(name)
        return found.type if found is not None and found.vector == 1 else None
