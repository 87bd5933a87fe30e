"""One term of every operator, and their fingerprints at seed 5: printed as JSON when run as a program."""

from __future__ import annotations

import json
import sys

import numpy as np
from gmpy2 import mpq

from ptx_engine.decide.fingerprint import fingerprint
from ptx_engine.terms import TABLE, Arena, Const, Op

#: plain operands of the operators that have any
_PLAIN = {Op.WRAP: (-8, 0), Op.FIELD: (3, 5)}


def terms(order: str = "=") -> tuple[Arena, dict[str, int]]:
    """An arena and a term for every operator; records are given as arrays of one byte order."""
    arena = Arena()
    x, k = arena.add_input("x", 8, "f32"), arena.add_input("k", 4, "s8")
    ids = np.asarray(x.ids(np.arange(8))).astype(f"{order}i4")
    i, j = (int(k.ids(n)) for n in (0, 1))  # type: ignore[arg-type]
    a, b, c = (int(n) for n in ids[:3])
    made: dict[str, int] = {}
    for op, row in TABLE.items():
        if op is Op.CONST:
            made["CONST"] = arena.const(Const(mpq(3, 4), log2e=1, pi=-1))
        elif op is Op.DOT:
            made["DOT"] = int(arena.dot(ids[None, None, :3], ids[None, None, 3:6], ids[None, None, 6:7]).ravel()[0])
        elif row.record:
            made[op.name] = int(arena.nary(op, ids[None, :5]).ravel()[0])
        elif op is Op.OPAQUE:
            made["OPAQUE"] = int(arena.opaque("prmt", a, b))  # type: ignore[call-overload]
        elif op in _PLAIN:
            made[op.name] = int(arena.emit(op, i, *_PLAIN[op]))  # type: ignore[call-overload]
        else:
            first, second = (i, j) if op >= Op.FLOORDIV else (a, b)
            made[op.name] = int(arena.emit(op, *(first, second, c)[: row.arity]))  # type: ignore[call-overload]
    e = arena.exp(arena.sub(a, arena.maximum(a, b)))
    made["softmax"] = int(arena.div(e, arena.add(e, arena.exp(arena.sub(b, arena.maximum(b, a))))))  # type: ignore[call-overload]
    return arena, made


def values(order: str = "=") -> dict[str, list[int]]:
    """The fingerprint of each term at four points."""
    arena, made = terms(order)
    found = fingerprint(arena, np.array(list(made.values()), np.int32).astype(f"{order}i4"), seed=5)
    return {name: [int(v) for v in row] for name, row in zip(made, found)}


if __name__ == "__main__":
    print(json.dumps(values(sys.argv[1] if len(sys.argv) > 1 else "=")))
