"""TensorSpec, announced launches and reference functions."""

import numpy as np
import pytest

import volta_pass
from ptx_engine.errors import LaunchError
from volta_pass.reference_decorator import match_parameters, reference_of
from volta_pass.specs_api import LAUNCH_DTYPES, TRITON_DTYPES, announced_launches, kernel_name, triton_dtype


def test_a_spec_answers_as_a_contiguous_tensor_does():
    array = np.zeros((4, 5, 6), np.float16)
    spec = volta_pass.TensorSpec(array.shape, array.dtype)
    assert spec.stride() == tuple(step // 2 for step in array.strides)
    assert (spec.stride(1), spec.size(2), spec.dim(), spec.numel(), spec.element_size()) == (6, 6, 3, 120, 2)
    assert spec.is_contiguous() and not volta_pass.TensorSpec((4, 5), "f32", (8, 1)).is_contiguous()


def test_specs_have_addresses_of_their_own():
    specs = [volta_pass.TensorSpec((8,)) for _ in range(4)]
    assert len({spec.data_ptr() for spec in specs}) == 4
    assert all(spec.data_ptr() % 16 == 0 for spec in specs)
    assert specs[0].clone().data_ptr() != specs[0].data_ptr()
    assert specs[0].clone().shape == (8,)


@pytest.mark.parametrize(
    "name, expected",
    [("float16", "fp16"), ("torch.bfloat16", "bf16"), (np.float32, "fp32"), (np.dtype("int64"), "i64"), ("torch.float8_e5m2", "fp8e5")],
)
def test_element_types_in_every_spelling(name, expected):
    assert triton_dtype(name) == expected


def test_every_spelling_has_a_launch_dtype():
    assert set(TRITON_DTYPES.values()) <= set(LAUNCH_DTYPES)


@pytest.mark.parametrize(
    "arguments", [((2, 3), "complex64"), ((2, -3), "f32"), ((2, 3), "f32", (1,)), ((2, 3), "i32", None, np.zeros((3, 2), np.int32))]
)
def test_malformed_specs_are_launch_errors(arguments):
    with pytest.raises(LaunchError):
        volta_pass.TensorSpec(*arguments)


class Wrapped:
    """As Triton's jit and autotune objects: the function is in ``fn``."""

    def __init__(self, fn):
        self.fn = fn


def scale_kernel(x_ptr, out_ptr, n):
    raise AssertionError("never called")


def test_a_reference_is_found_through_every_wrapper():
    def double(x):
        return x + x

    kernel = Wrapped(Wrapped(scale_kernel))
    assert volta_pass.reference(double)(kernel) is kernel
    assert reference_of(kernel) is double is reference_of(scale_kernel)
    assert reference_of(Wrapped(lambda x: x)) is None


def test_parameters_are_matched_by_name_with_or_without_ptr():
    assert match_parameters(lambda x, n: x, scale_kernel, ["x_ptr", "out_ptr", "n"]) == {"x": "x_ptr", "n": "n"}
    assert match_parameters(lambda x, y=1: x, scale_kernel, ["x_ptr"]) == {"x": "x_ptr"}
    with pytest.raises(LaunchError, match="'y'"):
        match_parameters(lambda x, y: x, scale_kernel, ["x_ptr", "out_ptr", "n"])


@pytest.mark.parametrize("fn", [3, lambda *args: args, lambda **kwargs: kwargs])
def test_what_is_no_reference_function(fn):
    with pytest.raises(LaunchError):
        volta_pass.reference(fn)


def test_announced_launches_are_kept_by_kernel_name():
    launch = volta_pass.launch_for(Wrapped(scale_kernel), grid=(4,), args={"n": 3})
    assert kernel_name(Wrapped(scale_kernel)) == "scale_kernel" == launch.kernel
    assert announced_launches("scale_kernel") == [launch]
    assert announced_launches("another_kernel") == []
