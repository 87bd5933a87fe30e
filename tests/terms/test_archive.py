"""Archived terms mean in another arena what they meant in their own; bytes that are none give ArchiveError and nothing else."""

import random

import numpy as np
import pytest
from gmpy2 import mpq
from hypothesis import given, settings
from hypothesis import strategies as st

from ptx_engine.decide.fingerprint import fingerprint
from ptx_engine.terms import Arena, Const, Op
from ptx_engine.terms.archive import ArchiveError, pack_terms, unpack_terms
from ptx_engine.terms.storage import CONST_CAP

N = 8


def arena_of(*names):
    arena = Arena()
    return arena, {name: arena.add_input(name, N, "f32") for name in names}


def sample(arena, inputs):
    """Terms of every kind: chains, records that share operands, constants, opaque operations, a scalar emission."""
    x, y = (inputs[name].ids(np.arange(N)) for name in "xy")
    scaled = arena.mul(x, arena.rational(mpq(3, 7)))
    powers = arena.exp(arena.sub(scaled, arena.maximum(x, y)))
    total = arena.nary(Op.NSUM, np.broadcast_to(powers, (N, N)).copy())
    product = arena.dot(np.stack([x, y])[None], np.stack([powers, y])[None], np.zeros((1, 2, 2), np.int32))
    one = arena.fma(int(x[0]), int(y[1]), arena.const(Const(mpq(1), log2e=1)))
    odd = arena.opaque("bits", arena.div(powers, total), y)
    chosen = arena.select(arena.compare(Op.LT, x, y), odd, arena.unary(Op.TANH, total))
    return {
        "out": (np.arange(N) * 3, chosen),
        "few": (np.array([1, 5, 6, 9]), product.ravel()),
        "one": (np.array([4]), np.array([one], np.int32)),
    }


def prints(arena, written):
    return {name: (index.tolist(), fingerprint(arena, ids).tolist()) for name, (index, ids) in written.items()}


def test_terms_mean_the_same_in_another_arena_with_other_ids():
    first, inputs = arena_of("x", "y")
    written = sample(first, inputs)
    data = pack_terms(first, written)
    second, others = arena_of("w", "y", "x")
    second.add(others["w"].ids(np.arange(N)), others["w"].ids(np.arange(N)))
    second.opaque("another", -1)
    second.rational(11)
    sample(second, others)
    found = unpack_terms(data, second)
    assert prints(second, found.written) == prints(first, written)
    assert unpack_terms(pack_terms(second, found.written), arena_of("x", "y", "w")[0]).terms == found.terms


def test_another_operand_is_seen():
    """The twin: fingerprints tell other terms apart, so that equal ones say something."""
    first, inputs = arena_of("x", "y")
    swapped = {"x": inputs["y"], "y": inputs["x"]}
    assert prints(first, sample(first, inputs)) != prints(first, sample(first, swapped))


def test_only_what_stands_below_the_outputs_is_kept():
    arena, inputs = arena_of("x", "y")
    x = inputs["x"].ids(np.arange(N))
    kept = arena.neg(x)
    for _ in range(50):
        arena.exp2(arena.add(x, kept))
    other = arena_of("x", "y")[0]
    assert unpack_terms(pack_terms(arena, {"out": (np.arange(N), kept)}), other).terms == N
    assert len(other) == CONST_CAP + N


def test_what_vanished_is_told_again():
    """A factor under zero may be undefined: the decider must hear of it wherever the terms go."""
    arena, inputs = arena_of("x", "y")
    x = inputs["x"].ids(np.arange(N))
    with arena.ledger() as noted:
        zero = arena.mul(arena.log2(x), 0)
    written = {"out": (np.arange(N), np.broadcast_to(np.asarray(zero, np.int32), (N,)).copy())}
    other = arena_of("x", "y")[0]
    unpack_terms(pack_terms(arena, written, noted.dropped, noted.denominators), other)
    assert sum(map(len, other.dropped)) == N and sum(map(len, arena.dropped)) == N
    silent = arena_of("x", "y")[0]
    unpack_terms(pack_terms(arena, written), silent)
    assert not silent.dropped


def test_a_ledger_notes_what_was_leaned_on_before_too():
    arena = Arena()
    arena.float_bits(0x3FB8AA3B, "f32")  # log2(e) in f32
    with arena.ledger() as noted:
        arena.float_bits(0x3FB8AA3B, "f32")
    assert len(noted.assumptions) == 1 and list(arena.assumptions) == noted.assumptions
    with arena.ledger() as nothing:
        arena.float_bits(0x40000000, "f32")
    assert nothing.assumptions == []


def test_constants_beyond_the_interned_ones():
    arena, inputs = arena_of("x", "y")
    many = arena.integers(np.arange(CONST_CAP + 20))
    values = arena.add(inputs["x"].ids(np.arange(N)), many[-N:])
    found = unpack_terms(pack_terms(arena, {"out": (np.arange(N), values)}), fresh := arena_of("x", "y")[0])
    assert prints(fresh, found.written) == prints(arena, {"out": (np.arange(N), values)})
    full = arena_of("x", "y")[0]
    full.integers(-np.arange(CONST_CAP + 20))
    found = unpack_terms(pack_terms(arena, {"out": (np.arange(N), values)}), full)
    assert prints(full, found.written) == prints(arena, {"out": (np.arange(N), values)})


def test_inputs_that_are_not_there_are_refused():
    arena, inputs = arena_of("x", "y")
    data = pack_terms(arena, sample(arena, inputs))
    with pytest.raises(ArchiveError, match="input y"):
        unpack_terms(data, arena_of("x")[0])
    shorter = Arena()
    shorter.add_input("x", N, "f32")
    shorter.add_input("y", N - 1, "f32")
    with pytest.raises(ArchiveError):
        unpack_terms(data, shorter)


def rebuilt(data, change_header, change_body):
    """An archive with a right frame around changed contents: what checksums cannot tell."""
    import json
    import zlib

    length, _, rest = data.partition(b"\n")
    header = json.loads(rest[: int(length)])
    body = bytearray(zlib.decompress(rest[int(length) :]))
    change_header(header)
    change_body(body)
    text = json.dumps(header).encode()
    return b"%d\n" % len(text) + text + zlib.compress(bytes(body), 1)


def survives(data):
    """ArchiveError, or terms that can be evaluated."""
    arena = arena_of("x", "y")[0]
    before = len(arena)
    try:
        found = unpack_terms(data, arena)
    except ArchiveError:
        assert len(arena) == before and not arena.dots and not arena.naries, "half an archive was emitted"
        return False
    for _, ids in found.written.values():
        fingerprint(arena, ids)
    return True


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_bytes_with_a_right_frame_and_wrong_contents(seed):
    chance = random.Random(seed)
    arena, inputs = arena_of("x", "y")
    data = pack_terms(arena, sample(arena, inputs))

    def body(raw):
        for _ in range(chance.randrange(1, 4)):
            raw[chance.randrange(len(raw))] = chance.randrange(256)

    def header(row):
        if chance.random() < 0.5:
            name = chance.choice(sorted(row))
            row[name] = chance.choice([None, -1, 0, 1 << 40, [], ["x"], [[1, 2, 3, 4]], [["q", 1]], {}, True, "z", 3.5, row[name]])

    survives(rebuilt(data, header, body))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.binary(max_size=40))
def test_damaged_bytes(seed, noise):
    chance = random.Random(seed)
    arena, inputs = arena_of("x", "y")
    data = bytearray(pack_terms(arena, sample(arena, inputs)))
    at = chance.randrange(len(data))
    data[at : at + len(noise)] = noise
    survives(bytes(data))
    survives(bytes(data[: chance.randrange(len(data))]))
    survives(noise)


def test_an_operand_that_is_no_earlier_node_is_refused():
    arena, inputs = arena_of("x", "y")
    written = {"out": (np.arange(N), arena.neg(inputs["x"].ids(np.arange(N))))}
    data = pack_terms(arena, written)
    assert survives(data)

    def itself(raw):
        raw[N + 4 : N + 8] = (0).to_bytes(4, "little")  # after the operators and one emission: a distance of nothing

    assert not survives(rebuilt(data, lambda row: None, itself))
