"""The VOLTA_* variables: what each may hold, and what is wrong with those that are set.

Names that belong to the Node.js tool Volta (VOLTA_HOME and friends) are left alone.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

#: the compute capabilities that Triton 3.7 to 3.9 compiles for
ARCHS = (75, 80, 86, 87, 89, 90, 100, 101, 103, 110, 120, 121)


@dataclass(frozen=True)
class Variable:
    """One variable: the pattern its value must match, what that is in words, and what it does."""

    name: str
    pattern: str
    expects: str
    meaning: str


VARIABLES = (
    Variable(
        "VOLTA_VALIDATE",
        r"(?i:0|1|on|off|true|false|yes|no|warn|strict)",
        "0, 1, warn or strict",
        "validate every kernel that is compiled and launched",
    ),
    Variable("VOLTA_TARGET", r"cuda:(sm_?)?\d+[af]?", "a target such as cuda:80", "compile for this target and run without a GPU"),
    Variable(
        "VOLTA_REPORT",
        rf"(?i:[^{os.pathsep}]+\.(json|html|md|sarif|junit\.xml)({re.escape(os.pathsep)}(?=.)|$))+",
        "the path of a .json, .html, .md, .sarif or .junit.xml file, or several",
        "write the reports there when the program ends",
    ),
    Variable("VOLTA_SECONDS", r"[0-9]{1,12}(\.[0-9]*)?", "a number of seconds, 0 for no limit", "budget of one validation"),
    Variable("VOLTA_CTAS", r"all|[1-9][0-9]{0,9}", "all or a positive number", "execute at most so many CTAs of a launch"),
    Variable("VOLTA_JOBS", r"[1-9][0-9]{0,5}", "a positive number", "processes for the CTA batches of a large launch"),
    Variable("VOLTA_DECIDE", r"exact|fingerprint", "exact or fingerprint", "accept matching fingerprints as a (probabilistic) proof"),
    Variable("VOLTA_CACHE_DIR", r".+", "a folder", "where verdicts and references are kept"),
    Variable("VOLTA_CACHE_MB", r"[0-9]{1,12}(\.[0-9]*)?", "a number of MiB", "bound of that folder; the least recently used goes first"),
    Variable("VOLTA_STORE", r"[a-z0-9+]+://.+", "an fsspec URL such as s3://bucket/folder", "a store of verdicts shared by a team"),
    Variable("VOLTA_STORE_MODE", r"ro|rw", "ro or rw", "whether the shared store is written to (default: rw)"),
    Variable("VOLTA_BASELINE", r".+", "a folder", "record every validated launch there (volta-pass baseline record sets it)"),
    Variable("VOLTA_DEBUG", r"0|1", "0 or 1", "show tracebacks of internal errors"),
)

#: variables of the Node.js version manager of the same name
_FOREIGN = {"VOLTA_HOME", "VOLTA_BYPASS", "VOLTA_FEATURE_PNPM", "VOLTA_LOGLEVEL", "VOLTA_UNSAFE_GLOBAL", "VOLTA_INSTALL_DIR"}


def environment_errors(environ: Mapping[str, str]) -> list[str]:
    """One sentence per VOLTA_* variable whose value means nothing here."""
    errors = []
    for variable in VARIABLES:
        value = environ.get(variable.name, "")
        if value and not re.fullmatch(variable.pattern, value):
            errors.append(f"{variable.name}={value!r} must be {variable.expects}")
    target = environ.get("VOLTA_TARGET", "")
    if re.fullmatch(r"cuda:(sm_?)?\d+[af]?", target) and int(re.sub(r"\D", "", target)) not in ARCHS:
        errors.append(f"VOLTA_TARGET={target!r} is no target that Triton compiles for: cuda: and one of {', '.join(map(str, ARCHS))}")
    if any(os.path.isdir(path) for path in filter(None, environ.get("VOLTA_REPORT", "").split(os.pathsep))):
        errors.append(f"VOLTA_REPORT={environ['VOLTA_REPORT']!r} is a folder, it must be the path of a file")
    for name in ("VOLTA_CACHE_DIR", "VOLTA_BASELINE"):
        folder = environ.get(name, "")
        if folder and os.path.exists(folder) and not os.path.isdir(folder):
            errors.append(f"{name}={folder!r} is no folder")
    return errors


def environment_warnings(environ: Mapping[str, str]) -> list[str]:
    """One sentence per VOLTA_* variable that nobody reads: most likely a typing error."""
    known = [variable.name for variable in VARIABLES]
    warnings = []
    for name in sorted(environ):
        if name.startswith("VOLTA_") and name not in known and name not in _FOREIGN:
            close = difflib.get_close_matches(name, known, n=1)
            warnings.append(f"{name} is not a variable of volta-pass" + (f"; did you mean {close[0]}?" if close else ""))
    return warnings
