"""A Python function over symbolic tensors as the reference of a spec."""

from __future__ import annotations

import traceback

from ptx_engine.errors import PtxError
from ptx_engine.launch import BoundLaunch, ScalarArg, TensorArg
from volta_pass.check.imports import import_object
from volta_pass.check.sides import ReadySide, SideRun
from volta_pass.reference_decorator import match_parameters
from volta_pass.spec import SideSpec, Spec, SpecError


def ready_python(side: SideSpec, spec: Spec) -> ReadySide:
    """The function, its parameters matched by name with the launch's arguments. Raises SpecError, LaunchError."""
    fn = side.function or import_object(side, spec.path.parent)
    if not callable(fn):
        hint = "name a function of the input tensors that returns the outputs"
        raise SpecError(f"[{side.side}] {side.source} is no function", span=side.span, source_line=side.source_line, hint=hint)
    names = [arg.name for arg in side.launch.args if isinstance(arg, (TensorArg, ScalarArg))]
    name = side.source.rpartition(":")[2]
    parameters = match_parameters(fn, fn, names)

    def run(bound: BoundLaunch) -> SideRun:
        from volta_pass.references.tensor_reference import tensor_reference

        try:
            return SideRun(tensor_reference(fn, bound, parameters, spec.outputs))
        except PtxError:
            raise
        except (Exception, SystemExit) as error:  # code of the user's: anything can come out of it
            place = traceback.extract_tb(error.__traceback__)[-1]
            message = f"[{side.side}] {name} failed at {place.filename}:{place.lineno}: {type(error).__name__}: {error}"
            hint = "correct the function; it is called with symbolic tensors, as in configs and docs/meaning.md"
            raise SpecError(message, span=side.span, source_line=side.source_line, hint=hint) from error

    return ReadySide(side, name, side.launch, run, {})
