"""The register of identities: cases that are equal, and twins that are wrong in one detail."""

from __future__ import annotations

from collections.abc import Callable

from normal_terms import Builder, Ids

Case = Callable[[Builder], tuple[Ids, Ids]]
EQUAL: dict[str, Case] = {}
WRONG: dict[str, Case] = {}


def equal(case: Case) -> Case:
    EQUAL[case.__name__] = case
    return case


def wrong(case: Case) -> Case:
    WRONG[case.__name__] = case
    return case
