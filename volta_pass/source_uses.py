"""Which arguments a kernel's own source loads and stores through, and where, in whichever language it is written."""

from __future__ import annotations

from ptx_engine.errors import UnsupportedError
from volta_pass.ttir_uses import ParameterUse
from volta_pass.ttir_uses import parameter_uses as ttir_parameter_uses


def parameter_uses(text: str, language: str) -> list[ParameterUse]:
    """The kernel's parameters with their accesses. Raises ParseError on a malformed text, UnsupportedError on another language."""
    if language == "ttir":
        return ttir_parameter_uses(text)
    if language == "tile":
        from volta_pass.tile_uses import tile_parameter_uses

        return tile_parameter_uses(text)
    raise UnsupportedError(f"sources in {language}", feature=language)
