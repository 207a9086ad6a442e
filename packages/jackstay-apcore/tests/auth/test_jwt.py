"""Tokens: what is accepted, what is refused, and the identity that modules and ACL rules see."""

import asyncio
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from apcore import ACL, ACLRule, Registry
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey

from apcore_mcp.auth import ClaimMapping, JWTAuthenticator
from apcore_mcp.background import MCPServer
from apcore_mcp.bridge import Bridge
from apcore_mcp.cli._checking import BadValueError, options_of
from apcore_mcp.cli._flags import read
from apcore_mcp.options import make_options

SECRET = "k" * 32


def token(claims: dict[str, Any] | None = None, key: str = SECRET, **header: Any) -> str:
    given = {"sub": "ann", "exp": int(time.time()) + 600, **(claims or {})}
    return jwt.encode({"alg": "HS256", **header}, given, OctKey.import_key(key))


def identity(authenticator: JWTAuthenticator, value: str) -> Any:
    return asyncio.run(authenticator.authenticate({"authorization": f"Bearer {value}"}))


def test_valid_token_gives_an_identity() -> None:
    mapping = ClaimMapping(attrs_claims=["team", "absent"])
    found = identity(JWTAuthenticator(SECRET, claim_mapping=mapping), token({"roles": ["b", "a"], "team": "x"}))
    assert (found.id, found.type, found.roles, found.attrs) == ("ann", "user", ("a", "b"), {"team": "x"})
    found = identity(JWTAuthenticator(SECRET), token({"type": "human"}))
    assert (found.type, found.roles, found.attrs) == ("human", (), {})


def test_other_tokens_are_refused(subtests: pytest.Subtests) -> None:
    strict = JWTAuthenticator(SECRET, audience="me", issuer="us")
    cases = {
        "another key": (JWTAuthenticator(SECRET), token(key="x" * 32)),
        "expired": (JWTAuthenticator(SECRET), token({"exp": int(time.time()) - 60})),
        "not yet valid": (JWTAuthenticator(SECRET), token({"nbf": int(time.time()) + 600})),
        "no subject": (JWTAuthenticator(SECRET), token({"sub": ""})),
        "another algorithm": (JWTAuthenticator(SECRET, algorithms=["HS384"]), token()),
        "no signature": (JWTAuthenticator(SECRET), token().rpartition(".")[0] + "."),
        "not a token": (JWTAuthenticator(SECRET), "abc"),
        "no audience": (strict, token({"iss": "us"})),
        "another audience": (strict, token({"iss": "us", "aud": "you"})),
        "another issuer": (strict, token({"iss": "them", "aud": "me"})),
        "a required claim is missing": (JWTAuthenticator(SECRET, require_claims=["team"]), token()),
    }
    for name, (authenticator, value) in cases.items():
        with subtests.test(name):
            assert identity(authenticator, value) is None
    assert identity(strict, token({"iss": "us", "aud": "me"})) is not None


def test_other_headers_are_refused() -> None:
    authenticator = JWTAuthenticator(SECRET)
    for headers in ({}, {"authorization": "Basic abc"}, {"authorization": "Bearer"}):
        assert asyncio.run(authenticator.authenticate(headers)) is None
    assert asyncio.run(authenticator.authenticate({"Authorization": f"bearer {token()}"})) is not None


def test_public_key() -> None:
    key = RSAKey.generate_key(2048)
    public = key.as_pem(private=False).decode()
    signed = jwt.encode({"alg": "RS256"}, {"sub": "ann"}, key)
    assert identity(JWTAuthenticator(public, algorithms=["RS256"]), signed).id == "ann"
    # The public key as a secret of HS256 (RFC 8725 section 2.1).
    forged = jwt.encode({"alg": "HS256"}, {"sub": "eve"}, OctKey.import_key(SECRET))
    assert identity(JWTAuthenticator(public, algorithms=["RS256"]), forged) is None


def test_bad_keys_are_refused(caplog: pytest.LogCaptureFixture) -> None:
    for key, algorithms in (("", ["HS256"]), (SECRET, ["none"]), (SECRET, ["HS256", "RS256"]), ("x", ["RS256"])):
        with pytest.raises(ValueError):
            JWTAuthenticator(key, algorithms=algorithms)
    JWTAuthenticator("short")
    assert "can be guessed" in caplog.text


def test_acl_sees_the_type_and_the_roles(registry: Registry) -> None:
    rule = ACLRule(
        callers=["*"], targets=["*"], effect="allow", conditions={"identity_types": ["human"], "roles": ["admin"]}
    )
    bridge = Bridge(registry, make_options(acl=ACL(rules=[rule], default_effect="deny")))
    authenticator = JWTAuthenticator(SECRET)

    async def call(claims: dict[str, Any]) -> bool:
        principal = await authenticator.verify(token(claims))
        assert principal is not None

        caller: Any = SimpleNamespace(
            meta={},
            is_cancelled=False,
            principal=principal.id,
            claims=principal.claims,
            scopes=principal.scopes,
        )
        return not (await bridge.router.handle_call("math.add", {"a": 1}, caller)).is_error

    assert asyncio.run(call({"type": "human", "roles": ["admin"]}))
    assert not asyncio.run(call({"type": "agent", "roles": ["admin"]}))
    assert not asyncio.run(call({"type": "human"}))
    bridge.close()


def options(arguments: list[str], tmp_path: Path) -> Any:
    return options_of(read(["--extensions-dir", str(tmp_path), *arguments], {}))


def test_the_command_reads_the_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert options([], tmp_path).auth is None
    assert isinstance(options(["--jwt-secret", SECRET], tmp_path).auth, JWTAuthenticator)
    monkeypatch.setenv("APCORE_JWT_SECRET", SECRET)
    found = options(["--jwt-audience", "me", "--jwt-issuer", "us"], tmp_path).auth
    assert identity(found, token({"aud": "me", "iss": "us"})).id == "ann"
    monkeypatch.setenv("KEY", "k" * 40)
    assert len(options(["--auth-key-env", "KEY"], tmp_path).auth) == 2


def test_an_empty_secret_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APCORE_JWT_SECRET", "")
    with pytest.raises(BadValueError, match="APCORE_JWT_SECRET is empty"):
        options([], tmp_path)


def test_bad_flags_are_refused(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for arguments, message in (
        (
            ["--transport", "sse", "--jwt-require-auth"],
            "--jwt-require-auth needs --jwt-secret, --jwt-key-file or APCORE_JWT_SECRET",
        ),
        (["--jwt-secret", " "], "--jwt-secret is empty"),
        (["--jwt-audience", "x"], "--jwt-audience needs --jwt-secret, --jwt-key-file or APCORE_JWT_SECRET"),
        (["--jwt-secret", ""], "--jwt-secret is empty"),
        (["--jwt-key-file", "/nowhere"], "--jwt-key-file: cannot read '/nowhere'"),
        (["--jwt-secret", SECRET, "--jwt-algorithm", "none"], "--jwt-*: algorithms must be known"),
    ):
        with subtests.test(arguments=arguments), pytest.raises(BadValueError) as caught:
            options(arguments, tmp_path)
        assert str(caught.value).startswith(message)


def test_a_request_without_a_token_gets_401(registry: Registry, port: int, listening: Callable[[int], bool]) -> None:
    server = MCPServer(registry, transport="streamable-http", port=port, auth=JWTAuthenticator(SECRET))
    server.start()
    try:
        assert listening(port)
        assert status(port) == 401
        assert status(port, token(key="x" * 32)) == 401
        assert status(port, token()) == 200
    finally:
        server.stop()
        assert server.wait(120)


def status(port: int, bearer: str | None = None) -> int:
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    }
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/mcp",
        json.dumps(body).encode(),
        {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"},
    )
    if bearer is not None:
        request.add_header("Authorization", f"Bearer {bearer}")
    try:
        with urllib.request.urlopen(request) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code
