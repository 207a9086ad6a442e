"""Reading `WWW-Authenticate`: lists in lists, separated by the same comma, written by anybody."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jackstay.oauth._challenge import Demand, read_challenges, read_demand, read_scopes


@pytest.mark.parametrize(
    ("field", "challenges"),
    [
        ("", []),
        ("Bearer", [("bearer", {})]),
        ("BEARER Realm=x", [("bearer", {"realm": "x"})]),
        ('Bearer realm="a, b", scope="c d"', [("bearer", {"realm": "a, b", "scope": "c d"})]),
        ('Bearer realm="a \\"b\\" \\\\"', [("bearer", {"realm": 'a "b" \\'})]),
        ("Basic, Bearer a=b", [("basic", {}), ("bearer", {"a": "b"})]),
        ('Basic realm="x", Bearer a=b, c=d', [("basic", {"realm": "x"}), ("bearer", {"a": "b", "c": "d"})]),
        ("Negotiate abc==, Bearer a=b", [("negotiate", {}), ("bearer", {"a": "b"})]),
        ("Negotiate abc, Bearer a=b", [("negotiate", {}), ("bearer", {"a": "b"})]),
        ("Bearer a = b ,, c= d", [("bearer", {"a": "b", "c": "d"})]),
        ("Bearer a=b, a=c", [("bearer", {"a": "b"})]),
        ('Bearer a=b, c="open', [("bearer", {"a": "b"})]),
        ("a=b", []),
        ("Bearer a=b, \x00", [("bearer", {"a": "b"})]),
        ('Bearer a="b"c=d', [("bearer", {})]),
    ],
)
def test_a_field_is_read_as_far_as_it_can_be(
    field: str, challenges: list[tuple[str, dict[str, str]]]
) -> None:
    """RFC 9110, 11.6.1."""
    assert read_challenges(field) == challenges


def test_what_the_server_wants_is_in_the_first_bearer_challenge() -> None:
    """RFC 6750, 3; RFC 9728, 5.1."""
    field = 'Bearer error="insufficient_scope", scope="a  b a", resource_metadata="https://x.example/m", Bearer scope=z'
    assert read_demand((field,)) == Demand(("a", "b"), "insufficient_scope", "https://x.example/m")


@pytest.mark.parametrize(
    ("values", "is_for_us"),
    [
        ((), True),
        (("",), True),
        (("Basic realm=x",), False),
        (("Basic", "Bearer"), True),
        (("Digest a=b",), False),
    ],
)
def test_another_kind_of_credentials_is_not_for_us(values: tuple[str, ...], is_for_us: bool) -> None:
    assert read_demand(values).is_for_us is is_for_us


def test_scopes_are_words_without_quotes_and_controls() -> None:
    """RFC 6749, 3.3."""
    assert read_scopes('a b:c/d a  "x" \\ \u00e4 \x7f') == ("a", "b:c/d")


@given(st.text(max_size=300))
@example("Bearer " + "a=b, " * 5_000)
@example("Bearer " + '"' * 20_000)
@example("," * 20_000)
@example("a " * 20_000)
def test_no_field_breaks_the_reading(field: str) -> None:
    for scheme, parameters in read_challenges(field):
        assert scheme == scheme.lower()
        assert all(name == name.lower() for name in parameters)
    assert isinstance(read_demand((field,)), Demand)
