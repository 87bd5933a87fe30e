"""Structs passed by value: their fields are arguments, laid out as the compiler lays them out, or refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ptx_engine.errors import LaunchError
from ptx_engine.launch import ScalarArg
from volta_pass import TensorSpec, check_file, cuda_kernel
from volta_pass.spec import SpecError

F = TensorSpec((96,), dtype="f32")
AXPY = """
struct Args { const float* x; float* y; int n; float s; };
extern "C" __global__ void k(Args p, int more) {
    int i = blockIdx.x * 32 + threadIdx.x;
    if (i < p.n) p.y[i] = p.x[i] * p.s + more;
}"""


@pytest.mark.parametrize(("changes", "verdict"), [({}, "proved"), ({"s": 2.0}, "refuted"), ({"n": 95}, "refuted")])
def test_fields_are_arguments(changes: dict[str, float], verdict: str) -> None:
    args = {"p": {"x": F, "y": F, "n": 96, "s": 2.5, **changes}, "more": 7}
    assert cuda_kernel(AXPY)[3, 32].validate(args, reference=lambda x: x * 2.5 + 7, outputs=("p.y",)).verdict == verdict


def test_a_symbolic_field() -> None:
    args = {"p": {"x": F, "y": F, "n": 96, "s": ScalarArg("s", "f32")}, "more": 7}
    assert cuda_kernel(AXPY)[3, 32].validate(args, reference=lambda x, s: x * s + 7, outputs=("p.y",)).verdict == "proved"


INNER = """
struct Args { int z; struct { int a; short b; } in; short c; short d; double e; };
extern "C" __global__ void k(Args p, float4 v, int* y) {
    y[threadIdx.x] = p.z + 10 * p.in.a + 100 * p.in.b + 1000 * p.c + 10000 * p.d + (int)p.e + (int)v.x;
}"""


def test_the_layout_is_the_compilers() -> None:
    """Every field has another weight; NVRTC says where they lie."""
    inner = {"a": 2, "b": np.int16(3)}
    args = {"p": {"z": 1, "in": inner, "c": np.int16(4), "d": np.int16(5), "e": np.float64(600000)}, "y": TensorSpec((32,), dtype="i32")}
    text = INNER.replace("float4 v, ", "").replace(" + (int)v.x", "")
    for expected, verdict in ((654321, "proved"), (654320, "refuted")):
        found = cuda_kernel(text)[1, 32].validate(args, reference=lambda: {"y": np.full(32, expected, np.int32)}, outputs=("y",))  # noqa: B023
        assert found.verdict == verdict, (found.reason, found.errors)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"x": F, "n": 96, "y": F, "s": 2.5}, "24 bytes aligned to 8, its fields make one of 32"),
        ({"x": F, "y": F}, "its fields make one of 16"),
        (F, "is a struct of 24 bytes, but argument p has 8"),
    ],
)
def test_what_does_not_fit_is_refused(args: object, message: str) -> None:
    with pytest.raises(LaunchError, match=message):
        cuda_kernel(AXPY)[3, 32](p=args, more=7)


VECTORS = """
struct Args { int z; float2 v; const float* data; float4 w; };
extern "C" __global__ void k(Args p, float* y) {
    y[threadIdx.x] = p.data[threadIdx.x] + p.z + 10 * p.v.x + 100 * p.v.y + 1000 * p.w.x + 10000 * p.w.w;
}"""


def test_vector_types_are_aligned_to_more_than_their_fields() -> None:
    """float4 makes the struct one of 48 bytes, which only the layout with float2 at 8 has."""
    vector = {"x": 6.0, "y": 0.0, "z": 0.0, "w": 7.0}
    args = {
        "p": {"z": 1, "v": {"x": 2.0, "y": 3.0}, "data": TensorSpec((32,), dtype="f32"), "w": vector},
        "y": TensorSpec((32,), dtype="f32"),
    }
    with pytest.raises(LaunchError, match="in more than one way in 48 bytes"):  # float2 at 4 would fit as well
        cuda_kernel(VECTORS)[1, 32].validate(args)
    told = {"z": 1, "padding": 0, **{name: value for name, value in args["p"].items() if name != "z"}}  # type: ignore[union-attr]
    report = cuda_kernel(VECTORS)[1, 32]
    for expected, verdict in ((76321, "proved"), (76312, "refuted")):
        found = report.validate({**args, "p": told}, reference=_plus(expected), outputs=("y",))
        assert found.verdict == verdict, (found.reason, found.errors)


ALIGNED = """
struct Args { int a; struct alignas(8) { int b, c; } in; const float* data; };
extern "C" __global__ void k(Args p, float* y) { y[threadIdx.x] = p.data[threadIdx.x] + p.a + 10 * p.in.b + 100 * p.in.c; }"""


def test_an_inner_struct_that_may_be_aligned_in_two_ways_is_refused() -> None:
    """Its fields at 4 and 8, or at 8 and 12: both make a struct of 24 bytes."""
    x, y = (TensorSpec((32,), dtype="f32") for _ in "xy")
    with pytest.raises(LaunchError, match="more than one way in 24 bytes"):
        cuda_kernel(ALIGNED)[1, 32](p={"a": 1, "in": {"b": 2, "c": 3}, "data": x}, y=y)
    told = {"a": 1, "padding": 0, "in": {"b": 2, "c": 3}, "data": x}
    assert cuda_kernel(ALIGNED)[1, 32].validate({"p": told, "y": y}, reference=_plus(321), outputs=("y",)).verdict == "proved"


def _plus(number: int) -> Callable[..., object]:
    return lambda data: data + number


def test_one_way_to_align_is_taken() -> None:
    args = {"p": {"z": 1, "in": {"a": 2, "b": np.int16(3)}, "c": np.int16(4), "d": np.int16(5), "e": np.float64(6)}}
    y, vector = TensorSpec((32,), dtype="i32"), dict.fromkeys("yzw", 1.0)
    expected = np.full(32, 1 + 20 + 300 + 4000 + 50000 + 6 + 2, np.int32)
    with pytest.raises(LaunchError, match="16 bytes aligned to 16, its fields make one of 16 aligned to 4"):
        cuda_kernel(INNER)[1, 32](**args, v={"x": 2.0, **vector}, y=y)
    wrapped = (
        INNER.replace("float4 v", "Wrapped w").replace("v.x", "w.v.x").replace("\nextern", "\nstruct Wrapped { float4 v; };\nextern", 1)
    )
    found = cuda_kernel(wrapped)[1, 32].validate(
        {**args, "w": {"v": {"x": 2.0, **vector}}, "y": y}, reference=lambda: {"y": expected}, outputs=("y",)
    )
    assert found.verdict == "proved", (found.reason, found.errors)


SPEC = """

[launch]
grid = 3
block = 32
[[args]]
name = "p.x"
kind = "tensor"
dtype = "f32"
shape = [96]
role = "in"
[[args]]
name = "p.y"
kind = "tensor"
dtype = "f32"
shape = [96]
role = "out"
[[args]]
name = "p.n"
kind = "scalar"
dtype = "s32"
value = 96
[[args]]
name = "p.s"
kind = "scalar"
dtype = "f32"
value = 2.5
[[args]]
name = "more"
kind = "scalar"
dtype = "s32"
value = 7
[candidate]
cuda = "k.cu"
"""


def test_a_spec_names_fields(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(AXPY)
    path = tmp_path / "k.toml"
    path.write_text(SPEC)
    assert check_file(path).verdict == "proved"
    path.write_text(path.read_text().replace('"p.n"', '"n"'))
    with pytest.raises(SpecError, match="its fields make one of 16"):
        check_file(path)
