"""``volta-pass bench decide``: seconds and memory of the decider on the kernels of machine learning, Z3 beside it, and how it grows.

Both sides of a case are different programs (one thread's loops against tensor-core fragments, textbook against online
softmax, two passes against moments), built in the arena: building them is no part of deciding. Targets are CPU seconds.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys

from volta_pass.cli.bench_decide_case import CASES, Figures
from volta_pass.cli.bench_decide_scaling import SERIES
from volta_pass.cli.bench_order import exponent

PEAK_TARGET_MIB = 2048.0
EXPONENT_TARGET = 1.15
#: what Z3 is given for one element; encoding and stopping come on top
Z3_LIMIT_S = 10
_GRACE_S = 30

#: name, figure, unit, most allowed (None: shown only)
Line = tuple[str, float, str, "float | None"]


def measure() -> list[Line]:
    """All rows; each case, and Z3 on it, in a process of its own."""
    lines: list[Line] = []
    for name, case in CASES.items():
        lines += lines_of(name, Figures(**json.loads(child("bench_decide_case", name))), case.target_s)
        if not case.alone:
            lines.append(_z3_line(name))
    return lines + scaling_lines(json.loads(child("bench_decide_scaling")))


def lines_of(name: str, found: Figures, target_s: float) -> list[Line]:
    """The rows of one case; of one that is not proved a single one that says so."""
    if not found.proved:
        return [(f"{name}: not proved: {found.reason}", 1, "failures", 0)]
    return [
        (f"{name}: decide, CPU", found.decide_s, "s", target_s),
        (f"{name}: decide, wall", found.wall_s, "s", None),
        (f"{name}: build, CPU", found.build_s, "s", None),
        (f"{name}: peak", found.peak_mib, "MiB", PEAK_TARGET_MIB),
        (f"{name}: outputs", found.outputs, "", None),
        (f"{name}: one output, CPU", found.element_s, "s", None),
    ]


def _z3_line(name: str) -> Line:
    """Z3 on one output: its CPU seconds, and in the unit what it answered."""
    if importlib.util.find_spec("z3") is None:
        return (f"{name}: Z3", 0, "not installed", None)
    try:
        found = json.loads(child("bench_decide_z3", name, str(Z3_LIMIT_S * 1000), timeout_s=Z3_LIMIT_S + _GRACE_S))
    except subprocess.TimeoutExpired:
        return (f"{name}: Z3", Z3_LIMIT_S + _GRACE_S, "s (stopped)", None)
    except subprocess.CalledProcessError as error:
        return (f"{name}: Z3", 0, f"failed ({error.returncode})", None)
    return (f"{name}: Z3 {found['version']}", found["seconds"], f"s ({found['answer']})", None)


def scaling_lines(seconds: dict[str, list[float]]) -> list[Line]:
    """The seconds of every size, and the exponent of each series."""
    lines: list[Line] = []
    for name, found in seconds.items():
        series = SERIES[name]
        lines += [(f"{name}, {series.size_name}={size}", s, "s", None) for size, s in zip(series.sizes, found)]
        lines.append((f"{name}: over {series.size_name}", exponent(list(series.sizes), found), "exponent", EXPONENT_TARGET))
    return lines


def child(module: str, *arguments: str, timeout_s: float | None = None) -> str:
    """What a module of ours prints in a fresh interpreter."""
    command = [sys.executable, "-m", f"volta_pass.cli.{module}", *arguments]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(command, env=environ, check=True, timeout=timeout_s, stdout=subprocess.PIPE, text=True)
    return done.stdout
