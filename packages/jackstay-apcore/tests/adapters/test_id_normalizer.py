"""F-008, settled point on ids: one table, both ways."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apcore_mcp.adapters import ModuleIDNormalizer

IDS = st.from_regex(r"[a-z][a-z0-9_]{0,40}(\.[a-z][a-z0-9_]{0,40}){0,4}", fullmatch=True)


def test_dots_become_hyphens_and_back() -> None:
    """ADR-03."""
    names = ModuleIDNormalizer()
    assert names.normalize("image.resize_all") == "image-resize_all"
    assert names.denormalize("image-resize_all") == "image.resize_all"
    assert ModuleIDNormalizer().denormalize("a-b-c") == "a.b.c"


@given(IDS)
def test_every_id_has_a_name_that_openai_takes_and_that_leads_back(module_id: str) -> None:
    """Settled: at most 64 of letters, digits, _ and -."""
    names = ModuleIDNormalizer()
    name = names.normalize(module_id)
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name)
    assert names.denormalize(name) == module_id
    short = names.shorten(module_id)
    assert re.fullmatch(r"[a-zA-Z0-9_.-]{1,128}", short)
    assert names.denormalize(short) == module_id


def test_long_ids_that_begin_alike_get_different_names() -> None:
    names = ModuleIDNormalizer()
    made = {names.normalize(f"{'long.' * 30}{end}") for end in ("one", "two")}
    assert len(made) == 2
    assert {len(name) for name in made} == {64}


def test_nothing_has_no_name() -> None:
    names = ModuleIDNormalizer()
    for ask in (names.normalize, names.shorten, names.denormalize):
        with pytest.raises(ValueError, match="must not be empty"):
            ask("")
