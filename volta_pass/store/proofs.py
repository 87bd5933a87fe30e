"""Proofs in the store: what each is found under, and everything that is needed to do it again (see ``recheck``)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ptx_engine.errors import LaunchError
from ptx_engine.launch import Launch, TensorArg
from volta_pass.job import (
    FunctionReference,
    Options,
    PtxReference,
    Reference,
    TtirReference,
    ValidationJob,
    contents_digest,
    launch_to_json,
)
from volta_pass.kernel_report import KernelReport
from volta_pass.store.container import CorruptEntryError
from volta_pass.store.keys import canonical, digest, own_version
from volta_pass.store.store import PAYLOAD, Sections, Store

#: the kind of a stored proof
VERDICTS = "verdicts"
#: bytes of tensor contents that are kept with a proof; where there are more, the proof cannot be done again from its entry
MOST_CONTENTS = 1 << 24
JOB, _PTX, _SOURCE, _REFERENCE = "job.json", "candidate.ptx", "source.mlir", "reference.txt"


def proof_keys(job: ValidationJob, version: str | None = None) -> list[str]:
    """The key without integer contents, and the one with them: a proof without contents holds for all contents.

    None for a job with a reference function: nothing tells whether what it calls is still the same.
    """
    if isinstance(job.reference, FunctionReference):
        return []
    reference = job.reference.identity() if job.reference is not None else ""
    launch = canonical(launch_to_json(job.launch))
    code = own_version() if version is None else version
    base = digest(code, job.ptx, job.entry, job.source or "", reference, launch, repr(job.options), canonical(job.library))
    if not job.contents:
        return [base]
    contents = canonical({name: contents_digest(load()) for name, load in sorted(job.contents.items())})
    return [base, digest(base, contents)]


def put_proof(store: Store, job: ValidationJob, report: KernelReport, key: str) -> bool:
    """Keep a proof under one of its keys, with what is needed to do it again; False where the folder cannot be written."""
    with_contents = key != proof_keys(job)[0]
    return store.put(VERDICTS, key, {PAYLOAD: canonical(report.to_json()).encode(), **report.evidence, **sections_of(job, with_contents)})


# --- a job as sections --------------------------------------------------------------------------


def sections_of(job: ValidationJob, with_contents: bool) -> Sections:
    """Everything that a validation reads. Raises ValueError for a reference function."""
    arrays = {f"given:{name}": np.asarray(load()) for name, load in sorted(job.contents.items())} if with_contents else {}
    arrays |= _arrays("launch", job.launch)
    reference: dict[str, Any] | None = None
    sections: Sections = {_PTX: job.ptx.encode()}
    if job.source is not None:
        sections[_SOURCE] = job.source.encode()
    if isinstance(job.reference, FunctionReference):
        raise ValueError("a function is no data")
    if job.reference is not None:
        reference = _reference_row(job.reference)
        sections[_REFERENCE] = job.reference.text.encode()
        arrays |= _arrays("reference", job.reference.launch)
    if sum(array.nbytes for array in arrays.values()) > MOST_CONTENTS:
        return sections  # what is kept says what was proved; without the contents it cannot be done again
    facts = {
        "version": own_version(), "kernel": job.kernel, "entry": job.entry, "target": job.target, "language": job.language,
        "launch": launch_to_json(job.launch), "library": job.library, "reference": reference, "assumptions": list(job.assumptions),
        "options": [job.options.seconds, job.options.ctas, job.options.decide, job.options.seed],
        "arrays": [[name, str(array.dtype), list(array.shape)] for name, array in arrays.items()],
    }  # fmt: skip
    sections[JOB] = canonical(facts).encode()
    return sections | {f"array.{i}": np.ascontiguousarray(array).tobytes() for i, array in enumerate(arrays.values())}


def _arrays(whose: str, launch: Launch) -> dict[str, np.ndarray]:
    return {f"{whose}:{a.name}": a.contents for a in launch.args if isinstance(a, TensorArg) and isinstance(a.contents, np.ndarray)}


def _reference_row(reference: "TtirReference | PtxReference") -> dict[str, Any]:
    row = {"label": reference.label, "launch": launch_to_json(reference.launch)}
    if isinstance(reference, PtxReference):
        return {**row, "kind": "ptx", "entry": reference.entry}
    return {**row, "kind": reference.language}


def job_of(sections: Mapping[str, bytes]) -> tuple[ValidationJob, str]:
    """The job of an entry, and the version of our code that proved it. Raises CorruptEntryError on anything that is none."""
    try:
        return _job(sections)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError, LaunchError) as error:
        raise CorruptEntryError(f"it holds no job ({type(error).__name__}: {error})") from None


def _job(sections: Mapping[str, bytes]) -> tuple[ValidationJob, str]:
    facts = json.loads(sections[JOB])
    arrays: dict[str, dict[str, np.ndarray]] = {"given": {}, "launch": {}, "reference": {}}
    for i, (name, dtype, shape) in enumerate(facts["arrays"]):
        whose, _, tensor = name.partition(":")
        kind = np.dtype(dtype)
        if kind.kind not in "biuf":
            raise ValueError(f"contents of type {dtype}")
        arrays[whose][tensor] = np.frombuffer(sections[f"array.{i}"], kind).reshape([int(n) for n in shape])
    from volta_pass.baseline.recording import launch_from_json

    seconds, ctas, decide, seed = facts["options"]
    library = facts["library"]
    return ValidationJob(
        str(facts["kernel"]), sections[_PTX].decode(), launch_from_json(facts["launch"], arrays["launch"]), str(facts["entry"]),
        target=str(facts["target"]), source=sections[_SOURCE].decode() if _SOURCE in sections else None,
        reference=_reference(facts["reference"], sections, arrays["reference"]),
        contents={name: _Array(array) for name, array in arrays["given"].items()},
        library=None if library is None else {str(name): str(text) for name, text in library.items()},
        options=Options(seconds, ctas, decide, seed), assumptions=tuple(map(str, facts["assumptions"])), language=str(facts["language"]),
    ), str(facts["version"])  # fmt: skip


def _reference(row: Any, sections: Mapping[str, bytes], arrays: Mapping[str, np.ndarray]) -> Reference | None:
    if row is None:
        return None
    from volta_pass.baseline.recording import launch_from_json

    text, launch = sections[_REFERENCE].decode(), launch_from_json(row["launch"], arrays)
    if row["kind"] == "ptx":
        return PtxReference(text, str(row["entry"]), launch, str(row["label"]))
    return TtirReference(text, launch, str(row["label"]), str(row["kind"]))


@dataclass(frozen=True)
class _Array:
    """Contents that are there."""

    array: np.ndarray

    def __call__(self) -> np.ndarray:
        return self.array
