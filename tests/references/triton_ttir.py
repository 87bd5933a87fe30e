"""Test harness: a Triton kernel's TTIR in generic form, taken from the compiler's own pipeline and stopped there."""

from __future__ import annotations

import hashlib
import importlib.util
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from volta_pass.references import generic

KERNELS = Path(__file__).parents[2] / "configs" / "triton"


class _Enough(Exception):
    """Stops the pipeline after TTIR."""


def kernel(file: str, name: str) -> Any:
    """A kernel function of configs/triton."""
    spec = importlib.util.spec_from_file_location(f"configs_triton_{file}", KERNELS / f"{file}.py")
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return getattr(loaded, name)


def ttir_of(fn: Any, signature: Mapping[str, str], constexprs: Mapping[str, object], debug: bool = False) -> str:
    """Generic TTIR of a kernel; ``signature`` names Triton types of the arguments that are no constexprs."""
    import triton
    from triton import knobs
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    seen: list[str] = []

    def hook(backend: Any = None, stages: Any = None, options: Any = None, language: Any = None, capability: Any = None) -> Any:
        if stages is None:
            return "references-tests", hashlib.sha256(b"references-tests").hexdigest()
        make = stages["ttir"]

        def ttir(src: Any, metadata: Any) -> Any:
            seen.append(generic.generic_of_module(make(src, metadata)))
            raise _Enough

        stages["ttir"] = ttir
        return None

    names = [p.name for p in fn.params]
    types = {name: "constexpr" if name in constexprs else signature[name] for name in names}
    values = {(names.index(name),): value for name, value in constexprs.items()}
    previous, knobs.runtime.add_stages_inspection_hook = knobs.runtime.add_stages_inspection_hook, hook
    always, knobs.compilation.always_compile = knobs.compilation.always_compile, True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            triton.compile(ASTSource(fn, types, values, {}), target=GPUTarget("cuda", 80, 32), options={"debug": debug})
    except _Enough:
        pass
    finally:
        knobs.runtime.add_stages_inspection_hook = previous
        knobs.compilation.always_compile = always
    return seen[0]
