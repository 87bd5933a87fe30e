"""Stored fingerprints stay comparable: values kept in a file, met again in another process, byte order and hash seed.

The values of ring operators and exponentials follow from the documented counter in plain Python; those of hashed operators
are whatever they were when they were first stored: a change of any of them makes every store of users worthless.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import fingerprint_golden
import pytest
from test_fingerprint import CHAIN, _plain_value

HERE = Path(__file__).parent
STORED: dict[str, list[int]] = json.loads((HERE / "fingerprint_golden.json").read_text())


@pytest.mark.parametrize("order", ["<", ">", "="])
def test_values_are_those_stored_in_any_byte_order(order: str) -> None:
    found = fingerprint_golden.values(order)
    assert {name for name in found if found[name] != STORED[name]} == set() and found.keys() == STORED.keys()


def test_another_process_with_another_hash_seed_agrees() -> None:
    path = os.pathsep.join([str(HERE.parents[1]), str(HERE)])
    environment = {**os.environ, "PYTHONHASHSEED": "1234", "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    run = subprocess.run(
        [sys.executable, str(HERE / "fingerprint_golden.py"), ">"], env=environment, capture_output=True, text=True, check=True, timeout=120
    )
    assert json.loads(run.stdout) == STORED


def test_ring_operators_follow_from_the_counter() -> None:
    """The same numbers in plain Python integers."""
    p = CHAIN[0]
    for point in range(4):
        x = [_plain_value(5, "x", i, 0, point) for i in range(8)]
        by_hand = {
            "ADD": x[0] + x[1], "SUB": x[0] - x[1], "MUL": x[0] * x[1], "NEG": -x[0], "FMA": x[0] * x[1] + x[2],
            "DIV": x[0] * pow(x[1], -1, p), "EXP2": pow(2, _plain_value(5, "x", 0, 1, point), p), "NSUM": sum(x[:5]),
            "DOT": sum(x[i] * x[3 + i] for i in range(3)) + x[6],
        }  # fmt: skip
        assert {name: value % p for name, value in by_hand.items()} == {name: STORED[name][point] for name in by_hand}


def test_every_operator_is_stored() -> None:
    arena, made = fingerprint_golden.terms()
    del arena
    assert set(made) == set(STORED)
