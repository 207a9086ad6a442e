"""Authenticators and the ASGI middleware."""

from types import SimpleNamespace
from typing import Any

import pytest
from apcore import Identity

from apcore_mcp.compat.authentication import (
    Authenticator,
    AuthenticatorAuth,
    AuthMiddleware,
    auth_identity_var,
    extract_headers,
    get_current_identity,
)
from jackstay.server.http import Principal


class ByName:
    """Accepts the header `x-name`."""

    def authenticate(self, headers: dict[str, str]) -> Identity | None:
        name = headers.get("x-name")
        if name == "broken":
            raise RuntimeError("a secret")
        return None if name is None else Identity(id=name, type="user", roles=("a",), attrs={"b": 1})


class ByToken:
    async def authenticate(self, headers: dict[str, str]) -> Identity | None:
        return Identity(id="ann") if headers.get("authorization") == "Bearer good" else None


async def test_authenticator_gets_all_headers(caplog: pytest.LogCaptureFixture) -> None:
    assert isinstance(ByName(), Authenticator)
    auth = AuthenticatorAuth(ByName())
    found = await auth.authenticate("POST", "/mcp", {"x-name": "ann"})
    assert found == Principal("ann", frozenset({"a"}), {"apcore_identity": {"type": "user", "attrs": {"b": 1}}})
    refused = await auth.authenticate("POST", "/mcp", {})
    assert not isinstance(refused, Principal)
    assert refused.status == 401
    failed = await auth.authenticate("POST", "/mcp", {"x-name": "broken"})
    assert not isinstance(failed, Principal)
    assert failed.status == 503
    assert "a secret" not in caplog.text


async def test_tokens() -> None:
    auth = AuthenticatorAuth(ByToken())
    found = await auth.verify("good")
    assert found is not None
    assert found.id == "ann"
    assert await auth.verify("bad") is None
    with pytest.raises(TypeError, match="authenticate"):
        AuthenticatorAuth(object())


class App:
    """Records the identity of each request."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.seen.append(get_current_identity())


async def get(middleware: AuthMiddleware, path: str, name: str | None = None) -> int:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [] if name is None else [(b"X-Name", name.encode())]
    await middleware({"type": "http", "path": path, "headers": headers}, SimpleNamespace(), send)
    return sent[0]["status"] if sent else 200


async def test_middleware() -> None:
    app = App()
    middleware = AuthMiddleware(app, ByName(), exempt_prefixes={"/open"})
    assert await get(middleware, "/mcp") == 401
    assert await get(middleware, "/mcp", "ann") == 200
    assert await get(middleware, "/health") == 200
    assert await get(middleware, "/open/x", "broken") == 200
    with pytest.raises(RuntimeError):
        await get(middleware, "/mcp", "broken")
    assert [None if found is None else found.id for found in app.seen] == ["ann", None, None]
    assert auth_identity_var.get() is None
    lenient = AuthMiddleware(app, ByName(), exempt_paths=set(), require_auth=False)
    assert await get(lenient, "/mcp") == 200
    await lenient({"type": "lifespan"}, None, None)
    assert extract_headers({"headers": [(b"A", b"1")]}) == {"a": "1"}
