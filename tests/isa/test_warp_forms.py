"""Warp collectives against plain Python over 32 lanes: shfl, vote, match, redux, elect, activemask; whole warps and parts of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from one_instruction import run

from ptx_engine.errors import NotStructuredError, UnsupportedError
from ptx_engine.launch import Launch, Role, TensorArg, bind
from ptx_engine.machine import execute
from ptx_engine.syntax import parse
from ptx_engine.terms import Arena

LANES = 32
RNG = np.random.default_rng(17)
VALUES = RNG.integers(0, 2**32, 64, dtype=np.uint32)
FEW = RNG.integers(0, 3, 64, dtype=np.uint32)


def warps(column: np.ndarray) -> list[list[int]]:
    return column.reshape(-1, LANES).tolist()


def shuffled(mode: str, values: list[int], b: int, c: int) -> tuple[list[int], list[int]]:
    """The ISA's pseudo code."""
    clamp, segment = c & 31, c >> 8 & 31
    found, valid = [], []
    for lane in range(LANES):
        highest = (lane & segment) | (clamp & ~segment & 31)
        lowest = lane & segment
        b5 = b & 31
        if mode == "up":
            j, ok = lane - b5, lane - b5 >= highest
        elif mode == "down":
            j, ok = lane + b5, lane + b5 <= highest
        elif mode == "bfly":
            j, ok = lane ^ b5, (lane ^ b5) <= highest
        else:
            j = lowest | (b5 & ~segment & 31)
            ok = j <= highest
        found.append(values[j if ok else lane])
        valid.append(int(ok))
    return found, valid


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@pytest.mark.parametrize(("b", "c"), [(1, 0), (1, 31), (16, 31), (3, 0x1807), (5, 0x1C03), (31, 31), (0, 0), (33, 31)])
def test_shfl(mode: str, b: int, c: int) -> None:
    found = run(f"shfl.sync.{mode}.b32 d0|p1, a0, {b}, {c}, -1;", [VALUES], [np.uint32, np.uint32])
    for w, row in enumerate(warps(VALUES)):
        wanted, valid = shuffled(mode, row, b, c)
        assert found[0][w * 32 : w * 32 + 32].tolist() == wanted
        assert found[1][w * 32 : w * 32 + 32].tolist() == valid


def test_shfl_by_lane_dependent_sources() -> None:
    source = RNG.integers(0, 32, 64, dtype=np.uint32)
    found = run("shfl.sync.idx.b32 d0, a0, a1, 31, -1;", [VALUES, source], [np.uint32])[0]
    assert found.tolist() == [int(VALUES[i // 32 * 32 + int(source[i])]) for i in range(64)]


BALLOTS: list[tuple[str, Callable[[list[int]], int]]] = [
    ("vote.sync.ballot.b32 d0, %q, -1;", lambda row: sum(1 << i for i, v in enumerate(row) if v == 1)),
    ("vote.sync.all.pred p0, %q, -1;", lambda row: int(all(v == 1 for v in row))),
    ("vote.sync.any.pred p0, %q, -1;", lambda row: int(any(v == 1 for v in row))),
    ("vote.sync.uni.pred p0, %q, -1;", lambda row: int(len({v == 1 for v in row}) == 1)),
    ("vote.sync.any.pred p0, !%q, -1;", lambda row: int(any(v != 1 for v in row))),
]


@pytest.mark.parametrize(("text", "model"), BALLOTS, ids=[text for text, _ in BALLOTS])
@pytest.mark.parametrize("column", [FEW, np.ones(64, np.uint32), np.zeros(64, np.uint32)], ids=["mixed", "ones", "zeros"])
def test_votes(text: str, model: Callable[[list[int]], int], column: np.ndarray) -> None:
    found = run(".reg .pred %q; setp.eq.u32 %q, a0, 1; " + text, [column], [np.uint32])[0]
    assert found.tolist() == [model(row) for row in warps(column) for _ in range(32)]


def test_votes_of_some_lanes() -> None:
    """The other lanes are elsewhere."""
    text = ".reg .pred %q, %even; and.b32 %a1, a0, 1; setp.eq.u32 %q, a0, 2; mov.b32 d0, 7; mov.u32 %a1, %laneid; and.b32 %a1, %a1, 1; setp.ne.u32 %even, %a1, 0; "
    text += "@%even bra ODD; vote.sync.ballot.b32 d0, %q, 0x55555555; ODD: "
    found = run(text, [FEW, FEW], [np.uint32])[0]
    for w, row in enumerate(warps(FEW)):
        ballot = sum(1 << i for i, v in enumerate(row) if v == 2 and i % 2 == 0)
        assert found[w * 32 : w * 32 + 32].tolist() == [ballot if i % 2 == 0 else 7 for i in range(32)]


def test_match() -> None:
    found = run("match.any.sync.b32 d0, a0, -1; match.all.sync.b32 d1|p2, a0, -1;", [FEW], [np.uint32, np.uint32, np.uint32])
    for w, row in enumerate(warps(FEW)):
        assert found[0][w * 32 : w * 32 + 32].tolist() == [sum(1 << j for j, u in enumerate(row) if u == v) for v in row]
        assert not found[1][w * 32] and not found[2][w * 32]
    same = run("match.all.sync.b32 d0|p1, a0, -1;", [np.full(64, 9, np.uint32)], [np.uint32, np.uint32])
    assert (same[0] == 0xFFFFFFFF).all() and (same[1] == 1).all()


def _signed(v: int) -> int:
    return v - 2**32 if v >> 31 else v


def _fold(op: Callable[[int, int], int]) -> Callable[[list[int]], int]:
    def fold(row: list[int]) -> int:
        total = row[0]
        for v in row[1:]:
            total = op(total, v)
        return total

    return fold


REDUCTIONS: list[tuple[str, Callable[[list[int]], int]]] = [
    ("add.u32", sum), ("add.s32", sum), ("min.u32", min), ("max.u32", max), ("min.s32", lambda row: min(map(_signed, row))),
    ("max.s32", lambda row: max(map(_signed, row))), ("and.b32", _fold(lambda x, y: x & y)), ("or.b32", _fold(lambda x, y: x | y)),
    ("xor.b32", _fold(lambda x, y: x ^ y)),
]  # fmt: skip


@pytest.mark.parametrize(("op", "model"), REDUCTIONS, ids=[op for op, _ in REDUCTIONS])
def test_redux(op: str, model: Callable[[list[int]], int]) -> None:
    found = run(f"redux.sync.{op} d0, a0, -1;", [VALUES], [np.uint32])[0]
    assert found.tolist() == [model(row) % 2**32 for row in warps(VALUES) for _ in range(32)]


@pytest.mark.parametrize(
    ("op", "model"),
    [("min", np.min), ("max", np.max), ("max.abs", lambda x: np.max(np.abs(x))), ("min.abs.NaN", lambda x: np.min(np.abs(x)))],
)
def test_redux_of_floats(op: str, model: Callable[[np.ndarray], np.ndarray]) -> None:
    values = RNG.standard_normal(64).astype(np.float32)
    found = run(f"redux.sync.{op}.f32 d0, a0, -1;", [values.view(np.uint32)], [np.uint32])[0].view(np.float32)
    assert found.tolist() == [float(model(values[w : w + 32])) for w in (0, 32) for _ in range(32)]


def test_redux_of_nan() -> None:
    values = np.arange(32, dtype=np.float32)
    values[3] = np.nan
    plain = run("redux.sync.max.f32 d0, a0, -1;", [values.view(np.uint32)], [np.uint32])[0].view(np.float32)
    marked = run("redux.sync.max.NaN.f32 d0, a0, -1;", [values.view(np.uint32)], [np.uint32])[0].view(np.float32)
    assert (plain == 31).all() and np.isnan(marked).all()


def test_elect_and_activemask() -> None:
    found = run("elect.sync d0|p1, -1; activemask.b32 d2;", [VALUES], [np.uint32, np.uint32, np.uint32])
    assert (found[0] == 0).all() and found[1].tolist() == ([1] + [0] * 31) * 2 and (found[2] == 0xFFFFFFFF).all()


def test_redux_of_symbolic_integers() -> None:
    text = (
        ".version 8.4\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 x, .param .u64 o)\n{\n"
        ".reg .b32 %r<4>; .reg .b64 %d<5>;\n"
        "ld.param.u64 %d0, [x]; ld.param.u64 %d1, [o]; mov.u32 %r0, %tid.x; mul.wide.u32 %d2, %r0, 4; add.s64 %d3, %d0, %d2; ld.global.b32 %r1, [%d3];\n"
        "redux.sync.OP %r2, %r1, -1; add.s64 %d3, %d1, %d2; st.global.b32 [%d3], %r2; ret;\n}\n"
    )

    def outputs(op: str) -> set[int]:
        arena = Arena()
        args = (TensorArg("x", "s32", (32,), Role.IN), TensorArg("o", "s32", (32,), Role.OUT))
        done = execute(parse(text.replace("OP", op)), None, bind(Launch((1, 1, 1), (32, 1, 1), args), arena))
        return set(done.footprints["o"].ids.tolist())

    assert len(outputs("max.s32")) == 1
    with pytest.raises(NotStructuredError, match="redux"):
        outputs("xor.b32")


def test_collectives_without_sync_are_refused() -> None:
    for text in ("vote.ballot.b32 d0, p0;", "shfl.up.b32 d0, a0, 1, 0;"):
        with pytest.raises(UnsupportedError):
            run(".reg .b32 %x; setp.eq.u32 p0, a0, 0; " + text, [VALUES], [np.uint32])
