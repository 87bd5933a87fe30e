"""Reports for people: ``render(report)`` gives the text of a diagnostic at the user's source line."""

from volta_pass.diagnostics.paint import printable, wants_color
from volta_pass.diagnostics.render import render

__all__ = ["printable", "render", "wants_color"]
