"""Faults in the PTX of Triton's own kernels: each is refuted or found racy or faulty, and named at the right line.

What the right line is. A report names the lines of its findings' sites and the line to which a difference is traced.

* Synchronisation (a barrier, a wait, a commit): a race is found between an access before and one after the dropped point (in
  a loop: two accesses of the loop, or one of it), each named at its own line.
* Arithmetic: the line of the altered instruction itself, or of the sum or product that it is part of (these are compared as a
  whole). Where the result is a constant (NaN, 0), memory faults hide the cause, or a constant was moved, a line that depends on it.
* Addresses, copies, predicates, integer constants: the instruction's line, or a line into which its value flows.

Lines are found from the PTX text by ``source_lines``, not by the code under test. A mutant that is equivalent over the reals
is in ``EQUIVALENT`` with the reason, and must be proved.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, replace

import pytest
from compiled_kernels import Configuration, compiled_job, flash_attention, layer_norm, matmul, softmax, vector_add
from mutations import OPERATORS, Mutant, mutants
from source_lines import ADDING, dependent_lines, loop_around, user_lines

from ptx_engine.verdict import Status
from volta_pass.job import Options, ValidationJob
from volta_pass.kernel_report import KernelReport
from volta_pass.validate import validate

pytest.importorskip("triton")

CASES = {
    "add": vector_add(300, 128),
    "softmax": softmax(2, 200, 256),
    "layer_norm": layer_norm(2, 136, 128),
    "matmul": matmul(m=144, n=80, k=112),
    "attention": flash_attention(n=48, d=16, heads=2, block_m=16, block_n=16),
}
SYNCHRONISATION = {"barrier dropped", "wait_group one too large", "commit dropped"}
ARITHMETIC = {
    "mma a registers swapped", "mma b registers swapped", "mma accumulators swapped", "float literal changed", "fma dropped",
    "product dropped from fma", "max replaced by its first operand", "sum replaced by its first operand", "difference turned round",
    "quotient turned round", "shfl distance changed", "shfl clamp changed", "shfl members changed",
}  # fmt: skip


@dataclass(frozen=True)
class Equivalent:
    """Mutants (by kernel, operator and number) that compute the same over the reals at the launch of ``CASES``."""

    kernel: str
    operator: str
    numbers: tuple[int, ...]
    reason: str


EQUIVALENT = (
    Equivalent("softmax", "max replaced by its first operand", (0,), "softmax is the same whatever is subtracted from a whole row"),
    Equivalent("softmax", "integer constant changed", (1,), "a mask column c | 4 in place of c: below 200, a multiple of 8, alike"),
    Equivalent("softmax", "boundary changed", (0,), "columns below 128 are never the boundary, 200"),
    Equivalent("layer_norm", "float literal changed", (0,), "the sum of an empty row: there are 136 columns"),
    Equivalent("layer_norm", "difference turned round", (0,), "the deviation is squared"),
    Equivalent("layer_norm", "store's predicate inverted", (0, 1), "every thread holds the row's mean and rstd: all but one store them"),
    Equivalent("layer_norm", "boundary changed", (0, 2, 4, 6), "starts of blocks, multiples of 128, and 1 are never 136"),
    Equivalent("matmul", "barrier dropped", (1,), "the loop's first barrier: only reads lie between it and the barriers around it"),
    Equivalent("matmul", "wait_group one too large", (1,), "the loop's first wait: nothing was committed since the wait before it"),
    Equivalent("matmul", "wait_group one too large", (2, 3), "two equal waits in a row: either is enough"),
    Equivalent("matmul", "wait_group one too large", (4,), "the copy under way at the end fills a buffer that is not used again"),
    Equivalent("matmul", "commit dropped", (0,), "the first two copies in one group: the wait for the second waits for both"),
    Equivalent("matmul", "integer constant changed", (0, 4, 23), "rounding up to whole tiles: 4 more change no quotient of these extents"),
    Equivalent("matmul", "integer constant changed", (1, 5, 53), "an arithmetic shift by 32 is one by 31"),
    Equivalent("matmul", "integer constant changed", (2, 6, 54), "the rounding term of a signed division: the dividend is not negative"),
    Equivalent("matmul", "integer constant changed", (11, 12), "thread numbers below 128 have no bits above the field"),
    Equivalent("matmul", "integer constant changed", (26, 44, 46, 84, 92), "bit 2 of a number shifted left by 3 or more is zero"),
    Equivalent("matmul", "integer constant changed", (36,), "no offset of the second K step lies between 80 and 84"),
    Equivalent("matmul", "integer constant changed", (56,), "more copies, of K steps beyond the end: all of them are masked"),
    Equivalent("matmul", "boundary changed", (1, 21, 23, 24), "these rows of a tile never are row 144"),
    Equivalent("matmul", "boundary changed", (2,), "column 80 of B is multiplied into columns that are not stored"),
    Equivalent("matmul", "boundary changed", (3, 4, 8), "K + 31 = 143 is none of 31, 32, 63"),
    Equivalent("matmul", "boundary changed", (5, 6, 7, 9, 10, 11, 17), "these offsets in a K step never are what is left of K"),
    Equivalent("matmul", "boundary changed", (13,), "one more copy, of a K step beyond the end: all of it is masked"),
    Equivalent("attention", "wait_group one too large", (1,), "the copy under way at the end fills a buffer that is not used again"),
    Equivalent("attention", "commit dropped", (0,), "the first two copies in one group: the wait for the second waits for both"),
    Equivalent("attention", "mma accumulators swapped", (0, 1), "all four accumulators are zero"),
    Equivalent("attention", "float literal changed", (2,), "the first rescaling multiplies accumulator and sum by zero"),
    Equivalent("attention", "float literal changed", (3,), "the way past the loop, for no keys, is not taken"),
    Equivalent("attention", "max replaced by its first operand", (0, 1, 2, 3, 4, 5), "any value will do that a whole row subtracts"),
    Equivalent("attention", "integer constant changed", (1,), "thread numbers below 64 have no bits above the field"),
    Equivalent("attention", "integer constant changed", (19, 24), "bit 2 of a number shifted left by 5 is zero"),
    Equivalent(
        "attention", "integer constant changed", (34,), "counting 0, 20, 40 in place of 0, 16, 32: as many steps and copies below 48"
    ),
    Equivalent("attention", "integer constant changed", (35, 36, 37), "the way past the loop, for no keys, is not taken"),
    Equivalent("attention", "boundary changed", (0, 1), "N = 48 is neither 0 nor 16"),
)


#: loops that are never left: no execution shows it, the budget runs out
ENDLESS = {("matmul", "add.s32 %r302, %r302, 5")}
#: zeros that an earlier copy left in the buffer are stored: what is named is the line of the products that are missing
STALE = {("matmul", "shl.b32 %r237, %r10, 12"): 33}
#: altered operations that leave no term of their own: x / 1 is x
FOLDED = {("layer_norm", "quotient turned round", "\tdiv.full.f32 %r38, %r56, %r57;")}


def job_of(kernel: str) -> ValidationJob:
    return compiled_job(CASES[kernel], Configuration(80, 4, 3), Options(seconds=60))


@functools.cache
def mutants_of(kernel: str, operator: str) -> tuple[Mutant, ...]:
    return tuple(mutants(job_of(kernel).ptx, operator))


def reason_of(kernel: str, operator: str, number: int) -> str:
    """Why a mutant is equivalent; empty if it is not."""
    rows = [row.reason for row in EQUIVALENT if (row.kernel, row.operator) == (kernel, operator) and number in row.numbers]
    return rows[0] if rows else ""


def faulty(kernel: str, operator: str) -> list[int]:
    """The numbers of an operator's mutants that are not equivalent."""
    return [n for n in range(len(mutants_of(kernel, operator))) if not reason_of(kernel, operator, n)]


def chosen(operator: str, turn: int) -> tuple[str, int]:
    """For two turns of every operator: a kernel that it applies to (another one in each turn), and a mutant from the middle."""
    kernels = [name for name in CASES if faulty(name, operator)]
    kernel = kernels[(list(OPERATORS).index(operator) + turn) % len(kernels)]
    numbers = faulty(kernel, operator)
    return kernel, numbers[(len(numbers) + turn) // 2 % len(numbers)]


@functools.cache
def lines_of(kernel: str) -> dict[int, int]:
    return user_lines(job_of(kernel).ptx)


def report_of(kernel: str, mutant: Mutant) -> KernelReport:
    return validate(replace(job_of(kernel), ptx=mutant.apply(job_of(kernel).ptx)))


def line_in(kernel: str, place: str) -> int:
    """The line of a place in the kernel's own file."""
    file, line, _ = place.rsplit(":", 2)
    assert file == str(CASES[kernel].path)
    return int(line)


def named_lines(kernel: str, report: KernelReport) -> set[int]:
    places = [site.user_loc for finding in report.error_findings for site in finding.sites] + [report.blame.user_loc]
    return {line_in(kernel, place) for place in places if place}


def right_lines(kernel: str, mutant: Mutant, report: KernelReport) -> set[int]:
    """The lines of which a report of a fault of arithmetic, data or addresses must name one."""
    outputs = [output for comparison in report.comparisons for output in comparison.verdict.outputs if output.explanation is not None]
    constant = any(re.search(r"candidate (nan|-?[0-9./]+|-?inf), reference", output.explanation.text) for output in outputs)
    moved = mutant.instruction.opcode.startswith(("mov.", "selp."))  # a constant that is moved is no operation of its own
    folded = (kernel, mutant.operator, mutant.after) in FOLDED
    if (kernel, mutant.after.strip().rstrip(";")) in STALE:
        return {STALE[kernel, mutant.after.strip().rstrip(";")]}
    if mutant.operator not in ARITHMETIC or report.error_findings or constant or moved or folded:
        return dependent_lines(job_of(kernel).ptx, mutant.instruction)
    return dependent_lines(job_of(kernel).ptx, mutant.instruction, ADDING)


def assert_race_around(kernel: str, mutant: Mutant, report: KernelReport) -> None:
    """A race between two accesses that the dropped synchronisation stood between, both at their own lines."""
    at, loop = mutant.instruction.line, loop_around(job_of(kernel).ptx, mutant.instruction.line)
    races = [finding for finding in report.error_findings if finding.kind == "data race"]
    assert races
    around = []
    for race in races:
        first, second = (site.ptx_line for site in race.sites)
        assert [line_in(kernel, site.user_loc) for site in race.sites] == [lines_of(kernel)[first], lines_of(kernel)[second]]
        around.append(min(first, second) < at < max(first, second) or (loop is not None and loop[0] <= first <= loop[1]))
    assert any(around)


def assert_found(kernel: str, operator: str, number: int) -> KernelReport:
    mutant = mutants_of(kernel, operator)[number]
    if (kernel, mutant.after.strip().rstrip(";")) in ENDLESS:
        report = validate(replace(job_of(kernel), ptx=mutant.apply(job_of(kernel).ptx), options=Options(seconds=5)))
        assert report.status is Status.UNKNOWN and "execution took more than" in report.reason
        return report
    report = report_of(kernel, mutant)
    assert report.status is Status.REFUTED, report.reason
    if operator in SYNCHRONISATION:
        assert_race_around(kernel, mutant, report)
    else:
        named = named_lines(kernel, report)
        assert named & right_lines(kernel, mutant, report), f"named {sorted(named)}"
    return report


@pytest.mark.parametrize("kernel", CASES)
def test_the_kernels_themselves_are_proved(kernel):
    report = validate(job_of(kernel))
    assert report.status is Status.PROVED and report.error_findings == [] and report.errors == []


@pytest.mark.parametrize("turn", (0, 1))
@pytest.mark.parametrize("operator", OPERATORS)
def test_a_fault_is_found_and_named(operator, turn):
    kernel, number = chosen(operator, turn)
    assert_found(kernel, operator, number)


def test_the_choice_meets_every_kernel():
    rows = [(*chosen(operator, turn), operator) for operator in OPERATORS for turn in (0, 1)]
    assert len(set(rows)) >= 60
    assert {kernel for kernel, _, _ in rows} == set(CASES)


def test_the_rule_for_lines_is_not_vacuous():
    """Where any dependent line is right, most lines of the kernel are not: on average less than half are."""
    shares = []
    for operator in [operator for operator in OPERATORS if operator not in SYNCHRONISATION | ARITHMETIC]:
        kernel, number = chosen(operator, 0)
        mutant = mutants_of(kernel, operator)[number]
        right = dependent_lines(job_of(kernel).ptx, mutant.instruction)
        assert lines_of(kernel)[mutant.instruction.line] in right
        shares.append(len(right) / len(set(lines_of(kernel).values())))
    assert sum(shares) / len(shares) < 0.5 and max(shares) < 1


def test_the_rule_for_arithmetic_leaves_few_lines():
    for operator in sorted(ARITHMETIC):
        for kernel, number in [(name, number) for name in CASES for number in faulty(name, operator)]:
            instruction = mutants_of(kernel, operator)[number].instruction
            if not instruction.opcode.startswith(("mov.", "selp.")):
                right = dependent_lines(job_of(kernel).ptx, instruction, ADDING)
                assert len(right) <= 3, (kernel, operator, number, right)


def test_lines_follow_inlined_functions_outwards():
    lines = set(lines_of("softmax").values())
    assert lines <= set(range(8, 17)) and {13, 15} <= lines  # tl.max and tl.sum live in Triton's own file


@pytest.mark.slow
@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("kernel", CASES)
def test_every_fault_is_found_and_named(kernel, operator):
    missed = []
    for number in faulty(kernel, operator):
        try:
            assert_found(kernel, operator, number)
        except AssertionError as error:
            missed.append(f"{mutants_of(kernel, operator)[number].name}: {str(error).splitlines()[0]}")
    assert not missed, "\n".join(missed)


@pytest.mark.slow
@pytest.mark.parametrize("row", EQUIVALENT, ids=lambda row: f"{row.kernel}-{row.operator}")
def test_equivalent_mutants_are_proved(row):
    """None may be called wrong, and each stands in the table with a reason that was found by reading the code."""
    for number in row.numbers:
        report = report_of(row.kernel, mutants_of(row.kernel, row.operator)[number])
        assert report.status is Status.PROVED and report.error_findings == []


def test_the_table_of_equivalent_mutants_names_each_once():
    rows = [(row.kernel, row.operator, number) for row in EQUIVALENT for number in row.numbers]
    assert len(rows) == len(set(rows)) and all(row.reason for row in EQUIVALENT)
    assert all(number < len(mutants_of(kernel, operator)) for kernel, operator, number in rows)
