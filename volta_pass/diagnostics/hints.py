"""The next step: one sentence per kind of finding or mismatch."""

from __future__ import annotations

from ptx_engine.findings import Finding
from ptx_engine.verdict import Explanation

_FINDINGS = {
    "data race": "order the two accesses: a barrier between them (bar.sync, __syncthreads(), tl.debug_barrier()), or another buffer",
    "lockstep assumed": "volatile orders nothing between lanes: put a bar.warp.sync (__syncwarp()) between the store and the load",
    "same-value write": "harmless only as long as both threads write the same value; let one thread write",
    "unused read": "harmless: whatever the load reads, no thread stores it; mask the load or lower the number of threads to avoid it",
    "deadlock": "let every thread that the barrier counts, or that the member mask names, come to it; or lower the count, or the mask",
    "out of bounds": "mask the access: compare the index with the tensor's extent",
    "misaligned": "align the address to the access width, or use a narrower access",
    "uninitialised": "write the location before it is read, or give the masked load a value (other=0.0)",
    "write to a read-only argument": 'write to another tensor, or declare its role "inout"',
    "stale read": "load it without .nc (no __ldg, no const __restrict__), or store to another tensor",
    "barrier misuse": "use one barrier id per set of waiting threads, with a count that is a multiple of the warp size",
    "mbarrier misuse": "initialise once, arrive in a phase only after a wait for the last one, invalidate before the memory is reused",
    "divergent collective": "let all lanes of the warp execute it: branch by what is the same in the warp, exit after it",
}

_EXPLANATIONS = {
    "missing": "terms are dropped: look at loop bounds, masks and the last tile",
    "extra": "terms are added that the reference does not have: look for a load without a mask, or a loop that runs too far",
    "changed": "the same inputs with other factors: look at constants, scales and operand order",
    "diverges": "start at the first operation at which the two sides part, named above",
    "moved": "right values at wrong places: look at the index arithmetic of the store, then of the loads",
    "footprint": "one side writes elements that the other does not: look at the store's mask and the grid",
}


_BETWEEN_CTAS = (
    "no barrier of a CTA orders these: let one CTA own the element, make both accesses atomic, or hand over by a release (fence, then an "
    "atomic) that the other CTA acquires (an atomic, then a fence)"
)


_LOOPS = (
    "let another thread store what the loop waits for, and load it in every turn: a compiler takes a load that is not volatile out of it"
)


def finding_hint(finding: Finding) -> str:
    """What to do about a finding; empty where there is no general advice."""
    if finding.kind == "barrier misuse" and finding.missing:  # by lanes of a warp
        return _FINDINGS["divergent collective"]
    if finding.kind == "deadlock" and all(site.role.startswith("waits at a loop") for site in finding.sites):
        return _LOOPS
    if finding.kind == "data race" and len({site.cta for site in finding.sites[:2]}) > 1:
        return _BETWEEN_CTAS
    return _FINDINGS.get(finding.kind, "")


def explanation_hint(explanation: Explanation | None) -> str:
    """What to look at for a mismatch; empty without an explanation."""
    return _EXPLANATIONS.get(explanation.kind, "") if explanation is not None else ""
