"""Specs of configs/ with values, keys and characters changed: a verdict or a typed error within a bound of seconds, never a traceback."""

import contextlib
import copy
import io
import json
import os
import random
import shutil
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ptx_engine.errors import InternalError, LaunchError, PtxError
from volta_pass.check.ptx_file import read_ptx
from volta_pass.cli import main
from volta_pass.cuda.source import read_source
from volta_pass.spec import SpecError, read_spec, read_sweep

CONFIGS = Path(__file__).parents[2] / "configs"
EXAMPLES = sorted((CONFIGS / "examples").glob("*.toml"))
ALL = sorted(CONFIGS.rglob("*.toml"))
#: CPU seconds that a spec may take, whatever stands in it; each side of it may run for one
BOUND_S = 5.0
VERDICTS = {0, 1, 2, 3, 4}

VALUES: list[Any] = [
    0, 1, -1, 2, 3, 7, 31, 33, 1024, 2**20, 2**31 - 1, 2**31, 2**32, 2**40, 2**63, 2**64, 10**30, -(2**31), 0.5, -0.0, 1e308,
    float("inf"), float("nan"), True, False, "", "x", "out", "in", "inout", "aux", "f32", "f16", "s32", "u8", "pred", "f64", "symbolic",
    "arange", "random:1:0:5", "random:1:0:99999999999999999999", "random:x:y:z", "null", "tensor", "scalar", "../..", "/dev/zero",
    "reduce_tree.ptx", "softmax_naive.ptx", ".", [], [0], [1], [1, 2, 3], [1] * 4, [2**31] * 3, [2**20] * 3, [-1], [[]], [[0, 0, 0]],
    [[1, 2, 3]] * 3, {}, {"a": 1}, "cuda:80", "cuda:9999", "candidate", "N * N",
]  # fmt: skip


def toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return str(value)
    if isinstance(value, (int, str)):
        return json.dumps(value)
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return "{" + ", ".join(f"{json.dumps(key)} = {toml(item)}" for key, item in value.items()) + "}"


def places(value: Any, above: tuple = ()) -> Any:
    rows = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in rows:
        yield (*above, key), item
        yield from places(item, (*above, key))


def changed_text(text: str, chance: random.Random) -> str:
    for _ in range(chance.randrange(1, 4)):
        at, kind = chance.randrange(len(text)), chance.randrange(3)
        new = chance.choice("[]{}\"'=#,\n\\0aZ-9.\x00é") if kind == 0 else "" if kind == 1 else text[at : at + 20] * 2
        text = text[:at] + new + text[at + 1 :]
    return text


def changed_values(text: str, chance: random.Random) -> str:
    """Mostly one value, mostly by one of its type: what is refused at once shows little."""
    data = tomllib.loads(text)
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        found = [row for row in places(data) if row[0]]
        leaves = [row for row in found if not isinstance(row[1], (dict, list)) and row[0][-1] != "name"]
        place, old = chance.choice(leaves if leaves and chance.random() < 0.8 else found)
        holder: Any = data
        for key in place[:-1]:
            holder = holder[key]
        alike = [value for value in VALUES if type(value) is type(old)] if chance.random() < 0.8 else []
        if chance.random() < 0.05:
            del holder[place[-1]]
        else:
            holder[place[-1]] = copy.deepcopy(chance.choice(alike or VALUES))
    return "\n".join(f"{json.dumps(key)} = {toml(value)}" for key, value in data.items()) + "\n"


def mutant(path: Path, seed: int) -> str:
    chance = random.Random(seed)
    return (changed_text if chance.random() < 0.2 else changed_values)(path.read_text(), chance)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(CONFIGS, tmp_path_factory.mktemp("fuzz") / "configs"))


def read_one(folder: Path, path: Path, seed: int) -> None:
    place = folder / path.parent.relative_to(CONFIGS) / "mutant.toml"
    place.write_text(mutant(path, seed))
    start = time.process_time()
    try:
        read_sweep(place)
    except PtxError as error:
        assert not isinstance(error, InternalError), place.read_text()
    assert time.process_time() - start < BOUND_S, place.read_text()


def check_one(folder: Path, path: Path, seed: int) -> None:
    place, said = folder / "examples" / "mutant.toml", io.StringIO()
    place.write_text(mutant(path, seed))
    start = time.process_time()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
        code = main(["check", str(place), "--json", "--budget-seconds", "1"])
    assert code in VERDICTS, f"{code}\n{place.read_text()}\n{said.getvalue()}"
    assert time.process_time() - start < BOUND_S, place.read_text()


SLOW = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
SEEDS = st.integers(0, 2**32)


@settings(max_examples=100, deadline=None, suppress_health_check=SLOW)
@given(st.sampled_from(ALL), SEEDS)
def test_any_spec_is_read_or_refused(folder: Path, path: Path, seed: int) -> None:
    read_one(folder, path, seed)


@settings(max_examples=60, deadline=None, suppress_health_check=SLOW)
@given(st.sampled_from(EXAMPLES), SEEDS)
def test_any_spec_has_a_verdict_or_a_typed_error_in_time(folder: Path, path: Path, seed: int) -> None:
    check_one(folder, path, seed)


@pytest.mark.slow
@settings(max_examples=5000, deadline=None, suppress_health_check=SLOW)
@given(st.sampled_from(ALL), SEEDS)
def test_any_spec_is_read_or_refused_at_length(folder: Path, path: Path, seed: int) -> None:
    read_one(folder, path, seed)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@settings(max_examples=2000, deadline=None, suppress_health_check=SLOW)
@given(st.sampled_from(EXAMPLES), SEEDS)
def test_any_spec_has_a_verdict_or_a_typed_error_in_time_at_length(folder: Path, path: Path, seed: int) -> None:
    check_one(folder, path, seed)


# --- what the fuzzing has found -------------------------------------------------------------------


@pytest.mark.timeout(30)
def test_devices_and_pipes_are_not_read(tmp_path: Path) -> None:
    """A device never ends, and a pipe that nobody writes to never begins."""
    pipe = tmp_path / "pipe.toml"
    os.mkfifo(pipe)
    for read in (read_ptx, read_source, read_spec, read_sweep):
        for path in ("/dev/zero", pipe):
            with pytest.raises((LaunchError, SpecError), match="it is no file"):
                read(path)


def test_a_file_too_large_for_any_kernel_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "k.ptx"
    with open(path, "wb") as file:
        file.truncate(1 << 40)  # sparse
    with pytest.raises(LaunchError, match="larger than"):
        read_ptx(path)


@pytest.mark.parametrize("warps", ['"pred"', "[4]", "nan", "inf", "true", "0.5", "0", "-1", "1000000"])
def test_a_number_of_warps_that_is_none_is_refused_at_its_line(tmp_path: Path, warps: str) -> None:
    text = (CONFIGS / "bench" / "add.toml").read_text()
    path = tmp_path / "add.toml"
    path.write_text(text.replace("num_warps = 4", f"num_warps = {warps}"))
    assert path.read_text() != text
    with pytest.raises(SpecError) as raised:
        read_spec(path)
    assert raised.value.span is not None


def test_a_grid_of_a_million_small_ctas_keeps_to_the_budget(folder: Path) -> None:
    """No batch of them is long enough to look at the clock within it."""
    place = folder / "examples" / "million.toml"
    text = (CONFIGS / "examples" / "reduce.toml").read_text()
    place.write_text(text.replace("grid = [1, 1, 1]", "grid = [1048576, 1, 1]"))
    assert "1048576" in place.read_text()
    start = time.process_time()
    assert main(["check", str(place), "--budget-seconds", "1"]) in (1, 3)
    assert time.process_time() - start < 10


def test_many_ctas_that_store_to_one_place_stay_within_the_bound(folder: Path) -> None:
    place = folder / "examples" / "many.toml"
    place.write_text((CONFIGS / "examples" / "scale_add.toml").read_text().replace("grid = [2, 1, 1]", "grid = [2, 1, 1024]"))
    assert "1024]" in place.read_text()
    start = time.process_time()
    assert main(["check", str(place), "--budget-seconds", "1"]) == 3
    assert time.process_time() - start < 15
