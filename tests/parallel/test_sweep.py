"""A spec with a [sweep] is a spec for each combination: their order, their grids, what is refused where; and the example."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from volta_pass import check_many, read_spec, read_sweep
from volta_pass.cli import main
from volta_pass.spec import SpecError

SWEEP = Path(__file__).parent.parent.parent / "configs" / "sweep"

TEXT = """
[launch]
grid = 1
[[args]]
name = "x"
kind = "tensor"
dtype = "f32"
shape = [100]
[[args]]
name = "N"
kind = "scalar"
dtype = "s32"
value = 100
[candidate]
triton = "k.py:kernel"
constexprs = {FAST = true}
[sweep]
grid = GRID
constexprs = {BLOCK = [16, 32, 128]}
options = {num_warps = [1, 4]}
"""


def written(folder: Path, grid: str = '"cdiv(N, BLOCK)"', **changes: str) -> Path:
    text = TEXT.replace("GRID", grid)
    for old, new in changes.items():
        text = text.replace(old, new)
    path = folder / "sweep.toml"
    path.write_text(text)
    return path


def test_the_combinations_are_in_the_order_of_the_lists(tmp_path: Path) -> None:
    points = read_sweep(written(tmp_path))
    assert [(c["BLOCK"], c["num_warps"]) for _, c in points] == [(16, 1), (16, 4), (32, 1), (32, 4), (128, 1), (128, 4)]
    assert [spec.candidate.launch.grid[0] for spec, _ in points] == [7, 7, 4, 4, 1, 1]  # the ceiling of 100 / BLOCK
    assert all(spec.candidate.constexprs == {"FAST": True, "BLOCK": c["BLOCK"]} for spec, c in points)
    assert all(spec.candidate.options == {"num_warps": c["num_warps"]} for spec, c in points)


@pytest.mark.parametrize(
    ("formula", "grid"),
    [
        ('"2 * (N - 90) // 4"', (5, 1, 1)),
        ('["N // BLOCK + 1", "num_warps + 1"]', (7, 2, 1)),
        ('["1", "2", "cdiv(N, 3 * BLOCK)"]', (1, 2, 3)),
    ],
)
def test_formulas(formula: str, grid: tuple[int, int, int], tmp_path: Path) -> None:
    assert read_sweep(written(tmp_path, formula))[0][0].candidate.launch.grid == grid


@pytest.mark.parametrize(
    "formula",
    ['"N // 0"', '"M"', '"N - 100"', '"BLOCK ** 9"', '"FAST"', '"1.5"', '"__import__(1)"', '"N.real"', '"("', '"N << 3"', '"x"'],
)
def test_what_is_no_formula_is_refused_at_its_line(formula: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError) as refused:
        read_sweep(written(tmp_path, formula))
    assert refused.value.span is not None


def test_large_numbers_are_refused_before_they_grow(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="no integer that a formula may have"):
        read_sweep(written(tmp_path, '"' + " * ".join(["N"] * 40) + '"'))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('constexprs = {BLOCK = [16, 32, 128]}\noptions = {num_warps = [1, 4]}', "", "has no lists"),
        ("BLOCK = [16, 32, 128]", "BLOCK = 16", "must be a list"),
        ("[1, 4]", "[]", "must be a list"),
        ('triton = "k.py:kernel"\nconstexprs = {FAST = true}', 'ptx = "k.ptx"', "over a Triton candidate"),
        ("[1, 4]", str(list(range(1, 40_000))), "sweep of 119997 configurations"),
    ],
)  # fmt: skip
def test_what_is_no_sweep_is_refused(old: str, new: str, message: str, tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(SpecError, match=message):
        read_sweep(path)


def test_one_spec_is_wanted_and_a_sweep_given(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="many specs"):
        read_spec(written(tmp_path))


def test_a_spec_without_a_sweep_is_its_only_point() -> None:
    path = SWEEP.parent / "examples" / "softmax.toml"
    assert read_sweep(path) == [(read_spec(path), {})]


def test_the_example_has_200_configurations() -> None:
    points = [point for name in ("matmul", "matmul_no_k_mask") for point in read_sweep(SWEEP / f"{name}.toml")]
    assert len(points) == 200
    assert len({(spec.candidate.source, json.dumps(named)) for spec, named in points}) == 200


def test_the_sweep_in_small(capsys: pytest.CaptureFixture[str]) -> None:
    """A kernel without a K mask is wrong where the block does not divide K: 96 is divided by 16 and 32, not by 64."""
    pytest.importorskip("triton")
    assert main(["check", str(SWEEP / "small.toml"), "--allow-code", "--jobs", "2", "--json"]) == 1
    rows = json.loads(capsys.readouterr().out)["kernels"]
    found = {(row["kernel"], row["configuration"]["BLOCK_K"]): row["verdict"] for row in rows}
    assert found == {
        **{("matmul_kernel", k): "proved" for k in (16, 32, 64)},
        **{("matmul_no_k_mask_kernel", k): "proved" for k in (16, 32)},
        ("matmul_no_k_mask_kernel", 64): "refuted",
    }
    assert [row["configuration"]["BLOCK_K"] for row in rows] == [16, 32, 64] * 2


def test_a_sweep_names_code_that_must_be_allowed() -> None:
    points = read_sweep(SWEEP / "small.toml")
    (report,) = check_many([points[0][0]])
    assert report.verdict == "unknown" and "names code to import" in report.reason
