"""Breaks the checker's rules one at a time and sees the explorer disagree: a rule that no program needs would be untested."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType, ModuleType

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from order_cases import CASES
from order_driver import Stuck, check, misused, pairs
from order_explorer import Answer, TooBig, explore
from order_programs import Program, programs

#: (module of ptx_engine.order, text, what stands there instead)
MUTANTS = [
    ("pairs", "program = same_thread & (((rows.kind[a] & ASYNC) == 0) | (released < rows.seq[b]))", "program = same_thread"),
    ("pairs", "(released < np.minimum(rows.base[b], rows.cap[a]))", "(released < rows.base[b])"),
    ("pairs", "cta = same_cta & (released", "cta = same_cta & (rows.seq[a]"),
    ("pairs", "& (rows.warp[a] == rows.warp[b]) & (released < rows.warp_base[b])", "& (released < rows.warp_base[b])"),
    ("pairs", "return np.asarray(program | cta | warp)", "return np.asarray(program | cta)"),
    ("pairs", "keep &= (cells.thread[a] != cells.thread[b]) | ((rows.kind[a] & ASYNC) != 0)", "keep &= cells.thread[a] != cells.thread[b]"),
    ("pairs", "_near(granule, write & ~atomic, np.ones(len(order), bool))", "_near(granule, write & ~atomic, ~write)"),
    ("pairs", "_near(granule, write & atomic, ~write & ~atomic, ATOMIC_WINDOW)", "_near(granule, write & atomic, atomic & ~atomic)"),
    ("pairs", "return np.asarray(narrow | shape)", "return np.asarray(shape)"),
    ("pairs", "return np.asarray(narrow | shape)", "return np.asarray(narrow)"),
    ("copies", "return np.asarray(last[threads])", "return np.asarray(last[threads] * 0)"),
    ("copies", "if pending == WAIT_ALL:", "if False:"),
    ("copies", "covered = self._done > group.number", "covered = self._done >= group.number"),
    ("copies", "covered & (group.completed == NEVER)", "covered"),
    ("shared", "released >= limit", "released > limit + 1000"),
    ("shared", "if group.completed is None:\n            return column", "if group.completed is None:\n            return None"),
    ("shared", "writes += [c for c in old if c.kind & WRITE]", "pass"),
    ("shared", "(low < c.high) & (high > c.low)", "(low < c.high) & (high - 4 > c.low)"),
    ("intersect", "bits |= c.nbytes", "bits |= 0"),
    ("intersect", "(thread_i == thread_j) & (((kind_i | kind_j) & (ASYNC | ATOMIC)) == 0)", "thread_i == thread_j"),
    ("intersect", "((kind_i & kind_j & ATOMIC) != 0) & in_scope & same_shape", "((kind_i & kind_j & ATOMIC) != 0) & same_shape"),
    (
        "intersect",
        "((kind_i & kind_j & ATOMIC) != 0) & in_scope & same_shape",
        "((kind_i & kind_j & ATOMIC) != 0) & in_scope",
    ),
    ("clocks", "known += self._arrivals.pop((members[0] // self._n, event.barrier_id), [])", "pass"),
    ("clocks", "if event.order.acquires:", "if True:"),
    ("clocks", "own = self._snapshot(thread, event.seq) if event.order.releases else None", "own = self._snapshot(thread, event.seq)"),
    ("clocks", "for wide_access, narrow, wide in state.pending:", "for wide_access, narrow, wide in []:"),
    ("clocks", "state.narrow = self._snapshot(thread, event.seq)", "state.narrow = None"),
    ("clocks", "self._with_own(self._at(thread, issued), [thread], issued)", "{}"),
    (
        "phases",
        "self._clocks.join([state.held, self._clocks.execution(clock), *agents])",
        "self._clocks.join([state.held, clock, *agents])",
    ),
    ("phases", "self._clocks.join([state.held, self._clocks.execution(clock), *agents])", "self._clocks.join([state.held, *agents])"),
    ("phases", "after = self._clocks.join([clock, gained])", "after = gained"),
    ("phases", "after = self._clocks.join([clock, gained])", "after = clock"),
    ("phases", "after.prompt = state.phase + 1, state.held, state.counted", "after.prompt = state.phase + 1, {}, state.counted"),
    ("phases", "state.held = self._clocks.join([state.held, clock])", "state.held = clock"),
    ("phases", "if state.first[thread - cta * self._n] == NEVER and", "if False and"),
    ("phases", "if state.first[thread - cta * self._n] == NEVER and", "if True and"),
    ("phases", "bool((row[2 * self._n :] > state.first).any())", "False"),
    ("phases", "bool((row[2 * self._n :] > state.first).any())", "bool((row[: self._n] > state.first).any())"),
    ("phases", "(row[2 * self._n :] <= state.last)", "(row[2 * self._n :] <= -1)"),
    ("phases", "(row[2 * self._n :] <= state.last)", "(row[: self._n] <= state.last)"),
    ("phases", "(row[2 * self._n :] <= state.last)", "(row[2 * self._n :] <= state.first)"),
    ("clocks", "row[tid] > rows.released[first]", "row[tid] > rows.seq[first]"),
    ("clocks", "(copy & (row[self._n + tid] > rows.seq[first]))", "(copy & False)"),
    ("barrier_uses", "bool((known[use.released] >= use.seq).any())", "True"),
    ("barrier_uses", "bool((known[use.released] >= use.seq).any())", "False"),
    ("barrier_uses", "all(known is not None and known[other] > when for", "all(True for"),
    ("barrier_uses", "all(known is not None and known[other] > when for", "all(False for"),
    ("barrier_uses", "all(known is not None", "any(known is not None"),
    ("checker", "self._events.append(Exchange(self._tick(), self._batch, threads, self._batch.warp(threads)))", "pass"),
    ("checker", "full = counts == self._live[slots]", "full = counts > 0"),
    ("checker", "if late.any() or not full.all():", "if False:"),
    ("checker", "self._beyond_barriers |= not bool(full.all())", "pass"),
    ("checker", "full = counts == np.minimum(self._warp_size, self._n - first)", "full = counts > 0"),
    ("checker", "self._access(Space.GLOBAL, READ | ASYNC, instruction", "self._access(Space.GLOBAL, READ, instruction"),
    ("report", "out[some] = how", "out[some] = 1"),
    ("report", "out[some] = how", "out[some] = 0"),
]


def module_of(name: str) -> ModuleType:
    return importlib.import_module(f"ptx_engine.order.{name}")


def functions(namespace: dict[str, object], module: str) -> Iterator[tuple[str, FunctionType]]:
    """The functions and methods defined in a module, by qualified name."""
    for value in namespace.values():
        members = [value, *vars(value).values()] if inspect.isclass(value) else [value]
        for member in members:
            member = member.fget if isinstance(member, property) else member
            if isinstance(member, FunctionType) and member.__module__ == module:
                yield member.__qualname__, member


@contextmanager
def mutated(name: str, old: str, new: str) -> Iterator[None]:
    """The module with one piece of its text replaced, in place: the code objects are exchanged."""
    module = module_of(name)
    source = inspect.getsource(module)
    assert source.count(old) == 1, f"the mutant's text stands {source.count(old)} times in {name}"
    space: dict[str, object] = {"__name__": module.__name__}
    exec(compile(source.replace(old, new), str(module.__file__), "exec", dont_inherit=True), space)
    broken = dict(functions(space, module.__name__))
    originals = [(f, f.__code__) for key, f in functions(vars(module), module.__name__) if broken[key].__code__ != f.__code__]
    for f, _ in originals:
        f.__code__ = broken[f.__qualname__].__code__
    try:
        yield
    finally:
        for f, code in originals:
            f.__code__ = code


@pytest.fixture(scope="module")
def judged() -> list[tuple[Program, Answer]]:
    """A fixed set of programs with the explorer's answers."""
    found = [(program, explore(program)) for program, _ in CASES.values() for _ in range(5)]

    @settings(
        max_examples=250, derandomize=True, database=None, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )
    @given(programs())
    def collect(program: Program) -> None:
        try:
            answer = explore(program, 1500)
        except TooBig:
            return
        found.append((program, answer))

    collect()
    return found


def disagrees(judged: list[tuple[Program, Answer]]) -> bool:
    for number, (program, answer) in enumerate(judged):
        try:
            found = check(program, number)
            if misused(found) != answer.broken or (not answer.broken and pairs(found) != answer.pairs):
                return True
        except Stuck:
            continue
        except (IndexError, ValueError, TypeError, KeyError):
            return True
    return False


def test_the_unbroken_checker_agrees(judged: list[tuple[Program, Answer]]) -> None:
    assert len(judged) > 300
    differs = disagrees(judged)
    assert not differs


@pytest.mark.parametrize(("module", "old", "new"), MUTANTS, ids=[f"{i}-{m[0]}" for i, m in enumerate(MUTANTS)])
def test_a_broken_rule_is_seen(judged: list[tuple[Program, Answer]], module: str, old: str, new: str) -> None:
    with mutated(module, old, new):
        seen = disagrees(judged)
    assert seen, "no program needs this rule"
