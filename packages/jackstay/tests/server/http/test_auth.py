"""Bearer keys, challenges and protected-resource metadata (RFC 6750, RFC 9728; protocol.md section 9)."""

import asyncio
import hmac
import json
import logging
import re

import pytest

from jackstay.errors import UsageError
from jackstay.protocol.http import Refusal, fold_headers
from jackstay.server.http import BearerAuth, Principal, keys
from jackstay.server.http._auth import MOST_TOKEN_CHARACTERS, challenge_scopes, read_auth

ALICE, BOB, CAROL = "alice-0123456789abcdef", "bob-0123456789abcdef", "carol-0123456789abcdef=="
RESOURCE = "https://mcp.example.com/mcp"
ISSUER = "https://auth.example.com"
METADATA = "https://mcp.example.com/.well-known/oauth-protected-resource/mcp"


def admitted(auth: BearerAuth, value: str | None) -> Principal | Refusal:
    headers = {} if value is None else {"authorization": value}
    return asyncio.run(auth.admit("POST", "/mcp", headers))


def challenge_of(refusal: object) -> tuple[int, dict[str, str]]:
    """The status and the parameters of the challenge, read as a client reads them."""
    assert isinstance(refusal, Refusal)
    (name, value), *rest = refusal.headers
    assert (name, rest) == ("www-authenticate", [])
    scheme, _, parameters = value.partition(" ")
    assert scheme == "Bearer"
    found = re.findall(r'([a-z_]+)="([^"]*)"', parameters)
    assert ", ".join(f'{name}="{value}"' for name, value in found) == parameters
    return refusal.status, dict(found)


# --- keys -------------------------------------------------------------------------------------------------------------


def test_a_named_key_is_its_owner() -> None:
    auth = read_auth(keys({"alice": ALICE, "bob": [BOB, CAROL]}, scopes=["read", "write"]))
    assert admitted(auth, f"Bearer {ALICE}") == Principal("alice", frozenset({"read", "write"}))
    assert admitted(auth, f"bearer  {CAROL}") == Principal("bob", frozenset({"read", "write"}))


def test_keys_without_names_are_told_apart_and_not_shown() -> None:
    auth = read_auth(keys(ALICE, BOB))
    alice, bob = admitted(auth, f"Bearer {ALICE}"), admitted(auth, f"Bearer {BOB}")
    assert isinstance(alice, Principal)
    assert isinstance(bob, Principal)
    assert alice.id != bob.id
    assert ALICE not in repr(auth) + alice.id


def test_several_keys_may_do_different_things() -> None:
    auth = read_auth([keys({"alice": ALICE}), keys({"bob": BOB}, scopes="admin")])
    assert admitted(auth, f"Bearer {BOB}") == Principal("bob", frozenset({"admin"}))
    assert admitted(auth, f"Bearer {ALICE}") == Principal("alice")


@pytest.mark.parametrize("token", ["x", ALICE[:-1], ALICE + "x", ALICE.upper(), "x" * 200])
def test_another_key_is_an_invalid_token(token: str) -> None:
    status, said = challenge_of(admitted(read_auth(keys(ALICE)), f"Bearer {token}"))
    assert (status, said["error"]) == (401, "invalid_token")


def test_every_key_is_compared_in_constant_time_whatever_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time must say nothing: neither how much of a key was right, nor whose came first."""
    compared: list[tuple[int, int]] = []
    real = hmac.compare_digest

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((len(one), len(other)))
        return real(one, other)

    monkeypatch.setattr(hmac, "compare_digest", compare)
    auth = read_auth(keys(ALICE, BOB, CAROL))
    for token in (ALICE, CAROL, "y"):
        admitted(auth, f"Bearer {token}")
    assert compared == [(32, 32)] * 9


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((), "at least one key"),
        (({},), "at least one key"),
        (("short",), "at least 16 characters"),
        (("with a space in it",), "letters, digits"),
        (("ümläut-0123456789abcdef",), "letters, digits"),
        (({"alice": [ALICE, 7]},), "letters, digits"),
        (({"alice": 7},), "letters, digits"),
        (({"alice": ALICE.encode()},), "letters, digits"),
        (([ALICE],), "keys\\(\\) takes"),
        ((ALICE, ALICE), "twice"),
    ],
)
def test_a_key_that_cannot_be_used_is_refused_without_being_shown(given: tuple, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        keys(*given)
    assert "with a space" not in str(caught.value)


def test_a_scope_that_cannot_be_said_is_refused() -> None:
    with pytest.raises(UsageError, match="not a scope"):
        keys(ALICE, scopes=['a"b'])


# --- the header -------------------------------------------------------------------------------------------------------

AUTH = BearerAuth(keys(ALICE), resource=RESOURCE, authorization_servers=[ISSUER], scopes=["mcp"])


@pytest.mark.parametrize("value", [None, "", "Basic dXNlcjpwdw==", "Bearerx y", "Digest x"])
def test_without_a_token_the_challenge_names_no_error(value: str | None) -> None:
    """RFC 6750, 3: a request without authentication should not be told of one."""
    status, said = challenge_of(admitted(AUTH, value))
    assert (status, said) == (401, {"scope": "mcp", "resource_metadata": METADATA})


@pytest.mark.parametrize(
    "value",
    [
        "Bearer",
        "Bearer ",
        f"Bearer {ALICE} {BOB}",
        f"Bearer {ALICE}, Bearer {BOB}",
        f"Bearer {ALICE}\nBearer {BOB}",
        f"Bearer {ALICE}\r\nx: y",
        f"Bearer\t{ALICE}",
        'Bearer "quoted"',
        "Bearer tökén",
        "Bearer " + "x" * MOST_TOKEN_CHARACTERS,
    ],
)
def test_a_malformed_header_is_a_bad_request(value: str) -> None:
    """protocol.md section 9: 400 malformed. Several tokens are malformed too, even if one of them is good."""
    status, said = challenge_of(admitted(AUTH, value))
    assert (status, said["error"]) == (400, "invalid_request")
    assert "scope" not in said


def test_two_header_lines_are_one_malformed_header() -> None:
    """A proxy and we might each take another one of two."""
    headers = fold_headers([(b"Authorization", f"Bearer {token}".encode()) for token in (ALICE, ALICE)])
    assert challenge_of(asyncio.run(AUTH.admit("POST", "/mcp", headers)))[0] == 400


def test_a_token_in_the_query_is_not_looked_at() -> None:
    """2026-07-28 basic/authorization: access tokens must not be in the URI query."""
    refusal = asyncio.run(AUTH.admit("POST", f"/mcp?access_token={ALICE}", {}))
    assert challenge_of(refusal) == (401, {"scope": "mcp", "resource_metadata": METADATA})


def test_without_metadata_and_scopes_there_is_a_realm() -> None:
    """RFC 6750, 3: the scheme must be followed by at least one parameter."""
    assert challenge_of(admitted(read_auth(keys(ALICE)), None)) == (401, {"realm": "mcp"})


# --- scopes -----------------------------------------------------------------------------------------------------------


def test_a_token_that_may_too_little_is_told_all_that_it_takes() -> None:
    status, said = challenge_of(admitted(AUTH, f"Bearer {ALICE}"))
    assert (status, said["error"], said["scope"]) == (403, "insufficient_scope", "mcp")
    status, said = challenge_of(AUTH.insufficient(["files:write", "mcp"]))
    assert (status, said["scope"]) == (403, "files:write mcp")
    assert said["resource_metadata"] == METADATA


def test_enough_scopes_are_let_in() -> None:
    auth = BearerAuth(keys(ALICE, scopes=["mcp", "more"]), scopes=["mcp"])
    assert isinstance(admitted(auth, f"Bearer {ALICE}"), Principal)


def test_scopes_are_challenged_for_any_guard() -> None:
    scopes = frozenset({"b", "a"})
    assert challenge_scopes(None, scopes) == (
        ("www-authenticate", 'Bearer error="insufficient_scope", scope="a b"'),
    )
    assert challenge_of(Refusal(403, 0, "", headers=challenge_scopes(AUTH, scopes)))[1]["scope"] == "a b mcp"


# --- verifiers --------------------------------------------------------------------------------------------------------


class Broken:
    async def verify(self, token: str) -> Principal | None:
        raise RuntimeError(f"the database does not know {token}")


class Nameless:
    async def verify(self, token: str) -> Principal | None:
        return Principal("")


@pytest.mark.parametrize("verifier", [Broken(), Nameless()])
def test_a_token_that_cannot_be_checked_is_not_called_wrong(
    verifier: Broken | Nameless, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        refusal = admitted(read_auth(verifier), f"Bearer {ALICE}")
    assert isinstance(refusal, Refusal)
    assert (refusal.status, refusal.headers) == (503, (("retry-after", "1"),))
    assert "could not be checked" in caplog.text
    assert ALICE not in caplog.text


def test_no_token_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        for value in (f"Bearer {ALICE}", f"Bearer {BOB}", f"Bearer {ALICE} {BOB}"):
            admitted(AUTH, value)
    assert not re.search(f"{ALICE}|{BOB}", caplog.text)


def test_what_is_no_verifier_is_refused() -> None:
    with pytest.raises(UsageError, match="async def verify"):
        BearerAuth(object())  # type: ignore[arg-type]  # the mistake
    with pytest.raises(UsageError, match="needs a verifier"):
        BearerAuth()
    with pytest.raises(UsageError, match="not a text"):
        read_auth(ALICE)  # type: ignore[arg-type]  # the mistake
    assert read_auth(AUTH) is AUTH


# --- metadata ---------------------------------------------------------------------------------------------------------


def test_metadata_is_at_the_inserted_path_and_at_the_root() -> None:
    """RFC 9728, 3.1; protocol.md section 9: path-inserted, then root."""
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


def test_scopes_that_can_be_asked_for_may_be_more_than_are_needed() -> None:
    auth = BearerAuth(
        keys(ALICE), resource=RESOURCE, authorization_servers=[ISSUER], scopes_supported=["b", "a"]
    )
    document = auth.metadata("/.well-known/oauth-protected-resource", "demo")
    assert document is not None
    assert json.loads(document)["scopes_supported"] == ["a", "b"]
    bare = BearerAuth(keys(ALICE), resource=RESOURCE, authorization_servers=[ISSUER])
    assert b"scopes_supported" not in (bare.metadata("/.well-known/oauth-protected-resource", "demo") or b"")


def test_without_authorization_servers_there_is_no_metadata() -> None:
    auth = BearerAuth(keys(ALICE), resource=RESOURCE)
    assert auth.metadata_url is None
    assert auth.metadata("/.well-known/oauth-protected-resource", "demo") is None


def test_where_it_is_can_be_settled_later_and_once() -> None:
    auth = BearerAuth(keys(ALICE), authorization_servers=[ISSUER])
    assert auth.metadata_url is None
    auth.settle("http://127.0.0.1:8123/")
    assert auth.metadata_url == "http://127.0.0.1:8123/.well-known/oauth-protected-resource"
    auth.settle(RESOURCE)
    assert auth.resource == "http://127.0.0.1:8123/"
    assert "8123" in repr(auth)


@pytest.mark.parametrize(
    "url",
    ["", "mcp.example.com", "ftp://x/", "https://x/?a=b", "https://x/#y", "https:///mcp", 'https://x/"y'],
)
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="not a URL"):
        BearerAuth(keys(ALICE), resource=url)
    with pytest.raises(UsageError, match="not a URL"):
        BearerAuth(keys(ALICE), authorization_servers=[url])
