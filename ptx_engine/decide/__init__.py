"""Deciding equality of terms over the reals: fingerprints, exact proofs, real-number witnesses, explanations."""

from ptx_engine.decide.driver import CONSTANTS_WITHIN_1_ULP, Budget, Mode, decide
from ptx_engine.decide.fingerprint import Fingerprints, fingerprint
from ptx_engine.decide.regions import ascii_map, describe, region_data

__all__ = ["CONSTANTS_WITHIN_1_ULP", "Budget", "Fingerprints", "Mode", "ascii_map", "decide", "describe", "fingerprint", "region_data"]
