"""The tools as functions: windows, sections, budgets and errors."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from procontext.errors import Code, ProContextError, failure
from procontext.models import Coverage, Hit
from procontext.page import text_lines
from procontext.registry import Installed, Registry
from procontext.tools import Tools
from procontext.tools._tools import MANY_HEADINGS, _fitting, next_step, search_state
from scripted.documents import ScriptedDocuments

URL = "https://docs.langchain.com/docs/concepts/streaming.md"
PAGE = "# Streaming\n\n## Overview\n\nText.\n\n## Chat Models\n\n### stream\n\nMore.\n\n## Chains\n\nEnd."


class Fixture:
    """Tools with the bundled registry and scripted documents."""

    def __init__(self, max_chars: int = 40_000) -> None:
        self.documents = ScriptedDocuments()
        registry = Registry()
        registry.load()

        async def open_documents() -> ScriptedDocuments:
            return self.documents

        self.tools = Tools(registry, open_documents, max_chars)


async def test_resolve_library_does_not_open_the_documents() -> None:
    registry = Registry()
    registry.load()

    async def never() -> Any:
        raise AssertionError("the documents were opened")

    found = await Tools(registry, never, 40_000).resolve_library("sklearn")
    assert [match.library_id for match in found.matches] == ["scikit-learn"]


async def test_short_contents_are_returned_unchanged() -> None:
    fixture = Fixture()
    at = datetime(2026, 2, 23, 10, tzinfo=UTC)
    fixture.documents.put_index("langchain", "# Docs\r\n\n- [A](https://a)\n", cached=True, cached_at=at, stale=True)
    found = await fixture.tools.get_library_docs("langchain")
    assert found.content == "# Docs\r\n\n- [A](https://a)\n"
    assert (found.library_id, found.name, found.source) == ("langchain", "LangChain", "llms.txt")
    assert found.url == "https://x/llms.txt"  # the base of relative links
    assert (found.cached, found.cached_at, found.stale) == (True, at, True)
    assert (found.offset, found.total_lines, found.next_offset) == (1, 3, None)


async def test_long_contents_are_returned_in_windows() -> None:
    """A line longer than the budget is split."""
    fixture = Fixture(8_000)
    text = "\n".join([f"- [Page {n}](https://a/{n})" for n in range(2000)] + ["x" * 30_000, "end"])
    fixture.documents.put_index("langchain", text)
    lines: list[str] = []
    offset: int | None = 1
    while offset is not None:
        found = await fixture.tools.get_library_docs("langchain", offset)
        assert len(found.content) <= 8_000
        lines += found.content.split("\n")
        assert found.total_lines >= 2002
        offset = found.next_offset
    assert "".join(lines) == text.replace("\n", "")
    few = await fixture.tools.get_library_docs("langchain", 5, 2)
    assert few.content == "- [Page 4](https://a/4)\n- [Page 5](https://a/5)"
    assert (few.offset, few.next_offset) == (5, 7)
    beyond = await fixture.tools.get_library_docs("langchain", 99_999)
    assert (beyond.content, beyond.next_offset) == ("", None)


async def test_table_of_contents_can_be_filtered() -> None:
    fixture = Fixture()
    text = "# LangChain\n\n## Pages\n\n- [Streaming](/s): how\n- [Chains](/c)\n\n## API\n\n- [stream](/api#stream)\n"
    fixture.documents.put_index("langchain", text)
    found = await fixture.tools.get_library_docs("langchain", filter="STREAM")
    assert found.content == "# LangChain\n## Pages\n- [Streaming](/s): how\n## API\n- [stream](/api#stream)"
    assert (found.total_lines, found.next_offset) == (5, None)
    assert (await fixture.tools.get_library_docs("langchain", filter="stream how")).total_lines == 3
    assert (await fixture.tools.get_library_docs("langchain", filter="sails")).content == ""


async def test_read_page_by_lines() -> None:
    """The heading map does not depend on the window."""
    fixture = Fixture()
    fixture.documents.put_page(URL, PAGE)
    whole = await fixture.tools.read_page(URL)
    part = await fixture.tools.read_page(URL, 9, 2)
    headings = "1: # Streaming\n3: ## Overview\n7: ## Chat Models\n9: ### stream\n13: ## Chains"
    assert whole.headings == part.headings == headings
    assert (whole.content, whole.total_lines, whole.offset, whole.limit) == (PAGE, 15, 1, 2000)
    assert (part.content, part.offset, part.limit, part.next_offset) == ("### stream\n", 9, 2, 11)
    assert (whole.url, whole.next_offset, whole.headings_truncated) == (URL, None, False)


async def test_read_page_by_heading() -> None:
    """`next_offset` ends with the section."""
    fixture = Fixture()
    fixture.documents.put_page(URL, PAGE)
    found = await fixture.tools.read_page(URL, heading="chat models")
    assert found.content == "## Chat Models\n\n### stream\n\nMore.\n"
    assert (found.offset, found.next_offset, found.limit) == (7, None, 2000)
    first = await fixture.tools.read_page(URL, limit=2, heading="Chat Models")
    assert (first.content, first.next_offset) == ("## Chat Models\n", 9)
    second = await fixture.tools.read_page(URL, offset=9, heading="Chat Models")
    assert (second.content, second.next_offset) == ("### stream\n\nMore.\n", None)


async def test_fragment_selects_its_section() -> None:
    """An unknown fragment, or one with an offset, reads the page."""
    fixture = Fixture()
    fixture.documents.put_page(URL, PAGE)
    for fragment in ("chat-models", "Chat%20Models"):
        found = await fixture.tools.read_page(f"{URL}#{fragment}")
        assert (found.offset, found.headings, found.content.split("\n")[0]) == (7, "", "## Chat Models")
    assert (await fixture.tools.read_page(f"{URL}#absent")).content == PAGE
    assert (await fixture.tools.read_page(f"{URL}#chat-models", 13)).offset == 13


async def test_long_section_is_read_with_the_subsections_that_fit() -> None:
    fixture = Fixture()
    parts = "".join(f"### Part {number}\n{'x' * 2000}\n" for number in range(5))
    fixture.documents.put_page(URL, f"# Top\n## Long\nIntroduction.\n{parts}## Next\n")
    found = await fixture.tools.read_page(URL, heading="Long")
    assert (found.content.count("### Part"), found.next_offset) == (2, 8)
    rest = await fixture.tools.read_page(URL, 8, heading="Long")
    assert (rest.content.count("### Part"), rest.next_offset) == (2, 12)
    own = await fixture.tools.read_page(URL, heading="Part 1")
    assert (own.content.count("x"), own.next_offset) == (2000, None)


MISSING_SECTIONS: list[tuple[dict[str, Any], str]] = [
    ({"heading": "Absent"}, "heading: no heading 'Absent' on this page"),
    ({"heading": "Chains", "offset": 99}, "offset: 99 is outside the section, which has lines 13 to 15"),
]


async def test_missing_section_is_invalid_input(subtests: pytest.Subtests) -> None:
    for arguments, problem in MISSING_SECTIONS:
        with subtests.test(arguments=arguments):
            fixture = Fixture()
            fixture.documents.put_page(URL, PAGE)
            with pytest.raises(ProContextError) as raised:
                await fixture.tools.read_page(URL, **arguments)
            assert raised.value.code == "INVALID_INPUT"
            assert problem in raised.value.message


async def test_hits_fit_the_budget() -> None:
    fixture = Fixture(8_000)
    fixture.documents.hits["langchain"] = [Hit(URL, n, ("A", "B"), "s" * 1000, 1.0 / n) for n in range(1, 21)]
    found = await fixture.tools.search_docs("langchain", "streaming", 20)
    assert [hit.line for hit in found.hits] == [1, 2, 3, 4, 5, 6, 7]
    assert found.hits[0].heading_path == ("A", "B")
    assert (await fixture.tools.search_docs("fastapi", "x")).hits == ()


# Errors of the documents are raised unchanged.
INDEX_ERRORS: list[Code] = ["LLMS_TXT_NOT_FOUND", "LLMS_TXT_FETCH_FAILED", "TOO_MANY_REDIRECTS"]
PAGE_ERRORS: list[Code] = ["URL_NOT_ALLOWED", "PAGE_NOT_FOUND", "PAGE_FETCH_FAILED", "TOO_MANY_REDIRECTS"]


async def test_index_errors_are_raised(subtests: pytest.Subtests) -> None:
    for code in INDEX_ERRORS:
        with subtests.test(code=code):
            fixture = Fixture()
            fixture.documents.indexes["langchain"] = failure(code, "langchain")
            with pytest.raises(ProContextError) as raised:
                await fixture.tools.get_library_docs("langchain")
            assert raised.value.code == code


async def test_page_errors_are_raised(subtests: pytest.Subtests) -> None:
    for code in PAGE_ERRORS:
        with subtests.test(code=code):
            fixture = Fixture()
            fixture.documents.pages[URL] = failure(code, URL)
            with pytest.raises(ProContextError) as raised:
                await fixture.tools.read_page(URL)
            assert raised.value.code == code


async def test_unknown_library() -> None:
    """The documents are not used."""
    fixture = Fixture()
    for call in (fixture.tools.get_library_docs("langchan"), fixture.tools.search_docs("langchan", "x")):
        with pytest.raises(ProContextError) as raised:
            await call
        assert raised.value.message == "Library 'langchan' not found in registry."
    assert fixture.documents.requested == []


@given(st.lists(st.text(alphabet="ab ", max_size=50), max_size=60), st.integers(1, 70), st.integers(50, 200))
def test_fitting_windows_lose_nothing(lines: list[str], limit: int, budget: int) -> None:
    """A window fits its budget, has at least one line, and the next starts where it ends."""
    first, seen = 0, 0
    while first < len(lines):
        last = _fitting(lines, first, first + limit, budget)
        assert first < last <= min(first + limit, len(lines))
        assert len("\n".join(lines[first:last])) <= budget
        seen += last - first
        first = last
    assert seen == len(lines)
    assert all(text_lines("x" * 9000))


async def test_page_with_many_headings_runs_on_a_thread() -> None:
    fixture = Fixture()
    fixture.documents.put_page(URL, "".join(f"# heading {number}\n" for number in range(MANY_HEADINGS + 1)))
    found = await fixture.tools.read_page(URL, heading="heading 7")
    assert found.content == "# heading 7"
    assert (await fixture.tools.read_page(URL)).headings_truncated


async def test_form_feed_is_not_a_newline() -> None:
    """U+2028 is not a newline either. Windows lose no character."""
    fixture = Fixture()
    fixture.documents.put_index("langchain", "a\x0cb\u2028c\nd\n")
    assert (await fixture.tools.get_library_docs("langchain", limit=1)).content == "a\x0cb\u2028c"
    assert (await fixture.tools.get_library_docs("langchain", offset=2)).content == "d"


@pytest.mark.parametrize(
    ("coverage", "state", "has_hits", "start"),
    [
        (
            Coverage(pages=0, total=None, problem="No table."),
            "nothing_stored",
            False,
            "No page of this library is stored",
        ),
        (Coverage(pages=2, total=9, is_fetching=True), "fetching", False, "No match in the pages fetched so far"),
        (Coverage(pages=2, total=9), "partial", False, "No match in the stored pages"),
        (Coverage(pages=9, total=9), "complete", False, "No page has these words"),
        (Coverage(pages=9, total=9), "complete", True, "Pass the url of a hit to read_page as it is."),
        (
            Coverage(pages=2, total=9, is_fetching=True),
            "fetching",
            True,
            "Pass the url of a hit to read_page as it is. If none fits, search again",
        ),
    ],
)
def test_empty_results_are_distinguished(coverage: Coverage, state: str, has_hits: bool, start: str) -> None:
    assert search_state(coverage) == state
    step = next_step(coverage, search_state(coverage), has_hits)
    assert step.startswith(start)
    assert coverage.problem in step


async def test_version_of_the_project_is_selected(tmp_path: Path) -> None:
    """The version in the lock file, unless the call has one."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "requirements.txt").write_text("django==4.2.11\n")
    registry = Registry(installed=Installed(tmp_path, tmp_path / "pages"))
    registry.load()
    documents = ScriptedDocuments()
    documents.put_index("django", "# Django\n", version="4.2")

    async def open_documents() -> ScriptedDocuments:
        return documents

    tools = Tools(registry, open_documents, 40_000)
    (match, *_) = (await tools.resolve_library("django")).matches
    assert match.version == "4.2.11"
    (match, *_) = (await tools.resolve_library("Django>=5,<6")).matches
    assert match.version == ">=5,<6"
    found = await tools.get_library_docs("django")
    assert (found.library_id, found.version, found.requested_version) == ("django", "4.2", "4.2.11")
    hits = await tools.search_docs("django", "models", version="5.1")
    assert (hits.version, hits.requested_version) == ("unknown", "5.1")
    assert documents.selected == ["4.2.11", "5.1"]
    with pytest.raises(ProContextError, match="version: expected a version such as"):
        await tools.get_library_docs("django", version="newest")
