"""Symbolic against concrete on the kernels of configs/suite/tilelang: the terms of what is compiled agree with its values on bits."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from suite import KERNELS

from ptx_engine.verdict import Status
from volta_hooks.session import Session
from volta_pass.job import ValidationJob
from volta_pass.kernel_report import KernelReport

sys.path.insert(0, str(Path(__file__).parents[1] / "emulate"))
from agreement import Kernel, check, differences

#: one of each family; the rest runs at night
CHOSEN = ("matmul 32x32x32 s3", "matmul 32x32x32 s2 ragged", "elementwise", "softmax", "split k")


@pytest.fixture
def job(compiled: Callable[..., list[KernelReport]], session: Session, monkeypatch: pytest.MonkeyPatch) -> Callable[..., ValidationJob]:
    """``job(name, arch)``: what the hook would validate, taken before it is."""

    def run(name: str, arch: int = 80) -> ValidationJob:
        seen: list[ValidationJob] = []

        def taken(job: ValidationJob, **_: object) -> KernelReport:
            seen.append(job)
            return KernelReport(job.kernel, {}, job.target, Status.PROVED)

        monkeypatch.setattr(session, "run", taken)
        compiled(KERNELS[name](), arch)
        return seen[0]

    return run


def kernel_of(job: ValidationJob) -> Kernel:
    return Kernel(job.ptx, job.entry, job.launch)


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in CHOSEN else pytest.mark.slow) for name in KERNELS])
def test_modes_agree(name: str, job: Callable[..., ValidationJob]) -> None:
    check(kernel_of(job(name)), zlib.crc32(name.encode()))


def test_values_of_another_kernel_would_be_seen(job: Callable[..., ValidationJob]) -> None:
    """The negative twin: a kernel whose text is changed for one of the modes does not agree with itself."""
    kernel = kernel_of(job("elementwise"))
    other = Kernel(kernel.ptx.replace("max.f32", "min.f32"), kernel.entry, kernel.launch)
    assert other.ptx != kernel.ptx
    assert max(differences(kernel, 3, on_bits=other).values()) > 1
