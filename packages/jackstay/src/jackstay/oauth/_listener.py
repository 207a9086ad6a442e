"""The way back from the browser: a listener on loopback that takes one answer, shows a page, and is gone.

RFC 8252, 7.3: the loopback address, a port of its own, for the time of one sign-in. Any page that the user has open can call
it, so what does not carry the state that was sent is answered and ignored; it shows nothing that it was sent.

Knows nothing of OAuth but that. Above: `_browser`. Below: asyncio.
"""

import asyncio
import contextlib
import errno
import socket
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

from jackstay.errors import UsageError
from jackstay.oauth._errors import AuthorizationError

# A request line with a code in it is well under 8 KiB, and browsers add some headers and cookies of other local programs.
MAX_REQUEST = 32_768
# A browser sends its request at once. Who does not is not the browser.
REQUEST_SECONDS = 10.0
# Connections beyond these are closed at once: one browser opens a few, a local program could open thousands.
MAX_CONNECTIONS = 32

_PAGE: Final = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>body{{font:1.1rem/1.5 system-ui,sans-serif;max-width:32rem;margin:15vh auto;padding:0 1rem}}</style>
<h1>{title}</h1><p>{text}</p></html>
"""
DONE: Final = _PAGE.format(
    title="You can close this window",
    text="Go back to the program that opened it. It says whether you are signed in.",
)
IGNORED: Final = _PAGE.format(
    title="Nothing to see here",
    text="A program is waiting for a sign-in, and this is not it. Go on in the window where you were signing in.",
)


class RedirectListener:
    """Listens at `redirect_uri` while it is entered. `answer()` waits for the one request that `is_wanted` accepts."""

    def __init__(self, redirect_uri: str, is_wanted: Callable[[str], bool]) -> None:
        parts = urlsplit(redirect_uri)
        self.redirect_uri = redirect_uri
        self._host = parts.hostname or ""
        self._port = parts.port or 80
        self._path = parts.path or "/"
        self._is_wanted = is_wanted
        self._servers: list[asyncio.Server] = []
        self._open: set[asyncio.StreamWriter] = set()
        self._answer: asyncio.Future[str] | None = None

    async def __aenter__(self) -> Self:
        """Start to listen. Raises: UsageError where the port is taken."""
        self._answer = asyncio.get_running_loop().create_future()
        hosts = ["::1"] if self._host == "::1" else ["127.0.0.1"]
        if self._host == "localhost":
            hosts.append("::1")  # browsers may try either; a machine without IPv6 has only the first
        for host in hosts:
            try:
                server = await asyncio.start_server(
                    self._serve, host, self._port, limit=MAX_REQUEST, family=socket.AF_UNSPEC
                )
            except OSError as error:
                if host != hosts[0] and _is_absent(error):
                    continue
                # Anything else at the second address, too: whoever listens there would get the code from the browser.
                for listening in self._servers:
                    listening.close()
                raise UsageError(
                    f"nothing can listen at {self.redirect_uri} ({host}): {error.strerror}; give another redirect_uri",
                    path="redirect_uri",
                ) from error
            self._servers.append(server)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening. Nothing is left open."""
        for server in self._servers:
            server.close()
        for writer in tuple(self._open):
            writer.close()
        if self._answer is not None:
            self._answer.cancel()

    async def answer(self, seconds: float) -> str:
        """The URL that the browser was sent back to.

        Raises: AuthorizationError when nobody came.
        """
        assert self._answer is not None, "enter it first"
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.shield(self._answer)
        except TimeoutError as error:
            raise AuthorizationError(
                f"nobody finished the sign-in within {seconds:g} s", permanent=False
            ) from error

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            if len(self._open) <= MAX_CONNECTIONS:
                # A browser that opens a connection in advance and never uses it meets the time-out.
                with contextlib.suppress(
                    TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError
                ):
                    async with asyncio.timeout(REQUEST_SECONDS):
                        head = await reader.readuntil(b"\r\n\r\n")
                        await self._respond(head, writer)
        finally:
            self._open.discard(writer)
            writer.close()

    async def _respond(self, head: bytes, writer: asyncio.StreamWriter) -> None:
        target = self._target(head)
        is_answer = (
            target is not None
            and self._answer is not None
            and not self._answer.done()
            and self._is_wanted(target)
        )
        status, page = ("200 OK", DONE) if is_answer else ("404 Not Found", IGNORED)
        body = page.encode()
        headers = (
            f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
            "Connection: close\r\nCache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n"
            "X-Content-Type-Options: nosniff\r\n"
            "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'\r\n\r\n"
        )
        writer.write(headers.encode() + body)
        # The page first: the listener is closed as soon as the answer is known.
        await writer.drain()
        if is_answer and self._answer is not None and not self._answer.done():
            self._answer.set_result(f"{self.redirect_uri}?{urlsplit(target or '').query}")

    def _target(self, head: bytes) -> str | None:
        """The target of a GET for our path, from our own host; None for anything else.

        The Host is checked against names that lead here from elsewhere (DNS rebinding)."""
        line, _, rest = head.decode("latin-1").partition("\r\n")
        words = line.split(" ")
        if len(words) != 3 or words[0] != "GET" or not words[2].startswith("HTTP/1."):
            return None
        hosts = [
            value.strip().lower()
            for name, _, value in (field.partition(":") for field in rest.split("\r\n"))
            if name.lower() == "host"
        ]
        ours = f"[{self._host}]" if ":" in self._host else self._host
        if hosts != [f"{ours}:{self._port}"] and not (self._port == 80 and hosts == [ours]):
            return None
        return words[1] if words[1].partition("?")[0] == self._path else None


def _is_absent(error: OSError) -> bool:
    """Whether this machine has no such address, so that nobody else can listen at it either."""
    # asyncio reports a family without any socket by an error without a number; a resolver by one of its own.
    is_unresolved = isinstance(error, socket.gaierror)
    return is_unresolved or error.errno in (None, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


def free_port() -> int:
    """A port of loopback that nobody uses right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def is_free(port: int) -> bool:
    """True where that port of loopback can be listened at."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
