"""The register of identities: cases that are equal, and twins that are wrong in one detail."""

from __future__ import annotations

from collections.abc import Callable

from normal_terms import Builder, Ids

Case = Callable[[Builder], tuple[Ids, Ids]]


class _Register(dict[str, Case]):
    """Cases by name; a second one of a name would hide the first."""

    def __setitem__(self, name: str, case: Case) -> None:
        assert name not in self, f"two cases are named {name}"
        super().__setitem__(name, case)


EQUAL: dict[str, Case] = _Register()
WRONG: dict[str, Case] = _Register()
#: for every identity the name of a twin in ``WRONG``: the same with one fault in it
TWINS: dict[str, str] = {}


def equal(case: Case) -> Case:
    EQUAL[case.__name__] = case
    return case


def wrong(case: Case) -> Case:
    WRONG[case.__name__] = case
    return case
