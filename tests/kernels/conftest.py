"""The machinery that puts faults into PTX is the neighbouring folder's."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "faults"))
