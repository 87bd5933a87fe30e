"""An output that differs, for people: which element, which terms, where in the tensor, and inputs that show it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ptx_engine.launch import TensorArg
from ptx_engine.verdict import Explanation, OutputVerdict, Status, Witness
from volta_pass.diagnostics.header import labelled
from volta_pass.diagnostics.region import describe_region, draw_map
from volta_pass.terminal import Painter, printable

_SHOWN_INPUTS = 6
_SHOWN_TERMS = 4
_ELEMENT = re.compile(r"^(.*)\[(\d+)\]$")


def render_output(output: OutputVerdict, tensors: Mapping[str, TensorArg], paint: Painter) -> list[str]:
    """The rows of one output tensor: explanation, region with map, witness."""
    rows = labelled(paint, "output", printable(_what_differs(output, tensors)))
    rows += _terms(output.explanation, paint)
    tensor = tensors.get(output.tensor)
    if tensor is not None and len(output.failing):
        rows += labelled(paint, "where", f"{output.tensor}: {describe_region(tensor, output.failing)}")
        if output.status is Status.REFUTED:
            rows += [" " * 11 + line for line in draw_map(tensor, output.failing)]
    if output.witness is not None:
        rows += labelled(paint, "witness", printable(witness_text(output.witness, tensors)))
    if output.numeric_difference is not None and output.status is Status.UNKNOWN:
        rows += labelled(paint, "numbers", f"largest relative difference seen: {output.numeric_difference:.3g}")
    return rows


def element_name(tensor: str, storage_index: int, tensors: Mapping[str, TensorArg]) -> str:
    """``C[3, 7]`` of a storage index."""
    arg = tensors.get(tensor)
    index = arg.index_of(storage_index) if arg is not None and arg.storage else (storage_index,)
    return f"{tensor}[{', '.join(map(str, index))}]"


def _what_differs(output: OutputVerdict, tensors: Mapping[str, TensorArg]) -> str:
    where = output.tensor
    if output.witness is not None:
        where = element_name(output.witness.output, output.witness.index, tensors)
    elif len(output.failing):
        where = element_name(output.tensor, int(output.failing[0]), tensors)
    said = output.explanation.text if output.explanation is not None and output.explanation.text else output.reason
    if said.startswith(output.tensor + "["):
        return said  # the decider names the element itself
    return f"{where}: {said}" if said else where


def _terms(explanation: Explanation | None, paint: Painter) -> list[str]:
    """The first missing and extra terms, where the explanation's own text does not list them already."""
    rows: list[str] = []
    if explanation is None:
        return rows
    for label, terms, total in (
        ("missing", explanation.missing, explanation.missing_total),
        ("extra", explanation.extra, explanation.extra_total),
    ):
        if terms and terms[0] not in explanation.text:
            total = max(total, len(terms))
            more = f" ({total} terms)" if total > _SHOWN_TERMS else ""
            rows += labelled(paint, label, printable(", ".join(terms[:_SHOWN_TERMS]) + (", ..." if more else "") + more))
    return rows


def witness_text(witness: Witness, tensors: Mapping[str, TensorArg]) -> str:
    """``A[1, 0]=1, B[96, 0]=1, all else 0: kernel 1.0, reference 0.0``"""
    shown: list[str] = []
    zeros = 0
    for name, value in witness.inputs.items():
        if _is_zero(value):
            zeros += 1
            continue
        found = _ELEMENT.match(name)
        label = element_name(found[1], int(found[2]), tensors) if found else name
        shown.append(f"{label}={_short(value)}")
    text = ", ".join(shown[:_SHOWN_INPUTS])
    if len(shown) > _SHOWN_INPUTS:
        text += f", ... ({len(shown)} inputs in all)"
    if zeros:
        text += ", all else 0" if text else "all inputs 0"
    sides = f"kernel {_short(witness.candidate_value)}, reference {_short(witness.reference_value)}"
    return f"{text}: {sides}" if text else sides


def _is_zero(value: str) -> bool:
    try:
        return float(value) == 0.0
    except ValueError:
        return False


def _short(value: str) -> str:
    """At most 12 significant digits: the full ones are in the JSON."""
    if len(value) <= 14:
        return value
    try:
        return f"{float(value):.10g}"
    except ValueError:
        return value[:24] + "..."
