"""CUDA text of TileLang to PTX, and PTX to the bytes that run, by the toolkit that TileLang itself uses and with its flags."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tilelang
from tilelang.contrib import nvcc
from tilelang.env import CUTLASS_INCLUDE_DIR, TILELANG_TEMPLATE_PATH
from tilelang.transform import PassConfigKey

from ptx_engine.errors import UnsupportedError

Config = Mapping[Any, Any]


#: a line of CUDA text that says where the next ones come from
_PLACE = re.compile(r'^#line \d+ "(?P<file>[^"]*)"$')
_TILELANG = os.path.dirname(os.path.abspath(tilelang.__file__)) + os.sep


def user_lines(cuda: str) -> str:
    """CUDA text whose places inside of TileLang (its macros for matrix products) become those of the user's line that led there."""
    lines, current = [], ""
    for line in cuda.split("\n"):
        place = _PLACE.match(line)
        if place is not None and place["file"].startswith(_TILELANG):
            line = current or line
        elif place is not None:
            current = line
        lines.append(line)
    return "\n".join(lines)


def cuda_to_ptx(cuda: str, target: Any, config: Config | None = None) -> str:
    """PTX of CUDA text for a target. Raises RuntimeError with the compiler's own words where it does not compile."""
    arch, codes = _architecture(target)
    cuda = user_lines(cuda)
    flags = [f"-arch=sm_{arch}"] if not codes else ["-gencode", f"arch=compute_{arch},code=compute_{arch}"]
    return bytes(nvcc.compile_cuda(cuda, "ptx", flags, options=_options(config or {}))).decode()


@dataclass(frozen=True)
class LibraryCompiler:
    """CUDA text without includes to PTX: equal for equal targets and flags."""

    target: str
    flags: tuple[str, ...]
    options: tuple[str, ...]

    def __call__(self, cuda: str) -> str:
        return bytes(nvcc.compile_cuda(cuda, "ptx", list(self.flags), options=list(self.options))).decode()


def library_to_ptx(target: Any, config: Config | None = None) -> LibraryCompiler:
    """The compiler of ``cuda_to_ptx`` for small texts."""
    arch, _ = _architecture(target)
    options = [option for option in _options(config or {}) if not option.startswith("-I")]
    return LibraryCompiler(arch, (f"-arch=sm_{arch}",), tuple(options))


def ptx_to_cubin(ptx: str, target: Any, config: Config | None = None) -> bytes:
    """The machine code of PTX. Raises RuntimeError with ptxas's own words, UnsupportedError for several targets at once."""
    arch, codes = _architecture(target)
    if len(codes) > 1:
        raise UnsupportedError(f"binaries for several targets: {', '.join(codes)}", feature="fatbin")
    level = (config or {}).get(PassConfigKey.TL_PTXAS_REGISTER_USAGE_LEVEL, None)
    usage = [] if level is None else [f"--register-usage-level={int(level)}"]
    with tempfile.TemporaryDirectory() as folder:
        source, binary = os.path.join(folder, "kernel.ptx"), os.path.join(folder, "kernel.cubin")
        with open(source, "w", encoding="utf-8") as file:
            file.write(ptx)
        command = [_ptxas(), *usage, f"-arch={codes[0] if codes else f'sm_{arch}'}", "-O3", "-lineinfo", source, "-o", binary]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"ptxas: {done.stderr}")
        with open(binary, "rb") as compiled:
            return compiled.read()


def _ptxas() -> str:
    """The assembler of the toolkit that TileLang uses. Raises UnsupportedError where there is none."""
    beside = os.path.join(nvcc.find_cuda_path(), "bin", "ptxas")
    found = beside if os.path.isfile(beside) else shutil.which("ptxas")
    if not found:
        raise UnsupportedError(
            "no ptxas: the machine code is made by nvcc from the text whose PTX was validated", feature="ptxas",
            hint="set CUDA_HOME to the toolkit, so that the very PTX that was validated is assembled",
        )  # fmt: skip
    return found


def _architecture(target: Any) -> tuple[str, list[str]]:
    arch, codes = nvcc.get_target_arch_and_code(target)
    return str(arch), list(nvcc.get_target_code_list(codes))


def _options(config: Config) -> list[str]:
    """The flags of ``tilelang_callback_cuda_compile``, without those that only ptxas reads."""
    options = ["-std=c++20", "-I" + TILELANG_TEMPLATE_PATH, "-I" + CUTLASS_INCLUDE_DIR]
    extra = config.get(PassConfigKey.TL_DEVICE_COMPILE_FLAGS, None) or []
    for flag in [extra] if isinstance(extra, str) else extra:
        options += shlex.split(str(flag))
    if bool(config.get(PassConfigKey.TL_ENABLE_FAST_MATH, False)):
        options.append("--use_fast_math")
    return options
