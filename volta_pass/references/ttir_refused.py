"""TTIR operations that are known and refused, each with the reason that the user reads."""

from __future__ import annotations

from volta_pass.references.ttir_registry import refuse

_DESCRIPTOR = "tensor descriptors (TMA) have no semantics here yet"
_REASONS: dict[str, str] = {
    "tt.histogram": "a histogram of symbolic data is no term over the reals",
    "tt.elementwise_inline_asm": "inline assembly has no tile semantics",
    "tt.make_tensor_ptr": "block pointers are not read; pass pointers and masks",
    "tt.advance": "block pointers are not read; pass pointers and masks",
    "tt.make_tensor_descriptor": _DESCRIPTOR,
    "tt.descriptor_load": _DESCRIPTOR,
    "tt.descriptor_store": _DESCRIPTOR,
    "tt.descriptor_gather": _DESCRIPTOR,
    "tt.descriptor_scatter": _DESCRIPTOR,
    "tt.descriptor_reduce": _DESCRIPTOR,
}

for _name, _why in _REASONS.items():
    refuse(_name, _why)
