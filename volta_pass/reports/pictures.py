"""Pictures of a report: which elements of an output fail, which threads touch which bytes, where the time went."""

from __future__ import annotations

import base64
import json

import numpy as np

from ptx_engine.findings import Finding, Site
from ptx_engine.launch import TensorArg
from ptx_engine.verdict import OutputVerdict
from volta_pass.kernel_report import KernelReport
from volta_pass.reports.text import shown

#: larger tensors are drawn in blocks of elements
_MOST_CELLS = 1 << 20
_STAGES = ("parse", "execute", "order", "source", "reference", "decide")


def failing_maps(report: KernelReport) -> str:
    """A canvas per output that is not proved: one pixel per element, or per block of elements."""
    comparison = report.deciding
    if comparison is None:
        return ""
    maps = [
        _map(output, report.tensors[output.tensor])
        for output in comparison.verdict.outputs
        if len(output.failing) and output.tensor in report.tensors
    ]
    return f'<div class="maps">{"".join(maps)}</div>' if maps else ""


def _map(output: OutputVerdict, tensor: TensorArg) -> str:
    rows, columns, at = cells(output.failing, tensor)
    block_rows, block_columns = _blocks(rows, columns)
    height, width = -(-rows // block_rows), -(-columns // block_columns)
    hits = np.zeros((height, width), np.int64)
    np.add.at(hits, (at[0] // block_rows, at[1] // block_columns), 1)
    share = np.ceil(hits * 255 / (block_rows * block_columns)).clip(0, 255).astype(np.uint8)
    facts: dict[str, object] = {
        "rows": rows,
        "columns": columns,
        "blockRows": block_rows,
        "blockColumns": block_columns,
        "width": width,
        "height": height,
    }
    facts |= {"shape": list(tensor.shape), "name": output.tensor}
    data = base64.b64encode(np.packbits(share > 0).tobytes() if block_rows * block_columns == 1 else share.tobytes()).decode()
    told = f"{output.tensor}{list(tensor.shape)}: {len(output.failing)} of {output.elements} elements are not equal"
    scale = f"; one pixel is {block_rows} x {block_columns} elements" if block_rows * block_columns > 1 else ""
    facts_text, label = shown(json.dumps(facts)), shown(told)
    canvas = f'<canvas tabindex="0" role="img" aria-label="{label}" data-facts="{facts_text}" data-bits="{data}"></canvas>'
    return f'<figure class="map"><figcaption>{shown(told)}{scale}</figcaption>{canvas}<output></output></figure>'


def cells(failing: np.ndarray, tensor: TensorArg) -> tuple[int, int, tuple[np.ndarray, np.ndarray]]:
    """Rows, columns and the (row, column) of each failing storage index: the last extent is the columns, all others the rows.

    Indices that the view does not reach are left out.
    """
    shape, strides = tensor.shape or (1,), tensor.element_strides() or (1,)
    rest, index = np.asarray(failing, np.int64), [np.zeros(len(failing), np.int64)] * len(shape)
    for d in sorted(range(len(shape)), key=lambda d: -strides[d]):
        if strides[d]:
            index[d] = np.minimum(rest // strides[d], shape[d] - 1)
            rest = rest - index[d] * strides[d]
    inside = rest == 0
    row = np.zeros(len(failing), np.int64)
    for d in range(len(shape) - 1):
        row = row * shape[d] + index[d]
    rows = int(np.prod(shape[:-1], dtype=np.int64)) if len(shape) > 1 else 1
    columns = shape[-1]
    column = index[-1]
    if rows == 1 and columns > 256:  # a vector as a page
        rows, columns = -(-columns // 128), 128
        row, column = column // columns, column % columns
    return rows, columns, (row[inside], column[inside])


def _blocks(rows: int, columns: int) -> tuple[int, int]:
    block_rows = block_columns = 1
    while -(-rows // block_rows) * -(-columns // block_columns) > _MOST_CELLS:
        if rows // block_rows >= columns // block_columns:
            block_rows *= 2
        else:
            block_columns *= 2
    return block_rows, block_columns


# --- races --------------------------------------------------------------------------------------


def race_pictures(report: KernelReport) -> str:
    """Threads by address, for findings between two threads."""
    pictures = [_race(finding) for finding in report.findings if len(finding.sites) == 2 and finding.width_bytes > 0]
    return f'<div class="races">{"".join(pictures[:12])}</div>' if pictures else ""


def _race(finding: Finding) -> str:
    """Bytes from left to right, one bar per thread."""
    width, first = max(1, finding.width_bytes), finding.address_offset
    margin = max(4, width)
    total = width + 2 * margin
    scale = 640 / total
    bars = "".join(_bar(site, i, margin * scale, width * scale) for i, site in enumerate(finding.sites))
    ticks = "".join(
        f'<line x1="{160 + i * scale:.1f}" x2="{160 + i * scale:.1f}" y1="18" y2="98" class="tick"/>'
        for i in range(total + 1)
        if total <= 96
    )
    name = finding.tensor or finding.space
    labels = (
        f'<text x="{160 + margin * scale:.1f}" y="12">+{first}</text>'
        f'<text x="{160 + (margin + width) * scale:.1f}" y="12" text-anchor="end">+{first + width - 1}</text>'
    )
    told = f"{finding.kind} on {name}: {finding.message}"
    opening = f'<svg viewBox="0 0 820 104" role="img" aria-label="{shown(told)}">'
    return f'<figure class="race"><figcaption>{shown(told)}</figcaption>{opening}{ticks}{labels}{bars}</svg></figure>'


def _bar(site: Site, number: int, left: float, width: float) -> str:
    y = 24 + 40 * number
    cta = ",".join(str(c) for c in site.cta)
    who = f"CTA ({cta}) warp {site.warp} lane {site.lane}"
    what = "write" if "write" in site.role or "store" in site.role else "read"
    return (
        f'<text x="0" y="{y + 13}">{shown(who)}</text><text x="0" y="{y + 27}" class="faint">{shown(site.role)}</text>'
        f'<rect x="{160 + left:.1f}" y="{y}" width="{max(2.0, width):.1f}" height="28" rx="4" class="{what}"/>'
    )


# --- time ---------------------------------------------------------------------------------------


def time_bar(report: KernelReport) -> str:
    """Seconds of each stage, as parts of one bar."""
    parts = [(stage, report.seconds.get(stage, 0.0)) for stage in _STAGES]
    total = sum(seconds for _, seconds in parts)
    if total <= 0:
        return ""
    spans = "".join(
        f'<span class="{stage}" style="flex:{seconds / total:.6f}" title="{stage} {seconds:.3f} s"></span>'
        for stage, seconds in parts
        if seconds
    )
    legend = " ".join(f'<span><i class="{stage}"></i>{stage} {seconds:.3f} s</span>' for stage, seconds in parts if seconds)
    return f'<figure class="time"><figcaption>{legend}</figcaption><div class="bar">{spans}</div></figure>'
