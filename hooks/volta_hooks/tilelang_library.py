"""CUDA's library as TileLang's compiler has it: the PTX of each function that is library code, compiled on its own with the same flags."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from volta_hooks.tilelang_ptx import Config, library_to_ptx
from volta_pass.references.library import CUDA_FUNCTIONS, CUDA_TYPES, cuda_program

#: their code works on the bits of a float, or loops
_WITHOUT_FORMULA = ("log", "log2", "log10", "log1p", "sin", "cos", "tan", "pow", "fmod")
#: logarithms in single precision: their code is read as the functions (``references.library_patterns``)
_LOGARITHMS = ("log", "log2", "log10")
_FORMATS = {"float32": "f32", "float64": "f64"}


def library_of(source: str, target: Any, config: Config) -> dict[str, str] | None:
    """PTX by key (``references.library``) of what a tile program in JSON may call, "" where it does not compile; None if it calls none."""
    names = [name for name in sorted(CUDA_FUNCTIONS) if f'"{name}"' in source]
    formats = [fmt for dtype, fmt in _FORMATS.items() if f'"{dtype}"' in source and fmt in CUDA_TYPES]
    wanted = [(name, fmt) for name in names for fmt in formats]
    wanted += [(name, "f32") for name in _LOGARITHMS if f'"{name}"' in source]
    return {f"{name}({fmt})": _compiled(name, fmt, library_to_ptx(target, config)) for name, fmt in wanted} or None


def remedy_of(source: str) -> str:
    """What to do where a program in JSON calls functions whose library code has no formula; "" where it calls none."""
    names = [f"T.{name}" for name in _WITHOUT_FORMULA if f'"{name}"' in source]
    if not names:
        return ""
    return (
        f"CUDA's library code of {', '.join(names)} has no formula here; as one instruction it has: T.__log and the like, or"
        " pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True}"
    )


@lru_cache(maxsize=64)
def _compiled(name: str, fmt: str, compiler: Any) -> str:
    try:
        return str(compiler(cuda_program(name, fmt)))
    except RuntimeError:  # what the compiler says of a function that it has not got
        return ""
