"""The tools as functions: windows of tables of contents, sections of pages, budgets, and every row of the error tables."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from procontext.errors import Code, ProContextError, failure
from procontext.models import Hit
from procontext.page import text_lines
from procontext.registry import Registry
from procontext.tools import Tools
from procontext.tools._tools import MANY_HEADINGS, _fitting
from scripted.documents import ScriptedDocuments
from scripted.loop import timed

URL = "https://docs.langchain.com/docs/concepts/streaming.md"
PAGE = "# Streaming\n\n## Overview\n\nText.\n\n## Chat Models\n\n### stream\n\nMore.\n\n## Chains\n\nEnd."


class Bench:
    """Tools over the bundled registry and scripted documents."""

    def __init__(self, max_chars: int = 40_000) -> None:
        self.documents = ScriptedDocuments()
        registry = Registry()
        registry.load()

        async def open_them() -> ScriptedDocuments:
            return self.documents

        self.tools = Tools(registry, open_them, max_chars)


@timed
async def test_resolving_never_opens_the_documents() -> None:
    """Reference 2.1: in memory, no network calls."""
    registry = Registry()
    registry.load()

    async def never() -> Any:
        raise AssertionError("asked for documents")

    found = await Tools(registry, never, 40_000).resolve_library("sklearn")
    assert [match.library_id for match in found.matches] == ["scikit-learn"]


@timed
async def test_a_table_of_contents_that_fits_is_the_file_as_it_was_read() -> None:
    """Reference 3.2: raw llms.txt content; the freshness is passed on."""
    bench = Bench()
    at = datetime(2026, 2, 23, 10, tzinfo=UTC)
    bench.documents.put_index(
        "langchain", "# Docs\r\n\n- [A](https://a)\n", cached=True, cached_at=at, stale=True
    )
    found = await bench.tools.get_library_docs("langchain")
    assert found.content == "# Docs\r\n\n- [A](https://a)\n"
    assert (found.library_id, found.name, found.source) == ("langchain", "LangChain", "llms.txt")
    assert found.url == "https://x/llms.txt"  # where relative links start
    assert (found.cached, found.cached_at, found.stale) == (True, at, True)
    assert (found.offset, found.total_lines, found.next_offset) == (1, 3, None)


@timed
async def test_a_long_table_of_contents_comes_in_windows_that_join_up() -> None:
    """Design, section 1: cut at a line, with next_offset; a line beyond the budget is cut too."""
    bench = Bench(8_000)
    text = "\n".join([f"- [Page {n}](https://a/{n})" for n in range(2000)] + ["x" * 30_000, "end"])
    bench.documents.put_index("langchain", text)
    lines: list[str] = []
    offset: int | None = 1
    while offset is not None:
        found = await bench.tools.get_library_docs("langchain", offset)
        assert len(found.content) <= 8_000
        lines += found.content.split("\n")
        assert found.total_lines >= 2002
        offset = found.next_offset
    assert "".join(lines) == text.replace("\n", "")
    few = await bench.tools.get_library_docs("langchain", 5, 2)
    assert few.content == "- [Page 4](https://a/4)\n- [Page 5](https://a/5)"
    assert (few.offset, few.next_offset) == (5, 7)
    beyond = await bench.tools.get_library_docs("langchain", 99_999)
    assert (beyond.content, beyond.next_offset) == ("", None)


@timed
async def test_a_page_is_read_with_its_headings_and_by_lines() -> None:
    """Reference 4.3: the map is the same whatever the window."""
    bench = Bench()
    bench.documents.put_page(URL, PAGE)
    whole = await bench.tools.read_page(URL)
    part = await bench.tools.read_page(URL, 9, 2)
    headings = "1: # Streaming\n3: ## Overview\n7: ## Chat Models\n9: ### stream\n13: ## Chains"
    assert whole.headings == part.headings == headings
    assert (whole.content, whole.total_lines, whole.offset, whole.limit) == (PAGE, 15, 1, 2000)
    assert (part.content, part.offset, part.limit, part.next_offset) == ("### stream\n", 9, 2, 11)
    assert (whole.url, whole.next_offset, whole.headings_truncated) == (URL, None, False)


@timed
async def test_a_section_is_read_by_its_heading() -> None:
    """Design, section 2, point 2; next_offset goes on inside the section, and ends with it."""
    bench = Bench()
    bench.documents.put_page(URL, PAGE)
    found = await bench.tools.read_page(URL, heading="chat models")
    assert found.content == "## Chat Models\n\n### stream\n\nMore.\n"
    assert (found.offset, found.next_offset, found.limit) == (7, None, 2000)
    first = await bench.tools.read_page(URL, limit=2, heading="Chat Models")
    assert (first.content, first.next_offset) == ("## Chat Models\n", 9)
    second = await bench.tools.read_page(URL, offset=9, heading="Chat Models")
    assert (second.content, second.next_offset) == ("### stream\n\nMore.\n", None)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"heading": "Absent"}, "heading: there is no heading 'Absent' on this page"),
        ({"heading": "Chains", "offset": 99}, "offset: the section has lines 13 to 15, not 99"),
    ],
)
def test_a_section_that_is_not_there_is_invalid_input(arguments: dict[str, Any], said: str) -> None:
    """The argument is named, and what to do."""

    @timed
    async def check() -> None:
        bench = Bench()
        bench.documents.put_page(URL, PAGE)
        with pytest.raises(ProContextError) as raised:
            await bench.tools.read_page(URL, **arguments)
        assert raised.value.code == "INVALID_INPUT"
        assert said in raised.value.message

    check()


@timed
async def test_hits_are_told_best_first_and_inside_the_budget() -> None:
    """Design, section 2, point 1."""
    bench = Bench(8_000)
    bench.documents.hits["langchain"] = [Hit(URL, n, ("A", "B"), "s" * 1000, 1.0 / n) for n in range(1, 21)]
    found = await bench.tools.search_docs("langchain", "streaming", 20)
    assert [hit.line for hit in found.hits] == [1, 2, 3, 4, 5, 6, 7]
    assert found.hits[0].heading_path == ("A", "B")
    assert (await bench.tools.search_docs("fastapi", "x")).hits == ()


# Reference 3.4 and 4.4: what the documents raise reaches the caller as it is.
INDEX_ERRORS: list[Code] = ["LLMS_TXT_NOT_FOUND", "LLMS_TXT_FETCH_FAILED", "TOO_MANY_REDIRECTS"]
PAGE_ERRORS: list[Code] = ["URL_NOT_ALLOWED", "PAGE_NOT_FOUND", "PAGE_FETCH_FAILED", "TOO_MANY_REDIRECTS"]


@pytest.mark.parametrize("code", INDEX_ERRORS)
def test_a_failure_of_the_table_of_contents_is_passed_on(code: Code) -> None:
    """Reference 3.4."""

    @timed
    async def check() -> None:
        bench = Bench()
        bench.documents.indexes["langchain"] = failure(code, "langchain")
        with pytest.raises(ProContextError) as raised:
            await bench.tools.get_library_docs("langchain")
        assert raised.value.code == code

    check()


@pytest.mark.parametrize("code", PAGE_ERRORS)
def test_a_failure_of_a_page_is_passed_on(code: Code) -> None:
    """Reference 4.4."""

    @timed
    async def check() -> None:
        bench = Bench()
        bench.documents.pages[URL] = failure(code, URL)
        with pytest.raises(ProContextError) as raised:
            await bench.tools.read_page(URL)
        assert raised.value.code == code

    check()


@timed
async def test_an_unknown_library_is_not_found_and_nothing_is_asked() -> None:
    """Reference 3.4: LIBRARY_NOT_FOUND, word for word."""
    bench = Bench()
    for asking in (bench.tools.get_library_docs("langchan"), bench.tools.search_docs("langchan", "x")):
        with pytest.raises(ProContextError) as raised:
            await asking
        assert raised.value.message == "Library 'langchan' not found in registry."
    assert bench.documents.asked == []


@given(st.lists(st.text(alphabet="ab ", max_size=50), max_size=60), st.integers(1, 70), st.integers(50, 200))
def test_windows_of_lines_join_up_without_loss(lines: list[str], limit: int, budget: int) -> None:
    """A window is inside its budget, has a line if there is one, and the next begins where it ended."""
    first, seen = 0, 0
    while first < len(lines):
        last = _fitting(lines, first, first + limit, budget)
        assert first < last <= min(first + limit, len(lines))
        assert len("\n".join(lines[first:last])) <= budget
        seen += last - first
        first = last
    assert seen == len(lines)
    assert all(text_lines("x" * 9000))


@timed
async def test_a_page_of_headings_only_does_not_hold_up_the_others() -> None:
    """Design, section 4: what takes seconds to look through is looked through on a thread."""
    bench = Bench()
    bench.documents.put_page(URL, "".join(f"# heading {number}\n" for number in range(MANY_HEADINGS + 1)))
    found = await bench.tools.read_page(URL, heading="heading 7")
    assert found.content == "# heading 7"
    assert (await bench.tools.read_page(URL)).headings_truncated


@timed
async def test_windows_of_a_table_of_contents_lose_no_character() -> None:
    """A form feed or U+2028 is no line end: windows that are put one after another are the text."""
    bench = Bench()
    bench.documents.put_index("langchain", "a\x0cb\u2028c\nd\n")
    assert (await bench.tools.get_library_docs("langchain", limit=1)).content == "a\x0cb\u2028c"
    assert (await bench.tools.get_library_docs("langchain", offset=2)).content == "d"
