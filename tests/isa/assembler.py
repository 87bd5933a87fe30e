"""Asks ptxas whether PTX is legal: the assembler that Triton ships."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import triton

PTXAS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "ptxas-blackwell"
ARCH, VERSION = "sm_100a", "9.1"
_ERROR = re.compile(r"ptxas\S* .*, line (\d+); (?:error|fatal)\s*: (.*)")


def complaints(text: str, arch: str = ARCH) -> dict[int, str]:
    """The first error of each line of a module. Raises AssertionError where ptxas fails for another reason."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "module.ptx"
        path.write_text(text)
        done = subprocess.run(
            [PTXAS, "-arch", arch, "-O0", "-c", str(path), "-o", str(Path(folder) / "out")], capture_output=True, text=True
        )
    found: dict[int, str] = {}
    for line in (done.stdout + done.stderr).splitlines():
        match = _ERROR.match(line)
        if match:
            found.setdefault(int(match[1]), match[2])
    assert found or done.returncode == 0, done.stderr
    return found


def illegal(instructions: Sequence[str]) -> dict[str, str]:
    """The instructions that ptxas does not take, with what it says. Registers are %p0.. %h0.. %r0.. %d0.. %q0.. by width."""
    head = f".version {VERSION}\n.target {ARCH}\n.address_size 64\n.visible .entry k()\n{{\n"
    head += ".reg .pred %p<20>; .reg .b16 %h<20>; .reg .b32 %r<20>; .reg .b64 %d<20>; .reg .b128 %q<20>;\n"
    first = head.count("\n") + 1
    found = complaints(head + "\n".join(instructions) + "\nret;\n}\n")
    return {instructions[line - first]: why for line, why in found.items() if 0 <= line - first < len(instructions)}
