"""Evaluated references in the store: their terms, to be compared with again without evaluating them, and fingerprints of their outputs.

The autotuner compares every configuration with one source, a baseline every new PTX with an old one: whoever comes second reads the
terms. They stand under everything that they depend on (our version, the reference's text and launch, the CTAs, what the inputs are), and
only evaluations without findings are kept. A refutation is never shown on stored terms: the reference is then evaluated again, since
its places in the source are not stored. Fingerprints depend on terms alone, not on ids, processes or machines.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ptx_engine.launch import Footprint
from ptx_engine.terms.archive import ArchiveError, pack_terms, unpack_terms
from ptx_engine.terms.arena import Arena
from ptx_engine.terms.storage import Ledger
from volta_pass.job import PtxReference, Reference, TtirReference, ValidationJob, launch_to_json
from volta_pass.kernel_report import OWN_SOURCE
from volta_pass.stages import Evaluated, Stages
from volta_pass.store.container import CorruptEntryError
from volta_pass.store.keys import canonical, digest, own_version
from volta_pass.store.proofs import sections_of
from volta_pass.store.store import ORIGIN, PAYLOAD, Sections, Store

#: the kind of an evaluated reference
REFERENCES = "references"
TERMS, FINGERPRINTS, REFERENCE_KEY = "terms.bin", "fingerprints.json", "reference.key"
#: whose fingerprints stand with a proof, beside OWN_SOURCE
CANDIDATE = "candidate"
#: bytes of terms that are kept; larger references are evaluated each time
MOST_BYTES = 1 << 25
#: terms below outputs beyond which nothing is archived: packing would cost more than it can save
MOST_TERMS = 1 << 22
#: archives that one process holds
_HELD = 4

StoredReference = TtirReference | PtxReference


def reference_key(reference: StoredReference, stages: Stages, version: str | None = None) -> str:
    """Everything that the terms of an evaluated reference depend on."""
    code = own_version() if version is None else version
    kind = reference.language if isinstance(reference, TtirReference) else "ptx"
    chosen = canonical([stages.max_ctas, stages.options.seed])
    launch = canonical(launch_to_json(stages.launch))
    return digest(REFERENCES, code, kind, reference.identity(), launch, chosen, canonical(stages.library))


def fingerprints_of(arena: Arena, footprints: Mapping[str, Footprint], seed: int = 0) -> dict[str, Any]:
    """Per output: how many elements, and a digest of which they are and of their values at random points of finite fields."""
    from ptx_engine.decide.fingerprint import DEFAULT_POINTS, fingerprint

    rows: dict[str, Any] = {}
    for name, footprint in sorted(footprints.items()):
        values = fingerprint(arena, footprint.ids, seed=seed)
        hashed = hashlib.sha256(np.ascontiguousarray(footprint.index, "<i8").tobytes())
        hashed.update(np.ascontiguousarray(values, "<u4").tobytes())
        rows[name] = {"elements": len(footprint.index), "digest": hashed.hexdigest(), "seed": seed, "points": DEFAULT_POINTS}
    return rows


class ReferenceTerms:
    """Evaluated references, recalled and kept; what ``Stages`` asks (``stages.KnownReferences``)."""

    def __init__(self, store: Store) -> None:
        self.store = store
        #: archives by key, the last used last: an autotuner asks for one again and again
        self._held: dict[str, Sections] = {}

    def recall(self, reference: StoredReference, stages: Stages) -> Evaluated | None:
        """The reference's outputs as terms of the stages' arena; None where they are not stored, or are not to be trusted."""
        key = reference_key(reference, stages)
        sections = self._held.pop(key, None) or self.store.get(REFERENCES, key)
        if sections is None:
            return None
        try:
            found = evaluated_from(sections, stages)
        except (ArchiveError, CorruptEntryError) as error:
            self.store.refuse(self.store.local, self.store.name(REFERENCES, key), str(error))
            return None
        self._hold(key, sections)
        return found

    def keep(self, reference: StoredReference, stages: Stages, evaluated: Evaluated, noted: Ledger) -> None:
        """Store an evaluation that found nothing; never an error, and nothing where it would be large."""
        sections = entry_of(reference, stages, evaluated, noted)
        if sections is not None:
            key = reference_key(reference, stages)
            self.store.put(REFERENCES, key, sections)
            self._hold(key, sections)

    def evidence(
        self, stages: Stages, own: Evaluated | None, noted: Ledger, candidate: Mapping[str, Footprint], reference: Reference | None
    ) -> Sections:
        """What is kept with a proof: fingerprints of both sides' outputs, the own source's terms, and where the reference's terms are."""
        if len(stages.arena) > MOST_TERMS:
            return {}
        seed = stages.options.seed
        rows = {CANDIDATE: fingerprints_of(stages.arena, candidate, seed)}
        sections: Sections = {}
        if own is not None:
            rows[OWN_SOURCE] = fingerprints_of(stages.arena, own.footprints, seed)
            terms = archive_of(stages, own, noted)
            if len(terms) <= MOST_BYTES:
                sections[TERMS] = terms
        if isinstance(reference, StoredReference):
            sections[REFERENCE_KEY] = reference_key(reference, stages).encode()
        return {FINGERPRINTS: canonical(rows).encode(), **sections}

    def _hold(self, key: str, sections: Sections) -> None:
        self._held[key] = sections
        while len(self._held) > _HELD:
            self._held.pop(next(iter(self._held)))


def entry_of(reference: StoredReference, stages: Stages, evaluated: Evaluated, noted: Ledger) -> Sections | None:
    """An evaluation as an entry, with what it takes to do it again; None for one that is large or found something."""
    if evaluated.findings or evaluated.dependent or len(stages.arena) > MOST_TERMS:
        return None
    terms = archive_of(stages, evaluated, noted)
    if len(terms) > MOST_BYTES:
        return None
    facts = {"whole": evaluated.whole, "assumptions": noted.assumptions, "says": evaluated.assumptions, "label": reference.label}
    prints = fingerprints_of(stages.arena, evaluated.footprints, stages.options.seed)
    options = replace(stages.options, ctas="all" if stages.max_ctas is None else stages.max_ctas)
    job = ValidationJob(reference.label, "", stages.launch, reference=reference, library=stages.library, options=options)
    return {
        PAYLOAD: canonical(facts).encode(), FINGERPRINTS: canonical(prints).encode(), TERMS: terms, **sections_of(job, with_contents=False)
    }  # fmt: skip


def archive_of(stages: Stages, evaluated: Evaluated, noted: Ledger) -> bytes:
    """An evaluation's terms as bytes, with what vanished in it."""
    written = {name: (footprint.index, footprint.ids) for name, footprint in evaluated.footprints.items()}
    return pack_terms(stages.arena, written, noted.dropped, noted.denominators)


def evaluated_from(sections: Sections, stages: Stages) -> Evaluated:
    """The evaluation of an entry, in the stages' arena. Raises ArchiveError, CorruptEntryError."""
    try:
        facts = json.loads(sections[PAYLOAD])
        assumptions, says, whole = [str(line) for line in facts["assumptions"]], [str(line) for line in facts["says"]], facts["whole"]
        data = sections[TERMS]
    except (KeyError, ValueError, TypeError, RecursionError) as error:
        raise CorruptEntryError(f"it holds no reference ({type(error).__name__}: {error})") from None
    if not isinstance(whole, bool):
        raise CorruptEntryError("it holds no reference")
    with stages.timed("reference"):
        found = unpack_terms(data, stages.arena)
    stages.arena.assumptions |= dict.fromkeys(assumptions)
    if ORIGIN in sections:
        says.append(f"the reference's terms were read from the shared store {sections[ORIGIN].decode(errors='replace')}")
    footprints = {name: Footprint(index, ids) for name, (index, ids) in found.written.items()}
    return Evaluated(footprints, whole=whole, assumptions=says, recalled=True)
