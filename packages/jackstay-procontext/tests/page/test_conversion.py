"""Conversion of fetched documents, and the errors of pages that exceed the limits."""

from pathlib import Path

import pytest

from procontext.errors import ProContextError
from procontext.fetch import Fetched, FetchError
from procontext.models import Library
from procontext.page._conversion import convert_fetched, convert_markdown, cross_host_url
from scripted.documentation import Rows, Site, body, text
from scripted.library import library, opened

URL = "https://x.example/a"


def fetched(content: bytes, kind: str = "text/html", final_url: str = URL) -> Fetched:
    return Fetched(url=URL, final_url=final_url, body=content, content_type=kind)


def test_page_has_lines_and_sections() -> None:
    converted = convert_fetched(fetched(b"<html><body><h1>A</h1><p>x</p><h2>B</h2><p>y</p>"))
    assert converted.page.lines == ("# A", "", "x", "", "## B", "", "y")
    assert [section.line for section in converted.sections] == [1, 5]
    assert converted.page.final_url is None
    assert convert_fetched(fetched(b"x", "text/plain", "https://y.example/b")).page.final_url == "https://y.example/b"
    assert convert_markdown(URL, "").sections == ()


def test_cross_host_url() -> None:
    assert cross_host_url(URL, "https://x.example:8443/other") is None
    assert cross_host_url(URL, "https://docs.x.example/a") == "https://docs.x.example/a"


def test_non_text_is_rejected() -> None:
    with pytest.raises(FetchError, match="the document is image/png, not text"):
        convert_fetched(fetched(b"\x89PNG", "image/png"))


async def test_page_over_the_limits_is_not_recoverable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limits apply to a page, a table of contents, and a file of a folder."""
    monkeypatch.setattr("procontext.page._nesting.MAX_ELEMENTS", 2_000)

    many = b"<html><body>" + b"<h1>x</h1>" * 2_001
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.html").write_bytes(many)
    (folder / "llms.txt").write_bytes(many)
    lines = text("x\n" * 500_001)
    async with Site({"/a": body(many, "text/html"), "/llms.txt": lines}) as site:
        local = Library(id="local", name="Local", path=str(folder))
        rows = Rows(library(site), local)
        async with opened(tmp_path / "cache", site, rows=rows) as documents:
            for work, problem in (
                (documents.page(f"{site.url}/a"), "has more than 2000 elements"),
                (documents.page("https://folder.procontext.invalid/local/a.html"), "2000 elements"),
                (documents.index(library(site)), "has more than 500000 lines"),
                (documents.index(local), "has more than 2000 elements"),
            ):
                with pytest.raises(ProContextError) as caught:
                    await work
                assert problem in caught.value.message
                assert not caught.value.recoverable
                assert caught.value.suggestion.startswith("Trying again does not help.")


@pytest.mark.parametrize(
    ("url", "remedy"),
    [
        ("http://127.0.0.1:8041/", '{allowed_private_hosts: ["127.0.0.1:8041"]}'),
        ("http://10.0.0.5/", '{allowed_private_hosts: ["10.0.0.5:80"]}'),
        ("http://[::1]:8041/", '{allowed_private_hosts: ["[::1]:8041"]}'),
        ("http://169.254.169.254/", "never read from such an address"),
    ],
)
async def test_private_address_error_names_the_setting(url: str, remedy: str, tmp_path: Path) -> None:
    """The error is not recoverable."""

    private = Library(id="private", name="Private", docs_url=url)
    async with Site({}) as site, opened(tmp_path, site, rows=Rows(private)) as documents:
        for work in (documents.index(private), documents.page(url)):
            with pytest.raises(ProContextError) as caught:
                await work
            assert not caught.value.recoverable
            assert remedy in caught.value.suggestion
