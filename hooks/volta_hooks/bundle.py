"""Bug bundles: a zip of everything needed to see a failure again: PTX, tile program, launch, verdict, traceback."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path

from volta_pass.job import TtirReference, ValidationJob, launch_to_json
from volta_pass.kernel_report import KernelReport
from volta_pass.store import digest

FOLDER = "volta-report"

#: language of a source -> ending of its file
_ENDINGS = {"ttir": "ttir.mlir", "tile": "tile.json"}


def write_bundle(job: ValidationJob, *, report: KernelReport | None = None, trace: str = "", folder: str = FOLDER) -> str:
    """Write ``volta-report/KERNEL-HASH.zip``; its path, or "" where the folder cannot be written."""
    name = re.sub(r"[^\w.-]", "_", job.kernel)[:80]
    files = {"kernel.ptx": job.ptx, "launch.json": _json(launch_to_json(job.launch)), "kernel.json": _json(_facts(job))}
    if job.source is not None:
        files[f"kernel.{_ENDINGS[job.language]}"] = job.source
    if isinstance(job.reference, TtirReference):
        files[f"reference.{_ENDINGS[job.reference.language]}"] = job.reference.text
        files["reference-launch.json"] = _json(launch_to_json(job.reference.launch))
    if report is not None:
        files["report.json"] = _json(report.to_json())
    if trace:
        files["traceback.txt"] = trace
    path = Path(folder) / f"{name}-{digest(job.ptx, files['launch.json'])[:8]}.zip"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for entry, text in sorted(files.items()):
                archive.writestr(entry, text)
    except OSError:
        return ""
    return str(path)


def _facts(job: ValidationJob) -> Mapping[str, object]:
    return {
        "kernel": job.kernel,
        "entry": job.entry,
        "configuration": {key: str(value) for key, value in job.configuration.items()},
        "target": job.target,
        "toolchain": dict(job.toolchain),
        "reference": job.reference.label if job.reference is not None else None,
    }


def _json(value: object) -> str:
    return json.dumps(value, indent=2, default=str) + "\n"
