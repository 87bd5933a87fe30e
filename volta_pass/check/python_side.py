"""A Python function over symbolic tensors as the reference of a spec."""

from __future__ import annotations

from ptx_engine.launch import BoundLaunch, ScalarArg, TensorArg
from volta_pass.check.imports import import_object
from volta_pass.check.sides import ReadySide, SideRun
from volta_pass.job import FunctionReference
from volta_pass.reference_decorator import match_parameters
from volta_pass.spec import SideSpec, Spec, SpecError


def ready_python(side: SideSpec, spec: Spec) -> ReadySide:
    """The function, its parameters matched by name with the launch's arguments. Raises SpecError, LaunchError."""
    fn = import_object(side, spec.path.parent)
    if not callable(fn):
        raise SpecError(f"[{side.side}] {side.source} is no function", span=side.span, source_line=side.source_line)
    names = [arg.name for arg in side.launch.args if isinstance(arg, (TensorArg, ScalarArg))]
    name = side.source.rpartition(":")[2]
    reference = FunctionReference(fn, match_parameters(fn, fn, names), spec.outputs, name)

    def run(bound: BoundLaunch) -> SideRun:
        from volta_pass.references.tensor import tensor_reference

        return SideRun(dict(tensor_reference(reference, bound, {})))

    return ReadySide(side, name, side.launch, run, {})
