"""The confluence theorem on compiled kernels: any schedule gives the same terms up to renaming, and the same findings.

Schedules: warps backwards, warps in random order, one CTA at a time, and parts of warps where nothing makes a warp converge. Terms are compared by a hash of their structure
(``term_digest``), element by element. With a barrier deleted every schedule reports the race, at the same instructions.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from compiled_kernels import Case, Configuration, compiled_job, flash_attention, layer_norm, matmul, softmax, vector_add
from schedules import Backwards, Shuffled, warps
from term_digest import TermDigest

from ptx_engine.findings import Severity
from ptx_engine.launch import bind
from ptx_engine.machine import Budget, execute
from ptx_engine.machine.schedule import LowestFirst, Schedule
from ptx_engine.syntax import parse
from ptx_engine.terms import Arena
from volta_pass.job import ValidationJob

pytest.importorskip("triton")

CASES = {
    "vector_add": vector_add(300, 128),
    "softmax": softmax(2, 200, 256),
    "layer_norm": layer_norm(2, 136, 128),
    "matmul": matmul(m=80, n=80, k=72, blocks=(32, 32, 32)),
    "matmul-tf32": matmul("f32", m=32, n=48, k=40, blocks=(32, 16, 16)),
    "attention": flash_attention(n=64, d=16, heads=2, block_m=32, block_n=16),
    "attention-causal": flash_attention(True, n=64, d=16, block_m=32, block_n=16),
}
UNLIMITED = Budget()
CONFIGURATIONS = {"one warp": Configuration(80, 1, 2), "four warps": Configuration(80, 4, 3), "eight warps": Configuration(89, 8, 4)}
SCHEDULES: dict[str, Callable[[], Schedule]] = {
    "backwards": Backwards,
    "shuffled warps": lambda: Shuffled(1),
    "shuffled lanes": lambda: Shuffled(2, lanes=True),
}


@dataclass(frozen=True)
class Outcome:
    """What one execution found and wrote: sites of each finding, and for every output its elements and the digests of their terms."""

    findings: frozenset[tuple[str, str, tuple[int, ...]]]
    outputs: dict[str, tuple[bytes, bytes]]


def run(job: ValidationJob, ptx: str, schedule: Callable[[], Schedule] = LowestFirst, budget: Budget = UNLIMITED) -> Outcome:
    arena = Arena()
    bound = bind(job.launch, arena)
    done = execute(parse(ptx), None, bound, budget=budget, schedule=schedule)
    digest = TermDigest(arena)
    outputs = {name: (f.index.tobytes(), digest.of(f.ids).tobytes()) for name, f in done.footprints.items()}
    errors = [f for f in done.findings if f.severity is Severity.ERROR]
    return Outcome(frozenset((f.kind, f.space, tuple(sorted(s.instruction for s in f.sites[:2]))) for f in errors), outputs)


@functools.cache
def usual(name: str, configuration: str) -> Outcome:
    """The machine's own schedule."""
    job = job_of(name, configuration)
    return run(job, job.ptx)


def job_of(name: str, configuration: str) -> ValidationJob:
    return compiled_job(CASES[name], CONFIGURATIONS[configuration])


def assert_same(name: str, configuration: str, schedule: str) -> None:
    job, expected = job_of(name, configuration), usual(name, configuration)
    assert expected.findings == frozenset() and all(len(index) for index, _ in expected.outputs.values())
    if schedule == "one CTA at a time":
        found = run(job, job.ptx, budget=Budget(batch_threads=job.launch.threads))
    else:
        found = run(job, job.ptx, SCHEDULES[schedule])
    assert found == expected


SLICE = [
    ("vector_add", "four warps", "shuffled lanes"), ("softmax", "four warps", "shuffled warps"), ("softmax", "one warp", "shuffled lanes"),
    ("layer_norm", "eight warps", "backwards"), ("layer_norm", "four warps", "one CTA at a time"), ("matmul", "four warps", "backwards"),
    ("matmul", "four warps", "shuffled warps"), ("matmul-tf32", "one warp", "one CTA at a time"), ("attention", "four warps", "shuffled warps"),
    ("attention-causal", "one warp", "backwards"),
]  # fmt: skip
#: kernels without instructions that a warp must execute together (bar.sync, ldmatrix, mma), whose lanes may part
LANEWISE = [("vector_add", "one warp"), ("vector_add", "four warps"), ("vector_add", "eight warps"), ("softmax", "one warp")]


@pytest.mark.parametrize(("name", "configuration", "schedule"), SLICE)
def test_other_schedules_give_the_same_terms(name: str, configuration: str, schedule: str) -> None:
    assert_same(name, configuration, schedule)


def test_the_slice_meets_every_kernel_configuration_and_schedule() -> None:
    assert {row[0] for row in SLICE} == set(CASES)
    assert {row[1] for row in SLICE} == set(CONFIGURATIONS)
    assert {row[2] for row in SLICE} == {*SCHEDULES, "one CTA at a time"}


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["backwards", "shuffled warps", "one CTA at a time"])
@pytest.mark.parametrize("configuration", CONFIGURATIONS)
@pytest.mark.parametrize("name", CASES)
def test_all_schedules_of_all_kernels(name: str, configuration: str, schedule: str) -> None:
    assert_same(name, configuration, schedule)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "configuration"), LANEWISE)
def test_lanes_that_part(name: str, configuration: str) -> None:
    assert_same(name, configuration, "shuffled lanes")


@pytest.mark.parametrize(("name", "schedule"), [("softmax", "backwards"), ("layer_norm", "shuffled warps"), ("matmul", "backwards")])
def test_a_deleted_barrier_is_reported_by_every_schedule(name: str, schedule: str) -> None:
    """What the threads read depends on the schedule then, even whether it has been stored; which of them race does not."""
    job = job_of(name, "four warps")
    ptx = job.ptx.replace("bar.sync \t0;", "", 1)
    assert ptx != job.ptx
    found = [{f for f in run(job, ptx, chosen).findings if f[0] == "data race"} for chosen in (LowestFirst, SCHEDULES[schedule])]
    assert found[0] and found[0] == found[1]


# --- the tools themselves ---------------------------------------------------------------------------


def test_the_digest_tells_terms_apart_and_knows_renamed_ones() -> None:
    first, second = Arena(), Arena()
    x, y = (np.array([-1 - arena.add_input("x", 2, "f32").base, -2], np.int32) for arena in (first, second))
    a, swapped = first.add(x[:1], x[1:]), first.add(x[1:], x[:1])
    second.mul(y[:1], y[1:])  # ids of the second arena are one further
    b = second.add(y[:1], y[1:])
    one, two = TermDigest(first), TermDigest(second)
    assert a[0] != b[0] and one.of(a) == two.of(b)
    assert one.of(a) != one.of(swapped)


def test_the_digest_of_a_dot_knows_the_order_of_its_products() -> None:
    arena = Arena()
    base = arena.add_input("x", 8, "f32").base
    ids = (-1 - base - np.arange(8)).astype(np.int32)
    rows, cols, acc = ids[:2].reshape(1, 1, 2), ids[2:4].reshape(1, 1, 2), ids[4:5].reshape(1, 1, 1)
    terms = [arena.dot(rows, cols, acc), arena.dot(rows[:, :, ::-1].copy(), cols[:, :, ::-1].copy(), acc), arena.dot(cols, rows, acc)]
    digest = TermDigest(arena)
    assert len({int(digest.of(term).ravel()[0]) for term in terms}) == 3


def test_schedules_begin_with_all_threads_once() -> None:
    for schedule in (LowestFirst(), Backwards(), Shuffled(3), Shuffled(4, lanes=True)):
        parts = schedule.begin(3 * 80, 80)
        assert sorted(np.concatenate(parts).tolist()) == list(range(240))
        assert all((np.diff(part) > 0).all() for part in parts)
    assert [len(part) for part in warps(160, 80)] == [32, 32, 16, 32, 32, 16]


def test_a_case_of_every_kernel() -> None:
    assert all(isinstance(case, Case) for case in CASES.values())
    assert {case.file for case in CASES.values()} == {"vector_add", "softmax", "layer_norm", "matmul", "flash_attention"}
