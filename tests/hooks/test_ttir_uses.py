"""Roles and load sites from TTIR: every construct that carries a pointer, with the pointers beside it left alone."""

import pytest

from ptx_engine.launch import Role
from volta_pass.ttir_uses import parameter_uses

POINTER = "!tt.ptr<f32>"


def kernel(body, parameters=("x", "y", "out")):
    """A kernel in generic form: pointer parameters ``%x``, ..., an i32 ``%n`` and an i1 ``%c``."""
    names = [*parameters, "n", "c"]
    types = [POINTER] * len(parameters) + ["i32", "i1"]
    arguments = ", ".join(f'%{name}: {kind} loc("{name}"("k.py":1:1))' for name, kind in zip(names, types))
    return f"""
"builtin.module"() ({{
  "tt.func"() <{{function_type = ({", ".join(types)}) -> (), sym_name = "k", sym_visibility = "public"}}> ({{
  ^bb0({arguments}):
    {body}
    "tt.return"() : () -> ()
  }}) : () -> ()
}}) : () -> ()
"""


def load(pointer, name="v", line=5):
    return f'%{name} = "tt.load"(%{pointer}) : ({POINTER}) -> f32 loc("k.py":{line}:9)\n'


def store(pointer, value="v", line=9):
    return f'"tt.store"(%{pointer}, %{value}) : ({POINTER}, f32) -> () loc("k.py":{line}:5)\n'


def roles(body):
    return {use.name: use.role for use in parameter_uses(kernel(body)) if use.is_pointer}


ADD = f'%p = "tt.addptr"(%x, %n) : ({POINTER}, i32) -> {POINTER}\n'


def test_loads_and_stores_through_derived_pointers():
    assert roles(ADD + load("p") + store("out")) == {"x": Role.IN, "y": Role.IN, "out": Role.OUT}
    assert roles(ADD + load("p") + store("p")) == {"x": Role.INOUT, "y": Role.IN, "out": Role.IN}


def test_sites_carry_the_line_and_whether_there_is_a_mask():
    masked = f'%w = "tt.load"(%y, %c) : ({POINTER}, i1) -> f32 loc("k.py":6:9)\n'
    x, y, out, n, _ = parameter_uses(kernel(load("x") + masked + store("out")))
    assert [(site.user_loc, site.masked) for site in x.loads] == [("k.py:5:9", False)]
    assert [(site.user_loc, site.masked) for site in y.loads] == [("k.py:6:9", True)]
    assert [(site.user_loc, site.masked) for site in out.stores] == [("k.py:9:5", False)]
    assert not n.is_pointer


def test_an_atomic_reads_and_writes():
    body = load("x") + f'%o = "tt.atomic_rmw"(%out, %v, %c) <{{atomic_rmw_op = 5 : i32}}> : ({POINTER}, f32, i1) -> f32\n'
    assert roles(body) == {"x": Role.IN, "y": Role.IN, "out": Role.INOUT}


def test_a_loop_keeps_its_pointers_apart():
    """``for`` carries x and out; x is only read, out only written, also through the loop's results."""
    body = f"""
    %r:2 = "scf.for"(%n, %n, %n, %x, %out) ({{
    ^bb1(%i: i32, %px: {POINTER}, %po: {POINTER}):
      {load("px")}
      {store("po")}
      %nx = "tt.addptr"(%px, %n) : ({POINTER}, i32) -> {POINTER}
      %no = "tt.addptr"(%po, %n) : ({POINTER}, i32) -> {POINTER}
      "scf.yield"(%nx, %no) : ({POINTER}, {POINTER}) -> ()
    }}) : (i32, i32, i32, {POINTER}, {POINTER}) -> ({POINTER}, {POINTER})
    {load("r#0", "u")}
    {store("r#1", "u")}
    """
    assert roles(body) == {"x": Role.IN, "y": Role.IN, "out": Role.OUT}


def test_a_loop_that_swaps_its_pointers_mixes_them():
    body = f"""
    %r:2 = "scf.for"(%n, %n, %n, %x, %out) ({{
    ^bb1(%i: i32, %px: {POINTER}, %po: {POINTER}):
      {load("px")}
      {store("po")}
      "scf.yield"(%po, %px) : ({POINTER}, {POINTER}) -> ()
    }}) : (i32, i32, i32, {POINTER}, {POINTER}) -> ({POINTER}, {POINTER})
    """
    assert roles(body) == {"x": Role.INOUT, "y": Role.IN, "out": Role.INOUT}


def test_a_choice_of_pointers_counts_as_both():
    chosen = f"""
    %p = "scf.if"(%c) ({{
      "scf.yield"(%x) : ({POINTER}) -> ()
    }}, {{
      "scf.yield"(%y) : ({POINTER}) -> ()
    }}) : (i1) -> {POINTER}
    {load("out")}
    {store("p")}
    """
    assert roles(chosen) == {"x": Role.OUT, "y": Role.OUT, "out": Role.IN}
    select = f'%p = "arith.select"(%c, %x, %y) : (i1, {POINTER}, {POINTER}) -> {POINTER}\n' + load("p") + store("out")
    assert roles(select) == {"x": Role.IN, "y": Role.IN, "out": Role.OUT}


def test_pointers_made_of_integers_make_everything_read_and_written():
    body = f'%a = "tt.ptr_to_int"(%x) : ({POINTER}) -> i64\n%p = "tt.int_to_ptr"(%a) : (i64) -> {POINTER}\n' + load("p") + store("out")
    assert set(roles(body).values()) == {Role.INOUT}


def test_an_address_that_is_only_looked_at_escapes_alone():
    body = f'%a = "tt.ptr_to_int"(%x) : ({POINTER}) -> i64\n' + load("y") + store("out")
    assert roles(body) == {"x": Role.INOUT, "y": Role.IN, "out": Role.OUT}


@pytest.mark.parametrize("stored, role", [("q", Role.OUT), ("x", Role.IN)])
def test_a_private_function_is_followed(stored, role):
    text = kernel(f'"tt.call"(%out, %x) <{{callee = @helper}}> : ({POINTER}, {POINTER}) -> ()\n')
    helper = f"""
  "tt.func"() <{{function_type = ({POINTER}, {POINTER}) -> (), sym_name = "helper", sym_visibility = "private"}}> ({{
  ^bb0(%q: {POINTER}, %x: {POINTER}):
    {load("x" if stored == "q" else "q")}
    {store(stored)}
    "tt.return"() : () -> ()
  }}) : () -> ()
"""
    text = text.rstrip().removesuffix("}) : () -> ()") + helper + "}) : () -> ()\n"
    uses = {use.name: use.role for use in parameter_uses(text) if use.is_pointer}
    assert uses["out"] is role and uses["x"] is (Role.IN if role is Role.OUT else Role.OUT)
