"""Real Triton programs under the hook, each in its own process, without a GPU."""

import re
import zipfile
from pathlib import Path

ON = {"VOLTA_VALIDATE": "1", "VOLTA_TARGET": "cuda:80"}

IMPORTS = """
import numpy as np
import triton
import triton.language as tl
import volta_pass
from volta_pass import TensorSpec
"""

ADD = """
@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr, MASKED: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if MASKED:
        x = tl.load(x_ptr + offs, mask=offs < n)
        tl.store(out_ptr + offs, x + tl.load(y_ptr + offs, mask=offs < n), mask=offs < n)
    else:
        x = tl.load(x_ptr + offs)
        tl.store(out_ptr + offs, x + tl.load(y_ptr + offs))

def add(n, masked=True):
    x, y, out = (TensorSpec((n,), "f32") for _ in range(3))
    add_kernel[(triton.cdiv(n, 128),)](x, y, out, n, BLOCK=128, MASKED=masked)
"""


def verdicts(ran):
    return [kernel["verdict"] for kernel in ran.kernels]


def test_each_new_launch_is_validated_once_and_known_ones_never_again(run_program):
    program = IMPORTS + ADD + "add(1024)\nadd(1024)\nadd(1000)\nprint('done')\n"
    first = run_program(program, **ON)
    assert (first.code, first.out) == (0, "done\n"), first.err
    assert verdicts(first) == ["proved", "proved"]
    assert [kernel["outputs"][0]["elements"] for kernel in first.kernels] == [1024, 1000]
    assert [kernel["method"] for kernel in first.kernels] == ["exact", "exact"]
    assert [kernel["cached"] for kernel in first.kernels] == [False, False]
    assert "add_kernel" in first.err and "proved" in first.err

    # Triton's disk cache is warm now, and so is the verdict store: the old launch is recalled, the new one validated; an
    # empty grid launches nothing
    again = run_program(program.replace("add(1000)", "add(900)\nadd(0)"), **ON)
    assert verdicts(again) == ["proved", "proved"]
    assert [kernel["cached"] for kernel in again.kernels] == [True, False]
    assert again.kernels[1]["outputs"][0]["elements"] == 900


def test_a_missing_mask_is_an_error_at_its_line_and_the_other_modes_follow_the_policy(run_program):
    program = IMPORTS + ADD + "add(1024, False)\nadd(1000, False)\nprint('reached')\n"
    ran = run_program(program, **ON)
    assert ran.code != 0 and "reached" not in ran.out
    assert verdicts(ran) == ["proved", "refuted"]
    line = next(i for i, text in enumerate(program.splitlines(), 3) if text.strip() == "x = tl.load(x_ptr + offs)")
    finding = ran.kernels[1]["findings"][0]
    assert (finding["kind"], finding["tensor"], finding["index"]) == ("out of bounds", "x_ptr", [1000])
    assert re.search(rf"program\.py:{line}:\d+$", finding["sites"][0]["user_loc"])  # the column depends on Triton's version
    assert "KernelRefuted" in ran.err and "out of bounds on x_ptr" in ran.err
    assert ran.kernels[1]["blame"]["party"] == "kernel"

    warned = run_program(program, **{**ON, "VOLTA_VALIDATE": "warn"})
    assert (warned.code, warned.out) == (0, "reached\n")
    assert "out of bounds on x_ptr" in warned.err and "Traceback" not in warned.err


MATMUL = """
from matmul_no_k_mask import matmul_no_k_mask_kernel

CONFIGS = [
    triton.Config({"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": k, "GROUP_M": 4}, num_warps=w, num_stages=s)
    for k, w, s in ((32, 4, 2), (64, 4, 3), (16, 2, 3), (64, 2, 2))
]
tuned = triton.autotune(configs=CONFIGS, key=["M", "N", "K"])(matmul_no_k_mask_kernel)

def matmul(K):
    a, b = np.ones((64, 128), np.float16)[:, :K], np.ones((128, 64), np.float16)[:K]
    c = np.empty((64, 64), np.float16)
    grid = lambda meta: (triton.cdiv(64, meta["BLOCK_M"]) * triton.cdiv(64, meta["BLOCK_N"]),)
    tuned[grid](a, b, c, 64, 64, K, 128, 1, 64, 1, 64, 1)
    print(tuned.best_config.kwargs["BLOCK_K"])
"""


def test_a_wrong_configuration_cannot_win_the_tuning_and_is_blamed_on_its_load(run_program):
    ran = run_program(IMPORTS + MATMUL + "matmul(96)\n", **ON)
    assert ran.code == 0, ran.err
    by_k = {(k["configuration"]["BLOCK_K"], k["configuration"]["num_warps"]): k for k in ran.kernels}
    assert {key: k["verdict"] for key, k in by_k.items()} == {
        (32, 4): "proved", (16, 2): "proved", (64, 4): "refuted", (64, 2): "refuted"
    }  # fmt: skip
    assert ran.out.strip() in ("32", "16")
    wrong = by_k[64, 4]
    assert {c["against"]: c["verdict"] for c in wrong["comparisons"]} == {"own source": "proved", "reference": "refuted"}
    assert wrong["blame"]["party"] == "kernel"
    file, line, _ = wrong["blame"]["user_loc"].rsplit(":", 2)
    assert "tl.load(a_ptrs" in Path(file).read_text().splitlines()[int(line) - 1]
    explanation = wrong["outputs"][0]["explanation"]
    assert (explanation["extra_total"], explanation["missing_total"]) == (32, 0)
    # sum over k = 96..127 of A[0,k] * B[k,0]: the terms behind the edge, and no others
    assert all(re.fullmatch(r"a_ptr\[0, (9[6-9]|1[01]\d|12[0-7])\]\*b_ptr\[\1, 0\]", text) for text in explanation["extra"])
    agreement = " ".join(wrong["agreement"])
    assert "first configuration" in agreement
    assert re.search(r"with the reference: [^;]*BLOCK_K=32[^;]*; [^;]*BLOCK_K=16[^;]* agree with each other", agreement)
    assert re.search(r"BLOCK_K=64 GROUP_M=4 w4 s3; BLOCK_M=32 BLOCK_N=32 BLOCK_K=64 GROUP_M=4 w2 s2 agree with each other", agreement)


def test_the_same_configurations_are_all_right_where_block_k_divides_k(run_program):
    ran = run_program(IMPORTS + MATMUL + "matmul(64)\n", **ON)
    assert ran.code == 0 and verdicts(ran) == ["proved"] * 4, ran.err
    assert all(kernel["agreement"] == [] for kernel in ran.kernels)


def test_when_every_configuration_is_wrong_the_tuning_ends_with_the_diagnostic(run_program):
    program = IMPORTS + ADD.replace(
        "@triton.jit", "@triton.autotune([triton.Config({'BLOCK': b}) for b in (64, 128)], key=['n'])\n@triton.jit"
    )
    program = (
        program.replace("BLOCK=128, ", "")
        .replace("triton.cdiv(n, 128),", "triton.cdiv(n, meta['BLOCK']),")
        .replace("[(tri", "[lambda meta: (tri")
    )
    ran = run_program(program + "add(1000, False)\n", **ON)
    assert ran.code != 0 and verdicts(ran) == ["refuted", "refuted"]
    assert "KernelRefuted" in ran.err and "out of bounds on x_ptr" in ran.err.split("KernelRefuted")[1]


def test_programs_that_write_the_same_elements_race_and_the_kernel_is_to_blame(run_program):
    kernel = """
@triton.jit
def last_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + offs)
    tl.store(out_ptr + offs, x)

last_kernel[(1,)](TensorSpec((256,), "f32"), TensorSpec((256,), "f32"), BLOCK=128)
last_kernel[(2,)](TensorSpec((256,), "f32"), TensorSpec((256,), "f32"), BLOCK=128)
"""
    ran = run_program(IMPORTS + kernel, **ON)
    assert verdicts(ran) == ["proved", "refuted"], ran.err
    (finding,) = [row for row in ran.kernels[1]["findings"] if row["severity"] == "error"]
    assert (finding["kind"], finding["tensor"]) == ("data race", "out_ptr")
    assert sorted(site["cta"] for site in finding["sites"]) == [[0, 0, 0], [1, 0, 0]]
    assert ran.kernels[1]["blame"]["party"] == "kernel"


GATHER = """
@triton.jit
def gather_kernel(x_ptr, index_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    j = tl.load(index_ptr + offs, mask=offs < n, other=0)
    tl.store(out_ptr + offs, 2 * tl.load(x_ptr + j, mask=offs < n), mask=offs < n)

def gather(index):
    gather_kernel[(1,)](TensorSpec((100,), "f32"), index, TensorSpec((100,), "f32"), 100, BLOCK=128)
"""


def test_contents_of_an_index_tensor_are_taken_from_the_launch_and_belong_to_it(run_program):
    program = IMPORTS + GATHER + "index = np.arange(100, dtype=np.int32)\ngather(index)\ngather(index)\nindex[7] = 5\ngather(index)\n"
    program += "index[7] = 100\ntry:\n    gather(index)\nexcept Exception as error:\n    print(type(error).__name__)\n"
    program += "gather(TensorSpec((100,), 'i32'))\n"
    ran = run_program(program, **ON)
    assert ran.code == 0, ran.err
    assert verdicts(ran) == ["proved", "proved", "refuted", "unknown"]
    assert any("integer inputs fixed" in line and "index_ptr" in line for line in ran.kernels[0]["assumptions"])
    assert ran.out == "KernelRefuted\n"
    assert ran.kernels[2]["findings"][0]["tensor"] == "x_ptr"
    assert "not structured" in ran.kernels[3]["errors"][0]


REFERENCE = """
def twice(x, n):
    return x[:n] + x[:n]

@volta_pass.reference(twice)
@triton.jit
def scale_kernel(x_ptr, out_ptr, n, FACTOR: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, FACTOR * tl.load(x_ptr + offs, mask=offs < n), mask=offs < n)

def scale(factor, **launch):
    x = TensorSpec((300,), "f32")
    scale_kernel[(triton.cdiv(300, 128),)](x, launch.get("out", TensorSpec((300,), "f32")), 300, FACTOR=factor, BLOCK=128)
"""


def test_a_reference_function_decides_and_separates_kernel_from_compiler(run_program):
    ran = run_program(IMPORTS + REFERENCE + "scale(2.0)\nscale(3.0)\n", **ON)
    assert ran.code != 0 and verdicts(ran) == ["proved", "refuted"], ran.err
    assert {c["against"]: c["verdict"] for c in ran.kernels[0]["comparisons"]} == {"own source": "proved", "reference": "proved"}
    assert {c["against"]: c["verdict"] for c in ran.kernels[1]["comparisons"]} == {"own source": "proved", "reference": "refuted"}
    assert ran.kernels[1]["blame"]["party"] == "kernel" and "the function twice" in str(ran.kernels[1]["comparisons"])


def test_kernels_compiled_without_a_launch_use_an_announced_one(run_program):
    compile_it = """
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
signature = {"x_ptr": "*fp32", "y_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32", "BLOCK": "constexpr", "MASKED": "constexpr"}

def build(masked):
    source = ASTSource(add_kernel, signature, {(4,): 128, (5,): masked}, {})
    triton.compile(source, target=GPUTarget("cuda", 80, 32))

build(True)
tensors = {name: TensorSpec((300,), "f32") for name in ("x_ptr", "y_ptr", "out_ptr")}
volta_pass.launch_for("add_kernel", grid=lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),), args={**tensors, "n": 300})
build(True)
build(False)
"""
    ran = run_program(IMPORTS + ADD + compile_it, **ON)
    assert verdicts(ran) == ["proved", "refuted"]
    assert ran.code != 0 and "KernelRefuted" in ran.err
    assert ran.err.count("compiled without a launch") == 1


def test_the_users_own_hooks_still_run(run_program):
    hooks = """
from triton import knobs
seen = []

def stages(backend=None, stages=None, options=None, language=None, capability=None):
    if stages is None:
        return "mine", "hash"
    seen.append(sorted(stages))

knobs.runtime.add_stages_inspection_hook = stages
knobs.compilation.listener = lambda **facts: seen.append(facts["src"].name)
add(256)
print(seen)
"""
    ran = run_program(IMPORTS + ADD + hooks, **ON)
    assert ran.code == 0 and verdicts(ran) == ["proved"], ran.err
    assert "'ptx'" in ran.out and "add_kernel" in ran.out


def test_a_defect_of_ours_leaves_the_build_alone_and_a_bundle_behind(run_program, tmp_path):
    broken = """
import volta_hooks.session
def explode(job, known=None):
    raise ZeroDivisionError("ours")
volta_hooks.session.validate = explode
add(256)
print("reached")
"""
    ran = run_program(IMPORTS + ADD + broken, **ON)
    assert (ran.code, ran.out) == (0, "reached\n"), ran.err
    assert verdicts(ran) == ["unknown"] and "ZeroDivisionError: ours" in ran.err and "Traceback" not in ran.err
    with zipfile.ZipFile(tmp_path / ran.kernels[0]["bundle"]) as bundle:
        assert {"kernel.ptx", "kernel.ttir.mlir", "launch.json", "traceback.txt"} <= set(bundle.namelist())
        assert b".entry add_kernel" in bundle.read("kernel.ptx")
    strict = run_program(IMPORTS + ADD + broken, **{**ON, "VOLTA_VALIDATE": "strict"})
    assert strict.code != 0 and "reached" not in strict.out and "ZeroDivisionError" in strict.err


ASM = """
@triton.jit
def asm_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    r = tl.inline_asm_elementwise("mov.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)
    tl.store(out_ptr + offs, r)

asm_kernel[(1,)](TensorSpec((128,), "f32"), TensorSpec((128,), "f32"), BLOCK=128)
print("reached")
"""


def test_what_is_not_supported_warns_and_strict_refuses(run_program):
    ran = run_program(IMPORTS + ASM.replace("", ""), **ON)
    assert (ran.code, ran.out) == (0, "reached\n"), ran.err
    assert verdicts(ran) == ["unsupported"] and "inline" in ran.err
    strict = run_program(IMPORTS + ASM.replace("", ""), **{**ON, "VOLTA_VALIDATE": "strict"})
    assert strict.code != 0 and "KernelNotProved" in strict.err and "reached" not in strict.out


def test_without_a_gpu_and_without_a_target_the_way_out_is_named(run_program):
    ran = run_program(IMPORTS + ADD + "add(256)\n", VOLTA_VALIDATE="1")
    assert ran.code != 0 and "VOLTA_TARGET=cuda:80" in ran.err
