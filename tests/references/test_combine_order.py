"""Combine functions whose result depends on the order: the laws are proved or shown broken, and the compiler is never blamed."""

from __future__ import annotations

import numpy as np
import pytest

from ptx_engine.launch import Launch, Role, TensorArg, bind
from ptx_engine.terms.arena import Arena
from volta_pass.references.combine_order import dependences
from volta_pass.references.freedoms import Freedoms
from volta_pass.references.ttir import evaluate, load_ttir

SOURCE = """
"builtin.module"() ({{
  "tt.func"() <{{function_type = (!tt.ptr<{t}>, !tt.ptr<{t}>) -> (), sym_name = "kernel", sym_visibility = "public"}}> ({{
  ^bb0(%x: !tt.ptr<{t}>, %o: !tt.ptr<{t}>):
    %half = "arith.constant"() <{{value = {half} : {t}}}> : () -> {t}
    %r = "tt.make_range"() <{{end = 8 : i32, start = 0 : i32}}> : () -> tensor<8xi32>
    %ptr = "tt.splat"(%x) : (!tt.ptr<{t}>) -> tensor<8x!tt.ptr<{t}>>
    %p = "tt.addptr"(%ptr, %r) : (tensor<8x!tt.ptr<{t}>>, tensor<8xi32>) -> tensor<8x!tt.ptr<{t}>>
    %v = "tt.load"(%p) <{{boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32, isVolatile = false,
        operandSegmentSizes = array<i32: 1, 0, 0>}}> : (tensor<8x!tt.ptr<{t}>>) -> tensor<8x{t}>
    {head}"({values}) <{{axis = 0 : i32{scan}}}> ({{
    ^bb0(%a: {t}, %b: {t}):
      {body}
      "{name}.return"(%c) : ({t}) -> ()
    }}) : (tensor<8x{t}>) -> {result}
    {store}
    "tt.return"() : () -> ()
  }}) : () -> ()
}}) : () -> ()
"""


def source(body, t="f32", scan=False):
    name = "tt.scan" if scan else "tt.reduce"
    stored = (
        '"tt.store"(%p, %q) <{boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32}> : (tensor<8x!tt.ptr<T>>, tensor<8xT>) -> ()'
    )
    single = '"tt.store"(%o, %q) <{boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32}> : (!tt.ptr<T>, T) -> ()'
    return SOURCE.format(
        t=t, half="5.0e-01" if t == "f32" else "3", head=f'%q = "{name}', values="%v", scan=", reverse = false" if scan else "",
        body="\n      ".join(body.replace("T", t).split("; ")), name=name, result=f"tensor<8x{t}>" if scan else t,
        store=(stored if scan else single).replace("T", t),
    )  # fmt: skip


def laws(body, t="f32", scan=False):
    dtype = {"f32": "f32", "i32": "s32"}[t]
    launch = Launch((1, 1, 1), (32, 1, 1), (TensorArg("x", dtype, (8,)), TensorArg("o", dtype, (8,), Role.OUT)))
    freedoms = Freedoms()
    evaluate(load_ttir(source(body, t, scan)), bind(launch, Arena()), ["x", "o"], freedoms=freedoms)
    return {row.law: bool(row.example) for row in dependences(list(freedoms.combines.values()))}


PROBABILITY = '%s = "arith.addf"(%a, %b) : (T, T) -> T; %m = "arith.mulf"(%a, %b) : (T, T) -> T; %c = "arith.subf"(%s, %m) : (T, T) -> T'
MEAN = '%s = "arith.addf"(%a, %b) : (T, T) -> T; %c = "arith.mulf"(%s, %half) : (T, T) -> T'
HORNER = '%m = "arith.muli"(%a, %half) : (T, T) -> T; %c = "arith.addi"(%m, %b) : (T, T) -> T'


def test_lawful_functions_are_proved_so():
    assert laws(PROBABILITY) == {} and laws(PROBABILITY, scan=True) == {}
    assert laws('%c = "arith.xori"(%a, %b) : (T, T) -> T', "i32") == {}
    # (a + 3) + b is not by its looks alone: three is added once for every step, whatever the order
    assert laws('%m = "arith.addi"(%a, %half) : (T, T) -> T; %c = "arith.addi"(%m, %b) : (T, T) -> T', "i32") == {}


@pytest.mark.parametrize(
    ("body", "t", "scan", "broken"),
    [
        (PROBABILITY.replace("subf", "addf").replace("%s, %m", "%s, %half"), "f32", False, set()),
        (MEAN, "f32", False, {"associative"}),
        (MEAN, "f32", True, {"associative"}),
        ('%c = "arith.subf"(%a, %b) : (T, T) -> T', "f32", False, {"associative", "commutative"}),
        ('%c = "arith.subf"(%a, %b) : (T, T) -> T', "f32", True, {"associative"}),
        (HORNER, "i32", False, {"associative", "commutative"}),
        ('%c = "arith.divsi"(%a, %b) : (T, T) -> T', "i32", False, {"associative", "commutative"}),
        ('%z = "arith.mulf"(%b, %half) : (T, T) -> T; %z2 = "arith.subf"(%z, %z) : (T, T) -> T; %c = "arith.addf"(%a, %z2) : (T, T) -> T',
         "f32", False, {"commutative"}),
    ],
)  # fmt: skip
def test_broken_laws_are_named(body, t, scan, broken):
    assert set(laws(body, t, scan)) == broken
    assert all(laws(body, t, scan).values()) or t == "i32"


def test_the_law_of_a_function_that_cannot_be_run_on_unknown_values_is_open():
    body = (
        '%z = "arith.constant"() <{value = 0.0 : f32}> : () -> f32; %t = "arith.cmpf"(%a, %z) <{predicate = 4 : i64, fastmath = #arith.fastmath<none>}>'
        ' : (f32, f32) -> i1; %c = "scf.if"(%t) ({"scf.yield"(%a) : (f32) -> ()}, {"scf.yield"(%b) : (f32) -> ()}) : (i1) -> f32'
    )
    launch = Launch((1, 1, 1), (32, 1, 1), (TensorArg("x", "f32", (8,), contents=np.arange(8.0)), TensorArg("o", "f32", (8,), Role.OUT)))
    freedoms = Freedoms()
    evaluate(load_ttir(source(body)), bind(launch, Arena()), ["x", "o"], freedoms=freedoms)
    found = dependences(list(freedoms.combines.values()))
    assert found and not any(row.example for row in found)
