"""Cases of matrices: products by NumPy, in fragments laid out by the ISA's formulas (``fragment_formulas``); moves of matrices by indices."""

from __future__ import annotations

import zlib
from collections import defaultdict

import fragment_formulas as formulas
import numpy as np
import test_tensor_mma as dense
import test_tensor_sparse as sparse
import test_tensor_wmma as wmma
from fragment_formulas import Place
from program_cases import Block, Column, Group
from test_matrix_moves import expected_fragments, fragment_of_bytes
from test_tensor_mma import BITS, NUMPY, draw, pack, table

LANES = 32


def column(array: np.ndarray) -> Column:
    """The bits of an array in its order."""
    flat = np.ascontiguousarray(array)
    bits = flat.view(f"u{flat.itemsize}")
    return Column(8 * flat.itemsize, tuple(int(x) for x in bits.ravel()))


def registers(matrix: np.ndarray, where: np.ndarray, kind: str) -> Column:
    """A fragment: (lanes, elements) places in the matrix, packed into registers."""
    return column(pack(matrix[where[..., 0], where[..., 1]], kind).reshape(LANES, -1))


def seeded(name: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(name.encode()))


def accumulators(name: str, kind: str, shape: tuple[int, int]) -> np.ndarray:
    """Numbers to add to; integers near both ends of the range among them, where sums wrap or are clamped."""
    found = draw(seeded(name), kind, shape)
    if kind == "s32":
        found[0::3], found[1::3] = 2**31 - 1 - found[0::3] % 16, -(2**31) + found[1::3] % 16
    return found


def _run(names: str, columns: dict[str, Column], last: str = "") -> str:
    counts = {name: len(columns[name].numbers) // LANES for name in names}
    fields = ", ".join("{" + ", ".join(f"%{name}{i}" for i in range(counts[name])) + "}" for name in names)
    return f"{{form}} {fields}{last};"


def products() -> list[Block]:
    """mma: a block for the multiplicands of each shape and type."""
    blocks: dict[tuple[int, int, str, str], Block] = {}
    for case in dense.cases():
        rng = seeded(f"{case.m} {case.k} {case.a} {case.b}")
        a, b = draw(rng, case.a, (case.m, case.k)), draw(rng, case.b, (case.k, 8))
        c = accumulators(f"{case.m} {case.c}", case.c, (case.m, 8))
        ta, tb, tc = (table(place, count) for place, count in zip(dense.places(case), dense.sizes(case)))
        block = blocks.setdefault((case.m, case.k, case.a, case.b), Block(LANES, {}))
        name = f"c{case.c}_"
        block.operands.update(a=("in", registers(a, ta, case.a)), b=("in", registers(b, tb, case.b)))
        block.operands[name] = "in", registers(c, tc, case.c)
        result = registers(dense.expected(case, a, b, c), tc, case.d)
        columns = {"d": result, "a": block.operands["a"][1], "b": block.operands["b"][1], "c": block.operands[name][1]}
        run = _run("dabc", columns).replace("%c", f"%{name}")
        block.groups.append(Group((run,), (f"mma.sync.aligned.{case.form}",), {"d": result}))
    return [*blocks.values(), *_quads()]


def _quads() -> list[Block]:
    """m8n8k4: four products, each by two quads."""
    rng = seeded("quads")
    a, b, c = (rng.integers(-3, 4, (4, *shape)) / 2 for shape in ((8, 4), (4, 8), (8, 8)))

    def fragment(matrix: np.ndarray, place: Place, count: int, kind: str) -> Column:
        rows = [[matrix[formulas.product_of(lane)][place(lane, i)] for i in range(count)] for lane in range(LANES)]
        return column(np.array(rows, NUMPY[kind]).view(np.uint32))

    blocks = []
    for left in ("row", "col"):
        for right in ("row", "col"):
            columns = {"a": fragment(a, formulas.quad_a(left), 4, "f16"), "b": fragment(b, formulas.quad_b(right), 4, "f16")}
            for kind in ("f16", "f32"):
                columns[f"c{kind}_"] = fragment(c, formulas.quad_c(kind == "f16"), 8, kind)
            groups = []
            for c_kind, d_kind in (("f16", "f16"), ("f32", "f32"), ("f16", "f32")):
                result = fragment(a @ b + c, formulas.quad_c(d_kind == "f16"), 8, d_kind)
                run = _run("dabc", {"d": result, "c": columns[f"c{c_kind}_"], **columns}).replace("%c", f"%c{c_kind}_")
                groups.append(Group((run,), (f"mma.sync.aligned.m8n8k4.{left}.{right}.{d_kind}.f16.f16.{c_kind}",), {"d": result}))
            blocks.append(Block(LANES, {name: ("in", value) for name, value in columns.items()}, groups))
    return blocks


def sparse_products() -> list[Block]:
    """mma.sp: a structured sparse A, compressed by the ISA's description, against the dense product; every selector."""
    blocks = []
    for k, a, b, c in sparse.CASES:
        rng = seeded(f"{k} {a} {b} {c}")
        whole, kept, codes = sparse.compress(rng, a, k)
        right, acc = draw(rng, b, (k, 8)), accumulators(f"{k} {a} {c}", c, (16, 8))
        ta, tb, tc = sparse.a_place(a, k // 2), np.array(sparse.b_place(b, k)), table(formulas.accumulator(16), 4)
        operands = {"a": ("in", registers(kept, ta, a)), "b": ("in", registers(right, tb, b)), "c": ("in", registers(acc, tc, c))}
        total = whole @ right + acc
        groups = []
        for selector in range(sparse.selectors(k, a)):
            operands[f"e{selector}_"] = "in", column(sparse.metadata(a, k, codes, selector))
            for saturated in ("", ".satfinite")[: 2 if c == "s32" else 1]:
                wrapped = np.clip(total, -(2**31), 2**31 - 1) if saturated else total
                value = wrapped.astype(np.int64).astype(np.int32) if c == "s32" else wrapped.astype(NUMPY[c])
                result = registers(value, tc, c)
                run = _run("dabc", {"d": result, **{name: x for name, (_, x) in operands.items()}}, f", %e{selector}_0, {selector}")
                tail = f"sync.aligned.m16n8k{k}.row.col{saturated}.{c}.{a}.{b}.{c}"
                groups.append(Group((run,), (f"mma.sp.{tail}", f"mma.sp::ordered_metadata.{tail}"), {"d": result}))
        blocks.append(Block(LANES, operands, groups))
    return blocks


#: layouts of A, B, C and D, and where the matrices lie
LAYOUTS = ("rcrr", "rcrc", "rccr", "rrcr", "ccrc", "crcc")
SPACES = (("global", "global"), ("shared", "shared"), ("shared", "shared::cta"), ("global", ""))


def warp_products() -> list[Block]:
    """wmma: load, multiply, store; layouts go round the cases of a block, spaces the blocks, or the cases where a shape has one block."""
    drawn: dict[tuple[object, ...], list[tuple[object, ...]]] = defaultdict(list)
    for case in wmma.cases():
        drawn[case[:3]].append(case)
    return [_wmma_block(i, members) for i, members in enumerate(drawn.values())]


def _wmma_block(index: int, members: list[tuple[object, ...]]) -> Block:
    (m, n, k), a, b = members[0][:3]  # type: ignore[misc]
    rng = seeded(f"{m} {n} {k} {a}")
    left, right = draw(rng, a, (m, k)), draw(rng, b, (k, n))
    operands: dict[str, tuple[str, Column]] = {}
    groups = []

    def place(name: str, matrix: np.ndarray, kind: str, layout: str, memory: str) -> str:
        """The name of an operand with the matrix in a layout."""
        full = f"{name}_{layout}_{memory}"
        operands[full] = memory, column(wmma.in_memory(matrix, kind, layout))
        return full

    several = LAYOUTS[:3] if BITS[a] < 8 else LAYOUTS  # matrices of less than a byte an element are row-major by column-major
    for turn in range(max(len(members), 4 if (m, n, k) in wmma.HALF else 6)):
        case, layouts = members[turn % len(members)], several[(index + turn) % len(several)]
        c, d, op = case[3:]
        acc = accumulators(f"{m} {n} {c}", c, (m, n))
        memory, space = SPACES[(index + index // 4 if (m, n, k) in wmma.HALF else turn + index) % len(SPACES)]
        names = [place(x, y, kind, lay, memory) for x, y, kind, lay in zip("xyz", (left, right, acc), (a, b, c), layouts)]
        names[2] = place(f"z{c}", acc, c, layouts[2], memory)
        operands.pop(f"z_{layouts[2]}_{memory}")
        result = wmma.expected(left, right, acc, a, d, op)
        out = column(wmma.in_memory(result, d, layouts[3]))
        operands.setdefault(f"o{d}_{memory}", (memory, Column(out.bits, (0,) * len(out.numbers))))
        text = _wmma_text((m, n, k), (a, b, c, d, op), layouts, space, [*names, f"o{d}_{memory}"], turn % 2 == 0)
        groups.append(Group((text,), (), {f"o{d}_{memory}": out}))
    return Block(LANES, operands, groups)


def _wmma_text(
    shape: tuple[int, int, int], kinds: tuple[str, str, str, str, str], layouts: str, space: str, names: list[str], stride: bool
) -> str:
    """Load, multiply, store, as one line; a stride where it is the leading extent may be left out."""
    a, b, c, d, op = kinds
    name = f"m{shape[0]}n{shape[1]}k{shape[2]}"
    full = [{"r": "row", "c": "col"}[x] for x in layouts]
    counts = wmma.register_counts(shape, a, b, c, d)
    extents = {"a": (shape[0], shape[2]), "b": (shape[2], shape[1]), "c": shape[:2], "d": shape[:2]}
    strides = {x: f", {extents[x][1] if layout == 'row' else extents[x][0]}" if stride else "" for x, layout in zip("abcd", full)}
    where = f".{space}" if space else ""
    lines = [f".reg .b{64 if kind == 'f64' else 32} %{x}<{counts[x]}>;" for x, kind in zip("abcd", (a, b, c, d))]
    lines += [
        f"wmma.load.{x}.sync.aligned.{layout}.{name}{where}.{kind} {_braced(x, counts[x])}, [%all_{operand}]{strides[x]};"
        for x, layout, kind, operand in zip("abc", full, (a, b, c), names)
    ]
    types = f"{d}.{c}" if a == "f16" else f"{d}.{a}.{b}.{c}"
    prefix, suffix, rounding = (
        f"{op}.popc." if a == "b1" else "",
        f".{op}" if op == "satfinite" else "",
        f".{op}" if op in wmma.ROUNDINGS else "",
    )
    lines.append(
        f"wmma.mma.{prefix}sync.aligned.{full[0]}.{full[1]}.{name}{rounding}.{types}{suffix} "
        + ", ".join(_braced(x, counts[x]) for x in "dabc") + ";"
    )  # fmt: skip
    lines.append(f"wmma.store.d.sync.aligned.{full[3]}.{name}{where}.{d} [%all_{names[3]}], {_braced('d', counts['d'])}{strides['d']};")
    return " ".join(lines)


def _braced(name: str, count: int) -> str:
    return "{" + ", ".join(f"%{name}{i}" for i in range(count)) + "}"


# --- moves ----------------------------------------------------------------------------------------


def _row(count: int, step: int) -> str:
    return f"and.b32 %r1, %lane, {count - 1}; mul.wide.u32 %q1, %r1, {step}; add.s64 %q1, %q1, %all_s;"


def _generic(space: str) -> str:
    return "" if space else " cvta.shared.u64 %q1, %q1;"


def matrix_loads() -> list[Block]:
    """ldmatrix: lane l gives the address of row l; elements 2(l%4) and 2(l%4)+1 of row l/4 of each matrix come to lane l."""
    tile = np.arange(256, dtype=np.uint16) * 257
    groups = []
    for num in (1, 2, 4):
        for trans in ("", ".trans"):
            wanted = column(expected_fragments(tile, num, bool(trans)).astype(np.uint16).view(np.uint32))
            for space in ("", ".shared", ".shared::cta"):
                names = (f"ldmatrix.sync.aligned.m8n8.x{num}{trans}{space}.b16", f"ldmatrix.sync.aligned.x{num}{trans}.m8n8{space}.b16")
                run = f"{_row(8 * num, 16)}{_generic(space)} {{form}} {_braced('d', num)}, [%q1];"
                groups.append(Group((run,), names, {"d": wanted}))
    blocks = [Block(LANES, {"s": ("shared", column(tile))}, groups)]
    data = seeded("bytes").permutation(512).astype(np.uint8)
    groups = []
    for num in (1, 2):
        wanted = column(fragment_of_bytes(data, num).astype(np.uint8).view(np.uint32))
        for space in ("", ".shared", ".shared::cta"):
            run = f"{_row(16 * num, 16)}{_generic(space)} {{form}} {_braced('d', 2 * num)}, [%q1];"
            groups.append(Group((run,), (f"ldmatrix.sync.aligned.m16n16.x{num}.trans{space}.b8",), {"d": wanted}))
    return [*blocks, Block(LANES, {"s": ("shared", column(data))}, groups)]


def matrix_stores() -> list[Block]:
    """stmatrix: fragments back to rows."""
    blocks = []
    tile = np.arange(256, dtype=np.uint16) * 129
    for num in (1, 2, 4):
        for trans in ("", ".trans"):
            fragment = column(expected_fragments(tile, num, bool(trans)).astype(np.uint16).view(np.uint32))
            wanted = column(np.concatenate([tile[: 64 * num], np.full(256 - 64 * num, 7, np.uint16)]))
            groups = []
            for space in ("", ".shared", ".shared::cta"):
                names = (f"stmatrix.sync.aligned.m8n8.x{num}{trans}{space}.b16", f"stmatrix.sync.aligned.x{num}{trans}.m8n8{space}.b16")
                run = f"{_row(8 * num, 16)}{_generic(space)} {{form}} [%q1], {_braced('v', num)};"
                groups.append(Group((run,), names, {"s": wanted}))
            operands = {"v": ("in", fragment), "s": ("shared", Column(16, (7,) * 256))}
            blocks.append(Block(LANES, operands, groups))
    return [*blocks, *_byte_stores()]


def _byte_stores() -> list[Block]:
    """16x8 matrices of bytes whose columns become rows of memory."""
    blocks, lane = [], np.arange(LANES)
    for num in (1, 2, 4):
        matrices = np.arange(128 * num, dtype=np.uint16).reshape(num, 16, 8).astype(np.uint8) ^ 0x5A
        places = [(i, lane // 4 + 8 * (j // 2), 2 * (lane % 4) + j % 2) for i in range(num) for j in range(4)]
        fragment = column(np.ascontiguousarray(np.stack([matrices[p] for p in places], 1)).view(np.uint32))
        stored = matrices.swapaxes(1, 2).ravel()
        wanted = column(np.concatenate([stored, np.zeros(512 - 128 * num, np.uint8)]))
        groups = []
        for space in ("", ".shared", ".shared::cta"):
            run = f"{_row(8 * num, 16)}{_generic(space)} {{form}} [%q1], {_braced('v', num)};"
            groups.append(Group((run,), (f"stmatrix.sync.aligned.m16n8.x{num}.trans{space}.b8",), {"s": wanted}))
        blocks.append(Block(LANES, {"v": ("in", fragment), "s": ("shared", Column(8, (0,) * 512))}, groups))
    return blocks


def transpositions() -> list[Block]:
    """movmatrix: the fragment of the transposed matrix."""
    matrix = np.arange(64, dtype=np.uint16).reshape(8, 8)
    before, after = (column(expected_fragments(matrix, 1, trans).astype(np.uint16).view(np.uint32)) for trans in (False, True))
    return [Block(LANES, {"v": ("in", before)}, [Group(("{form} %d0, %v0;",), ("movmatrix.sync.aligned.m8n8.trans.b16",), {"d": after})])]
