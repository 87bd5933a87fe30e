"""Lines of PTX for the forms of the registry, and which target and version ptxas says that they need."""

from __future__ import annotations

import random
import re
import subprocess
import tempfile
from collections.abc import Iterator
from itertools import product
from math import prod
from pathlib import Path

from assembler import PTXAS
from form_table import VALUES, forms
from test_forms_are_legal import text

from ptx_engine.errors import UnsupportedError
from ptx_engine.isa.decode import TYPE_BITS
from ptx_engine.isa.registry import FORMS, Form, find
from ptx_engine.syntax.ast import Instruction

HEAD = (
    ".reg .pred %p<40>; .reg .b16 %h<40>; .reg .b32 %r<40>; .reg .b64 %d<40>; .shared .align 16 .b32 sv[64]; .local .b32 lv[64];\n"
    ".reg .b128 %q<20>;\n"
)
_CLASS = {1: "p", 8: "h", 16: "h", 32: "r", 64: "d", 128: "q"}
_SPACES = {"shared": "[sv]", "shared::cta": "[sv]", "local": "[lv]", "const": "[cv]", "param": "[kp]"}
_NEED = re.compile(r"requires \.target (?:sm_)?(\d+)|requires PTX ISA \.version (\d+)\.(\d+)")
#: operands where they do not follow from the modifiers: A an address, R registers of the type, V a vector of as many as .x says, H a hint
_OPERANDS = {
    "ld": "R, AH", "ldu": "R, A", "st": "A, RH", "atom": "R, A, RH", "red": "A, RH", "ldmatrix": "V, [sv]", "stmatrix": "[sv], V",
    "movmatrix": "%r0, %r1", "prefetch": "A", "prefetchu": "[%d0]", "applypriority": "[%d0], 128", "redux": "%r0, %r1, -1", "fence": "",
    "griddepcontrol": "", "setmaxnreg": "64", "elect": "%r0|%p0, -1", "nanosleep": "%r0", "activemask": "%r0", "mma": "{%r1}, {%r2}, {%r3}, {%r4}",
    "cp": "[sv], [%d0], 16H",
}  # fmt: skip
#: of opcodes with several instructions, by the modifiers that begin them
_MORE = {
    "mma.sp": "{%r1}, {%r2}, {%r3}, {%r4}, %r5, 0", "wmma.load": "{%r0}, A, %r1", "wmma.store": "A, {%r0}, %r1", "wmma.mma": "{%r1}, {%r2}, {%r3}, {%r4}",
    "atom.cas": "R, A, R, R", "cp.async.commit_group": "", "cp.async.wait_all": "", "cp.async.wait_group": "1", "cp.async.mbarrier": "[sv]",
    "mbarrier.pending_count": "%r0, %d0", "createpolicy.cvt": "%d0, %d1",
    "mbarrier.init": "[sv], 1", "mbarrier.inval": "[sv]", "mbarrier.arrive.expect_tx": "%d0, [sv], 1", "mbarrier.arrive.noComplete": "%d0, [sv], 1",
    "mbarrier.arrive_drop.expect_tx": "%d0, [sv], 1", "mbarrier.arrive_drop.noComplete": "%d0, [sv], 1", "mbarrier.arrive_drop": "%d0, [sv]",
    "mbarrier.arrive": "%d0, [sv]", "mbarrier.expect_tx": "[sv], 16", "mbarrier.complete_tx": "[sv], 16", "mbarrier.test_wait.parity": "%p0, [sv], %r0",
    "mbarrier.test_wait": "%p0, [sv], %d0", "mbarrier.try_wait.parity": "%p0, [sv], %r0", "mbarrier.try_wait": "%p0, [sv], %d0",
    "createpolicy.fractional": "%d0, 0.5", "createpolicy.range": "%d0, [%d1], %r0, %r1",
}  # fmt: skip


def _operands(opcode: str, modifiers: tuple[str, ...]) -> str:
    name = ".".join((opcode, *modifiers)) + "."
    pattern = next(
        (words for start, words in _MORE.items() if name.startswith((start + ".", start + "::"))),
        _OPERANDS.get(opcode, ""),
    )
    if opcode == "atom" and "cas" in modifiers:
        pattern = _MORE["atom.cas"]
    kind = next((m for m in reversed(modifiers) if m in TYPE_BITS), "b32")
    size = next((int(m[1]) for m in modifiers if m in ("v2", "v4", "v8")), 1)
    rows = next((int(m[1]) for m in modifiers if m in ("x1", "x2", "x4")), 1) * (2 if "m16n16" in modifiers else 1)
    names = [f"%{_CLASS[TYPE_BITS[kind]]}{i}" for i in range(size)]
    fields = {
        "A": next((_SPACES[m] for m in modifiers if m in _SPACES), "[%d0]"), "R": names[0] if size == 1 else "{" + ", ".join(names) + "}",
        "V": "{" + ", ".join(f"%r{i}" for i in range(rows)) + "}", "H": ", %d9" if "L2::cache_hint" in modifiers else "",
    }  # fmt: skip
    if "mma" in opcode and "f64" in modifiers:
        pattern = pattern.replace("{%r", "{%d")
    return "".join(fields.get(c, c) for c in pattern)


def _modifiers(form: Form, most: int, rng: random.Random) -> Iterator[tuple[str, ...]]:
    choices = [[""] * slot.optional + sorted(slot.choices) for slot in form.slots]
    every = product(*choices) if prod(map(len, choices)) <= most else (tuple(map(rng.choice, choices)) for _ in range(most))
    for chosen in every:
        modifiers = tuple(m for m in chosen if m)
        try:
            find(Instruction(form.opcode, modifiers, ()))
        except UnsupportedError:
            continue
        yield modifiers


def lines(most: int) -> dict[str, tuple[str, int]]:
    """Lines with their mnemonic and number of operands: all forms of the table of values, at most ``most`` of each form of the others."""
    rng = random.Random(1)
    found = {text(form): (form.mnemonic, len(form.slots())) for form in forms(VALUES)}
    for opcode in (*_OPERANDS, "wmma", "mbarrier", "createpolicy"):
        for form in FORMS[opcode]:
            for modifiers in _modifiers(form, most, rng):
                mnemonic = ".".join((opcode, *modifiers))
                operands = _operands(opcode, modifiers)
                found[f"{mnemonic} {operands};"] = mnemonic, len(re.sub(r"\{[^}]*\}", "v", operands).split(",")) if operands else 0
    return found


def needed(instructions: list[str], target: str, version: str) -> dict[str, tuple[str, tuple[int, int]]]:
    """What ptxas says that lines need beyond a target and a version; a target with "a" where none of the plain ones has them."""
    head = f".version {version}\n.target {target}\n.address_size 64\n.const .b32 cv[64];\n.visible .entry k(.param .u64 kp)\n{{\n{HEAD}"
    first = head.count("\n") + 1
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "module.ptx"
        path.write_text(head + "\n".join(instructions) + "\nret;\n}\n")
        done = subprocess.run([PTXAS, "-arch", target, "-O0", str(path), "-o", str(path) + ".out"], capture_output=True, text=True)
    found: dict[str, tuple[str, tuple[int, int]]] = {}
    for number, why in re.findall(r", line (\d+); error\s*: (.*)", done.stdout + done.stderr):
        if not 0 <= int(number) - first < len(instructions):
            continue
        line = instructions[int(number) - first]
        need = _NEED.search(why)
        before, least = found.get(line, ("0", (0, 0)))
        if "not supported on .target" in why:
            found[line] = before.rstrip("a") + "a", least
        elif need and need[1]:
            found[line] = str(max(int(before.rstrip("a")), int(need[1]))) + "a" * before.endswith("a"), least
        elif need:
            found[line] = before, max(least, (int(need[2]), int(need[3])))
    return found
