"""Compiled kernels with one barrier, wait or commit deleted, each in turn: a race is reported, or the deleted instruction was redundant.

Redundant is what ``interval_judge`` says, byte by byte and without the checker: it sees every access of the mutant, and none meets another
thread's (or a copy in flight) without a barrier between. The reasons, read from the PTX of the kernels below:

* FIRST: the prologue's first commit. Its copies go with the second group, and every wait for the first group waits for the second as well.
* PAIR: of two commits between which nothing waits, the first: both groups are waited for together (two stages: wait_group 0).
* AGAIN: a wait before which nothing was committed since a wait for as many groups. It has nothing left to wait for.
* TWICE: one of two equal waits in a row. The other one is enough.
* READS: a barrier between whose neighbours all accesses to shared memory are reads, or each thread's own.
* TAIL: the wait or the barrier behind the last turn of the loop, where the epilogue's buffer is none that a copy still under way fills or
  that the last turn reads behind its own last barrier. (attention, four warps, three stages: copies to bytes 1536-2048 and 2560-3072 are under
  way, the epilogue stores to 0-1024; causal, eight warps, one stage: the last turn reads 1024-1536, the epilogue stores to 0-1024.)

The whole matrix is slow; a slice of it, with its redundant instructions by number, is not.
"""

from __future__ import annotations

import functools
import itertools
import re
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
import pytest
from compiled_kernels import Configuration, compiled_job, flash_attention, layer_norm, matmul, softmax, vector_add
from interval_judge import Judge, JudgedChecker
from mutations import Instruction, Mutant, instructions

from ptx_engine.findings import Finding, Severity
from ptx_engine.launch import bind
from ptx_engine.machine import execute
from ptx_engine.syntax import parse
from ptx_engine.terms import Arena
from volta_pass.job import ValidationJob

pytest.importorskip("triton")

SYNCHRONISATION = re.compile(r"bar|cp\.async\.(wait|commit)")
CASES = {
    "vector_add": vector_add(300, 128),
    "softmax": softmax(2, 200, 256),
    "layer_norm": layer_norm(2, 136, 128),
    "matmul-fp16": matmul(m=40, n=40, k=112, blocks=(32, 32, 16)),
    "matmul-bf16": matmul("bf16", m=40, n=40, k=112, blocks=(32, 32, 16)),
    "matmul-tf32": matmul("f32", m=40, n=40, k=112, blocks=(32, 32, 16)),
    "attention": flash_attention(n=96, d=16, block_m=32, block_n=16),
    "attention-causal": flash_attention(True, n=96, d=16, block_m=32, block_n=16),
}
WARPS, STAGES = (1, 2, 4, 8), (1, 2, 3, 4)


@dataclass(frozen=True)
class Deletion:
    """What became of a kernel without one instruction: the findings, and the accesses that the judge objects to."""

    instruction: Instruction
    findings: tuple[Finding, ...]
    conflicts: int

    def __str__(self) -> str:
        return f"{self.instruction.text().strip()} at line {self.instruction.line}: {len(self.findings)} findings, judge {self.conflicts}"


def run(job: ValidationJob, ptx: str) -> tuple[tuple[Finding, ...], int]:
    """(errors found, conflicts that the judge sees)"""
    with patch("ptx_engine.machine.executor.OrderChecker", JudgedChecker):
        done = execute(parse(ptx), None, bind(job.launch, Arena()), source=ptx)
    return tuple(f for f in done.findings if f.severity is Severity.ERROR), JudgedChecker.latest.conflicts


def synchronisation(ptx: str) -> list[Instruction]:
    return [i for i in instructions(ptx) if SYNCHRONISATION.match(i.opcode)]


def deletions(name: str, configuration: Configuration) -> tuple[Deletion, ...]:
    job = compiled_job(CASES[name], configuration)
    return deletions_of(name, configuration, re.sub(r"^\.target .*$", "", job.ptx, flags=re.MULTILINE))


@functools.cache
def _judged() -> dict[tuple[str, str], tuple[Deletion, ...]]:
    """By kernel and text without its target: that of sm_80 and of sm_89 is one and the same for most kernels."""
    return {}


def deletions_of(name: str, configuration: Configuration, text: str) -> tuple[Deletion, ...]:
    if (name, text) not in _judged():
        job = compiled_job(CASES[name], configuration)
        assert run(job, job.ptx) == ((), 0)
        rows = [Deletion(i, *run(job, Mutant("deleted", i, "").apply(job.ptx))) for i in synchronisation(job.ptx)]
        _judged()[name, text] = tuple(rows)
    return _judged()[name, text]


def assert_reported_or_redundant(name: str, configuration: Configuration) -> list[int]:
    """Checker and judge agree about every deletion; the numbers of the redundant instructions."""
    rows = deletions(name, configuration)
    for row in rows:
        assert bool(row.findings) == bool(row.conflicts), str(row)
        for finding in row.findings:
            assert (finding.kind, finding.space, len(finding.sites) >= 2) == ("data race", "shared", True), finding.message
            assert finding.missing and all(site.ptx_line != row.instruction.line for site in finding.sites)
    return [number for number, row in enumerate(rows) if not row.findings]


FIRST, PAIR, AGAIN, TWICE, READS, TAIL = "FIRST", "PAIR", "AGAIN", "TWICE", "READS", "TAIL"
#: kernel, configuration, number of synchronising instructions, and the redundant ones among them by number
SLICE: list[tuple[str, Configuration, int, dict[int, str]]] = [
    ("vector_add", Configuration(80, 4, 2), 0, {}),
    ("softmax", Configuration(80, 4, 2), 3, {}),
    ("layer_norm", Configuration(89, 8, 3), 3, {}),
    ("matmul-fp16", Configuration(80, 4, 3), 9, {}),
    ("matmul-bf16", Configuration(80, 2, 4), 10, {}),
    ("matmul-tf32", Configuration(89, 1, 2), 15, {0: FIRST, 4: AGAIN, 5: READS, 7: PAIR, 9: TWICE, 10: TWICE, 12: AGAIN}),
    ("attention", Configuration(80, 4, 3), 12, {0: FIRST, 9: TAIL, 10: TAIL}),
    ("attention-causal", Configuration(89, 2, 4), 14, {0: FIRST}),
    ("attention-causal", Configuration(80, 8, 1), 6, {4: TAIL}),
]


@pytest.mark.parametrize(("name", "configuration", "count", "redundant"), SLICE, ids=[f"{row[0]}-{row[1]}" for row in SLICE])
def test_a_slice_of_the_matrix(name: str, configuration: Configuration, count: int, redundant: dict[int, str]) -> None:
    assert assert_reported_or_redundant(name, configuration) == sorted(redundant)
    assert len(deletions(name, configuration)) == count


def test_the_slice_meets_every_kernel_and_every_value() -> None:
    assert {row[0] for row in SLICE} == set(CASES)
    chosen = [row[1] for row in SLICE]
    for attribute, values in (("arch", (80, 89)), ("warps", WARPS), ("stages", STAGES)):
        assert {getattr(configuration, attribute) for configuration in chosen} == set(values)
    assert {reason for row in SLICE for reason in row[3].values()} == {FIRST, PAIR, AGAIN, TWICE, READS, TAIL}


@pytest.mark.slow
@pytest.mark.parametrize("configuration", [Configuration(*row) for row in itertools.product((80, 89), WARPS, STAGES)], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_the_whole_matrix(name: str, configuration: Configuration) -> None:
    redundant, count = len(assert_reported_or_redundant(name, configuration)), len(deletions(name, configuration))
    assert redundant <= count / 2


# --- the judge itself -------------------------------------------------------------------------------


def column(*threads: int) -> np.ndarray:
    return np.array(threads, np.int32)


def judge(block_threads: int = 64) -> Judge:
    return Judge(1, 64, block_threads)


def test_the_judge_objects_to_what_no_barrier_orders() -> None:
    ordered, open_ = judge(), judge()
    for some, barrier in ((ordered, True), (open_, False)):
        some.write(column(0), 0, 4)
        if barrier:
            some.barrier(np.arange(64, dtype=np.int32))
        some.read(column(40), 2, 4)
    assert (ordered.conflicts, open_.conflicts) == (0, 2)  # two common bytes


@pytest.mark.parametrize(("reader", "conflicts"), [(5, 0), (40, 4)])
def test_a_warp_barrier_orders_its_warp_only(reader: int, conflicts: int) -> None:
    some = judge()
    some.write(column(0), 0, 4)
    some.warp_barrier(np.arange(32, dtype=np.int32))
    some.read(column(reader), 0, 4)
    assert some.conflicts == conflicts


@pytest.mark.parametrize(("readers", "conflicts"), [((0,), 0), ((0, 1), 4), ((40,), 4)])
def test_a_write_meets_the_reads_of_others(readers: tuple[int, ...], conflicts: int) -> None:
    some = judge()
    some.read(column(*readers), 0, 4)
    some.write(column(0), 0, 4)
    assert some.conflicts == conflicts


def test_reads_before_a_warp_barrier_are_forgotten_by_the_warp_and_by_nobody_else() -> None:
    for writer, conflicts in ((0, 0), (40, 4)):
        some = judge()
        some.read(column(0, 1), 0, 4)
        some.warp_barrier(np.arange(32, dtype=np.int32))
        some.read(column(0), 0, 4)
        some.write(column(writer), 0, 4)
        assert some.conflicts == conflicts


@pytest.mark.parametrize(("pending", "conflicts"), [(0, 0), (1, 4)])
def test_a_copy_is_in_flight_until_its_thread_waits(pending: int, conflicts: int) -> None:
    some = judge()
    some.issue(column(0), 0, 4)
    some.commit(column(0))
    some.wait(column(0), pending)
    some.read(column(0), 0, 4)
    assert some.conflicts == conflicts


def test_a_copy_that_was_waited_for_is_a_write_of_its_thread() -> None:
    some = judge()
    some.issue(column(0), 0, 4)
    some.wait(column(0), -1)
    some.read(column(1), 0, 4)
    assert some.conflicts == 4
