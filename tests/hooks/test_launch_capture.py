"""From what Triton's launcher is given to a launch: parameters, roles, aliases, views, contents, scratch."""

from types import SimpleNamespace

import numpy as np
import pytest

from ptx_engine.errors import LaunchError, UnsupportedError
from ptx_engine.launch import NullArg, Role, ScalarArg, TensorArg, bind
from ptx_engine.terms.arena import Arena
from volta_hooks.triton_arguments import NumpyTensor, adapt, contents_key, launch_key
from volta_hooks.triton_launch import DISJOINT, capture
from volta_pass import TensorSpec
from volta_pass.ttir_uses import AccessSite, ParameterUse

LOAD, STORE = AccessSite("tt.load", "k.py:3:5", False), AccessSite("tt.store", "k.py:4:5", False)
METADATA = SimpleNamespace(num_warps=4, warp_size=32, shared=1024, num_ctas=1, global_scratch_size=0, profile_scratch_size=0)


def use(name, kind="!tt.ptr<f32>", loads=(), stores=()):
    return ParameterUse(name, kind, list(loads), list(stores))


def captured(values, types, uses=(), metadata=METADATA, grid=(2, 1, 1)):
    names = [f"p{i}" for i in range(len(values))]
    return capture(names, types, values, grid, metadata, uses)


def test_parameters_are_what_is_no_constant_and_two_scratch_pointers():
    x, y = TensorSpec((8,), "f16"), TensorSpec((8,), "bf16")
    uses = [use("p0", loads=[LOAD]), use("p1", stores=[STORE]), use("p3", "i32"), use("p4", "f32")]
    found = captured([x, y, 128, 5, 2.5], ["*fp16", "*bf16", "constexpr", "i32", "fp32"], uses)
    args = found.launch.args
    assert [arg.name for arg in args] == ["p0", "p1", "p3", "p4", "global_scratch", "profile_scratch"]
    assert (args[0].dtype, args[0].role, args[1].dtype, args[1].role) == ("f16", Role.IN, "bf16", Role.OUT)
    assert args[2] == ScalarArg("p3", "s32", 5) and args[3] == ScalarArg("p4", "f32")
    assert all(isinstance(arg, NullArg) for arg in args[4:])
    assert (found.launch.block, found.launch.dynamic_shared_bytes, found.launch.grid) == ((128, 1, 1), 1024, (2, 1, 1))


def test_roles_follow_the_source_and_are_inout_without_one():
    x = TensorSpec((8,))
    for loads, stores, role in (([LOAD], [], Role.IN), ([], [STORE], Role.OUT), ([LOAD], [STORE], Role.INOUT), ([], [], Role.IN)):
        assert captured([x], ["*fp32"], [use("p0", loads=loads, stores=stores)]).launch.args[0].role is role
    assert captured([x], ["*fp32"]).launch.args[0].role is Role.INOUT


def test_an_address_given_twice_is_one_tensor_that_is_read_and_written():
    x = TensorSpec((8,))
    uses = [use("p0", loads=[LOAD]), use("p1", stores=[STORE])]
    first, second = captured([x, x], ["*fp32", "*fp32"], uses).launch.args[:2]
    assert (first.role, first.alias, second.alias) == (Role.INOUT, "", "p0")
    apart = captured([x, TensorSpec((8,))], ["*fp32", "*fp32"], uses).launch.args
    assert (apart[0].role, apart[1].role, apart[1].alias) == (Role.IN, Role.OUT, "")


def test_several_addresses_are_assumed_not_to_overlap():
    x = TensorSpec((8,))
    assert captured([x, TensorSpec((8,))], ["*fp32", "*fp32"]).assumptions == (DISJOINT,)
    assert captured([x, x], ["*fp32", "*fp32"]).assumptions == ()


def test_an_address_given_with_two_types_is_not_supported():
    array = np.zeros(8, np.float32)
    values = [NumpyTensor(array), NumpyTensor(array.view(np.int32))]
    with pytest.raises(UnsupportedError, match="p0 and p1"):
        captured(values, ["*fp32", "*i32"])


def test_a_view_may_be_read_up_to_the_end_of_its_allocation():
    base = np.zeros((4, 128), np.float16)
    read = [use("p0", "!tt.ptr<f16>", loads=[LOAD])]
    (arg,) = captured([adapt(base[:, :96])], ["*fp16"], read).launch.args[:1]
    assert (arg.shape, arg.strides, arg.extra_elements) == ((4, 96), (128, 1), 32)
    assert arg.storage == base.size
    (arg,) = captured([adapt(base[2:, :96])], ["*fp16"], read).launch.args[:1]
    assert arg.storage == base.size - 2 * 128
    (arg,) = captured([adapt(base)], ["*fp16"], read).launch.args[:1]
    assert (arg.storage, arg.extra_elements) == (base.size, 0)


def test_a_view_is_not_written_past_its_end():
    base = np.zeros(1000, np.float32)
    (arg,) = captured([adapt(base[:900])], ["*fp32"], [use("p0", stores=[STORE])]).launch.args[:1]
    assert (arg.storage, arg.extra_elements) == (900, 0)


def test_views_that_overlap_share_memory_where_one_is_written():
    base = np.zeros(1025, np.float32)
    views, apart = [adapt(base[1:]), adapt(base[:-1])], [adapt(base[:512]), adapt(base[512:])]
    uses = [use("p0", loads=[LOAD]), use("p1", stores=[STORE])]
    first, second = captured(views, ["*fp32", "*fp32"], uses).launch.args[:2]
    assert (first.alias, first.offset_elements, second.alias, second.role) == ("p1", 1, "", Role.INOUT)
    assert second.storage == 1025
    (arg,) = captured(apart, ["*fp32", "*fp32"], uses).launch.args[:1]
    assert (arg.storage, arg.alias) == (512, "")  # what lies behind the view is the other argument's
    read = captured(views, ["*fp32", "*fp32"], [use("p0", loads=[LOAD]), use("p1", loads=[LOAD])]).launch.args[:2]
    assert [arg.alias for arg in read] == ["", ""]


def test_interleaved_views_share_memory_and_contents():
    base = np.arange(16, dtype=np.int32)
    uses = [use("p0", loads=[LOAD], stores=[STORE]), use("p1", loads=[LOAD]), use("p2", loads=[LOAD])]
    found = captured([adapt(base[::2]), adapt(base[1::2]), adapt(base[::2])], ["*i32"] * 3, uses)
    owner, view, same = found.launch.args[:3]
    assert (owner.storage, view.alias, view.offset_elements, same.alias, same.offset_elements) == (16, "p0", 1, "p0", 0)
    assert list(found.contents) == ["p0"] and found.outputs == ("p0",)
    np.testing.assert_array_equal(found.contents["p0"](), base)
    bound = bind(found.launch, Arena())
    assert bound.by_name["p1"].address == bound.by_name["p0"].address + 4 and len(bound.buffers) == 1


def test_a_longer_view_of_the_same_address_is_all_there():
    base = np.zeros(64, np.float32)
    uses = [use("p0", loads=[LOAD]), use("p1", stores=[STORE])]
    owner = captured([adapt(base[:8]), adapt(base)], ["*fp32", "*fp32"], uses).launch.args[0]
    assert owner.storage == 64


def test_overlapping_views_of_two_types_are_refused():
    base = np.zeros(64, np.float32)
    uses = [use("p0", stores=[STORE]), use("p1", loads=[LOAD])]
    with pytest.raises(UnsupportedError, match="differ in type"):
        captured([adapt(base), adapt(base.view(np.float16)[2:])], ["*fp32", "*fp16"], uses)


@pytest.mark.parametrize("view", [np.zeros(8, np.float32)[::-1], np.zeros(8, [("a", "f4"), ("b", "i2")])["a"]])
def test_strides_that_no_kernel_counts_in_are_refused_with_help(view):
    with pytest.raises(LaunchError, match="strides of") as caught:
        captured([adapt(view)], ["*fp32"])
    assert "ascontiguousarray" in caught.value.hint


def test_a_launch_with_overlapping_views_has_a_key_of_its_own():
    base, other = np.zeros(1025, np.float32), np.zeros(1025, np.float32)
    assert launch_key((adapt(base[:-1]), adapt(base[1:]))) != launch_key((adapt(base[:-1]), adapt(other[1:])))
    assert launch_key((adapt(base[:-1]), adapt(other[1:]))) == launch_key((adapt(other[:-1]), adapt(base[1:])))


class TorchLike:
    """The attributes of a torch tensor that are read."""

    def __init__(self, shape, strides, offset, allocation):
        self.shape, self._strides, self._offset, self._allocation = shape, strides, offset, allocation
        self.dtype = "torch.float32"

    def data_ptr(self):
        return 4096 + 4 * self._offset

    def stride(self):
        return self._strides

    def element_size(self):
        return 4

    def storage_offset(self):
        return self._offset

    def untyped_storage(self):
        return SimpleNamespace(nbytes=lambda: 4 * self._allocation)


def test_torch_tensors_with_strides_and_offset():
    (arg,) = captured([TorchLike((3, 4), (1, 8), 5, 100)], ["*fp32"], [use("p0", loads=[LOAD])]).launch.args[:1]
    assert (arg.shape, arg.strides) == ((3, 4), (1, 8))
    assert arg.storage == 100 - 5
    assert isinstance(arg, TensorArg) and arg.extra_elements == 95 - (1 + 2 * 1 + 3 * 8)


def test_contents_of_integer_tensors_in_storage_order():
    base = np.arange(12, dtype=np.int32).reshape(3, 4)
    found = captured([adapt(base[:, :2]), adapt(np.zeros(4, np.float32)), TensorSpec((4,), "i32")], ["*i32", "*fp32", "*i32"])
    assert set(found.contents) == {"p0"}
    loaded = found.contents["p0"]()
    assert len(loaded) == found.launch.args[0].storage == 10
    assert [int(loaded[i]) for i in (0, 1, 4, 5, 8, 9)] == [0, 1, 4, 5, 8, 9]


def test_scratch_that_is_used_gets_memory_of_its_own():
    metadata = SimpleNamespace(**{**METADATA.__dict__, "global_scratch_size": 256})
    args = captured([], [], metadata=metadata, grid=(3, 2, 1)).launch.args
    assert args[0] == TensorArg("global_scratch", "u8", (256 * 6,), Role.AUX) and isinstance(args[1], NullArg)


@pytest.mark.parametrize(
    "values, types, error",
    [([4096], ["*fp32"], LaunchError), ([TensorSpec((8,))], ["tensordesc<fp32[8]>"], UnsupportedError), (["x"], ["i32"], LaunchError)],
)
def test_what_cannot_be_launched_names_the_argument(values, types, error):
    with pytest.raises(error, match="p0"):
        captured(values, types)


def test_clusters_are_not_supported():
    with pytest.raises(UnsupportedError, match="num_ctas"):
        captured([], [], metadata=SimpleNamespace(**{**METADATA.__dict__, "num_ctas": 2}))


def test_tuples_are_flattened():
    found = captured([(TensorSpec((8,)), 3)], [("*fp32", "i32")])
    assert [arg.name for arg in found.launch.args[:2]] == ["p0.0", "p0.1"]


def test_keys_of_launches_differ_exactly_where_validation_could():
    x, y = TensorSpec((8, 4)), TensorSpec((8, 4))
    base = launch_key((x, y, 3, 1.5))
    assert base == launch_key((x.clone(), y.clone(), 3, 2.5)) and hash(base)
    for other in ((x, x, 3, 1.5), (x, TensorSpec((4, 8)), 3, 1.5), (x, TensorSpec((8, 4), "f16"), 3, 1.5), (x, y, 4, 1.5), (x, y, 3, 2)):
        assert launch_key(other) != base
    assert launch_key((TensorSpec((8, 4), "f32", (4, 1)),)) != launch_key((TensorSpec((8, 4), "f32", (8, 1)),))


def test_keys_of_contents_follow_the_data_of_integer_tensors_only():
    index = np.arange(6, dtype=np.int64)
    values = np.zeros(6, np.float32)
    before = contents_key((adapt(index), adapt(values), 3))
    values[2] = 1
    assert contents_key((adapt(index), adapt(values), 3)) == before
    index[2] = 0
    assert contents_key((adapt(index), adapt(values), 3)) != before
