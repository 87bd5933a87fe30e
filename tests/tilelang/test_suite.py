"""The kernels of configs/suite/tilelang: proved and free of races; mutants, and texts without a barrier or wait, found out."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from mutants import MUTANTS, SYNCHRONISATION, without
from suite import KERNELS

from ptx_engine.verdict import Status
from volta_pass.job import Options
from volta_pass.kernel_report import KernelReport

Compile = Callable[..., list[KernelReport]]

#: proved on both targets at every run; the others at one of them, at both every night
BOTH = ("matmul 32x32x32 s2", "softmax", "attention", "dequantised")
#: here every one is needed
NEEDED = "matmul 32x32x32 s2"


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


@pytest.mark.parametrize("name", [NEEDED, *(pytest.param(name, marks=pytest.mark.slow) for name in KERNELS if name != NEEDED)])
def test_every_barrier_and_wait_is_needed_or_shown_redundant(name: str, compiled: Compile, cuda_text: Callable[[object], str]) -> None:
    func = KERNELS[name]()
    for number in range(len(SYNCHRONISATION.findall(cuda_text(func)))):
        report = compiled(func, change=without(number))[0]
        if report.status is Status.PROVED and name != NEEDED:
            continue  # redundant: a commit before cp.async.wait_all, a barrier between a thread and itself
        assert report.status is Status.REFUTED, (number, report.reason)
        assert any(finding.kind in ("data race", "uninitialised") for finding in report.error_findings)


@pytest.mark.parametrize("ctas", ["3", "all"])
def test_sampled_blocks_in_another_order(ctas: str, compiled: Compile, monkeypatch: pytest.MonkeyPatch, session: object) -> None:
    """With ``use_swizzle`` CTA 3 is another tile than block 3 of the program: what both wrote is compared."""
    monkeypatch.setattr(session, "options", Options.from_environment({"VOLTA_CTAS": ctas}))
    report = compiled(KERNELS["matmul 64x64x32 s2 swizzled"]())[0]
    assert report.status is Status.PROVED, (report.reason, report.errors)
    assert report.output_elements == (3 * 64 * 64 if ctas == "3" else 256 * 256)
