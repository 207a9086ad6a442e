"""Packages that are not known locally, from the pages of the package indexes: PyPI, npm, docs.rs and pkg.go.dev.

Only with consent (`packages.lookup`), and never for a name that matches `packages.private`. What is learned is kept in
a folder: the address of the documentation that the package itself names, or else its README as a page.
"""

import asyncio
import re
import time
from collections.abc import Callable, Coroutine
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import quote

import msgspec

from jackstay.types import DECODE_ERRORS
from procontext.config import FetcherSettings, PackagesSettings
from procontext.fetch import Access, Fetched, Fetcher, FetchError, Network, Target, parse_url
from procontext.models import Library, Packages
from procontext.registry._installed import documentation_url, library_id_of
from procontext.registry._package_pages import write_pages

# What is learned is looked up again after this time.
KEEP_SECONDS: Final = 7 * 24 * 3600.0
MAX_NAME: Final = 120
_NAME = re.compile(r"@?[a-z0-9][a-z0-9._/~-]*")
_GO_MODULE = re.compile(r"[a-z0-9-]+(?:\.[a-z0-9-]+)+/[\w./~-]+")

_decode = msgspec.json.Decoder(Library).decode
_Lookup: TypeAlias = Callable[[str], Coroutine[None, None, Library | None]]


class PackageIndexes:
    """Looks packages up. `folder` has what was learned; `network` is replaced by tests."""

    def __init__(
        self, settings: PackagesSettings, fetcher: FetcherSettings, folder: Path, network: Network | None = None
    ) -> None:
        self._settings = settings
        self._folder = folder
        self._sites = {parse_url(url).origin: url.rstrip("/") for url in _addresses(settings)}
        self._fetcher = Fetcher(fetcher, self._check_access, network)

    async def close(self) -> None:
        """Cancel all requests."""
        await self._fetcher.close()

    def may_send(self, name: str) -> bool:
        """Return whether a name may be sent to a package index."""
        is_name = len(name) <= MAX_NAME and _NAME.fullmatch(name) is not None and ".." not in name
        return self._settings.lookup and is_name and not any(fnmatchcase(name, each) for each in self._settings.private)

    def known(self, library_id: str) -> Library | None:
        """Return what was learned under this identifier, or None. Reads a file."""
        file = self._folder / f"{library_id}.json"
        try:
            is_fresh = time.time() - file.stat().st_mtime < KEEP_SECONDS
            return _decode(file.read_bytes()) if is_fresh else None
        except (OSError, *DECODE_ERRORS):
            return None

    async def find(self, name: str) -> list[Library]:
        """Return the packages with this name, at most one of each index. A failed request finds nothing."""
        if not self.may_send(name):
            return []
        lookups: tuple[_Lookup, ...]
        if _GO_MODULE.fullmatch(name):
            lookups = (self._go,)
        elif "/" in name:
            lookups = (self._npm,) if name.startswith("@") else ()
        else:
            lookups = (self._pypi, self._npm, self._crates)
        found = await asyncio.gather(*(self._quietly(lookup, name) for lookup in lookups))
        libraries: dict[str, Library] = {}
        for library in found:
            if library is not None:
                # A name that several indexes have gets one identifier for each.
                unique = library.id if library.id not in libraries else f"{library.id}-{library.languages[0]}"
                libraries[unique] = msgspec.structs.replace(library, id=unique)
        for library in libraries.values():
            await asyncio.to_thread(self._store, library)
        return list(libraries.values())

    async def _quietly(self, lookup: _Lookup, name: str) -> Library | None:
        try:
            return await lookup(name)
        except (FetchError, OSError, *DECODE_ERRORS):
            return None

    def _store(self, library: Library) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / f"{library.id}.json").write_bytes(msgspec.json.encode(library))

    async def _fetch(self, url: str) -> Fetched:
        return await self._fetcher.fetch(url)

    async def _check_access(self, target: Target) -> Access:
        """Allow the package indexes only, also after a redirect."""
        return Access(target.origin in self._sites)

    # --- the indexes --------------------------------------------------------------------------------------------------

    async def _pypi(self, name: str) -> Library | None:
        fetched = await self._fetch(f"{self._settings.pypi_url.rstrip('/')}/pypi/{quote(name)}/json")
        info = msgspec.json.decode(fetched.body, type=_PyPI).info
        urls = [f"{label},{url}" for label, url in (info.project_urls or {}).items()]
        found = Library(
            id=library_id_of(info.name),
            name=info.name,
            languages=("python",),
            packages=Packages(pypi=(info.name,)),
            description=info.summary or "",
            docs_url=documentation_url(urls, info.home_page or None),
            version=info.version or None,
        )
        return await asyncio.to_thread(self._with_readme, found, "pypi", info.description or "")

    async def _npm(self, name: str) -> Library | None:
        address = f"{self._settings.npm_url.rstrip('/')}/{quote(name, safe='@')}"
        info = msgspec.json.decode((await self._fetch(f"{address}/latest")).body, type=_Npm)
        docs_url, readme = documentation_url((), info.homepage), info.readme
        if docs_url is None and not readme:  # only the page of all versions has it
            readme = msgspec.json.decode((await self._fetch(address)).body, type=_Npm).readme
        found = Library(
            id=library_id_of(name),
            name=info.name,
            languages=("javascript",),
            packages=Packages(npm=(info.name,)),
            description=info.description or "",
            docs_url=docs_url,
            version=info.version or None,
        )
        return await asyncio.to_thread(self._with_readme, found, "npm", readme or "")

    async def _crates(self, name: str) -> Library | None:
        site = self._settings.crates_url.rstrip("/")
        fetched = await self._fetch(f"{site}/{name}/latest/{name.replace('-', '_')}/")
        packages = Packages(crates=(name,))
        return Library(library_id_of(name), name, ("rust",), packages, docs_url=fetched.final_url)

    async def _go(self, name: str) -> Library | None:
        fetched = await self._fetch(f"{self._settings.go_url.rstrip('/')}/{name}")
        return Library(library_id_of(name), name, ("go",), Packages(go=(name,)), docs_url=fetched.final_url)

    def _with_readme(self, library: Library, index: str, readme: str) -> Library | None:
        """Return a package with its site; one without a site gets its README as a page, or is left out."""
        if library.docs_url is not None:
            return msgspec.structs.replace(library, version=None)  # the site may be about another version
        if not readme.strip():
            return None
        target = self._folder.resolve() / re.sub(r"[^a-z0-9_.+-]", "_", f"{index}-{library.id}-{library.version}")
        if not target.exists():
            write_pages(target, {"README.md": f"# {library.name} {library.version}\n\n{readme}"})
        return msgspec.structs.replace(library, path=str(target))


def _addresses(settings: PackagesSettings) -> tuple[str, ...]:
    return settings.pypi_url, settings.npm_url, settings.crates_url, settings.go_url


class _PyPIInfo(msgspec.Struct):
    name: str
    version: str | None = None
    summary: str | None = None
    description: str | None = None
    home_page: str | None = None
    project_urls: dict[str, str] | None = None


class _PyPI(msgspec.Struct):
    info: _PyPIInfo


class _Npm(msgspec.Struct):
    name: str
    version: str | None = None
    description: str | None = None
    homepage: Any = None
    readme: str | None = None


__all__ = ["PackageIndexes"]
