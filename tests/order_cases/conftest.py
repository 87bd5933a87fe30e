"""Schedules and the digest of terms are those of the compiled kernels."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "kernels"))
