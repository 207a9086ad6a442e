"""Sends one HTTP request: adds credentials, follows safe redirects, and interprets the response.

`jackstay.protocol.http` decides what a response means. A redirect is followed only to the same origin, which gets the
credentials anyway, and only with a status that keeps method and body (307 and 308). If several requests are rejected
at once, the authorizer is called for one of them, and the others are sent again with the new credentials.
"""

import asyncio
import time
from collections.abc import Awaitable, Mapping
from functools import lru_cache
from typing import Final

import msgspec

from jackstay.errors import McpError, OutcomeUnknownError, TransportError
from jackstay.protocol.http import Next, Sent, Verdict, classify_response, error_for, is_same_origin, resolve_url
from jackstay.transport.http._contract import Authorizer, Challenge, Headers, HttpClient, HttpResponse, Prover
from jackstay.transport.http._reading import error_in, is_cut_off, quote, read_error_body

MAX_REDIRECTS: Final = 5
# Challenges to one request: other requests may renew the credentials meanwhile, but not as this one needs it.
MAX_CHALLENGES: Final = 5

# Frameworks redirect `/mcp` to `/mcp/` with these.
_KEEPING = frozenset((307, 308))
_KEEPING_GET = frozenset((301, 302, 307, 308))


class CannotConnect(Exception):
    """No connection could be made, and nothing was sent. Only this error can mean that the server is down."""

    def __init__(self, error: TransportError) -> None:
        super().__init__(str(error))
        self.error = error


class Reply(msgspec.Struct):
    """A response and its verdict. If `error_body`, the beginning of an error body, is set, the response is closed."""

    response: HttpResponse
    verdict: Verdict
    url: str
    error_body: bytes = b""

    def error(self) -> McpError:
        """Return the error of a request that got this response, with the server's error message if there is one."""
        error = error_for(self.verdict)
        assert error is not None  # called only for verdicts that are errors
        if self.error_body:
            error.details["quote"] = quote(self.error_body)
            if hasattr(error, "quote"):
                error.quote = quote(self.error_body)
            rpc_error = error_in(self.error_body)
            if rpc_error is not None and rpc_error.message:
                error.message += f' ("{quote(rpc_error.message.encode())}")'
        return error


class Sender(msgspec.Struct, eq=False):
    """Sends requests to one server. `handshake_timeout` limits the wait for the headers of handshake responses."""

    client: HttpClient
    url: str
    headers: Headers
    authorizer: Authorizer | None
    handshake_timeout: float | None = None
    # Whether the other side ended a connection before the head of a response.
    was_cut_off: bool = False
    _prover: Prover | None = None
    _renewing: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        prover: object = self.authorizer
        self._prover = prover if isinstance(prover, Prover) else None

    def __repr__(self) -> str:
        # Neither headers nor the query are shown: both may contain secrets.
        return f"<Sender {self.url.partition('?')[0]}>"

    def __rich_repr__(self) -> list[tuple[str, str]]:
        return [("url", self.url.partition("?")[0])]  # otherwise rich shows all fields

    async def send(
        self, sent: Sent, headers: Headers, body: bytes | None, *, session_id: str | None = None, url: str | None = None
    ) -> Reply:
        """Send a request and return the reply. The caller closes its response.

        Raises: CannotConnect if nothing was sent; McpError from the client or the authorizer.
        """
        verb = _VERBS.get(sent, "POST")
        target_url = url or self.url
        # A 401 requires credentials, a 403 more of them: the authorizer is called once for each.
        challenged_statuses: set[int] = set()
        redirects = challenges = 0
        while True:
            used: Headers = ()
            proof: Headers = ()
            # For the server's URL, not for the path: a 2024-11-05 server chooses its endpoint.
            if self.authorizer is not None:
                used = await self.authorizer.headers(self.client, self.url)
            if self._prover is not None:
                proof = self._prover.prove(self.url, verb, target_url)
            try:
                sending = self.client.send(verb, target_url, [*headers, *self.headers, *used, *proof], body)
                is_bounded = self.handshake_timeout is not None and sent in _HANDSHAKE
                response = await (self._with_timeout(sending) if is_bounded else sending)
            except TransportError as error:
                self.was_cut_off = is_cut_off(error.__cause__)
                raise CannotConnect(error) from error
            except OutcomeUnknownError as error:
                self.was_cut_off = not isinstance(error.__cause__, TimeoutError)
                raise
            try:
                self._note_response(target_url, response.headers)
                can_authorize = self.authorizer is not None and challenges < MAX_CHALLENGES
                if can_authorize and response.status in challenged_statuses:
                    can_authorize = self._requires_nonce(_challenge(self.url, response))
                reply = await _judged(sent, response, target_url, session_id, can_authorize=can_authorize)
                if reply.verdict.next is Next.AUTHORIZE:
                    challenges += 1
                    if await self._renew(_challenge(self.url, response), used, challenged_statuses):
                        continue
                    reply.verdict = _classify(sent, response, reply.error_body, session_id, can_authorize=False)
                elif reply.verdict.next is Next.REDIRECTED and redirects < MAX_REDIRECTS:
                    location = _safe_redirect(verb, target_url, reply.verdict)
                    if location is not None:
                        redirects += 1
                        if reply.verdict.status == 308 and target_url == self.url:
                            self.url = location  # 308 is permanent
                        target_url = location
                        continue
            except BaseException:
                await response.close()
                raise
            return reply

    def _note_response(self, target: str, headers: Mapping[str, str]) -> None:
        """Pass the headers of a response to the authorizer."""
        if self._prover is not None:
            self._prover.note_response(target, headers)

    def _requires_nonce(self, challenge: Challenge) -> bool:
        """Return whether the request only has to be repeated with the nonce of this response."""
        return self._prover is not None and self._prover.requires_nonce(challenge)

    async def _renew(self, challenge: Challenge, used: Headers, challenged_statuses: set[int]) -> bool:
        """Return whether there are other credentials than `used`: obtained for another request meanwhile, or now.

        If the authorizer is called, the status is added to `challenged_statuses`. It is not added if another request
        has obtained the new credentials: they may not be what this one needs.

        Raises: McpError.
        """
        if self._requires_nonce(challenge):
            return True
        assert self.authorizer is not None  # the verdict requires it
        async with self._renewing:
            if list(await self.authorizer.headers(self.client, challenge.url)) != list(used):
                return True
            challenged_statuses.add(challenge.status)
            return await self.authorizer.challenged(self.client, challenge)

    async def _with_timeout(self, sending: Awaitable[HttpResponse]) -> HttpResponse:
        try:
            async with asyncio.timeout(self.handshake_timeout):
                return await sending
        except TimeoutError as error:
            raise OutcomeUnknownError(f"the server did not respond within {self.handshake_timeout:g} s") from error


_HANDSHAKE = frozenset((Sent.PROBE, Sent.INITIALIZE, Sent.LEGACY_LISTEN))
_VERBS = {Sent.LISTEN: "GET", Sent.LEGACY_LISTEN: "GET", Sent.END: "DELETE"}
_IS_READ = frozenset((Next.RESPONSE, Next.STREAM))
_CALLS = frozenset((Sent.PROBE, Sent.INITIALIZE, Sent.REQUEST))

# Verdicts for longer content types are not cached, so that what a server sends does not stay in memory.
MAX_CACHED_TYPE = 200


@lru_cache(maxsize=64)
def _usual(content_type: str) -> Verdict | None:
    """Return the cached verdict on an ordinary response, without evaluating the rules each time."""
    verdict = classify_response(Sent.REQUEST, 200, {"content-type": content_type})
    return verdict if verdict.next in _IS_READ else None


async def _judged(
    sent: Sent, response: HttpResponse, url: str, session_id: str | None, *, can_authorize: bool
) -> Reply:
    """Return the verdict on a response. Its body is read if the verdict depends on it; then it is closed."""
    if response.status == 200 and sent in _CALLS:
        content_type = response.headers.get("content-type", "")
        usual = _usual(content_type) if len(content_type) <= MAX_CACHED_TYPE else None
        if usual is not None:
            return Reply(response, usual, url)
    verdict = _classify(sent, response, b"", session_id, can_authorize=can_authorize)
    if verdict.next in _IS_READ:
        return Reply(response, verdict, url)
    body = b"" if verdict.next is Next.ACCEPTED and sent is not Sent.LEGACY_POST else await read_error_body(response)
    await response.close()
    return Reply(response, _classify(sent, response, body, session_id, can_authorize=can_authorize), url, body)


def _classify(
    sent: Sent, response: HttpResponse, body: bytes, session_id: str | None, *, can_authorize: bool
) -> Verdict:
    """Return the verdict on a response with this error body."""
    error = error_in(body)
    return classify_response(
        sent,
        response.status,
        response.headers,
        error_code=None if error is None else error.code,
        session_id=session_id,
        can_authorize=can_authorize,
        now=time.time(),
    )


def _challenge(url: str, response: HttpResponse) -> Challenge:
    value = response.headers.get("www-authenticate")
    return Challenge(url, response.status, () if value is None else (value,))


def _safe_redirect(verb: str, target_url: str, verdict: Verdict) -> str | None:
    """Return the URL to send the request to again; None if it is not safe. Raises: ProtocolError for an invalid URL."""
    allowed = _KEEPING_GET if verb == "GET" else _KEEPING
    if verdict.status not in allowed or verdict.location is None:
        return None
    location = resolve_url(target_url, verdict.location)
    return location if is_same_origin(target_url, location) else None
