"""What is compiled: a CUDA C text with its target, options, definitions and include folders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ptx_engine.errors import LaunchError
from volta_pass.reading import read_bytes

#: the targets whose instructions have a meaning here; newer ones compile, and what they use is refused by name
OLDEST_ARCH = 75

Define = int | float | bool | str


@dataclass(frozen=True)
class CudaSource:
    """A translation unit. ``name`` is its path (or a name for text); lines of diagnostics are this text's.

    ``arch`` is a compute capability without its dot (80). ``options`` are the compiler's own. ``defines`` are preprocessor
    macros; True defines one as 1, False not at all.
    """

    text: str
    name: str = "kernel.cu"
    arch: int = 80
    options: tuple[str, ...] = ()
    defines: Mapping[str, Define] = field(default_factory=dict)
    include: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.arch < OLDEST_ARCH:
            raise LaunchError(f"compute capability {self.arch} is older than {OLDEST_ARCH}", hint="80 is an A100, 89 an L4, 75 a T4")
        for name in self.defines:
            if not name.isidentifier():
                raise LaunchError(f"{name!r} cannot be defined", hint="a macro's name is an identifier")

    @property
    def folder(self) -> str:
        """Where quoted includes are looked for first."""
        return str(Path(self.name).parent)

    @property
    def includes(self) -> bool:
        """Whether anything is included, so that CUDA's own headers may be."""
        return "#include" in self.text.replace(" ", "") or any("include" in option for option in self.options)

    def definitions(self) -> list[str]:
        """The macros as compiler options."""
        return [f"-D{name}={int(v) if v is True else v}" for name, v in self.defines.items() if v is not False]


def read_source(path: "str | Path") -> str:
    """The text of a CUDA C file. Raises LaunchError."""
    try:
        data = read_bytes(path)
    except (OSError, ValueError) as error:  # ValueError: no file, or no name of one
        raise LaunchError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}", hint="give the path of a .cu file") from None
    if b"\0" in data:
        raise LaunchError(f"{path} is a binary file, not CUDA C", hint="give a .cu file, or PTX as ptx = ...")
    return data.decode("utf-8", errors="replace")
