"""JSON Web Tokens: issuer, audience, expiry and signature, and the known attacks (RFC 8725)."""

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
from jackstay.server.http._jwt import ALGORITHMS, CACHE_SECONDS

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
    fields = {"alg": alg, "kid": key.get("kid"), **header}
    fields = {name: value for name, value in fields.items() if value is not None}
    return jwt.encode(fields, {**CLAIMS, **(claims or {})}, key, algorithms=[alg])


def raw(header: dict[str, Any], claims: dict[str, Any], signature: bytes = b"") -> str:
    parts = [json.dumps(header).encode(), json.dumps(claims).encode(), signature]
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


def verifier(**options: Any) -> JwtVerifier:
    return JwtVerifier(**{"issuer": ISSUER, "audience": AUDIENCE, "jwks": JWKS, "clock": Clock(), **options})


async def verify(token: str, **options: Any) -> Principal | None:
    return await verifier(**options).verify(token)


@pytest.mark.filterwarnings("ignore::UserWarning")
async def test_a_valid_token_gives_its_subject(subtests: pytest.Subtests) -> None:
    cases: list[tuple[Any, str]] = [
        (RSA, "RS256"),
        (RSA, "PS256"),
        (RSA, "RS512"),
        (EC, "ES256"),
        (ED, "EdDSA"),
        (ED, "Ed25519"),
    ]
    for key, alg in cases:
        with subtests.test(key=key, alg=alg):
            token = signed(key=key, alg=alg)
            principal = await verify(token)
            assert principal is not None
            assert principal.id == f"{ISSUER}|sub|alice"
            assert principal.scopes == {"read", "write"}
            assert principal.claims["sub"] == "alice"


async def test_verifying_a_token_does_not_warn() -> None:
    with pytest.warns(Warning, match="EdDSA") as seen:
        token = signed(key=ED, alg="EdDSA")
    before = len(seen)
    assert await verify(token) is not None
    assert len(seen) == before


async def test_wrong_issuer_audience_time_or_subject_is_not_valid(subtests: pytest.Subtests) -> None:
    """2026-07-28 basic/authorization, "Token Handling": a server must check that tokens were issued for it."""
    cases: list[dict[str, Any]] = [
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
    ]
    for claims in cases:
        with subtests.test(claims=claims):
            assert await verify(signed(claims)) is None


async def test_clock_skew_and_client_tokens_are_accepted(subtests: pytest.Subtests) -> None:
    cases: list[dict[str, Any]] = [
        {"aud": ["x", AUDIENCE]},
        {"exp": NOW - 29},
        {"exp": int(NOW) + 1},
        {"nbf": NOW + 29},
        {"iat": None},
        {"sub": None, "client_id": "program"},
        {"sub": None, "azp": "program"},
    ]
    for claims in cases:
        with subtests.test(claims=claims):
            assert await verify(signed(claims)) is not None


async def test_scopes_are_read_from_scope_or_scp(subtests: pytest.Subtests) -> None:
    cases: list[tuple[dict[str, Any], set[str]]] = [
        ({"scope": ""}, set()),
        ({"scope": None, "scp": ["a", "b"]}, {"a", "b"}),
        ({"scope": 7}, set()),
        ({"scope": ["a", 1]}, {"a"}),
    ]
    for claims, scopes in cases:
        with subtests.test(claims=claims, scopes=scopes):
            principal = await verify(signed(claims))
            assert principal is not None
            assert principal.scopes == scopes


# --- forgeries --------------------------------------------------------------------------------------------------------


async def test_an_unsigned_token_is_not_valid() -> None:
    for alg in ("none", "None", "NONE", ""):
        assert await verify(raw({"alg": alg}, CLAIMS)) is None
    assert await verify(signed().rpartition(".")[0] + ".") is None


async def test_a_public_key_is_not_a_secret() -> None:
    """Algorithm confusion: HS256 with a public key as the secret (RFC 8725 section 2.1)."""
    for key in (RSA, EC):
        pem = key.as_pem(private=False)
        forged = jwt.encode({"alg": "HS256", "kid": key.get("kid")}, CLAIMS, OctKey.import_key(pem.hex()))
        assert await verify(forged) is None
    secret = OctKey.generate_key(256, {"kid": "ec"})
    assert await verify(jwt.encode({"alg": "HS256", "kid": "ec"}, CLAIMS, secret)) is None


async def test_a_key_in_the_header_is_not_used() -> None:
    """RFC 8725 sections 3.5 and 3.10."""
    token = signed(key=OTHER, jwk=OTHER.as_dict(private=False))
    assert await verify(token) is None
    header = {"alg": "ES256", "kid": "ec", "jku": "https://evil.example/jwks"}
    assert await verify(jwt.encode(header, CLAIMS, OTHER)) is None


async def test_a_malformed_token_is_not_valid(subtests: pytest.Subtests) -> None:
    cases: list[str] = [
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
    ]
    for token in cases:
        with subtests.test(token=token):
            assert await verify(token) is None


async def test_a_modified_token_is_not_valid() -> None:
    head, body, signature = signed().split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    changed = base64.urlsafe_b64encode(json.dumps({**claims, "sub": "bob"}).encode()).rstrip(b"=").decode()
    assert await verify(f"{head}.{changed}.{signature}") is None
    assert await verify(signed(key=OTHER)) is None


async def test_a_signed_payload_without_claims_is_not_valid() -> None:
    from joserfc import jws

    for payload in (b"[]", b"x", b"\xff", b'{"sub":"\xff"}'):
        token = jws.serialize_compact({"alg": "ES256", "kid": "ec"}, payload, EC)
        assert await verify(token) is None


async def test_another_kind_of_token_does_not_pass_for_an_access_token(subtests: pytest.Subtests) -> None:
    for header in ({"typ": "dpop+jwt"}, {"typ": "logout+jwt"}):
        with subtests.test(header=header):
            assert await verify(signed(**header)) is None


async def test_a_deeply_nested_header_is_not_valid(subtests: pytest.Subtests) -> None:
    """It is parsed before the signature is verified, so it must not raise."""
    for depth in range(200, 1500, 100):
        with subtests.test(depth=depth):
            header = b'{"alg":"ES256","kid":"ec","x":%b1%b}' % (b"[" * depth, b"]" * depth)
            token = f"{base64.urlsafe_b64encode(header).rstrip(b'=').decode()}.e30.{'A' * 86}"
            assert await verify(token) is None


async def test_crit_is_refused() -> None:
    """RFC 7515 section 4.1.11."""
    token = raw({"alg": "ES256", "kid": "ec", "crit": ["exp"], "exp": 1}, CLAIMS, b"x" * 64)
    assert await verify(token) is None


async def test_the_types_of_access_tokens_are_accepted(subtests: pytest.Subtests) -> None:
    for typ in ("JWT", "at+jwt", "application/at+jwt", "AT+JWT"):
        with subtests.test(typ=typ):
            assert await verify(signed(typ=typ)) is not None


async def test_unknown_header_members_are_ignored() -> None:
    """RFC 7515 section 4."""
    from joserfc.jws import JWSRegistry

    header = {"alg": "ES256", "kid": "ec", "x5t": "abc", "nonce": "n"}
    token = jwt.encode(header, CLAIMS, EC, registry=JWSRegistry(strict_check_header=False))
    assert await verify(token) is not None


async def test_a_token_without_a_key_id_is_tried_with_few_keys() -> None:
    many = [ECKey.generate_key("P-256").as_dict(private=False) for _ in range(8)]
    token = signed(kid=None)
    assert await verify(token, jwks={"keys": [*many[:7], EC.as_dict(private=False)]}) is not None
    assert await verify(token, jwks={"keys": [*many, EC.as_dict(private=False)]}) is None


# --- the cache --------------------------------------------------------------------------------------------------------


async def test_a_token_is_verified_once_until_it_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    cached = verifier(clock=clock)
    opened: list[str] = []
    real = JwtVerifier._open

    def counted(self: JwtVerifier, token: str, key: Any) -> bytes | None:
        opened.append(token)
        return real(self, token, key)

    monkeypatch.setattr(JwtVerifier, "_open", counted)
    token = signed({"exp": NOW + 100})
    first = await cached.verify(token)
    assert first is not None
    clock.now += 129
    assert await cached.verify(token) is first
    assert len(opened) == 1
    clock.now += 2
    assert await cached.verify(token) is None
    assert len(opened) == 2
    assert cached._cache == {}


async def test_a_revoked_key_takes_effect_after_the_cache_time() -> None:
    clock = Clock()
    cached = verifier(clock=clock)
    token = signed({"exp": NOW + 86_400})
    assert await cached.verify(token) is not None
    cached._keys._keys = ()
    clock.now += CACHE_SECONDS - 1
    assert await cached.verify(token) is not None
    clock.now += 1
    assert await cached.verify(token) is None


async def test_the_cache_is_bounded_and_contains_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_jwt, "MAX_CACHED", 3)

    cached = verifier()
    tokens = [signed({"sub": f"user-{n}"}) for n in range(5)]
    for token in tokens:
        assert await cached.verify(token) is not None
    assert len(cached._cache) == 3
    assert all(isinstance(key, bytes) and len(key) == 32 for key in cached._cache)


# --- settings ---------------------------------------------------------------------------------------------------------


def test_an_insecure_setting_is_refused(subtests: pytest.Subtests) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
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
    ]
    for options, path in cases:
        with subtests.test(options=options, path=path):
            with pytest.raises(UsageError) as caught:
                verifier(**options)
            assert caught.value.path == path


async def test_secrets_are_used_if_configured() -> None:
    secret = OctKey.generate_key(256, {"kid": "s"})
    token = jwt.encode({"alg": "HS256", "kid": "s"}, CLAIMS, secret)
    assert await verify(token, algorithms="HS256", jwks={"keys": [secret.as_dict()]}) is not None
    assert await verify(token, jwks={"keys": [secret.as_dict(), EC.as_dict(private=False)]}) is None


async def test_keys_may_come_from_a_function_that_may_fail() -> None:
    async def published() -> dict[str, Any]:
        return JWKS

    async def broken() -> dict[str, Any]:
        raise OSError("down")

    assert await verify(signed(), jwks=published) is not None
    with pytest.raises(TransportError, match="no signing keys"):
        await verify(signed(), jwks=broken)


def test_repr_and_defaults() -> None:
    assert repr(verifier()) == f"<JwtVerifier of {ISSUER} for {AUDIENCE}>"
    assert verifier(audience=["b", "a"]).audiences == {"a", "b"}
    assert all(name[:2] != "HS" for name in ALGORITHMS)


async def test_the_clock_is_the_real_one_by_default() -> None:
    real = JwtVerifier(issuer=ISSUER, audience=AUDIENCE, jwks=JWKS)
    assert await real.verify(signed({"exp": time.time() + 60, "iat": time.time()})) is not None


# --- strength, and kinds of principals
# ---------------------------------------------------------------------------------


async def test_a_client_is_never_mistaken_for_a_user(subtests: pytest.Subtests) -> None:
    """RFC 9068 section 5: a client could be registered under the name of a user."""
    cases: list[tuple[dict[str, Any], str]] = [
        ({"sub": "alice"}, "sub|alice"),
        ({"sub": "alice", "client_id": "app"}, "sub|alice"),
        ({"sub": None, "client_id": "alice"}, "client_id|alice"),
        ({"sub": None, "azp": "alice"}, "client_id|alice"),
        ({"sub": "client_id|alice"}, "sub|client_id|alice"),
    ]
    for claims, id in cases:
        with subtests.test(claims=claims, id=id):
            principal = await verify(signed(claims))
            assert principal is not None
            assert principal.id == f"{ISSUER}|{id}"


def weak_key(kind: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the library warns about weak keys
        if kind == "RSA":
            return RSAKey.generate_key(1024, {"kid": "weak"})
        return OctKey.import_key("x", {"kid": "weak"})


def test_a_weak_configured_key_is_refused(subtests: pytest.Subtests) -> None:
    """RFC 7518 sections 3.2 and 3.3."""
    for kind in ("RSA", "oct"):
        with subtests.test(kind=kind):
            weak = weak_key(kind)
            algorithms = "HS256" if weak.key_type == "oct" else "RS256"
            with pytest.raises(
                UsageError, match=r"key too weak in jwks: .* bits; use (RSA|oct) keys of (2048|256) bits or more"
            ):
                verifier(algorithms=algorithms, jwks={"keys": [weak.as_dict()]})


async def test_a_secret_is_as_long_as_the_hash_of_its_algorithm() -> None:
    secret = OctKey.generate_key(384, {"kid": "s"})
    jwks = {"keys": [secret.as_dict()]}
    for alg, is_enough in (("HS256", True), ("HS384", True), ("HS512", False)):
        token = jwt.encode({"alg": alg, "kid": "s"}, CLAIMS, secret, algorithms=[alg])
        assert (await verify(token, algorithms=alg, jwks=jwks) is not None) is is_enough


async def test_a_weak_fetched_key_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    weak = weak_key("RSA")

    async def fetch() -> dict[str, Any]:
        return {"keys": [key.as_dict(private=False) for key in (weak, EC)]}

    assert await verify(signed(key=weak, alg="RS256"), jwks=fetch) is None
    assert await verify(signed(), jwks=fetch) is not None
    assert "ignoring a signing key of 1024 bits" in caplog.text
