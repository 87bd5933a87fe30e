"""What the store costs: a proof recalled by a process that has just imported us, and by one that has recalled others; many entries."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ptx_engine.errors import InternalError
from volta_pass.configs_folder import configs_folder
from volta_pass.job import PtxReference, ValidationJob
from volta_pass.kernel_report import proved_from_json
from volta_pass.spec import read_spec
from volta_pass.store import Store, own_version
from volta_pass.store.proofs import VERDICTS, proof_keys, put_proof
from volta_pass.validate import validate

#: entries of the larger measurement
ENTRIES = 1000
#: seconds that a recalled proof may take
HIT_TARGET_S = 0.020
_REPEATS = 20
_FIRST_HITS = 5

Figure = tuple[str, float, str, float]


def measure() -> Iterator[Figure]:
    """Name, figure, unit and target of each row."""
    with tempfile.TemporaryDirectory(prefix="volta-pass-bench-") as folder:
        job = _job()
        store = Store(Path(folder), limit_mb=1024)
        put_proof(store, job, validate(job), proof_keys(job)[0])
        first = min(_first_hit(Path(folder), job) for _ in range(_FIRST_HITS))
        yield f"first hit of a process (fastest of {_FIRST_HITS})", 1000 * first, "ms", 1000 * HIT_TARGET_S
        times = [_hit(Store(Path(folder)), job) for _ in range(_REPEATS)]
        yield "later hit", 1000 * statistics.median(times), "ms", 1000 * HIT_TARGET_S
    with tempfile.TemporaryDirectory(prefix="volta-pass-bench-") as folder:
        yield f"{ENTRIES} hits", _many(Store(Path(folder), limit_mb=1024), job), "s", ENTRIES * HIT_TARGET_S


def _job() -> ValidationJob:
    """The reduction of the examples against itself."""
    folder = configs_folder() / "examples"
    text = (folder / "reduce_tree.ptx").read_text(encoding="utf-8")
    launch = read_spec(folder / "reduce.toml").candidate.launch
    return ValidationJob("reduce", text, launch, reference=PtxReference(text, "", launch, "itself"))


def _hit(store: Store, job: ValidationJob) -> float:
    """Seconds from a job to its stored report, as a session takes them. Raises InternalError where it is not there."""
    start = time.perf_counter()
    for key in proof_keys(job):
        found = store.get_json(VERDICTS, key)
        if found is not None:
            proved_from_json(found[0])
            return time.perf_counter() - start
    raise InternalError("a stored proof was not found again")


def _first_hit(folder: Path, job: ValidationJob) -> float:
    """As in a process that has not yet asked which version of us it runs."""
    own_version.cache_clear()
    return _hit(Store(folder), job)


def _many(store: Store, job: ValidationJob) -> float:
    report = validate(job)
    jobs = [replace(job, entry="", ptx=f"{job.ptx}\n// {number}\n") for number in range(ENTRIES)]
    for one in jobs:
        put_proof(store, one, report, proof_keys(one)[0])
    return sum(_hit(store, one) for one in jobs)
