"""What the workers of the tests do; importable by them."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path


def square(number: int) -> int:
    return number * number


def slow_first(number: int) -> int:
    """The earlier the task, the longer it takes."""
    time.sleep(0.3 if number == 0 else 0.0)
    return number


def kill_if_negative(number: int) -> int:
    """Kills its worker, every time."""
    if number < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def killed_once(task: tuple[str, int]) -> int:
    """Kills its worker the first time."""
    mark, number = task
    if number == 3 and not Path(mark).exists():
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def fail(number: int) -> int:
    raise ValueError(f"no {number}")


def allocate(mib: int) -> int:
    return len(bytearray(mib << 20))


def sleep(seconds: float) -> float:
    time.sleep(seconds)
    return seconds
