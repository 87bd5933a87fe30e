"""Triton's device library: the PTX of each approximated function that a tile program calls, compiled on its own for the same target."""

from __future__ import annotations

import tempfile
from contextlib import redirect_stdout
from functools import lru_cache
from io import StringIO
from pathlib import Path

from volta_pass.references.library import LANES, Call, calls_of

_PROGRAM = """module {{
  tt.func public @library({parameters}) attributes {{noinline = false}} {{
    %at = tt.make_range {{end = {lanes} : i32, start = 0 : i32}} : tensor<{lanes}xi32>
{loads}
    %y = {call}
    %p = tt.splat %out : !tt.ptr<{dtype}> -> tensor<{lanes}x!tt.ptr<{dtype}>>
    %q = tt.addptr %p, %at : tensor<{lanes}x!tt.ptr<{dtype}>>, tensor<{lanes}xi32>
    tt.store %q, %y : tensor<{lanes}x!tt.ptr<{dtype}>>
    tt.return
  }}
}}
"""
_LOAD = """    %p{i} = tt.splat %x{i} : !tt.ptr<{dtype}> -> tensor<{lanes}x!tt.ptr<{dtype}>>
    %q{i} = tt.addptr %p{i}, %at : tensor<{lanes}x!tt.ptr<{dtype}>>, tensor<{lanes}xi32>
    %v{i} = tt.load %q{i} : tensor<{lanes}x!tt.ptr<{dtype}>>"""


def library_of(generic_text: str | None, arch: int) -> dict[str, str]:
    """PTX by key (``references.library.Call.key``) of what a tile program in generic form calls; "" where Triton does not compile it."""
    return {} if generic_text is None else {call.key: _compiled(call, arch) for call in calls_of(generic_text)}


@lru_cache(maxsize=64)
def _compiled(call: Call, arch: int) -> str:
    import triton
    from triton.backends.compiler import GPUTarget

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "library.ttir"
        path.write_text(program(call))
        try:
            with triton.knobs.compilation.scope(), redirect_stdout(StringIO()):
                triton.knobs.compilation.listener = None
                compiled = triton.compile(str(path), target=GPUTarget("cuda", arch, 32), options={"num_warps": 1})
        except Exception:  # whatever Triton says of it
            return ""
    return str(compiled.asm["ptx"])


def program(call: Call) -> str:
    """A tile program that applies the function to ``LANES`` elements."""
    dtype, tensor = call.types[0], f"tensor<{LANES}x{call.types[0]}>"
    names = ", ".join(f"%v{i}" for i in range(len(call.types)))
    if call.extern:
        attributes = f'{{libname = "", libpath = "", pure = true, symbol = "{call.name}"}}'
        text = f"tt.extern_elementwise {names} {attributes} : ({', '.join([tensor] * len(call.types))}) -> {tensor}"
    else:
        text = f"{call.name} {names} : {tensor}"
    parameters = ", ".join([*(f"%x{i}: !tt.ptr<{dtype}>" for i in range(len(call.types))), f"%out: !tt.ptr<{dtype}>"])
    loads = "\n".join(_LOAD.format(i=i, dtype=dtype, lanes=LANES) for i in range(len(call.types)))
    return _PROGRAM.format(parameters=parameters, lanes=LANES, loads=loads, call=text, dtype=dtype)
