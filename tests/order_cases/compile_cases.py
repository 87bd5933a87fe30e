"""Compiles the CUDA C cases to the PTX beside them: ``python tests/order_cases/compile_cases.py`` (needs the package nvidia-cuda-nvrtc).

A source has one section for each PTX file: ``// clean: ABOUT`` or ``// fault NAME: ABOUT``, then what that file states (``case_files``). The
fault NAME is compiled with -DNAME, in capitals. The PTX is committed, so that the tests need no compiler.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from case_files import FOLDER

ARCH = 80


@dataclass(frozen=True)
class Variant:
    """One PTX file of a source: the name of its fault (empty for the clean one), and the lines of its section."""

    source: Path
    fault: str
    about: str
    stated: tuple[str, ...]

    @property
    def path(self) -> Path:
        return self.source.with_name(self.source.stem + (f"_{self.fault}" if self.fault else "") + ".ptx")

    def options(self) -> list[str]:
        return [f"-D{self.fault.upper()}"] if self.fault else []

    def header(self) -> str:
        """The comments at the top of the PTX file."""
        lines = [self.about, *self.stated, f"source: {self.source.name}", *([f"twin: {self.source.stem}.ptx"] if self.fault else [])]
        return "".join(f"// {line}\n" for line in [*lines, f"spec: {self.source.stem}.toml"])


def variants(source: Path) -> Iterator[Variant]:
    """The sections of a source."""
    comments = re.match(r"(?://.*\n)*", source.read_text(encoding="utf-8"))
    assert comments is not None
    for section in re.split(r"^// (?=clean: |fault )", comments[0], flags=re.MULTILINE)[1:]:
        first, *stated = section.splitlines()
        key, about = first.split(": ", 1)
        yield Variant(source, key.removeprefix("fault ").removeprefix("clean"), about, tuple(line.removeprefix("// ") for line in stated))


def sources() -> list[Path]:
    """The CUDA C files, by name."""
    return sorted(FOLDER.glob("*.cu"))


def compiled(variant: Variant) -> str:
    """The text of a variant's PTX file. Raises FileNotFoundError without the compiler."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "emulate"))
    from nvrtc import compile_cuda

    text = compile_cuda(variant.source.read_text(encoding="utf-8"), ARCH, "--generate-line-info", *variant.options())
    text = re.sub(r'(\.file\s+\d+ ")[^"]*(")', rf"\g<1>{variant.source.name}\2", text)
    body = "\n".join(line.rstrip() for line in text.strip("\x00\n").splitlines())
    return variant.header() + body[body.index(".version") :] + "\n"


def main() -> None:
    for source in sources():
        for variant in variants(source):
            variant.path.write_text(compiled(variant), encoding="utf-8")


if __name__ == "__main__":
    main()
