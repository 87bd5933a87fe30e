"""Launch specs: what is read, and that every mistake is one error with file, line, key and remedy."""

from __future__ import annotations

import json
import textwrap
import tomllib
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptx_engine.errors import UnsupportedError
from ptx_engine.launch import Role, ScalarArg, TensorArg
from volta_pass.spec import SideKind, SpecError, parse_spec, read_spec
from volta_pass.spec.contents import MOST_ELEMENTS, build_contents
from volta_pass.spec.lines import locate_keys
from volta_pass.spec.schema import SCHEMA, schema_text

SCHEMA_FILE = Path(__file__).parents[2] / "configs" / "launch_spec.schema.json"

GOOD = """\
    [launch]
    grid = [4, 2]
    block = 128
    dynamic_shared_bytes = 64
    [[args]]
    name = "A"
    kind = "tensor"
    dtype = "f16"
    shape = [8, 16]
    strides = [32, 1]
    role = "in"
    [[args]]
    name = "C"
    kind = "tensor"
    dtype = "f32"
    shape = [8]
    role = "out"
    [[args]]
    name = "n"
    kind = "scalar"
    dtype = "s32"
    value = 100
    [[args]]
    name = "alpha"
    kind = "scalar"
    dtype = "f32"
    [reference]
    ptx = "ref.ptx"
    entry = "kernel"
    args = ["C", "A", {name = "n", value = 7}]
    grid = [1, 1, 1]
    launch.block = [1]
    [candidate]
    ptx = "opt.ptx"
    [compare]
    outputs = ["C"]
    [externs]
    __my_expf = "exp"
    [globals]
    MAX_KEY = 32
    """


def read(text: str):
    return parse_spec(textwrap.dedent(text), Path("some/where.toml"))


def edited(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new, 1)


def test_good_spec_is_read_whole() -> None:
    spec = read(GOOD)
    candidate, reference = spec.candidate, spec.reference
    assert reference is not None
    assert candidate.kind is SideKind.PTX and Path(candidate.source) == Path("some/opt.ptx")
    assert candidate.launch.grid == (4, 2, 1) and candidate.launch.block == (128, 1, 1)
    assert candidate.launch.dynamic_shared_bytes == 64 and candidate.launch.ctas is None
    assert [arg.name for arg in candidate.launch.args] == ["A", "C", "n", "alpha"]
    assert candidate.launch.args[0] == TensorArg("A", "f16", (8, 16), Role.IN, (32, 1))
    assert candidate.launch.args[3] == ScalarArg("alpha", "f32", "symbolic")
    assert [arg.name for arg in reference.launch.args] == ["C", "A", "n"]
    assert reference.launch.args[2] == ScalarArg("n", "s32", 7)
    assert reference.launch.grid == (1, 1, 1) and reference.launch.block == (1, 1, 1) and reference.entry == "kernel"
    assert spec.outputs == ("C",) and spec.externs == {"__my_expf": "exp"} and spec.globals == {"MAX_KEY": 32}


def test_tables_only_override_and_keep_the_order() -> None:
    spec = read(edited('args = ["C", "A", {name = "n", value = 7}]', 'args = [{name = "n", value = 7}]'))
    assert spec.reference is not None
    assert [arg.name for arg in spec.reference.launch.args] == ["A", "C", "n", "alpha"]
    assert spec.reference.launch.args[2] == ScalarArg("n", "s32", 7)


def test_outputs_default_to_what_may_be_written() -> None:
    spec = read(GOOD.replace('    [compare]\n    outputs = ["C"]\n', ""))
    assert spec.outputs == ("C",)


#: (what is changed, into what, line of the error, words of the message, words of the remedy)
MISTAKES = [
    ("grid = [4, 2]", "grid = [0]", 2, "launch.grid must be", ""),
    ("grid = [4, 2]", "grid = [1, 70000]", 2, "grid.y is 70000", "at most 65535"),
    ("block = 128", "block = [64, 32]", 3, "2048 threads", "at most 1024"),
    ("block = 128", "block = 128\n    blocks = 3", 4, "unknown key 'blocks'", 'did you mean "block"?'),
    ("    block = 128\n", "", 1, "no 'block'", "block ="),
    ('kind = "tensor"', 'kind = "tensr"', 7, "args[0].kind", 'did you mean "tensor"?'),
    ('dtype = "f16"', 'dtype = "float16"', 8, "args[0].dtype", 'did you mean "f16"?'),
    ("shape = [8, 16]", 'shape = "8x16"', 9, "args[0].shape must be a list", ""),
    ("strides = [32, 1]", "strides = [32]", 10, "1 strides for 2 dimensions", ""),
    ('role = "in"', 'role = "input"', 11, "args[0].role", 'did you mean "inout"?'),
    ('name = "C"', 'name = "A"', 13, "two arguments are named 'A'", ""),
    ('    name = "C"\n', "", 12, "args[1]] has no 'name'", "name ="),
    ("value = 100", "value = 1.5", 22, "n is s32", "integer"),
    ("value = 100", "value = 3000000000", 22, "3000000000 is no s32", "2147483647"),
    ("value = 100", 'shape = [1]', 22, "shape is for tensors", ""),
    ('ptx = "ref.ptx"', 'ptx = "ref.ptx"\n    cuda = "ref.cu"', 29, "ptx and cuda", "keep one"),
    ('    ptx = "opt.ptx"\n', "", 33, "[candidate] names no kernel", "ptx ="),
    ('ptx = "opt.ptx"', 'ptx = "opt.ptx"\n    constexprs = {B = 1}', 35, "is for triton", "remove"),
    ('ptx = "opt.ptx"', 'python = "mod:fn"', 34, "a candidate cannot be a Python function", "references"),
    ('ptx = "opt.ptx"', 'triton = "mod.fn"', 34, "candidate.triton must be", ""),
    ('args = ["C", "A", {name = "n", value = 7}]', 'args = ["C", "B"]', 30, "'B' is no argument", "known: A, C"),
    ('args = ["C", "A", {name = "n", value = 7}]', 'args = ["C", {name = "n", valu = 7}]', 30, "unknown key 'valu'", '"value"'),
    ("launch.block = [1]", "launch.grid = [1]", 31, "reference.grid is given twice", "remove"),
    ('outputs = ["C"]', 'outputs = ["A"]', 36, "role \"in\"", "out"),
    ('outputs = ["C"]', 'outputs = ["n"]', 36, "'n' is no tensor", ""),
    ('__my_expf = "exp"', '__my_expf = "expp"', 38, "is no operator", 'did you mean "exp"?'),
    ("MAX_KEY = 32", 'MAX_KEY = "x"', 40, "globals.MAX_KEY must be a number", ""),
    ("[compare]", "[compar]", 35, "unknown key 'compar' at top level", '"compare"'),
    ("grid = [4, 2]", "grid = [4, 2", 3, "not TOML", ""),
    ("[launch]", "[lanch]", 1, "unknown key 'lanch'", '"launch"'),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "line", "message", "remedy"), MISTAKES)
def test_mistake_is_placed_and_explained(old: str, new: str, line: int, message: str, remedy: str) -> None:
    with pytest.raises(SpecError) as caught:
        read(edited(old, new))
    error = caught.value
    assert error.span is not None
    assert message in error.message
    assert remedy in error.hint
    assert error.span.line == line and error.span.file.endswith("where.toml")
    assert f"where.toml:{line}:" in error.render()


def test_ctas_must_lie_in_the_grid() -> None:
    spec = read(edited("block = 128", "block = 128\n    ctas = [[3, 1], [0]]"))
    assert spec.candidate.launch.ctas == ((3, 1, 0), (0, 0, 0))
    with pytest.raises(SpecError, match="outside the grid"):
        read(edited("block = 128", "block = 128\n    ctas = [[4, 0]]"))


def test_tensor_maps_are_unsupported() -> None:
    with pytest.raises(UnsupportedError, match="tensor maps"):
        read(edited('kind = "tensor"', 'kind = "tensormap"'))


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="cannot read"):
        read_spec(tmp_path / "none.toml")
    with pytest.raises(SpecError, match="cannot read"):
        read_spec(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b"name = '\xe9'")
    with pytest.raises(SpecError, match="not UTF-8"):
        read_spec(tmp_path / "latin.toml")


# --- contents -----------------------------------------------------------------------------------


def test_contents() -> None:
    assert build_contents("symbolic", "s32", 3) == "symbolic"
    assert list(build_contents("arange", "s32", 3)) == [0, 1, 2]
    drawn = build_contents("random:7:-2:3", "s8", 1000)
    assert isinstance(drawn, np.ndarray)
    assert set(drawn.tolist()) == {-2, -1, 0, 1, 2}  # HIGH is exclusive
    assert np.array_equal(drawn, build_contents("random:7:-2:3", "s8", 1000))
    assert not np.array_equal(drawn, build_contents("random:8:-2:3", "s8", 1000))


@pytest.mark.parametrize(
    ("value", "dtype", "storage", "said"),
    [
        ([1, 2], "s32", 3, "2 values for a tensor of 3"),
        ([300], "u8", 1, "is no u8"),
        ([1.5], "s32", 1, "is no s32"),
        ("arange", "s8", 200, "is no s8"),
        ("random:1:5:5", "s32", 1, "LOW < HIGH"),
        ("random:1:0:300", "u8", 1, "outside u8"),
        ("random:1:0.5:2", "s32", 1, "integer bounds"),
        ([1e6], "f16", 1, "beyond the largest f16"),
        ("arange", "f16", 70_000, "beyond the largest f16"),
        (f"random:1:-{'9' * 308}:{'9' * 308}", "f64", 1, "whose difference"),
        ("arange", "s32", MOST_ELEMENTS + 1, "leave them symbolic"),
        ("random:1:0:2", "f32", MOST_ELEMENTS + 1, "leave them symbolic"),
    ],
)
def test_contents_that_do_not_fit(value: object, dtype: str, storage: int, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        build_contents(value, dtype, storage)  # type: ignore[arg-type]


@given(st.lists(st.floats(-60000, 60000, width=64), min_size=1, max_size=20))
@settings(max_examples=50, deadline=None)
def test_rounding_agrees_with_numpy(values: list[float]) -> None:
    for dtype, judge in (("f32", np.float32), ("f16", np.float16)):
        contents = build_contents(list(values), dtype, len(values))
        assert np.array_equal(contents, np.array(values).astype(judge).astype(np.float64))


def test_contents_as_long_as_a_spec_may_have() -> None:
    drawn = build_contents("arange", "u32", MOST_ELEMENTS)
    assert isinstance(drawn, np.ndarray) and len(drawn) == MOST_ELEMENTS and drawn[-1] == MOST_ELEMENTS - 1


# --- lines --------------------------------------------------------------------------------------


def test_keys_are_found_behind_strings_comments_and_arrays() -> None:
    text = textwrap.dedent('''\
        # a = 1
        [x]  # [y]
        "quoted key" = """
        b = 2
        """
        c = [ # = ]
          "d = 3", { e = 4 },
        ]
        f.g = 5
        [[z]]
        h = '#'
        [[z]]
        h = 1
        [z.i]
        j = 2
        ''')
    table = locate_keys(text, "f")
    assert {path: place[0] for path, place in table.places.items()} == {
        ("x",): 2, ("x", "quoted key"): 3, ("x", "c"): 6, ("x", "f", "g"): 9, ("z",): 10, ("z", 0): 10, ("z", 0, "h"): 11,
        ("z", 1): 12, ("z", 1, "h"): 13, ("z", 1, "i"): 14, ("z", 1, "i", "j"): 15,
    }  # fmt: skip
    assert table.span(("z", 1, "h", "deeper")).line == 13


@given(st.text(alphabet="[]{}\"'#=a.1\n ,", max_size=60))
@settings(max_examples=200, deadline=None)
def test_any_text_gives_a_spec_or_a_spec_error(text: str) -> None:
    with pytest.raises(SpecError):
        parse_spec(text, Path("x.toml"))


@given(st.integers(0, len(GOOD) - 1), st.sampled_from(list("[]{}\"'=#,\n\\0aZ-")))
@settings(max_examples=200, deadline=None)
def test_one_wrong_character_never_escapes_as_another_error(position: int, character: str) -> None:
    text = textwrap.dedent(GOOD)
    changed = text[: position % len(text)] + character + text[position % len(text) + 1 :]
    try:
        parse_spec(changed, Path("x.toml"))
    except (SpecError, UnsupportedError) as error:
        assert error.span is not None


# --- schema -------------------------------------------------------------------------------------


def test_schema_file_is_the_table() -> None:
    assert SCHEMA_FILE.read_text(encoding="utf-8") == schema_text()


def test_schema_is_valid_and_agrees_with_our_checks() -> None:
    validator = jsonschema.Draft202012Validator
    validator.check_schema(json.loads(schema_text()))
    check = validator(SCHEMA)
    assert check.is_valid(tomllib.loads(textwrap.dedent(GOOD)))
    structural = [row for row in MISTAKES if "must be" in row[3] or "unknown key" in row[3] or "has no 'name'" in row[3]]
    assert len(structural) == 9
    for old, new, *_ in structural:
        assert not check.is_valid(tomllib.loads(textwrap.dedent(edited(old, new)))), new
