"""The reference store (design section 8): verdicts and what they were proved about, on disk or shared by a team."""

from volta_pass.store.container import CorruptEntryError
from volta_pass.store.keys import canonical, digest, own_version
from volta_pass.store.store import Stats, Store, default_root

__all__ = ["CorruptEntryError", "Stats", "Store", "canonical", "default_root", "digest", "own_version"]
