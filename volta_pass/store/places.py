"""Where entries lie: a local folder, or any file system that fsspec knows. Both write whole files or none.

A place maps names such as ``verdicts/ab/abcd`` to bytes. Reading what is not there gives None; a place that cannot be reached or
written raises OSError, which the store turns into "not there" and one warning.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ptx_engine.errors import LaunchError
from volta_pass.store.container import LARGEST, CorruptEntryError

#: a link is not followed, and a pipe is not waited for (0 where the system has no such flag)
_AS_IT_IS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
#: a temporary file this old was left by a writer that died
_ABANDONED_S = 3600.0
_TEMPORARY = ".part"
#: names of entries: kind, two digits, key; whatever else lies in a folder is not ours to count or remove
ENTRY = re.compile(r"[a-z]+/[0-9a-f]{2}/[0-9a-f]{64}")
_OURS = re.compile(r"[a-z]+/[0-9a-f]{2}/[^/]+" + re.escape(_TEMPORARY))


@dataclass(frozen=True)
class Item:
    """One stored file: its name, size in bytes, and when it was last used (seconds since the epoch)."""

    name: str
    size: int
    used_s: float


class Place(Protocol):
    """What a store needs of a file system."""

    def read(self, name: str) -> bytes | None: ...
    def write(self, name: str, data: bytes) -> None: ...
    def delete(self, name: str) -> None: ...
    def touch(self, name: str) -> None: ...
    def items(self) -> Iterator[Item]: ...


class Folder:
    """A local folder. Files appear by rename, so that no reader ever sees half of one, and none is locked."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def __str__(self) -> str:
        return str(self.root)

    def path(self, name: str) -> Path:
        return self.root / name

    def read(self, name: str) -> bytes | None:
        """The bytes of a file. Raises CorruptEntryError for what we never write: links, pipes, devices, more than any entry has."""
        try:
            handle = os.open(self.path(name), os.O_RDONLY | _AS_IT_IS)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if error.errno == errno.ELOOP and self.path(name).is_symlink():
                raise CorruptEntryError("it is a link") from None
            raise
        with os.fdopen(handle, "rb") as file:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise CorruptEntryError("it is no file")
            if status.st_size > LARGEST:
                raise CorruptEntryError("larger than any entry")
            return file.read(LARGEST + 1)

    def write(self, name: str, data: bytes) -> None:
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=_TEMPORARY)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    def delete(self, name: str) -> None:
        self.path(name).unlink(missing_ok=True)

    def touch(self, name: str) -> None:
        with contextlib.suppress(OSError):  # a read-only folder has no order of use
            os.utime(self.path(name))

    def items(self) -> Iterator[Item]:
        """All entries; what writers that died have left is removed on the way. Raises OSError for a folder that may not be read: it is
        not empty."""
        for folder, _, names in os.walk(self.root, onerror=_unless_gone):
            for name in names:
                path = Path(folder, name)
                try:
                    status = path.stat()
                except OSError:
                    continue  # another process has evicted it
                entry = path.relative_to(self.root).as_posix()
                if ENTRY.fullmatch(entry):
                    yield Item(entry, status.st_size, status.st_mtime)
                elif _OURS.fullmatch(entry) and time.time() - status.st_mtime > _ABANDONED_S:
                    path.unlink(missing_ok=True)


def _unless_gone(error: OSError) -> None:
    if not isinstance(error, (FileNotFoundError, NotADirectoryError)):
        raise error


class Remote:
    """A folder behind an fsspec URL (``s3://bucket/team``, ``memory://x``, ``file:///srv/volta``)."""

    def __init__(self, url: str) -> None:
        """Raises LaunchError where fsspec or the file system's own package is missing, or the URL means nothing."""
        try:
            import fsspec
        except ImportError:
            raise LaunchError(f"VOLTA_STORE={url}: fsspec is not installed", hint="pip install 'volta-pass[store]'") from None
        self.url, self._root, self._failure = url, "", ""
        try:
            self._opened, self._root = fsspec.core.url_to_fs(url)
        except ImportError as error:
            raise LaunchError(f"VOLTA_STORE={url}: {error}", hint="fsspec has a package of its own for each kind of store") from None
        except ValueError as error:
            raise LaunchError(f"VOLTA_STORE={url}: {error}", hint="an fsspec URL such as s3://bucket/folder") from None
        except Exception as error:  # (some file systems connect at once, and raise what they like)
            self._failure = str(error) or type(error).__name__

    @property
    def _system(self) -> Any:
        """The file system. Raises ConnectionError where it did not answer: that costs a warning, no verdict."""
        if self._failure:
            raise ConnectionError(self._failure)
        return self._opened

    def __str__(self) -> str:
        return self.url

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def read(self, name: str) -> bytes | None:
        try:
            data: bytes = self._system.cat_file(self._path(name))
        except (FileNotFoundError, NotADirectoryError):
            return None
        return data

    def write(self, name: str, data: bytes) -> None:
        """Under a name of its own first, then moved: object stores put whole objects, other file systems may not."""
        path = self._path(name)
        self._system.makedirs(path.rpartition("/")[0], exist_ok=True)
        temporary = f"{path}.{os.getpid()}-{time.monotonic_ns()}{_TEMPORARY}"
        self._system.pipe_file(temporary, data)
        self._system.mv(temporary, path)

    def delete(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._system.rm_file(self._path(name))

    def touch(self, name: str) -> None:
        """Nothing: a shared store is not bounded by us."""

    def items(self) -> Iterator[Item]:
        try:
            found: dict[str, dict[str, Any]] = self._system.find(self._root, detail=True)
        except FileNotFoundError:
            return
        for path, row in found.items():
            name = path[len(self._root) :].lstrip("/")
            if ENTRY.fullmatch(name):
                yield Item(name, int(row.get("size") or 0), 0.0)
