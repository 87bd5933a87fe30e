"""Files that a person names: regular ones of a size that somebody could have written; a pipe is not waited for, a device not read."""

from __future__ import annotations

import stat
from pathlib import Path

#: bytes beyond which a file is no kernel and no spec
LARGEST = 1 << 28


def read_bytes(path: "str | Path") -> bytes:
    """What stands in a file. Raises OSError, and ValueError for a name that is none, for what is no file, and for one that is too large."""
    status = Path(path).stat()
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):  # (opening a folder says so itself)
        raise ValueError("it is no file")
    if status.st_size > LARGEST:
        raise ValueError(f"it is larger than {LARGEST >> 20} MiB")
    with open(path, "rb") as file:
        return file.read(LARGEST)
