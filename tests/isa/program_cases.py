"""Case files of the instructions that are no function of one thread's registers: memory, warps, matrices, barriers, control flow, calls.

A block begins with ``threads N`` and operands, ``KIND NAME BITS = numbers``: ``in`` (registers %NAME0 .. of each thread), ``global``,
``shared``, ``local`` or ``const`` memory (%NAME is the thread's part, %all_NAME the whole). Then groups: ``run`` lines of PTX, ``form`` lines with the
mnemonics that take the place of ``{form}``, and what must come out: ``NAME BITS = numbers`` are registers %NAME0 .. or memory; memory that is not
named must not change. Numbers are bits in hexadecimal in the order of threads, ``x*n`` a repetition, ``x..y`` a range, ``~`` as in ``value_cases``.
``module`` lines stand before the kernel, ``extern NAME OPERATOR`` declares a function without a body, ``finding`` names an expected finding.
``python -m program_case_files`` writes the files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import numpy as np
from form_model import Close
from value_cases import result_of, text_of

from ptx_engine import emulate

FOLDER = Path(__file__).parent / "program_cases"
HEAD = ".version 9.1\n.target sm_100a\n.address_size 64\n"
#: copies of a text in one kernel, and bytes of shared memory that they may take
COPIES, SHARED_BYTES = 30, 32768
SCRATCH = (
    ".reg .b16 %h<8>; .reg .b32 %r<24>; .reg .b64 %q<12>; .reg .b128 %wide<4>; .reg .f32 %f<8>; .reg .pred %p<8>;"
    " .reg .b64 %policy; mov.b64 %policy, 0;"
)


@dataclass(frozen=True)
class Column:
    """Numbers of ``bits`` bits: the same count for each thread, one thread after another."""

    bits: int
    numbers: tuple["int | Close | None", ...]

    def bytes(self) -> np.ndarray:
        size = max(8, self.bits) // 8
        return np.frombuffer(b"".join(int(x).to_bytes(size, "little") for x in self.numbers), np.uint8).copy()  # type: ignore[arg-type]

    @property
    def size(self) -> int:
        return len(self.numbers) * max(8, self.bits) // 8


@dataclass(frozen=True)
class Group:
    """A text, the mnemonics that it is run with, and what comes out."""

    run: tuple[str, ...]
    forms: tuple[str, ...]
    expected: dict[str, Column]
    findings: tuple[str, ...] = ()

    def texts(self) -> list[tuple[str, str]]:
        """(name, text) of each form; a text without ``{form}`` names itself."""
        text = "\n".join(self.run)
        return [(form, text.replace("{form}", form)) for form in self.forms] or [(text.split(";")[-2].strip(), text)]


@dataclass(frozen=True)
class Block:
    threads: int
    operands: dict[str, tuple[str, Column]]
    groups: list[Group] = field(default_factory=list)
    module: tuple[str, ...] = ()
    externs: dict[str, str] = field(default_factory=dict)


# --- text -----------------------------------------------------------------------------------------


def numbers_text(numbers: Sequence["int | Close | None"]) -> str:
    """Equal neighbours as x*n, and rising ones as x..y."""
    words: list[str] = []
    for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0] if isinstance(pair[1], int) else None):
        values = [x for _, x in run]
        if len(values) > 2 and all(isinstance(x, int) for x in values):
            words.append(f"{values[0]:x}..{values[-1]:x}")
        else:
            words += map(text_of, values)
    folded = [(word, sum(1 for _ in same)) for word, same in groupby(words)]
    return " ".join(f"{word}*{n}" if n > 2 else " ".join([word] * n) for word, n in folded)


def numbers(text: str) -> tuple["int | Close | None", ...]:
    found: list[int | Close | None] = []
    for word in text.split():
        first, dots, last = word.partition("..")
        if dots and word[0] != "~":
            run, _, times = last.partition("*")
            found += [*range(int(first, 16), int(run, 16) + 1)] * int(times or 1)
            continue
        value, _, times = word.partition("*")
        found += [result_of(value)] * int(times or 1)
    return tuple(found)


def written(block: Block) -> Iterator[str]:
    yield f"threads {block.threads}"
    yield from (f"module {line}" for line in block.module)
    yield from (f"extern {name} {operator}" for name, operator in block.externs.items())
    yield from (f"{kind} {name} {column.bits} = {numbers_text(column.numbers)}" for name, (kind, column) in block.operands.items())
    last: tuple[str, ...] = ()
    for group in block.groups:
        if group.run != last or not group.forms:
            yield from (f"run {line}" for line in group.run)
        last = group.run
        for i in range(0, len(group.forms), 6):
            yield "form " + " ".join(group.forms[i : i + 6])
        yield from (f"finding {kind}" for kind in group.findings)
        yield from (f"  {name} {column.bits} = {numbers_text(column.numbers)}" for name, column in group.expected.items())


def read(text: str) -> list[Block]:
    """The blocks of a file."""
    return [_block(part.splitlines()) for part in re.split(r"^(?=threads )", text, flags=re.M)[1:]]


def _column(line: str) -> tuple[str, Column]:
    names, _, values = line.partition(" = ")
    name, bits = names.split()
    return name, Column(int(bits), numbers(values))


def _block(lines: Sequence[str]) -> Block:
    operands: dict[str, tuple[str, Column]] = {}
    groups: list[Group] = []
    module: list[str] = []
    externs: dict[str, str] = {}
    run: list[str] = []
    forms: list[str] = []
    expected: dict[str, Column] = {}
    findings: list[str] = []

    def close() -> None:
        if run and (expected or findings):
            groups.append(Group(tuple(run), tuple(forms), dict(expected), tuple(findings)))
            forms.clear(), expected.clear(), findings.clear()

    for line in lines[1:]:
        word, _, rest = line.partition(" ")
        if not line or line[0] == "#":
            continue
        if line.startswith("  "):
            expected.update([_column(line.strip())])
        elif word == "module":
            module.append(rest)
        elif word == "extern":
            externs.update([rest.split()])
        elif word == "finding":
            findings.append(rest)
        elif word == "form":
            if expected or findings:
                close()
            forms += rest.split()
        elif word == "run":
            if expected or findings:
                close()
                run.clear()
            run.append(rest)
        else:
            name, column = _column(rest)
            operands[name] = word, column
    close()
    return Block(int(lines[0].split()[1]), operands, groups, tuple(module), externs)


# --- kernels --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Copy:
    """One text to run, with what must come out."""

    name: str
    text: str
    expected: dict[str, Column]
    findings: tuple[str, ...]


def copies(block: Block) -> list[list[Copy]]:
    """The texts of a block in portions that one kernel runs; one with a finding runs alone."""
    every = [Copy(name, text, group.expected, group.findings) for group in block.groups for name, text in group.texts()]
    shared = sum(column.size for kind, column in block.operands.values() if kind == "shared")
    most = min(COPIES, SHARED_BYTES // shared if shared else COPIES)
    quiet = [copy for copy in every if not copy.findings]
    return [quiet[i : i + most] for i in range(0, len(quiet), most)] + [[copy] for copy in every if copy.findings]


def _register(bits: int) -> str:
    return "pred" if bits == 1 else f"b{max(16, bits)}"


def _memory(bits: int) -> str:
    return f"b{bits}" if bits > 8 else "u8"


def _moved(name: str, column: Column, count: int, at: str, load: str, store: str) -> Iterator[str]:
    """Each thread's ``count`` numbers from one memory to another."""
    size = max(8, column.bits) // 8
    yield f"{{ .reg .{_register(max(8, column.bits))} %moved;"
    for i in range(count):
        yield f"{load}.{_memory(column.bits)} %moved, [{at.split('>')[0]}+{i * size}]; {store}.{_memory(column.bits)} [{at.split('>')[1]}+{i * size}], %moved;"
    yield "}"


def kernel(block: Block, portion: Sequence[Copy]) -> str:
    """A module that runs each copy with memory of its own."""
    params = [f".param .u64 {name}" for name in block.operands]
    params += [f".param .u64 {name}_{i}" for i, copy in enumerate(portion) for name in _results(block, copy)]
    before = [*block.module]
    for name, (kind, column) in block.operands.items():
        if kind == "const":
            before.append(f".const .align 32 .b8 const_{name}[{column.size}] = {{{', '.join(map(str, column.bytes().tolist()))}}};")
    lines = [HEAD, *before, f".visible .entry k({', '.join(params)})", "{", ".reg .b32 %lane; .reg .b64 %own; mov.u32 %lane, %tid.x;"]
    for name, (kind, column) in block.operands.items():
        lines.append(f".reg .b64 %g_{name}; ld.param.u64 %g_{name}, [{name}];")
        if kind == "shared":
            lines.append(f".shared .align 32 .b8 shared_{name}[{column.size * len(portion)}];")
    for i, copy in enumerate(portion):
        lines += _scope(block, copy, i)
    return "\n".join([*lines, "ret;", "}"]) + "\n"


def _results(block: Block, copy: Copy) -> list[str]:
    return [name for name in copy.expected if name not in block.operands]


def _scope(block: Block, copy: Copy, index: int) -> Iterator[str]:
    """One copy, in a scope of its own."""
    yield "{ " + SCRATCH
    after: list[str] = []
    shared = False
    for name, (kind, column) in block.operands.items():
        if not re.search(rf"%(all_)?{name}\d*\b", copy.text):
            continue
        count, size = len(column.numbers) // block.threads, max(8, column.bits) // 8
        yield f".reg .b64 %{name}, %all_{name}, %from_{name}; mul.wide.u32 %own, %lane, {count * size};"
        first = 0 if kind in ("in", "const") else index * column.size
        yield f"add.s64 %from_{name}, %g_{name}, %own; add.s64 %from_{name}, %from_{name}, {first};"
        if kind == "in":
            yield f".reg .{_register(column.bits)} %{name}<{count}>;"
            for i in range(count):
                if column.bits == 1:
                    yield f"ld.global.u8 %h0, [%from_{name}+{i}]; setp.ne.u16 %{name}{i}, %h0, 0;"
                else:
                    yield f"ld.global.{_memory(column.bits)} %{name}{i}, [%from_{name}+{i * size}];"
            continue
        if kind == "global":
            yield f"add.s64 %all_{name}, %g_{name}, {first}; mov.b64 %{name}, %from_{name};"
        elif kind == "const":
            yield f"mov.b64 %all_{name}, const_{name}; add.s64 %{name}, %all_{name}, %own;"
        elif kind == "shared":
            shared = True
            yield f"mov.b64 %all_{name}, shared_{name}; add.s64 %all_{name}, %all_{name}, {first}; add.s64 %{name}, %all_{name}, %own;"
        else:
            yield f".local .align 32 .b8 local_{name}[{count * size}]; mov.b64 %{name}, local_{name};"
        if kind in ("shared", "local"):
            yield from _moved(name, column, count, f"%from_{name}>%{name}", "ld.global", f"st.{kind}")
            after += _moved(name, column, count, f"%{name}>%from_{name}", f"ld.{kind}", "st.global")
    results = {name: copy.expected[name] for name in _results(block, copy)}
    for name, column in results.items():
        yield f".reg .{_register(column.bits)} %{name}<{len(column.numbers) // block.threads}>;"
    if shared:
        yield "bar.sync 0;"
        after.insert(0, "bar.sync 0;")
    yield copy.text
    yield from after
    for name, column in results.items():
        count, size = len(column.numbers) // block.threads, max(8, column.bits) // 8
        yield f"ld.param.u64 %q0, [{name}_{index}]; mul.wide.u32 %own, %lane, {count * size}; add.s64 %q0, %q0, %own;"
        for i in range(count):
            if column.bits == 1:
                yield f"selp.u16 %h0, 1, 0, %{name}{i}; st.global.u8 [%q0+{i}], %h0;"
            else:
                yield f"st.global.{_memory(column.bits)} [%q0+{i * size}], %{name}{i};"
    yield "}"


# --- comparison -----------------------------------------------------------------------------------


def wrong(blocks: Sequence[Block]) -> list[str]:
    """Texts that give other numbers or findings than their file."""
    found: list[str] = []
    for block in blocks:
        for portion in copies(block):
            found += _wrong(block, portion)
    return found


def _wrong(block: Block, portion: Sequence[Copy]) -> Iterator[str]:
    memory = {
        name: np.tile(column.bytes(), 1 if kind in ("in", "const") else len(portion)) for name, (kind, column) in block.operands.items()
    }
    results = {(i, name): np.zeros(copy.expected[name].size, np.uint8) for i, copy in enumerate(portion) for name in _results(block, copy)}
    run = emulate(kernel(block, portion), None, 1, block.threads, [*memory.values(), *results.values()], externs=block.externs)
    kinds = tuple(sorted({finding.kind for finding in run.findings}))
    if kinds != portion[0].findings:
        yield f"{[copy.name for copy in portion]}: findings {kinds}, {[f.message for f in run.findings][:1]}"
    for i, copy in enumerate(portion):
        for name, (kind, column) in block.operands.items():
            whole = memory[name].reshape(1 if kind in ("in", "const") else len(portion), -1)
            have = whole[min(i, len(whole) - 1)]
            yield from _differences(copy.name, name, have, copy.expected.get(name, column))
        for name in _results(block, copy):
            yield from _differences(copy.name, name, results[i, name], copy.expected[name])


def _differences(text: str, name: str, have: np.ndarray, wanted: Column) -> Iterator[str]:
    size = max(8, wanted.bits) // 8
    data = have.tobytes()
    for i, want in enumerate(wanted.numbers):
        bits = int.from_bytes(data[i * size : (i + 1) * size], "little")
        if want is None or (want.holds(bits) if isinstance(want, Close) else bits == want):
            continue
        yield f"{text}: {name}[{i}] is {bits:x}, not {want if isinstance(want, Close) else f'{want:x}'}"
        return
