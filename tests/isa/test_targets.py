"""Instructions that a module's ``.target`` or ``.version`` has not are refused by name; a slow test asks ptxas about forms of the registry."""

from __future__ import annotations

import numpy as np
import pytest
from registry_lines import lines, needed

from ptx_engine import emulate
from ptx_engine.errors import ParseError
from ptx_engine.isa.targets import needs

#: instruction, least target, least version, the next older target and version
CASES = [
    ("redux.sync.add.s32 %r0, %r1, -1;", "sm_80", "7.0", "sm_75", "6.5"),
    ("cp.async.ca.shared.global [sv], [%d0], 16;", "sm_80", "7.0", "sm_75", "6.5"),
    ("cvt.rn.satfinite.e4m3x2.f32 %h0, %f0, %f1;", "sm_89", "7.8", "sm_86", "7.7"),
    ("cvt.rn.bf16.f32 %h0, %f0;", "sm_80", "7.0", "sm_75", "6.5"),
    ("cvt.rn.f16x2.f32 %r0, %f0, %f1;", "sm_80", "7.0", "sm_75", "6.5"),
    ("add.bf16x2 %r0, %r1, %r2;", "sm_90", "7.8", "sm_89", "7.7"),
    ("max.NaN.f32 %f0, %f1, %f2;", "sm_80", "7.0", "sm_75", "6.5"),
    ("max.f32 %f0, %f1, %f2, %f0;", "sm_100", "8.8", "sm_90", "8.7"),
    ("fma.rn.relu.f16x2 %r0, %r1, %r2, %r3;", "sm_80", "7.0", "sm_75", "6.5"),
    ("tanh.approx.f32 %f0, %f1;", "sm_75", "7.0", "sm_72", "6.5"),
    ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%r0, %r1, %r2, %r3}, {%r4, %r5, %r6, %r7}, {%r8, %r9}, {%r0, %r1, %r2, %r3};",
     "sm_80", "7.0", "sm_75", "6.5"),
    ("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%r0, %r1, %r2, %r3}, {%r4, %r5, %r6, %r7}, {%r8, %r9}, {%r0, %r1, %r2, %r3};",
     "sm_89", "8.4", "sm_86", "8.3"),
    ("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%r0, %r1}, {%r2, %r3}, {%r4}, {%r5, %r6};", "sm_75", "6.5", "sm_72", "6.4"),
    ("mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f16 {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%r6, %r7}, {%r0, %r1, %r2, %r3};",
     "sm_70", "6.4", "sm_60", "6.3"),
    ("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [sv];", "sm_75", "6.5", "sm_72", "6.4"),
    ("stmatrix.sync.aligned.m8n8.x1.shared.b16 [sv], {%r0};", "sm_90", "7.8", "sm_89", "7.7"),
    ("createpolicy.fractional.L2::evict_first.b64 %d0, 0.5;", "sm_80", "7.4", "sm_75", "7.3"),
    ("ld.global.L2::256B.u32 %r0, [%d0];", "sm_80", "7.4", "sm_75", "7.3"),
    ("red.global.add.v2.f32 [%d0], {%f0, %f1};", "sm_90", "8.1", "sm_89", "8.0"),
    ("elect.sync %r0|%p0, -1;", "sm_90", "8.0", "sm_89", "7.8"),
    ("setmaxnreg.inc.sync.aligned.u32 64;", "sm_90a", "8.0", "sm_90", "7.8"),
    ("redux.sync.max.f32 %f0, %f1, -1;", "sm_100a", "8.6", "sm_100", "8.5"),
    ("mbarrier.try_wait.parity.shared.b64 %p0, [sv], 0;", "sm_90", "7.8", "sm_80", "7.7"),
]  # fmt: skip


def module(line: str, target: str, version: str) -> str:
    """A kernel that decodes an instruction and does not run it."""
    return (
        f".version {version}\n.target {target}\n.address_size 64\n.visible .entry k(.param .u64 kp)\n{{\n"
        ".reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<12>; .reg .b64 %d<4>; .reg .f32 %f<4>; .shared .align 16 .b32 sv[64];\n"
        f"bra END;\n{line}\nEND: ret;\n}}\n"
    )


@pytest.mark.parametrize(("line", "target", "version", "old_target", "old_version"), CASES, ids=[case[0].split()[0] for case in CASES])
def test_an_older_header_is_refused(line: str, target: str, version: str, old_target: str, old_version: str) -> None:
    newest = "9.1"
    emulate(module(line, target, version), None, 1, 1, [np.zeros(64, np.uint32)])
    for text, why in ((module(line, old_target, newest), rf"\.target {target}, .* {old_target}"),
                      (module(line, target, old_version), rf"\.version {version}, .* {old_version}")):  # fmt: skip
        with pytest.raises(ParseError, match=f"{line.split()[0]} needs {why}") as caught:
            emulate(text, None, 1, 1, [np.zeros(64, np.uint32)])
        assert caught.value.span is not None and caught.value.span.line == 8
        said = (
            ""
            if "version" in why
            else f"compile for {target}" + ("" if target.endswith("a") else f'; in a spec: target = "cuda:{target[3:]}"')
        )
        assert caught.value.hint == said


@pytest.mark.parametrize("target", ["sm_90a", "sm_100f", "sm_120a", "sm_80, debug", "sm_20"])
def test_targets_that_have_an_instruction(target: str) -> None:
    emulate(module("add.f32 %f0, %f1, %f2;", target, "9.1"), None, 1, 1, [np.zeros(64, np.uint32)])


@pytest.mark.slow
def test_ptxas_asks_for_the_same() -> None:
    """What ptxas says of lines under sm_75 and 6.3 that it would need; it is silent where those do."""
    made = lines(150)
    found = needed(list(made), "sm_75", "6.3")
    assert len(made) > 10_000 and len(found) > 5_000
    for line, (target, version) in found.items():
        ours, ours_version = needs(*made[line])
        if "e4m3x2" in line or "e5m2x2" in line:
            # ptxas names what first had them: sm_90 with 7.8; sm_89 has them, too
            assert ours in ("89", "100a"), line
            continue
        special = target.endswith("a")
        assert ours.endswith("a") == special and ours_version == version, (line, target, version, ours, ours_version)
        assert special or max(int(ours), 75) == max(int(target), 75), (line, target, ours)
    for line in made.keys() - found.keys():
        ours, ours_version = needs(*made[line])
        assert int(ours.rstrip("a")) <= 75 and ours_version <= (6, 3), (line, ours, ours_version)
