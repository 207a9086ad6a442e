"""Parsing of `WWW-Authenticate`."""

from hypothesis import example, given
from hypothesis import strategies as st

from jackstay.oauth._challenge import BearerChallenge, read_bearer_challenge, read_challenges, read_scopes


def test_a_field_is_parsed_up_to_the_first_error() -> None:
    """RFC 9110, 11.6.1."""
    cases: list[tuple[str, list[tuple[str, dict[str, str]]]]] = [
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
    ]
    for field, challenges in cases:
        assert read_challenges(field) == challenges, field


def test_the_first_bearer_challenge_is_used() -> None:
    """RFC 6750, 3; RFC 9728, 5.1."""
    field = 'Bearer error="insufficient_scope", scope="a  b a", resource_metadata="https://x.example/m", Bearer scope=z'
    assert read_bearer_challenge((field,)) == BearerChallenge(("a", "b"), "insufficient_scope", "https://x.example/m")


def test_another_scheme_is_not_a_bearer_challenge() -> None:
    cases: list[tuple[tuple[str, ...], bool]] = [
        ((), True),
        (("",), True),
        (("Basic realm=x",), False),
        (("Basic", "Bearer"), True),
        (("Digest a=b",), False),
        (("DPoP algs=x",), False),
    ]
    for values, is_bearer in cases:
        assert read_bearer_challenge(values).is_bearer is is_bearer, values


def test_invalid_scopes_are_dropped() -> None:
    """RFC 6749, 3.3."""
    assert read_scopes('a b:c/d a  "x" \\ \u00e4 \x7f') == ("a", "b:c/d")


@given(st.text(max_size=300))
@example("Bearer " + "a=b, " * 5_000)
@example("Bearer " + '"' * 20_000)
@example("," * 20_000)
@example("a " * 20_000)
def test_any_field_is_parsed(field: str) -> None:
    for scheme, parameters in read_challenges(field):
        assert scheme == scheme.lower()
        assert all(name == name.lower() for name in parameters)
    assert isinstance(read_bearer_challenge((field,)), BearerChallenge)
