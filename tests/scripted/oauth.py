"""OAuth on loopback sockets: an MCP server, its authorization server, and a browser.

The authorization server enforces its rules (single codes, rotation), and a test can make it misbehave.
"""

import asyncio
import base64
import contextlib
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Self
from urllib.parse import parse_qs, parse_qsl, unquote, urlencode, urlsplit

from jackstay.errors import TransportError
from jackstay.oauth import Identity, OAuth
from jackstay.oauth._authorizer import TokenAuthorizer
from jackstay.transport.http import Challenge


class Request:
    """A request to a site."""

    def __init__(self, method: str, target: str, headers: dict[str, str], body: bytes) -> None:
        parts = urlsplit(target)
        self.method, self.path, self.headers, self.body = method, parts.path, headers, body
        self.query = dict(parse_qsl(parts.query, keep_blank_values=True))

    @property
    def form(self) -> dict[str, str]:
        values = parse_qs(self.body.decode(), keep_blank_values=True, strict_parsing=bool(self.body))
        assert all(len(value) == 1 for value in values.values()), "a form field is repeated"
        return {name: value[0] for name, value in values.items()}

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Response:
    """A response of a site. `stalls` never ends; `endless` sends forever; `stream` is sent in parts."""

    def __init__(
        self,
        status: int = 200,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        *,
        stalls: bool = False,
        endless: bool = False,
        stream: "asyncio.Queue[bytes] | None" = None,
    ) -> None:
        self.status, self.stalls, self.endless, self.stream = status, stalls, endless, stream
        self.headers = dict(headers or {})
        self.body = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        if body is not None and not isinstance(body, bytes):
            self.headers.setdefault("Content-Type", "application/json")


Handler = Callable[[Request], Response | Awaitable[Response]]


class Site:
    """A minimal HTTP server on 127.0.0.1."""

    def __init__(self) -> None:
        self.routes: dict[tuple[str, str], Handler] = {}
        self.requests: list[Request] = []
        self.url = ""
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def got(self, method: str, path: str) -> list[Request]:
        return [request for request in self.requests if (request.method, request.path) == (method, path)]

    def paths(self) -> list[str]:
        return [request.path for request in self.requests]

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await self._exchange(reader, writer)
        self._tasks.discard(task)
        writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = head[0].split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:]) if name}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        request = Request(method, target, headers, body)
        self.requests.append(request)
        handler = self.routes.get((method, request.path))
        found = Response(404, {"error": "not_found"}) if handler is None else handler(request)
        response = found if isinstance(found, Response) else await found
        if response.stalls:
            await asyncio.Event().wait()
        lines = [f"HTTP/1.1 {response.status} Status", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in response.headers.items()]
        if not response.endless and response.stream is None:
            lines.append(f"Content-Length: {len(response.body)}")
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + response.body)
        while response.endless or response.stream is not None:
            writer.write(b"x" * 65_536 if response.stream is None else await response.stream.get())
            await writer.drain()
        await writer.drain()


# --- the client's HTTP ------------------------------------------------------------------------------------------------


class PlainResponse:
    def __init__(self, status: int, headers: dict[str, str], reader: asyncio.StreamReader, writer: Any) -> None:
        self.status, self.headers, self._reader, self._writer = status, headers, reader, writer

    async def chunks(self) -> AsyncIterator[bytes]:
        while chunk := await self._reader.read(65_536):
            yield chunk

    async def close(self) -> None:
        self._writer.close()


class PlainClient:
    """A minimal `HttpClient` with one connection per request. `hosts` maps other names to loopback."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str, list[tuple[str, str]], bytes]] = []

    async def send(
        self, method: str, url: str, headers: Sequence[tuple[str, str]], body: bytes | None
    ) -> PlainResponse:
        parts = urlsplit(url)
        self.sent.append((method, url, list(headers), body or b""))
        assert parts.scheme == "http", f"this client does not support TLS: {url}"
        try:
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        except OSError as error:
            raise TransportError(f"cannot connect: {error}") from error
        try:
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            lines = [f"{method} {target} HTTP/1.1", f"Host: {parts.netloc}"]
            lines += [f"{name}: {value}" for name, value in headers]
            lines.append(f"Content-Length: {len(body or b'')}")
            writer.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (body or b""))
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        except BaseException:
            writer.close()
            raise
        folded: dict[str, str] = {}
        for line in head[1:]:
            name, colon, value = line.partition(":")
            if colon:
                folded[name.lower()] = ", ".join(filter(None, (folded.get(name.lower()), value.strip())))
        return PlainResponse(int(head[0].split(" ")[1]), folded, reader, writer)

    async def close(self) -> None:
        return None


# --- the authorization server -----------------------------------------------------------------------------------------


class AuthorizationSite(Site):
    """A correct authorization server, unless `overrides`, `iss` or a route change it."""

    def __init__(self, path: str = "", well_known: str = "/.well-known/oauth-authorization-server") -> None:
        super().__init__()
        self.path, self.well_known = path, well_known
        self.overrides: dict[str, Any] = {}
        self.iss = "right"
        self.lifetime: object = 3600
        self.issues_refresh_tokens = True
        self.rotates = True
        self.registered: dict[str, dict[str, Any]] = {}
        self.registration_extra: dict[str, Any] = {}
        self.codes: dict[str, dict[str, str]] = {}
        self.refresh_tokens: set[str] = set()
        self.access_tokens: dict[str, set[str]] = {}
        self.token_types = "Bearer"
        self.number = 0

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self.routes |= {
            ("GET", self.well_known): self._metadata,
            ("GET", f"{self.path}/authorize"): self._authorize,
            ("POST", f"{self.path}/token"): self._token,
            ("POST", f"{self.path}/register"): self._register,
        }
        return self

    @property
    def issuer(self) -> str:
        return self.url + self.path

    def metadata(self) -> dict[str, Any]:
        document = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "registration_endpoint": f"{self.issuer}/register",
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"],
            "authorization_response_iss_parameter_supported": True,
        } | self.overrides
        return {name: value for name, value in document.items() if value is not None}

    def _metadata(self, request: Request) -> Response:
        return Response(body=self.metadata())

    def _register(self, request: Request) -> Response:
        self.number += 1
        client_id = f"client-{self.number}"
        document = dict(request.json)
        answer = {"client_id": client_id, **document}
        if document["token_endpoint_auth_method"] != "none":
            answer["client_secret"] = f"secret:{self.number}%"
        answer |= self.registration_extra
        answer = {name: value for name, value in answer.items() if value is not None}
        self.registered[client_id] = answer
        return Response(201, answer)

    def _authorize(self, request: Request) -> Response:
        query = request.query
        assert query["response_type"] == "code"
        assert query["code_challenge_method"] == "S256"
        self.number += 1
        code = f"code-{self.number}"
        self.codes[code] = query
        answer = {"code": code, "state": query["state"]}
        issuers = {"right": self.issuer, "other": "https://evil.example", "slash": f"{self.issuer}/"}
        if self.iss in issuers:
            answer["iss"] = issuers[self.iss]
        return Response(302, headers={"Location": f"{query['redirect_uri']}?{urlencode(answer)}"})

    def client_of(self, request: Request) -> str | None:
        """The authenticated client."""
        authorization = request.headers.get("authorization", "")
        if authorization.startswith("Basic "):
            name, _, secret = base64.b64decode(authorization[6:]).decode().partition(":")
            name, secret, method = unquote(name), unquote(secret), "client_secret_basic"
        else:
            name, secret = request.form.get("client_id", ""), request.form.get("client_secret", "")
            method = "client_secret_post" if secret else "none"
        known = self.registered.get(name)
        if known is None or known.get("client_secret", "") != secret or known["token_endpoint_auth_method"] != method:
            return None
        return name

    def _token(self, request: Request) -> Response:
        form = request.form
        client_id = self.client_of(request)
        if client_id is None:
            return Response(401, {"error": "invalid_client"})
        if form["grant_type"] == "authorization_code":
            authorized = self.codes.pop(form["code"], None)
            if authorized is None or authorized["client_id"] != client_id:
                return Response(400, {"error": "invalid_grant"})
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
            assert challenge == authorized["code_challenge"], "PKCE"
            assert form["redirect_uri"] == authorized["redirect_uri"]
            assert form.get("resource") == authorized.get("resource")
            return Response(body=self.issue(authorized.get("scope", "")))
        if form["grant_type"] == "refresh_token":
            if form["refresh_token"] not in self.refresh_tokens:
                return Response(400, {"error": "invalid_grant", "error_description": "already used"})
            if self.rotates:
                self.refresh_tokens.discard(form["refresh_token"])
            return Response(body=self.issue(""))
        return Response(body=self.issue(form.get("scope", "")))

    def issue(self, scope: str) -> dict[str, Any]:
        self.number += 1
        token, refresh = f"token-{self.number}", f"refresh-{self.number}"
        self.access_tokens[token] = set(scope.split())
        answer: dict[str, Any] = {
            "access_token": token,
            "token_type": self.token_types,
            "expires_in": self.lifetime,
        }
        if self.issues_refresh_tokens and (self.rotates or not self.refresh_tokens):
            self.refresh_tokens.add(refresh)
            answer["refresh_token"] = refresh
        if scope:
            answer["scope"] = scope
        return answer


# --- the server -------------------------------------------------------------------------------------------------------


class ServerSite(Site):
    """A server at /mcp that requires tokens of its authorization server."""

    def __init__(self) -> None:
        super().__init__()
        self.prm_path: str | None = "/.well-known/oauth-protected-resource/mcp"
        self.is_named = True
        self.document: dict[str, Any] = {}
        self.challenge_scope = ""

    @property
    def endpoint(self) -> str:
        return f"{self.url}/mcp"

    def publish(self, issuer: str, **members: Any) -> None:
        """Publish the protected resource metadata."""
        document = {"resource": self.endpoint, "authorization_servers": [issuer], **members}
        self.document = {name: value for name, value in document.items() if value is not None}
        if self.prm_path is not None:
            self.routes["GET", self.prm_path] = lambda request: Response(body=self.document)

    def refuse(self, status: int = 401, error: str = "", scope: str = "") -> Challenge:
        """The challenge that the transport passes to an authorizer."""
        members = []
        if self.is_named and self.prm_path is not None:
            members.append(f'resource_metadata="{self.url}{self.prm_path}"')
        if error:
            members.append(f'error="{error}"')
        if scope:
            members.append(f'scope="{scope}"')
        return Challenge(self.endpoint, status, (f"Bearer {', '.join(members)}".strip(),))


class GuardedSite(ServerSite):
    """A minimal MCP server of 2025-11-25 that requires tokens; `required_scopes` are the scopes of tools."""

    def __init__(self, issuing: AuthorizationSite) -> None:
        super().__init__()
        self.issuing = issuing
        self.revoked: set[str] = set()
        self.required_scopes = {"write": "write"}
        self.rejects_all = False

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self.publish(self.issuing.issuer)
        self.routes["GET", "/mcp"] = self.routes["POST", "/mcp"] = self._guarded
        return self

    def token_of(self, request: Request) -> str:
        return request.headers.get("authorization", "").removeprefix("Bearer ")

    def refusal(self, request: Request) -> Response | None:
        token = self.token_of(request)
        if self.rejects_all or token in self.revoked or token not in self.issuing.access_tokens:
            return self._response_of(self.refuse(scope="read"))
        return None

    def _response_of(self, challenge: Challenge) -> Response:
        return Response(challenge.status, headers={"WWW-Authenticate": challenge.www_authenticate[0]})

    def _guarded(self, request: Request) -> Response:
        refusal = self.refusal(request)
        if refusal is not None:
            return refusal
        if request.method == "GET":
            return Response(405)
        message = request.json
        wanted = self.required_scopes.get(message["params"]["name"]) if message["method"] == "tools/call" else None
        if wanted is not None and wanted not in self.issuing.access_tokens[self.token_of(request)]:
            return self._response_of(self.refuse(403, "insufficient_scope", wanted))
        answer = response_for(message)
        return Response(202) if answer is None else Response(body=answer)


def response_for(message: dict[str, Any]) -> dict[str, Any] | None:
    """The response of a minimal server."""
    if "id" not in message:
        return None
    info = {"name": "guarded", "version": "1"}
    results: dict[str, Any] = {
        "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info},
        "ping": {},
        "tools/call": {"content": [{"type": "text", "text": "done"}]},
    }
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    if message["method"] in results:
        return {**answer, "result": results[message["method"]]}
    return {**answer, "error": {"code": -32601, "message": "no such method"}}


class Clock:
    """Unix time, set by the test."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


class Browser:
    """A `redirect` for `OAuth` that follows the redirect of the authorization page. `visits` are the URLs."""

    def __init__(self) -> None:
        self.visits: list[str] = []
        self.may_return = asyncio.Event()
        self.may_return.set()

    async def __call__(self, url: str) -> str:
        self.visits.append(url)
        response = await PlainClient().send("GET", url, (), None)
        await response.close()
        await self.may_return.wait()
        return response.headers["location"]

    def query(self, visit: int = -1) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.visits[visit]).query))


REDIRECT_URI = "http://127.0.0.1:3000/callback"


def signer(world: SimpleNamespace, identity: Identity | None = None, **options: Any) -> OAuth:
    """An `OAuth` with the browser and clock of `world`."""
    options = {"redirect": world.browser, "redirect_uri": REDIRECT_URI, "clock": world.clock} | options
    return OAuth(identity, **options)


async def bearer(auth: TokenAuthorizer, world: SimpleNamespace) -> str:
    """The token that is sent to the server of `world`."""
    ((name, value),) = await auth.headers(world.client, world.server.endpoint)
    assert name == "Authorization"
    return value.removeprefix("Bearer ")


@contextlib.asynccontextmanager
async def oauth_world(**site: Any) -> AsyncIterator[SimpleNamespace]:
    """A server, its authorization server, a browser, an HTTP client and a clock."""
    async with AuthorizationSite(**site) as issuing, ServerSite() as server:
        server.publish(issuing.issuer)
        yield SimpleNamespace(issuing=issuing, server=server, client=PlainClient(), browser=Browser(), clock=Clock())


def grants(world: SimpleNamespace) -> list[str]:
    """The requested grants, in order."""
    return [request.form["grant_type"] for request in world.issuing.got("POST", "/token")]
