"""Deciding equality of terms over the reals: fingerprints, exact proofs, real-number witnesses, explanations."""

import sys

from ptx_engine.decide.api import CallableModule, decide
from ptx_engine.decide.driver import Budget, Mode
from ptx_engine.decide.fingerprint import Fingerprints
from ptx_engine.decide.regions import ascii_map, describe, region_data
from ptx_engine.decide.unify import CONSTANTS_WITHIN_1_ULP

__all__ = ["CONSTANTS_WITHIN_1_ULP", "Budget", "Fingerprints", "Mode", "ascii_map", "decide", "describe", "region_data"]

sys.modules[__name__].__class__ = CallableModule
