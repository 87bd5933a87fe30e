"""Upgrade regression: launches recorded under one compiler, compiled again and compared; a seeded miscompilation is caught."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ptx_engine.errors import LaunchError
from ptx_engine.launch import Launch, NullArg, Role, ScalarArg, TensorArg
from volta_pass.baseline import Record, Recording
from volta_pass.baseline.compare import normalised
from volta_pass.baseline.recompile import check_kernels
from volta_pass.cli import main
from volta_pass.stages import Stages

pytest.importorskip("triton")
ROOT = Path(__file__).parents[2]
PATCH = "_VOLTA_TEST_PTX_PATCH"

PROGRAM = """
import numpy as np
import triton
import triton.language as tl

FACTOR = tl.constexpr(3.0)
KIND = tl.float32


@triton.jit
def scaled(x, factor):
    return (x * factor).to(KIND)


@triton.jit
def kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out_ptr + at, scaled(tl.load(x_ptr + at, mask), FACTOR) + tl.load(y_ptr + at, mask), mask)


n = 300
x, y, out = (np.zeros(n, np.float32) for _ in range(3))
for block in (64, 128):
    kernel[(triton.cdiv(n, block),)](x, y, out, n, BLOCK=block)
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A program with two launches, recorded."""
    folder = tmp_path_factory.mktemp("baseline")
    (folder / "program.py").write_text(PROGRAM)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VOLTA_CACHE_DIR", str(folder / "cache"))
        patch.setenv("TRITON_CACHE_DIR", str(folder / "triton"))
        assert main(["baseline", "record", str(folder / "old"), "--target", "cuda:80", "--", "python", str(folder / "program.py")]) == 0
    return folder / "old"


def check(folder, capsys, *more):
    code = main(["baseline", "check", str(folder), "--json", *more])
    return code, json.loads(capsys.readouterr().out)["kernels"]


def test_a_recording_holds_what_it_takes(recorded):
    records = Recording(recorded).records()
    assert [record.configuration["BLOCK"] for record in records] == [128, 64]
    for record in records:
        assert record.report["verdict"] == "proved" and ".visible .entry kernel" in record.ptx and "tt.func" in record.source
        assert "def scaled" in record.recipe["source"] and "FACTOR = triton.language.constexpr(3.0)" in record.recipe["source"]
        check_kernels(record.recipe["source"])


def test_kernels_stand_at_the_user_s_lines(recorded):
    mine, kept = PROGRAM.splitlines(), Recording(recorded).records()[0].recipe["source"].splitlines()
    for at, line in enumerate(mine[: mine.index("n = 300")]):
        assert not line.startswith(("    ", "def ")) or kept[at] == line


def test_the_same_compiler_gives_the_same_text(recorded, capsys):
    code, kernels = check(recorded, capsys)
    assert code == 0 and [kernel["change"] for kernel in kernels] == ["same text", "same text"]
    assert main(["baseline", "check", str(recorded)]) == 0
    assert "2 same text" in capsys.readouterr().out


def test_two_processes_say_what_one_says(recorded, capsys):
    assert check(recorded, capsys, "--jobs", "2") == check(recorded, capsys)


def test_an_error_of_a_recording_ends_the_command_whichever_process_meets_it(recorded, tmp_path, capsys):
    for record in Recording(recorded).records():
        Recording(tmp_path).write(replace(record, recipe={**record.recipe, "source": record.recipe["source"] + "import os\n"}))
    assert main(["baseline", "check", str(tmp_path), "--jobs", "2"]) == 2
    assert "more than kernels" in capsys.readouterr().err


def test_a_miscompilation_is_refuted_and_the_compiler_blamed(recorded, capsys, monkeypatch):
    monkeypatch.setenv(PATCH, "0f40400000=>0f40800000")
    code, kernels = check(recorded, capsys)
    assert code == 1 and {kernel["change"] for kernel in kernels} == {"refuted"}
    assert all("its PTX differs from its own source" in kernel["blame"] for kernel in kernels)
    monkeypatch.setenv(PATCH, "fma.rn.f32=>fma.rz.f32")
    code, kernels = check(recorded, capsys)
    assert code in (0, 4)  # rounding is no difference over the reals


def test_other_code_for_the_same_values_is_proved_and_its_cost_shown(recorded, capsys, monkeypatch):
    monkeypatch.setenv(PATCH, "ret;=>bar.sync 0; ret;")
    code, kernels = check(recorded, capsys)
    assert code == 0 and {kernel["change"] for kernel in kernels} == {"proved equal"}
    assert all(kernel["cost"]["barriers"] == [0, 1] for kernel in kernels)


def test_the_decider_knows_where_each_of_the_three_sides_begins(recorded, capsys, monkeypatch):
    """The new PTX is compared with its own source and then, in the same arena, with the old PTX."""
    seen, decide = [], Stages.decide

    def watched(self, reference, candidate):
        sides = [{self.arena.side_of(int(i)) for f in side.values() for i in f.ids} for side in (reference, candidate)]
        seen.append((sides, list(self.arena.sides)))
        return decide(self, reference, candidate)

    monkeypatch.setattr(Stages, "decide", watched)
    monkeypatch.setenv(PATCH, "ret;=>bar.sync 0; ret;")
    monkeypatch.setenv("VOLTA_CACHE_DIR", str(recorded / "none"))
    assert check(recorded, capsys)[0] == 0
    (source, first), (older, (ptx, own, old)) = seen[:2]
    assert [ptx, own] == first and ptx < own < old
    assert source == [{own}, {ptx}] and older == [{old}, {ptx}]


def test_a_store_out_of_bounds_is_no_proof(recorded, capsys, monkeypatch):
    monkeypatch.setenv(PATCH, "ret;=>st.global.b32 [%rd1+4096], 0; ret;")
    code, kernels = check(recorded, capsys)
    assert code == 1 and {kernel["change"] for kernel in kernels} == {"new races"}
    assert all("out of bounds" in kernel["reason"] for kernel in kernels)


@pytest.mark.parametrize(
    ("elsewhere", "change"),
    [
        ({}, "proved equal"),
        ({"tensor": "y_ptr"}, "new races"),
        ({"space": "shared", "tensor": ""}, "new races"),
        ({"kind": "race"}, "new races"),
    ],
)
def test_a_finding_in_other_memory_than_before_is_new(recorded, tmp_path, capsys, monkeypatch, elsewhere, change):
    monkeypatch.setenv(PATCH, "ret;=>st.global.b32 [%rd1+4096], 0; ret;")
    [now, *_] = check(recorded, capsys)[1]
    findings = [{**finding, **elsewhere} for finding in now["report"]["findings"]]
    record = Recording(recorded).records()[0]
    Recording(tmp_path).write(replace(record, report={**record.report, "findings": findings}))
    code, kernels = check(tmp_path, capsys)
    assert [kernel["change"] for kernel in kernels] == [change] and code == (change == "new races")


def test_a_kernel_that_the_compiler_refuses(recorded, tmp_path, capsys):
    record = Recording(recorded).records()[0]
    source = record.recipe["source"].replace("tl.arange(0, BLOCK)", "tl.arange(0, 3)")
    Recording(tmp_path).write(replace(record, recipe={**record.recipe, "source": source}))
    code, kernels = check(tmp_path, capsys)
    assert code == 1 and [kernel["change"] for kernel in kernels] == ["no longer compiles"]
    assert "power of 2" in kernels[0]["reason"]


def test_diff_of_two_recordings(recorded, tmp_path, capsys):
    newer = Recording(tmp_path / "new")
    first = Recording(recorded).records()[0]
    newer.write(replace(first, ptx=first.ptx.replace("0f40400000", "0f40000000"), toolchain={"Triton": "9.9"}))
    code = main(["baseline", "diff", str(recorded), str(tmp_path / "new"), "--json"])
    changes = {k["configuration"]["BLOCK"]: k["change"] for k in json.loads(capsys.readouterr().out)["kernels"]}
    assert code == 1 and changes == {"128": "refuted", "64": "not in the other recording"}


def test_specs_are_recorded_and_compiled_again(tmp_path, capsys):
    spec = tmp_path / "spec.toml"
    text = (ROOT / "configs" / "examples" / "scale_add.toml").read_text()
    spec.write_text(text)
    for ptx in (ROOT / "configs" / "examples").glob("scale_add*.ptx"):
        (tmp_path / ptx.name).write_text(ptx.read_text())
    assert main(["baseline", "record", str(tmp_path / "rec"), str(spec)]) == 0
    capsys.readouterr()
    assert check(tmp_path / "rec", capsys)[1][0]["change"] == "same text"
    good, bad = (tmp_path / "scale_add_vector.ptx"), (tmp_path / "scale_add_forgets_alpha.ptx")
    good.write_text(bad.read_text())
    code, kernels = check(tmp_path / "rec", capsys)
    assert code == 1 and kernels[0]["change"] == "refuted"


# --- bad input ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ["check", "nowhere"], ["diff", "nowhere", "nowhere"], ["record", "x"], ["record", "x", "nowhere.toml"],
        ["record", "x", "a.toml", "--", "python", "p.py"], ["record", "x", "--", "no-such-program-at-all"],
    ],
)  # fmt: skip
def test_one_error_with_a_remedy(words, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    assert main(["baseline", *words]) == 2
    err = capfd.readouterr().err
    assert "Traceback" not in err and "help: " in err


def test_damaged_entries_are_named_and_not_used(recorded, tmp_path, capsys):
    first, second = Recording(recorded).records()
    mine = Recording(tmp_path)
    mine.write(first)
    mine.write(second)
    path = next(path for path in tmp_path.rglob("*") if path.is_file())
    path.write_bytes(path.read_bytes()[:-3])
    assert main(["baseline", "check", str(tmp_path)]) == 3
    done = capsys.readouterr()
    assert "1 same text" in done.out and "damaged entry" in done.err


@pytest.mark.parametrize(
    "line",
    [
        "import os", "from os import system", "print('x')", "x = open('y')", "x = [1]", "import triton.backends", "class A: pass",
        "@triton.jit\n@evil\ndef f(): pass", "@evil\ndef f(): pass", "def f(): pass", "@triton.jit\ndef f(x=evil()): pass",
        "@triton.jit\ndef f(x: evil()): pass", "x = triton.language.constexpr(evil())", "x = triton.runtime.driver", "x.y = 1",
        "@triton.jit\ndef f(x: tl.a[evil()]): pass", "exec('x')", "if True:\n    x = 1", "@triton.jit\nasync def f(): pass",
    ],
)  # fmt: skip
def test_a_recorded_source_with_other_code_is_not_imported(line, recorded, tmp_path, capsys):
    with pytest.raises(LaunchError, match="more than kernels"):
        check_kernels(line)
    record = Recording(recorded).records()[0]
    Recording(tmp_path).write(replace(record, recipe={**record.recipe, "source": record.recipe["source"] + line + "\n"}))
    assert main(["baseline", "check", str(tmp_path)]) == 2
    assert "more than kernels" in capsys.readouterr().err and not (tmp_path / "sources").exists()


NAMES = st.text("abc", min_size=1, max_size=3)


@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.sampled_from(["null", "scalar", "tensor", "contents"]), max_size=4),
    st.tuples(*[st.integers(1, 4)] * 3),
    st.dictionaries(NAMES, st.integers(), max_size=2),
)
def test_records_survive_writing(kinds, grid, configuration):
    import tempfile

    args = []
    for i, kind in enumerate(kinds):
        name = f"a{i}"
        if kind == "null":
            args.append(NullArg(name))
        elif kind == "scalar":
            args.append(ScalarArg(name, "s32", i))
        elif kind == "tensor":
            args.append(TensorArg(name, "f16", (2, 3), Role.OUT, (8, 1)))
        else:
            args.append(TensorArg(name, "s64", (2,), Role.IN, contents=np.array([i, -i], np.int64)))
    launch = Launch(grid, (32, 1, 1), tuple(args), 64)
    record = Record("k", configuration, "sm_80", "ptx", "k", None, launch, {"refused": "no"}, {"verdict": "proved"}, {"Triton": "1"})
    with tempfile.TemporaryDirectory() as folder:
        Recording(Path(folder)).write(record)
        (found,) = Recording(Path(folder)).records()
    assert found.identity == record.identity and found.launch.grid == grid and found.configuration == configuration
    for mine, theirs in zip(launch.args, found.launch.args, strict=True):
        if isinstance(mine, TensorArg) and not isinstance(mine.contents, str):
            assert np.array_equal(mine.contents, theirs.contents) and mine.contents.dtype == theirs.contents.dtype
        else:
            assert mine == theirs or (mine.name, mine.shape, mine.element_strides()) == (
                theirs.name,
                theirs.shape,
                theirs.element_strides(),
            )


def test_text_is_the_same_but_for_lines_comments_and_versions():
    head = ".version {v}\n.target sm_80\n.address_size 64\n.visible .entry k()\n{{\n{loc}\t{op}; // {note}\n\tret;\n}}\n"
    one = head.format(v="8.4", loc="", op="bar.sync 0", note="a")
    assert normalised(one) == normalised(head.format(v="8.7", loc=".loc 1 2 3\n", op="bar.sync  0", note="b") + '.file 1 "x.py"\n')
    assert normalised(one) != normalised(head.format(v="8.4", loc="", op="bar.sync 1", note="a"))
    assert normalised("no ptx") == "no ptx"
