"""Kernels in the manner of frameworks and inference engines, each against a naive one, each with broken twins that must not pass.

``people/NAME.cu`` holds both kernels, ``ref`` and the one under test; ``MUTANT`` chooses a twin that is wrong in one detail.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ptx_engine.launch import Role, ScalarArg, TensorArg
from ptx_engine.verdict import Status
from volta_hooks.cuda import cuda_kernel

FOLDER = Path(__file__).parent / "people"
Extent = int | tuple[int, ...]


def tensor(role: str, dtype: str, *shape: int, contents: object = "symbolic") -> tuple[Role, str, tuple[int, ...], object]:
    return {"in": Role.IN, "out": Role.OUT, "inout": Role.INOUT}[role], dtype, shape, contents


@dataclass(frozen=True)
class Case:
    """``args`` by name: a tensor, a number, or the type of a symbolic scalar; ``launch`` and ``ref`` are (grid, block[, shared bytes])."""

    args: dict[str, Any]
    launch: tuple[Any, ...]
    ref: tuple[Any, ...]
    mutants: tuple[int, ...] = (1,)
    entry: str = "opt"
    archs: tuple[int, ...] = (75, 89)
    outputs: tuple[str, ...] = field(default=())

    def arguments(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in self.args.items():
            if isinstance(value, tuple):
                role, dtype, shape, contents = value
                value = TensorArg(name, dtype, shape, role, contents=np.array(contents) if isinstance(contents, list) else contents)
            elif isinstance(value, str):
                value = ScalarArg(name, value, "symbolic")
            found[name] = value
        return found


CASES: dict[str, Case] = {
    "groupnorm_silu": Case(
        {"x": tensor("in", "f32", 2, 4, 32), "w": tensor("in", "f32", 4), "b": tensor("in", "f32", 4), "y": tensor("out", "f32", 2, 4, 32),
         "C": 4, "HW": 32, "G": 2, "eps": 1e-5},
        ((2, 2), 128), ((2, 2), 1),
    ),
    "warp_softmax": Case(
        {"dst": tensor("out", "f32", 5, 50), "src": tensor("in", "f32", 5, 50), "batch": 5, "stride": 50, "count": 50},
        (2, (32, 2)), (5, 1), entry="softmax_warp_forward<6, false>",
    ),
    "splitk_semaphore": Case(
        {"A": tensor("in", "f32", 4, 24), "B": tensor("in", "f32", 24, 8), "C": tensor("out", "f32", 4, 8), "ws": tensor("inout", "f32", 3, 4, 8),
         "sem": tensor("inout", "s32", 1, contents=[0]), "M": 4, "N": 8, "K": 24, "splits": 3},
        ((1, 1, 3), (8, 4)), (1, (8, 4)), outputs=("C",),
    ),
    "splitk_in_turn": Case(
        {"A": tensor("in", "f32", 24), "B": tensor("in", "f32", 24, 64), "C": tensor("out", "f32", 64), "locks": tensor("inout", "s32", 1, contents=[0]),
         "K": 24, "splits": 3},
        (3, 64), (1, 64), (1, 2), outputs=("C",),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "arch"), [(name, arch) for name, case in CASES.items() for arch in case.archs])
def test_a_kernel_and_its_broken_twins(name: str, arch: int) -> None:
    case, path = CASES[name], FOLDER / f"{name}.cu"
    reference = cuda_kernel(path, entry="ref", arch=arch, defines={"MUTANT": 0})[case.ref]
    for mutant in (0, *case.mutants):
        kernel = cuda_kernel(path, entry=case.entry, arch=arch, defines={"MUTANT": mutant})
        report = kernel[case.launch].validate(case.arguments(), reference=reference, outputs=case.outputs)
        expected = Status.REFUTED if mutant else Status.PROVED
        assert report.status is expected, (mutant, report.reason, report.errors, report.findings[:1])


def test_every_kernel_has_a_case() -> None:
    assert {path.stem for path in FOLDER.glob("*.cu")} == set(CASES)
