"""Recorded TileLang kernels: what it takes to compile one again, and ``python -m volta_hooks.tilelang_again REQUEST``, which does so.

A recipe holds the function as TVM's JSON, as it was before the first pass: data, no code of the user's. The process records what it
compiles, without validating it, where ``VOLTA_BASELINE`` says; the validator runs it and reads that recording.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

#: exit codes of the process
REFUSED, MISSING = 3, 4


def recipe(func: Any, number: int, values: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """JSON values from which the ``number``-th kernel of a function is compiled again for a launch of these sizes and scalars."""
    import tilelang  # noqa: F401  (it brings its own TVM)
    import tvm

    plain = {str(name): value for name, value in values.items() if isinstance(value, (bool, int, float, str))}
    if len(plain) < len(values):
        return {"compiler": "tilelang", "refused": "an argument that is no number"}
    options = {str(name): value for name, value in config.items() if isinstance(value, (bool, int, str))}
    return {"compiler": "tilelang", "source": str(tvm.ir.save_json(func)), "kernel": number, "values": plain, "options": options}


def run(path: str) -> int:
    """Compile what a request names and record its launches; says on stderr why it cannot."""
    try:
        import tilelang
        import tvm
    except ImportError as error:
        print(f"TileLang is not installed: {error}", file=sys.stderr)
        return MISSING
    from volta_hooks import tilelang_runtime
    from volta_hooks.policy import Mode
    from volta_hooks.tilelang_gemm import with_fewer_slots
    from volta_hooks.tilelang_guard import check
    from volta_hooks.tilelang_threads import with_bound_threads
    from volta_pass.job import ValidationJob
    from volta_pass.kernel_report import KernelReport

    with open(path, encoding="utf-8") as file:
        request = json.load(file)
    session = tilelang_runtime.install(Mode.WARN)

    def recorded(job: ValidationJob, **_: Any) -> KernelReport:
        """The comparison with the old kernel validates it; here it is only captured."""
        report = KernelReport(job.kernel, dict(job.configuration), job.target)
        assert session.recording is not None
        session.recording.add(job, job.recipe, report)
        return report

    session.run = recorded  # type: ignore[method-assign]
    session.quiet = True
    target = {"kind": "cuda", "arch": request["target"]}
    try:
        func = with_fewer_slots(with_bound_threads(tvm.ir.load_json(request["source"])))
        kernel = tilelang.compile(func, target=target, pass_configs=request["options"])
    except Exception as error:  # the compiler's own errors have many classes
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return REFUSED
    check(session, kernel._volta, request["values"])
    return 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1]))
