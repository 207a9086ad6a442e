"""The status page at `/status` over HTTP: stored libraries, their freshness, the cache, and recent problems."""

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING, Final

from procontext._version import __version__
from procontext.interfaces import Documents
from procontext.models import StoredLibrary

if TYPE_CHECKING:
    from jackstay.server.http import App, Asgi, BearerAuth, Receive, Scope, Send

PATH: Final = "/status"
MAX_PROBLEMS: Final = 20
_STYLE: Final = "body{font:16px sans-serif;margin:2em;max-width:60em}td,th{padding:.2em 1em;text-align:left}"


class RecentProblems(logging.Handler):
    """Keeps the last warnings and errors of the server."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: deque[str] = deque(maxlen=MAX_PROBLEMS)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the first line of a record."""
        at = datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%d %H:%M:%S")
        self.lines.append(f"{at} {record.levelname.lower()}: {record.getMessage().partition(chr(10))[0][:500]}")


class StatusPage:
    """Serves the page to the callers that the server itself accepts: the same host names and the same key."""

    def __init__(
        self,
        documents: Callable[[], Awaitable[Documents]],
        describe: Callable[[], str],
        hosts: Collection[str],
        auth: "BearerAuth | None" = None,
    ) -> None:
        self._documents = documents
        self._describe = describe
        self._hosts = frozenset(hosts)
        self._auth = auth
        self.problems = RecentProblems()

    def wrap_app(self, app: "App | Asgi") -> "Asgi":
        """Return an ASGI app that serves the page, and passes everything else to `app`."""

        async def served(scope: "Scope", receive: "Receive", send: "Send") -> None:
            if scope["type"] != "http" or scope["path"] != PATH or scope["method"] not in ("GET", "HEAD"):
                await app(scope, receive, send)
                return
            sent = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
            status, body = await self._respond(scope["method"], sent)
            headers = [
                (b"content-type", b"text/html; charset=utf-8"),
                (b"content-length", b"%d" % len(body)),
                (b"cache-control", b"no-store"),
                (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'"),
            ]
            if status == 401:
                headers.append((b"www-authenticate", b'Bearer realm="mcp"'))
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

        return served

    async def _respond(self, method: str, headers: dict[str, str]) -> tuple[int, bytes]:
        # A web page may have a name that it lets point to this machine (DNS rebinding).
        host = headers.get("host", "")
        if not {"*", host, host.rpartition(":")[0] or host} & self._hosts:
            return 403, b"host not allowed\n"
        if self._auth is not None:
            refused: int | None = getattr(await self._auth.authenticate(method, PATH, headers), "status", None)
            if refused is not None:
                return refused, b"missing or invalid credentials\n"
        return 200, (await self.text()).encode()

    async def text(self) -> str:
        """Return the page."""
        documents = await self._documents()
        cache = await documents.status()
        rows = await documents.libraries()
        size = f"{cache.documents} documents, {cache.sections} sections, {cache.bytes / 1_048_576:.1f} MB"
        where = "memory: the cache directory cannot be used" if cache.is_in_memory else cache.path
        return (
            f"<!doctype html><html lang=en><meta charset=utf-8><title>procontext</title><style>{_STYLE}</style>"
            f"<h1>procontext {__version__}</h1><p>{escape(self._describe())}</p>"
            f"<p>Cache: {escape(size)}, in {escape(where)}</p><h2>Stored libraries</h2>{_table(rows)}"
            f"<h2>Recent problems</h2>{_items(tuple(self.problems.lines))}</html>\n"
        )


def _table(rows: Sequence[StoredLibrary]) -> str:
    if not rows:
        return "<p>None yet. The first search of a library stores its pages.</p>"
    lines = (
        f"<tr><td>{escape(row.library_id)}<td>{row.pages}<td>{row.oldest:%Y-%m-%d %H:%M}<td>{row.newest:%Y-%m-%d %H:%M}"
        for row in rows
    )
    return f"<table><tr><th>library<th>pages<th>oldest check (UTC)<th>newest check (UTC){''.join(lines)}</table>"


def _items(lines: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(line)}' for line in reversed(lines))}</ul>" if lines else "<p>None.</p>"


__all__ = ["MAX_PROBLEMS", "PATH", "RecentProblems", "StatusPage"]
