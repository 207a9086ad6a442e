"""Authentication with exempt paths, and optional authentication."""

import pytest

from apcore_mcp.auth.guard import OptionalAuth
from jackstay.server.http import ANONYMOUS, BearerAuth, Principal, keys

KEY = "a-key-of-enough-length"
GOOD = {"authorization": f"Bearer {KEY}"}


@pytest.mark.parametrize("auth", [keys({"ann": KEY}), [keys({"ann": KEY})], BearerAuth(keys({"ann": KEY}))])
async def test_exempt_paths_need_no_token(auth: object) -> None:
    guard = OptionalAuth(auth, require_auth=True, exempt_paths=["/metrics"])
    assert await guard.authenticate("GET", "/metrics", {}) is ANONYMOUS
    refused = await guard.authenticate("POST", "/mcp", {})
    assert not isinstance(refused, Principal)
    assert refused.status == 401
    for path in ("/metrics", "/mcp"):
        known = await guard.authenticate("POST", path, GOOD)
        assert isinstance(known, Principal)
        assert known.id == "ann"


async def test_no_path_needs_a_token() -> None:
    guard = OptionalAuth(keys(KEY), require_auth=False, exempt_paths=())
    assert await guard.authenticate("POST", "/mcp", {}) is ANONYMOUS
    assert await guard.authenticate("POST", "/mcp", {"authorization": "Bearer wrong"}) is ANONYMOUS
    malformed = await guard.authenticate("POST", "/mcp", {"authorization": "Bearer a b"})
    assert not isinstance(malformed, Principal)
    assert malformed.status == 400


def test_resource_of_both_guards() -> None:
    guard = OptionalAuth(keys(KEY), require_auth=False, exempt_paths=())
    guard.set_default_resource("http://localhost:8000/mcp")
    assert guard.resource == guard._guard.resource == "http://localhost:8000/mcp"
