"""The store of proved verdicts: small JSON files, content-addressed, checksummed, written by rename.

Safe with many processes: a file is complete or absent. A file that cannot be read, or whose checksum or shape is wrong,
counts as absent and is overwritten. Only proofs are kept; everything else is decided anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import ptx_engine
import volta_pass

#: changes when the entry format does
FORMAT = 1


def default_root() -> Path:
    """``VOLTA_CACHE_DIR``, else ``volta-pass`` in the user's cache folder."""
    explicit = os.environ.get("VOLTA_CACHE_DIR")
    if explicit:
        return Path(explicit)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "volta-pass"


def digest(*parts: str) -> str:
    """SHA-256 over texts, each with its length, so that no two lists of texts collide by concatenation."""
    hashed = hashlib.sha256()
    for part in parts:
        data = part.encode()
        hashed.update(b"%d:" % len(data))
        hashed.update(data)
    return hashed.hexdigest()


@lru_cache(maxsize=1)
def own_version() -> str:
    """A text that changes with every change of our code: names, sizes and times of all modules of both packages."""
    lines = [f"format {FORMAT}"]
    for package in (ptx_engine, volta_pass):
        root = Path(package.__path__[0])
        for path in sorted(root.rglob("*.py")):
            status = path.stat()
            lines.append(f"{package.__name__}/{path.relative_to(root)} {status.st_size} {status.st_mtime_ns}")
    return digest(*lines)


def canonical(value: Any) -> str:
    """JSON text that is the same for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)


class VerdictStore:
    """Entries under ``root``; one instance may be shared by threads."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = default_root() if root is None else root

    def path(self, key: str) -> Path:
        return self.root / "verdicts" / key[:2] / f"{key}.json"

    def get(self, key: str) -> dict[str, Any] | None:
        """The payload stored under a key, or None where there is none that can be trusted."""
        try:
            entry = json.loads(self.path(key).read_text(encoding="utf-8"))
            payload = entry["payload"]
            if entry["key"] == key and entry["checksum"] == digest(key, canonical(payload)) and isinstance(payload, dict):
                return payload
        except (OSError, ValueError, KeyError, TypeError):
            pass
        return None

    def put(self, key: str, payload: Mapping[str, Any]) -> bool:
        """Write an entry atomically; False where the folder cannot be written (a cache is never worth an error)."""
        path = self.path(key)
        plain = json.loads(canonical(payload))
        text = json.dumps({"key": key, "checksum": digest(key, canonical(plain)), "payload": plain}, indent=1)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    file.write(text)
                os.replace(temporary, path)
            except OSError:
                Path(temporary).unlink(missing_ok=True)
                raise
        except OSError:
            return False
        return True
