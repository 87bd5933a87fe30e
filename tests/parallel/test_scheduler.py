"""A Dask cluster of two worker processes: the same reports as in this process, also where a worker is killed on the way."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import distributed
import pool_steps
import pytest
from test_check_many import SPECS, timeless

from volta_pass.cli import main
from volta_pass.parallel import Lost, run_tasks
from volta_pass.parallel.scheduler import cluster_executor


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two worker processes that can import what the tests send."""
    paths = {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", ""), *_roots()])}
    before = os.environ.get("PYTHONPATH")
    os.environ.update(paths)
    try:
        with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit=0) as started:
            yield started
    finally:
        os.environ.pop("PYTHONPATH") if before is None else os.environ.update({"PYTHONPATH": before})


def _roots() -> list[str]:
    root = Path(__file__).parent.parent.parent
    return [str(root), str(root / "hooks")]


def test_a_cluster_says_what_one_process_says(cluster: Any, capsys: pytest.CaptureFixture[str]) -> None:
    texts = []
    for extra in ([], ["--scheduler", cluster.scheduler_address]):
        assert main(["check", *SPECS, "--json", *extra]) == 1
        texts.append(timeless(capsys.readouterr().out))
    assert texts[0] == texts[1]


def test_a_killed_workers_work_is_done_again(cluster: Any, tmp_path: Path) -> None:
    mark = str(tmp_path / "mark")
    with cluster_executor(cluster.scheduler_address) as executor:
        assert run_tasks(pool_steps.killed_once, [(mark, n) for n in range(6)], executor=executor) == list(range(6))
    assert Path(mark).exists()


def test_a_task_that_always_kills_its_worker_is_lost_with_the_reason(cluster: Any) -> None:
    with cluster_executor(cluster.scheduler_address) as executor:
        first, second, third = run_tasks(pool_steps.kill_if_negative, [1, -1, 2], executor=executor)
    assert (first, third) == (1, 2)
    assert isinstance(second, Lost) and "KilledWorker" in second.reason


def test_what_a_step_raises_is_a_reason(cluster: Any) -> None:
    with cluster_executor(cluster.scheduler_address) as executor:
        assert run_tasks(pool_steps.fail, [1], executor=executor) == [Lost("ValueError: no 1")]


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nonsense://x", "127.0.0.1:port"])
def test_no_scheduler_is_bad_input(address: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("volta_pass.parallel.scheduler._CONNECT_S", 0.5)
    assert main(["check", SPECS[0], "--scheduler", address]) == 2
    assert address in capsys.readouterr().err
