"""The page that lists every instruction form: made from the registry, so that it cannot say anything else.

``python -m ptx_engine.isa.instruction_page`` prints it; ``docs/instructions.md`` is a copy that a test keeps in step.
"""

from __future__ import annotations

import ptx_engine.isa  # noqa: F401  (registers the specs)
from ptx_engine.isa.calls import EXTERN_CALL
from ptx_engine.isa.registry import CONSTRAINTS, FORMS, REFUSED, Form, Slot
from ptx_engine.isa.targets import Version, needs_of_form

#: ignored slot -> why it changes nothing
IGNORED: dict[str, str] = {
    "L1": "a prefetch moves no data",
    "action": "scheduling and register allocation are not modelled",
    "approx": "over the reals the function is exact; on bits the error is within the ISA's bound",
    "cop": "caches change no value",
    "evict": "caches change no value",
    "ftz": "over the reals nothing is flushed; on bits it is honoured",
    "l2evict": "caches change no value",
    "level": "a prefetch moves no data",
    "product": "a tensor core's products and sums are exact over the reals; on bits the sum is rounded to nearest once",
    "mode": "rounding and approximation are the identity over the reals, and honoured on bits; a cache policy changes no value",
    "noftz": "nothing is flushed",
    "prefetch": "a prefetch moves no data",
    "primary": "caches change no value",
    "rs": "rounding is the identity over the reals; on bits the random bits are a fraction of the last place (of a subnormal result, too, "
    "where the ISA leaves open how they are aligned)",
    "rnd": "rounding is the identity over the reals, and honoured on bits",
    "sat": "out-of-range floats clamp in every conversion to integers",
    "secondary": "caches change no value",
    "weak": "the default",
}

#: instructions that the machine executes itself: control flow and CTA barriers
CONTROL: dict[str, str] = {
    "bra": "[uni] target",
    "brx": "idx [uni] index, .branchtargets list",
    "call": "[uni] (results), function, (arguments): inlined; recursion and indirect calls are refused",
    "ret": "[uni]",
    "exit": "",
    "trap": "ends the thread, and is a finding",
    "bar, barrier": "[cta] sync|arrive|red [aligned], ids 0 to 15, thread counts; red.popc.u32, red.and.pred, red.or.pred",
}

#: operands that an assembler takes, at least in some modules, and that are refused here by name
OPERANDS: dict[str, str] = {
    "addresses of 32 bits in .global and of generic accesses": "generic addresses have 64 bits here; ptxas warns of them",
    "a variable of .shared, .local or .param named in a generic access": "its address is no generic one: cvta makes it one",
    "the address of a .const or .global variable in 32 bits": "it lies above",
    "the address of a function": "indirect calls are not modelled",
    "special registers of the chip's state (%smid, %nsmid, %gridid, %envreg0, %pm0) and of clusters": "nothing is known of them",
    "negated predicates as sources of and, or, xor, not and mov": "the ISA's syntax has them in setp, selp, vote and bar.red only",
    "source registers of 128 bits for narrower values": "the ISA's table of relaxed types ends at 64 bits",
    "literals as the A and B matrices of mma": "the ISA has registers there",
}

#: instructions that some symbolic integers do not pass, and why
SYMBOLIC: dict[str, str] = {
    "bfe": "a position or length that differs between threads", "bfi": "a position or length that differs between threads",
    "shf": "a count that differs between threads", "shl": "a count that differs between threads",
    "szext": "the width is data", "bmsk": "a mask is no number", "lop3": "tables that are no exclusive or, mask or union of whole fields",
    "popc": "counts of bits", "clz": "positions of bits", "bfind": "positions of bits", "brev": "an order of bits",
    "div": "integer quotients", "rem": "integer remainders", "mul24": "numbers of 24 bits", "mad24": "numbers of 24 bits",
    "mad": "the upper half with saturation (mad.hi.sat)", "cvt": "cvt.pack of fields narrower than a byte",
    "testp": "representations (normal, subnormal), which real numbers have not",
}  # fmt: skip


def page() -> str:
    """The page as Markdown."""
    lines = [
        "# Instructions", "",
        "Made from the registry of instruction specs by `make instructions`; do not edit. Every form listed is exact over the reals",
        "(README, `docs/meaning.md`) and bit-exact in the concrete mode, up to the ISA's error bounds of approximate functions.",
        "Modifiers in *italics* are accepted and ignored, for the reasons at the end. Anything that is not here is refused by name.", "",
        "Slots in brackets are optional; `a|b` is a choice; slots stand in this order. Symbolic integers and packed data have",
        "exact meanings in part of the integer instructions only; what has none is refused where it happens, naming",
        "instruction and data.", "",
        "*Needs*: the least `.target` and `.version` of a form's instructions, and the most that some of its modifiers need; nothing",
        "where any module has them. Minima and maxima of three sources need sm_100 and 8.8.",
        "What a module's header is too old for is refused. In accesses and atomics semantics, scope and space stand in any order.", "",
    ]  # fmt: skip
    lines += ["## Control flow and barriers", "", "| Instruction | Forms |", "|---|---|"]
    lines += [f"| `{opcode}` | {_escaped(text)} |" for opcode, text in CONTROL.items()]
    lines += ["", "## Forms", "", "| Instruction | Modifiers | Needs | Source |", "|---|---|---|---|"]
    for opcode in sorted(FORMS):
        if opcode != EXTERN_CALL:
            lines += _rows(FORMS[opcode])
    lines += [
        "",
        "## Between modifiers",
        "",
        "What the ISA demands of an instruction's modifiers besides its forms; anything else is refused.",
        "",
    ]
    lines += ["| Instruction | Rule |", "|---|---|"]
    lines += [f"| `{opcode}` | {text} |" for opcode, rules in sorted(CONSTRAINTS.items()) for text, _ in rules]
    lines += [
        "",
        "## Operands",
        "",
        "Operands of other types and sizes than the ISA's, as ptxas judges them, are refused; beyond that:",
        "",
    ]
    lines += ["| Operand | Why it is refused |", "|---|---|", *(f"| {what} | {why} |" for what, why in OPERANDS.items())]
    lines += ["", "## Ignored modifiers", "", "| Modifiers | Why |", "|---|---|"]
    lines += [f"| {_escaped(', '.join(sorted(choices)))} | {IGNORED[name]} |" for name, choices in sorted(_ignored().items())]
    lines += ["", "## Refused on symbolic data", ""]
    lines += ["What has an exact meaning all the same (whole fields, powers of two, literals) passes.", ""]
    lines += ["| Instruction | What is refused |", "|---|---|", *(f"| `{name}` | {why} |" for name, why in sorted(SYMBOLIC.items()))]
    lines += ["", "## Refused", "", "| Instruction or modifier | Why |", "|---|---|"]
    lines += [f"| `{name}` | {why} |" for name, why in sorted(REFUSED.items())]
    return "\n".join(lines) + "\n"


def _rows(forms: list[Form]) -> list[str]:
    """One row for forms that differ in the order of their slots only."""
    orders: dict[tuple[frozenset[Slot], str], list[Form]] = {}
    for form in forms:
        orders.setdefault((frozenset(form.slots), form.source), []).append(form)
    return [_row(same[0], len(same)) for same in orders.values()]


def _row(form: Form, orders: int) -> str:
    slots = " ".join(map(_slot, form.slots)) + (f" (slots in {orders} orders)" if orders > 1 else "")
    return f"| `{form.opcode}` | {_escaped(slots)} | {_needs(form)} | {form.source.removeprefix('PTX ISA 9.1, ')} |"


def _needs(form: Form) -> str:
    shown = list(dict.fromkeys(map(_need, needs_of_form(form))))
    return " to ".join(text or "any" for text in shown) if shown != [""] else ""


def _need(need: tuple[str, Version]) -> str:
    target, version = need
    parts = [f"sm_{target}"] if target != "0" else []
    return ", ".join(parts + ([".".join(map(str, version))] if version > (0, 0) else []))


def _slot(slot: Slot) -> str:
    text = "|".join(f".{choice}" for choice in sorted(slot.choices))
    text = f"*{text}*" if slot.ignored else text
    return f"[{text}]" if slot.optional else text


def _ignored() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for forms in FORMS.values():
        for form in forms:
            for slot in form.slots:
                if slot.ignored:
                    found.setdefault(slot.name, set()).update(slot.choices)
    return found


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(page(), end="")
