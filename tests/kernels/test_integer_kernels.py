"""Integer kernels as compiled: divisions by multiplication, 64-bit sums by halves, casts after clamps, positions over warps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from compiled_kernels import Case, Configuration, compiled_job

from ptx_engine.launch import Role, TensorArg
from ptx_engine.verdict import Status
from volta_pass.job import TtirReference
from volta_pass.validate import validate

pytest.importorskip("triton")


def case(function: str, constant: tuple[str, object], *tensors: tuple[str, str, int], block: int = 128) -> Case:
    args = tuple(TensorArg(name, dtype, (count,), Role.IN if name == "x_ptr" else Role.OUT) for name, dtype, count in tensors)
    return Case("integer_kernels", function, args, (("BLOCK", block), constant), (1, 1, 1), Path(__file__).parent)


def divided(dtype: str, divisor: int) -> Case:
    return case("divided", ("D", divisor), ("x_ptr", dtype, 128), ("y_ptr", dtype, 128), ("z_ptr", dtype, 128))


def argmax(largest: bool) -> Case:
    return case("argmax", ("LARGEST", largest), ("x_ptr", "f32", 128), ("i_ptr", "s32", 1), ("v_ptr", "f32", 1))


def wide_sum(narrow: bool) -> Case:
    return case("wide_sum", ("NARROW", narrow), ("x_ptr", "s64", 128), ("y_ptr", "s64", 1))


def quantised(clamp: bool) -> Case:
    return case("quantised", ("CLAMP", clamp), ("x_ptr", "f32", 128), ("y_ptr", "s8", 128))


#: name -> (right, wrong)
PAIRS = {
    "signed division by 7": (divided("s32", 7), divided("s32", 9)),
    "unsigned division by 7": (divided("u32", 7), divided("u32", 14)),
    "unsigned division by 10": (divided("u32", 10), divided("u32", 5)),
    "signed division by 16": (divided("s32", 16), divided("s32", 8)),
    "argmax over four warps": (argmax(True), argmax(False)),
    "sum of 64-bit integers": (wide_sum(False), wide_sum(True)),
    "int8 after a clamp": (quantised(True), quantised(False)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_the_compiled_kernel_is_its_own_source(name: str) -> None:
    report = validate(compiled_job(PAIRS[name][0], Configuration(80, 4, 1)))
    assert report.status is Status.PROVED, [o.reason for c in report.comparisons for o in c.verdict.outputs]


@pytest.mark.parametrize("name", PAIRS)
def test_the_twin_is_refuted(name: str) -> None:
    right, wrong = (compiled_job(c, Configuration(80, 4, 1)) for c in PAIRS[name])
    report = validate(replace(wrong, reference=TtirReference(right.source, right.launch, "the right kernel")))
    assert report.status is Status.REFUTED
