"""Which pointer parameters a TTIR kernel loads and stores through, and where: a flow-insensitive def-use walk.

It over-approximates: a value derived from two pointers counts as both, and where a pointer is made from an integer
every parameter counts as loaded and stored. Roles of launch arguments and lines for blame are read off it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from ptx_engine.launch import Role
from volta_pass.references.mlir_binding import name_of, parse_module, user_line

LOADS = frozenset({"tt.load", "tt.descriptor_load", "tt.descriptor_gather"})
STORES = frozenset({"tt.store", "tt.descriptor_store", "tt.descriptor_scatter"})
#: operations that read and write through their first operand
ATOMICS = frozenset({"tt.atomic_rmw", "tt.atomic_cas", "tt.descriptor_reduce"})
#: operations whose results carry no pointer, whatever goes in
OPAQUE = frozenset({"tt.ptr_to_int", "tt.elementwise_inline_asm", "tt.extern_elementwise"})


@dataclass(frozen=True)
class AccessSite:
    """A load or store in the source: "file.py:12:3" (or ""), whether it has a mask."""

    operation: str
    user_loc: str
    masked: bool


@dataclass
class ParameterUse:
    """One parameter of the kernel; ``escapes`` means that its address left the walk's sight."""

    name: str
    type: str
    loads: list[AccessSite] = field(default_factory=list)
    stores: list[AccessSite] = field(default_factory=list)
    escapes: bool = False

    @property
    def is_pointer(self) -> bool:
        return "!tt.ptr" in self.type or "!tt.tensordesc" in self.type

    @property
    def role(self) -> Role:
        """IN if never stored to, OUT if stored and never loaded, else INOUT."""
        if self.escapes:
            return Role.INOUT
        if not self.stores:
            return Role.IN
        return Role.INOUT if self.loads else Role.OUT


def parameter_uses(generic_text: str) -> list[ParameterUse]:
    """The public kernel's parameters in order, with their accesses.

    Raises ParseError on text that is not MLIR in generic form, UnsupportedError without an MLIR binding.
    """
    module = parse_module(generic_text)
    functions = [op for op in module.body.operations if op.operation.name == "tt.func"]
    kernels = [f for f in functions if "private" not in str(_attribute(f, "sym_visibility"))]
    if not kernels:
        return []
    kernel = kernels[0]
    block = kernel.operation.regions[0].blocks[0]
    uses = [ParameterUse(name_of(_location(arg)) or f"arg{i}", str(arg.type)) for i, arg in enumerate(block.arguments)]
    walk = _Walk(functions)
    for i, arg in enumerate(block.arguments):
        walk.roots[arg] = {i}
    walk.settle()
    walk.collect(uses)
    return uses


def _attribute(op: Any, name: str) -> Any:
    attributes = op.operation.attributes
    return attributes[name] if name in attributes else ""  # noqa: SIM401 - older bindings' maps have no get


def _location(value: Any) -> Any:
    try:
        return value.location
    except AttributeError:  # older bindings: block arguments carry no location
        return None


def _is_address(value: Any) -> bool:
    text = str(value.type)
    return "!tt.ptr" in text or "!tt.tensordesc" in text


class _Walk:
    """Sets of parameter numbers per SSA value, grown to a fixpoint over all functions of the module."""

    def __init__(self, functions: list[Any]) -> None:
        self.roots: dict[Any, set[int]] = defaultdict(set)
        self.operations: list[Any] = []
        self.blocks: dict[str, list[Any]] = {}
        self.escaped: set[int] = set()
        self.unknown = False
        for function in functions:
            self.blocks[str(_attribute(function, "sym_name")).strip('"')] = list(function.operation.regions[0].blocks[0].arguments)
            self._gather(function.operation)

    def _gather(self, top: Any) -> None:
        stack = [top]
        while stack:
            op = stack.pop()
            for region in op.regions:
                for block in region.blocks:
                    for child in block.operations:
                        self.operations.append(child.operation)
                        stack.append(child.operation)

    def settle(self) -> None:
        """Propagate until nothing grows."""
        changed = True
        while changed:
            before = sum(len(found) for found in self.roots.values())
            for op in self.operations:
                self._propagate(op)
            changed = sum(len(found) for found in self.roots.values()) != before

    def _propagate(self, op: Any) -> None:
        carried = [(value, self.roots[value]) for value in op.operands if _is_address(value) and self.roots[value]]
        if op.name == "tt.int_to_ptr":
            self.unknown = True
        if not carried:
            return
        if op.name in OPAQUE:
            self.escaped.update(*(found for _, found in carried))
            return
        if op.name == "tt.call":
            callee = str(op.attributes["callee"]).lstrip("@")
            self._positional([(i, v) for i, v in enumerate(op.operands)], self.blocks.get(callee, []))
        union: set[int] = set().union(*(found for _, found in carried))
        if op.name == "scf.for":
            self._positional([(i - 2, v) for i, v in enumerate(op.operands) if i >= 3], list(op.regions[0].blocks[0].arguments))
            self._positional([(i - 3, v) for i, v in enumerate(op.operands) if i >= 3], list(op.results))
        elif op.name == "scf.yield" and op.parent.name in ("scf.for", "scf.if"):
            self._yield(op)
        elif op.name in ("scf.yield", "scf.condition", "scf.while"):
            self._into_loop(op.parent if op.name != "scf.while" else op, union)
        else:
            for result in op.results:
                self._grow(result, union)

    def _positional(self, values: list[tuple[int, Any]], targets: list[Any]) -> None:
        for i, value in values:
            if i < len(targets):
                self._grow(targets[i], self.roots[value])

    def _yield(self, op: Any) -> None:
        values = list(enumerate(op.operands))
        self._positional(values, list(op.parent.results))
        if op.parent.name == "scf.for":
            arguments = op.parent.operation.regions[0].blocks[0].arguments
            self._positional([(i + 1, value) for i, value in values], list(arguments))

    def _into_loop(self, loop: Any, union: set[int]) -> None:
        for result in loop.results:
            self._grow(result, union)
        for region in loop.operation.regions:
            for argument in region.blocks[0].arguments:
                self._grow(argument, union)

    def _grow(self, value: Any, found: set[int]) -> None:
        if found and _is_address(value):
            self.roots[value] |= found

    def collect(self, uses: list[ParameterUse]) -> None:
        """Write accesses and escapes into the parameters' entries."""
        for op in self.operations:
            if op.name not in LOADS | STORES | ATOMICS:
                continue
            numbers = self.roots[op.operands[0]]
            address_count = 1 if op.name in LOADS else 2
            site = AccessSite(op.name, str(user_line(op.location) or ""), len(op.operands) > address_count)
            for number in numbers:
                if op.name not in STORES:
                    uses[number].loads.append(site)
                if op.name not in LOADS:
                    uses[number].stores.append(site)
        for number, use in enumerate(uses):
            use.escapes = use.is_pointer and (self.unknown or number in self.escaped)
