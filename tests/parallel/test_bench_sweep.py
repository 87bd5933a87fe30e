"""The measurements of the sweep and of the store: rows with the figures they promise."""

from pathlib import Path

from volta_pass.cli import bench, bench_store, bench_sweep
from volta_pass.spec import read_spec

EXAMPLES = Path(__file__).parents[2] / "configs" / "examples"


def test_the_sweep_is_measured_with_one_process_and_with_two() -> None:
    points = [(read_spec(EXAMPLES / f"{name}.toml"), {}) for name in ("softmax", "softmax_half_sum")]
    one, two, gain = bench_sweep.measure(points)
    assert (one[0], two[0]) == ("2 configurations, 1 process", "2 configurations, 2 processes")
    assert gain[1] == one[1] / two[1] and gain[3] == bench_sweep.RATIO_TARGET


def test_the_store_is_measured(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(bench_store, "ENTRIES", 5)
    rows = bench.store_rows()
    assert [row.unit for row in rows] == ["ms", "ms", "s"] and all(row.figure > 0 for row in rows)
    assert rows[1].met  # a hundred times under its target
