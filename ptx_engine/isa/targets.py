"""Which ``.target`` and ``.version`` an instruction needs: a module that has an older one is refused, as ptxas refuses it.

The greatest of all rows that fit counts. Rows are what the sections "PTX ISA Notes" and "Target ISA Notes" of PTX ISA 9.1, chapter 9.7,
say of what came with or after sm_70; a slow test asks ptxas about every form of the registry.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import combinations_with_replacement

from ptx_engine.errors import ParseError
from ptx_engine.isa.registry import Form
from ptx_engine.syntax.ast import Instruction, Module

Version = tuple[int, int]

#: pattern of ``opcode.modifiers/operands``, least target, least version; "a": of a target with architecture-specific features (sm_100a)
_ROWS: list[tuple[str, str, Version]] = [
    # types
    (r".*\.bf16(x2)?\b", "80", (7, 0)), (r".*\.tf32\b", "80", (7, 0)), (r".*\.b128\b", "70", (8, 3)),
    (r"(?=.*\.sys\b).*\.b128\b", "70", (8, 4)),
    # arithmetic
    (r"(add|sub|mul|set|setp|tanh|ex2)\..*bf16", "90", (7, 8)), (r"(add|sub|mul|fma)\..*f32x2", "100", (8, 6)),
    (r"(add|min|max)\..*[us]16x2", "90", (8, 0)), (r"(min|max)\.relu\.s", "90", (8, 0)), (r".*\.relu\b", "80", (7, 0)),
    (r"(min|max)\..*(NaN|f16)", "80", (7, 0)), (r"(min|max)\..*abs", "86", (7, 2)), (r"(min|max)\..*f32/4", "100", (8, 8)),
    (r"abs\.(ftz\.)?f16", "53", (6, 5)), (r"(tanh|ex2\..*f16)", "75", (7, 0)), (r"set\..*\.[us](16|32)\.f16", "53", (6, 5)),
    (r"(szext|bmsk)\b", "70", (7, 6)), (r"lop3\.(and|or)", "70", (8, 2)),
    # conversions
    (r"cvt\.(?!r[nzmp](\.\w+)*\.bf16(x2)?\.f32|(r[nzmp]\.)?f32\.bf16).*bf16\b", "90", (7, 8)), (r"cvt\.(.*\.)?f32\.bf16", "80", (7, 1)),
    (r"cvt\..*ftz\.f32\.bf16", "90", (7, 8)), (r"cvt\.r[nz]\..*tf32", "90", (7, 8)), (r"cvt\.r[nz]\..*satfinite\..*tf32", "100", (8, 6)),
    (r"cvt\..*satfinite\..*(f16|f16x2|bf16|bf16x2|tf32)\.f32", "0", (8, 1)), (r"cvt\..*\.f16x2\.f32", "80", (7, 0)),
    (r"cvt\..*(e4m3|e5m2)x2", "89", (7, 8)), (r"cvt\.rs\.", "100a", (8, 7)),
    (r"cvt\..*(e4m3|e5m2)x2\.bf16x2", "100a", (9, 1)), (r"cvt\.pack\.", "72", (6, 5)), (r"cvt\.pack\.sat\.[us][24]\b", "75", (6, 5)),
    # addresses and hints
    (r"(?!cp\.async\.c[ag]\.).*::(cta|cluster)\b", "0", (7, 8)), (r".*::cluster\b", "90", (7, 8)), (r".*\.cluster\b", "90", (7, 8)),
    (r".*::(entry|func)\b", "0", (8, 3)),
    (r"(cvta|isspacep)\..*param", "70", (7, 7)), (r".*L1::", "70", (7, 4)), (r".*L2::(64B|128B)", "75", (7, 4)),
    (r".*L2::256B", "80", (7, 4)),
    (r".*L2::cache_hint", "80", (7, 4)), (r"(ld|st)\..*L2::evict", "100", (8, 8)), (r"(ld|st)\..*(v8\..*32|v4\..*64)\b", "100", (8, 8)),
    (r"(prefetch\..*evict|applypriority|createpolicy)", "80", (7, 4)), (r"prefetch\..*tensormap", "90", (8, 0)),
    (r"(ld|st)\.mmio", "70", (8, 2)),
    # asynchronous copies and barriers
    (r"cp\.async", "80", (7, 0)), (r"mbarrier\.", "80", (7, 0)), (r"mbarrier\..*expect_tx|mbarrier\.complete_tx", "90", (8, 0)),
    (r"mbarrier\.test_wait\.parity", "80", (7, 1)), (r"mbarrier\.try_wait", "90", (7, 8)),
    (r"mbarrier\..*\.(cta|acquire|release)\b", "80", (8, 0)),
    (r"mbarrier\.(arrive|arrive_drop|test_wait|try_wait)\..*relaxed", "90", (8, 6)), (r"griddepcontrol", "90", (7, 8)),
    (r"setmaxnreg", "90a", (8, 0)),
    (r"elect\b", "90", (8, 0)), (r"nanosleep", "70", (6, 3)), (r"activemask", "0", (6, 2)), (r"redux\.", "80", (7, 0)),
    (r"redux\..*f32", "100a", (8, 6)),
    (r"(atom|red)\..*bf16", "90", (7, 8)), (r"(atom|red)\.(.*\.)?v[248]\b", "90", (8, 1)), (r"atom\..*b128", "90", (8, 3)),
    (r"(atom|red)\..*\.f16", "70", (6, 3)),
    # matrices
    (r"ldmatrix\.|mma\..*m16n8k8\b|mma\..*m8n8k(16|32)\b", "75", (6, 5)), (r"ldmatrix\..*m16n16|stmatrix\..*m16n8\b", "100a", (8, 6)),
    (r"stmatrix\.", "90", (7, 8)), (r"movmatrix\.", "75", (7, 8)), (r"mma\.", "70", (6, 4)), (r"mma\..*m8n8k128", "75", (7, 0)),
    (r"mma\..*m16n8k(4|16|32|64|128|256)\b", "80", (7, 0)), (r"mma\..*m16n8k8\.row\.col\.f32\.(bf16|tf32)", "80", (7, 0)),
    (r"mma\..*f64", "80", (7, 0)),
    (r"mma\..*m16n8k(4|8|16)\..*f64", "90", (7, 8)), (r"w?mma\..*and\.popc", "80", (7, 1)), (r"mma\.sp\b", "80", (7, 1)),
    (r"mma\.sp::ordered", "80", (8, 5)),
    (r"mma\.sync.*e[45]m[23]", "89", (8, 4)), (r"mma\.sync.*(m16n8k16|f16)\.(row\.col\.)?.*e[45]m[23]", "89", (8, 7)),
    (r"mma\.sp.*e[45]m[23]", "89", (8, 4)),
    (r"wmma\..*m16n16k8|wmma\..*(bf16|f64)", "80", (7, 0)), (r"wmma\..*\.[su]8\b", "72", (6, 3)), (r"wmma\..*m8n8k(32|128)", "75", (6, 3)),
]  # fmt: skip
ROWS = [(re.compile(pattern), target, version) for pattern, target, version in _ROWS]
_TARGET = re.compile(r"sm_(\d+)([af]?)")


@lru_cache(maxsize=4096)
def needs(mnemonic: str, operands: int) -> tuple[str, Version]:
    """The least target (such as ``80`` or ``100a``) and version that an instruction with a number of operands needs."""
    text = f"{mnemonic}/{operands}"
    fitting = [(target, version) for pattern, target, version in ROWS if pattern.match(text)]
    least = max((target for target, _ in fitting), key=_number, default="0")
    special = [target for target, _ in fitting if target.endswith("a")]
    return special[0] if special else least, max((version for _, version in fitting), default=(0, 0))


def needs_of_form(form: Form) -> list[tuple[str, Version]]:
    """What the instructions of a form need, the least and the most of them: all that differ from the first one in two modifiers at most."""
    first = ["" if slot.optional else min(slot.choices) for slot in form.slots]
    found: set[tuple[str, Version]] = set()
    choices = [(i, choice) for i, slot in enumerate(form.slots) for choice in slot.choices]
    for pair in combinations_with_replacement(choices, 2):
        modifiers = list(first)
        for i, choice in pair:
            modifiers[i] = choice
        found.add(needs(".".join((form.opcode, *filter(None, modifiers))), 0))
    ordered = sorted(found or {needs(form.opcode, 0)}, key=lambda need: (_number(need[0]), need[1]))
    versions = [version for _, version in ordered]
    return [(ordered[0][0], min(versions)), (ordered[-1][0], max(versions))]


def _number(target: str) -> int:
    return int(target.rstrip("af"))


def check_target(instruction: Instruction, module: Module) -> None:
    """Raise ParseError for an instruction that the module's target or version has not."""
    target, version = needs(instruction.mnemonic, len(instruction.operands))
    if version > module.version:
        have = ".".join(map(str, module.version))
        raise ParseError(f"{instruction.mnemonic} needs .version {version[0]}.{version[1]}, the module has {have}", span=instruction.span)
    found = _TARGET.fullmatch(module.target[0]) if module.target else None
    if found is None:
        return
    if int(found[1]) < _number(target) or (target.endswith("a") and not found[2]):
        raise ParseError(
            f"{instruction.mnemonic} needs .target sm_{target}, the module has {found[0]}", span=instruction.span,
            hint=f'compile for sm_{target}' + ("" if target.endswith("a") else f'; in a spec: target = "cuda:{target}"'),
        )  # fmt: skip
