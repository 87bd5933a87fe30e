"""Upgrades between compiler versions: ``python version_matrix.py triton 3.7.1 3.8.0 3.9.0``; ``make compat`` runs it.

Each version, in a fresh environment, records what the programs and specs below compile; every newer one compiles and compares it, and does so
once more with a miscompilation seeded into its PTX, which must be refuted. Exit code 1 where a kernel was refuted, raced anew, compiled no
longer or was unknown, or where the seeded one was not found.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import venv
from collections import Counter
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = ROOT / "configs"
GOOD = {"same text", "proved equal"}


@dataclass(frozen=True)
class Compiler:
    """What is installed (``{}`` is the version), what is recorded, and the miscompilation that is seeded."""

    packages: tuple[str, ...]
    program: tuple[str, ...]
    specs: tuple[str, ...]
    seed: str


#: kernels of the suite: pipelined and ragged products, a product of packed numbers, atomics, reductions
TILELANG = ("matmul 32x32x32 s2", "matmul 32x32x32 s2 ragged", "elementwise", "softmax", "attention", "dequantised", "split k")
NVCC = () if shutil.which("nvcc") else ("nvidia-cuda-nvcc",)
SEED = "add.f32=>sub.f32"
#: of one validation: on a machine that does other work, too, the largest attention takes minutes
SECONDS = "900"

COMPILERS = {
    "triton": Compiler(
        (f"{ROOT}[triton]", "triton=={}"),
        (str(CONFIGS / "demo" / "autotuned.py"),),
        tuple(str(CONFIGS / "bench" / f"{name}.toml") for name in ("add", "softmax", "layer_norm", "flash_attention")),
        SEED,
    ),
    "tilelang": Compiler(
        (str(ROOT), "torch==2.13.0", "tilelang=={}", *NVCC), (str(CONFIGS / "suite" / "tilelang" / "suite.py"), *TILELANG), (), SEED
    ),
}


@dataclass(frozen=True)
class Row:
    """One check: how many launches became what, and whether that is as it should be."""

    old: str
    new: str
    seeded: bool
    changes: Counter
    code: int

    @property
    def good(self) -> bool:
        """All equal; with a seeded miscompilation, at least one refuted."""
        return self.changes["refuted"] > 0 and self.code == 1 if self.seeded else self.code == 0 and set(self.changes) <= GOOD

    def cells(self) -> list[str]:
        found = ", ".join(f"{count} {name}" for name, count in sorted(self.changes.items())) or "nothing"
        return [f"{self.old} -> {self.new}", "seeded" if self.seeded else "as it is", found, "ok" if self.good else "NOT OK"]


def table(rows: list[Row]) -> str:
    """One line per check."""
    lines = [["versions", "PTX", "launches", ""], *(row.cells() for row in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(4)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines)


def environment(folder: Path, compiler: Compiler, version: str, keep: bool) -> Path:
    """A fresh environment with that version; its Python."""
    python = folder / "bin" / "python"
    if keep and python.exists():
        return python
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    subprocess.run([python, "-m", "pip", "install", "-q", *(package.format(version) for package in compiler.packages)], check=True)
    return python


def run(python: Path, folder: Path, *words: str, seed: str = "") -> subprocess.CompletedProcess:
    """``volta-pass baseline ...`` in an environment, with caches of its own; its exit code is the caller's to judge."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("VOLTA_") and name != "PYTHONPATH"}
    caches = {name: str(folder / "caches" / name.lower()) for name in ("VOLTA_CACHE_DIR", "TRITON_CACHE_DIR", "TILELANG_CACHE_DIR")}
    environ = {**inherited, **caches, "VOLTA_SECONDS": SECONDS, **({"_VOLTA_TEST_PTX_PATCH": seed} if seed else {})}
    return subprocess.run([python, "-m", "volta_pass", "baseline", *words], env=environ, stdout=subprocess.PIPE, text=True, check=False)


def record(python: Path, folder: Path, recorded: Path, compiler: Compiler) -> None:
    """Record all of it. The demo's program holds a wrong kernel: it ends as it would without us."""
    shutil.rmtree(recorded, ignore_errors=True)
    program = ["record", str(recorded), "--target", "cuda:80", "--", "python", *compiler.program]
    done = [run(python, folder, *program)]
    if compiler.specs:
        done.append(run(python, folder, "record", str(recorded), "--allow-code", *compiler.specs))
    if any(one.returncode for one in done):
        raise SystemExit("recording failed:\n" + "\n".join(one.stdout for one in done))


def check(python: Path, folder: Path, recorded: Path, old: str, new: str, seed: str = "") -> Row:
    """Compile and compare what was recorded; its JSON is kept beside it."""
    done = run(python, folder, "check", str(recorded), "--allow-code", "--json", seed=seed)
    (folder / f"{old}-{new}{'-seeded' if seed else ''}.json").write_text(done.stdout)
    kernels = json.loads(done.stdout)["kernels"] if done.stdout else []
    return Row(old, new, bool(seed), Counter(kernel["change"] for kernel in kernels), done.returncode)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("compiler", choices=COMPILERS)
    parser.add_argument("versions", nargs="+", help="from old to new")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "compat")
    parser.add_argument("--keep", action="store_true", help="use environments and recordings that are there")
    args = parser.parse_args()
    compiler, rows = COMPILERS[args.compiler], []
    folder = args.folder.resolve() / args.compiler
    pythons = {}
    for version in args.versions:
        pythons[version] = environment(folder / f"env-{version}", compiler, version, args.keep)
        recorded = folder / f"recorded-{version}"
        if version != args.versions[-1] and not (args.keep and recorded.exists()):
            record(pythons[version], folder, recorded, compiler)
    for old, new in combinations(args.versions, 2):
        for seed in ("", compiler.seed):
            rows.append(check(pythons[new], folder, folder / f"recorded-{old}", old, new, seed))
            print(" ".join(rows[-1].cells()), file=sys.stderr, flush=True)
    print(table(rows))
    return 0 if rows and all(row.good for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
