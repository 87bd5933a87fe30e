"""The pytest plugin: ``pytest --volta`` validates every kernel that the tests compile, and a refuted one fails its test.

``volta_check(kernel, grid, *args)`` validates one launch; ``@pytest.mark.volta_refuted`` is for tests whose kernels must be
refuted. Loaded by every pytest in the environment, so that it imports nothing of ours until it is asked to.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from volta_hooks.session import Session
    from volta_pass.kernel_report import KernelReport

MARKER = "volta_refuted"
_ROWS = pytest.StashKey[list[dict[str, Any]]]()
_FIRST = pytest.StashKey[dict[int, int]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("volta", "validation of GPU kernels")
    group.addoption("--volta", action="store_true", help="validate every kernel that the tests compile; a refuted one fails its test")
    group.addoption("--volta-target", default=None, metavar="cuda:80", help="compile for this target and run without a GPU")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{MARKER}(kernel=None): the test's kernels (or the one so named) must be refuted")
    config.stash[_ROWS] = []
    if config.getoption("--volta"):
        _turn_on(config.getoption("--volta-target"))
    elif config.getoption("--volta-target"):
        raise pytest.UsageError("--volta-target needs --volta")


def _turn_on(target: str | None) -> None:
    """What ``VOLTA_VALIDATE=1`` does, from here on. Raises UsageError for variables that mean nothing."""
    if os.environ.get("VOLTA_VALIDATE", "").lower() in ("", "0", "off", "false", "no"):
        os.environ["VOLTA_VALIDATE"] = "1"
    if target:
        os.environ["VOLTA_TARGET"] = target
    from volta_hooks.policy import SettingError, check_settings

    try:
        check_settings()
    except SettingError as error:
        raise pytest.UsageError(f"{error}\n  help: {error.hint}") from None
    from volta_hooks import autoload

    autoload.install()


# --- a test -------------------------------------------------------------------------------------


def _sessions() -> list[Session]:
    """The validators of this process; none if no compiler has been imported under validation."""
    import sys

    module = sys.modules.get("volta_hooks.session")
    return list(module.sessions()) if module is not None else []


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[_FIRST] = {id(session): len(session.reports) for session in _sessions()}


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    outcome = yield
    if call.when != "call" or not (item.config.getoption("--volta") or "volta_check" in getattr(item, "fixturenames", ())):
        return  # kernels that a test validates by itself are its own affair
    reports = _of_test(item)
    item.config.stash[_ROWS] += [_row(item, report) for report in reports]
    _judge(item, outcome.get_result(), reports)  # type: ignore[attr-defined]


def _of_test(item: pytest.Item) -> list[KernelReport]:
    """What was validated since the test began."""
    first = item.stash.get(_FIRST, {})
    return [report for session in _sessions() for report in session.reports[first.get(id(session), 0) :]]


def _row(item: pytest.Item, report: KernelReport) -> dict[str, Any]:
    return {
        "test": item.nodeid, "kernel": report.kernel, "configuration": report.configuration_text(), "verdict": report.verdict,
        "reason": report.reason, "cached": report.cached, "expected": item.get_closest_marker(MARKER) is not None,
    }  # fmt: skip


def _judge(item: pytest.Item, result: pytest.TestReport, reports: list[KernelReport]) -> None:
    """Fail a passed test whose kernels were refuted; under the marker it is the other way round."""
    refuted = [report for report in reports if report.verdict == "refuted"]
    marker = item.get_closest_marker(MARKER)
    if marker is None:
        if refuted and result.passed:
            result.outcome = "failed"
            result.longrepr = "\n\n".join(_text(report) for report in refuted)
        return
    wanted = marker.kwargs.get("kernel") or (marker.args[0] if marker.args else None)
    expected = [report for report in refuted if wanted in (None, report.kernel)]
    surprises = [report for report in refuted if report not in expected]
    if surprises:
        result.outcome, result.longrepr = "failed", "\n\n".join(_text(report) for report in surprises)
    elif result.failed and _is_refutation(result):  # (a launch that an earlier test has met has no report of its own here)
        result.outcome, result.longrepr = "passed", None
    elif not expected and result.passed:
        seen = ", ".join(f"{report.kernel}: {report.verdict}" for report in reports) or "nothing was validated"
        missing = f"{wanted} was not" if wanted else "no kernel was"
        result.outcome, result.longrepr = "failed", f"marked {MARKER}, but {missing} refuted ({seen})"


def _is_refutation(result: pytest.TestReport) -> bool:
    crash = getattr(result.longrepr, "reprcrash", None)
    return crash is not None and "KernelRefuted" in str(crash.message)


def _text(report: KernelReport) -> str:
    from volta_pass.diagnostics import render

    return render(report)


# --- one launch ---------------------------------------------------------------------------------


@pytest.fixture
def volta_check(request: pytest.FixtureRequest) -> Callable[..., KernelReport]:
    """``volta_check(kernel, grid, *args, **constants)``: validate one launch; its report. A refuted kernel fails the test (unless it
    is marked ``volta_refuted``). Without a GPU and without ``VOLTA_TARGET``, kernels are compiled for sm_80."""
    _turn_on(os.environ.get("VOLTA_TARGET") or (None if _has_gpu() else "cuda:80"))

    def check(kernel: Any, grid: Any, *args: Any, **constants: Any) -> KernelReport:
        __tracebackhide__ = True
        before = {id(session): len(session.reports) for session in _sessions()}
        try:
            kernel[grid](*args, **constants)
        except Exception as error:
            if type(error).__name__ not in ("KernelRefuted", "KernelNotProved"):
                raise
            if request.node.get_closest_marker(MARKER) is None:
                pytest.fail(str(error), pytrace=False)
        new = [report for session in _sessions() for report in session.reports[before.get(id(session), 0) :]]
        if not new:
            pytest.fail(f"{getattr(kernel, '__name__', kernel)}: this launch was validated before, or nothing was launched", pytrace=False)
        return new[-1]

    return check


def _has_gpu() -> bool:
    import ctypes.util

    return ctypes.util.find_library("cuda") is not None


# --- the end ------------------------------------------------------------------------------------


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of pytest-xdist hands its rows to the controller; the table at exit is replaced by the summary."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["volta_rows"] = session.config.stash[_ROWS]
    for validator in _sessions():
        validator.quiet = True


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Of pytest-xdist: a worker has ended."""
    node.config.stash[_ROWS] += getattr(node, "workeroutput", {}).get("volta_rows", [])


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    rows = config.stash[_ROWS]
    if not rows:
        if config.getoption("--volta"):
            terminalreporter.write_line("volta: no kernel was validated")
        return
    counts = Counter("refuted as expected" if row["expected"] and row["verdict"] == "refuted" else row["verdict"] for row in rows)
    terminalreporter.section("volta")
    for row in rows:
        if row["verdict"] != "proved" and not row["expected"]:
            reason = f" ({row['reason']})" if row["reason"] else ""
            terminalreporter.write_line(f"{row['verdict']:11} {row['kernel']} {row['configuration']}  {row['test']}{reason}")
    said = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
    terminalreporter.write_line(f"{len(rows)} kernel launches validated: {said}")
