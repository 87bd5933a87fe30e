"""Kernels with a fault in the source: refuted against the right kernel, blamed on the kernel, at the line, in words that say what
is missing or too much. The PTX of each equals its own TTIR: the compiler is not to blame."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from compiled_kernels import (
    KERNELS,
    Case,
    Configuration,
    compiled_job,
    flash_attention,
    integers,
    layer_norm,
    matmul,
    output,
    softmax,
    tensor,
)

from ptx_engine.launch import TensorArg
from ptx_engine.verdict import Status
from volta_pass.diagnostics import render
from volta_pass.job import FunctionReference, TtirReference
from volta_pass.kernel_report import OWN_SOURCE, REFERENCE
from volta_pass.validate import validate

pytest.importorskip("triton")

FOLDER = Path(__file__).parent
CONFIGURATION = Configuration(80, 4, 2)


def wrong(case, function, **constants):
    """The right kernel's case with a wrong kernel in its place."""
    return replace(case, file="wrong_kernels", function=function, folder=FOLDER, constexprs=(*case.constexprs, *constants.items()))


def source_of(case):
    job = compiled_job(case, CONFIGURATION)
    return TtirReference(job.source, job.launch, "the right kernel")


def report_of(case, right):
    return validate(replace(compiled_job(case, CONFIGURATION), reference=source_of(right)))


def lines_with(case, text):
    """Lines of the kernel's function that contain a text."""
    rows = case.path.read_text().split("\n")
    first = next(i for i, row in enumerate(rows) if row.startswith(f"def {case.function}("))
    last = next((i for i in range(first + 1, len(rows)) if rows[i].startswith("@triton")), len(rows))
    return {i + 1 for i in range(first, last) if text in rows[i]}


def assert_blamed(report, case, text, lines=None):
    """Refuted against the reference only, and said to be the kernel's own fault at one of the lines."""
    statuses = {comparison.against: comparison.status for comparison in report.comparisons}
    assert statuses == {OWN_SOURCE: Status.PROVED, REFERENCE: Status.REFUTED}
    assert report.error_findings == [] and report.blame.party == "kernel"
    file, line, _ = report.blame.user_loc.rsplit(":", 2)
    assert file == str(case.path) and int(line) in (lines or lines_with(case, "# fault"))
    explanations = " | ".join(o.explanation.text for o in report.comparisons[1].verdict.outputs if o.explanation is not None)
    assert re.search(text, explanations), explanations
    witness = report.comparisons[1].verdict.outputs[0].witness
    assert witness is not None and witness.reference_value != witness.candidate_value
    assert f"{case.path.name}:{line}:" in render(report)


ATTENTION = flash_attention(n=32, d=16, block_m=16, block_n=16)


def test_attention_whose_accumulator_is_not_rescaled():
    case = wrong(ATTENTION, "attention_without_rescaling", SUM=False)
    line = {max(lines_with(case, "# fault"))}
    # the first of two blocks of 16 keys misses exp2(m_old - m_new); the second one's factor is 1
    assert_blamed(report_of(case, ATTENTION), case, r"o_ptr\[0, 0, 0\]: 16 of 32 products lack the factor exp2\(.*: missing v_ptr\[", line)


def test_attention_whose_sum_is_not_rescaled():
    case = wrong(ATTENTION, "attention_without_rescaling", SUM=True)
    line = {min(lines_with(case, "# fault"))}
    assert_blamed(report_of(case, ATTENTION), case, r"16 of 32 products lack the factor exp2\(.*: missing exp2\(", line)


@pytest.mark.parametrize("columns", [20, 32])
def test_softmax_without_division(columns):
    right = softmax(2, columns, 32)
    case = wrong(right, "softmax_without_division")
    assert_blamed(report_of(case, right), case, r"out_ptr\[0, 0\]: the division by sum of 32 terms exp\(.* is missing")


def test_softmax_whose_mask_is_filled_with_zero():
    right = softmax(2, 20, 32)
    case = wrong(right, "softmax_filled_with_zero")
    lines = lines_with(case, "shifted = ") | lines_with(case, "# fault")
    assert_blamed(report_of(case, right), case, r"sum over 21 terms, reference has 20; extra 12\*exp\(", lines)


def test_softmax_whose_mask_does_not_matter_is_right_with_zero():
    right = softmax(2, 32, 32)
    report = report_of(wrong(right, "softmax_filled_with_zero"), right)
    assert report.status is Status.PROVED and report.blame.party == ""


def test_softmax_along_the_wrong_axis():
    right = softmax(4, 20, 32)
    arguments = (*right.args[:2], *integers(n_rows=4, n_cols=20))
    case = Case("wrong_kernels", "softmax_of_columns", arguments, (("ROWS", 4), ("COLS", 32)), (1, 1, 1), FOLDER)
    text = r"sum over 4 terms, reference has 20; missing exp\(\(in_ptr\[0, 1\] .*; extra exp\(\(in_ptr\[[123], 0\]"
    assert_blamed(report_of(case, right), case, text)


def test_layer_norm_divided_by_the_block():
    right = layer_norm(2, 20, 32)
    case = wrong(right, "layer_norm_over_the_block")
    lines = lines_with(case, "# fault") | lines_with(case, "x - mean")  # the compiler folds 1/32 into the difference
    assert_blamed(report_of(case, right), case, r"mean_ptr\[0\]: x_ptr\[0, 0\] has coefficient 1/32, reference 1/20", lines)
    whole = layer_norm(2, 32, 32)
    assert report_of(wrong(whole, "layer_norm_over_the_block"), whole).status is Status.PROVED


def test_matmul_that_takes_the_rows_stride_for_columns():
    right = matmul(m=32, n=32, k=32, blocks=(16, 16, 16))
    case = wrong(right, "transposed_b_matmul")
    text = r"c_ptr\[0, 0\]: missing a_ptr\[0, 1\]\*b_ptr\[1, 0\].*extra a_ptr\[0, 1\]\*b_ptr\[0, 1\]"
    report = report_of(case, right)
    assert_blamed(report, case, text)
    assert "strides" in report.blame.help


def padded_rows(function):
    matrices = (tensor("x_ptr", "f32", 4, 20, strides=(32, 1)), tensor("y_ptr", "f32", 4, 20, strides=(32, 1)))
    arguments = (*matrices, output("out_ptr", "f32", 4, 20, strides=(32, 1)), *integers(row_stride=32, n_cols=20))
    return Case("wrong_kernels", function, arguments, (("BLOCK", 32),), (4, 1, 1), FOLDER)


def test_padded_rows_addressed_by_the_number_of_columns():
    case, right = padded_rows("add_of_columns"), padded_rows("add_of_rows")
    report = report_of(case, right)
    assert_blamed(report, case, r"out_ptr\[1, 0\]: missing y_ptr\[1, 0\] .*extra y_ptr\[0, 20\]")
    verdict = report.comparisons[1].verdict.outputs[0]
    assert sorted(verdict.failing) == [32 * row + column for row in (1, 2, 3) for column in range(20)]


def unmasked(k, blocks, extra=0):
    """The matmul without a K mask, and the right one; ``extra`` elements of the same allocation lie behind A and B."""
    right = matmul(m=32, n=32, k=k, blocks=blocks)
    behind = tuple(replace(a, extra_elements=extra) if isinstance(a, TensorArg) and a.name in ("a_ptr", "b_ptr") else a for a in right.args)
    right = replace(right, args=behind)
    return replace(right, file="matmul_no_k_mask", function="matmul_no_k_mask_kernel", folder=KERNELS), right


def test_matmul_without_a_k_mask():
    case, right = unmasked(24, (16, 16, 16), extra=512)
    text = r"c_ptr\[0, 0\]: sum over 32 products, reference has 24; extra a_ptr\[1, 0\]\*b_ptr\[24, 0\].*\(8 of 32 products\)"
    report = report_of(case, right)
    assert_blamed(report, case, text, lines_with(case, "tl.load("))
    assert "no mask" in report.blame.help or "too much through" in report.blame.help


def test_matmul_without_a_k_mask_at_the_end_of_memory():
    case, right = unmasked(24, (16, 16, 16))
    report = report_of(case, right)
    assert report.status is Status.REFUTED and report.blame.party == "kernel"
    loads = lines_with(case, "tl.load(")
    found = {(f.kind, f.tensor): {int(site.user_loc.rsplit(":", 2)[1]) for site in f.sites} for f in report.error_findings}
    assert found == {("out of bounds", "a_ptr"): {min(loads)}, ("out of bounds", "b_ptr"): {max(loads)}}
    assert int(report.blame.user_loc.rsplit(":", 2)[1]) in loads


def test_matmul_without_a_k_mask_is_right_where_the_block_divides_k():
    case, right = unmasked(32, (16, 16, 16))
    assert report_of(case, right).status is Status.PROVED


def reference_softmax(in_ptr):
    powers = np.exp(in_ptr)
    return powers / powers.sum(axis=1, keepdims=True)


def test_against_a_function_over_tensors():
    """The same faults against mathematics in place of the right kernel; no maximum is subtracted there."""
    right = softmax(2, 20, 32)
    reference = FunctionReference(reference_softmax, {"in_ptr": "in_ptr"}, ("out_ptr",), "softmax")
    assert validate(replace(compiled_job(right, CONFIGURATION), reference=reference)).status is Status.PROVED
    for function in ("softmax_without_division", "softmax_filled_with_zero"):
        report = validate(replace(compiled_job(wrong(right, function), CONFIGURATION), reference=reference))
        assert report.status is Status.REFUTED and report.blame.party == "kernel"
        assert report.blame.user_loc.startswith(str(FOLDER / "wrong_kernels.py"))
