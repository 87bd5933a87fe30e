"""Cases of threads that wait for each other, part, and call: mbarriers, barriers, control flow, functions with and without a body.

An mbarrier's phases are counted by one thread here, so that every state is known; what orders memory is the machine's tests' business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import ml_dtypes
import mpmath
import numpy as np
from form_model import Close, format_of
from program_cases import Block, Column, Group
from program_memory import words

# --- mbarriers ------------------------------------------------------------------------------------

_SPACES = ("", ".shared", ".shared::cta")


def _qualified(name: str, semantics: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """(mnemonic, what makes %q1 its address); order and space in both orders."""
    for sem, space in product(("", *(f".{x}.cta" for x in semantics)), _SPACES):
        for order in dict.fromkeys((f"{sem}{space}", f"{space}{sem}")):
            yield f"mbarrier.{name}{order}.b64", "mov.b64 %q1, %s;" + ("" if space else " cvta.shared.u64 %q1, %q1;")


def _init(count: int) -> str:
    return f"mbarrier.init.shared.b64 [%s], {count};"


def _test(state: str, result: str) -> str:
    return f"mbarrier.test_wait.shared.b64 {result}, [%s], {state};"


_ARRIVE, _END = "mbarrier.arrive.shared.b64 {}, [%s];", "mbarrier.inval.shared.b64 [%s]; st.shared.b64 [%s], 0;"
_WAIT = "W: mbarrier.test_wait.shared.b64 %p1, [%s], %q2; @!%p1 bra W;"
_PENDING = "mbarrier.pending_count.b64 {}, {};"

#: name, orders, text, pending counts (%d), outcomes of tests (%t)
_MBARRIERS: list[tuple[str, tuple[str, ...], str, tuple[int, ...], tuple[int, ...]]] = [
    ("init", (), "{form} [%q1], 2; " + _ARRIVE.format("%q2") + _test("%q2", "%t0") + _ARRIVE.format("%q3") + _test("%q2", "%t1"), (), (0, 1)),
    ("arrive", ("release", "relaxed"), _init(2) + "{form} %q2, [%q1]; " + _test("%q2", "%t0") + "{form} %q3, [%q1]; " + _test("%q2", "%t1")
     + _PENDING.format("%d0", "%q2") + _PENDING.format("%d1", "%q3"), (2, 1), (0, 1)),
    ("arrive", ("release", "relaxed"), _init(3) + "{form} %q2, [%q1], 2; " + _test("%q2", "%t0") + "{form} %q3, [%q1], 1; " + _test("%q2", "%t1")
     + _PENDING.format("%d0", "%q2") + _PENDING.format("%d1", "%q3"), (3, 1), (0, 1)),
    # who drops out is not expected in the next phase
    ("arrive_drop", ("release", "relaxed"), _init(2) + "{form} %q2, [%q1]; " + _test("%q2", "%t0") + _ARRIVE.format("%q3") + _test("%q2", "%t1")
     + _WAIT + _ARRIVE.format("%q4") + _test("%q4", "%t2") + _PENDING.format("%d0", "%q2") + _PENDING.format("%d1", "%q4"), (2, 1), (0, 1, 1)),
    ("arrive.noComplete", ("release",), _init(3) + "{form} %q2, [%q1], 2; " + _test("%q2", "%t0") + _ARRIVE.format("%q3") + _test("%q2", "%t1")
     + _WAIT + _ARRIVE.format("%q4") + _test("%q4", "%t2") + _PENDING.format("%d0", "%q3") + _PENDING.format("%d1", "%q4"), (1, 3), (0, 1, 0)),
    ("arrive_drop.noComplete", ("release",), _init(3) + "{form} %q2, [%q1], 2; " + _test("%q2", "%t0") + _ARRIVE.format("%q3")
     + _test("%q2", "%t1") + _WAIT + _ARRIVE.format("%q4") + _test("%q4", "%t2") + _PENDING.format("%d0", "%q3") + _PENDING.format("%d1", "%q4"), (1, 1), (0, 1, 1)),
    # bytes that are expected keep the phase open
    ("arrive.expect_tx", ("release", "relaxed"), _init(1) + "{form} %q2, [%q1], 8; " + _test("%q2", "%t0")
     + "mbarrier.complete_tx.shared.b64 [%s], 8;" + _test("%q2", "%t1"), (), (0, 1)),
    ("arrive_drop.expect_tx", ("release", "relaxed"), _init(2) + "{form} %q2, [%q1], 8; " + _ARRIVE.format("%q3") + _test("%q2", "%t0")
     + "mbarrier.complete_tx.shared.b64 [%s], 8;" + _test("%q2", "%t1") + _WAIT + _ARRIVE.format("%q4") + _test("%q4", "%t2"), (), (0, 1, 1)),
    ("expect_tx", ("relaxed",), _init(1) + "{form} [%q1], 16; " + _ARRIVE.format("%q2") + _test("%q2", "%t0")
     + "mbarrier.complete_tx.shared.b64 [%s], 16;" + _test("%q2", "%t1"), (), (0, 1)),
    ("complete_tx", ("relaxed",), _init(1) + "mbarrier.expect_tx.relaxed.cta.shared.b64 [%s], 16;" + _ARRIVE.format("%q2") + "{form} [%q1], 12; "
     + _test("%q2", "%t0") + "{form} [%q1], 4; " + _test("%q2", "%t1"), (), (0, 1)),
    ("test_wait", ("acquire", "relaxed"), _init(2) + _ARRIVE.format("%q2") + "{form} %t0, [%q1], %q2; " + _ARRIVE.format("%q3") + "{form} %t1, [%q1], %q2;",
     (), (0, 1)),
    ("test_wait.parity", ("acquire", "relaxed"), _init(1) + "{form} %t0, [%q1], 0; {form} %t1, [%q1], 1; " + _ARRIVE.format("%q2")
     + "{form} %t2, [%q1], 0; {form} %t3, [%q1], 1; " + _WAIT + _ARRIVE.format("%q3") + "{form} %t4, [%q1], 1;", (), (0, 1, 1, 0, 1)),
    ("try_wait", ("acquire", "relaxed"), _init(1) + _ARRIVE.format("%q2") + "{form} %t0, [%q1], %q2; {form} %t1, [%q1], %q2, 1000;", (), (1, 1)),
    ("try_wait.parity", ("acquire", "relaxed"), _init(1) + "{form} %t0, [%q1], 1; " + _ARRIVE.format("%q2") + "{form} %t1, [%q1], 0, 1000;", (), (1, 1)),
]  # fmt: skip


_OBJECT = {"s": ("shared", Column(64, (0,)))}


def mbarriers() -> list[Block]:
    """One thread arrives, drops out, expects bytes and tests; a count of pending arrivals is that before the arrival."""
    blocks = []
    for name, semantics, text, counts, outcomes in _MBARRIERS:
        groups = []
        expected = {"d": Column(32, counts)} if counts else {}
        expected["t"] = Column(1, outcomes)
        for make in dict.fromkeys(make for _, make in _qualified(name, semantics)):
            forms = tuple(form for form, its in _qualified(name, semantics) if its == make)
            groups.append(Group((f"{make} {text} {_END}",), forms, expected))
        blocks.append(Block(1, _OBJECT, groups))
    groups = []
    for form, make in _qualified("inval", ()):
        text = f"{_init(1)} {make} {{form}} [%q1]; st.shared.b64 [%s], 5; ld.shared.b64 %d0, [%s]; st.shared.b64 [%s], 0;"
        groups.append(Group((text,), (form,), {"d": Column(64, (5,))}))
    text = f"{_init(7)} {_ARRIVE.format('%q2')} mbarrier.arrive.shared.b64 %q3, [%s], 4; {{form}} %d0, %q2; {{form}} %d1, %q3; {_END}"
    groups.append(Group((text,), ("mbarrier.pending_count.b64",), {"d": Column(32, (7, 6))}))
    return [*blocks, Block(1, _OBJECT, groups)]


# --- barriers of the CTA --------------------------------------------------------------------------


def _barriers(opcode: str, op: str) -> tuple[str, ...]:
    """The mnemonics of an operation, with .cta and .aligned (behind the operation, and before .sync) or without."""
    forms = (f"{opcode}.{op}", f"{opcode}.cta.{op}")
    if opcode == "bar":
        return forms
    found = []
    for form in forms:
        words_ = form.split(".")
        at = words_.index(op.split(".")[0])
        places = range(at + (op != "sync"), len(words_) + 1)
        found += [form] + [".".join((*words_[:i], "aligned", *words_[i:])) for i in places]
    return tuple(found)


def barriers(opcode: str) -> list[Block]:
    """64 threads: what a thread of the other warp stored before is read after; votes of all; arriving without waiting."""
    threads = 64
    value = Column(32, words("barrier", 32, threads))
    q = Column(1, tuple(int(t % 3 == 0) for t in range(threads)))
    operands = {"v": ("in", value), "q_": ("in", q), "s": ("shared", Column(32, (0,) * threads))}
    mirrored = "xor.b32 %r1, %lane, 63; mul.wide.u32 %q1, %r1, 4; add.s64 %q1, %q1, %all_s; ld.shared.b32 %d0, [%q1];"
    back = {"s": value, "d": Column(32, value.numbers[::-1])}
    groups = [
        Group((f"st.shared.b32 [%s], %v0; {{form}} {rest}; {mirrored}",), _barriers(opcode, "sync"), back) for rest in ("1", "1, 64", "%r2")
    ]
    groups[2] = Group(("mov.b32 %r2, 5; " + groups[2].run[0],), groups[2].forms, back)
    # the first warp goes on; the second reads what the first has stored
    text = f"st.shared.b32 [%s], %v0; setp.lt.u32 %p1, %lane, 32; mov.b32 %d0, 0; @%p1 {{form}} 1, 64; @!%p1 {opcode}.sync 1, 64; @%p1 bra ON; {mirrored} ON:"
    half = Column(32, (0,) * 32 + value.numbers[:32][::-1])
    groups.append(Group((text,), _barriers(opcode, "arrive"), {"s": value, "d": half}))
    yes = sum(q.numbers)  # type: ignore[arg-type]
    for sign, count in (("", yes), ("!", threads - yes)):
        for rest in ("1", "1, 64"):
            groups.append(
                Group((f"{{form}} %d0, {rest}, {sign}%q_0;",), _barriers(opcode, "red.popc.u32"), {"d": Column(32, (count,) * threads)})
            )
            for op in ("and", "or"):
                groups.append(
                    Group(
                        (f"{{form}} %t0, {rest}, {sign}%q_0;",),
                        _barriers(opcode, f"red.{op}.pred"),
                        {"t": Column(1, (int(op == "or"),) * threads)},
                    )
                )
    return [Block(threads, operands, groups)]


# --- control flow ---------------------------------------------------------------------------------


def branches() -> list[Block]:
    """Threads that jump over a store, by a predicate or all of them."""
    threads = 32
    lower, upper = (Column(32, tuple(7 * ((t < 4) != low) for t in range(threads))) for low in (True, False))
    head = "setp.lt.u32 %p1, %lane, 4; mov.b32 %d0, 0; "
    none = Column(32, (0,) * threads)
    groups = [
        Group((head + "@%p1 {form} END; mov.b32 %d0, 7; END:",), ("bra",), {"d": lower}),
        Group((head + "@!%p1 {form} END; mov.b32 %d0, 7; END:",), ("bra",), {"d": upper}),
        Group((head + "{form} END; mov.b32 %d0, 7; END:",), ("bra", "bra.uni"), {"d": none}),
        Group(("mov.b32 %d0, 0; LOOP: add.u32 %d0, %d0, 1; setp.le.u32 %p1, %d0, %lane; @%p1 {form} LOOP;",), ("bra",),
              {"d": Column(32, tuple(range(1, 33)))}),
    ]  # fmt: skip
    table = "T: .branchtargets A, B, C; {0} {{form}} %r1, T; A: add.u32 %d0, %d0, 1; B: add.u32 %d0, %d0, 10; C: add.u32 %d0, %d0, 100;"
    fall = (111, 110, 100)
    groups += [
        Group(
            ("mov.b32 %d0, 0; rem.u32 %r1, %lane, 3; " + table.format(""),),
            ("brx.idx",),
            {"d": Column(32, tuple(fall[t % 3] for t in range(threads)))},
        ),
        Group(("mov.b32 %d0, 0; mov.b32 %r1, 1; " + table.format(""),), ("brx.idx", "brx.idx.uni"), {"d": Column(32, (110,) * threads)}),
    ]
    module = tuple(
        f".func (.reg .b32 x) leaves_{i}(.reg .b32 y) {{ .reg .pred %p; setp.lt.u32 %p, y, 4; mov.b32 x, 0; {text} mov.b32 x, 7; ret; }}"
        for i, text in enumerate(("@%p ret;", "@!%p ret;", "ret.uni;"))
    )
    for i, wanted in enumerate((lower, upper, none)):
        groups.append(Group((f"call (%d0), leaves_{i}, (%lane);",), (), {"d": wanted}))
    return [Block(threads, {}, groups, module)]


def endings(name: str) -> list[Block]:
    """What a thread stored before it ends stands; what comes after it does not happen. A trap is a finding besides."""
    threads = 32
    blocks = []
    for form in ("ret", "ret.uni") if name == "ret" else (name,):
        for guard, ends in (("", lambda t: True), ("@%p1 ", lambda t: t < 4), ("@!%p1 ", lambda t: t >= 4)):
            if form.endswith("uni") and guard:
                continue
            wanted = Column(32, tuple(1 if ends(t) else 2 for t in range(threads)))
            run = f"setp.lt.u32 %p1, %lane, 4; st.global.b32 [%g], 1; {guard}{{form}}; st.global.b32 [%g], 2;"
            group = Group((run,), (form,), {"g": wanted}, ("trap",) if name == "trap" else ())
            blocks.append(Block(threads, {"g": ("global", Column(32, (0,) * threads))}, [group]))
    return blocks


# --- calls ----------------------------------------------------------------------------------------

_FUNCTIONS = (
    ".func (.reg .b32 x) twice(.reg .b32 y) { add.u32 x, y, y; ret; }",
    ".func (.param .b32 x) fourfold(.param .b32 y) { .reg .b32 %a<4>; ld.param.b32 %a0, [y]; call.uni (%a1), twice, (%a0); call.uni (%a2), twice, (%a1); "
    "st.param.b32 [x], %a2; ret; }",
    ".func (.param .align 8 .b8 x[16]) swap(.param .align 8 .b8 y[16]) { .reg .b64 %a<2>; ld.param.v2.b64 {%a0, %a1}, [y]; st.param.b64 [x], %a1; "
    "st.param.b64 [x+8], %a0; ret; }",
    ".func store(.param .b64 place, .param .b32 value) { .reg .b64 %a; .reg .b32 %b; ld.param.b64 %a, [place]; ld.param.b32 %b, [value]; st.global.b32 [%a], %b; ret; }",
    ".func (.reg .b32 x) triangle(.reg .b32 n) { .reg .pred %p; .reg .b32 %i; mov.b32 x, 0; mov.b32 %i, 0; L: add.u32 x, x, %i; add.u32 %i, %i, 1; "
    "setp.le.u32 %p, %i, n; @%p bra L; ret; }",
)  # fmt: skip


def calls() -> list[Block]:
    """Parameters and results in registers and in .param, structures, nothing returned, loops, calls in calls, calls of some lanes."""
    threads = 8
    value = Column(32, words("call", 32, threads))
    low = 2**32
    numbers = [int(x) for x in value.numbers]  # type: ignore[arg-type]
    wide = Column(64, words("swap", 64, 2 * threads))
    param = ".param .b32 x; .param .b32 y; st.param.b32 [y], %v0; {form} (x), fourfold, (y); ld.param.b32 %d0, [x];"
    swapped = tuple(wide.numbers[2 * t + 1 - i] for t in range(threads) for i in (0, 1))
    groups = [
        Group(("{form} (%d0), twice, (%v0);",), ("call", "call.uni"), {"d": Column(32, tuple(2 * x % low for x in numbers))}),
        Group(("{form} (%d0), twice, (21);",), ("call", "call.uni"), {"d": Column(32, (42,) * threads)}),
        Group((param,), ("call", "call.uni"), {"d": Column(32, tuple(4 * x % low for x in numbers))}),
        Group((".param .align 8 .b8 x[16]; .param .align 8 .b8 y[16]; st.param.v2.b64 [y], {%w_0, %w_1}; {form} (x), swap, (y); ld.param.v2.b64 {%d0, %d1}, [x];",),
              ("call", "call.uni"), {"d": Column(64, swapped)}),
        Group((".param .b64 x; .param .b32 y; st.param.b64 [x], %g; st.param.b32 [y], %v0; {form} store, (x, y);",), ("call", "call.uni"), {"g": value}),
        Group(("{form} (%d0), triangle, (%lane);",), ("call",), {"d": Column(32, tuple(t * (t + 1) // 2 for t in range(threads)))}),
        Group(("mov.b32 %d0, 5; setp.lt.u32 %p1, %lane, 3; @%p1 {form} (%d0), twice, (%v0);",), ("call",),
              {"d": Column(32, tuple(2 * x % low if t < 3 else 5 for t, x in enumerate(numbers)))}),
    ]  # fmt: skip
    operands = {"v": ("in", value), "w_": ("in", wide), "g": ("global", Column(32, (0,) * threads))}
    return [Block(threads, operands, groups, _FUNCTIONS)]


#: operator -> what it is in mpmath, by arguments
EXTERNS: dict[str, Callable[..., "mpmath.mpf"]] = {
    "exp": mpmath.exp, "exp2": lambda x: mpmath.power(2, x), "log": mpmath.log, "log2": lambda x: mpmath.log(x, 2), "sqrt": mpmath.sqrt,
    "rsqrt": lambda x: 1 / mpmath.sqrt(x), "rcp": lambda x: 1 / x, "tanh": mpmath.tanh, "sin": mpmath.sin, "cos": mpmath.cos, "erf": mpmath.erf,
    "abs": abs, "neg": lambda x: -x, "floor": mpmath.floor, "ceil": mpmath.ceil, "trunc": lambda x: mpmath.mpf(int(x)), "rint": mpmath.nint, "max": max,
    "min": min, "pow": mpmath.power, "fma": lambda x, y, z: x * y + z,
}  # fmt: skip
ARITIES = {"max": 2, "min": 2, "pow": 2, "fma": 3}
NUMBERS = (0.5, 1.0, 1.5, 2.25, 3.5, 0.0625, 7.0, 2.5)
_TYPES = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16), "f32": np.dtype(np.float32), "f64": np.dtype(np.float64)}


def externs() -> list[Block]:
    """Functions without a body that a launch declares to be operators: within an ulp of mpmath's result."""
    return [_externs(kind) for kind in _TYPES]


def _externs(kind: str) -> Block:
    dtype, bits = _TYPES[kind], 8 * _TYPES[kind].itemsize
    operands, module, names, groups = {}, [], {}, []
    lists = [list(NUMBERS), [*NUMBERS[3:], *NUMBERS[:3]], [*NUMBERS[6:], *NUMBERS[:6]]]
    for letter, row in zip("xyz", lists):
        operands[letter] = "in", Column(bits, tuple(int(v) for v in np.array(row, dtype).view(f"u{bits // 8}")))
    unit = 2.0 ** -{"f16": 10, "bf16": 7, "f32": 23, "f64": 52}[kind]
    for operator, exact in EXTERNS.items():
        arity = ARITIES.get(operator, 1)
        parameters = ", ".join(f".param .{kind} p{i}" for i in range(arity))
        module.append(f".extern .func (.param .{kind} r) {operator}_{kind}({parameters});")
        names[f"{operator}_{kind}"] = operator
        lines = [
            f".param .{kind} r;",
            *(f".param .{kind} p{i}; st.param.b{bits} [p{i}], %{letter}0;" for i, letter in zip(range(arity), "xyz")),
        ]
        lines.append(f"call (r), {operator}_{kind}, ({', '.join(f'p{i}' for i in range(arity))}); ld.param.b{bits} %d0, [r];")
        with mpmath.workprec(120):
            values = [float(exact(*map(mpmath.mpf, row))) for row in zip(*lists[:arity])]
        close = tuple(Close(value, format_of(kind), unit, 0.0) for value in values)
        groups.append(Group((" ".join(lines),), (), {"d": Column(bits, close)}))
    return Block(len(NUMBERS), operands, groups, tuple(module), names)
