"""Bad input of every kind: one clear error with place and remedy, the documented exit code, never a traceback."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from volta_pass.cli import main

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "configs" / "examples"
Step = Callable[[], object]

CHECK = ["check", "reduce.toml"]
ALLOW = [*CHECK, "--allow-code"]
PTX = "reduce_tree.ptx"
SIDE = 'ptx = "reduce_tree.ptx"'


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of the examples as the current folder, and none of our variables."""
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    monkeypatch.chdir(tmp_path / "examples")
    for name in list(os.environ):
        if name.startswith("VOLTA_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.fixture(autouse=True)
def forgotten_modules() -> Iterator[None]:
    """What specs import here is forgotten afterwards."""
    yield
    for name in ("x", "r"):
        sys.modules.pop(name, None)


def edit(file: str, old: str, new: str) -> Step:
    def step() -> None:
        text = Path(file).read_text(encoding="utf-8")
        assert old in text
        Path(file).write_text(text.replace(old, new, 1), encoding="utf-8")

    return step


def spec(old: str, new: str, file: str = "reduce.toml") -> Step:
    return edit(file, old, new)


def ptx(old: str, new: str) -> Step:
    return edit(PTX, old, new)


def write(file: str, data: "str | bytes") -> Step:
    return lambda: Path(file).write_bytes(data if isinstance(data, bytes) else data.encode())


def array(file: str, values: object, **options: bool) -> Step:
    return lambda: np.save(file, np.asarray(values), **options)


def replaced_by_folder() -> None:
    Path(PTX).unlink()
    Path(PTX).mkdir()


def a_symbolic_link_to_itself() -> None:
    Path(PTX).unlink()
    Path(PTX).symlink_to(PTX)


def doubled(second_name: str) -> Step:
    def step() -> None:
        text = Path(PTX).read_text(encoding="utf-8")
        more = text.partition(".address_size 64")[2].replace("reduce(", f"{second_name}(")
        Path(PTX).write_text(text + more, encoding="utf-8")

    return step


def truncated() -> None:
    text = Path(PTX).read_text(encoding="utf-8")
    Path(PTX).write_text(text[: len(text) // 2], encoding="utf-8")


SCALED = ["check", "scale_add.toml"]


def scalar(text: str) -> Step:
    return spec('value = "symbolic"', f"value = {text}", "scale_add.toml")


def side_scalar(override: str) -> Step:
    side = 'ptx = "scale_add_vector.ptx"'
    return spec(side, f'{side}\nargs = [{{name = "alpha", {override}}}]', "scale_add.toml")


def contents(text: str) -> Step:
    return spec('role = "in"', f'role = "in"\ncontents = {text}')


Case = tuple[str, list[str], list[Step], str]

#: name, arguments, what is damaged before, words of the error
TEXTS: list[Case] = [
    ("binary", CHECK, [write(PTX, bytes(range(256)) * 10)], "is a binary file, not PTX"),
    ("a cubin", CHECK, [write(PTX, b"\x7fELF\x02\x01" + bytes(50))], "is an ELF file"),
    ("other characters", CHECK, [write(PTX, "\u2603" * 500)], "unexpected character"),
    ("empty", CHECK, [write(PTX, "")], "begins with .version"),
    ("a comment only", CHECK, [write(PTX, "// nothing\n")], "begins with .version"),
    ("an open comment", CHECK, [write(PTX, "/* nothing\n")], "this comment has no end"),
    ("truncated", CHECK, [truncated], "found the end of the text"),
    ("no version", CHECK, [ptx(".version", "//.version")], "begins with .version"),
    ("no semicolon", CHECK, [ptx("bar.sync 0;", "bar.sync 0")], "expected ';'"),
    ("no operand", CHECK, [ptx("bar.sync 0;", "bar.sync;")], "bar.sync takes 1 or 2 operands"),
    ("barrier 16", CHECK, [ptx("bar.sync 0;", "bar.sync 16;")], "numbers from 0 to 15, not 16"),
    ("an operand more", CHECK, [ptx("add.rn.f32", "add.rn.f32 %f1,")], "takes 3 operands"),
    ("undeclared", CHECK, [ptx("ret;", "mov.u32 %zz, 1;\nret;")], "undeclared register '%zz'"),
    ("a label twice", CHECK, [ptx("ret;", "LEVEL: ret;")], "is defined twice"),
    ("a huge literal", CHECK, [ptx("ret;", f"mov.u64 %rd1, {10**26};\nret;")], "malformed number"),
    ("deep scopes", CHECK, [ptx("ret;", "{" * 3000 + "}" * 3000 + "ret;")], "nested deeper than"),
    ("deep expressions", CHECK, [ptx("ret;", "mov.u32 %r1, " + "(" * 5000 + "1" + ")" * 5000 + ";\nret;")], "nested deeper than"),
    (
        "more shared memory than any GPU has",
        CHECK,
        [ptx(".shared", f".shared .align 4 .b8 big[{10**12}];\n.shared")],
        "bytes of shared memory",
    ),
    ("two entries", CHECK, [doubled("other")], "has 2 entries"),
    ("an unreadable file", CHECK, [a_symbolic_link_to_itself], "cannot read"),
    ("a folder", CHECK, [replaced_by_folder], "Is a directory"),
]
SPECS: list[Case] = [
    ("a folder", ["check", "."], [], "cannot read"),
    ("absent", ["check", "gone.toml"], [], "cannot read gone.toml"),
    ("a zero byte in the name", ["check", "a\0b.toml"], [], "cannot read"),
    ("a long name", ["check", "a" * 5000 + ".toml"], [], "cannot read"),
    ("empty", ["check", "e.toml"], [write("e.toml", "")], "has no 'launch'"),
    ("binary", ["check", "e.toml"], [write("e.toml", b"\x80\x81" * 40)], "is not UTF-8"),
    ("PTX", ["check", PTX], [], "kernels need a launch spec"),
    ("PTX of another name", ["check", "kernel"], [lambda: shutil.copy(PTX, "kernel")], "not TOML"),
    ("two specs", [*CHECK, "--spec", "reduce.toml"], [], "reduce.toml is a launch spec, and --spec names another"),
    ("JSON", ["check", "e.toml"], [write("e.toml", '{"launch": 3}')], "not TOML"),
    ("deep", ["check", "e.toml"], [write("e.toml", "a = " + "[" * 100_000)], "not TOML"),
    ("a key of 20000 parts", ["check", "e.toml"], [write("e.toml", "a." * 20_000 + "b = 1")], "unknown key 'a'"),
    ("a variable of 20000 parts", ["check", "e.toml"], [write("e.toml", "globals." + "a." * 20_000 + "b = 1")], "globals.a must be"),
    ("a line of ten million characters", ["check", "e.toml"], [write("e.toml", f'a = "{"x" * 10**7}"')], "unknown key 'a'"),
    ("grid zero", CHECK, [spec("grid = [1, 1, 1]", "grid = [0, 1, 1]")], "launch.grid must be"),
    ("grid text", CHECK, [spec("grid = [1, 1, 1]", 'grid = "1"')], "launch.grid must be"),
    ("grid huge", CHECK, [spec("grid = [1, 1, 1]", f"grid = [{10**20}, 1, 1]")], "grid.x is"),
    ("block huge", CHECK, [spec("block = [128, 1, 1]", "block = [4096, 1, 1]")], "block.x is 4096"),
    ("block deep", CHECK, [spec("block = [128, 1, 1]", "block = [1, 1, 65]")], "block.z is 65"),
    ("shared huge", CHECK, [spec("block = ", f"dynamic_shared_bytes = {10**14}\nblock = ")], "dynamic shared memory"),
    ("shared negative", CHECK, [spec("block = ", "dynamic_shared_bytes = -4\nblock = ")], "must be a number of bytes"),
    ("shape negative", CHECK, [spec("shape = [128]", "shape = [-128]")], "at least 0, not -128"),
    ("shape huge", CHECK, [spec("shape = [128]", f"shape = [{10**14}]")], f"argument x spans {10**14} elements"),
    ("stride huge", CHECK, [spec("shape = [128]", f"shape = [128]\nstrides = [{10**16}]")], "argument x spans"),
    ("contents unknown", CHECK, [spec('role = "in"', 'role = "in"\ncontents = "ones"')], "args[0].contents must be"),
    ("contents short", CHECK, [spec('role = "in"', 'role = "in"\ncontents = [nan]')], "1 values for a tensor of 128"),
    ("two arguments of one name", CHECK, [spec('name = "out"', 'name = "x"')], "two arguments are named 'x'"),
    ("an unknown output", CHECK, [spec('outputs = ["out"]', 'outputs = ["outt"]')], "'outt' is no tensor"),
    ("an unknown key", CHECK, [spec("[compare]", "[compare]\ntolerance = 1")], "unknown key 'tolerance'"),
    ("an unknown table", CHECK, [spec("[compare]", "[comparison]")], "unknown key 'comparison'"),
    ("an unknown variable", CHECK, [spec("[compare]", "[globals]\nFOO = 1\n[compare]")], "[globals] FOO is declared by neither side"),
    ("an unknown function", CHECK, [spec("[compare]", '[externs]\nf = "exp"\n[compare]')], "[externs] f is declared by neither side"),
    ("an unknown operator", CHECK, [spec("[compare]", '[externs]\nf = "zzz"\n[compare]')], "'zzz' is no operator"),
    ("an empty path", CHECK, [spec(SIDE, 'ptx = ""')], "candidate.ptx must be"),
    ("a zero byte in a path", CHECK, [spec(SIDE, 'ptx = "a\\u0000b"')], "cannot read"),
    ("no such entry", CHECK, [spec(SIDE, SIDE + '\nentry = "k"')], "has no entry 'k'"),
    ("too few arguments", CHECK, [spec(SIDE, SIDE + '\nargs = ["out"]')], "takes 2 arguments"),
    ("too many arguments", CHECK, [spec(SIDE, SIDE + '\nargs = ["x", "out", "x"]')], "takes 2 arguments"),
    ("a number that is no u32", ["check", "scale_add.toml"], [spec("value = 1000", "value = -1", "scale_add.toml")], "-1 is no u32"),
    ("a scalar beyond f32", SCALED, [scalar("1e308")], "argument alpha: 1e+308 is no f32"),
    ("a scalar that rounds to infinity", SCALED, [scalar("-3.40282357e38")], "argument alpha: -3.40282357e+38 is no f32"),
    ("a side's scalar beyond f32", SCALED, [side_scalar("value = 1e39")], "argument alpha: 1e+39 is no f32"),
    ("a side's scalar beyond f16", SCALED, [side_scalar('dtype = "f16"'), scalar("65520.0")], "argument alpha: 65520.0 is no f16"),
    ("infinity for e4m3", SCALED, [side_scalar('dtype = "e4m3"'), scalar("inf")], "argument alpha: inf is no e4m3"),
    ("a scalar beyond f64", SCALED, [scalar("1e400")], "args[3].value is 1e400, which is beyond every float"),
    ("an integer of 401 digits", SCALED, [scalar(str(10**400))], "args[3].value is an integer of 1329 bits"),
    ("an integer of 5000 hexadecimal digits", SCALED, [scalar("0x" + "f" * 5000)], "args[3].value is an integer of 20000 bits"),
    ("an integer of 5000 digits", SCALED, [scalar("1" * 5000)], "scale_add.toml:28:9"),
    ("an integer for a float, beyond it", SCALED, [scalar(str(10**39))], f"argument alpha: {10**39} is no f32"),
    ("a float in a list beyond f64", CHECK, [spec('role = "in"', 'role = "in"\ncontents = [1e999]')], "args[0].contents[0] is 1e999"),
    ("contents beyond f32", CHECK, [contents(f"[{'1e39, ' * 128}]")], "contents of x: a value is beyond the largest f32"),
    ("random contents beyond f64", CHECK, [contents(f'"random:1:0:{"9" * 400}"')], "contents of x: random needs LOW and HIGH"),
    ("contents of 2^31 elements", CHECK, [contents('"arange"'), spec("[128]", "[2147483647]")], "leave them symbolic"),
    ("nan for an integer", ["check", "scale_add.toml"], [spec("value = 1000", "value = nan", "scale_add.toml")], "write an integer"),
]
TRITON = 'triton = "x.py:k"\nconstexprs = {B = 1}'
KERNEL = "import triton, triton.language as tl\n@triton.jit\ndef k(x, out, B: tl.constexpr):\n    tl.store(out, tl.load(x))\n"
PYTHON = spec('ptx = "reduce_serial.ptx"\nblock = [1, 1, 1]', 'python = "r.py:f"')
CODE: list[Case] = [
    ("not allowed", CHECK, [spec(SIDE, TRITON)], "pass --allow-code"),
    ("no such file", ALLOW, [spec(SIDE, TRITON)], "importing x.py failed: FileNotFoundError"),
    ("no such module", ALLOW, [spec(SIDE, 'triton = "no_such_module:k"')], "No module named 'no_such_module'"),
    ("no such name", ALLOW, [spec(SIDE, TRITON), write("x.py", "y = 1\n")], "x.py has no 'k'"),
    ("no kernel", ALLOW, [spec(SIDE, TRITON), write("x.py", "def k(): pass\n")], "x.py:k is no Triton kernel"),
    ("a missing import", ALLOW, [spec(SIDE, TRITON), write("x.py", "import not_there\n")], "No module named 'not_there'"),
    ("a syntax error", ALLOW, [spec(SIDE, TRITON), write("x.py", "def k(:\n")], "SyntaxError"),
    ("imports in a circle", ALLOW, [spec(SIDE, TRITON), write("x.py", "from x import k\n")], "cannot import name 'k'"),
    ("an old target", ALLOW, [spec(SIDE, TRITON + '\ntarget = "cuda:20"'), write("x.py", KERNEL)], "none that Triton compiles for"),
    ("another target", ALLOW, [spec(SIDE, TRITON + '\ntarget = "hip:gfx90a"'), write("x.py", KERNEL)], "candidate.target must be"),
    ("an unknown option", ALLOW, [spec(SIDE, TRITON + "\noptions = {warps = 4}"), write("x.py", KERNEL)], "no option 'warps'"),
    ("three warps", ALLOW, [spec(SIDE, TRITON + "\noptions = {num_warps = 3}"), write("x.py", KERNEL)], "must be a power of 2"),
    ("no constant", ALLOW, [spec(SIDE, 'triton = "x.py:k"'), write("x.py", KERNEL)], "2 arguments for the 3 parameters"),
    ("no such operation", ALLOW, [spec(SIDE, TRITON), write("x.py", KERNEL.replace("tl.load", "tl.lode"))], "has no attribute 'lode'"),
    ("a function that raises", ALLOW, [PYTHON, write("r.py", "def f(x): raise ValueError('boom')\n")], "r.py:1: ValueError: boom"),
    ("a function that exits", ALLOW, [PYTHON, write("r.py", "import sys\ndef f(x): sys.exit(3)\n")], "SystemExit: 3"),
    ("a function without end", ALLOW, [PYTHON, write("r.py", "def f(x): return f(x)\n")], "RecursionError"),
    ("a function of nothing", ALLOW, [PYTHON, write("r.py", "def f(x): return None\n")], "returns None"),
    ("another shape", ALLOW, [PYTHON, write("r.py", "def f(x): return x\n")], "returns shape (128,) for out"),
    ("no function", ALLOW, [PYTHON, write("r.py", "f = 3\n")], "r.py:f is no function"),
]
OTHERS: list[Case] = [
    ("race: no kernel", ["race", "gone.ptx", "--spec", "reduce.toml"], [], "cannot read gone.ptx"),
    ("race: a folder", ["race", ".", "--spec", "reduce.toml"], [], "Is a directory"),
    ("race: no spec", ["race", PTX, "--spec", "gone.toml"], [], "cannot read gone.toml"),
    ("race: PTX as spec", ["race", PTX, "--spec", PTX], [], "not TOML"),
    ("run: no program", ["run", "gone.py"], [], "cannot read gone.py"),
    ("run: a folder", ["run", "."], [], "it is a folder"),
    ("run: a target", ["run", "--target", "sm_80", "p.py"], [write("p.py", "")], "VOLTA_TARGET='sm_80' must be"),
    ("run: an old target", ["run", "--target", "cuda:20", "p.py"], [write("p.py", "")], "75, 80, 86"),
    ("run: a folder as report", ["run", "--report", ".", "p.py"], [write("p.py", "")], "is a folder"),
    ("run: a report nowhere", ["run", "--report", "no/where/r.json", "p.py"], [write("p.py", "")], "no such folder"),
    ("demo: a target", ["demo", "--target", "sm_80"], [], "VOLTA_TARGET='sm_80' must be"),
]
ENTRY = """\
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 x, .param .f32 a, .param .u32 n)
{
    .reg .b64 %d<4>;
    .reg .f32 %f<3>;
    .reg .b32 %r<4>;
    ld.param.u64 %d1, [x];
    ld.param.f32 %f1, [a];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %d2, %r1, 4;
    add.s64 %d3, %d1, %d2;
    st.global.f32 [%d3], %f1;
    ret;
}
"""
ZEROS = array("x.npy", np.zeros(8, np.float32))


def emulated(*arguments: str, grid: str = "1", block: str = "8") -> list[str]:
    return ["emulate", "k.ptx", *arguments, "--grid", grid, "--block", block]


def with_kernel(name: str, argv: list[str], said: str, *steps: Step) -> Case:
    return f"emulate: {name}", argv, [write("k.ptx", ENTRY), *(steps or (ZEROS,))], said


GOOD = emulated("x.npy", "1", "8")
EMULATED: list[Case] = [
    with_kernel("too few arguments", emulated("x.npy"), "takes 3 parameters, 1 arguments"),
    with_kernel("too many arguments", emulated("x.npy", "1", "8", "9"), "takes 3 parameters, 4 arguments"),
    with_kernel("no such array", emulated("y.npy", "1", "8"), "y.npy cannot be read"),
    with_kernel("no array", GOOD, "x.npy cannot be read", write("x.npy", b"junk")),
    with_kernel("a truncated array", GOOD, "x.npy cannot be read", ZEROS, lambda: os.truncate("x.npy", 140)),
    with_kernel("a folder as array", GOOD, "x.npy cannot be read", lambda: Path("x.npy").mkdir()),
    with_kernel("objects", GOOD, "it holds Python objects", array("x.npy", np.array([{}], object), allow_pickle=True)),
    with_kernel("complex numbers", GOOD, "complex128 are not supported", array("x.npy", np.zeros(8, complex))),
    with_kernel("another byte order", GOOD, ">f4 are not supported", array("x.npy", np.zeros(8, ">f4"))),
    with_kernel("a word", emulated("x.npy", "abc", "8"), "'abc' is not understood"),
    with_kernel("a huge integer", emulated("x.npy", "1", str(10**11)), "does not fit parameter n"),
    with_kernel("a huge float", emulated("x.npy", "1e300", "8"), "does not fit parameter a"),
    with_kernel("a float that rounds to infinity", emulated("x.npy", "3.40282357e38", "8"), "does not fit parameter a"),
    with_kernel("an f32 beyond f32", emulated("x.npy", "f32:1e39", "8"), "'f32:1e39': a value is beyond the largest f32"),
    with_kernel("an f16 beyond f16", emulated("x.npy", "f16:65520", "8"), "'f16:65520': a value is beyond the largest f16"),
    with_kernel("a bf16 beyond bf16", emulated("x.npy", "bf16:3.4e38", "8"), "'bf16:3.4e38': a value is beyond the largest bf16"),
    with_kernel("a float beyond f64", emulated("x.npy", "1e400", "8"), "'1e400': a value is beyond the largest f64"),
    with_kernel("an integer of 5000 digits", emulated("x.npy", "1" * 5000, "8"), "beyond the largest f64"),
    with_kernel("a fraction for an integer", emulated("x.npy", "1", "8.5"), "cannot take 8.5"),
    with_kernel("an array for a number", emulated("x.npy", "x.npy", "8"), "an array is given"),
    with_kernel("a huge grid", emulated("x.npy", "1", "8", grid=str(10**20)), "grid.x is"),
    with_kernel("a huge block", emulated("x.npy", "1", "8", block="4096"), "block.x is 4096"),
    with_kernel("no such entry", [*GOOD, "--entry", "zz"], "there is no entry zz"),
    with_kernel("negative shared memory", [*GOOD, "--shared", "-5"], "-5 bytes of dynamic shared memory"),
    with_kernel("a file as folder", [*GOOD, "--out", "k.ptx"], "cannot be written"),
    ("emulate: no kernel", ["emulate", "gone.ptx", "--grid", "1", "--block", "1"], [], "cannot read gone.ptx"),
    ("emulate: no PTX", ["emulate", "k.ptx", "--grid", "1", "--block", "1"], [write("k.ptx", "hello")], "k.ptx:1:1"),
]


@pytest.mark.parametrize("value", ["3.4028234663852886e38", "-3.4028235e38", "1e-300", "inf", "0x10", str(10**38)])
def test_a_scalar_that_f32_has_is_no_error(value: str) -> None:
    """The twins of those beyond it: the largest, what rounds to it, what rounds to zero, infinity when somebody says so."""
    scalar(value)()
    assert main(SCALED) == (3 if value == "inf" else 0)


@pytest.mark.parametrize(
    ("word", "bits"),
    [
        ("3.4028235e38", 0x7F7FFFFF), ("-inf", 0xFF800000), ("-INF", 0xFF800000), ("f32:inf", 0x7F800000), ("bf16:3.38e38", 0x7F7E0000),
        ("f16:65504", 0x477FE000), ("-1e-300", 0x80000000),
    ],
)  # fmt: skip
def test_an_emulated_scalar_that_f32_has_is_no_error(word: str, bits: int) -> None:
    Path("k.ptx").write_text(ENTRY, encoding="utf-8")
    ZEROS()
    assert main(emulated("x.npy", word, "8")) == 0
    assert np.load("x.npy").view(np.uint32).tolist() == [bits] * 8


def named(cases: list[Case], prefix: str = "") -> list[object]:
    return [pytest.param(argv, steps, said, id=prefix + name) for name, argv, steps, said in cases]


@pytest.mark.parametrize(
    ("argv", "steps", "said"),
    [*named(TEXTS, "PTX: "), *named(SPECS, "spec: "), *named(CODE, "code: "), *named(OTHERS), *named(EMULATED)],
)
def test_one_error_with_a_remedy(argv: list[str], steps: list[Step], said: str, capfd: pytest.CaptureFixture[str]) -> None:
    for step in steps:
        step()
    assert main(argv) == 2
    out, err = capfd.readouterr()
    assert said in err and "  help: " in err, err
    assert out == "" and len(re.findall(r"^(?:\w+ )?error: ", err, re.MULTILINE)) == 1, err
    assert "Traceback" not in err and "internal error" not in err and len(err) < 20_000


GOOD_AFTER_ALL = [
    ("a byte order mark", lambda: Path(PTX).write_bytes(b"\xef\xbb\xbf" + Path(PTX).read_bytes())),
    ("carriage returns", lambda: Path(PTX).write_bytes(Path(PTX).read_bytes().replace(b"\n", b"\r\n"))),
    ("a final zero", lambda: Path(PTX).write_bytes(Path(PTX).read_bytes() + b"\0")),
    ("many registers", ptx(".reg .f32 %f<5>;", ".reg .f32 %f<999999999999>;")),
    ("no ret at the end", ptx("ret;", "")),
]


@pytest.mark.parametrize("step", [pytest.param(step, id=name) for name, step in GOOD_AFTER_ALL])
def test_harmless_oddities_are_read(step: Step, capsys: pytest.CaptureFixture[str]) -> None:
    step()
    assert main(CHECK) == 0
    assert "proved" in capsys.readouterr().out


USAGE = [
    ["check", "reduce.toml", "--frob"], ["check", "reduce.toml", "--budget-seconds", "0"],
    ["check", "reduce.toml", "--budget-seconds", "nan"],
    ["check", "reduce.toml", "--budget-instructions", "many"], ["race", PTX], ["run"], ["run", "--mode", "2", "p.py"], ["doctor", "x"],
    ["bench"], ["bench", "x"], ["emulate", "k.ptx", "--block", "1"], ["emulate", "k.ptx", "--grid", "0", "--block", "1"],
    ["emulate", "k.ptx", "--grid", "a,b", "--block", "1"], ["emulate", "k.ptx", "--grid", "-1", "--block", "1"],
]  # fmt: skip


@pytest.mark.parametrize("argv", USAGE, ids=" ".join)
def test_usage(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(argv)
    assert caught.value.code == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("usage: ") and "error: " in err


VALUES = [
    ("VOLTA_VALIDATE", "2"), ("VOLTA_TARGET", "sm_80"), ("VOLTA_TARGET", "cuda:20"), ("VOLTA_TARGET", "cuda:999"), ("VOLTA_SECONDS", "-1"), ("VOLTA_SECONDS", "abc"),
    ("VOLTA_SECONDS", "inf"), ("VOLTA_CTAS", "0"), ("VOLTA_CTAS", "some"), ("VOLTA_DECIDE", "guess"), ("VOLTA_REPORT", "."),
    ("VOLTA_CACHE_DIR", "reduce.toml"), ("VOLTA_DEBUG", "yes"),
]  # fmt: skip


@pytest.mark.parametrize("command", [CHECK, ["doctor"]], ids=["check", "doctor"])
@pytest.mark.parametrize(("name", "value"), VALUES)
def test_variables(name: str, value: str, command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv(name, value)
    assert main(command) == 2
    out, err = capsys.readouterr()
    assert out == "" and f"error: {name}='{value}' " in err and "  help: " in err


def program(*arguments: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'hooks'}"}
    command = [sys.executable, "-m", "volta_pass", "run", *arguments]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=120)


def test_a_module_that_is_not_there() -> None:
    done = program("-m", "no_such_module")
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "error: No module named no_such_module\n  help: " in done.stderr


def test_a_program_s_own_error_is_its_own() -> None:
    Path("p.py").write_text("def f():\n    return 1 / 0\nf()\n", encoding="utf-8")
    done = program("p.py")
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr and done.stderr.count('  File "') == 2
    assert "volta_hooks" not in done.stderr and "runpy" not in done.stderr


@pytest.mark.parametrize("name", ["/proc/r.html", "gone/r.html"])
def test_a_report_that_cannot_be_written_after_all_takes_no_verdict_away(
    name: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The folder looks as if it could be written to, and cannot; or it goes while the kernel is checked."""
    import volta_pass.reports

    if name.startswith("gone"):
        Path("gone").mkdir()
        monkeypatch.setattr(volta_pass.reports, "check_report_path", lambda path: None)
        shutil.rmtree("gone")
        Path("gone").write_text("", encoding="utf-8")
    assert main(["check", "reduce_no_barrier.toml", "--report", name]) == 2
    out, err = capfd.readouterr()
    assert "data race" in out and f"cannot write {name}" in err and "  help: " in err and "internal error" not in err


@pytest.mark.parametrize(("name", "said"), [("", "it is a folder"), ("a" * 300 + ".html", "File name too long")])
def test_a_report_that_cannot_be_is_refused_before_any_work(name: str, said: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([*CHECK, "--report", name]) == 2
    out, err = capfd.readouterr()
    assert said in err and "  help: " in err and out == ""


def test_a_byte_order_mark_is_no_mistake() -> None:
    """Editors on Windows write one."""
    Path("b.toml").write_bytes(b"\xef\xbb\xbf" + Path("reduce.toml").read_bytes())
    assert main(["check", "b.toml"]) == 0


def test_a_form_feed_ends_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Places after it are shown with their own text: compilers count line feeds."""
    text = Path("reduce_no_barrier.ptx").read_text(encoding="utf-8")
    Path("reduce_no_barrier.ptx").write_text(text.replace("LEVEL:", "// \f\x0b\x1c\u2028\x85\nLEVEL:"), encoding="utf-8")
    assert main(["check", "reduce_no_barrier.toml"]) == 1
    lines = Path("reduce_no_barrier.ptx").read_text(encoding="utf-8").split("\n")
    shown = re.findall(r"PTX line (\d+): (.*)", capsys.readouterr().out)
    assert len(shown) == 2 and all(lines[int(number) - 1].strip() == said for number, said in shown)
    assert {said.split()[0] for _, said in shown} == {"st.shared.f32", "ld.shared.f32"}
    Path("scale_add.toml").write_text(f"# \u2028\n# \x85\n{too_large()}", encoding="utf-8")
    assert main(SCALED) == 2
    assert "30 | value = 1e308\n" in capsys.readouterr().err


def too_large() -> str:
    return (EXAMPLES / "scale_add.toml").read_text(encoding="utf-8").replace('value = "symbolic"', "value = 1e308")
