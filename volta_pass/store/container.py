"""One entry as bytes: named sections under a key, with a checksum over everything. Nothing in it is code.

Layout: a magic line, the SHA-256 of all that follows, the length of the header, the header (JSON: key, and name and length of each
section), the sections. A reader checks the sum before it looks at anything else.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping

MAGIC = b"volta-pass entry 2\n"
_DIGEST = 64
#: an entry larger than this is not looked at: nothing of ours writes one
LARGEST = 1 << 28
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


class CorruptEntryError(Exception):
    """Bytes that are no entry, or not the one asked for: why, in one sentence."""


def pack(key: str, sections: Mapping[str, bytes]) -> bytes:
    """The bytes of an entry. Raises ValueError on a section name that is not lower-case letters, digits, ``.``, ``_`` and ``-``."""
    for name in sections:
        if not _NAME.fullmatch(name):
            raise ValueError(f"section name {name!r}")
    rows = [[name, len(data)] for name, data in sections.items()]
    header = json.dumps({"key": key, "sections": rows}, separators=(",", ":")).encode()
    body = b"%d\n" % len(header) + header + b"".join(sections.values())
    return MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def unpack(data: bytes, key: str | None = None) -> tuple[str, dict[str, bytes]]:
    """Key and sections. Raises CorruptEntryError on anything that ``pack`` did not make, or on an entry of another key."""
    start = len(MAGIC)
    if len(data) > LARGEST:
        raise CorruptEntryError("larger than any entry")
    if data[:start] != MAGIC:
        raise CorruptEntryError("not an entry of this format")
    body = data[start + _DIGEST + 1 :]
    if data[start + _DIGEST : start + _DIGEST + 1] != b"\n":
        raise CorruptEntryError("cut short")
    if hashlib.sha256(body).hexdigest().encode() != data[start : start + _DIGEST]:
        raise CorruptEntryError("its checksum is wrong")
    try:
        found, sections = _sections(body)
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptEntryError(f"its header is malformed ({error})") from None
    if key is not None and found != key:
        raise CorruptEntryError("it belongs to another key")
    return found, sections


def _sections(body: bytes) -> tuple[str, dict[str, bytes]]:
    length, _, rest = body.partition(b"\n")
    size = int(length)
    header = json.loads(rest[:size])
    at, sections = size, {}
    for name, count in header["sections"]:
        if not isinstance(name, str) or not _NAME.fullmatch(name) or not isinstance(count, int) or count < 0 or name in sections:
            raise ValueError("section table")
        sections[name] = rest[at : at + count]
        at += count
    if at != len(rest) or not isinstance(header["key"], str):
        raise ValueError("lengths")
    return header["key"], sections
