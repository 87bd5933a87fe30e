"""``volta-pass bench decide``: its problems against NumPy's values, its rows, and Z3 on small terms."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

import numpy as np
import pytest
from gmpy2 import mpq

from ptx_engine.decide.driver import decide
from ptx_engine.decide.precise import Cone
from ptx_engine.terms import Arena
from ptx_engine.verdict import Status
from volta_pass.cli import bench, bench_decide, main
from volta_pass.cli.bench_decide import lines_of, scaling_lines
from volta_pass.cli.bench_decide_attention import Shape, flash1_problem, flash2_problem, tile_problem
from volta_pass.cli.bench_decide_case import CASES, Case, Figures, first_output, measured
from volta_pass.cli.bench_decide_emit import Problem
from volta_pass.cli.bench_decide_norm import chan, layer_norm_problem, moments, welford
from volta_pass.cli.bench_decide_products import conv_problem, matmul_problem
from volta_pass.cli.bench_decide_scaling import SERIES, Series, seconds

SMALL = Shape(rows=16, keys=32, depth=16, block=8)
CAUSAL = Shape(rows=16, keys=32, depth=16, block=16, causal=True)
ALL: dict[str, Callable[[], Problem]] = {
    "flash 1": lambda: flash1_problem(SMALL),
    "flash 2": lambda: flash2_problem(SMALL),
    "flash 1, causal": lambda: flash1_problem(CAUSAL),
    "flash 2, causal": lambda: flash2_problem(CAUSAL),
    "tile": lambda: tile_problem(SMALL),
    "matmul": lambda: matmul_problem(16, 8, 64),
    "convolution": lambda: conv_problem(16, 8, 27, size=3, stride=2),
    "moments": lambda: layer_norm_problem(moments, 64),
    "Welford": lambda: layer_norm_problem(welford, 64),
    "Chan": lambda: layer_norm_problem(chan, 64),
}


@pytest.mark.parametrize("name", ALL)
def test_the_sides_are_equal_and_different_programs(name: str) -> None:
    p = ALL[name]()
    assert decide(p.arena, p.reference, p.candidate).status is Status.PROVED
    assert not np.isin(p.reference["out"].ids, p.candidate["out"].ids).any()


def _values(p: Problem, side: str, inputs: dict[str, np.ndarray], element: int) -> float:
    """One output of one side at given inputs, in 128 bits."""
    ident = int(getattr(p, side)["out"].ids[element])
    cone = Cone(p.arena, [ident])
    flat = np.concatenate([inputs[entry.name].ravel() for entry in p.arena.inputs])
    assigned = {i: mpq(*float(flat[-1 - i]).as_integer_ratio()) for i in cone.inputs}
    return float(cone.evaluate(assigned, 128)[ident])


def _softmax_attention(x: dict[str, np.ndarray], causal: bool) -> np.ndarray:
    scores = x["Q"] @ x["K"].T / 8
    if causal:
        scores[np.arange(32)[None, :] > np.arange(16)[:, None] + 16] = -np.inf
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray((weights / weights.sum(axis=1, keepdims=True)) @ x["V"])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("side", ["reference", "candidate"])
def test_attention_is_attention(causal: bool, side: str) -> None:
    rng = np.random.default_rng(3)
    x = {"Q": rng.normal(size=(16, 16)), "K": rng.normal(size=(32, 16)), "V": rng.normal(size=(32, 16))}
    expected = _softmax_attention(x, causal).ravel()
    shape = CAUSAL if causal else SMALL
    for p in (flash1_problem(shape), flash2_problem(shape), tile_problem(shape)):
        for element in (0, 130, 255):
            assert _values(p, side, x, element) == pytest.approx(expected[element], rel=1e-12)


@pytest.mark.parametrize("side", ["reference", "candidate"])
def test_products_are_products(side: str) -> None:
    rng = np.random.default_rng(4)
    x = {name: rng.normal(size=shape) for name, shape in (("A", (16, 64)), ("B", (64, 8)), ("C", (16, 8)), ("alpha", (1,)), ("beta", (1,)))}
    expected = (x["alpha"] * (x["A"] @ x["B"]) + x["beta"] * x["C"]).ravel()
    assert _values(matmul_problem(16, 8, 64), side, x, 77) == pytest.approx(expected[77], rel=1e-12)
    image, weight = rng.normal(size=(3, 3, 17)), rng.normal(size=(16, 27))
    convolved = np.array([[(weight[c].reshape(3, 3, 3) * image[:, :, 2 * p : 2 * p + 3]).sum() for p in range(8)] for c in range(16)])
    p = conv_problem(16, 8, 27, size=3, stride=2)
    assert _values(p, side, {"X": image, "W": weight}, 77) == pytest.approx(convolved.ravel()[77], rel=1e-12)


@pytest.mark.parametrize("side", ["reference", "candidate"])
def test_layer_norms_are_layer_norms(side: str) -> None:
    rng = np.random.default_rng(5)
    x = {name: rng.normal(size=64) for name in ("x", "w", "b")}
    expected = (x["x"] - x["x"].mean()) / np.sqrt(x["x"].var() + 1e-5) * x["w"] + x["b"]
    for method in (moments, welford, chan):
        assert _values(layer_norm_problem(method, 64), side, x, 9) == pytest.approx(expected[9], rel=1e-12)


def test_one_case_measured() -> None:
    found = measured(Case(lambda: matmul_problem(16, 8, 64), 1.0))
    assert found.proved and found.outputs == 128 and found.peak_mib > 1 and min(found.build_s, found.decide_s, found.element_s) > 0
    p = matmul_problem(16, 8, 64)
    assert first_output(p).outputs == 1


def _figures(proved: bool) -> Figures:
    return Figures(proved, "because", 4, 9, 0.5, 1.5, 2.5, 100.0, 0.25)


def test_rows_of_a_case() -> None:
    rows = {name: (figure, unit, most) for name, figure, unit, most in lines_of("x", _figures(True), 2.0)}
    assert rows["x: decide, CPU"] == (1.5, "s", 2.0) and rows["x: peak"] == (100.0, "MiB", 2048.0)
    assert rows["x: decide, wall"][2] is None
    ((name, figure, _, most),) = lines_of("x", _figures(False), 2.0)
    assert "because" in name and most is not None and figure > most


def test_scaling_rows_fit_the_exponent() -> None:
    lines = scaling_lines({"matmul 64x64": [0.1, 0.4, 1.6]})
    assert lines[-1][1] == pytest.approx(2.0) and lines[-1][1] > lines[-1][3]
    assert scaling_lines({"matmul 64x64": [0.1, 0.2, 0.4]})[-1][1] == pytest.approx(1.0)
    assert len(seconds(Series("K", (16, 32), lambda k: matmul_problem(16, 8, k)))) == 2


def test_the_command_shows_every_case_and_z3s_answers(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[tuple[str, ...]] = []

    def child(*what: str, timeout_s: float | None = None) -> str:
        asked.append(what)
        if what[0] == "bench_decide_z3":
            if "fingerprint" in what[1]:
                raise AssertionError("not for Z3")
            if "Welford" in what[1]:
                raise subprocess.TimeoutExpired("z3", 1)
            return json.dumps({"answer": "unknown", "seconds": 3.0, "version": "5.0"})
        if what[0] == "bench_decide_scaling":
            return json.dumps({name: [1.0 * size for size in series.sizes] for name, series in SERIES.items()})
        return json.dumps(vars(Figures(True, "", 1, 1, 0.1, 0.2, 0.3, 10.0, 0.1)))

    monkeypatch.setattr(bench_decide, "child", child)
    monkeypatch.setattr(bench_decide.importlib.util, "find_spec", lambda name: object())
    assert main(["bench", "decide", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert {what[1] for what in asked if what[0] == "bench_decide_case"} == set(CASES)
    assert rows["LN 4096 Welford: Z3"]["unit"] == "s (stopped)"
    assert rows["LN 4096 Chan: Z3 5.0"]["unit"] == "s (unknown)"
    assert rows["matmul K=512: over outputs"]["target"] == bench_decide.EXPONENT_TARGET
    monkeypatch.setattr(bench_decide.importlib.util, "find_spec", lambda name: None)
    assert main(["bench", "decide", "--no-color"]) == 0
    assert "not installed" in capsys.readouterr().out and "decide" in bench.BENCHES


@pytest.mark.parametrize("wrong", [False, True])
def test_z3_answers_on_a_small_product(wrong: bool) -> None:
    pytest.importorskip("z3")
    from volta_pass.cli.bench_decide_z3 import answer

    p = matmul_problem(16, 8, 32)
    candidate = p.candidate["out"].ids[3 if not wrong else 4]
    found = answer(p.arena, int(p.reference["out"].ids[3]), int(candidate), 10_000)
    assert found["answer"] == ("refuted" if wrong else "proved")


def test_z3_knows_exponentials_roots_and_maxima() -> None:
    z3 = pytest.importorskip("z3")
    from volta_pass.cli.bench_decide_z3 import Encoder

    arena = Arena()
    x, y = (int(arena.add_input(name, 1, "f32").ids(0)) for name in "xy")
    encoder = Encoder(z3, arena)
    square = arena.mul(arena.sqrt(arena.mul(x, x)), arena.sqrt(arena.mul(x, x)))
    product = arena.mul(arena.exp2(x), arena.exp2(y))
    for one, two in ((square, arena.mul(x, x)), (product, arena.exp2(arena.add(x, y))), (arena.maximum(x, y), arena.maximum(y, x))):
        solver = z3.Solver()
        difference = encoder.term(int(one)) != encoder.term(int(two))
        solver.add(*encoder.facts, encoder.exp2(z3.Real("i1") + z3.Real("i2")) == encoder.exp2(z3.Real("i1")) * encoder.exp2(z3.Real("i2")))
        solver.add(difference)
        assert str(solver.check()) == "unsat"


@pytest.mark.slow
def test_all_targets_are_met(capsys: pytest.CaptureFixture[str]) -> None:
    """On a quiet machine."""
    code = main(["bench", "decide", "--json"])
    rows = json.loads(capsys.readouterr().out)
    assert code == 0, [row for row in rows if not row["met"]]
