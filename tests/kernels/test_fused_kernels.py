"""Fused blocks on compiled kernels, Triton's and CUDA C's: the arena, what was written, findings and counts are as by closures alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from compiled_kernels import Case, Configuration, compiled_job, flash_attention, layer_norm, matmul, softmax, vector_add

from ptx_engine.launch import BoundLaunch, bind
from ptx_engine.machine import Budget, execute
from ptx_engine.syntax import parse
from ptx_engine.terms import Arena
from ptx_engine.terms.arena import CONST_CAP
from volta_pass.check.binding import bind_sides
from volta_pass.check.options import CheckOptions
from volta_pass.check.sides import ready_side
from volta_pass.spec import read_spec

SUITE = Path(__file__).parents[2] / "configs" / "suite" / "cuda"
NEVER, AT_ONCE = None, -10_000
TRITON: dict[str, Case] = {
    "vector_add": vector_add(300, 128),
    "softmax": softmax(2, 200, 256),
    "layer_norm": layer_norm(2, 300, 128),
    "matmul": matmul(m=40, n=32, k=72, blocks=(32, 32, 32)),
    "attention": flash_attention(n=64, d=16, block_m=32, block_n=16),
}
#: specs whose sides run in a second; `make nightly` takes all
CUDA = ("reduce1", "reduce3", "layer_norm")


def outcome(arena: Arena, run: Callable[[BoundLaunch], object], bound: BoundLaunch) -> object:
    """All terms with who emitted them, and what the run says of itself."""
    done = run(bound)
    written = {name: (f.index.tolist(), f.ids.tolist()) for name, f in done.footprints.items()}  # type: ignore[attr-defined]
    origins = [getattr(arena.origin_of(ident), "instruction", None) for ident in range(CONST_CAP, len(arena))]
    said = (done.findings, done.instructions, done.assumptions)  # type: ignore[attr-defined]
    return [column.tobytes() for column in arena.columns()], origins, written, said


@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize("name", TRITON)
def test_triton_kernels(name: str, warps: int) -> None:
    pytest.importorskip("triton")
    job = compiled_job(TRITON[name], Configuration(80, warps, 3))
    found = []
    for fuse_after in (NEVER, AT_ONCE):
        arena = Arena()
        bound = bind(job.launch, arena)
        budget = Budget(fuse_after=fuse_after)
        found.append(outcome(arena, lambda b, budget=budget: execute(parse(job.ptx), None, b, budget=budget, source=job.ptx), bound))
    assert found[0] == found[1]


def cuda_outcomes(name: str, fuse_after: int | None, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The outcome of each side of a spec."""
    monkeypatch.setattr(CheckOptions, "budget", lambda self: Budget(fuse_after=fuse_after))
    spec, options = read_spec(SUITE / f"{name}.toml"), CheckOptions()
    sides = [ready_side(side, spec, options) for side in (spec.candidate, spec.reference) if side is not None]
    arena = Arena()
    return [outcome(arena, side.run, bound) for side, bound in zip(sides, bind_sides([side.launch for side in sides], arena))]


@pytest.mark.parametrize("name", CUDA)
def test_cuda_kernels(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cuda_outcomes(name, AT_ONCE, monkeypatch) == cuda_outcomes(name, NEVER, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(path.stem for path in SUITE.glob("*.toml")))
def test_all_cuda_kernels(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cuda_outcomes(name, AT_ONCE, monkeypatch) == cuda_outcomes(name, NEVER, monkeypatch)
