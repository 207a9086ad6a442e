"""DPoP (RFC 9449): the servers of these tests verify every proof as the RFC requires."""

import base64
import contextlib
import hashlib
import json
import sys
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, Self

import pytest
from joserfc import jwk, jwt

from jackstay import Client, McpError, connect, http
from jackstay.cli._login import HintingOAuth
from jackstay.errors import UsageError
from jackstay.oauth import AuthorizationError, MemoryStore, OAuth
from jackstay.oauth._dpop import Proofs
from scripted.oauth import REDIRECT_URI, AuthorizationSite, Browser, Clock, GuardedSite, PlainClient, Request, Response


class Verifier:
    """Verifies the proofs of requests to one server, which may require a nonce."""

    def __init__(self) -> None:
        self.nonce = ""
        self.seen: set[str] = set()

    def thumbprint(self, request: Request, url: str, token: str = "") -> str | None:
        """Return the thumbprint of the key of a valid proof, or None if the proof lacks the nonce."""
        proof = request.headers["dpop"]
        key = jwk.ECKey.import_key(jwt.decode(proof, _key_in(proof), algorithms=["ES256"]).header["jwk"])
        decoded = jwt.decode(proof, key, algorithms=["ES256"])
        assert decoded.header["typ"] == "dpop+jwt"
        assert "d" not in decoded.header["jwk"]
        claims = decoded.claims
        assert (claims["htm"], claims["htu"]) == (request.method, url)
        assert claims["jti"] not in self.seen, "a proof was used twice"
        self.seen.add(claims["jti"])
        expected = base64.urlsafe_b64encode(hashlib.sha256(token.encode()).digest()).rstrip(b"=").decode()
        assert claims.get("ath") == (expected if token else None)
        return key.thumbprint() if claims.get("nonce", "") == self.nonce else None


def _key_in(proof: str) -> jwk.ECKey:
    header = proof.partition(".")[0]
    return jwk.ECKey.import_key(json.loads(base64.urlsafe_b64decode(header + "=="))["jwk"])


class DpopIssuer(AuthorizationSite):
    """Binds each token to the key of the proof."""

    def __init__(self) -> None:
        super().__init__()
        self.overrides["dpop_signing_alg_values_supported"] = ["RS256", "ES256"]
        self.token_types = "DPoP"
        self.verifier = Verifier()
        self.bound: dict[str, str] = {}
        self.codes_bound: list[str] = []

    def _token(self, request: Request) -> Response:
        thumbprint = self.verifier.thumbprint(request, f"{self.issuer}/token")
        if thumbprint is None:
            headers = {"DPoP-Nonce": self.verifier.nonce}
            return Response(400, {"error": "use_dpop_nonce"}, headers)
        if request.form["grant_type"] == "authorization_code":
            assert self.codes[request.form["code"]]["dpop_jkt"] == thumbprint
        response = super()._token(request)
        for token in self.access_tokens:
            self.bound.setdefault(token, thumbprint)
        return response


class DpopServer(GuardedSite):
    """Requires a token with a proof of its key."""

    def __init__(self, issuing: DpopIssuer) -> None:
        super().__init__(issuing)
        self.dpop = issuing
        self.verifier = Verifier()
        self.schemes = ("DPoP",)

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        return self

    def token_of(self, request: Request) -> str:
        return request.headers.get("authorization", "").removeprefix("DPoP ")

    def _challenge(self, error: str = "", **headers: str) -> Response:
        parameters = f'resource_metadata="{self.url}{self.prm_path}"' + (f', error="{error}"' if error else "")
        field = ", ".join(f"{scheme} {parameters}" for scheme in self.schemes)
        return Response(401, headers={"WWW-Authenticate": field, **headers})

    def refusal(self, request: Request) -> Response | None:
        token = self.token_of(request)
        if token in self.revoked or token not in self.dpop.access_tokens:
            return self._challenge()
        thumbprint = self.verifier.thumbprint(request, self.endpoint, token)
        if thumbprint is None:
            return self._challenge("use_dpop_nonce", **{"DPoP-Nonce": self.verifier.nonce})
        assert thumbprint == self.dpop.bound[token]
        return None


@contextlib.asynccontextmanager
async def environment() -> AsyncIterator[SimpleNamespace]:
    async with DpopIssuer() as issuing, DpopServer(issuing) as server:
        browser, clock, store = Browser(), Clock(), MemoryStore()

        def auth() -> OAuth:
            return OAuth(redirect=browser, redirect_uri=REDIRECT_URI, clock=clock, store=store)

        yield SimpleNamespace(issuing=issuing, server=server, browser=browser, clock=clock, auth=auth)


def client_of(env: SimpleNamespace, **settings: Any) -> Client:
    return connect(http(env.server.endpoint, auth=env.auth()), max_attempts=1, **settings)


async def test_every_request_has_a_proof_of_the_key_of_its_token() -> None:
    async with environment() as env, client_of(env) as client:
        assert (await client.tools.call("read")).text == "done"
        assert (await client.tools.call("read")).text == "done"
        assert len(env.browser.visits) == 1


async def test_both_servers_may_require_a_nonce_and_change_it() -> None:
    async with environment() as env:
        env.issuing.verifier.nonce, env.server.verifier.nonce = "issuer-1", "server-1"
        async with client_of(env) as client:
            assert (await client.tools.call("read")).text == "done"
            env.issuing.verifier.nonce, env.server.verifier.nonce = "issuer-2", "server-2"
            env.server.revoked |= set(env.issuing.access_tokens)
            assert (await client.tools.call("read")).text == "done"
        assert len(env.browser.visits) == 1, "the token was refreshed with the key that it is bound to"


async def test_a_stored_token_is_used_with_its_key_after_a_restart() -> None:
    async with environment() as env:
        env.server.verifier.nonce = "n"
        async with client_of(env):
            pass
        async with client_of(env) as client:
            assert (await client.tools.call("read")).text == "done"
        auth = env.auth()
        await auth.sign_in(PlainClient(), env.server.endpoint)
        assert len(env.browser.visits) == 1


async def test_a_nonce_that_is_never_accepted_ends_the_request() -> None:
    async with environment() as env:
        env.server.verifier.thumbprint = lambda request, url, token="": None
        env.server.verifier.nonce = "n"
        with pytest.raises(McpError, match="401"):
            async with client_of(env):
                raise AssertionError("connected")


async def test_a_token_that_is_not_bound_is_refused() -> None:
    async with environment() as env:
        env.issuing.token_types = "Bearer"
        with pytest.raises(AuthorizationError, match=r"issued a token of type .?Bearer.?; expected DPoP"):
            async with client_of(env):
                raise AssertionError("connected")
        assert not [one for one in env.server.requests if "authorization" in one.headers]


async def test_a_server_that_requires_dpop_needs_an_issuer_that_supports_it() -> None:
    for supported in (None, ["RS256"]):
        async with environment() as env:
            env.issuing.overrides["dpop_signing_alg_values_supported"] = supported
            with pytest.raises(AuthorizationError, match="does not support it with ES256"):
                async with client_of(env):
                    raise AssertionError("connected")


async def test_the_metadata_of_the_server_may_require_dpop() -> None:
    async with environment() as env:
        env.server.schemes = ("Bearer",)
        env.server.publish(env.issuing.issuer, dpop_bound_access_tokens_required=True)
        async with client_of(env) as client:
            assert (await client.tools.call("read")).text == "done"


async def test_a_server_that_accepts_both_gets_a_bearer_token_if_the_issuer_has_no_dpop() -> None:
    async with AuthorizationSite() as issuing, GuardedSite(issuing) as server:
        refuse = server.refuse

        def both(*args: Any, **options: Any) -> Any:
            challenge = refuse(*args, **options)
            return type(challenge)(challenge.url, challenge.status, (f"{challenge.www_authenticate[0]}, DPoP algs=x",))

        server.refuse = both  # type: ignore[method-assign]
        auth = OAuth(redirect=Browser(), redirect_uri=REDIRECT_URI, clock=Clock())
        async with connect(http(server.endpoint, auth=auth), max_attempts=1) as client:
            assert (await client.tools.call("read")).text == "done"


async def test_the_command_line_signs_requests_too() -> None:
    async with environment() as env:
        env.server.verifier.nonce = "n"
        auth = HintingOAuth(redirect=env.browser, redirect_uri=REDIRECT_URI, clock=env.clock)
        async with connect(http(env.server.endpoint, auth=auth), max_attempts=1) as client:
            assert (await client.tools.call("read")).text == "done"


def test_a_proof_names_the_url_without_query_and_an_unusable_nonce_is_ignored() -> None:
    proofs = Proofs(Clock())
    for nonce in ("", "x" * 2_000, "a\nb", "\u00e4"):
        proofs.note_response("https://a.example/x", {"dpop-nonce": nonce})
        assert proofs.nonce("https://a.example/y") == ""
    ((name, proof),) = proofs.header(proofs.own_key(), "GET", "https://a.example/x?q=1#f")
    claims = jwt.decode(proof, _key_in(proof), algorithms=["ES256"]).claims
    assert (name, claims["htu"]) == ("DPoP", "https://a.example/x")


def test_the_extra_is_named_if_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "joserfc.jwk", None)
    with pytest.raises(UsageError, match="DPoP requires the extra `http`"):
        Proofs(Clock()).own_key()
