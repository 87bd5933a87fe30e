"""Stand-ins for host headers that kernels include although only their types, limits and names of functions are used: NVRTC has none.

What they declare is what C++ says they are (sizes: LP64, as on the hosts that CUDA runs on). Functions are NVRTC's own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

_ONCE = "#pragma once\n"
#: functions of <cmath> that NVRTC declares for float and double
_MATH = (
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "copysign", "cos", "cosh", "erf", "erfc", "exp",
    "exp2", "expm1", "fabs", "fdim", "floor", "fma", "fmax", "fmin", "fmod", "hypot", "ldexp", "lgamma", "log", "log10", "log1p", "log2",
    "logb", "lrint", "lround", "nearbyint", "pow", "remainder", "rint", "round", "sin", "sinh", "sqrt", "tan", "tanh", "tgamma", "trunc",
    "isnan", "isinf", "isfinite", "signbit",
)  # fmt: skip


def _integers() -> str:
    rows = []
    for bits, kind in ((8, "char"), (16, "short"), (32, "int"), (64, "long long")):
        low, high, top = -(1 << bits - 1), (1 << bits - 1) - 1, (1 << bits) - 1
        suffix = "LL" if bits == 64 else ""
        for prefix in ("", "_least", "_fast"):
            rows += [f"typedef signed {kind} int{prefix}{bits}_t;", f"typedef unsigned {kind} uint{prefix}{bits}_t;"]
        rows += [f"#define INT{bits}_MAX {high}{suffix}", f"#define INT{bits}_MIN ({low + 1}{suffix} - 1)"]
        rows.append(f"#define UINT{bits}_MAX {top}{'U' if bits >= 32 else ''}{suffix}")
    rows += ["typedef long long intptr_t;", "typedef unsigned long long uintptr_t;", "typedef long long intmax_t;"]
    rows.append("typedef unsigned long long uintmax_t;")
    return "\n".join(rows) + "\n"


def _limits() -> str:
    rows = ["#define CHAR_BIT 8"]
    for name, bits, suffix in (("SCHAR", 8, ""), ("SHRT", 16, ""), ("INT", 32, ""), ("LONG", 64, "L"), ("LLONG", 64, "LL")):
        rows += [f"#define {name}_MAX {(1 << bits - 1) - 1}{suffix}", f"#define {name}_MIN (-{(1 << bits - 1) - 1}{suffix} - 1)"]
    for name, bits, suffix in (("UCHAR", 8, ""), ("USHRT", 16, ""), ("UINT", 32, "U"), ("ULONG", 64, "UL"), ("ULLONG", 64, "ULL")):
        rows.append(f"#define {name}_MAX {(1 << bits) - 1}{suffix}")
    return "\n".join(rows) + "\n"


def _floats() -> str:
    rows = []
    for name, digits, top, suffix in (("FLT", 24, 128, "f"), ("DBL", 53, 1024, "")):
        for what, value in (
            ("MAX", (2.0 - 2.0 ** (1 - digits)) * 2.0 ** (top - 1)), ("MIN", 2.0 ** (2 - top)), ("EPSILON", 2.0 ** (1 - digits)),
        ):  # fmt: skip
            rows.append(f"#define {name}_{what} {value.hex()}{suffix}")
        rows += [f"#define {name}_MANT_DIG {digits}", f"#define {name}_MAX_EXP {top}", f"#define {name}_MIN_EXP {3 - top}"]
    return "\n".join(rows) + "\n"


def _math() -> str:
    rows = ["#define INFINITY __int_as_float(0x7f800000)", "#define NAN __int_as_float(0x7fffffff)"]
    rows += ["#define HUGE_VALF INFINITY", "#define HUGE_VAL __longlong_as_double(0x7ff0000000000000LL)"]
    constants = {
        "E": math.e, "LOG2E": math.log2(math.e), "LOG10E": math.log10(math.e), "LN2": math.log(2), "LN10": math.log(10), "PI": math.pi,
        "PI_2": math.pi / 2, "PI_4": math.pi / 4, "1_PI": 1 / math.pi, "2_PI": 2 / math.pi, "2_SQRTPI": 2 / math.sqrt(math.pi),
        "SQRT2": math.sqrt(2), "SQRT1_2": math.sqrt(0.5),
    }  # fmt: skip
    rows += [f"#define M_{name} {value!r}" for name, value in constants.items()]
    return "\n".join(rows) + "\n"


def _standard(name: str) -> str:
    """A header of the C++ library that is in CUDA's own: under its usual name, too."""
    return f"#include <cuda/std/{name}>\nnamespace std {{ using namespace cuda::std; }}\n"


#: CUDA's own names, which NVRTC declares by itself
_BUILT_IN = ("cuda_runtime.h", "cuda_runtime_api.h", "cuda.h", "device_launch_parameters.h", "device_functions.h", "math_functions.h")
_LIBRARY = (
    "algorithm", "array", "bit", "complex", "functional", "initializer_list", "limits", "optional", "span", "tuple", "type_traits",
    "utility",
)  # fmt: skip
_TEXTS: dict[str, str] = {
    "stdint.h": _integers(), "limits.h": _limits(), "float.h": _floats(), "math.h": _math(), "stddef.h": "",
    "stdio.h": "", **dict.fromkeys(_BUILT_IN, ""), **{name: _standard(name) for name in _LIBRARY},
}  # fmt: skip
_TEXTS["cmath"] = _TEXTS["math.h"] + "namespace std {\n" + "".join(f"using ::{name};\n" for name in _MATH) + "}\n"
for _c, _cpp in (("stdint.h", "cstdint"), ("limits.h", "climits"), ("float.h", "cfloat"), ("stddef.h", "cstddef"), ("stdio.h", "cstdio")):
    _TEXTS[_cpp] = f"#include <{_c}>\n"
_TEXTS.update(dict.fromkeys(("assert.h", "stdbool.h", "stdlib.h", "string.h"), ""))
_TEXTS["inttypes.h"] = "#include <stdint.h>\n"
for _c in ("assert", "stdlib", "string", "inttypes"):
    _TEXTS[f"c{_c}"] = f"#include <{_c}.h>\n"
_TEXTS["sys/types.h"] = "".join(f"typedef unsigned {kind} u{kind};\n" for kind in ("short", "int", "long")) + "".join(
    f"typedef signed {kind} int{bits}_t;\n" for bits, kind in ((8, "char"), (16, "short"), (32, "int"), (64, "long long"))
)
_WORDS = [f"{sign}int{kind}{bits}_t" for sign in ("", "u") for kind in ("", "_least", "_fast") for bits in (8, 16, 32, 64)]
_TEXTS["cstdint"] += "namespace std {\n" + "".join(f"using ::{name};\n" for name in _WORDS) + "}\n"
#: what every .cu file has under nvcc, whose first lines include the host's headers: no file of the user's has this name. Limits are
#: left out: CUDA's own <climits> writes them in another way, with a warning for each that is there already
IMPLICIT = "volta_pass/implicit.h"
_TEXTS[IMPLICIT] = _TEXTS["cmath"] + _TEXTS["sys/types.h"] + "namespace std { using ::size_t; typedef decltype(nullptr) nullptr_t; }\n"


def host_headers(folders: Sequence[str]) -> dict[str, str]:
    """Include name -> text, of those that none of the user's folders has."""
    return {name: _ONCE + text for name, text in _TEXTS.items() if not any((Path(folder) / name).is_file() for folder in folders)}
