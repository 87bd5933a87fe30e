"""Sides of a spec: Python and Triton code, launches that differ per side, sampled CTAs, module variables."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import numpy as np
import pytest

from ptx_engine.errors import UnsupportedError
from ptx_engine.launch import Footprint, Launch, Role, ScalarArg, TensorArg
from ptx_engine.syntax import parse
from ptx_engine.syntax.ast import FloatLit
from ptx_engine.terms.arena import Arena
from ptx_engine.verdict import Status
from volta_pass.check import CheckOptions, check_file
from volta_pass.check.binding import bind_sides
from volta_pass.check.coverage import comparable
from volta_pass.check.module_values import with_globals
from volta_pass.kernel_report import OWN_SOURCE, KernelReport
from volta_pass.spec import SpecError, read_spec
from volta_pass.spec.reader import parse_spec

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "configs" / "examples"
KERNELS = ROOT / "configs" / "triton"


@pytest.fixture(autouse=True)
def own_compiler_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton's cache knows a kernel by its text, and gives back the source lines of whoever compiled it first."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton-cache"))
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")


def check(folder: Path, text: str) -> KernelReport:
    path = folder / "spec.toml"
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return check_file(path, CheckOptions(allow_code=True))


# --- Python references --------------------------------------------------------------------------

SUM = f"""\
    [launch]
    grid = 1
    block = 128
    [[args]]
    name = "x"
    kind = "tensor"
    dtype = "f32"
    shape = [128]
    role = "in"
    [[args]]
    name = "out"
    kind = "tensor"
    dtype = "f32"
    shape = [1]
    role = "out"
    [reference]
    python = "sums.py:total"
    [candidate]
    ptx = "{EXAMPLES / "reduce_tree.ptx"}"
    """


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("x.sum().reshape(1)", Status.PROVED),
        ("(x.sum() - x[127]).reshape(1)", Status.REFUTED),
        ("(x.sum() * 2).reshape(1)", Status.REFUTED),
    ],
)
def test_python_reference(body: str, expected: Status, tmp_path: Path) -> None:
    (tmp_path / "sums.py").write_text(f"def total(x):\n    return {body}\n", encoding="utf-8")
    assert check(tmp_path, SUM).status is expected


def test_a_failing_reference_is_bad_input_at_its_line(tmp_path: Path) -> None:
    (tmp_path / "sums.py").write_text("def total(x):\n    return {}['key']\n", encoding="utf-8")
    with pytest.raises(SpecError, match=r"sums.py:2: KeyError") as caught:
        check(tmp_path, SUM)
    assert caught.value.span is not None and caught.value.span.line == 17
    (tmp_path / "sums.py").write_text("def total(y):\n    return y\n", encoding="utf-8")
    with pytest.raises(Exception, match="takes 'y'"):
        check(tmp_path, SUM)


def test_a_module_beside_the_spec_is_found(tmp_path: Path) -> None:
    (tmp_path / "sums_module.py").write_text("def total(x):\n    return x.sum().reshape(1)\n", encoding="utf-8")
    assert check(tmp_path, SUM.replace("sums.py:total", "sums_module:total")).status is Status.PROVED


# --- Triton sides -------------------------------------------------------------------------------

ADD = f"""\
    [launch]
    grid = [4, 1, 1]
    [[args]]
    name = "x"
    kind = "tensor"
    dtype = "f32"
    shape = [1000]
    role = "in"
    [[args]]
    name = "y"
    kind = "tensor"
    dtype = "f32"
    shape = [1000]
    role = "in"
    [[args]]
    name = "out"
    kind = "tensor"
    dtype = "f32"
    shape = [1000]
    role = "out"
    [[args]]
    name = "n"
    kind = "scalar"
    dtype = "s32"
    value = 1000
    [candidate]
    triton = "{KERNELS / "vector_add.py"}:add_kernel"
    constexprs = {{BLOCK = 256}}
    options = {{num_warps = 2}}
    """


def test_a_triton_candidate_is_compared_with_its_own_source(tmp_path: Path) -> None:
    report = check(tmp_path, ADD)
    assert report.status is Status.PROVED and report.kernel == "add_kernel"
    assert report.comparisons[0].against == OWN_SOURCE
    assert report.launch["block"] == [64, 1, 1] and report.compile_s > 0
    assert report.output_elements == 1000


def test_a_triton_candidate_against_a_function(tmp_path: Path) -> None:
    (tmp_path / "sums.py").write_text("def right(x, y):\n    return x + y\ndef wrong(x, y):\n    return x - y\n", encoding="utf-8")
    for name, expected in (("right", Status.PROVED), ("wrong", Status.REFUTED)):
        report = check(tmp_path, ADD + f'    [reference]\n    python = "sums.py:{name}"\n')
        assert report.status is expected
    assert report.blame.user_loc.startswith(str(KERNELS / "vector_add.py"))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("constexprs = {BLOCK = 256}", "constexprs = {BLOK = 256}", "no parameter 'BLOK'"),
        ("constexprs = {BLOCK = 256}", "", "4 arguments for the 5 parameters"),
        ("constexprs = {BLOCK = 256}", "constexprs = {BLOCK = 100}", "could not compile"),
        (":add_kernel", ":tl", "no Triton kernel"),
        (":add_kernel", ":nothing", "has no 'nothing'"),
    ],
)
def test_mistakes_in_triton_sides(old: str, new: str, said: str, tmp_path: Path) -> None:
    assert old in ADD
    with pytest.raises(SpecError, match=said):
        check(tmp_path, ADD.replace(old, new))


# --- launches that differ -----------------------------------------------------------------------

X = TensorArg("x", "f16", (8,), Role.IN)
OUT = TensorArg("out", "f32", (8,), Role.OUT)


def launch(*args: TensorArg | ScalarArg) -> Launch:
    return Launch((1, 1, 1), (32, 1, 1), args)


def test_the_same_element_is_the_same_term_on_both_sides() -> None:
    a, b = bind_sides([launch(X, OUT), launch(OUT, TensorArg("x", "f32", (4,), Role.IN))], Arena())
    assert a.by_name["x"].input is b.by_name["x"].input is not None
    assert a.by_name["x"].input.count == 8 and b.by_name["x"].bytes == 16
    assert a.by_name["x"].address == b.by_name["x"].address and [arg.name for arg in b.launch.args] == ["out", "x"]


def test_contents_and_roles_per_side() -> None:
    fixed = TensorArg("x", "f16", (8,), Role.IN, contents=np.zeros(8))
    a, b = bind_sides([launch(X, ScalarArg("s", "f32")), launch(fixed, ScalarArg("s", "f32", 2.0))], Arena())
    assert a.by_name["x"].input is not None and b.by_name["x"].input is None
    assert "s" in a.scalar_ids and "s" not in b.scalar_ids


@pytest.mark.parametrize("other", [TensorArg("x", "f16", (8,), Role.IN, strides=(2,)), TensorArg("x", "s16", (8,), Role.IN)])
def test_other_strides_or_integers_are_unsupported(other: TensorArg) -> None:
    with pytest.raises(UnsupportedError):
        bind_sides([launch(X), launch(other)], Arena())


def footprints(*index: int) -> dict[str, Footprint]:
    return {"out": Footprint(np.array(index, np.int64), np.array(index, np.int32))}


def test_sampled_sides_are_compared_where_they_wrote() -> None:
    def indices(**sampled: bool) -> list[list[int]]:
        sides = comparable(footprints(0, 1, 2), footprints(1, 2, 3), **sampled)
        return [side["out"].index.tolist() for side in sides]

    assert indices(reference_sampled=False, candidate_sampled=False) == [[0, 1, 2], [1, 2, 3]]
    assert indices(reference_sampled=False, candidate_sampled=True) == [[1, 2], [1, 2, 3]]  # 3 is written beyond the reference
    assert indices(reference_sampled=True, candidate_sampled=False) == [[0, 1, 2], [1, 2]]  # 0 is not written
    assert indices(reference_sampled=True, candidate_sampled=True) == [[1, 2], [1, 2]]


def test_one_cta_of_two_is_compared_and_said(tmp_path: Path) -> None:
    text = (EXAMPLES / "scale_add.toml").read_text(encoding="utf-8").replace('ptx = "', f'ptx = "{EXAMPLES}/')
    report = check(tmp_path, text.replace("block = [128, 1, 1]", "block = [128, 1, 1]\nctas = [[1, 0, 0]]"))
    assert report.status is Status.PROVED and (report.ctas_executed, report.ctas_total) == (1, 2)
    assert any("1 of 2" in line and "488 of 488 elements" in line for line in report.assumptions)


# --- module variables ---------------------------------------------------------------------------

TABLE = """\
    .version 7.0
    .target sm_80
    .address_size 64
    .const .align 4 .f32 factor;
    .global .align 4 .u32 limits[2];
    .visible .entry scale(.param .u64 x_ptr, .param .u64 out_ptr)
    {
    .reg .pred %p<2>;
    .reg .f32 %f<4>;
    .reg .b32 %r<3>;
    .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [x_ptr];
    ld.param.u64 %rd2, [out_ptr];
    mov.u32 %r1, %tid.x;
    ld.global.u32 %r2, [limits+4];
    setp.ge.u32 %p1, %r1, %r2;
    @%p1 bra DONE;
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd4, %rd1, %rd3;
    add.s64 %rd5, %rd2, %rd3;
    ld.global.f32 %f1, [%rd4];
    ld.const.f32 %f2, [factor];
    mul.rn.f32 %f3, %f1, %f2;
    st.global.f32 [%rd5], %f3;
    DONE:
    ret;
    }
    """

SCALE = """\
    [launch]
    grid = 1
    block = 8
    [[args]]
    name = "x"
    kind = "tensor"
    dtype = "f32"
    shape = [8]
    role = "in"
    [[args]]
    name = "out"
    kind = "tensor"
    dtype = "f32"
    shape = [8]
    role = "out"
    [reference]
    python = "scale.py:scale"
    [candidate]
    ptx = "scale.ptx"
    [globals]
    factor = 0.5
    limits = [0, 8]
    """


def test_globals_become_initialisers(tmp_path: Path) -> None:
    (tmp_path / "scale.toml").write_text(textwrap.dedent(SCALE), encoding="utf-8")
    spec = read_spec(tmp_path / "scale.toml")
    module = with_globals(parse(textwrap.dedent(TABLE)), spec.globals, spec.candidate)
    contents = {variable.name: variable.initializer for variable in module.variables}
    assert contents == {"factor": (FloatLit(0x3F000000, 32),), "limits": (0, 8)}


def variable(kind: str, value: object) -> object:
    text = f".version 8.0\n.target sm_80\n.address_size 64\n.global .align 8 .{kind} v[2];\n"
    spec = parse_spec(textwrap.dedent(SCALE), Path("scale.toml"))
    return with_globals(parse(text), {"v": value}, spec.candidate).variables[0].initializer  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("kind", "value", "literal"),
    [
        ("f16", 1, FloatLit(0x3C00, 16)), ("bf16", 0.1, FloatLit(0x3DCD, 16)), ("f32", 3.4028235e38, FloatLit(0x7F7FFFFF, 32)),
        ("f64", -2, FloatLit(0xC000000000000000, 64)), ("f32", float("-inf"), FloatLit(0xFF800000, 32)), ("b16", 1, 1), ("f16x2", 7, 7),
        ("u64", 2**64 - 1, 2**64 - 1),
    ],
)  # fmt: skip
def test_a_global_is_a_number_of_its_type(kind: str, value: object, literal: object) -> None:
    """A float's integer is a number, too, and no bits."""
    assert variable(kind, value) == (literal,)


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        ("f16", 65520, "65520 does not fit"), ("f32", 3.40282357e38, "3.40282357e+38 does not fit"), ("bf16", 1e39, "does not fit"),
        ("f64", 10**400, "an integer of 1329 bits does not fit"), ("u8", 256, "256 does not fit"), ("f16x2", 0.5, "0.5 is no integer"),
        ("f32", [1.0, 2.0, 3.0], "3 values"), ("f16x2", [1, 2, 3], "3 values"), ("f32", True, "True is no number"),
    ],
)  # fmt: skip
def test_a_global_that_its_type_has_not_is_refused_with_a_remedy(kind: str, value: object, said: str) -> None:
    with pytest.raises(SpecError, match=re.escape(said)) as raised:
        variable(kind, value)
    assert "v" in raised.value.message and raised.value.hint and raised.value.span


@pytest.mark.parametrize(("value", "said"), [("limits = [0, 8, 9]", "3 values"), ("limits = [0, 1.5]", "no integer")])
def test_globals_that_do_not_fit(value: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "scale.ptx").write_text(textwrap.dedent(TABLE), encoding="utf-8")
    with pytest.raises(SpecError, match=said):
        check(tmp_path, SCALE.replace('    [reference]\n    python = "scale.py:scale"\n', "").replace("limits = [0, 8]", value))
