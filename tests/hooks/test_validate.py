"""The validator on compiled kernels and on altered ones: status, blame, sampling, failures."""

import os
from dataclasses import replace

import pytest

from ptx_engine.errors import BudgetError, InternalError, UnsupportedError
from ptx_engine.findings import Finding, Severity, Site
from ptx_engine.launch import Launch, NullArg, Role, ScalarArg, TensorArg
from ptx_engine.verdict import Method, OutputVerdict, Status, Verdict
from volta_pass.blame import assign_blame, blame_findings
from volta_pass.job import Options, TtirReference, ValidationJob
from volta_pass.kernel_report import OWN_SOURCE, REFERENCE, Comparison, proved_from_json
from volta_pass.references.generic import generic_of_text
from volta_pass.stages import Stages
from volta_pass.validate import agree, races_of_the_source, validate

N = 1200


def compiled(block):
    """PTX and generic TTIR of the vector addition with one BLOCK."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from vector_add import add_kernel

    signature = {"x_ptr": "*fp32", "y_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    kernel = triton.compile(ASTSource(add_kernel, signature, {(4,): block}, {}), target=GPUTarget("cuda", 80, 32))
    return kernel.asm["ptx"], generic_of_text(kernel.asm["ttir"])


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
        patch.setenv("TRITON_DEFAULT_FP_FUSION", "1")
        patch.syspath_prepend(os.path.join(os.path.dirname(__file__), "..", "..", "configs", "triton"))
        return {block: compiled(block) for block in (128, 256)}


def launch(block, n=N, roles=(Role.IN, Role.IN, Role.OUT)):
    names = ("x_ptr", "y_ptr", "out_ptr")
    tensors = [TensorArg(name, "f32", (n,), role) for name, role in zip(names, roles)]
    args = (*tensors, ScalarArg("n", "s32", n), NullArg("global_scratch"), NullArg("profile_scratch"))
    return Launch((-(-n // block), 1, 1), (128, 1, 1), args)


@pytest.fixture
def job(kernels):
    ptx, source = kernels[128]
    configuration = {"BLOCK": 128, "num_warps": 4}
    return ValidationJob("add_kernel", ptx, launch(128), "add_kernel", configuration, "sm_80", source, toolchain={"Triton": "3.x"})


def statuses(report):
    return {comparison.against: comparison.status for comparison in report.comparisons}


def test_a_kernel_equals_its_own_source(job):
    report = validate(job)
    assert (report.status, report.method, report.errors) == (Status.PROVED, Method.EXACT, [])
    assert statuses(report) == {OWN_SOURCE: Status.PROVED}
    assert (report.ctas_executed, report.ctas_total, report.output_elements) == (10, 10, N)
    assert {"parse", "execute", "source", "decide", "validate"} <= set(report.seconds)
    assert report.blame.party == "" and report.instructions > 0 and report.peak_mib > 0


def test_a_proved_report_survives_its_json(job):
    report = validate(job)
    again = proved_from_json(report.to_json())
    assert again.cached and again.to_json() == {**report.to_json(), "cached": True}
    with pytest.raises(ValueError):
        proved_from_json({**report.to_json(), "verdict": "refuted"})


def test_an_altered_instruction_is_the_compilers(job):
    assert job.ptx.count("add.f32") >= 1
    report = validate(replace(job, ptx=job.ptx.replace("add.f32", "sub.f32")))
    assert statuses(report) == {OWN_SOURCE: Status.REFUTED} and report.status is Status.REFUTED
    assert report.blame.party == "compiler"
    assert "Triton 3.x" in report.blame.text and "sm_80" in report.blame.text and "num_warps=4" in report.blame.text
    assert "vector_add.py" in report.blame.user_loc
    witness = report.comparisons[0].verdict.outputs[0].witness
    assert witness is not None and witness.reference_value != witness.candidate_value


def test_another_configurations_source_is_a_reference_under_its_own_grid(job, kernels):
    reference = TtirReference(kernels[256][1], launch(256), "BLOCK=256")
    report = validate(replace(job, reference=reference))
    assert statuses(report) == {OWN_SOURCE: Status.PROVED, REFERENCE: Status.PROVED}
    wrong = TtirReference(kernels[256][1].replace("arith.addf", "arith.mulf"), launch(256), "BLOCK=256")
    report = validate(replace(job, reference=wrong))
    assert statuses(report) == {OWN_SOURCE: Status.PROVED, REFERENCE: Status.REFUTED}
    assert report.blame.party == "kernel" and "BLOCK=256" in report.blame.text
    assert agree(reference, TtirReference(job.source, job.launch, "BLOCK=128"), job) is Status.PROVED
    assert agree(wrong, TtirReference(job.source, job.launch, "BLOCK=128"), job) is Status.REFUTED


def test_without_a_source_order_and_memory_are_all_that_is_checked(job):
    report = validate(replace(job, source=None))
    assert report.status is Status.UNKNOWN and "nothing to compare" in report.reason
    short = replace(job, source=None, launch=replace(job.launch, args=launch(128, 1100).args[:3] + job.launch.args[3:]))
    report = validate(short)
    assert report.status is Status.REFUTED and {finding.kind for finding in report.findings} == {"out of bounds"}


def test_what_has_no_semantics_is_unsupported_and_named(job):
    report = validate(replace(job, ptx=job.ptx.replace("add.f32", "testp.finite.f32")))
    assert report.status is Status.UNSUPPORTED and report.comparisons == []
    assert "testp" in report.errors[0] and "add_kernel (BLOCK=128 num_warps=4)" in report.errors[0]
    broken = validate(replace(job, source=job.source.replace("tt.store", "tt.frobnicate")))
    assert broken.status is Status.UNSUPPORTED and "frobnicate" in broken.errors[0]


def test_text_that_is_no_ptx_is_a_report_too(job):
    report = validate(replace(job, ptx=".version 8.0\n.target sm_80\n.visible .entry add_kernel(\n"))
    assert report.status is Status.UNSUPPORTED and "parse error" in report.errors[0]


def test_sampled_ctas_are_said_and_compared_where_both_sides_wrote(job, kernels):
    reference = TtirReference(kernels[256][1], launch(256), "BLOCK=256")
    report = validate(replace(job, reference=reference, options=Options(ctas=2)))
    assert (report.ctas_executed, report.ctas_total) == (2, 10)
    assert report.status is Status.PROVED
    assert any("2 of 10 CTAs" in line for line in report.assumptions)
    # first and last CTA of 128: elements 0..127 and 1152..1199; of 256: 0..255 and 1024..1199
    assert report.comparisons[1].verdict.outputs[0].elements == 128 + 48
    wrong = validate(replace(job, ptx=job.ptx.replace("add.f32", "sub.f32"), options=Options(ctas=2)))
    assert wrong.status is Status.REFUTED


def test_a_launch_that_costs_too_much_is_sampled(job, monkeypatch):
    candidate, calls = Stages.candidate, []

    def expensive(self, ptx, entry):
        calls.append(self.max_ctas)
        if self.max_ctas is None:
            raise BudgetError("too slow")
        return candidate(self, ptx, entry)

    monkeypatch.setattr(Stages, "candidate", expensive)
    report = validate(job)
    assert calls == [None, 8] and report.status is Status.PROVED
    assert (report.ctas_executed, report.ctas_total) == (8, 10)
    # all CTAs were asked for: running out of budget is the answer
    report = validate(replace(job, options=Options(ctas="all")))
    assert report.status is Status.UNKNOWN and "too slow" in report.reason


def test_large_launches_are_measured_before_all_ctas_run(job, monkeypatch):
    monkeypatch.setattr("volta_pass.validate.PROBE_THREADS", 128)
    monkeypatch.setattr("volta_pass.validate.affordable", lambda total, *times: 3 if total == 10 else None)
    report = validate(job)
    assert report.status is Status.PROVED and report.ctas_executed == 3


def test_a_defect_of_ours_leaves(job, monkeypatch):
    def broken(self, ptx, entry):
        raise InternalError("ours")

    monkeypatch.setattr(Stages, "candidate", broken)
    with pytest.raises(InternalError):
        validate(job)

    def unsupported(self, ptx, entry):
        raise UnsupportedError("theirs")

    monkeypatch.setattr(Stages, "candidate", unsupported)
    assert validate(job).status is Status.UNSUPPORTED


def comparison(against, status):
    return Comparison(against, "BLOCK=64 w4", Verdict(status, Method.EXACT, [OutputVerdict("out_ptr", status, 1)]))


@pytest.mark.parametrize(
    "own, reference, party",
    [
        (Status.PROVED, Status.PROVED, ""),
        (Status.PROVED, None, ""),
        (Status.UNKNOWN, Status.PROVED, ""),
        (Status.REFUTED, None, "compiler"),
        (Status.REFUTED, Status.PROVED, "compiler"),
        (Status.REFUTED, Status.REFUTED, "compiler"),
        (Status.PROVED, Status.REFUTED, "kernel"),
        (Status.UNKNOWN, Status.REFUTED, "unknown"),
        (None, Status.REFUTED, "unknown"),
    ],
)
def test_blame_follows_from_the_two_comparisons(job, own, reference, party):
    left = comparison(OWN_SOURCE, own) if own else None
    right = comparison(REFERENCE, reference) if reference else None
    assert assign_blame(job, left, right, [], Stages(job.launch, job.options).bound).party == party


def finding(kind, space="global", ctas=((0, 0, 0), (0, 0, 0)), severity=Severity.ERROR, tensor="x_ptr"):
    sites = tuple(Site("load", cta, 0, 0, 7, user_loc="k.py:3:1") for cta in ctas)
    return Finding(kind, "said", severity, space, tensor, sites=sites)


@pytest.mark.parametrize(
    "found, source, party",
    [
        ([], [], ""),
        ([finding("same-value write", severity=Severity.NOTE)], [], ""),
        ([finding("out of bounds")], [finding("out of bounds")], "kernel"),
        ([finding("out of bounds")], [finding("out of bounds", tensor="y_ptr")], "unknown"),
        ([finding("out of bounds")], [], "unknown"),
        ([finding("data race", "shared")], [], "compiler"),
        ([finding("deadlock", "")], [], "compiler"),
        ([finding("data race", ctas=((0, 0, 0), (1, 0, 0)))], [], "kernel"),
        ([finding("data race")], [], "unknown"),
        ([finding("race between programs")], [], "kernel"),
    ],
)
def test_blame_for_findings(job, found, source, party):
    assert blame_findings(found, source, job).party == party


def test_a_racy_source_is_a_finding_unless_the_candidate_shows_the_race():
    racy = finding("race between programs")
    assert races_of_the_source([racy, finding("out of bounds")], []) == [racy]
    assert races_of_the_source([racy], [finding("data race")]) == []
    assert races_of_the_source([racy], [finding("data race", tensor="y_ptr")]) == [racy]
