"""Wrong versions of the kernels of this folder: edits of the CUDA text that TileLang generates, each of which must be found out."""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """The first match of ``pattern`` becomes ``text``."""

    what: str
    pattern: str
    text: str

    def __call__(self, code: str) -> str:
        changed, count = re.subn(self.pattern, self.text, code, count=1, flags=re.MULTILINE)
        assert count == 1, f"{self.what}: nothing to change"
        return changed


PRODUCTS = (
    Mutant("a product is left out", r"^ *tl::mma_sync<.*\n", ""),
    Mutant("the halves of a tile are exchanged", r"\+ ki\) & 1\)", "+ ki + 1) & 1)"),
)
#: first words of a kernel's name -> its mutants
MUTANTS = {
    "matmul": PRODUCTS,
    "elementwise": (
        Mutant("another exponential", r"expf\(", "exp2f("),
        Mutant("the last columns are not written", r"< 25\)(?![\s\S]*< 25\))", "< 24)"),
    ),
    "softmax": (
        Mutant("powers of another base", r"0x1\.7154764ee6c2fp\+0f", "0x1p+0f"),
        Mutant("a quotient is a product", r"(v__4\.x)/", r"\1*"),
    ),
    "attention": (Mutant("a sum is a maximum", "tl::SumOp", "tl::MaxOp"), PRODUCTS[0]),
    "dequantised": (
        Mutant("three bits of four", r"\(uchar\)15", "(uchar)7"),
        Mutant("another zero point", r"half_t\(0x1p\+3f", "half_t(0x1p+2f"),
    ),
    "split": (
        Mutant("the last block wins", r"AtomicAdd\(\(&\((.*?)\)\), (.*?)\);$", r"\1 = \2;"),
        PRODUCTS[0],
    ),
}  # fmt: skip

#: what orders threads, one statement a line
SYNCHRONISATION = re.compile(
    r"^ *(?:__syncthreads\(\)|tl::cp_async_(?:wait<\d+>|commit)\(\)|tl::(?:named_|sync)\w*\(.*\));\n", re.MULTILINE
)


def without(number: int):
    """An edit that takes out one synchronisation, counted from 0."""

    def edit(code: str) -> str:
        found = list(SYNCHRONISATION.finditer(code))[number]
        return code[: found.start()] + code[found.end() :]

    return edit
