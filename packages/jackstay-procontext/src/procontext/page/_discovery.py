"""Discovery of a table of contents: llms.txt, or the next best source on the site.

If the registry names an llms.txt, only "not found" leads to other sources: after a temporary failure, a worse index
would be cached for a day. Otherwise the front page is read first; its final URL is the base for the other sources.
A library without a site has the README of its repository.
"""

import asyncio
from typing import Final
from urllib.parse import urljoin

import msgspec

from procontext.fetch import Fetched, FetchError, decode, is_text, readme_urls
from procontext.models import IndexSource, Library
from procontext.page._formats import INVENTORIES
from procontext.page._html import is_html
from procontext.page._indexes import (
    Entry,
    folder_of,
    from_addresses,
    from_navigation,
    inventory_version,
    links_of,
    read_sitemap,
    write_index,
)
from procontext.page._version_sites import Fetch, find_version, front_page, stated_version

# Sitemaps that are read from a sitemap index; each is one request.
MAX_SITEMAPS: Final = 8


class FoundIndex(msgspec.Struct, frozen=True, kw_only=True):
    """A table of contents with the URLs that it links."""

    text: str
    source: IndexSource
    url: str
    links: tuple[str, ...]
    etag: str = ""
    last_modified: str = ""
    version: str | None = None


async def find_index(library: Library, fetch: Fetch) -> FoundIndex:
    """Return the best table of contents of a library's site.

    With `library.version`, that of the site of this version.

    Raises: FetchError: `not_found` if there is none, or the first other failure.
    """
    if library.version is not None and library.docs_url:
        site = await find_version(library.docs_url, library.version, fetch)
        found = await _Search(library, fetch).find(site.url)
        return msgspec.structs.replace(found, version=found.version or site.version)
    if library.llms_txt_url:
        try:
            llms = await asyncio.to_thread(_from_llms, await fetch(library.llms_txt_url))
        except FetchError as error:
            if error.reason != "not_found":
                raise
        else:
            if llms is not None:
                return llms
    if not library.docs_url:
        return await _readme(library, fetch)
    return await _Search(library, fetch).find(library.docs_url)


async def _readme(library: Library, fetch: Fetch) -> FoundIndex:
    """Return a table of contents with the README of the repository."""
    for url in readme_urls(library):
        try:
            await fetch(url)
        except FetchError as error:
            if error.reason != "not_found":
                raise
        else:
            text = write_index(library.name, [("Pages", [Entry("README", url)])])
            assert text is not None
            return await _found(text, "README", url)
    raise FetchError("not_found", library.llms_txt_url or library.repo_url or library.id, "no llms.txt and no README")


def _from_llms(fetched: Fetched) -> FoundIndex | None:
    if not is_text(fetched.content_type, fetched.body):
        return None  # some hosts respond to every URL, for example with an image
    text = decode(fetched.body, fetched.content_type)
    if not text.strip() or is_html(text):
        return None  # some sites respond to every URL with their front page
    return FoundIndex(
        text=text,
        source="llms.txt",
        url=fetched.final_url,
        links=tuple(links_of(text, fetched.final_url)),
        etag=fetched.etag,
        last_modified=fetched.last_modified,
    )


class _Search:
    """One search through the sources of a site. Keeps the first failure other than "not found"."""

    def __init__(self, library: Library, fetch: Fetch) -> None:
        self._library = library
        self._fetch = fetch
        self._failure: FetchError | None = None

    async def find(self, docs_url: str) -> FoundIndex:
        home = await self._home(docs_url)
        found = await self._find(docs_url, home)
        stated = None if home is None else stated_version(home)
        return msgspec.structs.replace(found, version=found.version or stated)

    async def _home(self, url: str) -> Fetched | None:
        try:
            return await front_page(self._fetch, url)
        except FetchError as error:
            self._note(error)
            return None

    async def _find(self, docs_url: str, home: Fetched | None) -> FoundIndex:
        base = folder_of(docs_url if home is None else home.final_url)
        llms = await self._get(urljoin(base, "llms.txt"))
        if llms is not None and (found := await asyncio.to_thread(_from_llms, llms)) is not None:
            return found
        front = "" if home is None else decode(home.body, home.content_type)
        for row in INVENTORIES:
            if not row.is_likely(front):
                continue
            folder = row.folder(front, base)
            fetched = await self._get(urljoin(folder, row.file))
            if fetched is None:
                continue
            text = await asyncio.to_thread(row.parse, fetched.body, folder, self._library.name)
            if text is not None:
                found = await _found(text, row.source, fetched.final_url)
                return msgspec.structs.replace(found, version=inventory_version(fetched.body))
        for address in dict.fromkeys((urljoin(base, "sitemap.xml"), urljoin(base, "/sitemap.xml"))):
            text = from_addresses(await self._sitemap(address, base), base, self._library.name)
            if text is not None:
                return await _found(text, "sitemap.xml", address)
        if home is not None:
            text = await asyncio.to_thread(from_navigation, front, home.final_url, self._library.name)
            if text is not None:
                return await _found(text, "navigation", home.final_url)
            # A site of one page, such as that of a module on pkg.go.dev.
            text = write_index(self._library.name, [("Pages", [Entry(self._library.name, home.final_url)])])
            if text is not None and is_html(front) and self._failure is None:
                return await _found(text, "navigation", home.final_url)
        raise self._failure or FetchError("not_found", docs_url, "the site has no table of contents")

    async def _get(self, url: str) -> Fetched | None:
        try:
            return await self._fetch(url)
        except FetchError as error:
            self._note(error)
            return None

    def _note(self, error: FetchError) -> None:
        if error.reason != "not_found" and self._failure is None:
            self._failure = error

    async def _sitemap(self, address: str, base: str) -> list[str]:
        fetched = await self._get(address)
        sitemap = None if fetched is None else read_sitemap(decode(fetched.body, fetched.content_type), base)
        if sitemap is None:
            return []
        pages, sitemaps = sitemap
        for url in sitemaps[:MAX_SITEMAPS]:
            fetched = await self._get(url)
            nested = None if fetched is None else read_sitemap(decode(fetched.body, "text/xml"), base)
            pages += nested[0] if nested is not None else []
        return pages


async def _found(text: str, source: IndexSource, url: str) -> FoundIndex:
    links = await asyncio.to_thread(lambda: tuple(links_of(text, url)))
    return FoundIndex(text=text, source=source, url=url, links=links)


__all__ = ["Fetch", "FoundIndex", "find_index"]
