"""Refutations at inputs at which the source has no value are none; at others they stand."""

from __future__ import annotations

import numpy as np
import pytest

from ptx_engine.launch import Footprint
from ptx_engine.terms.arena import Arena
from ptx_engine.terms.ops import Op
from ptx_engine.verdict import Method, OutputVerdict, Status, Verdict, Witness
from volta_pass.open_choices import where_defined
from volta_pass.references.freedoms import Conversion, Freedoms
from volta_pass.stages import Evaluated


@pytest.mark.parametrize(
    ("x", "status"), [("300", Status.UNKNOWN), ("-129", Status.UNKNOWN), ("127", Status.REFUTED), ("-257/2", Status.REFUTED)]
)
def test_a_witness_counts_where_its_numbers_fit(x, status):
    arena = Arena()
    entry = arena.add_input("x", 4, "f32")
    whole = np.array([arena.unary(Op.TRUNC, -1 - (entry.base + i)) for i in range(4)], np.int32)
    freedoms = Freedoms(conversions=[Conversion(whole, -128, 127, True, "k.py:3:1")])
    own = Evaluated({"o": Footprint(np.arange(4), whole)}, freedoms=freedoms)
    witness = Witness("o", 2, {"x[2]": x, "x[1]": "1000"}, "1", "0")
    refuted = Verdict(Status.REFUTED, Method.EXACT, [OutputVerdict("o", Status.REFUTED, 4, witness=witness)])
    found = where_defined(refuted, own, arena)
    assert found.status is status
    assert ("k.py:3:1" in found.reason) is (status is Status.UNKNOWN)


@pytest.mark.parametrize(("reordered", "status"), [({}, Status.REFUTED), ({"k.py:5:1": None}, Status.UNKNOWN)])
def test_an_order_of_elements_that_the_compiler_chooses_is_not_held_against_it(reordered, status):
    arena = Arena()
    ids = np.asarray(arena.add_input("x", 2, "f32").ids(np.arange(2)), np.int32)
    own = Evaluated({"o": Footprint(np.arange(2), ids)}, freedoms=Freedoms(reordered=reordered))
    witness = Witness("o", 1, {"x[1]": "1"}, "1", "0")
    refuted = Verdict(Status.REFUTED, Method.EXACT, [OutputVerdict("o", Status.REFUTED, 2, witness=witness)])
    found = where_defined(refuted, own, arena)
    assert found.status is status and ("can_reorder" in found.reason) is bool(reordered)
