"""One HTTP request of ours and what came of it: credentials added, redirects followed where that is safe, the response judged.

Every request of the transport goes through `Sender.send`, whatever it carries. What the status, the headers and the body
mean is `jackstay.protocol.http`'s to say; here it is found out and, where it says so, tried once more.

A redirect is followed where it cannot do harm: to the same origin, which gets our credentials anyway, and by the statuses
that keep method and body (307 and 308; 2025-11-25 says nothing about redirects, and frameworks redirect `/mcp` to `/mcp/`).
Everything else is the user's to decide.

Must never know what is in a message. Above: `_posts`, `_streams`, `_legacy`, `_transport`. Below: the contract, `_reading`, `_auth`.
"""

import asyncio
import time
from collections.abc import Awaitable
from functools import lru_cache
from typing import Final

import msgspec

from jackstay.errors import McpError, OutcomeUnknownError, TransportError
from jackstay.protocol.http import Next, Sent, Verdict, error_for, is_same_origin, judge, resolve_url
from jackstay.transport.http._auth import Credentials
from jackstay.transport.http._contract import Challenge, Headers, HttpClient, HttpResponse
from jackstay.transport.http._reading import error_in, quote, read_refusal

# More would be a loop, or a maze.
MAX_REDIRECTS: Final = 5
# Refusals of one request. Other requests may renew the credentials meanwhile, and not in the way that this one needs.
MAX_REFUSALS: Final = 5

_KEEPING = frozenset((307, 308))
_KEEPING_GET = frozenset((301, 302, 307, 308))


class CannotConnect(Exception):
    """No connection could be made, and nothing was sent. `error` says why; only this can mean that the server is down."""

    def __init__(self, error: TransportError) -> None:
        super().__init__(str(error))
        self.error = error


class Reply(msgspec.Struct):
    """A response, judged. `refusal` is the beginning of a body that is no answer; then the response is closed already."""

    response: HttpResponse
    verdict: Verdict
    url: str
    refusal: bytes = b""

    def error(self) -> McpError:
        """What ends a request that got this, in the server's own words where it has some."""
        error = error_for(self.verdict)
        assert error is not None  # asked only where the body does not decide
        if self.refusal:
            error.details["quote"] = quote(self.refusal)
            if hasattr(error, "quote"):
                error.quote = quote(self.refusal)
            said = error_in(self.refusal)
            if said is not None and said.message:
                error.message += f' ("{quote(said.message.encode())}")'
        return error


class Sender:
    """Sends requests to one server. `begin_timeout` is for its first words in the handshake; None: others look after that."""

    def __init__(
        self,
        client: HttpClient,
        url: str,
        headers: Headers,
        credentials: Credentials | None,
        begin_timeout: float | None = None,
    ) -> None:
        self.client = client
        self.url = url
        self._headers = list(headers)
        self._credentials = credentials
        self._begin_timeout = begin_timeout

    async def send(
        self,
        sent: Sent,
        headers: Headers,
        body: bytes | None,
        *,
        session_id: str | None = None,
        url: str | None = None,
    ) -> Reply:
        """Send it and judge the response. Whoever gets a `Reply` closes its response.

        Raises: CannotConnect where nothing was sent; McpError for what the client or the authorizer says.
        """
        verb = _VERBS.get(sent, "POST")
        place = url or self.url
        # A 401 wants credentials, a 403 wants more of them: the authorizer is asked once about each.
        asked: set[int] = set()
        redirects = refusals = 0
        while True:
            used: Headers = ()
            if self._credentials is not None:
                # For the server, not for the path: a 2024-11-05 server is called at an endpoint of its choice.
                used = await self._credentials.headers(self.client, self.url)
            try:
                sending = self.client.send(verb, place, [*headers, *self._headers, *used], body)
                is_bounded = self._begin_timeout is not None and sent in _BEGINNING
                response = await (self._within(sending) if is_bounded else sending)
            except TransportError as error:
                raise CannotConnect(error) from error
            try:
                may_ask = response.status not in asked and refusals < MAX_REFUSALS
                can_authorize = self._credentials is not None and may_ask
                reply = await _judged(sent, response, place, session_id, can_authorize=can_authorize)
                if reply.verdict.next is Next.AUTHORIZE and self._credentials is not None:
                    refusals += 1
                    challenge = _challenge(self.url, response)
                    if await self._credentials.renewed(self.client, challenge, used, asked):
                        continue
                    return _again(sent, reply, session_id)
                if reply.verdict.next is Next.REDIRECTED and redirects < MAX_REDIRECTS:
                    there = _safe_redirect(verb, place, reply.verdict)
                    if there is not None:
                        redirects += 1
                        if reply.verdict.status == 308 and place == self.url:
                            self.url = there  # for good, it says
                        place = there
                        continue
            except BaseException:
                await response.close()
                raise
            return reply

    async def _within(self, sending: Awaitable[HttpResponse]) -> HttpResponse:
        try:
            async with asyncio.timeout(self._begin_timeout):
                return await sending
        except TimeoutError as error:
            said = f"the server did not answer within {self._begin_timeout:g} s"
            raise OutcomeUnknownError(said) from error


_BEGINNING = frozenset((Sent.PROBE, Sent.INITIALIZE, Sent.LEGACY_LISTEN))
_VERBS = {Sent.LISTEN: "GET", Sent.LEGACY_LISTEN: "GET", Sent.END: "DELETE"}
_IS_READ = frozenset((Next.ANSWER, Next.STREAM))


_CALLS = frozenset((Sent.PROBE, Sent.INITIALIZE, Sent.REQUEST))


# A longer one is judged by the rules each time: what a server sends must not stay in memory.
MAX_CACHED_TYPE = 200


@lru_cache(maxsize=64)
def _usual(content_type: str) -> Verdict | None:
    """The verdict on what nearly every response is, without walking the rules for it."""
    verdict = judge(Sent.REQUEST, 200, {"content-type": content_type})
    return verdict if verdict.next in _IS_READ else None


async def _judged(
    sent: Sent, response: HttpResponse, url: str, session_id: str | None, *, can_authorize: bool
) -> Reply:
    """The response judged, its body read where that decides something; then it is closed."""
    if response.status == 200 and sent in _CALLS:
        content_type = response.headers.get("content-type", "")
        usual = _usual(content_type) if len(content_type) <= MAX_CACHED_TYPE else None
        if usual is not None:
            return Reply(response, usual, url)
    verdict = judge(
        sent, response.status, response.headers, session_id=session_id, can_authorize=can_authorize
    )
    if verdict.next in _IS_READ:
        return Reply(response, verdict, url)
    body = (
        b""
        if verdict.next is Next.ACCEPTED and sent is not Sent.LEGACY_POST
        else await read_refusal(response)
    )
    await response.close()
    error = error_in(body)
    if error is not None or "retry-after" in response.headers:
        verdict = judge(
            sent,
            response.status,
            response.headers,
            error_code=None if error is None else error.code,
            session_id=session_id,
            can_authorize=can_authorize,
            now=time.time(),
        )
    return Reply(response, verdict, url, body)


def _again(sent: Sent, reply: Reply, session_id: str | None) -> Reply:
    """The same response, judged as what it is when there is nobody left to ask."""
    error = error_in(reply.refusal)
    reply.verdict = judge(
        sent,
        reply.response.status,
        reply.response.headers,
        error_code=None if error is None else error.code,
        session_id=session_id,
        now=time.time(),
    )
    return reply


def _challenge(url: str, response: HttpResponse) -> Challenge:
    said = response.headers.get("www-authenticate")
    return Challenge(url, response.status, () if said is None else (said,))


def _safe_redirect(verb: str, place: str, verdict: Verdict) -> str | None:
    """Where to send the same again; None: nowhere by ourselves. Raises: ProtocolError for what is no URL."""
    allowed = _KEEPING_GET if verb == "GET" else _KEEPING
    if verdict.status not in allowed or verdict.location is None:
        return None
    there = resolve_url(place, verdict.location)
    return there if is_same_origin(place, there) else None
