"""Tasks over workers: their order, and workers that die. The steps are in ``pool_steps``, which the workers import."""

from __future__ import annotations

import sys
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pool_steps
import pytest

from volta_pass.parallel import Lost, run_tasks


@pytest.mark.parametrize("workers", [1, 2])
def test_results_are_in_the_order_of_the_tasks(workers: int) -> None:
    done: list[int] = []
    assert run_tasks(pool_steps.slow_first, range(6), workers=workers, on_done=done.append) == list(range(6))
    assert sorted(done) == list(range(6))
    assert workers == 1 or done[0] != 0  # the first was not done first


def test_no_tasks() -> None:
    assert run_tasks(pool_steps.square, [], workers=2) == []


def test_a_killed_workers_work_is_done_again(tmp_path: Path) -> None:
    mark = str(tmp_path / "mark")
    assert run_tasks(pool_steps.killed_once, [(mark, n) for n in range(6)], workers=2) == list(range(6))
    assert Path(mark).exists()


def test_a_task_that_always_kills_its_worker_takes_no_other_with_it() -> None:
    found = run_tasks(pool_steps.kill_if_negative, [0, 1, -1, 3, 4, 5], workers=2, retries=1)
    assert [row for row in found if not isinstance(row, Lost)] == [0, 1, 3, 4, 5]
    assert isinstance(found[2], Lost) and "died 2 times" in found[2].reason


def test_what_a_step_raises_is_a_reason() -> None:
    assert run_tasks(pool_steps.fail, [1, 2], workers=2) == [Lost("ValueError: no 1"), Lost("ValueError: no 2")]


def test_what_cannot_be_sent_is_lost_alone() -> None:
    found = run_tasks(pool_steps.square, [2, lambda: 0, 3], workers=2)  # type: ignore[list-item]
    assert (found[0], found[2]) == (4, 9)
    assert isinstance(found[1], Lost)


def test_any_executor() -> None:
    with ThreadPoolExecutor(3) as threads:
        assert run_tasks(pool_steps.slow_first, range(5), executor=threads) == list(range(5))


class _Broken(Executor):
    """Does its first task, loses the second, takes no third."""

    def __init__(self) -> None:
        self.taken = 0

    def submit(self, fn, /, *args, **kwargs):  # type: ignore[no-untyped-def]
        self.taken += 1
        if self.taken > 2:
            raise BrokenProcessPool("gone")
        future: Future[int] = Future()
        if self.taken == 1:
            future.set_result(fn(*args))
        else:
            future.set_exception(BrokenProcessPool("died"))
        return future


def test_what_a_given_executor_loses_is_said() -> None:
    first, second, third = run_tasks(pool_steps.square, [3, 4, 5], executor=_Broken())
    assert first == 9
    assert second == Lost("BrokenProcessPool: died")
    assert third == Lost("the executor takes no more work: gone")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems count no private mappings")
def test_the_memory_of_a_worker_is_bounded() -> None:
    small, large = run_tasks(pool_steps.allocate, [8, 1 << 11], workers=2, memory_mib=512)
    assert small == 8 << 20
    assert isinstance(large, Lost) and large.reason.startswith("MemoryError")
