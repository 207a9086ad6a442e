"""The protocols of HTTP clients and authorizers at run time."""

from jackstay.transport import Authorizer, Challenge, HttpClient
from scripted.http import Mcp, MemoryHttp


def test_clients_and_authorizers_are_recognised() -> None:
    assert isinstance(MemoryHttp(Mcp()), HttpClient)
    assert not isinstance(object(), HttpClient)
    assert not isinstance(MemoryHttp(Mcp()), Authorizer)


def test_a_challenge_is_immutable() -> None:
    assert Challenge("u", 401) == Challenge("u", 401, ())
    assert hash(Challenge("u", 403, ("Bearer",)))
