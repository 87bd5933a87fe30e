"""Reports for people: ``render(report)`` gives the text of a diagnostic at the user's source line."""

from volta_pass.diagnostics.render import render

__all__ = ["render"]
