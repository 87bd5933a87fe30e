"""A launch spec after reading: two sides with their launches, what is compared, and where each part stands in the file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from ptx_engine.errors import Span
from ptx_engine.launch import Launch
from volta_pass.spec.lines import LineTable

Constexpr = int | float | bool | str


class SideKind(Enum):
    """What a side is made of; TRITON and PYTHON name code that is imported only when allowed."""

    PTX = "ptx"
    CUDA = "cuda"
    TRITON = "triton"
    PYTHON = "python"


@dataclass(frozen=True)
class SideSpec:
    """One side: what it is, and its launch with this side's own argument order and overrides."""

    side: str  # "reference" or "candidate"
    kind: SideKind
    #: path of a file (resolved), or "module:name"
    source: str
    launch: Launch
    entry: str | None = None
    constexprs: dict[str, Constexpr] = field(default_factory=dict)
    options: dict[str, Constexpr] = field(default_factory=dict)
    target: str = "cuda:80"
    span: Span = field(default=Span(1), compare=False)
    source_line: str = field(default="", compare=False)
    #: how a CUDA side is compiled: options, macros, include folders (resolved), "nvrtc" or "nvcc"
    cuda_options: tuple[str, ...] = ()
    defines: dict[str, Constexpr] = field(default_factory=dict)
    include: tuple[str, ...] = ()
    compiler: str = "nvrtc"
    #: PTX or CUDA C that is in no file, or a Python function; ``source`` then only names it
    text: str | None = None
    function: Callable[..., Any] | None = None
    #: of a side compiled from CUDA C (``cuda.functions.CudaFunctions``): the library functions as its compiler has them
    functions: Any = field(default=None, compare=False)

    @property
    def runs_code(self) -> bool:
        """True if this side imports Python named by the spec."""
        return self.kind in (SideKind.TRITON, SideKind.PYTHON) and self.function is None


@dataclass(frozen=True)
class Spec:
    """A comparison (or, without a reference, a check of order and memory only)."""

    path: Path
    candidate: SideSpec
    reference: SideSpec | None
    outputs: tuple[str, ...]
    auxiliary: tuple[str, ...]
    externs: dict[str, str] = field(default_factory=dict)
    globals: dict[str, "int | float | list[int | float]"] = field(default_factory=dict)
    #: where the keys stand in the file
    table: LineTable = field(default_factory=lambda: LineTable("", []), compare=False, repr=False)
