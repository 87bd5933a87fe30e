"""The text of a PTX file, with an error that says what was given instead."""

from __future__ import annotations

import codecs
from pathlib import Path

from ptx_engine.errors import LaunchError
from volta_pass.reading import read_bytes

#: how binaries begin that are mistaken for PTX: cubins and shared objects, fat binaries, LLVM bitcode
_BINARIES = {b"\x7fELF": "an ELF file (a cubin?)", b"P\xedU\xba": "a fat binary", b"BC\xc0\xde": "LLVM bitcode"}
_EXTRACT = "give the PTX text: nvcc --ptx writes it, cuobjdump -ptx extracts it, Triton keeps it in .asm['ptx']"


def read_ptx(path: "str | Path", hint: str = "give the path of a PTX file") -> str:
    """The file as text, without a byte order mark; bytes that are no UTF-8 (in comments) are replaced. Raises LaunchError."""
    try:
        data = read_bytes(path)
    except (OSError, ValueError) as error:  # ValueError: no file, or no name of one
        raise LaunchError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}", hint=hint) from None
    for beginning, what in _BINARIES.items():
        if data.startswith(beginning):
            raise LaunchError(f"{path} is {what}, not PTX", hint=_EXTRACT)
    if b"\0" in data.rstrip(b"\0"):  # some tools hand PTX on with the zero that ends a C string
        raise LaunchError(f"{path} is a binary file, not PTX", hint=_EXTRACT)
    return data.removeprefix(codecs.BOM_UTF8).decode("utf-8", errors="replace").replace("\r\n", "\n")
