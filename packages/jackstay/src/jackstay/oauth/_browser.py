"""Sign-in with the system's browser and a listener on loopback for the redirect (RFC 8252, 7.3).

The URL is also printed to stderr for machines without a browser. It is not logged, because it belongs to one sign-in.
"""

import asyncio
import contextlib
import errno
import socket
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import Final, Self, TypeAlias
from urllib.parse import urlsplit

from jackstay.errors import UsageError
from jackstay.oauth._errors import AuthorizationError
from jackstay.oauth._flow import has_state

# Replaces the browser: receives the URL to sign in at and returns the URL of the redirect.
Redirect: TypeAlias = Callable[[str], Awaitable[str]]

# Time for the user to find password, phone and second factor.
SIGN_IN_SECONDS = 300.0

# A request line with a code is well under 8 KiB; browsers add headers, and cookies of other local programs.
MAX_REQUEST = 32_768
# Browsers send their request at once.
REQUEST_SECONDS = 10.0
# Further connections are closed at once: a browser opens a few, a local program could open thousands.
MAX_CONNECTIONS = 32

_PAGE: Final = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>body{{font:1.1rem/1.5 system-ui,sans-serif;max-width:32rem;margin:15vh auto;padding:0 1rem}}</style>
<h1>{title}</h1><p>{text}</p></html>
"""
DONE: Final = _PAGE.format(
    title="You can close this window", text="Return to the program that opened it. It shows whether you are signed in."
)
IGNORED: Final = _PAGE.format(
    title="Unexpected request",
    text="This is not the sign-in that the program is waiting for. Continue in the window where you were signing in.",
)


class RedirectListener:
    """A context manager that listens on `redirect_uri`: the HTTP listener on loopback for the redirect of one sign-in.

    `callback()` waits for a request with `state`. Any web page can send requests to it, so those without the state are
    ignored, and the response contains nothing of the request.
    """

    def __init__(self, redirect_uri: str, state: str) -> None:
        parts = urlsplit(redirect_uri)
        self.redirect_uri = redirect_uri
        self._host = parts.hostname or ""
        self._port = parts.port or 80
        self._path = parts.path or "/"
        self._state = state
        self._servers: list[asyncio.Server] = []
        self._open: set[asyncio.StreamWriter] = set()
        self._callback: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def __aenter__(self) -> Self:
        """Start to listen. Raises: UsageError if the port is in use."""
        # For localhost browsers may use either; without IPv6 only the first works.
        hosts = {"localhost": ["127.0.0.1", "::1"], "::1": ["::1"]}.get(self._host, ["127.0.0.1"])
        for host in hosts:
            try:
                server = await asyncio.start_server(
                    self._serve, host, self._port, limit=MAX_REQUEST, family=socket.AF_UNSPEC
                )
            except OSError as error:
                if host != hosts[0] and _is_absent(error):
                    continue
                # Also for the second address: a program that listens there would receive the code.
                await self.__aexit__()
                raise UsageError(
                    f"cannot listen on {self.redirect_uri} ({host}): {error.strerror}; pass another redirect_uri",
                    path="redirect_uri",
                ) from error
            self._servers.append(server)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop listening and close all connections."""
        for server in self._servers:
            server.close()
        for writer in tuple(self._open):
            writer.close()
        self._callback.cancel()

    async def callback(self, seconds: float) -> str:
        """Return the URL that the browser was redirected to.

        Raises: AuthorizationError after `seconds`.
        """
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.shield(self._callback)
        except TimeoutError as error:
            raise AuthorizationError(f"the sign-in was not completed within {seconds:g} s", permanent=False) from error

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            if len(self._open) <= MAX_CONNECTIONS:
                # Browsers may open connections that they never use; these time out.
                with contextlib.suppress(TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
                    async with asyncio.timeout(REQUEST_SECONDS):
                        head = await reader.readuntil(b"\r\n\r\n")
                        await self._respond(head, writer)
        finally:
            self._open.discard(writer)
            writer.close()

    async def _respond(self, head: bytes, writer: asyncio.StreamWriter) -> None:
        target = self._target(head)
        is_callback = target is not None and not self._callback.done() and has_state(target, self._state)
        status, page = ("200 OK", DONE) if is_callback else ("404 Not Found", IGNORED)
        body = page.encode()
        headers = (
            f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
            "Connection: close\r\nCache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n"
            "X-Content-Type-Options: nosniff\r\n"
            "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'\r\n\r\n"
        )
        writer.write(headers.encode() + body)
        # Send the page first: the listener is closed as soon as the callback is known.
        await writer.drain()
        if is_callback and not self._callback.done():
            self._callback.set_result(f"{self.redirect_uri}?{urlsplit(target or '').query}")

    def _target(self, head: bytes) -> str | None:
        """Return the target of a GET request for the redirect path, or None for anything else.

        The Host header is checked because of DNS rebinding.
        """
        line, _, rest = head.decode("latin-1").partition("\r\n")
        parts = line.split(" ")
        if len(parts) != 3 or parts[0] != "GET" or not parts[2].startswith("HTTP/1."):
            return None
        hosts = [
            value.strip().lower()
            for name, _, value in (field.partition(":") for field in rest.split("\r\n"))
            if name.lower() == "host"
        ]
        expected = f"[{self._host}]" if ":" in self._host else self._host
        if hosts != [f"{expected}:{self._port}"] and not (self._port == 80 and hosts == [expected]):
            return None
        return parts[1] if parts[1].partition("?")[0] == self._path else None


def _is_absent(error: OSError) -> bool:
    """Return whether this machine has no such address, so that no other program can listen on it either."""
    # asyncio reports an unavailable address family by an error without errno, a resolver by a gaierror.
    is_unresolved = isinstance(error, socket.gaierror)
    return is_unresolved or error.errno in (None, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


def free_port() -> int:
    """Return a free port on loopback."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_free(port: int) -> bool:
    """Return whether this port on loopback is free."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def open_browser(url: str) -> None:
    """Print the URL to stderr and open it in the system's browser, if there is one."""
    print(f"To sign in, open this page in your browser:\n\n    {url}\n", file=sys.stderr, flush=True)
    open_in_browser(url)


def open_in_browser(url: str) -> None:
    """Open a URL in the system's browser, if there is one."""
    # On a daemon thread: a terminal browser runs until the user quits it.
    threading.Thread(target=_open_quietly, args=(url,), name="jackstay-browser", daemon=True).start()


def _open_quietly(url: str) -> None:
    import webbrowser  # noqa: PLC0415 - slow to import, and rarely needed

    try:
        webbrowser.open(url)
    except (webbrowser.Error, OSError):
        return  # the caller has printed the URL


async def sign_in_with_browser(
    url: str, redirect_uri: str, state: str, seconds: float, show: Callable[[str], None]
) -> str:
    """Call `show(url)` and return the URL of the redirect.

    Raises: AuthorizationError after `seconds` without a redirect; UsageError if `redirect_uri` cannot be listened on.
    """
    async with RedirectListener(redirect_uri, state) as listener:
        show(url)
        return await listener.callback(seconds)
