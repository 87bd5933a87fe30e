"""Writers killed at random moments and bits flipped at random places: no wrong verdict, no valid entry lost but the one being written."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from volta_pass.store import Store, digest

ROOT = Path(__file__).parents[2]
KIND = "verdicts"

#: writes entries without end; each says by its content what it must be
WRITER = """
import sys
from pathlib import Path
from volta_pass.store import Store, digest
store = Store(Path(sys.argv[1]))
number = int(sys.argv[2])
print("ready", flush=True)
while True:
    key = digest(str(number % 50))
    store.put_json("verdicts", key, {"key": key, "filler": "x" * (number * 7919 % 60000)})
    number += 1
"""


def check(store, settled):
    """Every entry that can be read is what its key says; those that were whole before are there still."""
    for number in range(50):
        key = digest(str(number))
        found = store.get_json(KIND, key)
        assert found is None or found[0]["key"] == key
        assert found is not None or number not in settled, f"entry {number} was lost"
        if found is not None:
            settled.add(number)


def kill_writers(folder, kills, seed):
    chance, settled, said = random.Random(seed), set(), []
    store = Store(folder, warn=said.append)
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "hooks")])}
    for kill in range(kills):
        command = [sys.executable, "-c", WRITER, str(folder), str(chance.randrange(1000))]
        writer = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True)
        assert writer.stdout.readline() == "ready\n"
        time.sleep(chance.random() * 0.02)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        if kill % 10 == 9:
            check(store, settled)
    check(store, settled)
    assert said == [] and len(settled) > 20


def flip_bits(folder, flips, seed):
    chance, said = random.Random(seed), []
    store = Store(folder, warn=said.append)
    keys = [digest(str(number)) for number in range(20)]
    for number, key in enumerate(keys):
        store.put_json(KIND, key, {"key": key, "filler": "y" * (number * 50)})
    for flip in range(flips):
        key = chance.choice(keys)
        path = store.local.path(Store.name(KIND, key))
        data = bytearray(path.read_bytes())
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(data)
        fresh = Store(folder, warn=said.append)
        assert fresh.get_json(KIND, key) is None and len(said) == flip + 1, "a flipped bit was not found"
        for other in keys:
            assert other == key or fresh.get_json(KIND, other)[0]["key"] == other
        fresh.put_json(KIND, key, {"key": key, "filler": "y" * chance.randrange(1000)})
        assert fresh.get_json(KIND, key)[0]["key"] == key


def test_writers_that_are_killed_leave_nothing_wrong(tmp_path):
    kill_writers(tmp_path, 10, seed=1)


def test_flipped_bits_are_found_and_made_anew(tmp_path):
    flip_bits(tmp_path, 200, seed=2)


@pytest.mark.slow
def test_two_hundred_kills(tmp_path):
    kill_writers(tmp_path, 200, seed=3)
