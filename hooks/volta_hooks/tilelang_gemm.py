"""Matrix products of TileLang 0.1.14, read by a newer TileLang: it takes 13 slots where the older one wrote 19.

The strides and offsets that it no longer takes stand in the operands' regions; how a back end packs and waits is an annotation now.
"""

from __future__ import annotations

from typing import Any

import tilelang  # noqa: F401  (it brings its own TVM)
import tvm
from tvm import tirx

_GEMM = "tl.tileop.gemm"
#: slots of the older form: strides and offsets of both operands, then k_pack and wg_wait with what they are where nobody says anything
_OLDER, _DROPPED = 19, slice(10, 16)
_ANNOTATED = ((14, "k_pack", 1), (15, "wg_wait", 0))


def with_fewer_slots(func: Any) -> Any:
    """The function as the installed TileLang writes its products; as it is where that is the older one."""
    try:
        tvm.ir.Op.get("tl.tileop.gemm_blockscaled")
    except Exception:  # the older one has no such operation, and 19 slots
        return func
    return func.with_body(tirx.stmt_functor.ir_transform(func.body, None, _fewer, ["tirx.Call"]))


def _fewer(call: Any) -> Any:
    """The product in 13 slots; None (as it is) for any other call."""
    if str(getattr(call.op, "name", "")) != _GEMM or len(call.args) != _OLDER:
        return None
    slots = list(call.args)
    said = {name: slots[at] for at, name, usual in _ANNOTATED if not (isinstance(slots[at], tirx.IntImm) and int(slots[at]) == usual)}
    del slots[_DROPPED]
    return tirx.Call(call.dtype, call.op, slots, {**dict(call.annotations or {}), **said})
