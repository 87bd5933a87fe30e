"""What is to be validated: one kernel in one configuration at one launch, its references, and what it may cost."""

from __future__ import annotations

import hashlib
import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from ptx_engine.errors import LaunchError
from ptx_engine.launch import Launch, NullArg, ScalarArg, TensorArg

DECIDE_MODES = ("exact", "fingerprint")

#: what a kernel's own source is written in, for people
LANGUAGES = {"ttir": "TTIR", "tile": "tile program"}

#: seconds that one validation may take unless told otherwise: a build must not hang
DEFAULT_SECONDS = 120.0


@dataclass(frozen=True)
class Options:
    """Budgets and modes. ``ctas``: "all", a number (corners and edges first, then a sample), or "auto": all if that is
    affordable, else as many as are. ``seconds``: None is no limit."""

    seconds: float | None = DEFAULT_SECONDS
    ctas: int | Literal["auto", "all"] = "auto"
    decide: Literal["exact", "fingerprint"] = "exact"
    seed: int = 0
    #: processes for the CTA batches of one execution (``VOLTA_JOBS``): no part of what a verdict depends on
    workers: int = field(default=1, repr=False, compare=False)

    @staticmethod
    def from_environment(environ: Mapping[str, str] | None = None) -> "Options":
        """``VOLTA_SECONDS`` (0: no limit), ``VOLTA_CTAS`` ("all" or a number), ``VOLTA_DECIDE``, ``VOLTA_JOBS``. Raises LaunchError."""
        env = os.environ if environ is None else environ
        seconds = _number(env, "VOLTA_SECONDS", DEFAULT_SECONDS)
        decide = env.get("VOLTA_DECIDE", "exact")
        if decide not in DECIDE_MODES:
            raise LaunchError(f"VOLTA_DECIDE={decide!r}", hint="one of " + ", ".join(DECIDE_MODES))
        workers = _count(env, "VOLTA_JOBS", 1, "a number of processes")
        return Options(seconds or None, _ctas(env), decide, workers=workers)  # type: ignore[arg-type]


def _ctas(env: Mapping[str, str]) -> int | Literal["auto", "all"]:
    text = env.get("VOLTA_CTAS", "") or "auto"
    if text == "auto" or text == "all":
        return text  # type: ignore[return-value]
    return _count(env, "VOLTA_CTAS", 0, '"all" or a number of at least 1')


def _count(env: Mapping[str, str], name: str, default: int, hint: str) -> int:
    text = env.get(name, "") or str(default)
    if not re.fullmatch("[1-9][0-9]{0,9}", text):
        raise LaunchError(f"{name}={text!r}", hint=hint)
    return int(text)


def _number(env: Mapping[str, str], name: str, default: float) -> float:
    text = env.get(name, "")
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise LaunchError(f"{name}={text!r} is no number of seconds", hint="a number, 0 for no limit")
    return value


@dataclass(frozen=True)
class TtirReference:
    """A tile program (TTIR in generic form, or another of LANGUAGES) as a reference; ``launch`` has its own grid, its arguments
    are named as the candidate's."""

    text: str
    launch: Launch
    label: str
    language: str = "ttir"

    def identity(self) -> str:
        """A text that determines the reference, for cache keys."""
        return self.text + str(launch_to_json(self.launch))


@dataclass(frozen=True)
class FunctionReference:
    """A Python function over symbolic tensors; ``parameters`` maps its parameters to launch arguments.

    It has no identity that could be a key: what it computes depends on everything that it calls.
    """

    fn: Callable[..., Any]
    parameters: Mapping[str, str]
    outputs: tuple[str, ...]
    label: str


@dataclass(frozen=True)
class PtxReference:
    """Another PTX of the same arguments as a reference; ``launch`` has its own grid, block and shared memory."""

    text: str
    entry: str
    launch: Launch
    label: str

    def identity(self) -> str:
        """A text that determines the reference, for cache keys."""
        return self.entry + self.text + str(launch_to_json(self.launch))


Reference = TtirReference | FunctionReference | PtxReference


@dataclass(frozen=True)
class ValidationJob:
    """One validation. ``source`` is the kernel's own tile program in ``language``, or None; ``reference`` the cached one, or None.

    ``contents`` gives, per integer tensor argument, a function that returns its elements in storage order: used only
    where the kernel cannot be executed without them. ``constants`` are compile-time values that a reference function
    may ask for by name. ``assumptions`` go into the report's ledger.
    """

    kernel: str
    ptx: str
    launch: Launch
    entry: str = ""
    configuration: Mapping[str, Any] = field(default_factory=dict)
    target: str = ""
    source: str | None = None
    reference: Reference | None = None
    contents: Mapping[str, Callable[[], np.ndarray]] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)
    #: PTX of the approximated functions that the source calls (``references.library``); None: they are what they are named after
    library: Mapping[str, str] | None = None
    #: what to do where the PTX works on the bits of floats or branches on them, if more is known than that; enters no key
    remedy: str = ""
    #: how to compile the kernel again, as JSON values, for recordings; enters no key
    recipe: Mapping[str, Any] = field(default_factory=dict)
    toolchain: Mapping[str, str] = field(default_factory=dict)
    options: Options = field(default_factory=Options)
    assumptions: tuple[str, ...] = ()
    language: str = "ttir"

    @property
    def source_name(self) -> str:
        """What the source is, for people: "TTIR"."""
        return LANGUAGES[self.language]


def launch_to_json(launch: Launch) -> dict[str, Any]:
    """A launch as JSON values, in the vocabulary of launch specs; concrete contents by their digest."""
    return {
        "grid": list(launch.grid),
        "block": list(launch.block),
        "ctas": "all" if launch.ctas is None else [list(c) for c in launch.ctas],
        "dynamic_shared_bytes": launch.dynamic_shared_bytes,
        "args": [_arg_to_json(arg) for arg in launch.args],
    }


def finite_or_text(value: Any) -> Any:
    """A value of JSON: an infinity or NaN, for which JSON has no number, as "inf", "-inf" or "nan"."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _arg_to_json(arg: TensorArg | ScalarArg | NullArg) -> dict[str, Any]:
    if isinstance(arg, NullArg):
        return {"name": arg.name, "kind": "null"}
    if isinstance(arg, ScalarArg):
        return {"name": arg.name, "kind": "scalar", "dtype": arg.dtype, "value": finite_or_text(arg.value)}
    row: dict[str, Any] = {
        "name": arg.name,
        "kind": "tensor",
        "dtype": arg.dtype,
        "shape": list(arg.shape),
        "strides": list(arg.element_strides()),
        "role": arg.role.value,
        "contents": arg.contents if isinstance(arg.contents, str) else contents_digest(arg.contents),
    }
    if arg.alias:
        row["alias"] = arg.alias
        if arg.offset_elements:
            row["offset_elements"] = arg.offset_elements
    if arg.extra_elements:
        row["extra_elements"] = arg.extra_elements
    return row


def contents_digest(contents: np.ndarray) -> str:
    """``sha256:...`` over element type, shape and bytes."""
    hashed = hashlib.sha256(f"{contents.dtype}{contents.shape}".encode())
    hashed.update(np.ascontiguousarray(contents).tobytes())
    return "sha256:" + hashed.hexdigest()
