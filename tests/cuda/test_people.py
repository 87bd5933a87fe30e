"""Kernels in the manner of frameworks and inference engines, each against a naive one, each with broken twins that must not pass.

``people/NAME.cu`` holds both kernels, ``ref`` and the one under test; ``MUTANT`` chooses a twin that is wrong in one detail.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ptx_engine.launch import Role, ScalarArg, TensorArg
from ptx_engine.verdict import Status
from volta_hooks.cuda import cuda_kernel

FOLDER = Path(__file__).parent / "people"
Extent = int | tuple[int, ...]


def tensor(role: str, dtype: str, *shape: int, contents: object = "symbolic") -> tuple[Role, str, tuple[int, ...], object]:
    return {"in": Role.IN, "out": Role.OUT, "inout": Role.INOUT}[role], dtype, shape, contents


@dataclass(frozen=True)
class Case:
    """``args`` by name: a tensor, a number, or the type of a symbolic scalar; ``launch`` and ``ref`` are (grid, block[, shared bytes])."""

    args: dict[str, Any]
    launch: tuple[Any, ...]
    ref: tuple[Any, ...]
    mutants: tuple[int, ...] = (1,)
    entry: str = "opt"
    archs: tuple[int, ...] = (80,)
    outputs: tuple[str, ...] = field(default=())

    def arguments(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in self.args.items():
            if isinstance(value, tuple):
                role, dtype, shape, contents = value
                value = TensorArg(name, dtype, shape, role, contents=np.array(contents) if isinstance(contents, list) else contents)
            elif isinstance(value, str):
                value = ScalarArg(name, value, "symbolic")
            found[name] = value
        return found


CASES: dict[str, Case] = {
    "groupnorm_silu": Case(
        {
            "x": tensor("in", "f32", 2, 4, 32),
            "w": tensor("in", "f32", 4),
            "b": tensor("in", "f32", 4),
            "y": tensor("out", "f32", 2, 4, 32),
            "C": 4,
            "HW": 32,
            "G": 2,
            "eps": 1e-5,
        },
        ((2, 2), 128),
        ((2, 2), 1),
    ),
    "warp_softmax": Case(
        {"dst": tensor("out", "f32", 3, 37), "src": tensor("in", "f32", 3, 37), "batch": 3, "stride": 37, "count": 37},
        (1, (32, 2)),
        (3, 1),
        entry="softmax_warp_forward<6, false>",
    ),
    "splitk_semaphore": Case(
        {
            "A": tensor("in", "f32", 4, 24),
            "B": tensor("in", "f32", 24, 8),
            "C": tensor("out", "f32", 4, 8),
            "ws": tensor("inout", "f32", 3, 4, 8),
            "sem": tensor("inout", "s32", 1, contents=[0]),
            "M": 4,
            "N": 8,
            "K": 24,
            "splits": 3,
        },
        ((1, 1, 3), (8, 4)),
        (1, (8, 4)),
        outputs=("C",),
    ),
    "splitk_in_turn": Case(
        {
            "A": tensor("in", "f32", 24),
            "B": tensor("in", "f32", 24, 64),
            "C": tensor("out", "f32", 64),
            "locks": tensor("inout", "s32", 1, contents=[0]),
            "K": 24,
            "splits": 3,
        },
        (3, 64),
        (1, 64),
        (1, 2),
        outputs=("C",),
    ),
    "fused_add_rms_norm": Case(
        {
            "input": tensor("inout", "f16", 2, 96),
            "residual": tensor("inout", "f16", 2, 96),
            "weight": tensor("in", "f16", 96),
            "eps": 1e-05,
            "hidden": 96,
        },
        (2, 64),
        (2, 1),
        (1, 2, 3),
        archs=(75,),
    ),
    "rotary_neox": Case(
        {
            "positions": tensor("in", "s64", 3, contents=[4, 0, 2]),
            "query": tensor("inout", "f32", 3, 2, 16),
            "cache": tensor("in", "f32", 6, 16),
            "rot_dim": 16,
            "stride": 32,
            "heads": 2,
            "hs": 16,
        },
        (3, 32),
        (3, 2),
        (1, 2),
        entry="rotary_embedding_kernel<float, true>",
        archs=(89,),
    ),
    "quant_int8_per_row": Case(
        {"x": tensor("in", "f32", 2, 33), "q": tensor("out", "s8", 2, 33), "scale": tensor("out", "f32", 2), "n": 33},
        (2, 32),
        (2, 1),
        archs=(80,),
    ),
    "int4_gemv_warp": Case(
        {
            "qw": tensor("in", "u32", 4, 8),
            "scales": tensor("in", "f16", 4, 2),
            "zeros": tensor("in", "u32", 4),
            "x": tensor("in", "f16", 64),
            "y": tensor("out", "f32", 4),
            "K": 64,
        },
        (2, (32, 2)),
        (1, 4),
        (1, 2),
        archs=(75,),
    ),
    "paged_attention": Case(
        {
            "out": tensor("out", "f32", 2, 2, 16),
            "q": tensor("in", "f32", 2, 2, 16),
            "kc": tensor("in", "f32", 6, 2, 4, 16),
            "vc": tensor("in", "f32", 6, 2, 4, 16),
            "bt": tensor("in", "s32", 2, 3, contents=[5, 0, 2, 1, 3, 4]),
            "lens": tensor("in", "s32", 2, contents=[11, 6]),
            "scale": 0.25,
            "mb": 3,
        },
        ((2, 2), 64, 64),
        ((2, 2), 16),
        (1, 2, 3),
        archs=(80,),
    ),
    "layernorm_welford": Case(
        {
            "X": tensor("in", "f32", 2, 48),
            "g": tensor("in", "f32", 48),
            "b": tensor("in", "f32", 48),
            "mean": tensor("out", "f32", 2),
            "rstd": tensor("out", "f32", 2),
            "Y": tensor("out", "f32", 2, 48),
            "N": 48,
            "eps": 1e-05,
        },
        (2, (32, 4), 64),
        (2, 1),
        (1, 2),
        archs=(80,),
    ),
    "batchnorm_stats": Case(
        {
            "x": tensor("in", "f32", 3, 2, 40),
            "mean": tensor("out", "f32", 2),
            "invstd": tensor("out", "f32", 2),
            "rm": tensor("inout", "f32", 2),
            "rv": tensor("inout", "f32", 2),
            "N": 3,
            "C": 2,
            "HW": 40,
            "eps": 1e-05,
            "mom": "f32",
        },
        (2, (32, 2)),
        (2, 1),
        (1, 2),
        archs=(89,),
    ),
    "layernorm_backward_atomics": Case(
        {
            "dout": tensor("in", "f32", 5, 40),
            "inp": tensor("in", "f32", 5, 40),
            "w": tensor("in", "f32", 40),
            "mean": tensor("in", "f32", 5),
            "rstd": tensor("in", "f32", 5),
            "dinp": tensor("inout", "f32", 5, 40),
            "dweight": tensor("inout", "f32", 40),
            "dbias": tensor("inout", "f32", 40),
            "B": 5,
            "C": 40,
        },
        (3, 64, 320),
        (1, 1),
        (1, 2),
        archs=(75,),
    ),
    "scan_blelloch": Case(
        {"o": tensor("out", "f32", 128), "in": tensor("in", "f32", 128), "n": 128}, (1, 64, 560), (1, 1), (1, 2), archs=(89,)
    ),
    "cp_async_pipeline": Case(
        {"A": tensor("in", "f32", 16, 80), "B": tensor("in", "f32", 80, 16), "C": tensor("out", "f32", 16, 16), "N": 16, "K": 80},
        ((1, 1), 64),
        ((1, 1), (16, 16)),
        (1, 2),
        archs=(80,),
    ),
    "mma_ldmatrix_swizzle": Case(
        {"A": tensor("in", "f16", 32, 64), "B": tensor("in", "f16", 64, 32), "C": tensor("out", "f16", 32, 32), "N": 32, "K": 64},
        (1, 128),
        (1, (32, 32)),
        (1, 2, 3),
        archs=(80,),
    ),
    "warp_specialised": Case({"x": tensor("in", "f32", 6, 32), "y": tensor("out", "f32", 32), "tiles": 6}, (1, 64), (1, 32), archs=(75,)),
    "flash_attention_warp": Case(
        {
            "Q": tensor("in", "f32", 9, 32),
            "K": tensor("in", "f32", 9, 32),
            "V": tensor("in", "f32", 9, 32),
            "O": tensor("out", "f32", 9, 32),
            "S": 9,
            "scale": 0.17677669,
        },
        (5, 64),
        (9, 32),
        (1, 2),
        archs=(89,),
    ),
    "argmax_shared": Case(
        {"x": tensor("in", "f32", 64), "place": tensor("out", "s32", 1), "top": tensor("out", "f32", 1)},
        (1, 64),
        (1, 1),
        (1, 2),
        archs=(75,),
    ),
    "attention_online_branch": Case(
        {
            "q": tensor("in", "f32", 4, 12),
            "k": tensor("in", "f32", 8, 12),
            "v": tensor("in", "f32", 8, 12),
            "o": tensor("out", "f32", 4, 12),
            "keys": 8,
        },
        (1, 4),
        (1, 4),
    ),
    "odd_even_sort": Case({"x": tensor("in", "f32", 8), "y": tensor("out", "f32", 8)}, (1, 8), (1, 1), (1, 2)),
    "online_softmax_block": Case(
        {"x": tensor("in", "f32", 2, 80), "y": tensor("out", "f32", 2, 80), "n": 80}, (2, 64), (2, 1), (1, 2), archs=(75, 80)
    ),
    "online_softmax_thread": Case(
        {"x": tensor("in", "f32", 5, 24), "y": tensor("out", "f32", 5, 24), "rows": 5, "n": 24}, (1, 32), (5, 1), (1, 2)
    ),
    "histogram_shared": Case(
        {
            "data": tensor(
                "in",
                "u8",
                200,
                contents=[
                    121,
                    131,
                    193,
                    243,
                    8,
                    36,
                    210,
                    242,
                    63,
                    79,
                    222,
                    108,
                    69,
                    211,
                    65,
                    104,
                    164,
                    140,
                    21,
                    7,
                    221,
                    192,
                    214,
                    137,
                    209,
                    84,
                    115,
                    201,
                    31,
                    77,
                    31,
                    116,
                    250,
                    34,
                    98,
                    103,
                    231,
                    52,
                    128,
                    67,
                    5,
                    192,
                    15,
                    71,
                    127,
                    124,
                    29,
                    251,
                    191,
                    246,
                    23,
                    185,
                    75,
                    138,
                    236,
                    70,
                    185,
                    41,
                    82,
                    248,
                    107,
                    132,
                    74,
                    29,
                    108,
                    159,
                    116,
                    198,
                    92,
                    156,
                    197,
                    234,
                    109,
                    10,
                    183,
                    135,
                    223,
                    117,
                    94,
                    15,
                    117,
                    164,
                    197,
                    218,
                    55,
                    151,
                    205,
                    66,
                    88,
                    215,
                    148,
                    130,
                    172,
                    130,
                    251,
                    192,
                    13,
                    37,
                    139,
                    209,
                    17,
                    174,
                    194,
                    201,
                    223,
                    49,
                    142,
                    205,
                    91,
                    48,
                    122,
                    20,
                    56,
                    218,
                    170,
                    220,
                    215,
                    224,
                    79,
                    120,
                    158,
                    70,
                    235,
                    1,
                    214,
                    165,
                    64,
                    184,
                    105,
                    213,
                    255,
                    72,
                    120,
                    55,
                    177,
                    163,
                    216,
                    206,
                    250,
                    246,
                    229,
                    38,
                    10,
                    123,
                    88,
                    229,
                    204,
                    108,
                    147,
                    150,
                    228,
                    6,
                    125,
                    172,
                    115,
                    235,
                    243,
                    211,
                    118,
                    226,
                    18,
                    169,
                    68,
                    62,
                    173,
                    196,
                    227,
                    54,
                    223,
                    212,
                    80,
                    16,
                    197,
                    211,
                    117,
                    42,
                    37,
                    96,
                    193,
                    81,
                    8,
                    176,
                    190,
                    45,
                    143,
                    101,
                    128,
                    1,
                    162,
                    67,
                    141,
                    107,
                    156,
                    27,
                    93,
                    162,
                    196,
                    97,
                    6,
                    185,
                ],
            ),
            "hist": tensor("inout", "u32", 16),
            "n": 200,
        },
        (2, 64),
        (1, 1),
        (1, 2),
        archs=(80,),
    ),
}


@pytest.mark.parametrize(("name", "arch"), [(name, arch) for name, case in CASES.items() for arch in case.archs])
def test_a_kernel_and_its_broken_twins(name: str, arch: int) -> None:
    case, path = CASES[name], FOLDER / f"{name}.cu"
    reference = cuda_kernel(path, entry="ref", arch=arch, defines={"MUTANT": 0})[case.ref]
    for mutant in (0, *case.mutants):
        kernel = cuda_kernel(path, entry=case.entry, arch=arch, defines={"MUTANT": mutant})
        report = kernel[case.launch].validate(case.arguments(), reference=reference, outputs=case.outputs)
        expected = Status.REFUTED if mutant else Status.PROVED
        assert report.status is expected, (mutant, report.reason, report.errors, report.findings[:1])


def test_every_kernel_has_a_case() -> None:
    assert {path.stem for path in FOLDER.glob("*.cu")} == set(CASES)
