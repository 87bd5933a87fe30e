"""CUDA C through NVRTC (or nvcc), without a toolkit, a driver or a GPU: compile to PTX, and check launches of what was compiled.

``compile_cuda(CudaSource(text, arch=80))`` gives PTX, ``cuda_kernel(text)`` a kernel whose launches can be checked. Specs reach
the same compiler by ``cuda = "kernel.cu"``. Needs the package nvidia-cuda-nvrtc (the extra ``cuda``).
"""

from volta_pass.cuda import Compilation, CudaCompileError, CudaCompilerMissing, CudaSource, compile_cuda
from volta_pass.cuda_api import CudaKernel, CudaLaunch, cuda_kernel

__all__ = [
    "Compilation",
    "CudaCompileError",
    "CudaCompilerMissing",
    "CudaKernel",
    "CudaLaunch",
    "CudaSource",
    "compile_cuda",
    "cuda_kernel",
]
