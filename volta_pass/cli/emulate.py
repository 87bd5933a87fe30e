"""``volta-pass emulate KERNEL.ptx ARG ...``: run a kernel on IEEE values, without a GPU; arrays are .npy files.

An argument is a .npy file (written in place, or into ``--out`` under its own name), a number, ``TYPE:NUMBER`` where the parameter
has no float type of its own (``bf16:0.5`` needs ml_dtypes), or ``null``.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ptx_engine import Emulation, emulate
from ptx_engine.errors import BudgetError, LaunchError, PtxError
from ptx_engine.findings import Finding, Severity
from ptx_engine.terms.float_formats import largest, rounded_number
from volta_pass.check.ptx_file import read_ptx
from volta_pass.terminal import printable

#: types of ``TYPE:NUMBER`` as NumPy's (bf16 is none)
_SCALARS: dict[str, type[np.floating]] = {"f16": np.float16, "f32": np.float32, "f64": np.float64}


def command(args: argparse.Namespace) -> int:
    """Run, print findings and what was written; the exit code is 1 if anything faulted or raced."""
    text = read_ptx(args.kernel)
    files = {word: Path(word).resolve() for word in args.arguments if word.endswith(".npy")}
    _refuse_one_name(files, args.out)
    loaded = {path: load(Path(word)) for word, path in files.items()}  # however often and in whatever words a file is named: one array
    before = {path: array.tobytes() for path, array in loaded.items()}
    values = [loaded[files[word]] if word in files else scalar(word) for word in args.arguments]
    try:
        result = emulate(text, args.entry, args.grid, args.block, values, args.shared, order=not args.no_order)
    except PtxError as error:
        error.place_in(args.kernel, text)
        raise
    except MemoryError as error:
        raise BudgetError(f"not enough memory: {error}", hint="run fewer CTAs") from None
    words = {path: word for word, path in files.items()}
    written = [path for path, array in loaded.items() if array.tobytes() != before[path]]
    targets = [save(Path(words[path]), loaded[path], args.out) for path in written]
    if args.json:
        print(json.dumps(as_json(result, targets), indent=2))
    else:
        show(result, targets)
    return 1 if any(f.severity is Severity.ERROR for f in result.findings) else 0


def _refuse_one_name(files: Mapping[str, Path], out: str | None) -> None:
    """Raise LaunchError where two files would be written under one name."""
    names: dict[str, Path] = {}
    for word, path in files.items() if out is not None else ():
        other = names.setdefault(Path(word).name, path)
        if other != path:
            raise LaunchError(f"{other} and {path} would be one file in {out}", hint="give one of them another name")


def load(path: Path) -> np.ndarray:
    """An array; element types that NumPy does not know (bfloat16 is stored as void) are taken as words of their size."""
    try:
        with path.open("rb") as stream:
            array: np.ndarray = np.lib.format.read_array(stream, allow_pickle=False)
    except (OSError, ValueError, EOFError, MemoryError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        if "allow_pickle" in reason:  # NumPy's advice is to load such files unsafely
            reason = "it holds Python objects"
        raise LaunchError(f"{path} cannot be read as an array: {reason}", hint="write it with numpy.save") from None
    if array.dtype.kind == "V" and array.itemsize in (1, 2, 4, 8):
        return array.view(f"u{array.itemsize}")
    return array


def save(path: Path, array: np.ndarray, out: str | None) -> Path:
    """Write an array back, or under its name into another folder."""
    target = path if out is None else Path(out) / path.name
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        np.save(target, array, allow_pickle=False)
    except OSError as error:
        hint = "give a folder that can be written: --out DIR"
        raise LaunchError(f"{target} cannot be written: {error.strerror or error}", hint=hint) from None
    return target


def scalar(word: str) -> object:
    """A number, ``TYPE:NUMBER`` or ``null``. Raises LaunchError."""
    if word == "null":
        return None
    kind, colon, number = word.rpartition(":")
    try:
        value = _number(number)
        if not colon:
            return value
        if kind == "bf16":
            import ml_dtypes

            return ml_dtypes.bfloat16(rounded_number(value, kind))
        return _SCALARS[kind](rounded_number(value, kind))
    except OverflowError as error:
        raise LaunchError(f"argument {_clipped(word)}: {error}", hint="a smaller number, or inf where that is meant") from None
    except (ValueError, KeyError, ImportError):
        hint = "a .npy file, a number, null, or f16:, f32:, f64: or bf16: and a number"
        raise LaunchError(f"argument {_clipped(word)} is not understood", hint=hint) from None


def _clipped(word: str) -> str:
    return repr(word if len(word) <= 60 else word[:57] + "...")


def _number(word: str) -> "int | float":
    """An integer in any base of Python's, else a float. Raises ValueError for no number, OverflowError for one that is beyond a double."""
    try:
        return int(word, 0)
    except ValueError:
        value = float(word)
    if math.isinf(value) and "inf" not in word.lower():
        raise OverflowError(f"a value is beyond the largest f64, {largest('f64')!r}")
    return value


def as_json(result: Emulation, targets: list[Path]) -> dict[str, object]:
    """The result as plain data."""
    return {
        "findings": [finding_json(f) for f in result.findings], "instructions": result.instructions, "ctas": result.ctas,
        "seconds": round(result.seconds, 6), "written": [str(t) for t in targets],
    }  # fmt: skip


def finding_json(finding: Finding) -> dict[str, object]:
    """One finding with its sites."""
    sites = [
        {"role": s.role, "cta": s.cta, "warp": s.warp, "lane": s.lane, "ptx_line": s.ptx_line, "user": s.user_loc} for s in finding.sites
    ]
    return {"kind": finding.kind, "severity": finding.severity.value, "message": finding.message, "count": finding.count, "sites": sites}


def show(result: Emulation, targets: list[Path]) -> None:
    """Findings, then one line of figures."""
    for finding in result.findings:
        print(f"{finding.severity.value}: {printable(finding.message)} ({finding.count} times)")
        for site in finding.sites:
            who = f"CTA {site.cta}, warp {site.warp}, lane {site.lane}" + (f", {site.user_loc}" if site.user_loc else "")
            print(f"  --> line {site.ptx_line}: {printable(site.ptx_text)}  ({printable(who)})")
    wrote = ", ".join(printable(str(t)) for t in targets) or "no array changed"
    print(f"{result.instructions} thread-instructions, {result.ctas} CTAs, {result.seconds:.3f} s; {'wrote ' if targets else ''}{wrote}")
