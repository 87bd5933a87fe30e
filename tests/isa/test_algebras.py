"""One spec, two evaluators: both algebras have a row for every operator, and refuse none that the other has."""

from __future__ import annotations

import pytest

from ptx_engine.isa.algebra import ARITY, COMPARISONS, PLAIN, PROPERTIES
from ptx_engine.isa.algebra_symbolic import EMITTERS, SIGNED, SymbolicAlgebra
from ptx_engine.isa.concrete import ConcreteAlgebra
from ptx_engine.isa.concrete_operators import BUILDERS
from ptx_engine.isa.values import F32
from ptx_engine.terms import Arena


def test_tables_have_the_same_rows() -> None:
    assert set(EMITTERS) | set(SIGNED) == set(ARITY) == set(BUILDERS)
    assert not set(EMITTERS) & set(SIGNED)


@pytest.mark.parametrize("operator", list(ARITY))
def test_both_bind_every_operator(operator: str) -> None:
    one = 0x3F800000
    operands = [one] * ARITY[operator]
    assert isinstance(ConcreteAlgebra().apply(operator, (F32,), PLAIN)(*operands), int)
    assert SymbolicAlgebra(Arena()).apply(operator, (F32,), PLAIN)(*operands) is not None


@pytest.mark.parametrize("cmp", COMPARISONS)
def test_comparisons_agree_on_constants(cmp: str) -> None:
    """Zeros of both signs, numbers, infinities and NaN: the folded term is the concrete predicate."""
    words = [0, 0x80000000, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000]
    symbolic, concrete = SymbolicAlgebra(Arena()).compare(cmp, (F32,), PLAIN), ConcreteAlgebra().compare(cmp, (F32,), PLAIN)
    for x in words:
        for y in words:
            assert symbolic(x, y) == concrete(x, y), (cmp, hex(x), hex(y))


@pytest.mark.parametrize("prop", PROPERTIES[:4])
def test_properties_agree_on_constants(prop: str) -> None:
    symbolic, concrete = SymbolicAlgebra(Arena()).test(prop, F32), ConcreteAlgebra().test(prop, F32)
    for word in (0, 0x3F800000, 0x7F800000, 0xFF800000, 0x7FC00000):
        assert symbolic(word) == concrete(word)
