"""Bearer keys, challenges and protected-resource metadata (RFC 6750, RFC 9728)."""

import hmac
import json
import logging
import re

import pytest

from jackstay.errors import UsageError
from jackstay.protocol.http import ErrorResponse, fold_headers
from jackstay.server.http import BearerAuth, Principal, keys
from jackstay.server.http._auth import MAX_TOKEN_CHARACTERS, challenge_scopes, read_auth

ALICE, BOB, CAROL = "alice-0123456789abcdef", "bob-0123456789abcdef", "carol-0123456789abcdef=="
RESOURCE = "https://mcp.example.com/mcp"
ISSUER = "https://auth.example.com"
METADATA = "https://mcp.example.com/.well-known/oauth-protected-resource/mcp"


async def authenticate(auth: BearerAuth, value: str | None) -> Principal | ErrorResponse:
    headers = {} if value is None else {"authorization": value}
    return await auth.authenticate("POST", "/mcp", headers)


def challenge_of(refusal: object) -> tuple[int, dict[str, str]]:
    """Return the status and the parsed parameters of the challenge."""
    assert isinstance(refusal, ErrorResponse)
    (name, value), *rest = refusal.headers
    assert (name, rest) == ("www-authenticate", [])
    scheme, _, parameters = value.partition(" ")
    assert scheme == "Bearer"
    found = re.findall(r'([a-z_]+)="([^"]*)"', parameters)
    assert ", ".join(f'{name}="{value}"' for name, value in found) == parameters
    return refusal.status, dict(found)


# --- keys -------------------------------------------------------------------------------------------------------------


async def test_the_name_of_a_key_is_the_principal() -> None:
    auth = read_auth(keys({"alice": ALICE, "bob": [BOB, CAROL]}, scopes=["read", "write"]))
    assert await authenticate(auth, f"Bearer {ALICE}") == Principal("alice", frozenset({"read", "write"}))
    assert await authenticate(auth, f"bearer  {CAROL}") == Principal("bob", frozenset({"read", "write"}))


async def test_keys_without_names_have_distinct_ids_that_do_not_contain_them() -> None:
    auth = read_auth(keys(ALICE, BOB))
    alice, bob = await authenticate(auth, f"Bearer {ALICE}"), await authenticate(auth, f"Bearer {BOB}")
    assert isinstance(alice, Principal)
    assert isinstance(bob, Principal)
    assert alice.id != bob.id
    assert ALICE not in repr(auth) + alice.id


async def test_keys_can_have_different_scopes() -> None:
    auth = read_auth([keys({"alice": ALICE}), keys({"bob": BOB}, scopes="admin")])
    assert await authenticate(auth, f"Bearer {BOB}") == Principal("bob", frozenset({"admin"}))
    assert await authenticate(auth, f"Bearer {ALICE}") == Principal("alice")


async def test_an_unknown_key_is_an_invalid_token(subtests: pytest.Subtests) -> None:
    for token in ("x", ALICE[:-1], ALICE + "x", ALICE.upper(), "x" * 200):
        with subtests.test(token=token):
            status, parameters = challenge_of(await authenticate(read_auth(keys(ALICE)), f"Bearer {token}"))
            assert (status, parameters["error"]) == (401, "invalid_token")


async def test_every_key_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The duration must reveal neither how much of a key was right nor which one matched."""
    compared: list[tuple[int, int]] = []
    real = hmac.compare_digest

    def compare(known: bytes, given: bytes) -> bool:
        compared.append((len(known), len(given)))
        return real(known, given)

    monkeypatch.setattr(hmac, "compare_digest", compare)
    auth = read_auth(keys(ALICE, BOB, CAROL))
    for token in (ALICE, CAROL, "y"):
        await authenticate(auth, f"Bearer {token}")
    assert compared == [(32, 32)] * 9


def test_an_invalid_key_is_refused_without_its_value(subtests: pytest.Subtests) -> None:
    cases: list[tuple[tuple, str]] = [
        ((), "got no key"),
        (({},), "got no key"),
        (("short",), "key too short: 5 characters; use at least 16"),
        (("with a space in it",), "letters, digits"),
        (("ümläut-0123456789abcdef",), "letters, digits"),
        (({"alice": [ALICE, 7]},), "letters, digits"),
        (({"alice": 7},), "letters, digits"),
        (({"alice": ALICE.encode()},), "letters, digits"),
        (([ALICE],), "expected str or a mapping .* got list"),
        ((ALICE, ALICE), "twice"),
    ]
    for given, words in cases:
        with subtests.test(given=given, words=words):
            with pytest.raises(UsageError, match=words) as caught:
                keys(*given)
            assert "with a space" not in str(caught.value)


def test_an_invalid_scope_is_refused() -> None:
    with pytest.raises(UsageError, match="invalid scope"):
        keys(ALICE, scopes=['a"b'])


# --- the header -------------------------------------------------------------------------------------------------------

AUTH = BearerAuth(keys(ALICE), resource=RESOURCE, authorization_servers=[ISSUER], scopes=["mcp"])


async def test_without_a_token_the_challenge_has_no_error_code(subtests: pytest.Subtests) -> None:
    """RFC 6750 section 3: a request without credentials should get no error code."""
    for value in (None, "", "Basic dXNlcjpwdw==", "Bearerx y", "Digest x"):
        with subtests.test(value=value):
            status, parameters = challenge_of(await authenticate(AUTH, value))
            assert (status, parameters) == (401, {"scope": "mcp", "resource_metadata": METADATA})


async def test_a_malformed_header_is_a_bad_request(subtests: pytest.Subtests) -> None:
    """RFC 6750 section 3.1. Several tokens are malformed, too, even if one of them is valid."""
    cases: list[str] = [
        "Bearer",
        "Bearer ",
        f"Bearer {ALICE} {BOB}",
        f"Bearer {ALICE}, Bearer {BOB}",
        f"Bearer {ALICE}\nBearer {BOB}",
        f"Bearer {ALICE}\r\nx: y",
        f"Bearer\t{ALICE}",
        'Bearer "quoted"',
        "Bearer tökén",
        "Bearer " + "x" * MAX_TOKEN_CHARACTERS,
    ]
    for value in cases:
        with subtests.test(value=value):
            status, parameters = challenge_of(await authenticate(AUTH, value))
            assert (status, parameters["error"]) == (400, "invalid_request")
            assert "scope" not in parameters


async def test_two_header_lines_are_one_malformed_header() -> None:
    """A proxy and the server might each use a different one of the two."""
    headers = fold_headers([(b"Authorization", f"Bearer {token}".encode()) for token in (ALICE, ALICE)])
    assert challenge_of(await AUTH.authenticate("POST", "/mcp", headers))[0] == 400


async def test_a_token_in_the_query_is_ignored() -> None:
    """2026-07-28 basic/authorization: access tokens must not be in the URI query."""
    refusal = await AUTH.authenticate("POST", f"/mcp?access_token={ALICE}", {})
    assert challenge_of(refusal) == (401, {"scope": "mcp", "resource_metadata": METADATA})


async def test_without_metadata_and_scopes_the_challenge_has_a_realm() -> None:
    """RFC 6750 section 3: the scheme must be followed by at least one parameter."""
    assert challenge_of(await authenticate(read_auth(keys(ALICE)), None)) == (401, {"realm": "mcp"})


# --- scopes -----------------------------------------------------------------------------------------------------------


async def test_insufficient_scope_names_all_required_scopes() -> None:
    status, parameters = challenge_of(await authenticate(AUTH, f"Bearer {ALICE}"))
    assert (status, parameters["error"], parameters["scope"]) == (403, "insufficient_scope", "mcp")
    status, parameters = challenge_of(AUTH.insufficient_scope(["files:write", "mcp"]))
    assert (status, parameters["scope"]) == (403, "files:write mcp")
    assert parameters["resource_metadata"] == METADATA


async def test_sufficient_scopes_are_accepted() -> None:
    auth = BearerAuth(keys(ALICE, scopes=["mcp", "more"]), scopes=["mcp"])
    assert isinstance(await authenticate(auth, f"Bearer {ALICE}"), Principal)


def test_challenge_scopes_works_without_bearer_auth() -> None:
    scopes = frozenset({"b", "a"})
    assert challenge_scopes(None, scopes) == (("www-authenticate", 'Bearer error="insufficient_scope", scope="a b"'),)
    assert challenge_of(ErrorResponse(403, 0, "", headers=challenge_scopes(AUTH, scopes)))[1]["scope"] == "a b mcp"


# --- verifiers --------------------------------------------------------------------------------------------------------


class Broken:
    async def verify(self, token: str) -> Principal | None:
        raise RuntimeError(f"database error for {token}")


class Nameless:
    async def verify(self, token: str) -> Principal | None:
        return Principal("")


@pytest.mark.parametrize("verifier", [Broken(), Nameless()])
async def test_a_failing_verifier_is_a_503_and_not_an_invalid_token(
    verifier: Broken | Nameless, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        refusal = await authenticate(read_auth(verifier), f"Bearer {ALICE}")
    assert isinstance(refusal, ErrorResponse)
    assert (refusal.status, refusal.headers) == (503, (("retry-after", "1"),))
    assert "token verification failed" in caplog.text
    assert ALICE not in caplog.text


async def test_no_token_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        for value in (f"Bearer {ALICE}", f"Bearer {BOB}", f"Bearer {ALICE} {BOB}"):
            await authenticate(AUTH, value)
    assert not re.search(f"{ALICE}|{BOB}", caplog.text)


def test_an_invalid_verifier_is_refused() -> None:
    with pytest.raises(UsageError, match="async def verify"):
        BearerAuth(object())  # type: ignore[arg-type]  # the mistake
    with pytest.raises(UsageError, match="got no verifier"):
        BearerAuth()
    with pytest.raises(UsageError, match="not str"):
        read_auth(ALICE)  # type: ignore[arg-type]  # the mistake
    assert read_auth(AUTH) is AUTH


# --- metadata ---------------------------------------------------------------------------------------------------------


def test_metadata_is_at_the_inserted_path_and_at_the_root() -> None:
    """RFC 9728 section 3.1."""
    for path in ("/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"):
        document = AUTH.metadata(path, "demo")
        assert document is not None
        assert json.loads(document) == {
            "resource": RESOURCE,
            "authorization_servers": [ISSUER],
            "bearer_methods_supported": ["header"],
            "resource_name": "demo",
            "scopes_supported": ["mcp"],
        }
    assert AUTH.metadata("/.well-known/oauth-protected-resource/other", "demo") is None


def test_scopes_supported_may_differ_from_the_required_scopes() -> None:
    auth = BearerAuth(keys(ALICE), resource=RESOURCE, authorization_servers=[ISSUER], scopes_supported=["b", "a"])
    document = auth.metadata("/.well-known/oauth-protected-resource", "demo")
    assert document is not None
    assert json.loads(document)["scopes_supported"] == ["a", "b"]
    bare = BearerAuth(keys(ALICE), resource=RESOURCE, authorization_servers=[ISSUER])
    assert b"scopes_supported" not in (bare.metadata("/.well-known/oauth-protected-resource", "demo") or b"")


def test_without_authorization_servers_there_is_no_metadata() -> None:
    auth = BearerAuth(keys(ALICE), resource=RESOURCE)
    assert auth.metadata_url is None
    assert auth.metadata("/.well-known/oauth-protected-resource", "demo") is None


def test_the_default_resource_is_set_once() -> None:
    auth = BearerAuth(keys(ALICE), authorization_servers=[ISSUER])
    assert auth.metadata_url is None
    auth.set_default_resource("http://127.0.0.1:8123/")
    assert auth.metadata_url == "http://127.0.0.1:8123/.well-known/oauth-protected-resource"
    auth.set_default_resource(RESOURCE)
    assert auth.resource == "http://127.0.0.1:8123/"
    assert "8123" in repr(auth)


def test_an_invalid_url_is_refused(subtests: pytest.Subtests) -> None:
    cases: list[str] = [
        "",
        "mcp.example.com",
        "ftp://x/",
        "https://x/?a=b",
        "https://x/#y",
        "https:///mcp",
        'https://x/"y',
    ]
    for url in cases:
        with subtests.test(url=url):
            with pytest.raises(UsageError, match="invalid URL"):
                BearerAuth(keys(ALICE), resource=url)
            with pytest.raises(UsageError, match="invalid URL"):
                BearerAuth(keys(ALICE), authorization_servers=[url])
