"""Names before a model: what the APIs take, one for each tool, for ever."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackstay.models import model_name


@pytest.mark.parametrize("name", ["add", "git__status", "a-b_C9", "x" * 64])
def test_a_name_that_the_apis_take_is_kept(name: str) -> None:
    assert model_name(name) == name


@pytest.mark.parametrize(
    ("tool", "begins"),
    [
        ("files.read", "files_read_"),
        ("a/b c", "a_b_c_"),
        ("größe", "gr__e_"),
        ("", "_"),
        ("x" * 65, "x" * 47 + "_"),
        ("a\n", "a__"),
    ],
)
def test_any_other_is_made_fit_and_ends_in_a_hash(tool: str, begins: str) -> None:
    name = model_name(tool)
    assert re.fullmatch(rf"{begins}[0-9a-f]{{16}}", name)


def test_a_name_never_changes() -> None:
    """Conversations outlive releases: a name that a model was told must lead to the same tool tomorrow."""
    assert model_name("files.read") == "files_read_601e4eb608f9175e"


def test_tools_that_look_alike_have_different_names() -> None:
    assert len({model_name(tool) for tool in ("a.b", "a/b", "a b", "a_b", "a__b")}) == 5


@given(st.text(max_size=200))
def test_every_name_is_one_that_the_apis_take(tool: str) -> None:
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", model_name(tool))
