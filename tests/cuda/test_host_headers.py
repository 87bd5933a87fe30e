"""Stand-ins for host headers under NVRTC: they compile, say what the host's own headers say, and stand back for a user's file."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from ptx_engine import emulate
from volta_pass.cuda import CudaSource, compile_cuda
from volta_pass.cuda.errors import CudaCompileError
from volta_pass.cuda.host_headers import host_headers

HEADERS = host_headers([])
KERNEL = 'extern "C" __global__ void f(float *x) { x[0] = 1.0f; }'


@pytest.mark.parametrize("name", [name for name in HEADERS if "cuda/std/" not in HEADERS[name]])
def test_each_compiles(name: str) -> None:
    assert compile_cuda(CudaSource(f"#include <{name}>\n#include <{name}>\n{KERNEL}")).entry == "f"


def test_all_compile_together() -> None:
    assert compile_cuda(CudaSource("".join(f"#include <{name}>\n" for name in HEADERS) + KERNEL)).entry == "f"


def macros(header: str) -> list[str]:
    """Those that are numbers; the infinite ones apart."""
    return [
        name
        for name in re.findall(r"^#define (\w+) ", HEADERS[header], re.MULTILINE)
        if name not in ("NAN", "INFINITY", "HUGE_VAL", "HUGE_VALF")
    ]


@pytest.mark.parametrize("header", ["stdint.h", "limits.h", "float.h", "math.h"])
def test_numbers_are_those_of_the_host(header: str, tmp_path: Path) -> None:
    """Every macro as a double and as an integer, by the host's compiler with the host's header and by NVRTC with ours; bit for bit."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    assert compiler, "the tests need a C compiler"
    names = macros(header)
    assert len(names) > 10
    rows = "".join(f"d[{i}] = (double)({name}); n[{i}] = (long long)({name} > 1e30 ? 0 : {name});" for i, name in enumerate(names))
    main = (
        f"#define _GNU_SOURCE\n#include <{header}>\n#include <stdio.h>\nstatic double d[{len(names)}]; static long long n[{len(names)}];\n"
        f'int main(void) {{ {rows} for (int i = 0; i < {len(names)}; ++i) printf("%a %lld\\n", d[i], n[i]); return 0; }}\n'
    )
    (tmp_path / "host.c").write_text(main, encoding="utf-8")
    subprocess.run([compiler, "-w", "-o", str(tmp_path / "host"), str(tmp_path / "host.c")], check=True)
    said = [line.split() for line in subprocess.run([tmp_path / "host"], check=True, capture_output=True, text=True).stdout.splitlines()]
    text = f'#include <{header}>\nextern "C" __global__ void f(double *d, long long *n) {{ {rows} }}'
    doubles, integers = np.zeros(len(names)), np.zeros(len(names), np.int64)
    emulate(compile_cuda(CudaSource(text)).ptx, None, 1, 1, [doubles, integers])
    assert {name: (float(d).hex(), int(n)) for name, d, n in zip(names, doubles, integers)} == {
        name: (float.fromhex(d).hex(), int(n)) for name, (d, n) in zip(names, said)
    }


def test_types_have_the_sizes_of_the_host() -> None:
    sizes = {f"{u}int{p}{bits}_t": bits // 8 for u in ("", "u") for p in ("", "_least") for bits in (8, 16, 32, 64)}
    checks = "".join(
        f'static_assert(sizeof({name}) == {size}, ""); static_assert(({name})-1 {">" if name[0] == "u" else "<"} 0, "");'
        for name, size in sizes.items()
    )
    compile_cuda(CudaSource(f"#include <stdint.h>\n#include <cstdint>\n{checks} using std::int32_t;\n{KERNEL}"))
    with pytest.raises(CudaCompileError):
        compile_cuda(CudaSource(f'#include <stdint.h>\nstatic_assert(sizeof(int32_t) == 8, "");\n{KERNEL}'))


def test_functions_and_limits_of_the_standard_library() -> None:
    text = (
        "#include <cmath>\n#include <limits>\n#include <algorithm>\n"
        'extern "C" __global__ void f(float *x) { x[0] = std::max(std::sqrt(x[1]), x[2]); x[3] = -INFINITY; x[4] = std::numeric_limits<float>::lowest(); x[5] = NAN; }'
    )
    values = np.array([0, 9, 1, 0, 0, 0], np.float32)
    emulate(compile_cuda(CudaSource(text)).ptx, None, 1, 1, [values])
    assert values[[0, 3, 4]].tolist() == [3.0, -np.inf, np.finfo(np.float32).min] and np.isnan(values[5])


@pytest.mark.parametrize(
    "included", ["", "#include <cuda_fp16.h>\n#include <cuda/std/cmath>\n#include <limits>\n#include <cfloat>\n#include <climits>\n"]
)
def test_what_every_file_has_under_nvcc_needs_no_include(included: str) -> None:
    text = (
        included + 'extern "C" __global__ void f(float *x) { uint i = 1; int64_t j = 2; std::size_t k = 3; assert(blockDim.x == 1);'
        " x[i] = std::fabs(-INFINITY); x[j] = (float)M_PI; x[k] = std::isnan(NAN) ? 5.0f : 6.0f; }"
    )
    values = np.zeros(4, np.float32)
    found = compile_cuda(CudaSource(text))
    emulate(found.ptx, None, 1, 1, [values])
    assert values.tolist() == [0.0, np.inf, np.float32(np.pi), 5.0] and not found.log
    with pytest.raises(CudaCompileError, match=r"kernel\.cu\(1\).*FLT_MAX"):  # which nvcc has not either; the line is the user's
        compile_cuda(CudaSource('extern "C" __global__ void f(float *x) { x[0] = FLT_MAX; }'))


@pytest.mark.parametrize("beside", [True, False])
def test_a_users_file_of_that_name_comes_first(beside: bool, tmp_path: Path) -> None:
    (tmp_path / "limits.h").write_text("#define OURS 7\n", encoding="utf-8")
    text = "#include " + ('"limits.h"' if beside else "<limits.h>") + '\nextern "C" __global__ void f(int *x) { x[0] = OURS; }'
    source = CudaSource(text, str(tmp_path / "k.cu")) if beside else CudaSource(text, "k.cu", include=(str(tmp_path),))
    assert compile_cuda(source).entry == "f"


def test_a_header_that_is_not_there_names_the_other_compiler() -> None:
    with pytest.raises(CudaCompileError) as raised:
        compile_cuda(CudaSource(f"#include <iostream>\n{KERNEL}"))
    assert 'compiler = "nvcc"' in raised.value.render()
    with pytest.raises(CudaCompileError) as raised:
        compile_cuda(CudaSource(f"int x = ;\n{KERNEL}"))
    assert "nvcc" not in raised.value.render()
