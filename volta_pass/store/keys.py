"""What keys are made of: digests of texts, JSON that is the same for equal values, and our own version."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import ptx_engine
import volta_pass

#: changes when what an entry means does
FORMAT = 3


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
        root = os.path.abspath(package.__path__[0])
        for name, path in sorted(_modules(root)):
            with open(path, "rb", buffering=0) as file:
                hashed.update(f"\0{package.__name__}/{name}\0".encode())
                hashed.update(file.read())
    return hashed.hexdigest()


def _modules(root: str) -> Iterator[tuple[str, str]]:
    """Name under the root, with slashes, and path of every module: without objects for paths, which cost more than the reading."""
    waiting = [(root, "")]
    while waiting:
        folder, prefix = waiting.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    yield prefix + entry.name, entry.path
                elif "." not in entry.name and entry.name != "__pycache__" and entry.is_dir():
                    waiting.append((entry.path, f"{prefix}{entry.name}/"))
