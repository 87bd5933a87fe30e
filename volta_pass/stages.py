"""The stages of one validation, each timed: bind, parse, execute, evaluate a reference, decide.

The engine and the references are imported when a stage runs, so that importing this module costs nothing.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ptx_engine.errors import LaunchError, PtxError
from ptx_engine.findings import Finding
from ptx_engine.launch import BoundLaunch, Footprint, Launch, Role, TensorArg, bind
from ptx_engine.terms.arena import Arena
from ptx_engine.terms.storage import Ledger
from ptx_engine.verdict import Verdict
from ptx_engine.watching import Step, tell
from volta_pass.cta_sample import choose_ctas
from volta_pass.job import FunctionReference, Options, PtxReference, Reference, TtirReference

if TYPE_CHECKING:
    from ptx_engine.machine import Execution
    from ptx_engine.syntax.ast import Module
    from volta_pass.references.freedoms import Freedoms


#: stages as people are told of them
_TOLD = {
    "parse": "parsing", "execute": "executing", "source": "evaluating the source", "reference": "evaluating the reference",
    "decide": "comparing",
}  # fmt: skip


@dataclass
class Evaluated:
    """A reference's outputs, and what its own evaluation found (accesses out of bounds, ...)."""

    footprints: dict[str, Footprint]
    findings: list[Finding] = field(default_factory=list)
    #: what the tile program leaves open, where that is followed
    freedoms: "Freedoms | None" = None
    #: all programs ran although the launch samples CTAs: they run in another order than the candidate's
    whole: bool = False
    #: why it does not stand for all schedules, and what it leans on (a reference in PTX)
    dependent: list[str] = field(default_factory=list)
    assumptions: list[str] = field(default_factory=list)
    #: its terms were stored: nothing is known of their places in the source
    recalled: bool = False


class KnownReferences(Protocol):
    """References that were evaluated before (``store.references``)."""

    def recall(self, reference: TtirReference | PtxReference, stages: Stages) -> Evaluated | None: ...

    def keep(self, reference: TtirReference | PtxReference, stages: Stages, evaluated: Evaluated, noted: Ledger) -> None: ...

    def evidence(
        self, stages: Stages, own: Evaluated | None, noted: Ledger, candidate: Mapping[str, Footprint], reference: Reference | None
    ) -> dict[str, bytes]: ...


#: stages that emit a side's terms
_SIDES = frozenset({"execute", "source", "reference"})


class Stages:
    """One comparison's arena and bound launch, and the seconds each stage took."""

    def __init__(
        self, launch: Launch, options: Options, max_ctas: int | None = None, library: Mapping[str, str] | None = None,
        known: KnownReferences | None = None,
    ) -> None:  # fmt: skip
        """``library``: PTX of functions that the compiler approximates (``ValidationJob.library``)."""
        self.options = options
        self.known = known
        self.library = library
        self.max_ctas = max_ctas
        #: floats that tile programs convert to narrow integers are taken to fit
        self.fitting = False
        #: whether CTA batches ran in several processes: then terms have no places in the PTX
        self.split = False
        self.seconds: dict[str, float] = {}
        self.started_s = time.perf_counter()
        self.arena = Arena()
        self.launch = replace(launch, ctas=choose_ctas(launch.grid, max_ctas, options.seed))
        self.bound: BoundLaunch = bind(self.launch, self.arena)

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Add the seconds spent inside to a stage's."""
        start = time.perf_counter()
        tell(Step(_TOLD.get(stage, stage)))
        if stage in _SIDES:
            self.arena.begin_side()
        try:
            yield
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - start

    def seconds_left(self) -> float | None:
        """What remains of the budget, never less than a tick; None without a limit."""
        if self.options.seconds is None:
            return None
        return max(1e-3, self.options.seconds - (time.perf_counter() - self.started_s))

    def candidate(self, ptx: str, entry: str) -> Execution:
        """Parse and execute the PTX. Raises PtxError, and NotSeparableError with more than one worker."""
        from ptx_engine.syntax import parse

        with self.timed("parse"):
            module = parse(ptx)
        if self.library is not None and not self.arena.patterns:
            from volta_pass.references.library_patterns import patterns_of

            self.arena.patterns = patterns_of(self.library)
            self.arena.words_of_floats = True
        with self.timed("execute"):
            return self._execute(module, entry, self.bound, ptx)

    def _execute(self, module: Module, entry: str, bound: BoundLaunch, source: str) -> Execution:
        from ptx_engine.machine import Budget, execute

        seconds = self.seconds_left()
        budget = Budget() if seconds is None else Budget(seconds=seconds)
        if self.options.workers == 1 or self.arena.patterns:  # (other processes have arenas without them)
            return execute(module, entry or None, bound, budget=budget, source=source)
        from volta_pass.parallel.batches import execute_in_parts

        execution, split = execute_in_parts(module, entry or None, bound, self.options.workers, budget=budget, source=source)
        self.split |= split
        return execution

    def source(self, text: str, launch: Launch | None = None, stage: str = "source", language: str = "ttir") -> Evaluated:
        """Evaluate a tile program, under another grid and argument order where ``launch`` is given. Raises PtxError."""
        with self.timed(stage):
            bound = self.bound if launch is None else self.rebound(launch)
            return (self._tile if language == "tile" else self._ttir)(text, bound)

    def _ttir(self, text: str, bound: BoundLaunch) -> Evaluated:
        """TTIR in generic form: its arguments are the launch's first ones; scratch pointers come after them."""
        from volta_pass.references.budget import Budget
        from volta_pass.references.freedoms import Freedoms
        from volta_pass.references.library import Library
        from volta_pass.references.ttir import evaluate, load_ttir

        library = Library(self.library) if self.library is not None else None
        program = load_ttir(text)
        names = [arg.name for arg in bound.launch.args[: len(program.parameters)]]
        findings: list[Finding] = []
        budget = Budget(self.seconds_left())
        freedoms = Freedoms(self.fitting)
        written = evaluate(program, bound, names, budget=budget, findings=findings, library=library, freedoms=freedoms)
        return Evaluated(written, findings, freedoms)

    def _tile(self, text: str, bound: BoundLaunch) -> Evaluated:
        """A TileLang kernel's tile program: its arguments are found by name."""
        from volta_pass.references.freedoms import Freedoms
        from volta_pass.references.library import Library, using
        from volta_pass.references.tile import Budget, evaluate, load_program

        findings: list[Finding] = []
        freedoms = Freedoms(self.fitting)
        program = load_program(text)
        with using(Library(self.library) if self.library is not None else None):
            budget = Budget(self.seconds_left())
            footprints = evaluate(program, bound, budget=budget, findings=findings, freedoms=freedoms)
        return Evaluated(footprints, findings, freedoms, program.swizzled and bound.launch.ctas is not None)

    def rebound(self, launch: Launch) -> BoundLaunch:
        """The same buffers and inputs under another configuration's grid and block."""
        ctas = choose_ctas(launch.grid, self.max_ctas, self.options.seed)
        return replace(self.bound, launch=replace(launch, ctas=ctas))

    def function(self, reference: FunctionReference, constants: Mapping[str, Any]) -> Evaluated:
        """Call a Python function on symbolic tensors; compile-time constants that it asks for are passed as they are.

        Raises PtxError; an exception of the function itself becomes a LaunchError naming it.
        """
        from volta_pass.references.tensor_reference import tensor_reference

        launched = {arg.name for arg in self.launch.args}
        inputs = {parameter: name for parameter, name in reference.parameters.items() if name in launched}
        fixed = {parameter: constants[name] for parameter, name in reference.parameters.items() if name not in launched}
        with self.timed("reference"):
            try:
                footprints = tensor_reference(partial(reference.fn, **fixed), self.bound, inputs, reference.outputs)
            except PtxError:
                raise
            except Exception as error:
                place = traceback.extract_tb(error.__traceback__)[-1]
                raise LaunchError(
                    f"{reference.label} raised {type(error).__name__}: {error}",
                    user_loc=f"{place.filename}:{place.lineno}:1",
                    hint="it gets symbolic tensors: NumPy-style operators and functions, no data",
                ) from error
        return Evaluated(footprints)

    def ptx(self, reference: PtxReference) -> Evaluated:
        """Execute another PTX over the same inputs, under its own grid and block. Raises PtxError."""
        from ptx_engine.syntax import parse

        with self.timed("reference"):
            execution = self._execute(parse(reference.text), reference.entry, self.rebound(reference.launch), reference.text)
        return Evaluated(
            execution.footprints, execution.findings, dependent=execution.schedule_dependent, assumptions=execution.assumptions
        )

    def reference(self, reference: Reference, constants: Mapping[str, Any], *, anew: bool = False) -> Evaluated:
        """Evaluate a cached reference of any kind, or recall its terms (not ``anew``, nor under ``fitting``). Raises PtxError."""
        if isinstance(reference, FunctionReference):
            return self.function(reference, constants)
        if self.known is None or anew or self.fitting:
            return self._evaluated(reference)
        found = self.known.recall(reference, self)
        if found is None:
            with self.arena.ledger() as noted:
                found = self._evaluated(reference)
            self.known.keep(reference, self, found, noted)
        return found

    def _evaluated(self, reference: TtirReference | PtxReference) -> Evaluated:
        if isinstance(reference, TtirReference):
            return self.source(reference.text, reference.launch, "reference", reference.language)
        return self.ptx(reference)

    def decide(self, reference: Mapping[str, Footprint], candidate: Mapping[str, Footprint]) -> Verdict:
        """Compare two sides' outputs; auxiliary tensors (Triton's scratch) are left out. Raises PtxError."""
        from ptx_engine.decide import Budget, Mode, decide

        seconds = self.seconds_left()
        budget = Budget(seed=self.options.seed) if seconds is None else Budget(seconds=seconds, seed=self.options.seed)
        auxiliary = [arg.name for arg in self.launch.args if isinstance(arg, TensorArg) and arg.role is Role.AUX]
        with self.timed("decide"):
            return decide(
                self.arena,
                dict(reference),
                dict(candidate),
                launch=self.bound,
                auxiliary=auxiliary,
                budget=budget,
                mode=Mode(self.options.decide),
            )


def restrict(reference: Mapping[str, Footprint], candidate: Mapping[str, Footprint]) -> tuple[dict[str, Footprint], dict[str, Footprint]]:
    """Both sides cut down to the elements that both wrote: what can be compared where CTAs were sampled."""
    left, right = {}, {}
    for name in sorted(reference.keys() & candidate.keys()):
        _, at_left, at_right = np.intersect1d(reference[name].index, candidate[name].index, return_indices=True)
        if len(at_left):
            left[name] = Footprint(reference[name].index[at_left], reference[name].ids[at_left])
            right[name] = Footprint(candidate[name].index[at_right], candidate[name].ids[at_right])
    return left, right
