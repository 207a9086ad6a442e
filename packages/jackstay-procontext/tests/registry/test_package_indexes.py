"""Unknown packages from loopback copies of the package indexes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from procontext.config import FetcherSettings, PackagesSettings
from procontext.errors import ProContextError
from procontext.page import LibraryDocuments
from procontext.registry import PackageIndexes, Registry
from scripted.documentation import LoopbackNetwork, Route, Site, redirect, settings, text


def json(value: object) -> Route:
    return text(msgspec.json.encode(value).decode(), "application/json")


def routes(docs: str) -> dict[str, Route]:
    """Copies of the pages of PyPI, npm, docs.rs and pkg.go.dev."""
    urls = {"Documentation": docs, "Source": "https://github.com/sea/knots"}
    return {
        "/pypi/knots/json": json(
            {"info": {"name": "Knots", "version": "2.0", "summary": "Ties.", "project_urls": urls}}
        ),
        "/pypi/rope/json": json(
            {"info": {"name": "rope", "version": "1.1", "description": "# Rope\n\nPulls boats.\n"}}
        ),
        "/rope/latest": json({"name": "rope", "version": "7.0.0", "homepage": "https://github.com/sea/rope#readme"}),
        "/rope": json({"name": "rope", "readme": "Rope for browsers."}),
        "/@sea%2Fsail/latest": json({"name": "@sea/sail", "version": "3.1.0", "readme": "Sails."}),
        "/tide-rs/latest/tide_rs/": redirect("/tide-rs/0.4.1/tide_rs/"),
        "/tide-rs/0.4.1/tide_rs/": text("<title>tide_rs</title>", "text/html"),
        "/example.org/sea/anchor": text("<title>anchor</title><h1>anchor</h1>", "text/html"),
        "/moved/latest": redirect("http://127.0.0.1:9/elsewhere"),
        "/docs/": text("<nav><a href=tie.md>Tie</a></nav>", "text/html"),
        "/docs/tie.md": text("# Tie\n\nThe knot.\n"),
    }


@asynccontextmanager
async def opened(folder: Path, site: Site, *private: str, lookup: bool = True) -> AsyncIterator[Registry]:
    """A registry that looks packages up at this site."""
    urls = dict.fromkeys(("pypi_url", "npm_url", "crates_url", "go_url"), site.url)
    packages = PackagesSettings(lookup=lookup, private=private, **urls)
    fetcher = FetcherSettings(allowed_private_hosts=(f"127.0.0.1:{site.port}",))

    def open_indexes() -> PackageIndexes:
        return PackageIndexes(packages, fetcher, folder / "packages", LoopbackNetwork())

    registry = Registry(open_indexes=open_indexes)
    registry.load()
    try:
        yield registry
    finally:
        await registry.close()


FOUND = [
    ("knots>=1", [("knots", "python", ">=1")]),
    ("rope", [("rope", "python", "1.1"), ("rope-javascript", "javascript", "7.0.0")]),
    ("@sea/sail", [("sea-sail", "javascript", "3.1.0")]),
    ("tide-rs", [("tide-rs", "rust", None)]),
    ("example.org/sea/anchor", [("example-org-sea-anchor", "go", None)]),
    ("moved", []),
    ("no such name", []),
]


async def test_packages_of_each_index(tmp_path: Path) -> None:
    async with Site({}) as site, opened(tmp_path, site) as registry:
        site.routes.update(routes(f"{site.url}/docs/".replace("http:", "https:")))
        for query, expected in FOUND:
            matches = await registry.find(query)
            assert [(match.library_id, match.languages[0], match.version) for match in matches] == expected, query
            assert {match.matched_via for match in matches} <= {"package_metadata"}
        sail = registry.get("sea-sail")
        assert sail is not None
        assert sail.path is not None
        assert "Sails." in (Path(sail.path) / "README.md").read_text()
        async with opened(tmp_path, site) as later:  # another process knows what was learned
            count = len(site.requests)
            assert await later.lookup("sea-sail") == sail
            assert len(site.requests) == count
            assert (await later.lookup("rope")) is not None
            assert await later.lookup("absent") is None


@pytest.mark.parametrize(("lookup", "private"), [(False, ()), (True, ("kno*",)), (True, ("*",))])
async def test_names_that_are_not_sent(lookup: bool, private: tuple[str, ...], tmp_path: Path) -> None:
    async with Site({}) as site, opened(tmp_path, site, *private, lookup=lookup) as registry:
        site.routes.update(routes(f"{site.url}/docs/"))
        assert await registry.find("knots") == []
        assert await registry.lookup("knots") is None
        assert site.requests == []


async def test_learned_address_gives_access_to_its_host_alone(tmp_path: Path) -> None:
    async with Site({}) as site, Site({"/secret.md": text("secret")}) as other, opened(tmp_path, site) as registry:
        site.routes.update(routes(f"https://127.0.0.1:{site.port}/docs/"))
        (knots,) = await registry.find("knots")
        assert knots.docs_url == f"https://127.0.0.1:{site.port}/docs/"
        documents = await LibraryDocuments.open(settings(tmp_path, site), registry, network=LoopbackNetwork())
        try:
            page = await documents.page(f"{site.url}/docs/tie.md")
            assert page.lines[0] == "# Tie"
            for url in (f"{other.url}/secret.md", "https://127.0.0.1/docs/", "https://example.com/docs/?data=1"):
                with pytest.raises(ProContextError):
                    await documents.page(url)
            assert other.requests == []
            registry.learned_hosts.add("metadata.internal")
            with pytest.raises(ProContextError, match="not permitted"):
                await documents.page("http://metadata.internal/latest/")
            with pytest.raises(ProContextError, match="not permitted"):
                await documents.page("https://metadata.internal/latest/?q=1")
        finally:
            await documents.close()
