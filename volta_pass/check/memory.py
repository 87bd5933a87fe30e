"""The process's peak memory, for reports."""

from __future__ import annotations

import sys


def peak_mib() -> float:
    """Peak resident memory of this process in MiB; 0 where the system does not say."""
    try:
        import resource
    except ImportError:  # Windows
        return 0.0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20) if sys.platform == "darwin" else peak / (1 << 10)
