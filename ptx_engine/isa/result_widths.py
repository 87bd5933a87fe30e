"""How wide the register of a result must be: what an instruction computes fits its destination exactly, or is refused.

Loads and conversions may write a wider register (PTX ISA 9.1, "Operand Size Exceeding Instruction-Type Size"); their own specs extend. Of a
conversion the width is the least one.
Nothing is said about vectors, fragments and what an extern call returns.
"""

from __future__ import annotations

from collections.abc import Callable

Modifiers = dict[str, str]
Widths = dict[str, int]

_TYPED = (
    "add addc sub subc mul mad madc mul24 mad24 sad div rem abs neg min max fma rcp sqrt rsqrt sin cos lg2 ex2 tanh copysign and or xor "
    "not cnot lop3 shf shl shr bfe bfi brev bmsk szext fns selp slct mov prmt redux activemask atom cvta"
)  # fmt: skip
_WORDS = "popc clz bfind dp2a dp4a match shfl"
_PREDICATES = "setp testp isspacep"


def _typed(mods: Modifiers, widths: Widths) -> int:
    width = widths[mods["type"]]
    return 2 * width if mods.get("mode") == "wide" else width


def _barrier_result(mods: Modifiers) -> int | None:
    if "pending_count" in mods:
        return 32
    return {"arrive": 64, "arrive_drop": 64, "test_wait": 1, "try_wait": 1}.get(mods.get("op", ""))


def _reduced(mods: Modifiers) -> int | None:
    reduce = mods.get("reduce")
    return None if reduce is None else 32 if reduce == "popc" else 1


def _converted(mods: Modifiers, widths: Widths) -> int:
    return 32 if "pack" in mods else widths[mods["to"]]


_RULES: dict[str, Callable[[Modifiers, Widths], int | None]] = {
    **dict.fromkeys(_TYPED.split(), _typed), **dict.fromkeys(_WORDS.split(), lambda mods, widths: 32),
    **dict.fromkeys(_PREDICATES.split(), lambda mods, widths: 1), "set": lambda mods, widths: widths[mods["out"]],
    "vote": lambda mods, widths: 32 if mods["mode"] == "ballot" else 1, **dict.fromkeys(("elect", "movmatrix"), lambda mods, widths: 32),
    "createpolicy": lambda mods, widths: 64, "mbarrier": lambda mods, widths: _barrier_result(mods),
    **dict.fromkeys(("bar", "barrier"), lambda mods, widths: _reduced(mods)), "cvt": lambda mods, widths: _converted(mods, widths),
}  # fmt: skip


def result_bits(opcode: str, mods: Modifiers, widths: Widths) -> int | None:
    """The width of an instruction's result in bits by its modifiers' slots; None where the register may be wider or is no single one."""
    rule = _RULES.get(opcode)
    return None if rule is None else rule(mods, widths)
