"""The registry of TTIR operations and the decoder: MLIR is walked once, each operation becomes a closure over registers.

One decorated handler per operation (or per row of a family table) says all there is to say about it. An operation without
a handler is an UnsupportedError naming it and the user's line; one that is refused on purpose says why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ptx_engine.errors import InternalError, PtxError, UnsupportedError
from volta_pass.references.mlir_binding import SourceLine, user_line
from volta_pass.references.ttir_frame import Frame
from volta_pass.references.ttir_types import TtirType, parse_type

Run = Callable[[Frame], None]


@dataclass(frozen=True, slots=True, eq=False)
class TtirOrigin:
    """Who emitted a term: a TTIR operation, and the user's place "file.py:12:3" ("" where unknown)."""

    op_name: str
    user_loc: str

    def __str__(self) -> str:
        return f"{self.op_name} at {self.user_loc}" if self.user_loc else self.op_name


@dataclass(frozen=True, slots=True)
class Step:
    """One decoded operation."""

    run: Run
    origin: TtirOrigin


@dataclass(frozen=True, slots=True)
class Terminator:
    """How a block ends: ``kind`` is the operation's name; successors are (block number, argument registers)."""

    kind: str
    operands: tuple[int, ...]
    types: tuple[TtirType, ...]
    successors: tuple[tuple[int, tuple[int, ...]], ...]
    origin: TtirOrigin


@dataclass(slots=True)
class Block:
    """Registers of the arguments, the steps, and the end."""

    args: tuple[int, ...]
    arg_types: tuple[TtirType, ...]
    steps: list[Step]
    end: Terminator


@dataclass(slots=True)
class Region:
    """Blocks of a region and the registers of the enclosing code that it reads."""

    blocks: list[Block]
    captures: tuple[int, ...]

    @property
    def block(self) -> Block:
        return self.blocks[0]


@dataclass(slots=True)
class Function:
    """A decoded tt.func: ``registers`` counts its SSA values, ``max_lanes`` is the size of its widest tensor."""

    name: str
    arg_names: tuple[str, ...]
    arg_types: tuple[TtirType, ...]
    body: Region = field(default_factory=lambda: Region([], ()))
    registers: int = 0
    max_lanes: int = 1


@dataclass(slots=True)
class OpInfo:
    """An operation as its handler sees it: register numbers, types, attributes by name, decoded regions."""

    name: str
    operands: tuple[int, ...]
    operand_types: tuple[TtirType, ...]
    results: tuple[int, ...]
    result_types: tuple[TtirType, ...]
    origin: TtirOrigin
    regions: tuple[Region, ...]
    decoder: "Decoder"
    _operation: Any

    @property
    def result(self) -> int:
        return self.results[0]

    @property
    def raw_results(self) -> Any:
        """The MLIR results, for questions about their uses."""
        return self._operation.results

    def region_reads(self, region: int) -> list[int]:
        """Registers that the first operation of a region's block reads, sorted."""
        first = self._operation.regions[region].blocks[0].operations[0].operation
        return sorted(self.decoder.register(value) for value in first.operands)

    @property
    def kind(self) -> TtirType:
        """The type of the first result."""
        return self.result_types[0]

    def attribute(self, name: str) -> Any:
        """An attribute by name, or None."""
        attributes = self._operation.attributes
        if name not in attributes:
            return None
        return attributes[name]

    def integer(self, name: str, default: int | None = None) -> int:
        """An integer attribute. Raises UnsupportedError where it is absent and has no default."""
        found = self.attribute(name)
        if found is None:
            if default is None:
                raise self.unsupported(f"attribute {name} is missing")
            return default
        return int(found.value)

    def boolean(self, name: str) -> bool:
        """A boolean or unit attribute; absent means false."""
        found = self.attribute(name)
        return found is not None and bool(getattr(found, "value", True))

    def unsupported(self, why: str) -> UnsupportedError:
        """The error for a form of this operation that has no semantics here."""
        return UnsupportedError(f"{self.name}: {why}", feature=self.name, user_loc=self.origin.user_loc)


Handler = Callable[[OpInfo], Run]

_HANDLERS: dict[str, Handler] = {}
_REFUSED: dict[str, str] = {}
TERMINATORS = frozenset(
    {"scf.yield", "scf.condition", "tt.return", "tt.reduce.return", "tt.scan.return", "tt.map_elementwise.return", "cf.br", "cf.cond_br"}
)


def operation(*names: str) -> Callable[[Handler], Handler]:
    """Register the one handler of an operation (or of several that mean the same here)."""

    def register(handler: Handler) -> Handler:
        for name in names:
            if name in _HANDLERS or name in _REFUSED:
                raise InternalError(f"two handlers for {name}")
            _HANDLERS[name] = handler
        return handler

    return register


def refuse(name: str, why: str) -> None:
    """Declare an operation that is known and refused, with the reason the user reads."""
    if name in _HANDLERS or name in _REFUSED:
        raise InternalError(f"two handlers for {name}")
    _REFUSED[name] = why


def supported_operations() -> tuple[str, ...]:
    """Names of all operations with a meaning, sorted."""
    return tuple(sorted(_HANDLERS.keys() | TERMINATORS))


def refused_operations() -> dict[str, str]:
    """Operations refused on purpose, with the reason."""
    return dict(sorted(_REFUSED.items()))


class Decoder:
    """Turns one tt.func into a ``Function``. ``resolve`` gives the decoded function of a callee's name."""

    def __init__(self, resolve: Callable[[str], Function]) -> None:
        self.resolve = resolve
        self.max_lanes = 1
        self._registers: dict[Any, int] = {}
        self._kinds: dict[Any, TtirType] = {}

    def register(self, value: Any) -> int:
        """The register of an SSA value."""
        return self._registers.setdefault(value, len(self._registers))

    def decode(self, func: Any, function: Function) -> None:
        """Fill in ``function`` from the MLIR operation."""
        function.body, _ = self._region(func.regions[0])
        function.registers = len(self._registers)
        function.max_lanes = self.max_lanes

    def _types(self, values: Sequence[Any]) -> tuple[TtirType, ...]:
        return tuple(self._type(value.type) for value in values)

    def _type(self, raw: Any) -> TtirType:
        """The type behind an MLIR type; kept per MLIR type, since printing one costs more than looking it up."""
        kind = self._kinds.get(raw)
        if kind is None:
            kind = self._kinds[raw] = parse_type(str(raw))
            self.max_lanes = max(self.max_lanes, kind.lanes)
        return kind

    def _region(self, region: Any) -> tuple[Region, set[int]]:
        """The region and the registers it reads from outside."""
        raw = list(region.blocks)
        headers = [(tuple(self.register(a) for a in block.arguments), self._types(block.arguments)) for block in raw]
        numbers = {block: i for i, block in enumerate(raw)} if len(raw) > 1 else {}
        defined = {r for args, _ in headers for r in args}
        used: set[int] = set()
        blocks = [self._block(block, *header, numbers, defined, used) for block, header in zip(raw, headers)]
        captured = used - defined
        return Region(blocks, tuple(sorted(captured))), captured

    def _block(
        self, block: Any, args: tuple[int, ...], types: tuple[TtirType, ...], numbers: dict[Any, int], defined: set[int], used: set[int]
    ) -> Block:
        steps: list[Step] = []
        end = Terminator("", (), (), (), TtirOrigin("", ""))
        for view in block.operations:
            op = view.operation
            if op.name in TERMINATORS:
                end = self._terminator(op, numbers)
                used.update(end.operands, *(regs for _, regs in end.successors))
                continue
            info, reads = self._info(op)
            used.update(reads)
            defined.update(info.results)
            steps.append(Step(_decoded(info), info.origin))
        return Block(args, types, steps, end)

    def _info(self, op: Any) -> tuple[OpInfo, set[int]]:
        place = _origin(op)
        if op.name not in _HANDLERS:
            raise _unknown(op.name, place)
        try:
            operand_values, result_values = list(op.operands), list(op.results)
            operands = tuple(self.register(v) for v in operand_values)
            kinds = self._types(operand_values), self._types(result_values)
            decoded = [self._region(region) for region in op.regions]
        except PtxError as error:
            error.user_loc = error.user_loc or place.user_loc
            raise
        results = tuple(self.register(v) for v in result_values)
        regions = tuple(region for region, _ in decoded)
        info = OpInfo(op.name, operands, kinds[0], results, kinds[1], place, regions, self, op)
        return info, set(operands).union(*(reads for _, reads in decoded))

    def _terminator(self, op: Any, numbers: dict[Any, int]) -> Terminator:
        operands = [self.register(v) for v in op.operands]
        targets = [numbers[block] for block in op.successors] if len(op.successors) else []
        if op.name == "cf.br":
            successors: tuple[tuple[int, tuple[int, ...]], ...] = ((targets[0], tuple(operands)),)
            operands = []
        elif op.name == "cf.cond_br":
            sizes = list(op.attributes["operandSegmentSizes"])
            middle = 1 + int(sizes[1])
            successors = ((targets[0], tuple(operands[1:middle])), (targets[1], tuple(operands[middle:])))
            operands = operands[:1]
        else:
            successors = ()
        types = self._types(list(op.operands)[: len(operands)])
        return Terminator(op.name, tuple(operands), types, successors, _origin(op))


def _decoded(info: OpInfo) -> Run:
    try:
        return _HANDLERS[info.name](info)
    except PtxError as error:
        error.user_loc = error.user_loc or info.origin.user_loc
        raise


def _origin(op: Any) -> TtirOrigin:
    line: SourceLine | None = user_line(op.location)
    return TtirOrigin(op.name, str(line) if line is not None else "")


def _unknown(name: str, place: TtirOrigin) -> UnsupportedError:
    why = _REFUSED.get(name, "this operation has no semantics here")
    return UnsupportedError(f"{name}: {why}", feature=name, user_loc=place.user_loc)
