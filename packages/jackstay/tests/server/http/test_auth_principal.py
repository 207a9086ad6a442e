"""The principal of a request, and the key that requests are counted by."""

from jackstay.server.http import ANONYMOUS, Principal
from jackstay.server.http._auth import caller_key


def test_anonymous_has_no_id_and_no_scopes() -> None:
    assert Principal("", frozenset(), {}) == ANONYMOUS


def test_without_a_principal_the_address_counts() -> None:
    assert caller_key("alice", "127.0.0.1") == ("principal", "alice")
    assert caller_key("", "127.0.0.1") == ("peer", "127.0.0.1")
    assert caller_key("", "127.0.0.1") is caller_key("", "127.0.0.1")  # thousands of sessions have few callers
