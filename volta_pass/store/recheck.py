"""Stored proofs and references, done again from their entries alone.

Checksums say that an entry is what somebody wrote; only doing it again says that it is true. An entry whose inputs do not give its key,
or whose proof, fingerprints or terms do not come out again, was not made by us (or by other code than ours): it is named and removed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ptx_engine.errors import InternalError, PtxError
from ptx_engine.terms.archive import ArchiveError, content_of
from ptx_engine.terms.storage import Ledger
from ptx_engine.verdict import Status
from volta_pass.job import FunctionReference
from volta_pass.stages import Evaluated, Stages
from volta_pass.store.container import CorruptEntryError
from volta_pass.store.keys import canonical, own_version
from volta_pass.store.places import Place
from volta_pass.store.proofs import JOB, VERDICTS, job_of, proof_keys
from volta_pass.store.references import FINGERPRINTS, REFERENCES, TERMS, ReferenceTerms, StoredReference, entry_of, reference_key
from volta_pass.store.store import PAYLOAD, Sections, Store
from volta_pass.validate import validate

#: parts of a report that two proofs of the same thing share
_SAME = ("verdict", "method", "findings", "comparisons", "ctas", "instructions", "assumptions")
_OTHER_VERSION = "of another version"


@dataclass
class Rechecked:
    """How many entries came out again, which did not and why, and how many could not be tried (another version, no contents)."""

    confirmed: int = 0
    untried: int = 0
    refused: list[str] = field(default_factory=list)


def recheck(store: Store, most: int | None = None) -> Rechecked:
    """Do what is stored again, of every place at most so many entries, the last used first; what does not come out is removed."""
    result = Rechecked()
    for place in (store.local, store.shared):
        if place is None:
            continue
        found = [item for item in place.items() if item.name.partition("/")[0] in _WRONG]
        found.sort(key=lambda item: (-item.used_s, item.name))
        for item in found[:most]:
            _recheck_one(store, place, item.name, result)
    return result


def _recheck_one(store: Store, place: Place, name: str, result: Rechecked) -> None:
    kind, _, key = name.partition("/")[0], "", name.rpartition("/")[2]
    sections = store.read_from(place, kind, key)
    if sections is None:
        result.refused.append(f"{place}/{name}: damaged")
        return
    why = _OTHER_VERSION if JOB not in sections else _reason(_WRONG[kind], sections, key)
    if why is None:
        result.confirmed += 1
    elif why == _OTHER_VERSION:
        result.untried += 1
    else:
        result.refused.append(f"{place}/{name}: {why}")
        store.refuse(place, name, why)


def _reason(wrong: Callable[[Sections, str], str | None], sections: Sections, key: str) -> str | None:
    """What speaks against an entry; None where it came out again."""
    try:
        return wrong(sections, key)
    except (CorruptEntryError, ArchiveError) as error:
        return str(error)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        return f"it cannot be read ({error})"
    except InternalError:
        raise
    except PtxError as error:
        return f"its inputs cannot be validated ({error.message})"


def _wrong_proof(sections: Sections, key: str) -> str | None:
    job, version = job_of(sections)
    keys = proof_keys(job, version)
    if key not in keys:
        return "its inputs are not those of its key"
    if key == keys[0]:
        job = replace(job, contents={})  # what stands under this key was proved for all contents
    if version != own_version():
        return _OTHER_VERSION
    payload = json.loads(sections[PAYLOAD])
    report = validate(job, _Anew())
    if report.status is not Status.PROVED:
        return f"done again, it is {report.verdict}" + (f": {report.reason}" if report.reason else "")
    again = json.loads(canonical(report.to_json()))
    other = [part for part in _SAME if not isinstance(payload, dict) or payload.get(part) != again[part]]
    return _told(other + _other_sections(sections, report.evidence))


def _wrong_reference(sections: Sections, key: str) -> str | None:
    job, version = job_of(sections)
    reference, limit = job.reference, job.options.ctas
    if reference is None or isinstance(reference, FunctionReference) or limit == "auto":
        return "it holds no reference"
    stages = Stages(job.launch, job.options, None if limit == "all" else limit, job.library)
    if key != reference_key(reference, stages, version):
        return "its inputs are not those of its key"
    if version != own_version():
        return _OTHER_VERSION
    with stages.arena.ledger() as noted:
        evaluated = stages.reference(reference, {}, anew=True)
    again = entry_of(reference, stages, evaluated, noted)
    if again is None:
        return "done again, it is not one to keep"
    other = ["assumptions"] if json.loads(again[PAYLOAD]) != json.loads(sections[PAYLOAD]) else []
    return _told(other + _other_sections(sections, again))


_WRONG: Mapping[str, Callable[[Sections, str], str | None]] = {VERDICTS: _wrong_proof, REFERENCES: _wrong_reference}


def _told(other: list[str]) -> str | None:
    return f"done again, its {' and '.join(other)} are others" if other else None


def _other_sections(sections: Sections, again: Mapping[str, bytes]) -> list[str]:
    """Names of what is stored besides and did not come out again."""
    names = {FINGERPRINTS: "fingerprints", TERMS: "terms"}
    return [said for name, said in names.items() if name in sections and _value(sections, name) != _value(again, name)]


def _value(sections: Mapping[str, bytes], name: str) -> Any:
    """A section as a value: equal where it says the same, whatever compressed it."""
    if name not in sections:
        return None
    return json.loads(sections[name]) if name == FINGERPRINTS else content_of(sections[name])


class _Anew(ReferenceTerms):
    """Recalls and keeps nothing: what is done again leans on nothing that is stored."""

    def __init__(self) -> None: ...

    def recall(self, reference: StoredReference, stages: Stages) -> Evaluated | None:
        return None

    def keep(self, reference: StoredReference, stages: Stages, evaluated: Evaluated, noted: Ledger) -> None: ...
