"""The committed PTX of the CUDA C cases is what their sources say: headers in every run, the instructions where the compiler is there."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from case_files import FOLDER, all_cases, read_case
from compile_cases import Variant, compiled, sources, variants

VARIANTS = [variant for source in sources() for variant in variants(source)]
ALL = pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.path.stem)


@ALL
def test_headers_are_those_of_the_source(variant: Variant) -> None:
    assert variant.path.read_text(encoding="utf-8").startswith(variant.header() + ".version")
    assert read_case(variant.path).source == variant.source


def test_every_compiled_case_has_a_section() -> None:
    assert {variant.path for variant in VARIANTS} == {case.path for case in all_cases() if case.source != case.path}
    assert {name for name in (variant.source.stem for variant in VARIANTS) if re.fullmatch(r"reduce_\d", name)} == {
        f"reduce_{step}" for step in range(1, 8)
    }


def test_no_machine_is_named() -> None:
    """The compiler writes absolute paths; they are cut to the file's name."""
    for path in FOLDER.glob("*.ptx"):
        assert not re.search(r'\.file.*"[^"]*/', path.read_text(encoding="utf-8")), path.name


def opcodes(text: str) -> Counter[str]:
    """Memory accesses, synchronisation and control: what must not depend on the compiler's version."""
    words = re.findall(r"^\s*(?:@!?%p\d+\s+)?([a-z][\w.]*)[^;:]*;", text, re.MULTILINE)
    return Counter(word for word in words if word.startswith(("ld.", "st.", "bar", "shfl", "atom", "red")) and "param" not in word)


@pytest.mark.slow
@ALL
def test_compiled_anew_it_does_the_same(variant: Variant) -> None:
    assert opcodes(compiled(variant)) == opcodes(variant.path.read_text(encoding="utf-8"))
