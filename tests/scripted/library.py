"""A library whose documentation is on a loopback site: its documents, its clock, and failures of its host."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from procontext.errors import ProContextError
from procontext.models import Library
from procontext.page import LibraryDocuments
from scripted.documentation import (
    LoopbackNetwork,
    Rows,
    Site,
    body,
    bomb,
    cut_short,
    raw,
    redirect,
    settings,
    status,
    trickle,
)


class Clock:
    """Unix time, set by the test."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now

    def pass_hours(self, hours: float) -> None:
        self.now += hours * 3600


@asynccontextmanager
async def opened(
    directory: Path, site: Site, clock: Clock | None = None, rows: Rows | None = None, **named: object
) -> AsyncIterator[LibraryDocuments]:
    """The documents of a library at this site."""
    registry = rows if rows is not None else Rows(library(site))
    config = settings(directory, site, **named)
    documents = await LibraryDocuments.open(config, registry, network=LoopbackNetwork(), clock=clock or Clock())
    try:
        yield documents
    finally:
        await documents.close()


def library(site: Site, **named: object) -> Library:
    """The row of a library whose documentation is at this site."""
    values = {"llms_txt_url": f"{site.url}/llms.txt", "docs_url": f"{site.url}/", **named}
    return Library(id="lib", name="Lib", **values)  # type: ignore[arg-type]  # the defaults above, or values of a test


async def settled(documents: LibraryDocuments) -> None:
    """Wait until the background tasks are done."""
    while len(documents._page_loads) or len(documents._index_loads):
        await asyncio.sleep(0.001)


async def code_of(documents: LibraryDocuments, url: str) -> tuple[str, bool]:
    """The error for this page: its code, and whether it is retryable."""
    with pytest.raises(ProContextError) as caught:
        await documents.page(url)
    return caught.value.code, caught.value.recoverable


FAULTS = {
    "/absent": (status(404), "PAGE_NOT_FOUND", False),
    "/gone": (status(410), "PAGE_NOT_FOUND", False),
    "/broken": (status(500), "PAGE_FETCH_FAILED", True),
    "/secret": (status(403), "PAGE_FETCH_FAILED", True),
    "/short": (cut_short(), "PAGE_FETCH_FAILED", True),
    "/noise": (raw(b"\0\1\2\3\r\n\r\n"), "PAGE_FETCH_FAILED", True),
    "/bomb": (bomb(16 * 1024 * 1024), "PAGE_FETCH_FAILED", False),
    "/trickle": (trickle(), "PAGE_FETCH_FAILED", True),
    "/picture": (body(b"\x89PNG", "image/png"), "PAGE_FETCH_FAILED", True),
    "/binary": (body(b"\0" * 100, ""), "PAGE_FETCH_FAILED", True),
    "/loop": (redirect("/loop"), "TOO_MANY_REDIRECTS", False),
    "/away": (redirect("https://evil.example/"), "URL_NOT_ALLOWED", False),
    "/inside": (redirect("http://127.0.0.1:1/"), "URL_NOT_ALLOWED", False),
}


def timeout(path: str) -> dict[str, object]:
    """Short for the host that trickles, long enough for a busy machine otherwise."""
    return {"timeout_seconds": 0.3} if path == "/trickle" else {}
