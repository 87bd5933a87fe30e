"""Flattening: unique names under shadowing, labels, targets, sharing; and every refusal with its place."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syntax_cases import DATA, REGISTERS, flat, flatten_error, module_of

from ptx_engine.errors import ParseError
from ptx_engine.syntax import flatten, parse
from ptx_engine.syntax.ast import IntLit, Mem, Name, NameOffset, Pair, Reg, Subscript, Vec


def test_one_scope_shares_its_instructions() -> None:
    module = module_of(f"{REGISTERS} L: add.s32 %r1, %r2, 1; @%p1 bra L; ld.global.b32 %r1, [%rd1+4]; ret;")
    function = module.functions[0]
    found = flatten(function, module)
    assert all(any(i is s for s in function.body or ()) for i in found.instructions)
    assert found.labels == {"L": 0}
    assert found.registers == {"%r1": "b32", "%r2": "b32", "%p1": "pred", "%rd1": "b64"}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("ld.global.acquire.gpu.b32 %r1, [%rd1]", "ld.acquire.gpu.global.b32"),
        ("st.global.volatile.b32 [%rd1], %r1", "st.volatile.global.b32"),
        ("red.global.add.release.gpu.s32 [%rd1], %r1", "red.release.gpu.global.add.s32"),
        ("atom.add.gpu.acq_rel.global.s32 %r1, [%rd1], %r2", "atom.acq_rel.gpu.global.add.s32"),
        ("ld.shared::cta.gpu.relaxed.b32 %r1, [%rd1]", "ld.relaxed.gpu.shared::cta.b32"),
        ("ld.global.nc.L2::128B.v2.b32 {%r1, %r2}, [%rd1]", "ld.global.nc.L2::128B.v2.b32"),
        ("cvt.sat.rn.f32.f32 %r1, %r2", "cvt.sat.rn.f32.f32"),
    ],
)
def test_semantics_scope_and_space_come_first_in_whatever_order_they_are_written(written: str, meant: str) -> None:
    (found,) = flat(f"{REGISTERS} {written};").instructions
    assert found.mnemonic == meant


def test_labels_stand_at_the_next_instruction() -> None:
    found = flat("A: ret; { B: C: exit; } D: bra D; E:")
    assert found.labels == {"A": 0, "B": 1, "C": 1, "D": 2, "E": 3}
    assert [i.opcode for i in found.instructions] == ["ret", "exit", "bra"]


def test_inner_declarations_shadow() -> None:
    found = flat(f"{REGISTERS} mov.b32 %r1, 0; {{ .reg .b64 %r<3>; mov.b64 %r1, 1; mov.b32 %r5, 2; }} mov.b32 %r1, 3;")
    assert [i.operands[0] for i in found.instructions] == [Reg("%r1"), Reg("%r1@1"), Reg("%r5"), Reg("%r1")]
    assert found.registers == {"%r1": "b32", "%r1@1": "b64", "%r5": "b32"}


def test_sibling_scopes_get_names_of_their_own() -> None:
    scope = "{ .reg .pred P; WAIT: setp.eq.b32 P, %r1, 0; @P bra DONE; bra WAIT; DONE: }"
    found = flat(f"{REGISTERS} {scope} {scope} ret;")
    assert [i.operands[0] for i in found.instructions if i.opcode == "setp"] == [Reg("P"), Reg("P@2")]
    assert [i.predicate for i in found.instructions if i.predicate] == [Reg("P"), Reg("P@2")]
    assert found.labels == {"WAIT": 0, "DONE": 3, "WAIT@2": 3, "DONE@2": 6}
    assert [i.operands[0] for i in found.instructions if i.opcode == "bra"] == [Name(n) for n in ("DONE", "WAIT", "DONE@2", "WAIT@2")]


def test_an_outer_register_declared_after_an_inner_one() -> None:
    found = flat("{ .reg .b64 %x<3>; mov.b64 %x1, 0; } .reg .b32 %x<3>; mov.b32 %x1, 0;")
    first, second = (i.operands[0] for i in found.instructions)
    assert first != second
    assert isinstance(first, Reg)
    assert isinstance(second, Reg)
    assert (found.registers[first.name], found.registers[second.name]) == ("b64", "b32")


def test_registers_without_a_percent_sign() -> None:
    found = flat(".reg .b32 t, %r<2>; .shared .b32 s; mov.b32 t, s; mov.b32 %r1, t;")
    assert [i.operands for i in found.instructions] == [(Reg("t"), Name("s")), (Reg("%r1"), Reg("t"))]


def test_local_variables_get_unique_names() -> None:
    call = "{ .param .b32 a; st.param.b32 [a], 0; }"
    found = flat(f"{call} {call} .shared .b32 g; st.shared.b32 [g], 0; st.shared.b32 [p], 0;", ".shared .b32 g;")
    assert [v.name for v in found.variables] == ["a", "a@2", "g@0"]
    assert [i.operands[0] for i in found.instructions] == [Mem(Name(n)) for n in ("a", "a@2", "g@0", "p")]


def test_parameters_keep_their_names() -> None:
    found = flat("{ .param .b32 p; st.param.b32 [p], 0; } ld.param.u64 %tid, [p];", ".global .b32 p;")
    assert [i.operands[-2 if i.opcode == "st" else -1] for i in found.instructions] == [Mem(Name("p@1")), Mem(Name("p"))]


def test_register_parameters_and_vectors() -> None:
    module = parse(
        ".version 8.0\n.target sm_80\n.func (.reg .u32 total) f (.reg .u32 a)\n"
        "{ .reg .v4 .f32 v; mov.u32 total, a; add.f32 v.x, v.w, v.a; mov.v4.f32 v, {v.r, v.g, v.b, v.a}; }"
    )
    found = flatten(module.functions[0], module)
    whole = Vec(tuple(Reg(f"v.{c}") for c in "xyzw"))
    assert [i.operands for i in found.instructions] == [
        (Reg("total"), Reg("a")),
        (Reg("v.x"), Reg("v.w"), Reg("v.w")),
        (whole, whole),
    ]
    assert found.registers == {"total": "u32", "a": "u32", **{f"v.{c}": "f32" for c in "xyzw"}}


def test_subscripts_become_addresses() -> None:
    found = flat(f"{REGISTERS} ld.global.u32 %r1, t[2]; mov.u64 %rd1, t[3]; ld.global.u32 %r1, t[%r2+1];", ".global .u32 t[8];")
    assert [i.operands[1] for i in found.instructions] == [Mem(Name("t"), 8), NameOffset("t", 12), Subscript("t", Reg("%r2"), 1)]


def test_prefixes_that_end_in_digits() -> None:
    found = flat(".reg .b32 %a1<20>; mov.b32 %a10, %a119;")
    assert found.registers == {"%a10": "b32", "%a119": "b32"}
    assert "undeclared" in flatten_error(".reg .b32 %a1<20>; mov.b32 %a120, 0;").message
    assert "undeclared" in flatten_error(".reg .b32 %a1<20>; mov.b32 %a101, 0;").message


def test_a_huge_range_costs_nothing() -> None:
    assert flat(".reg .b32 %r<999999999>; mov.b32 %r999999998, 1;").registers == {"%r999999998": "b32"}


def test_branch_targets() -> None:
    found = flat("t: .branchtargets A, B; brx.idx %tid.x, t; { t: .branchtargets A; A: brx.idx %tid.x, t; } A: B: ret;")
    assert found.branch_targets == {"t": ("A", "B"), "t@1": ("A@1",)}
    assert [i.operands[1] for i in found.instructions[:2]] == [Name("t"), Name("t@1")]


def test_compound_operands_are_rewritten_inside() -> None:
    found = flat(f"{REGISTERS} {{ .reg .b32 %r<9>; .reg .pred %p<3>; tex {{%r1, _}}, [%r1+4, {{%r2}}], %p1|%p2, !%p1, 5; }}")
    assert found.instructions[0].operands[0] == Vec((Reg("%r1@1"), Name("_")))
    assert found.instructions[0].operands[1] == Mem(Reg("%r1@1"), 4, extra=(Vec((Reg("%r2@1"),)),))
    assert found.instructions[0].operands[2] == Pair(Reg("%p1@1"), Reg("%p2@1"))
    assert found.instructions[0].operands[4] == IntLit(5)


def test_calls_know_functions_prototypes_and_aliases() -> None:
    outside = ".func f() {} .weak .func g(); .alias h, f;"
    found = flat(f"{REGISTERS} q: .callprototype _ (); call f; call g; call h; call %rd1, (), q;", outside)
    assert len(found.instructions) == 4
    assert "undeclared symbol 'i'" in flatten_error("call i;", outside).message


@pytest.mark.parametrize(
    ("body", "message", "symbol"),
    [
        ("ret;\nmov.b32 %r1, %r2;", "undeclared register '%r1'", "%r1"),
        (".reg .b32 %r<3>;\nmov.b32 %r1, %r3;", "undeclared register '%r3'", "%r3"),
        (".reg .b32 %r<3>;\n{ mov.b32 %r1, {%r1, %r12}; }", "undeclared register '%r12'", "%r12"),
        (".reg .b32 %r<3>;\nmov.b32 %r01, 1;", "undeclared register '%r01'", "%r01"),
        ("mov.b32 %r1, 1;\n.reg .b32 %r<3>;", "undeclared register '%r1'", "%r1"),
        ("{ .reg .b32 %r<3>; }\nmov.b32 %r1, 1;", "undeclared register '%r1'", "%r1"),
        (".reg .b32 %r<3>;\n@%p1 mov.b32 %r1, 1;", "undeclared register '%p1'", "%p1"),
        (".reg .v2 .b32 v;\nmov.b32 v.z, 1;", "undeclared symbol 'v.z'", "v.z"),
        ("ld.global.b32 _, [nowhere];", "undeclared symbol 'nowhere'", "nowhere"),
        ("bra nowhere;", "branch to unknown label 'nowhere'", "nowhere"),
        ("bra A;\n{ A: ret; }", "branch to unknown label 'A'", "A"),
        ("bra p;", "branch to unknown label 'p'", "p"),
        ("bra;", "needs a label", "bra"),
        ("A: brx.idx %tid.x, A;", "no .branchtargets list", "A"),
        ("t: .branchtargets A, B;\nA: ret;", "branch to unknown label 'B'", "B"),
        ("A: ret;\nA: ret;", "label 'A' is defined twice", "A"),
        (".reg .b32 a;\n.reg .pred a;", "'a' is declared twice", "a"),
        (".reg .b32 %r<3>;\n.reg .b64 %r<3>;", "declared twice", "%r"),
        (".reg .b32 %r<20>;\n.reg .b64 %r1<3>;", "declared twice", "%r1"),
        (".reg .b32 %r1<3>;\n.reg .b64 %r<20>;", "declared twice", "%r"),
        (".reg .b32 %r<3>;\n.reg .b64 %r1;", "declared twice", "%r1"),
        (".reg .b32 %r1;\n.reg .b64 %r<3>;", "declared twice", "%r"),
        (".reg .b32 p;", "'p' is declared twice", "p"),
        ("x: .shared .b32 x;", "'x' is declared twice", "x"),
        (".reg .v2 .pred v;\n@v ret;", "no predicate", "v"),
        ("mov.u64 _, k[1];", "takes no subscript", "k"),
        ("cp.async.bulk.tensor.1d.global _, [p, {1}];\nld.b32 _, [p, {1}];", "without coordinates", "ld"),
    ],
)
def test_refusals(body: str, message: str, symbol: str) -> None:
    error = flatten_error(body)
    assert message in error.message
    assert error.span is not None
    assert error.source_line[error.span.col - 1 :].startswith(symbol)


def test_twins_of_the_refusals_resolve() -> None:
    flat(".reg .b32 %r<4>; mov.b32 %r1, %r3; { mov.b32 %r1, %r3; } A: bra A; { bra A; } { A: ret; }")
    flat(".reg .b32 %r<10>; .reg .b64 %r1<3>; mov.b32 %r9, 0; mov.b64 %r12, 0;")


def test_the_hint_names_the_range() -> None:
    assert flatten_error(".reg .b32 %r<3>;\nmov.b32 %r1, %r3;").hint == "'.reg %r<3>' ends at %r2"


def test_a_prototype_has_no_body() -> None:
    module = parse(".version 8.0\n.target sm_80\n.extern .func f();")
    with pytest.raises(ParseError, match="has no body"):
        flatten(module.functions[0], module)


@pytest.mark.parametrize("path", sorted(DATA.glob("*.ptx")), ids=lambda p: p.stem)
def test_samples_resolve(path: object) -> None:
    module = parse((DATA / str(path)).read_text(), str(path))
    for function in module.functions:
        if function.body is not None:
            found = flatten(function, module)
            assert set(found.labels.values()) <= set(range(len(found.instructions) + 1))


# --- against a naive model: a name means (the innermost declaring scope, name) -----------------


@dataclass
class Tree:
    """A scope: declared plain names and ranges of size 3, then uses and inner scopes."""

    names: list[str]
    ranges: list[str]
    items: list[object] = field(default_factory=list)


def trees() -> st.SearchStrategy[Tree]:
    names = st.lists(st.sampled_from(["a", "b", "%x1", "%y"]), unique=True, max_size=3)
    ranges = st.lists(st.sampled_from(["%x", "%z"]), unique=True, max_size=2)
    use = st.sampled_from(["a", "b", "%x0", "%x1", "%x2", "%y", "%z1"])
    leaf = st.builds(Tree, names, ranges, st.lists(use, max_size=4))
    return st.recursive(leaf, lambda inner: st.builds(Tree, names, ranges, st.lists(use | inner, max_size=5)), max_leaves=6)


def written(tree: Tree, outer: list[tuple[int, Tree]], count: list[int], meanings: list[tuple[int, str] | None]) -> str:
    """The text of a scope; appends what each use means, None for undeclared."""
    scope = (count[0], tree)
    count[0] += 1
    chain = [*outer, scope]
    text = "{\n" + "".join(f".reg .b32 {n};\n" for n in tree.names) + "".join(f".reg .b32 {n}<3>;\n" for n in tree.ranges)
    for item in tree.items:
        if isinstance(item, Tree):
            text += written(item, chain, count, meanings)
        else:
            name = str(item)
            owners = [number for number, at in chain if name in at.names or name[:-1] in at.ranges]
            meanings.append((owners[-1], name) if owners else None)
            text += f"use {name};\n"
    return text + "}\n"


@given(trees())
def test_names_mean_what_a_naive_model_says(tree: Tree) -> None:
    meanings: list[tuple[int, str] | None] = []
    text = written(tree, [], [0], meanings)
    clash = any("%x1" in t.names and "%x" in t.ranges for t in walk(tree))
    if clash or None in meanings:
        assert flatten_error(text).message
        return
    found = flat(text)
    names = [i.operands[0] for i in found.instructions]
    assert len(set(zip(meanings, names))) == len(set(meanings)) == len(set(names))
    assert all(isinstance(n, Reg) for n in names)


def walk(tree: Tree) -> list[Tree]:
    return [tree, *(t for item in tree.items if isinstance(item, Tree) for t in walk(item))]
