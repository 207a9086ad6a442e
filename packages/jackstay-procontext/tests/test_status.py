"""The status page, as an ASGI app."""

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from jackstay.server.http import BearerAuth, keys
from procontext.models import CacheStatus, StoredLibrary
from procontext.status import MAX_PROBLEMS, StatusPage
from scripted.documents import ScriptedDocuments

KEY = "a-key-of-sixteen-characters"


class Stored(ScriptedDocuments):
    """Documents with one library in the cache."""

    rows: Sequence[StoredLibrary] = (
        StoredLibrary("kit", 12, datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)),
    )

    async def status(self) -> CacheStatus:
        return CacheStatus("/cache/<file>", False, 13, 99, 2_097_152)

    async def libraries(self) -> list[StoredLibrary]:
        return list(self.rows)


def page(auth: BearerAuth | None = None, rows: list[StoredLibrary] | None = None) -> StatusPage:
    documents = Stored()
    if rows is not None:
        documents.rows = rows

    async def open_documents() -> Stored:
        return documents

    return StatusPage(open_documents, lambda: "Registry 1: 2 libraries", ("localhost", "docs.example"), auth)


async def get(
    status: StatusPage, path: str = "/status", host: str = "localhost:8080", **headers: str
) -> tuple[int, str]:
    sent: list[dict[str, Any]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        sent.extend(({"status": 299}, {"body": b"the app"}))

    async def send(message: Any) -> None:
        sent.append(message)

    pairs = [(name.encode(), value.encode()) for name, value in {"host": host, **headers}.items()]
    scope = {"type": "http", "method": "GET", "path": path, "headers": pairs}
    await status.wrap_app(app)(scope, None, send)  # type: ignore[arg-type]  # nothing is received
    return sent[0]["status"], sent[1]["body"].decode()


async def test_page() -> None:
    status = page()
    log = logging.getLogger("procontext.status-test")
    log.addHandler(status.problems)
    try:
        log.warning("cannot refresh %s\ndetails", "<kit>")
        log.info("not a problem")
        code, text = await get(status)
        for _ in range(2 * MAX_PROBLEMS):
            log.error("again")
    finally:
        log.removeHandler(status.problems)
    assert code == 200
    assert "<td>kit<td>12<td>2026-01-01 00:00<td>2026-01-02 00:00" in text
    assert "13 documents, 99 sections, 2.0 MB, in /cache/&lt;file&gt;" in text
    assert "warning: cannot refresh &lt;kit&gt;</ul>" in text
    assert "Registry 1: 2 libraries" in text
    assert len(status.problems.lines) == MAX_PROBLEMS
    code, text = await get(page(rows=[]))
    assert "None yet." in text
    assert "<p>None.</p>" in text


async def test_callers_that_the_server_does_not_accept() -> None:
    assert await get(page(), "/mcp") == (299, "the app")
    assert (await get(page(), host="evil.example"))[0] == 403
    assert (await get(page(), host="docs.example"))[0] == 200
    guarded = page(BearerAuth(keys({"procontext": KEY})))
    assert (await get(guarded))[0] == 401
    assert (await get(guarded, authorization=f"Bearer {KEY}"))[0] == 200
