"""The kernels of configs/suite/tilelang: proved and free of races; mutants, and texts without a barrier or wait, found out.

A barrier, wait or commit that is taken out of the generated CUDA text is reported, or it was redundant by the word of
``interval_judge``, which hears of every access of the changed kernel and knows nothing of the checker. Three kinds are:

* the commit before ``tl::cp_async_wait<0>()``, which is ``cp.async.wait_all``: that waits for what was not committed, too;
* the first barrier of the attention kernels, before which nothing has touched shared memory;
* barriers of the dequantised product between whose neighbours every access is a thread's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from unittest.mock import patch

import pytest
from interval_judge import JudgedChecker
from mutants import MUTANTS, SYNCHRONISATION, without
from suite import KERNELS

from ptx_engine.verdict import Status
from volta_pass.job import Options
from volta_pass.kernel_report import KernelReport

Compile = Callable[..., list[KernelReport]]

#: proved on both targets at every run; the others at one of them, at both every night
BOTH = ("matmul 32x32x32 s2", "softmax", "attention", "dequantised")
#: what may order threads, in the text of any kernel
ORDERS = re.compile(r"(?<!mma_)(?<!cp_a)sync(?!<)|_wait|commit|(?<!Named)barrier|arrive|fence", re.IGNORECASE)
#: kernel, target, its synchronising statements, and by number those that nothing needs
SLICE: list[tuple[str, int, int, list[int]]] = [
    ("matmul 32x32x32 s1", 80, 7, [0, 4]), ("matmul 32x32x32 s2", 89, 7, []), ("split k", 80, 6, []), ("softmax", 89, 0, []),
]  # fmt: skip


def proved(reports: list[KernelReport]) -> None:
    assert [report.status for report in reports] == [Status.PROVED], [(r.reason, r.errors) for r in reports]
    assert not reports[0].error_findings
    assert reports[0].ctas_executed == reports[0].ctas_total


def matrix() -> list[object]:
    rows = []
    for i, name in enumerate(KERNELS):
        for j, arch in enumerate((80, 89)):
            daily = name in BOTH or (i % 2 == j and name != "attention s2")
            rows.append(pytest.param(name, arch, marks=() if daily else pytest.mark.slow, id=f"{name} sm_{arch}"))
    return rows


@pytest.mark.parametrize(("name", "arch"), matrix())
def test_kernels_are_proved(name: str, arch: int, compiled: Compile) -> None:
    proved(compiled(KERNELS[name](), arch))


def mutants() -> list[object]:
    daily = {"matmul 32x32x32 s3", "elementwise", "softmax", "attention", "dequantised", "split k"}
    costly = {"powers of another base"}  # to decide
    rows = []
    for name in KERNELS:
        for mutant in MUTANTS[name.split()[0]]:
            rows.append(
                pytest.param(
                    name, mutant, marks=() if name in daily and mutant.what not in costly else pytest.mark.slow, id=f"{name}: {mutant.what}"
                )
            )
    return rows


@pytest.mark.parametrize(("name", "mutant"), mutants())
def test_mutants_are_refuted(name: str, mutant: Callable[[str], str], compiled: Compile) -> None:
    report = compiled(KERNELS[name](), change=mutant)[0]
    assert report.status is Status.REFUTED, (report.reason, report.errors)
    assert report.blame.party in ("compiler", "kernel")


@dataclass(frozen=True)
class Deletion:
    """What became of a kernel without one synchronising statement."""

    statement: str
    report: KernelReport
    #: accesses that the judge objects to
    conflicts: int


def deletions(name: str, arch: int, compiled: Compile, cuda_text: Callable[..., str]) -> list[Deletion]:
    """Every synchronising statement of the kernel's CUDA text taken out in turn; what the checker and the judge each say."""
    text = cuda_text(KERNELS[name](), arch)
    statements = [found.group().strip() for found in SYNCHRONISATION.finditer(text)]
    assert [line.strip() for line in text.splitlines() if ORDERS.search(line)] == statements  # none is overlooked
    rows = []
    for number, statement in enumerate(statements):
        JudgedChecker.latest = None
        with patch("ptx_engine.machine.executor.OrderChecker", JudgedChecker):
            (report,) = compiled(KERNELS[name](), arch, change=without(number))
        assert JudgedChecker.latest is not None  # executed, not remembered
        rows.append(Deletion(statement, report, JudgedChecker.latest.conflicts))
    return rows


def redundant(rows: list[Deletion]) -> list[int]:
    """Checker and judge agree about every deletion; the numbers of the statements that nothing needs."""
    for number, row in enumerate(rows):
        found = {finding.kind for finding in row.report.error_findings}
        assert ("data race" in found) == bool(row.conflicts), (number, row.statement, found, row.conflicts)
        assert row.report.status is (Status.REFUTED if found else Status.PROVED), (number, row.statement, row.report.reason)
    return [number for number, row in enumerate(rows) if not row.conflicts]


@pytest.mark.parametrize(("name", "arch", "count", "spare"), SLICE, ids=[f"{row[0]} sm_{row[1]}" for row in SLICE])
def test_every_barrier_and_wait_of_a_slice(
    name: str, arch: int, count: int, spare: list[int], compiled: Compile, cuda_text: Callable[..., str]
) -> None:
    rows = deletions(name, arch, compiled, cuda_text)
    assert (len(rows), redundant(rows)) == (count, spare)


@pytest.mark.parametrize(
    ("status", "found", "conflicts"), [(Status.PROVED, [], 4), (Status.REFUTED, ["data race"], 0), (Status.UNKNOWN, [], 0)]
)
def test_no_verdict_is_taken_on_its_own_word(status: Status, found: list[str], conflicts: int) -> None:
    report = SimpleNamespace(status=status, error_findings=[SimpleNamespace(kind=kind) for kind in found], reason="")
    with pytest.raises(AssertionError):
        redundant([Deletion("__syncthreads();", report, conflicts)])  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("arch", [80, 89])
@pytest.mark.parametrize("name", KERNELS)
def test_every_barrier_and_wait(name: str, arch: int, compiled: Compile, cuda_text: Callable[..., str]) -> None:
    rows = deletions(name, arch, compiled, cuda_text)
    assert rows or name in ("elementwise", "softmax")  # nothing is shared there
    assert len(redundant(rows)) <= len(rows) / 2


@pytest.mark.parametrize("ctas", ["3", "all"])
def test_sampled_blocks_in_another_order(ctas: str, compiled: Compile, monkeypatch: pytest.MonkeyPatch, session: object) -> None:
    """With ``use_swizzle`` CTA 3 is another tile than block 3 of the program: what both wrote is compared."""
    monkeypatch.setattr(session, "options", Options.from_environment({"VOLTA_CTAS": ctas}))
    report = compiled(KERNELS["matmul 64x64x32 s2 swizzled"]())[0]
    assert report.status is Status.PROVED, (report.reason, report.errors)
    assert report.output_elements == (3 * 64 * 64 if ctas == "3" else 256 * 256)
