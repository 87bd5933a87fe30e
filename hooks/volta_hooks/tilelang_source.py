"""A TileLang PrimFunc, as it is before the first pass, as the text of tile programs: one for each kernel that it launches.

Everything that the program says is kept; what has no meaning there (thread bindings, extern calls, raw PTX) stays as an
operation of that name, which the evaluator refuses with its line. Hints (layouts, swizzles, pipelines) change no meaning.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import tilelang
from tvm import tirx

from ptx_engine.errors import UnsupportedError
from volta_pass.references.tile_program import FORMAT

_BINARY = {
    "Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div", "Mod": "mod", "FloorDiv": "floordiv", "FloorMod": "floormod", "Max": "max",
    "Min": "min", "EQ": "eq", "NE": "ne", "LT": "lt", "LE": "le", "GT": "gt", "GE": "ge", "And": "and", "Or": "or",
}  # fmt: skip
_KINDS = {0: "serial", 1: "parallel", 2: "vectorized", 3: "unrolled"}
_THREAD_BINDING = 4

#: attributes and block annotations that change no meaning
_HINTS = frozenset({
    "tl.launch_threads", "layout_map", "l2_hit_ratio_map", "tl.non_restrict_params", "tl.min_blocks_per_sm", "tl.ws_op_id",
    "pragma_unroll_explicit", "pragma_auto_unroll_max_step", "use_async_copy", "pragma_import_c",
})  # fmt: skip
_SWIZZLE = "threadblock_swizzle_pattern"


def tile_programs(func: tirx.PrimFunc) -> list[str]:
    """The texts of the kernels of a function, in launch order. Raises UnsupportedError where it launches none."""
    kernels = list(_kernels(func.body))
    if not kernels:
        raise UnsupportedError(f"{_name(func)} launches no kernel on blocks of threads", feature="T.Kernel")
    return [json.dumps(_Kernel(func, kernel).row()) for kernel in kernels]


def user_place(stmt: Any) -> str:
    """A statement's place "file.py:12:3", or ""."""
    span = tilelang.ir.get_stmt_span(stmt)
    if span is None or span.source_name is None:
        return ""
    return f"{span.source_name.name}:{int(span.line)}:{max(1, int(span.column))}"


def _name(func: tirx.PrimFunc) -> str:
    return str(func.attrs.get("global_symbol", "kernel")) if func.attrs else "kernel"


def _kernels(stmt: Any) -> list[Any]:
    """Outermost loops over blocks, in order."""
    kind = type(stmt).__name__
    if kind == "SBlockRealize":
        return _kernels(stmt.block.body)
    if kind == "SeqStmt":
        return [kernel for part in stmt.seq for kernel in _kernels(part)]
    if kind in ("AttrStmt", "SBlock"):
        return _kernels(stmt.body)
    if kind == "For" and int(stmt.kind) == _THREAD_BINDING:
        return [stmt]
    raise UnsupportedError(f"{kind} outside of a kernel", feature=kind, user_loc=user_place(stmt))


class _Kernel:
    """One kernel being written: numbers of buffers, storages and variables in order of appearance."""

    def __init__(self, func: tirx.PrimFunc, loop: Any) -> None:
        self.func = func
        self.buffers: dict[Any, int] = {}
        self.storages: dict[Any, int] = {}
        self.variables: dict[Any, int] = {}
        self.params = {func.buffer_map[p].data: func.buffer_map[p].name for p in func.params if p in func.buffer_map}
        self.threads = [-1, -1, -1]
        self.launch_threads = [1, 1, 1]
        self.swizzled = False
        self.loop = loop

    def row(self) -> dict[str, Any]:
        blocks, grid, inner = [-1, -1, -1], [self.const(1)] * 3, self.loop
        while type(inner).__name__ == "For" and int(inner.kind) == _THREAD_BINDING:
            tag = str(inner.thread_binding.thread_tag)
            if not tag.startswith("blockIdx."):
                break
            axis = "xyz".index(tag[-1])
            blocks[axis], grid[axis] = self.variable(inner.loop_var), self.expr(inner.extent)
            inner = inner.body
        body = self.block(inner)
        scalars = {self.variable(p): str(p.name) for p in self.func.params if p not in self.func.buffer_map}
        sizes = self._sizes()
        return {
            "format": FORMAT,
            "name": _name(self.func),
            "buffers": [self._buffer(buffer) for buffer in list(self.buffers)],
            "scalars": scalars,
            "sizes": sizes,
            "grid": grid,
            "blocks": blocks,
            "threads": self.threads,
            "block_threads": self.launch_threads[0] * self.launch_threads[1] * self.launch_threads[2],
            "body": body,
            "swizzled": self.swizzled,
        }

    def _sizes(self) -> dict[int, tuple[str, int]]:
        found: dict[int, tuple[str, int]] = {}
        given = [self.func.buffer_map[p] for p in self.func.params if p in self.func.buffer_map]
        for buffer in sorted(given, key=lambda each: each.data not in self.storages):  # those that this kernel takes first
            for dim, extent in enumerate((*buffer.shape, *buffer.strides)):
                if isinstance(extent, tirx.Var) and extent not in set(self.func.params):
                    found.setdefault(self.variable(extent), (str(buffer.name), dim))
        return found

    def _buffer(self, buffer: Any) -> dict[str, Any]:
        return {
            "name": str(buffer.name),
            "dtype": str(buffer.dtype),
            "shape": [self.expr(extent) for extent in buffer.shape],
            "strides": [self.expr(stride) for stride in buffer.strides],
            "scope": str(buffer.scope()),
            "storage": self.storages.setdefault(buffer.data, len(self.storages)),
            "param": str(self.params.get(buffer.data, "")),
        }

    def variable(self, var: Any) -> int:
        return self.variables.setdefault(var, len(self.variables))

    def buffer(self, buffer: Any) -> int:
        if buffer not in self.buffers:
            offset = buffer.elem_offset
            if offset is not None and not (isinstance(offset, tirx.IntImm) and int(offset) == 0):
                raise UnsupportedError(f"buffer {buffer.name} starts inside of another", feature="elem_offset")
            self.storages.setdefault(buffer.data, len(self.storages))
        return self.buffers.setdefault(buffer, len(self.buffers))

    # --- expressions ----------------------------------------------------------------------------

    @staticmethod
    def const(value: int, dtype: str = "int32") -> list[Any]:
        return ["const", dtype, [], value]

    def expr(self, e: Any) -> list[Any]:
        """``[op, dtype, [operands], data]``."""
        kind = type(e).__name__
        if isinstance(e, int):
            return self.const(e)
        dtype = str(e.dtype)
        if kind == "IntImm":
            return self.const(int(e.value), dtype)
        if kind == "FloatImm":
            return ["const", dtype, [], repr(float(e.value))]
        if isinstance(e, tirx.Var):
            return ["var", dtype, [], self.variable(e)]
        if kind in _BINARY:
            return [_BINARY[kind], dtype, [self.expr(e.a), self.expr(e.b)], None]
        if kind == "Not":
            return ["not", dtype, [self.expr(e.a)], None]
        if kind == "Cast":
            return ["cast", dtype, [self.expr(e.value)], None]
        if kind == "Select":
            return ["select", dtype, [self.expr(part) for part in (e.condition, e.true_value, e.false_value)], None]
        if kind == "BufferLoad" and e.predicate is None:
            return ["load", dtype, [self.expr(index) for index in e.indices], self.buffer(e.buffer)]
        if kind == "Call":
            return [_operation(e), dtype, [self.operand(arg) for arg in _arguments(e)], None]
        return [kind, dtype, [], None]

    def operand(self, arg: Any) -> Any:
        """An argument of a call: a region, a pointer, a string or an expression."""
        kind = type(arg).__name__
        if isinstance(arg, str) or kind == "StringImm":
            return str(arg) if isinstance(arg, str) else str(arg.value)
        if kind == "BufferRegion":
            return self.region(arg.buffer, [r.min for r in arg.region], [r.extent for r in arg.region])
        if kind == "Call" and _operation(arg) == "region":
            load, extents = arg.args[0], list(arg.args[2:])
            missing = len(load.indices) - len(extents)
            return self.region(load.buffer, list(load.indices), [1] * missing + extents)
        if kind == "Call" and _operation(arg) == "access_ptr":
            return self.region(arg.args[0].buffer, list(arg.args[0].indices), [arg.args[1]])
        if kind == "BufferLoad" and any(isinstance(index, tirx.Ramp) for index in arg.indices):
            ramps = [(i.base, i.lanes) if isinstance(i, tirx.Ramp) else (i, 1) for i in arg.indices]
            return self.region(arg.buffer, [start for start, _ in ramps], [lanes for _, lanes in ramps])
        return self.expr(arg)

    def region(self, buffer: Any, start: Sequence[Any], extent: Sequence[Any]) -> dict[str, Any]:
        return {"buffer": self.buffer(buffer), "start": [self.expr(e) for e in start], "extent": [self.expr(e) for e in extent]}

    # --- statements -----------------------------------------------------------------------------

    def block(self, stmt: Any) -> list[dict[str, Any]]:
        """Statements as rows; one that has no meaning becomes an operation of its name."""
        kind, at = type(stmt).__name__, user_place(stmt)
        if kind == "SeqStmt":
            return [row for part in stmt.seq for row in self.block(part)]
        if kind == "SBlockRealize":
            return self.block(stmt.block)
        if kind == "SBlock":
            return self._sblock(stmt, at)
        if kind == "AttrStmt":
            return self._attribute(stmt, at)
        if kind == "For":
            return self._threads(stmt, at) if int(stmt.kind) == _THREAD_BINDING else [self._for(stmt, at)]
        if kind == "While":
            return [{"stmt": "while", "at": at, "condition": self.expr(stmt.condition), "body": self.block(stmt.body)}]
        if kind == "IfThenElse":
            orelse = self.block(stmt.else_case) if stmt.else_case is not None else []
            return [{"stmt": "if", "at": at, "condition": self.expr(stmt.condition), "then": self.block(stmt.then_case), "else": orelse}]
        if kind == "Bind":
            return self._bind(stmt, at)
        if kind == "BufferStore" and stmt.predicate is None:
            index = [self.expr(part) for part in stmt.indices]
            return [{"stmt": "store", "at": at, "buffer": self.buffer(stmt.buffer), "index": index, "value": self.expr(stmt.value)}]
        if kind == "Evaluate":
            return self._evaluate(stmt.value, at)
        if kind in ("AllocBuffer", "DeclBuffer"):
            return self._alloc(stmt.buffer, at) if kind == "AllocBuffer" else []
        return [_op(kind, at)]

    def _sblock(self, block: Any, at: str) -> list[dict[str, Any]]:
        for key, value in block.annotations.items():
            if str(key) == "tl.launch_threads":
                self.launch_threads = [int(extent) for extent in value]
        rows = [_op(str(key), at) for key in block.annotations if str(key) not in _HINTS]
        rows += [_op("T.init", at)] if block.init is not None else []
        return rows + [row for buffer in block.alloc_buffers for row in self._alloc(buffer, at)] + self.block(block.body)

    def _alloc(self, buffer: Any, at: str) -> list[dict[str, Any]]:
        if str(buffer.scope()) == "global":
            return [_op("T.alloc_global", at)]
        return [{"stmt": "alloc", "at": at, "buffer": self.buffer(buffer)}]

    def _attribute(self, stmt: Any, at: str) -> list[dict[str, Any]]:
        key = str(stmt.attr_key)
        if key == _SWIZZLE:
            self.swizzled = True
        elif key not in _HINTS:
            return [_op(key, at), *self.block(stmt.body)]
        return self.block(stmt.body)

    def _for(self, loop: Any, at: str) -> dict[str, Any]:
        kind = _KINDS.get(int(loop.kind))
        if kind is None:
            return _op(f"a loop of kind {int(loop.kind)}", at)
        step = getattr(loop, "step", None)
        if step is not None and not (isinstance(step, tirx.IntImm) and int(step) == 1):
            return _op("a loop with a step", at)
        bounds = {"start": self.expr(loop.min), "extent": self.expr(loop.extent)}
        return {"stmt": "for", "at": at, "kind": kind, "var": self.variable(loop.loop_var), **bounds, "body": self.block(loop.body)}

    def _threads(self, loop: Any, at: str) -> list[dict[str, Any]]:
        """TileLang 0.1.14 says as loops which threads a block has, newer ones as bindings: once for each axis, around all that they do."""
        tag, extent = str(loop.thread_binding.thread_tag), loop.extent
        axis = "xyz".find(tag[-1]) if tag in ("threadIdx.x", "threadIdx.y", "threadIdx.z") else -1
        if axis < 0 or self.threads[axis] != -1 or not isinstance(extent, tirx.IntImm) or int(loop.min) != 0:
            return [_op("T.thread_binding", at)]
        self.threads[axis], self.launch_threads[axis] = self.variable(loop.loop_var), int(extent)
        return self.block(loop.body)

    def _bind(self, stmt: Any, at: str) -> list[dict[str, Any]]:
        value = stmt.value
        if type(value).__name__ == "Call" and _operation(value) == "launch_thread_idx":
            self.threads[int(value.args[0])] = self.variable(stmt.var)
            return []
        return [{"stmt": "bind", "at": at, "var": self.variable(stmt.var), "value": self.expr(value)}]

    def _evaluate(self, value: Any, at: str) -> list[dict[str, Any]]:
        if type(value).__name__ != "Call":
            return []
        options = {str(key): str(option) for key, option in (getattr(value, "annotations", None) or {}).items()}
        return [{"stmt": "op", "at": at, "op": _operation(value), "args": [self.operand(a) for a in _arguments(value)], "options": options}]


def _op(name: str, at: str) -> dict[str, Any]:
    return {"stmt": "op", "at": at, "op": name, "args": [], "options": {}}


def _operation(call: Any) -> str:
    """The operation's last name; of a call of foreign code, whose it is."""
    name = str(getattr(call.op, "name", "") or getattr(call.op, "name_hint", "call")).rsplit(".", 1)[-1]
    if name in ("call_extern", "call_pure_extern"):
        return f"{name} {getattr(call.args[0], 'value', call.args[0])}"
    return name


def _arguments(call: Any) -> list[Any]:
    """The arguments to keep; those of foreign code mean nothing."""
    return [] if _operation(call).startswith(("call_extern", "call_pure_extern")) else list(call.args)
