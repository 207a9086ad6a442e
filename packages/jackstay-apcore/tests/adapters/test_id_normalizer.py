"""Conversion of module ids to tool names and back."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apcore_mcp.adapters import ModuleIDNormalizer

IDS = st.from_regex(r"[a-z][a-z0-9_]{0,40}(\.[a-z][a-z0-9_]{0,40}){0,4}", fullmatch=True)


def test_dots_become_hyphens_and_back() -> None:
    names = ModuleIDNormalizer()
    assert names.normalize("image.resize_all") == "image-resize_all"
    assert names.denormalize("image-resize_all") == "image.resize_all"
    assert ModuleIDNormalizer().denormalize("a-b-c") == "a.b.c"


def test_try_denormalize() -> None:
    normalizer = ModuleIDNormalizer()
    assert normalizer.try_denormalize("image-resize") == "image.resize"
    assert normalizer.try_denormalize("Image-resize") is None
    assert normalizer.try_denormalize("") is None


@given(IDS)
def test_names_are_valid_and_reversible(module_id: str) -> None:
    """OpenAI names have at most 64 letters, digits, `_` and `-`."""
    names = ModuleIDNormalizer()
    name = names.normalize(module_id)
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name)
    assert names.denormalize(name) == module_id
    short = names.shorten(module_id)
    assert re.fullmatch(r"[a-zA-Z0-9_.-]{1,128}", short)
    assert names.denormalize(short) == module_id


def test_long_ids_with_equal_prefixes_get_different_names() -> None:
    names = ModuleIDNormalizer()
    normalized = {names.normalize(f"{'long.' * 30}{end}") for end in ("one", "two")}
    assert len(normalized) == 2
    assert {len(name) for name in normalized} == {64}


def test_empty_ids_are_rejected() -> None:
    names = ModuleIDNormalizer()
    for function in (names.normalize, names.shorten, names.denormalize):
        with pytest.raises(ValueError, match="must not be empty"):
            function("")


def test_ids_that_apcore_does_not_accept() -> None:
    """`normalize` refuses them; a registry that only looks like one of apcore may have them."""
    names = ModuleIDNormalizer()
    for module_id in ("Not.Valid", "has-dashes", "1st", ".a", "a."):
        with pytest.raises(ValueError, match="Invalid module ID"):
            names.normalize(module_id)
    assert names.name_for_models("Not.Valid") == "Not-Valid"
