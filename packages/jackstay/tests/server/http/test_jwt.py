"""JSON Web Tokens: signed by whom we trust, for us, not over; and every known way to pretend (RFC 8725)."""

import asyncio
import base64
import json
import time
import warnings
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

from jackstay.errors import TransportError, UsageError
from jackstay.server.http import JwtVerifier, Principal, _jwt
from jackstay.server.http._jwt import ALGORITHMS, KEPT_SECONDS

ISSUER, AUDIENCE = "https://auth.example.com", "https://mcp.example.com/mcp"
RSA = RSAKey.generate_key(2048, {"kid": "rsa"})
EC = ECKey.generate_key("P-256", {"kid": "ec"})
ED = OKPKey.generate_key("Ed25519", {"kid": "ed"})
OTHER = ECKey.generate_key("P-256", {"kid": "ec"})
JWKS = {"keys": [key.as_dict(private=False) for key in (RSA, EC, ED)]}
NOW = 1_800_000_000.0
CLAIMS: dict[str, Any] = {
    "iss": ISSUER,
    "aud": AUDIENCE,
    "sub": "alice",
    "exp": NOW + 600,
    "iat": NOW - 10,
    "scope": "read write",
}


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


def signed(claims: dict[str, Any] | None = None, key: Any = EC, alg: str = "ES256", **header: Any) -> str:
    said = {"alg": alg, "kid": key.get("kid"), **header}
    said = {name: value for name, value in said.items() if value is not None}
    return jwt.encode(said, {**CLAIMS, **(claims or {})}, key, algorithms=[alg])


def raw(header: dict[str, Any], claims: dict[str, Any], signature: bytes = b"") -> str:
    parts = [json.dumps(header).encode(), json.dumps(claims).encode(), signature]
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


def verifier(**options: Any) -> JwtVerifier:
    return JwtVerifier(**{"issuer": ISSUER, "audience": AUDIENCE, "jwks": JWKS, "clock": Clock(), **options})


def checked(token: str, **options: Any) -> Principal | None:
    return asyncio.run(verifier(**options).verify(token))


@pytest.mark.filterwarnings("ignore::UserWarning")  # signing warns; what we do must not
@pytest.mark.parametrize(
    ("key", "alg"),
    [(RSA, "RS256"), (RSA, "PS256"), (RSA, "RS512"), (EC, "ES256"), (ED, "EdDSA"), (ED, "Ed25519")],
)
def test_a_good_token_is_its_subject(key: Any, alg: str) -> None:
    token = signed(key=key, alg=alg)
    principal = checked(token)
    assert principal is not None
    assert principal.id == f"{ISSUER}|sub|alice"
    assert principal.scopes == {"read", "write"}
    assert principal.claims["sub"] == "alice"


def test_checking_a_token_warns_of_nothing() -> None:
    with pytest.warns(Warning, match="EdDSA") as seen:
        token = signed(key=ED, alg="EdDSA")
    before = len(seen)
    assert checked(token) is not None
    assert len(seen) == before


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "https://other.example.com/mcp"},
        {"aud": [AUDIENCE + "/", "x"]},
        {"aud": []},
        {"aud": None},
        {"aud": {"x": AUDIENCE}},
        {"iss": ISSUER + "/"},
        {"iss": None},
        {"exp": NOW - 31},
        {"exp": None},
        {"exp": str(NOW + 600)},
        {"exp": True},
        {"exp": 1e300},
        {"nbf": NOW + 31},
        {"nbf": "soon"},
        {"iat": NOW + 3600},
        {"sub": None},
        {"sub": 7},
        {"sub": ""},
        {"cnf": {"jkt": "x"}},
    ],
    ids=str,
)
def test_a_token_of_others_for_others_or_of_another_time_is_not_valid(claims: dict[str, Any]) -> None:
    """2026-07-28 "Token Handling": a server must check that tokens were issued for it."""
    assert checked(signed(claims)) is None


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": ["x", AUDIENCE]},
        {"exp": NOW - 29},
        {"exp": int(NOW) + 1},
        {"nbf": NOW + 29},
        {"iat": None},
        {"sub": None, "client_id": "program"},
        {"sub": None, "azp": "program"},
    ],
    ids=str,
)
def test_clocks_may_differ_a_little_and_programs_have_names(claims: dict[str, Any]) -> None:
    assert checked(signed(claims)) is not None


@pytest.mark.parametrize(
    ("claims", "scopes"),
    [
        ({"scope": ""}, set()),
        ({"scope": None, "scp": ["a", "b"]}, {"a", "b"}),
        ({"scope": 7}, set()),
        ({"scope": ["a", 1]}, {"a"}),
    ],
    ids=str,
)
def test_scopes_are_read_from_what_is_there(claims: dict[str, Any], scopes: set[str]) -> None:
    principal = checked(signed(claims))
    assert principal is not None
    assert principal.scopes == scopes


def test_scopes_may_be_called_scp() -> None:
    claims = {name: value for name, value in CLAIMS.items() if name != "scope"} | {"scp": ["a", "b"]}
    token = jwt.encode({"alg": "ES256", "kid": "ec"}, claims, EC)
    principal = checked(token)
    assert principal is not None
    assert principal.scopes == {"a", "b"}


# --- forgeries --------------------------------------------------------------------------------------------------------


def test_no_signature_is_not_a_signature() -> None:
    for alg in ("none", "None", "NONE", ""):
        assert checked(raw({"alg": alg}, CLAIMS)) is None
    assert checked(signed().rpartition(".")[0] + ".") is None


def test_a_public_key_is_not_a_secret() -> None:
    """The confusion of algorithms: HS256, with the text of a key that everybody may read as the secret."""
    for key in (RSA, EC):
        pem = key.as_pem(private=False)
        forged = jwt.encode({"alg": "HS256", "kid": key.get("kid")}, CLAIMS, OctKey.import_key(pem.hex()))
        assert checked(forged) is None
    secret = OctKey.generate_key(256, {"kid": "ec"})
    assert checked(jwt.encode({"alg": "HS256", "kid": "ec"}, CLAIMS, secret)) is None


def test_a_header_brings_no_key() -> None:
    """RFC 8725, 3.5 and 3.10: what the sender names is not trusted."""
    token = signed(key=OTHER, jwk=OTHER.as_dict(private=False))
    assert checked(token) is None
    header = {"alg": "ES256", "kid": "ec", "jku": "https://evil.example/jwks"}
    assert checked(jwt.encode(header, CLAIMS, OTHER)) is None


@pytest.mark.parametrize(
    "token",
    [
        "",
        "x",
        "a.b",
        "a.b.c",
        "a.b.c.d.e",
        "!.!.!",
        raw({"alg": 7}, CLAIMS),
        raw({}, CLAIMS),
        raw({"alg": "ES256", "kid": 7}, CLAIMS),
        raw({"alg": "ES256", "kid": "ec"}, CLAIMS, b"x" * 64),
        raw({"alg": "ES256", "kid": "ec"}, CLAIMS, b"x" * 2000),
        raw({"alg": "ES256", "kid": "nobody"}, CLAIMS, b"x" * 64),
        raw({"alg": "ES256", "kid": "x" * 5000}, CLAIMS, b"x" * 64),
        base64.urlsafe_b64encode(b"[" * 3000).decode() + ".a.b",
    ],
)
def test_what_is_no_token_is_not_valid_and_breaks_nothing(token: str) -> None:
    assert checked(token) is None


def test_a_token_that_was_changed_is_not_valid() -> None:
    head, body, signature = signed().split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    changed = base64.urlsafe_b64encode(json.dumps({**claims, "sub": "bob"}).encode()).rstrip(b"=").decode()
    assert checked(f"{head}.{changed}.{signature}") is None
    assert checked(signed(key=OTHER)) is None


def test_a_signed_text_that_holds_no_claims_is_not_valid() -> None:
    from joserfc import jws

    for payload in (b"[]", b"x", b"\xff", b'{"sub":"\xff"}'):
        token = jws.serialize_compact({"alg": "ES256", "kid": "ec"}, payload, EC)
        assert checked(token) is None


@pytest.mark.parametrize("header", [{"typ": "dpop+jwt"}, {"typ": "logout+jwt"}])
def test_another_kind_of_token_does_not_pass_for_an_access_token(header: dict[str, Any]) -> None:
    assert checked(signed(**header)) is None


@pytest.mark.parametrize("depth", range(200, 1500, 100))
def test_a_header_that_is_nested_deeply_is_no_token(depth: int) -> None:
    """Anybody can send one, before a signature was looked at: it must not cost a traceback, nor be answered as our fault."""
    header = b'{"alg":"ES256","kid":"ec","x":%b1%b}' % (b"[" * depth, b"]" * depth)
    token = f"{base64.urlsafe_b64encode(header).rstrip(b'=').decode()}.e30.{'A' * 86}"
    assert checked(token) is None


def test_what_is_critical_and_not_understood_is_refused() -> None:
    """RFC 7515, 4.1.11."""
    token = raw({"alg": "ES256", "kid": "ec", "crit": ["exp"], "exp": 1}, CLAIMS, b"x" * 64)
    assert checked(token) is None


@pytest.mark.parametrize("typ", ["JWT", "at+jwt", "application/at+jwt", "AT+JWT"])
def test_an_access_token_may_say_so(typ: str) -> None:
    assert checked(signed(typ=typ)) is not None


def test_members_of_a_header_that_nobody_knows_are_ignored() -> None:
    """RFC 7515, section 4."""
    from joserfc.jws import JWSRegistry

    header = {"alg": "ES256", "kid": "ec", "x5t": "abc", "nonce": "n"}
    token = jwt.encode(header, CLAIMS, EC, registry=JWSRegistry(strict_check_header=False))
    assert checked(token) is not None


def test_a_token_without_a_name_of_its_key_is_tried_with_few() -> None:
    many = [ECKey.generate_key("P-256").as_dict(private=False) for _ in range(8)]
    token = signed(kid=None)
    assert checked(token, jwks={"keys": [*many[:7], EC.as_dict(private=False)]}) is not None
    assert checked(token, jwks={"keys": [*many, EC.as_dict(private=False)]}) is None


# --- the cache --------------------------------------------------------------------------------------------------------


def test_a_token_is_checked_once_and_forgotten_when_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        clock = Clock()
        one = verifier(clock=clock)
        opened: list[str] = []
        real = JwtVerifier._open

        def counted(self: JwtVerifier, token: str, key: Any) -> bytes | None:
            opened.append(token)
            return real(self, token, key)

        monkeypatch.setattr(JwtVerifier, "_open", counted)
        token = signed({"exp": NOW + 100})
        first = await one.verify(token)
        assert first is not None
        clock.now += 129
        assert await one.verify(token) is first
        assert len(opened) == 1
        clock.now += 2
        assert await one.verify(token) is None
        assert len(opened) == 2
        assert one._kept == {}

    asyncio.run(test())


def test_a_key_that_is_withdrawn_is_felt_in_minutes() -> None:
    async def test() -> None:
        clock = Clock()
        one = verifier(clock=clock)
        token = signed({"exp": NOW + 86_400})
        assert await one.verify(token) is not None
        one._keys._keys = ()
        clock.now += KEPT_SECONDS - 1
        assert await one.verify(token) is not None
        clock.now += 1
        assert await one.verify(token) is None

    asyncio.run(test())


def test_what_is_kept_is_bounded_and_holds_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_jwt, "MOST_KEPT", 3)

    async def test() -> None:
        one = verifier()
        tokens = [signed({"sub": f"user-{n}"}) for n in range(5)]
        for token in tokens:
            assert await one.verify(token) is not None
        assert len(one._kept) == 3
        assert all(isinstance(key, bytes) and len(key) == 32 for key in one._kept)

    asyncio.run(test())


# --- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({"audience": ""}, "audience"),
        ({"audience": []}, "audience"),
        ({"audience": [""]}, "audience"),
        ({"issuer": ""}, "audience"),
        ({"algorithms": ["none"]}, "algorithms"),
        ({"algorithms": []}, "algorithms"),
        ({"algorithms": ["HS256"], "jwks": "https://x/jwks"}, "algorithms"),
        ({"algorithms": ["HS256", "RS256"]}, "algorithms"),
        ({"leeway": -1}, "leeway"),
        ({"leeway": 301}, "leeway"),
        ({"jwks": "http://auth.example.com/jwks"}, "jwks"),
        ({"jwks": {}}, "jwks"),
    ],
    ids=str,
)
def test_a_setting_that_opens_a_door_is_refused(options: dict[str, Any], path: str) -> None:
    with pytest.raises(UsageError) as caught:
        verifier(**options)
    assert caught.value.path == path


def test_secrets_are_taken_where_they_are_asked_for() -> None:
    secret = OctKey.generate_key(256, {"kid": "s"})
    token = jwt.encode({"alg": "HS256", "kid": "s"}, CLAIMS, secret)
    assert checked(token, algorithms="HS256", jwks={"keys": [secret.as_dict()]}) is not None
    assert checked(token, jwks={"keys": [secret.as_dict(), EC.as_dict(private=False)]}) is None


def test_keys_may_be_given_by_a_function_and_its_failure_is_told() -> None:
    async def published() -> dict[str, Any]:
        return JWKS

    async def broken() -> dict[str, Any]:
        raise OSError("down")

    assert checked(signed(), jwks=published) is not None
    with pytest.raises(TransportError, match="no keys"):
        checked(signed(), jwks=broken)


def test_it_says_whose_tokens_it_checks() -> None:
    assert repr(verifier()) == f"<JwtVerifier of {ISSUER} for {AUDIENCE}>"
    assert verifier(audience=["b", "a"]).audiences == {"a", "b"}
    assert all(name[:2] != "HS" for name in ALGORITHMS)


def test_the_clock_is_the_real_one_by_default() -> None:
    real = JwtVerifier(issuer=ISSUER, audience=AUDIENCE, jwks=JWKS)
    assert asyncio.run(real.verify(signed({"exp": time.time() + 60, "iat": time.time()}))) is not None


# --- strength, and kinds of principals ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("claims", "id"),
    [
        ({"sub": "alice"}, "sub|alice"),
        ({"sub": "alice", "client_id": "app"}, "sub|alice"),
        ({"sub": None, "client_id": "alice"}, "client_id|alice"),
        ({"sub": None, "azp": "alice"}, "client_id|alice"),
        ({"sub": "client_id|alice"}, "sub|client_id|alice"),
    ],
)
def test_a_program_is_never_the_user_of_its_name(claims: dict[str, Any], id: str) -> None:
    """RFC 9068, 5: whoever may register a client could choose a user's name for it."""
    principal = checked(signed(claims))
    assert principal is not None
    assert principal.id == f"{ISSUER}|{id}"


def weak_key(kind: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the library warns of it
        if kind == "RSA":
            return RSAKey.generate_key(1024, {"kid": "weak"})
        return OctKey.import_key("x", {"kid": "weak"})


@pytest.mark.parametrize("kind", ["RSA", "oct"])
def test_a_weak_key_that_is_given_is_refused(kind: str) -> None:
    """RFC 7518, 3.2 and 3.3."""
    weak = weak_key(kind)
    algorithms = "HS256" if weak.key_type == "oct" else "RS256"
    with pytest.raises(UsageError, match=r"bits; .* keys need (2048|256) or more"):
        verifier(algorithms=algorithms, jwks={"keys": [weak.as_dict()]})


def test_a_secret_is_as_long_as_the_hash_of_its_algorithm() -> None:
    secret = OctKey.generate_key(384, {"kid": "s"})
    jwks = {"keys": [secret.as_dict()]}
    for alg, is_enough in (("HS256", True), ("HS384", True), ("HS512", False)):
        token = jwt.encode({"alg": alg, "kid": "s"}, CLAIMS, secret, algorithms=[alg])
        assert (checked(token, algorithms=alg, jwks=jwks) is not None) is is_enough


def test_a_weak_key_that_is_published_is_not_used(caplog: pytest.LogCaptureFixture) -> None:
    weak = weak_key("RSA")

    async def fetch() -> dict[str, Any]:
        return {"keys": [key.as_dict(private=False) for key in (weak, EC)]}

    assert checked(signed(key=weak, alg="RS256"), jwks=fetch) is None
    assert checked(signed(), jwks=fetch) is not None
    assert "a key of 1024 bits is not used" in caplog.text
