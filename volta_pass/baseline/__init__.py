"""Upgrade regression: validated launches recorded under one compiler, compiled again and compared under another."""

from volta_pass.baseline.recording import Record, Recording

__all__ = ["Record", "Recording"]
