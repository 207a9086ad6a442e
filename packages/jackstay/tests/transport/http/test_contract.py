"""The contract: what an HTTP client and an authorizer must have, asked of objects."""

from jackstay.transport import Authorizer, Challenge, HttpClient
from scripted.http import Mcp, MemoryHttp


def test_what_is_asked_of_a_client_can_be_seen_on_it() -> None:
    assert isinstance(MemoryHttp(Mcp()), HttpClient)
    assert not isinstance(object(), HttpClient)
    assert not isinstance(MemoryHttp(Mcp()), Authorizer)


def test_a_challenge_is_a_fact_and_does_not_change() -> None:
    assert Challenge("u", 401) == Challenge("u", 401, ())
    assert hash(Challenge("u", 403, ("Bearer",)))
