"""Launch specs: TOML text -> ``Spec`` with a typed launch for each side."""

from volta_pass.spec.kernels import kind_of, with_defines
from volta_pass.spec.model import SideKind, SideSpec, Spec
from volta_pass.spec.reader import parse_spec, read_spec, read_sweep
from volta_pass.spec.structure import SpecError

__all__ = ["SideKind", "SideSpec", "Spec", "SpecError", "kind_of", "parse_spec", "read_spec", "read_sweep", "with_defines"]
