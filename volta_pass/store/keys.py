"""What keys are made of: digests of texts, JSON that is the same for equal values, and our own version."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import ptx_engine
import volta_pass

#: changes when what an entry means does
FORMAT = 2


def digest(*parts: str) -> str:
    """SHA-256 over texts, each with its length, so that no two lists of texts collide by concatenation."""
    hashed = hashlib.sha256()
    for part in parts:
        data = part.encode()
        hashed.update(b"%d:" % len(data))
        hashed.update(data)
    return hashed.hexdigest()


def canonical(value: Any) -> str:
    """JSON text that is the same for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)


@lru_cache(maxsize=1)
def own_version() -> str:
    """A text that changes with every change of our code: a digest of all modules, the same on every machine that has them."""
    hashed = hashlib.sha256(b"format %d" % FORMAT)
    for package in (ptx_engine, volta_pass):
        root = Path(package.__path__[0])
        for path in sorted(root.rglob("*.py")):
            hashed.update(f"\0{package.__name__}/{path.relative_to(root).as_posix()}\0".encode())
            hashed.update(path.read_bytes())
    return hashed.hexdigest()
