"""CUDA C compiled to PTX, by NVRTC or nvcc, without a driver or a GPU."""

from volta_pass.cuda.compile import Compilation, compile_cuda
from volta_pass.cuda.errors import CudaCompileError, CudaCompilerMissing
from volta_pass.cuda.source import CudaSource

__all__ = ["Compilation", "CudaCompileError", "CudaCompilerMissing", "CudaSource", "compile_cuda"]
