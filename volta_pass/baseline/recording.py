"""A recording: a folder with one entry per validated launch (its PTX, IR, source, launch, verdict, compiler), in the store's format.

Entries are data only: what is read back is checked, and damaged entries are named, never used.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ptx_engine.errors import LaunchError, PtxError
from ptx_engine.launch import Arg, Launch, NullArg, Role, ScalarArg, TensorArg
from volta_pass.job import LANGUAGES, ValidationJob, launch_to_json
from volta_pass.kernel_report import KernelReport
from volta_pass.store.container import CorruptEntryError, pack, unpack
from volta_pass.store.keys import canonical, digest
from volta_pass.store.places import Folder

KIND = "kernels"
_FACTS, _PTX, _SOURCE, _PROGRAM = "facts.json", "candidate.ptx", "source.mlir", "program.py"


@dataclass(frozen=True)
class Record:
    """One captured launch: what was compiled, from what, for which launch, by which compiler, with which verdict.

    ``recipe`` says how to compile it again (``{"refused": why}`` where that cannot be); ``report`` is the JSON of its report.
    """

    kernel: str
    configuration: Mapping[str, Any]
    target: str
    ptx: str
    entry: str
    source: str | None
    launch: Launch
    recipe: Mapping[str, Any]
    report: Mapping[str, Any]
    toolchain: Mapping[str, str]
    assumptions: tuple[str, ...] = ()
    #: ``ValidationJob.library``
    library: Mapping[str, str] | None = None
    #: what ``source`` is written in (``job.LANGUAGES``)
    language: str = "ttir"

    @property
    def identity(self) -> str:
        """What a launch is called in every compiler: kernel, configuration, target, grid and arguments."""
        plain = {key: str(value) for key, value in self.configuration.items()}
        return digest(self.kernel, canonical(plain), self.target, canonical([list(self.launch.grid), self._own_arguments()]))

    def _own_arguments(self) -> list[dict[str, Any]]:
        return [arg for arg in launch_to_json(self.launch)["args"] if arg["name"] not in _SCRATCH]

    def arguments(self) -> list[dict[str, Any]]:
        """What the user gave, by name: two launches can be compared only where these are the same (a role is found out, not given)."""
        rows = [{name: value for name, value in arg.items() if name != "role"} for arg in self._own_arguments()]
        return sorted(rows, key=lambda row: str(row["name"]))

    @property
    def compiler(self) -> str:
        """Name and version: ``Triton 3.9.0``."""
        return " ".join(f"{name} {version}" for name, version in self.toolchain.items()) or "an unknown compiler"

    def label(self) -> str:
        """Kernel and configuration on one line."""
        return " ".join([self.kernel, *(f"{key}={value}" for key, value in self.configuration.items())])


def record_of(job: ValidationJob, recipe: Mapping[str, Any], report: KernelReport) -> Record:
    """A validated job as a record."""
    return Record(
        job.kernel, job.configuration, job.target, job.ptx, job.entry, job.source, job.launch, recipe, report.to_json(),
        job.toolchain, job.assumptions, library=job.library, language=job.language,
    )  # fmt: skip


#: arguments that compilers add
_SCRATCH = frozenset({"global_scratch", "profile_scratch"})


@dataclass
class Recording:
    """The entries of a folder. ``damaged`` names those that could not be read."""

    folder: Path
    damaged: list[str] = field(default_factory=list)

    def add(self, job: ValidationJob, recipe: Mapping[str, Any], report: KernelReport) -> str:
        """Write one launch; its identity. Raises OSError where the folder cannot be written."""
        record = record_of(job, recipe, report)
        self.write(record)
        return record.identity

    def write(self, record: Record) -> None:
        """Write a record under its identity, over an older one."""
        arrays = {a.name: a.contents for a in record.launch.args if isinstance(a, TensorArg) and not isinstance(a.contents, str)}
        program = str(record.recipe.get("source", ""))
        facts = {
            "kernel": record.kernel, "configuration": dict(record.configuration), "target": record.target, "entry": record.entry,
            "launch": launch_to_json(record.launch), "recipe": {k: v for k, v in record.recipe.items() if k != "source"},
            "report": dict(record.report), "toolchain": dict(record.toolchain), "assumptions": list(record.assumptions),
            "language": record.language, "library": None if record.library is None else dict(record.library),
            "contents": {name: [str(a.dtype), list(a.shape)] for name, a in arrays.items()},
        }  # fmt: skip
        sections = {_FACTS: canonical(facts).encode(), _PTX: record.ptx.encode(), _PROGRAM: program.encode()}
        if record.source is not None:
            sections[_SOURCE] = record.source.encode()
        for position, array in enumerate(arrays.values()):
            sections[f"contents.{position}"] = np.ascontiguousarray(array).tobytes()
        key = record.identity
        Folder(self.folder).write(_name(key), pack(key, sections))

    def records(self) -> list[Record]:
        """Every entry that is whole, by kernel and configuration. Raises LaunchError if the folder holds none at all."""
        found, self.damaged = [], []
        place = Folder(self.folder)
        try:
            items = list(place.items())
        except OSError as error:
            raise LaunchError(f"{self.folder} cannot be read: {error.strerror}", hint="may you read there?") from None
        for item in items:
            try:
                _, sections = unpack(place.read(item.name) or b"", item.name.rpartition("/")[2])
                found.append(_record(sections))
            except (
                CorruptEntryError,
                PtxError,
                OSError,
                LookupError,
                TypeError,
                ValueError,
                AttributeError,
                ArithmeticError,
                RecursionError,
            ) as error:
                self.damaged.append(f"{item.name}: {error}")  # a right checksum says nothing of what stands in it
        if not found and not self.damaged:
            raise LaunchError(f"{self.folder} holds no recording", hint="volta-pass baseline record DIR -- python program.py makes one")
        return sorted(found, key=lambda record: (record.kernel, record.label(), record.identity))


def _name(key: str) -> str:
    return f"{KIND}/{key[:2]}/{key}"


def _record(sections: Mapping[str, bytes]) -> Record:
    facts = json.loads(sections[_FACTS])
    arrays = {
        name: np.frombuffer(sections[f"contents.{i}"], np.dtype(dtype)).reshape([int(n) for n in shape])
        for i, (name, (dtype, shape)) in enumerate(facts["contents"].items())
    }
    recipe = dict(facts["recipe"])
    if sections[_PROGRAM]:
        recipe["source"] = sections[_PROGRAM].decode()
    source = sections[_SOURCE].decode() if _SOURCE in sections else None
    return Record(
        str(facts["kernel"]), dict(facts["configuration"]), str(facts["target"]), sections[_PTX].decode(), str(facts["entry"]), source,
        launch_from_json(facts["launch"], arrays), recipe, _report(facts), dict(facts["toolchain"]), tuple(facts["assumptions"]),
        library=None if facts.get("library") is None else {str(k): str(v) for k, v in dict(facts["library"]).items()},
        language=_language(facts),
    )  # fmt: skip


def _report(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The report, if what a comparison reads of it has the form of one. Raises ValueError, TypeError."""
    report = dict(facts["report"])
    for name in ("findings", "comparisons"):
        rows = report.get(name, [])
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise ValueError(f"its report's {name}")
    return report


def _language(facts: Mapping[str, Any]) -> str:
    """What the source is written in; older recordings hold TTIR. Raises ValueError."""
    found = str(facts.get("language", "ttir"))
    if found not in LANGUAGES:
        raise ValueError(f"a source in {found!r}")
    return found


def launch_from_json(row: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Launch:
    """The inverse of ``job.launch_to_json``; contents come from ``arrays``. Raises KeyError, TypeError, ValueError, LaunchError."""
    ctas = None if row["ctas"] == "all" else tuple(_extent(cta) for cta in row["ctas"])
    args = tuple(_arg(arg, arrays) for arg in row["args"])
    return Launch(_extent(row["grid"]), _extent(row["block"]), args, int(row["dynamic_shared_bytes"]), ctas)


def _extent(values: Any) -> tuple[int, int, int]:
    x, y, z = (int(v) for v in values)
    return x, y, z


def _arg(row: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Arg:
    name = str(row["name"])
    if row["kind"] == "null":
        return NullArg(name)
    if row["kind"] == "scalar":
        value = row["value"]
        return ScalarArg(name, str(row["dtype"]), float(value) if value in ("inf", "-inf", "nan") else value)
    shape, strides = tuple(int(n) for n in row["shape"]), tuple(int(n) for n in row["strides"])
    contents = arrays[name] if name in arrays else str(row["contents"])
    return TensorArg(
        name,
        str(row["dtype"]),
        shape,
        Role(row["role"]),
        strides,
        contents,
        str(row.get("alias", "")),
        int(row.get("extra_elements", 0)),
        int(row.get("offset_elements", 0)),
    )
