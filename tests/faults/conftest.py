"""The compiled kernels of the neighbouring folder are what faults are put into."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "kernels"))
