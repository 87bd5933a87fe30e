"""CUDA's library functions as a kernel's own compiler has them: each is compiled alone, with the kernel's target and options."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ptx_engine.errors import NotStructuredError, PtxError, lines_of
from volta_pass.cuda.compile import compile_cuda
from volta_pass.cuda.source import CudaSource
from volta_pass.references.library import CUDA_FUNCTIONS, CUDA_TYPES, Library, cuda_program

#: functions whose library code works on the bits of a float, or loops: it has no formula over the reals here (most of them are called
#: instead, ``library_calls``; this is for what is left)
_WITHOUT_FORMULA = re.compile(
    r"\b(log|log2|log10|log1p|logb|pow|exp10|expm1|sin|cos|tan|sincos|sinh|cosh|erfc|erfinv|fmod|remainder|hypot|norm3d|cyl_bessel_i0"
    r"|asinh|acosh|atanh|atan2|cbrt|rcbrt|tgamma|lgamma|j0|j1|y0|y1|ldexp|frexp|exp|tanh)f?\s*\("
)


@dataclass(frozen=True)
class CudaFunctions:
    """What goes with a translation unit: calling it makes the library of its compiler."""

    source: CudaSource
    compiler: str
    #: the entry as it is named in the source; None: the only one
    entry: str | None = None

    def __call__(self) -> Library:
        return Library(_Texts(self.source, self.compiler))

    def explain(self, error: PtxError) -> None:
        """Name the library function at whose line the kernel could not be executed, and what can be done."""
        file, number = (error.user_loc.rsplit(":", 2) + ["", ""])[:2]
        lines = lines_of(self.source.text)
        if not isinstance(error, NotStructuredError) or Path(file).name != Path(self.source.name).name or not number.isdigit():
            return
        line = lines[int(number) - 1] if 0 < int(number) <= len(lines) else ""
        names = dict.fromkeys(found.group().rstrip(" (\t") for found in _WITHOUT_FORMULA.finditer(line))
        if names:
            error.hint = (
                f'CUDA\'s code of {", ".join(names)} has no formula here: call a function that is declared as extern "C" __device__ and'
                " named under [externs] of the spec (externs= in Python), or a fast one (__logf, __powf, __sinf; -use_fast_math)"
            )


class _Texts(Mapping[str, str]):
    """PTX by key, such as ``tanh(f32)``; "" where the compiler has no such function."""

    def __init__(self, source: CudaSource, compiler: str) -> None:
        self._source, self._compiler = replace(source, name="library.cu", defines={}), compiler
        self._known: dict[str, str] = {}

    def __getitem__(self, key: str) -> str:
        if key not in self._known:
            name, _, fmt = key.rstrip(")").partition("(")
            if name not in CUDA_FUNCTIONS or fmt not in CUDA_TYPES:
                raise KeyError(key)
            try:
                self._known[key] = compile_cuda(replace(self._source, text=cuda_program(name, fmt)), "library", self._compiler).ptx
            except PtxError:
                self._known[key] = ""
        return self._known[key]

    def __iter__(self) -> Iterator[str]:
        return (f"{name}({fmt})" for name in sorted(CUDA_FUNCTIONS) for fmt in CUDA_TYPES)

    def __len__(self) -> int:
        return len(CUDA_FUNCTIONS) * len(CUDA_TYPES)
