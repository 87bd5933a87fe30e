"""erf, tanh, sorting of floats: tile programs are compared with the compiler's own library code; wrong constants are still refuted."""

from dataclasses import replace
from pathlib import Path

import pytest
from compiled_kernels import Case, Configuration, compiled_job, integers, output, tensor

from ptx_engine.verdict import Status
from volta_pass.references.library import Call, Library, approximated, calls_of
from volta_pass.references.library_patterns import patterns_of
from volta_pass.validate import validate

pytest.importorskip("triton")
HERE = Path(__file__).parent


def job(function, scale=0.5, n=40, block=32, warps=1):
    from volta_pass.check.triton_library import library_of

    if function == "sort_kernel":
        n = block = 16
    args = (tensor("x_ptr", "f32", n), output("out_ptr", "f32", n), *integers(n=n))
    case = Case("library_kernels", function, args, (("SCALE", scale), ("BLOCK", block)), (-(-n // block), 1, 1), HERE)
    made = compiled_job(case, Configuration(80, warps, 2))
    return replace(made, library=library_of(made.source, 80))


@pytest.mark.parametrize(
    "function, warps",
    [("gelu_kernel", 1), ("gelu_kernel", 4), ("tanh_kernel", 1), ("sort_kernel", 1), ("sort_kernel", 4), ("log_kernel", 4)],
)
def test_proved(function, warps):
    report = validate(job(function, warps=warps))
    assert report.status is Status.PROVED, (report.reason, report.errors)
    named = [line for line in report.assumptions if "device library" in line]
    assert len(named) == {"sort_kernel": 0, "log_kernel": 2}.get(function, 1)


def sort_job(dtype, warps, descending=False, n=16):
    args = (tensor("x_ptr", dtype, n), output("out_ptr", dtype, n), *integers(n=n))
    case = Case("library_kernels", "sort_integers_kernel", args, (("DESCENDING", descending), ("BLOCK", n)), (1, 1, 1), HERE)
    return compiled_job(case, Configuration(80, warps, 2))


@pytest.mark.parametrize("dtype", ["s32", "u32"])
@pytest.mark.parametrize("warps", [1, 4])
def test_integers_are_sorted(dtype, warps):
    """Compare and exchange by exclusive or: of signed words without a change of reading between the comparisons."""
    mine = sort_job(dtype, warps)
    report = validate(mine)
    assert report.status is Status.PROVED, (report.reason, report.errors)
    other = sort_job(dtype, warps, descending=True)
    assert validate(replace(mine, source=other.source)).status is Status.REFUTED


@pytest.mark.parametrize(("dtype", "n", "warps"), [("s32", 64, 4), ("f32", 128, 1)])
def test_larger_networks_are_sorted(dtype, n, warps):
    """64 values on 128 threads: what threads of other warps computed, too, cancels in the exclusive or. Four values a thread: the two
    that a thread exchanges with itself are chosen by two comparisons."""
    mine, other = (sort_job(dtype, warps, descending, n) for descending in (False, True))
    report = validate(mine)
    assert report.status is Status.PROVED, (report.reason, report.errors)
    assert validate(replace(mine, source=other.source)).status is Status.REFUTED


def test_a_sorting_network_with_one_comparison_turned_is_refuted():
    mine = sort_job("s32", 4)
    last = mine.ptx.rindex("setp.gt.s32")
    assert validate(replace(mine, ptx=mine.ptx[:last] + "setp.lt.s32" + mine.ptx[last + 11 :])).status is Status.REFUTED


@pytest.mark.parametrize("function", ["gelu_kernel", "tanh_kernel", "log_kernel"])
def test_another_constant_is_refuted(function):
    """The source of one scale beside the PTX of another: library code on both sides hides no difference."""
    mine, other = job(function, 0.5), job(function, 0.625)
    assert validate(replace(mine, source=other.source, library=other.library)).status is Status.REFUTED


def test_code_with_loops_has_no_formula_and_is_no_false_alarm():
    report = validate(job("sine_kernel"))
    assert report.status in (Status.UNKNOWN, Status.UNSUPPORTED) and report.error_findings == []


@pytest.mark.parametrize(
    ("old", "new"),
    [("0f3F317218", "0f3F317318"), ("0fBE374E43", "0fBE374E53"), ("-1060439283", "-1060439284"), ("0fC1B80000", "0fC1B00000")],
)
def test_altered_logarithm_code_is_none(old, new):
    """One constant of the code in the kernel is another: ln 2, a coefficient, the cut between mantissas, the scale of tiny numbers."""
    mine = job("log_kernel")
    assert old in mine.ptx
    assert validate(replace(mine, ptx=mine.ptx.replace(old, new))).status is not Status.PROVED


def test_code_of_another_function_is_no_logarithm():
    mine = job("log_kernel")
    other = {"math.log(f32)": mine.library["math.log2(f32)"], "math.log2(f32)": mine.library["math.log(f32)"]}
    assert all(patterns_of({name: mine.library[name]}) for name in other) and patterns_of(other) == []
    assert validate(replace(mine, library=other)).status is not Status.PROVED


def test_without_the_library_an_approximation_is_not_the_function():
    """erf itself differs from the polynomial: the library's code is what makes the proof, not a loose comparison."""
    assert validate(replace(job("gelu_kernel"), library=None)).status is not Status.PROVED
    assert validate(replace(job("gelu_kernel"), library={})).status is Status.UNSUPPORTED


def test_calls_are_found_in_tile_programs():
    keys = [call.key for call in calls_of(job("gelu_kernel").source)]
    assert keys == ["math.erf(f32)"]
    assert [call.key for call in calls_of(job("tanh_kernel").source)] == ["__nv_tanhf(f32)"]
    assert sorted(call.key for call in calls_of(job("log_kernel").source)) == ["math.log(f32)", "math.log2(f32)"]
    assert calls_of(job("sort_kernel").source) == []


@pytest.mark.parametrize("name", ["__nv_expf", "__nv_sqrtf", "__nv_fmaf", "__nv_fmul_rn", "__nv_fast_expf", "__nv_floorf"])
def test_exact_functions_stay_operators(name):
    assert not approximated(name, extern=True) and approximated("__nv_tanhf", extern=True) and approximated("__nv_powf", extern=True)


@pytest.mark.parametrize("text", ["", "no ptx", ".version 8.4\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\nret;\n}\n"])
def test_code_that_is_none_has_no_formula(text):
    from ptx_engine.terms import Arena

    call = Call("math.erf", ("f32",), False)
    assert Library({call.key: text}).apply(Arena(), call.key, [1]) is None


LITERALS = [
    ("log10", "log10 by log2", 0.30103, 0.301032, Status.PROVED),
    ("exp10", "exp10 by exp2", 3.321928095, 3.32194, Status.PROVED),
    ("silu", "silu by exp2", -1.44269504, -1.442697, Status.PROVED),
    ("softplus", "softplus by log2", 0.69314718, 0.693149, Status.PROVED),
    ("density", "density by a literal", 0.3989422804, 0.398944, Status.UNKNOWN),
]


@pytest.mark.parametrize(("function", "form", "right", "wrong", "status"), LITERALS, ids=[row[1] for row in LITERALS])
def test_literals_for_irrational_constants(function, form, right, wrong, status):
    """Rounded to f32 they are the constant, or a near miss that names it; wrong in the sixth digit they are refuted."""
    from volta_pass.check.triton_library import library_of

    def compiled(form, literal=0.0):
        args = (tensor("x_ptr", "f32", 40), output("out_ptr", "f32", 40), *integers(n=40))
        case = Case("library_kernels", "literal_kernel", args, (("FORM", form), ("LITERAL", literal), ("BLOCK", 32)), (2, 1, 1), HERE)
        return compiled_job(case, Configuration(80, 1, 2))

    reference = compiled(function)
    for literal, expected in ((right, status), (wrong, Status.REFUTED)):
        made = compiled(form, literal)
        library = {**library_of(reference.source, 80), **library_of(made.source, 80)}
        report = validate(replace(made, source=reference.source, library=library))
        assert report.status is expected, (report.reason, report.errors)
        assert expected is not Status.UNKNOWN or "0.398942291737 in the candidate rounds 0.3989422804" in report.reason
