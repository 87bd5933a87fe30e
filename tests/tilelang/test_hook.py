"""The hook: every way to compile a kernel is seen, what runs is what was validated, refuted kernels raise, calls validate.

(No lazy annotations here: TileLang reads those of its kernels where they stand.)
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tilelang
import tilelang.language as T
import torch
from matmul import matmul
from mutants import without

import volta_hooks.tilelang_tool
from ptx_engine.verdict import Status
from volta_hooks.tilelang import check_version
from volta_hooks.tilelang_errors import KernelRefuted
from volta_hooks.tilelang_ptx import user_lines
from volta_hooks.tilelang_tool import compiled_here

ROOT = Path(__file__).resolve().parents[2]


def small(name: str = "small", factor: float = 2.0, n: int = 64) -> object:
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                B[i] = A[i] * factor

    return main.with_attr("global_symbol", name)


def fresh(session: object, count: int = 1) -> list:
    reports = session.reports[-count:]  # type: ignore[attr-defined]
    assert [report.status for report in reports] == [Status.PROVED] * count, [r.errors for r in reports]
    return reports


def test_versions() -> None:
    check_version("0.1.14")
    check_version(tilelang.__version__)
    for version in ("0.1.13", "0.0.9", "unknown"):
        with pytest.raises(Exception, match="too old"):
            check_version(version)


def test_compile_and_the_bytes_that_run(session, monkeypatch) -> None:
    """ptxas is given the text that was validated, and TileLang what ptxas made of it."""
    made = []
    assemble = volta_hooks.tilelang_tool.ptx_to_cubin

    def watched(ptx: str, target: object, config: object) -> bytes:
        made.append((ptx, assemble(ptx, target, config)))
        return made[-1][1]

    monkeypatch.setattr(volta_hooks.tilelang_tool, "ptx_to_cubin", watched)
    kernel = tilelang.compile(small("bytes"))
    (report,) = fresh(session)
    assert (report.kernel, report.target) == ("bytes_kernel", "sm_80")
    ((ptx, cubin),) = made
    assert compiled_here("bytes").ptx == ptx
    assert ".entry bytes_kernel" in ptx
    assert cubin[:4] == b"\x7fELF"
    assert kernel.execution_backend == "tvm_ffi"


def test_lazy_kernels_and_their_results(session) -> None:
    @tilelang.jit(out_idx=[-1])
    def lazy(n):
        return small("lazy", n=n)

    count = len(session.reports)
    assert lazy(32)(torch.ones(32)).shape == (32,)
    lazy(32)(torch.ones(32))
    assert len(session.reports) == count + 1
    fresh(session)


def test_eager_kernels_are_validated_at_the_sizes_of_every_launch(session) -> None:
    @tilelang.jit
    def eager(A, B, block: int = 32):
        M, N = T.dynamic("M, N")
        A: T.Tensor[[M, N], T.float32]
        B: T.Tensor[[M, N], T.float32]
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128) as (bx, by):
            for i, j in T.Parallel(block, block):
                B[by * block + i, bx * block + j] = A[by * block + i, bx * block + j] + 1.0

    eager(torch.zeros(40, 50), torch.zeros(40, 50))
    sizes = [report.configuration for report in fresh(session, 3)]
    assert sizes == [{"M": 128, "N": 128}, {"M": 136, "N": 136}, {"M": 40, "N": 50}]
    eager(torch.zeros(40, 50), torch.zeros(40, 50))
    assert fresh(session)[0].configuration == sizes[-1]


def test_compiling_in_parallel(session) -> None:
    count = len(session.reports)
    tilelang.par_compile([small("first"), small("second", 3.0)], num_workers=2)
    assert {report.kernel for report in session.reports[count:]} == {"first_kernel", "second_kernel"}
    fresh(session, 2)


def test_lowering_alone(session) -> None:
    target = {"kind": "cuda", "arch": "sm_80"}
    with tilelang.tvm.target.Target(target):
        tilelang.lower(small("lowered"), target=target)
    assert fresh(session)[0].kernel == "lowered_kernel"


def test_back_ends_that_compile_later(session) -> None:
    kernel = tilelang.compile(small("cython"), execution_backend="cython")
    assert fresh(session)[0].kernel == "cython_kernel"
    assert "cython_kernel" in kernel.get_kernel_source()


def test_two_kernels_of_one_function(session) -> None:
    @T.prim_func
    def both(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32"), C: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(64):
                B[i] = A[i] + 1.0
        with T.Kernel(2, threads=32) as bx:
            for i in T.Parallel(32):
                C[bx * 32 + i] = B[bx * 32 + i] * 2.0

    tilelang.compile(both)
    assert [report.kernel for report in fresh(session, 2)] == ["both_kernel", "both_kernel_1"]


def test_a_kernel_that_needs_contents_is_validated_when_they_are_there(session) -> None:
    @T.prim_func
    def gather(I: T.Tensor((32,), "int32"), A: T.Tensor((32,), "float32"), B: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                B[i] = A[I[i]]

    kernel = tilelang.compile(gather)
    assert session.reports[-1].status is Status.UNKNOWN
    kernel(torch.from_numpy(np.random.default_rng(0).permutation(32).astype(np.int32)), torch.zeros(32), torch.zeros(32))
    (report,) = fresh(session)
    assert report.status is Status.PROVED and any("fixed to this launch's contents" in line for line in report.assumptions)


def scatter(strides: tuple[int, int]) -> object:
    @T.prim_func
    def scatter(I: T.StridedTensor((4, 4), strides, "int32"), A: T.Tensor((4, 4), "float32"), B: T.Tensor((16,), "float32")):
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(4, 4):
                B[I[i, j]] = A[i, j]

    return scatter


def indices(strides: tuple[int, int], last: int) -> torch.Tensor:
    """Every index of 16 but for the last, which is ``last``; zeros lie between them in memory."""
    view = torch.zeros(64, dtype=torch.int32).as_strided((4, 4), strides)
    view.copy_(torch.arange(16, dtype=torch.int32).reshape(4, 4))
    view[-1, -1] = last
    return view


@pytest.mark.parametrize("strides", [(4, 1), (1, 4), (9, 2)])
def test_other_contents_are_another_launch(session, strides: tuple[int, int]) -> None:
    kernel, a, b = tilelang.compile(scatter(strides)), torch.zeros(4, 4), torch.zeros(16)
    assert session.reports[-1].status is Status.UNKNOWN
    seen = len(session.reports)
    kernel(indices(strides, 15), a, b)
    kernel(indices(strides, 15), a, b)  # remembered
    assert [report.status for report in session.reports[seen:]] == [Status.PROVED]
    with pytest.raises(KernelRefuted):  # two threads write one element
        kernel(indices(strides, 0), a, b)
    assert {finding.kind for finding in session.reports[-1].error_findings} == {"data race"}


def test_what_has_no_tile_semantics_is_unsupported_with_its_line(session, capsys) -> None:
    @T.prim_func
    def threads(A: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            A[tx] = A[tx] + 1.0

    tilelang.compile(threads)
    report = session.reports[-1]
    assert report.status is Status.UNSUPPORTED
    assert "index of a thread" in report.reason
    assert "test_hook.py" in capsys.readouterr().err


@pytest.mark.parametrize(("index", "status"), [("flat[", Status.PROVED), ("flat[1 ^ ", Status.REFUTED)])
def test_views_of_arguments(index: str, status: Status, compiled) -> None:
    """A view gives the data of an argument another name, which the kernel's parameter takes over."""

    @T.prim_func
    def main(X: T.Tensor((8, 16), "float32"), Y: T.Tensor((4, 32), "float32")):
        with T.Kernel(1, threads=128):
            flat = T.Tensor((128,), "float32", X.data)
            out = T.Tensor((128,), "float32", Y.data)
            for i in T.Parallel(128):
                out[i] = flat[i] * T.float32(2)

    report = compiled(main, change=lambda text: text.replace("flat[", index))[0]
    assert report.status is status, (report.reason, report.errors)


def test_kernels_take_only_the_arguments_that_they_use(compiled) -> None:
    @T.prim_func
    def main(X: T.Tensor((64,), "float32"), unused: T.int32, Y: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                Y[i] = X[i] * T.float32(2)

    assert compiled(main)[0].status is Status.PROVED
    assert compiled(main, change=lambda text: text.replace("0x1p+1f", "0x1p+2f"))[0].status is Status.REFUTED


def test_what_an_unknown_statement_writes_is_no_fault(session) -> None:
    """A loop over threads is not looked into: that the kernel writes A says nothing against it."""

    @T.prim_func
    def bound(A: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.thread_binding(32, thread="threadIdx.x"):
                A[i] = 1.0

    tilelang.compile(bound)
    report = session.reports[-1]
    assert report.status is Status.UNSUPPORTED and not report.findings


def test_arguments_of_the_wrong_shape_are_refused(session) -> None:
    kernel = tilelang.compile(small("shaped"))
    with pytest.raises(ValueError, match="compiled for 64"):
        kernel(torch.zeros(63), torch.zeros(63))


def test_a_refuted_kernel_raises_with_the_lines_of_the_user(compiled, session, changed) -> None:
    """The class of the exception survives its way through TileLang's C++."""
    with changed(without(3)), pytest.raises(KernelRefuted) as raised:
        tilelang.compile(matmul(64, 64, 64, 32, 32, 32, 2).with_attr("global_symbol", "racy"))
    text = str(raised.value)
    assert "data race on shared memory" in text
    places = [line for line in text.splitlines() if line.startswith("  -->")]
    assert places and all("configs/suite/tilelang/matmul.py" in place for place in places)


def test_places_inside_of_tilelang_become_the_users() -> None:
    inside = str(Path(tilelang.__file__).parent / "macro.py")
    text = f'#line 7 "user.py"\na;\n#line 99 "{inside}"\nb;\n#line 8 "user.py"\nc;'
    assert user_lines(text) == '#line 7 "user.py"\na;\n#line 7 "user.py"\nb;\n#line 8 "user.py"\nc;'


PROGRAM = """
import sys
{start}
import tilelang
import tilelang.language as T

@T.prim_func
def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(64):
            B[i] = A[i] + 1.0

tilelang.compile(main, target={{"kind": "cuda", "arch": "sm_89"}})
print(sorted(name for name in sys.modules if name.startswith(("volta", "ptx_engine"))))
"""


@pytest.mark.parametrize("on", [True, False])
def test_one_variable_activates_it(on: bool, tmp_path: Path) -> None:
    start = "import volta_hooks.autoload; volta_hooks.autoload.install()" if on else ""
    (tmp_path / "program.py").write_text(PROGRAM.format(start=start))
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("VOLTA_", "TILELANG_"))}
    environ |= {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'hooks'}", "TILELANG_CACHE_DIR": str(tmp_path / "kernels")}
    environ |= {"VOLTA_VALIDATE": "1", "VOLTA_REPORT": str(tmp_path / "report.json"), "VOLTA_CACHE_DIR": str(tmp_path / "v")} if on else {}
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, env=environ, capture_output=True, text=True, check=True, timeout=120
    )
    if not on:
        assert done.stdout.strip().endswith("[]")
        return
    (kernel,) = json.loads((tmp_path / "report.json").read_text())["kernels"]
    assert (kernel["verdict"], kernel["target"]) == ("proved", "sm_89")
    assert "main_kernel" in done.stderr
    left = [path for path in (tmp_path / "kernels").rglob("*") if path.is_file()]
    assert not left, "kernels of this process would be loaded unseen by another"


def test_descriptors_of_hopper_are_unsupported_by_name(session) -> None:
    tilelang.compile(matmul(64, 64, 64, 64, 64, 32, 2), target={"kind": "cuda", "arch": "sm_90a"})
    report = session.reports[-1]
    assert report.status is Status.UNSUPPORTED
    assert "TMA descriptor" in report.reason
