"""Pages from what was fetched: what is more work than a page may be is a failure that says so, and that no retry mends."""

from pathlib import Path

import pytest

from procontext.errors import ProContextError
from procontext.fetch import Fetched, FetchError
from procontext.models import Library
from procontext.page._making import left_host, make, make_page
from scripted.documentation import Rows, Site, body, text
from scripted.library import library, opened
from scripted.loop import timed

URL = "https://x.example/a"


def fetched(content: bytes, kind: str = "text/html", final_url: str = URL) -> Fetched:
    return Fetched(url=URL, final_url=final_url, body=content, content_type=kind)


def test_a_page_is_converted_and_cut_into_sections() -> None:
    made = make(fetched(b"<html><body><h1>A</h1><p>x</p><h2>B</h2><p>y</p>"))
    assert made.page.lines == ("# A", "", "x", "", "## B", "", "y")
    assert [section.line for section in made.sections] == [1, 5]
    assert made.page.final_url is None
    assert make(fetched(b"x", "text/plain", "https://y.example/b")).page.final_url == "https://y.example/b"
    assert make_page(URL, "").sections == ()


def test_only_another_host_is_worth_telling() -> None:
    assert left_host(URL, "https://x.example:8443/other") is None
    assert left_host(URL, "https://docs.x.example/a") == "https://docs.x.example/a"


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(FetchError, match="it is image/png, and only text can be read"):
        make(fetched(b"\x89PNG", "image/png"))


def test_a_page_that_is_too_much_work_fails_for_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over the network, as a table of contents, and as a file of a folder."""
    monkeypatch.setattr("procontext.page._nesting.MAX_ELEMENTS", 2_000)

    @timed
    async def scenario() -> None:
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

    scenario()


@pytest.mark.parametrize(
    ("url", "remedy"),
    [
        ("http://127.0.0.1:8041/", '{allowed_private_hosts: ["127.0.0.1:8041"]}'),
        ("http://10.0.0.5/", '{allowed_private_hosts: ["10.0.0.5:80"]}'),
        ("http://[::1]:8041/", '{allowed_private_hosts: ["[::1]:8041"]}'),
        ("http://169.254.169.254/", "never read from such an address"),
    ],
)
def test_a_private_address_is_refused_with_the_setting_that_allows_it(
    url: str, remedy: str, tmp_path: Path
) -> None:
    """Trying again never helps, and the agent is told so."""

    @timed
    async def scenario() -> None:
        mine = Library(id="mine", name="Mine", docs_url=url)
        async with Site({}) as site, opened(tmp_path, site, rows=Rows(mine)) as documents:
            for work in (documents.index(mine), documents.page(url)):
                with pytest.raises(ProContextError) as caught:
                    await work
                assert not caught.value.recoverable
                assert remedy in caught.value.suggestion

    scenario()
