"""Random C functions without undefined behaviour: the same text is compiled for the host and by NVRTC.

Signed arithmetic goes through unsigned types, shift amounts are masked, divisors are positive, floats are clamped before
they become integers, and NaN is replaced before bits are looked at, so that both compilers must give equal bits.
"""

from __future__ import annotations

import random

PRELUDE = """
typedef signed char i8; typedef unsigned char u8; typedef short i16; typedef unsigned short u16;
typedef int i32; typedef unsigned int u32; typedef long long i64; typedef unsigned long long u64;
DEVICE static inline u32 bits_of(float x) { union { float f; u32 u; } v; v.f = x != x ? 0.0f : x; return v.u; }
DEVICE static inline u64 bits_of_double(double x) { union { double f; u64 u; } v; v.f = x != x ? 0.0 : x; return v.u; }
DEVICE static inline float float_of(u32 x) { union { float f; u32 u; } v; v.u = x; return v.f; }
DEVICE static inline double double_of(u64 x) { union { double f; u64 u; } v; v.u = x; return v.f; }
DEVICE static inline u64 mixed(u64 h, u64 x) { h = (h ^ x) * 0x9E3779B97F4A7C15ull; return h ^ (h >> 29); }
"""

HOST = "#include <math.h>\n#define DEVICE\n" + PRELUDE
CUDA = "#define DEVICE __device__\n" + PRELUDE

INTS = ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")
WIDTH = {name: int(name[1:]) for name in INTS}


class Program:
    """One random function ``void compute<n>(const u64 *in, u64 *out)`` and its helper."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.seed = seed
        self.ints: list[tuple[str, str]] = []  # name, type
        self.floats: list[tuple[str, str]] = []
        self.depth = 0
        self.loops = 0

    # --- expressions ------------------------------------------------------------------------

    def integer(self, depth: int = 0) -> tuple[str, str]:
        """An integer expression and its type."""
        r = self.random
        if depth >= 3 or r.random() < 0.25:
            if r.random() < 0.3:
                kind = r.choice(INTS)
                return f"(({kind}){r.choice((0, 1, 2, 3, 7, 31, 127, 128, 255, 4096, 65535, r.getrandbits(31)))})", kind
            name, kind = r.choice(self.ints)
            return name, kind
        form = r.choice(
            (
                "add",
                "sub",
                "mul",
                "div",
                "rem",
                "shl",
                "shr",
                "and",
                "or",
                "xor",
                "not",
                "neg",
                "cast",
                "compare",
                "select",
                "float",
                "bits",
                "index",
            )
        )
        a, kind = self.integer(depth + 1)
        unsigned = "u" + kind[1:]
        b = self.integer(depth + 1)[0]
        if form in ("add", "sub", "mul"):
            wide = unsigned if WIDTH[kind] >= 32 else "u32"  # narrow operands would be promoted to int
            return f"(({kind})(({wide}){a} {'+-*'[('add', 'sub', 'mul').index(form)]} ({wide}){b}))", kind
        if form in ("div", "rem"):
            return f"(({kind})({a} {'/' if form == 'div' else '%'} ({kind})((({unsigned}){b} & 63) + 1)))", kind
        if form == "shl":
            return f"(({kind})((u64){a} << ((u32){b} & {WIDTH[kind] - 1})))", kind
        if form == "shr":
            return f"(({kind})({a} >> ((u32){b} & {WIDTH[kind] - 1})))", kind
        if form in ("and", "or", "xor"):
            return f"(({kind})({a} {'&|^'[('and', 'or', 'xor').index(form)]} ({kind}){b}))", kind
        if form in ("not", "neg"):
            return (f"(({kind})~{a})" if form == "not" else f"(({kind})(0 - (u64){a}))"), kind
        if form == "cast":
            target = r.choice(INTS)
            return f"(({target}){a})", target
        if form == "compare":
            return f"(({kind})({a} {r.choice(('<', '<=', '>', '>=', '==', '!='))} ({kind}){b}))", kind
        if form == "select":
            c = self.integer(depth + 1)[0]
            return f"({c} & 1 ? {a} : ({kind}){b})", kind
        if form == "index":
            return f"table[(u32){a} & 7]", "u32"
        return self._float_to_integer(form, depth)

    def _float_to_integer(self, form: str, depth: int) -> tuple[str, str]:
        x, kind = self.real(depth + 1)
        if form == "bits":
            return (f"bits_of({x})", "u32") if kind == "float" else (f"bits_of_double({x})", "u64")
        suffix = "f" if kind == "float" else ""
        target = self.random.choice(("i32", "i64", "i16", "i8"))
        limit = {"i32": "1e6", "i64": "1e12", "i16": "3e4", "i8": "100.0"}[target]
        return f"(({target})fmin{suffix}(fmax{suffix}({x}, -{limit}{suffix}), {limit}{suffix}))", target

    def real(self, depth: int = 0) -> tuple[str, str]:
        """A float or double expression and its type."""
        r = self.random
        if depth >= 3 or r.random() < 0.3:
            if r.random() < 0.3:
                return r.choice((("1.5f", "float"), ("(-0.25f)", "float"), ("3.0", "double"), ("1e-3", "double"), ("(-7.125)", "double")))
            return r.choice(self.floats)
        form = r.choice(("+", "-", "*", "/", "fma", "sqrt", "round", "cast", "minmax", "abs", "neg", "integer", "select"))
        a, kind = self.real(depth + 1)
        suffix = "f" if kind == "float" else ""
        b = f"({kind}){self.real(depth + 1)[0]}"
        if form in "+-*/":
            return f"({a} {form} {b})", kind
        if form == "fma":
            return f"fma{suffix}({a}, {b}, ({kind}){self.real(depth + 1)[0]})", kind
        if form == "sqrt":
            return f"sqrt{suffix}(fabs{suffix}({a}))", kind
        if form == "round":
            return f"{r.choice(('floor', 'ceil', 'trunc', 'rint'))}{suffix}({a})", kind
        if form == "cast":
            other = "double" if kind == "float" else "float"
            return f"(({other}){a})", other
        if form == "minmax":  # of numbers: the sign of a zero from fmin is free in C
            return f"({r.choice(('fmin', 'fmax'))}{suffix}({a}, {b}) + ({kind})0)", kind
        if form in ("abs", "neg"):
            return (f"fabs{suffix}({a})" if form == "abs" else f"(-{a})"), kind
        if form == "integer":
            return f"(({kind}){self.integer(depth + 1)[0]})", kind
        return f"({self.integer(depth + 1)[0]} & 1 ? {a} : {b})", kind

    # --- statements -------------------------------------------------------------------------

    def assignment(self) -> str:
        r = self.random
        if r.random() < 0.6:
            name, kind = r.choice(self.ints)
            return f"{name} = ({kind}){self.integer()[0]};"
        if r.random() < 0.2:
            return f"table[(u32){self.integer(1)[0]} & 7] = (u32){self.integer(1)[0]};"
        name, kind = r.choice(self.floats)
        return f"{name} = ({kind}){self.real()[0]};"

    def statement(self) -> str:
        r = self.random
        if self.depth >= 3 or r.random() < 0.5:
            return self.assignment()
        self.depth += 1
        kind = r.choice(("if", "for", "switch", "call", "while"))
        body = lambda: " ".join(self.statement() for _ in range(r.randint(1, 3)))  # noqa: E731
        if kind == "if":
            text = f"if ({self.integer(1)[0]} {r.choice(('<', '>', '==', '!='))} {self.integer(1)[0]}) {{ {body()} }} else {{ {body()} }}"
        elif kind == "for":
            self.loops += 1
            i = f"n{self.loops}"
            text = f"for (u32 {i} = 0; {i} < {r.randint(1, 6)}; {i}++) {{ {body()} if ((u32){self.integer(2)[0]} % 7 == 3) break; }}"
        elif kind == "while":
            self.loops += 1
            i = f"n{self.loops}"
            text = f"u32 {i} = (u32){self.integer(2)[0]} & 7; while ({i} > 0) {{ {i}--; if ({i} == 4) continue; {body()} }}"
            text = "{ " + text + " }"
        elif kind == "switch":
            cases = " ".join(f"case {k}: {body()} {'break;' if r.random() < 0.7 else ''}" for k in range(r.randint(2, 5)))
            text = f"switch ((u32){self.integer(1)[0]} & 7) {{ {cases} default: {body()} }}"
        else:
            name, kind_ = r.choice(self.ints)
            text = f"{name} = ({kind_})helper{self.seed}({self.integer(1)[0]}, ({'double'}){self.real(1)[0]});"
        self.depth -= 1
        return text

    def text(self) -> str:
        """The helper and the function."""
        r = self.random
        self.ints, self.floats = [("x", "u64")], [("y", "double")]
        saved, self.depth = self.depth, 3
        helper = (
            f"DEVICE static NOINLINE u64 helper{self.seed}(u64 x, double y) {{ u32 table[8] = {{1, 2, 3, 5, 8, 13, 21, 34}}; "
            + " ".join(self.statement() for _ in range(3)) + " return mixed(x, bits_of_double(y)) + table[x & 7]; }"
        )  # fmt: skip
        self.depth = saved
        self.ints = [(f"v{k}", r.choice(INTS)) for k in range(6)]
        self.floats = [(f"f{k}", r.choice(("float", "double"))) for k in range(4)]
        lines = [f"{kind} {name} = ({kind})(in[{k % 4}] >> {8 * (k // 4)});" for k, (name, kind) in enumerate(self.ints)]
        lines += [f"{kind} {name} = ({kind})(i32)in[{k}] * ({kind})0.0009765625;" for k, (name, kind) in enumerate(self.floats)]
        lines += ["u32 table[8] = {3, 1, 4, 1, 5, 9, 2, 6};", *(self.statement() for _ in range(8))]
        result = [f"h = mixed(h, (u64){name});" for name, _ in self.ints]
        result += [f"h = mixed(h, {'bits_of' if kind == 'float' else 'bits_of_double'}({name}));" for name, kind in self.floats]
        lines += ["u64 h = 1;", *result, "for (u32 k = 0; k < 8; k++) h = mixed(h, table[k]);", "*out = h;"]
        return helper + f"\nDEVICE static void compute{self.seed}(const u64 *in, u64 *out) {{\n  " + "\n  ".join(lines) + "\n}\n"


def host_source(programs: dict[int, str]) -> str:
    """A C file with ``run<seed>(in, out, n)`` for every program."""
    runs = "".join(
        f"void run{s}(const u64 *in, u64 *out, u32 n) {{ for (u32 t = 0; t < n; t++) compute{s}(in + 4 * t, out + t); }}\n"
        for s in programs
    )
    return HOST + "#define NOINLINE __attribute__((noinline))\n" + "".join(programs.values()) + runs


def cuda_source(programs: dict[int, str]) -> str:
    """A CUDA file with an entry ``run<seed>(in, out, n)`` for every program."""
    runs = "".join(
        f'extern "C" __global__ void run{s}(const u64 *in, u64 *out, u32 n) '
        f"{{ u32 t = blockIdx.x * blockDim.x + threadIdx.x; if (t < n) compute{s}(in + 4 * t, out + t); }}\n"
        for s in programs
    )
    return CUDA + "#define NOINLINE __noinline__\n" + "".join(programs.values()) + runs
