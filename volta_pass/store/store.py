"""The store of verdicts and references: content-addressed, checksummed, bounded, safe with many processes; optionally shared by a team.

An entry is looked for in the local folder, then in the shared store (``VOLTA_STORE``), from where it is copied. An entry that is
damaged counts as absent, is reported once and removed, so that it is made anew. No lock is ever held: files appear by rename, and two
writers of one key write the same.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ptx_engine.errors import LaunchError
from volta_pass.store.container import CorruptEntryError, pack, unpack
from volta_pass.store.keys import canonical
from volta_pass.store.places import Folder, Item, Place, Remote

#: bound of the local folder unless ``VOLTA_CACHE_MB`` says otherwise
DEFAULT_MB = 1024
#: a bound beyond any disk is a mistake
_MOST_MB = 1e12
#: entries written by one process between two looks at the folder's size
_LOOK_EVERY = 64
#: eviction goes on until this share of the bound is left
_EVICT_TO = 0.8
PAYLOAD = "payload.json"
#: section of an entry that was copied from a shared store: which one
ORIGIN = "origin"
Sections = dict[str, bytes]


def default_root() -> Path:
    """``VOLTA_CACHE_DIR``, else ``volta-pass`` in the user's cache folder."""
    explicit = os.environ.get("VOLTA_CACHE_DIR")
    if explicit:
        return Path(explicit)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "volta-pass"


def _limit_mb() -> float:
    """``VOLTA_CACHE_MB``. Raises LaunchError where it is no size."""
    text = os.environ.get("VOLTA_CACHE_MB") or str(DEFAULT_MB)
    try:
        limit = float(text)
    except ValueError:
        limit = -1.0
    if not 0 <= limit < _MOST_MB:
        raise LaunchError(f"VOLTA_CACHE_MB={text!r}", hint="a number of MiB; 0 keeps nothing")
    return limit


@dataclass
class Stats:
    """What a place holds: entries and bytes per kind, and the bound in bytes (0: none)."""

    place: str
    entries: dict[str, int] = field(default_factory=dict)
    bytes: dict[str, int] = field(default_factory=dict)
    oldest_use_s: float = 0.0
    limit_bytes: int = 0

    @property
    def total_bytes(self) -> int:
        return sum(self.bytes.values())


def _warn(text: str) -> None:
    print(f"volta-pass: {text}", file=sys.stderr)


class Store:
    """Entries of several kinds (``verdicts``, ...); one instance may be shared by threads."""

    def __init__(
        self, root: Path | None = None, *, limit_mb: float | None = None, shared: Place | None = None, writable: bool = True,
        warn: Callable[[str], None] = _warn,
    ) -> None:  # fmt: skip
        """``limit_mb`` bounds the local folder (None: ``VOLTA_CACHE_MB``); ``writable`` is about the shared place."""
        self.local = Folder(default_root() if root is None else root)
        self.shared = shared
        self.writable = writable
        self.limit_bytes = int((_limit_mb() if limit_mb is None else limit_mb) * (1 << 20))
        self._warn = warn
        self._warned: set[str] = set()
        #: entries that are there and could not be read, or not trusted
        self._bad: set[str] = set()
        self._writes = 0

    @staticmethod
    def from_environment(warn: Callable[[str], None] = _warn) -> "Store":
        """``VOLTA_CACHE_DIR``, ``VOLTA_CACHE_MB``, ``VOLTA_STORE`` (an fsspec URL), ``VOLTA_STORE_MODE`` (ro, rw).

        Raises LaunchError for a URL that cannot be a store.
        """
        url, mode = os.environ.get("VOLTA_STORE", ""), os.environ.get("VOLTA_STORE_MODE", "rw") or "rw"
        if mode not in ("ro", "rw"):
            raise LaunchError(f"VOLTA_STORE_MODE={mode!r}", hint="ro or rw")
        return Store(shared=Remote(url) if url else None, writable=mode == "rw", warn=warn)

    # ------------------------------------------------------------------ entries

    @staticmethod
    def name(kind: str, key: str) -> str:
        return f"{kind}/{key[:2]}/{key}"

    def get(self, kind: str, key: str) -> Sections | None:
        """The sections stored under a key, or None where there is nothing that can be trusted."""
        name = self.name(kind, key)
        for place in (self.local, self.shared):
            found = self._read(place, name, key) if place is not None else None
            if found is None:
                continue
            if place is self.local:
                self.local.touch(name)
            else:
                found[ORIGIN] = str(place).encode()
                self._write(self.local, name, pack(key, found))
            return found
        return None

    def put(self, kind: str, key: str, sections: Mapping[str, bytes]) -> bool:
        """Write an entry; False where the local folder cannot be written (a cache is never worth an error)."""
        name, data = self.name(kind, key), pack(key, sections)
        done = self._write(self.local, name, data)
        if self.shared is not None and self.writable:
            self._write(self.shared, name, data)
        return done

    def get_json(self, kind: str, key: str) -> tuple[dict[str, Any], str] | None:
        """The JSON object of an entry, and the shared store that it came from ("" if this machine made it)."""
        sections = self.get(kind, key)
        if sections is None:
            return None
        try:
            payload = json.loads(sections[PAYLOAD])
        except (KeyError, ValueError, RecursionError) as error:
            payload = f"{type(error).__name__}: {error}"
        if not isinstance(payload, dict):
            self.refuse(self.local, self.name(kind, key), f"it holds no JSON object ({payload!r:.80})")
            return None
        return payload, sections.get(ORIGIN, b"").decode(errors="replace")

    def put_json(self, kind: str, key: str, payload: Mapping[str, Any], texts: Mapping[str, str] = MappingProxyType({})) -> bool:
        """Write a JSON object, with texts (PTX, sources) beside it as sections of their own."""
        return self.put(kind, key, {PAYLOAD: canonical(payload).encode(), **{name: text.encode() for name, text in texts.items()}})

    def read_from(self, place: Place, kind: str, key: str) -> Sections | None:
        """The sections under a key in one place; as ``get``, without copying or marking it as used."""
        return self._read(place, self.name(kind, key), key)

    def refuse(self, place: Place, name: str, why: str) -> None:
        """Report an entry that is not to be trusted, and remove it where that is allowed."""
        self._damaged(place, name, why)

    def _read(self, place: Place, name: str, key: str | None) -> Sections | None:
        try:
            data = place.read(name)
            return None if data is None else unpack(data, key)[1]
        except CorruptEntryError as error:
            self._damaged(place, name, str(error))
        except Exception as error:  # (file systems behind fsspec raise what they like)
            self._bad.add(name)
            self._say(f"{place} cannot be read: {error}")
        return None

    def _damaged(self, place: Place, name: str, why: str) -> None:
        self._bad.add(name)
        self._say(f"{place}: entry {name} is damaged ({why}): not used, made anew")
        if place is self.local or self.writable:
            try:
                place.delete(name)
            except Exception as error:
                self._say(f"{place}: {name} cannot be removed: {error}")

    def _write(self, place: Place, name: str, data: bytes) -> bool:
        try:
            place.write(name, data)
        except Exception as error:
            self._say(f"{place} cannot be written: {error}")
            return False
        if place is self.local:
            self._writes += 1
            if self._writes % _LOOK_EVERY == 1:
                self.evict()
        return True

    def _say(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            self._warn(text)

    # ------------------------------------------------------------------ the whole

    def evict(self) -> int:
        """Remove the least recently used local entries if the bound is exceeded; how many. What cannot be removed is said and stays."""
        try:
            items = sorted(self.local.items(), key=lambda item: item.used_s)
        except OSError as error:
            self._say(f"{self.local} cannot be read: {error}")
            return 0
        total = sum(item.size for item in items)
        if total <= self.limit_bytes:
            return 0
        removed = 0
        for item in items:
            if total <= self.limit_bytes * _EVICT_TO:
                break
            if self._removed(item.name):
                total -= item.size
                removed += 1
        return removed

    def _removed(self, name: str) -> bool:
        try:
            self.local.delete(name)
        except OSError as error:  # read-only, or another user's
            self._say(f"{self.local} cannot be made smaller: {error}")
            return False
        return True

    def items(self, place: Place | None = None) -> Iterator[Item]:
        """The entries of the local folder, or of a place."""
        return (place or self.local).items()

    def stats(self) -> list[Stats]:
        """One row for the local folder and one for the shared store. Raises LaunchError where one does not answer."""
        rows = []
        for place in (self.local, self.shared):
            if place is None:
                continue
            row = Stats(str(place), limit_bytes=self.limit_bytes if place is self.local else 0)
            for item in self._listed(place):
                kind = item.name.partition("/")[0]
                row.entries[kind] = row.entries.get(kind, 0) + 1
                row.bytes[kind] = row.bytes.get(kind, 0) + item.size
                row.oldest_use_s = min(row.oldest_use_s or item.used_s, item.used_s)
            rows.append(row)
        return rows

    def verify(self) -> tuple[int, list[str]]:
        """Read every entry: how many are whole, and which were damaged (removed where that is allowed). Raises LaunchError as ``stats``."""
        whole, damaged = 0, []
        for place in (self.local, self.shared):
            for item in self._listed(place) if place is not None else []:
                assert place is not None
                found = self._read(place, item.name, item.name.rpartition("/")[2])
                if found is not None:
                    whole += 1
                elif item.name in self._bad:  # (else another process has removed it meanwhile)
                    damaged.append(f"{place}/{item.name}")
        return whole, damaged

    def _listed(self, place: Place) -> list[Item]:
        try:
            return list(place.items())
        except Exception as error:  # (file systems behind fsspec raise what they like)
            raise LaunchError(f"{place} cannot be read: {error}", hint="is the machine up, and may you read there?") from None

    def clear(self) -> int:
        """Remove every local entry; how many. What cannot be removed is said and stays. Raises LaunchError as ``stats``."""
        return sum(self._removed(item.name) for item in self._listed(self.local))
