"""Which PTX entry a C++ name means: names as written in the source, matched with the names the compiler made of them.

Mangled names follow the Itanium C++ ABI: ``_Z`` and then a length and a name (inside ``N ... E`` for namespaces).
"""

from __future__ import annotations

import re

_ENTRY = re.compile(r"^[ \t]*(?:\.(?:visible|weak)[ \t]+)*\.entry[ \t]+([\w$.]+)", re.MULTILINE)


def entries_of(ptx: str) -> list[str]:
    """The names of a PTX text's entries, in order."""
    return _ENTRY.findall(ptx)


def is_expression(name: str) -> bool:
    """True where only the compiler can say what a name means: template arguments."""
    return "<" in name


def source_name(mangled: str) -> str:
    """``_ZN2ns1kIfEEvPf`` -> ``ns::k``; a name that is not mangled stays as it is."""
    if not mangled.startswith("_Z"):
        return mangled
    rest, parts = mangled[2:].removeprefix("N"), []
    while found := re.match(r"(\d+)", rest):
        length = int(found[1])
        start = len(found[1])
        parts.append(rest[start : start + length])
        rest = rest[start + length :]
        if not mangled.startswith("_ZN"):
            break
    named = [part for part in parts if not part.startswith("_GLOBAL__N")]  # an anonymous namespace
    return "::".join(named) or mangled


def matching(name: str, entries: list[str]) -> list[str]:
    """The entries that a name means: itself, else those written so in the source, with or without their namespaces."""
    if name in entries:
        return [name]
    wanted = name.replace(" ", "")
    written = {entry: source_name(entry) for entry in entries}
    return [entry for entry, full in written.items() if full == wanted or full.endswith(f"::{wanted}")]
