"""[externs] and [globals] of a spec reach the engine: proved with the right operator and table, refuted with wrong ones, refused without."""

from __future__ import annotations

from pathlib import Path

import pytest

from volta_pass.check import check_file

REFERENCE = """.version 8.4
.target sm_80
.address_size 64
.visible .entry plain(.param .u64 x, .param .u64 out)
{
.reg .f32 %f<5>; .reg .b64 %d<5>; .reg .b32 %r<3>;
ld.param.u64 %d1, [x]; ld.param.u64 %d2, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %d3, %r1, 4; add.s64 %d1, %d1, %d3; add.s64 %d2, %d2, %d3;
ld.global.f32 %f1, [%d1]; sqrt.rn.f32 %f2, %f1; mul.f32 %f3, %f2, 0f40400000; st.global.f32 [%d2], %f3; ret;
}
"""
CANDIDATE = """.version 8.4
.target sm_80
.address_size 64
.extern .func (.param .b32 r0) my_root(.param .b32 p0);
.const .align 4 .f32 scale;
.visible .entry called(.param .u64 x, .param .u64 out)
{
.reg .f32 %f<6>; .reg .b64 %d<5>; .reg .b32 %r<3>;
ld.param.u64 %d1, [x]; ld.param.u64 %d2, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %d3, %r1, 4; add.s64 %d1, %d1, %d3; add.s64 %d2, %d2, %d3;
ld.global.f32 %f1, [%d1]; ld.const.f32 %f4, [scale];
{ .param .b32 p0; st.param.f32 [p0], %f1; .param .b32 r0; call.uni (r0), my_root, (p0); ld.param.f32 %f2, [r0]; }
mul.f32 %f3, %f2, %f4; st.global.f32 [%d2], %f3; ret;
}
"""
SPEC = """[launch]
grid = [1, 1, 1]
block = [4, 1, 1]
[[args]]
name = "x"
kind = "tensor"
dtype = "f32"
shape = [4]
role = "in"
[[args]]
name = "out"
kind = "tensor"
dtype = "f32"
shape = [4]
role = "out"
[reference]
ptx = "plain.ptx"
[candidate]
ptx = "called.ptx"
[compare]
outputs = ["out"]
"""


def verdict(folder: Path, tables: str) -> tuple[str, list[str], list[str]]:
    (folder / "plain.ptx").write_text(REFERENCE)
    (folder / "called.ptx").write_text(CANDIDATE)
    (folder / "spec.toml").write_text(SPEC + tables)
    report = check_file(folder / "spec.toml")
    return report.verdict, report.assumptions, report.errors


@pytest.mark.parametrize(("tables", "wanted"), [
    ('[externs]\nmy_root = "sqrt"\n[globals]\nscale = 3.0\n', "proved"), ('[externs]\nmy_root = "sqrt"\n[globals]\nscale = 2.0\n', "refuted"),
    ('[externs]\nmy_root = "exp"\n[globals]\nscale = 3.0\n', "refuted"), ('[externs]\nmy_root = "sqrt"\n', "refuted"),
])  # fmt: skip
def test_tables_decide(tmp_path: Path, tables: str, wanted: str) -> None:
    found, assumptions, _ = verdict(tmp_path, tables)
    assert found == wanted
    assert any(a.startswith("my_root is ") for a in assumptions)
    assert ("variable scale holds its initialiser at the launch" in assumptions) == ("scale" in tables)


def test_a_function_that_nobody_maps_is_unsupported(tmp_path: Path) -> None:
    found, _, errors = verdict(tmp_path, "")
    assert found == "unsupported" and "my_root" in errors[0]
