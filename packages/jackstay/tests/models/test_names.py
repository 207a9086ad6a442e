"""Tool names for model APIs: valid, unique per tool, and stable."""

import re

from hypothesis import given
from hypothesis import strategies as st

from jackstay.models import model_name


def test_a_valid_name_is_kept() -> None:
    for name in ("add", "git__status", "a-b_C9", "x" * 64):
        assert model_name(name) == name


def test_an_invalid_name_is_replaced_and_ends_in_a_hash() -> None:
    for tool, prefix in (
        ("files.read", "files_read_"),
        ("a/b c", "a_b_c_"),
        ("größe", "gr__e_"),
        ("", "_"),
        ("x" * 65, "x" * 47 + "_"),
        ("a\n", "a__"),
    ):
        assert re.fullmatch(rf"{prefix}[0-9a-f]{{16}}", model_name(tool))


def test_a_name_never_changes() -> None:
    """Stored conversations contain names, so a name must lead to the same tool after an update."""
    assert model_name("files.read") == "files_read_601e4eb608f9175e"


def test_tools_that_look_alike_have_different_names() -> None:
    assert len({model_name(tool) for tool in ("a.b", "a/b", "a b", "a_b", "a__b")}) == 5


@given(st.text(max_size=200))
def test_every_name_is_valid(tool: str) -> None:
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", model_name(tool))
