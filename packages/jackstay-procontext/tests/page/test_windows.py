"""Windows and sections of pages."""

import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from procontext.models import Page
from procontext.page import markdown_page, section, window

GUIDE = """# Guide
intro
## Install {#setup}
pip
### On Windows
choco
## Use `moor_boat()`
call
## Install it again
twice
"""


def all_windows(page: Page, limit: int, budget: int) -> list[str]:
    """Return the contents of all windows of a page, and check their budget."""
    contents = []
    offset: int | None = 1
    while offset is not None:
        found = window(page, offset, limit, budget)
        assert len(found.content) + len(found.headings) <= budget
        assert found.offset == offset
        contents.append(found.content)
        assert found.next_offset is None or found.next_offset > offset
        offset = found.next_offset
    return contents


def test_window_has_lines_and_heading_map() -> None:
    page = markdown_page("u", GUIDE)
    found = window(page, 3, 2, 40_000)
    assert found.content == "## Install {#setup}\npip"
    assert found.headings.split("\n") == [
        "1: # Guide",
        "3: ## Install {#setup}",
        "5: ### On Windows",
        "7: ## Use `moor_boat()`",
        "9: ## Install it again",
    ]
    assert (found.offset, found.limit, found.total_lines, found.next_offset) == (3, 2, 10, 5)
    assert not found.headings_truncated


def test_last_window() -> None:
    page = markdown_page("u", GUIDE)
    assert window(page, 1, 2000, 40_000).next_offset is None
    past = window(page, 99, 10, 40_000)
    assert (past.content, past.next_offset, past.total_lines) == ("", None, 10)
    assert window(markdown_page("u", "")).content == ""


def test_underlined_heading_has_its_level() -> None:
    assert window(markdown_page("u", "Two\n---\n")).headings == "1: ## Two"


def test_invalid_windows(subtests: pytest.Subtests) -> None:
    for offset, limit, budget in [(0, 1, 8000), (1, 0, 8000), (1, 1, 7999)]:
        with subtests.test(offset=offset), pytest.raises(ValueError, match="invalid window"):
            window(markdown_page("u", GUIDE), offset, limit, budget)


@given(
    st.lists(
        st.one_of(
            st.text(st.sampled_from("ab# `-=\n"), max_size=80),
            st.integers(1, 9000).map(lambda size: "word " * (size // 5) + "x"),
            st.integers(1, 200).map(lambda count: "\n".join(f"## Heading {number}" for number in range(count))),
        ),
        max_size=12,
    ),
    st.integers(1, 300),
    st.integers(8000, 12_000),
)
def test_windows_fit_the_budget_and_contain_the_page(parts: list[str], limit: int, budget: int) -> None:
    page = markdown_page("u", "\n".join(parts))
    contents = all_windows(page, limit, budget)
    assert "\n".join(contents) == "\n".join(page.lines)


def test_line_of_five_megabytes() -> None:
    line = "word" * 200 + " "
    page = markdown_page("u", line * 6000)
    contents = all_windows(page, 2000, 40_000)
    assert "".join(content.replace("\n", "") for content in contents) == line * 6000


def test_lines_get_half_of_the_budget() -> None:
    page = markdown_page("u", "\n".join(f"{'#' * (1 + n % 4)} Heading number {n}" for n in range(2000)))
    found = window(page, 1, 2000, 8000)
    assert found.headings_truncated
    assert len(found.headings) <= 4000
    assert len(found.content) >= 3000
    assert "\n".join(all_windows(page, 2000, 8000)) == "\n".join(page.lines)


def test_deepest_headings_are_left_out_first() -> None:
    text = "\n".join(f"# Top {n}\n" + "\n".join(f"### Deep {n} {m} {'x' * 80}" for m in range(9)) for n in range(9))
    found = window(markdown_page("u", text), 1, 1, 8000)
    rows = found.headings.split("\n")
    assert found.headings_truncated
    assert sum(": # Top" in row for row in rows) == 9
    assert 0 < sum(": ### Deep" in row for row in rows) < 81
    numbers = [int(row.partition(":")[0]) for row in rows]
    assert numbers == sorted(numbers)


def test_window_of_a_large_page_takes_less_than_a_millisecond() -> None:
    """The best of 50 runs counts, in CPU time and without a coverage tracer."""
    text = "\n".join(f"## Part {n}\n" + "A line of ordinary length in a page.\n" * 70 for n in range(400))
    page = markdown_page("u", text)
    assert sum(map(len, page.lines)) > 900_000
    best = 1.0
    tracer = sys.gettrace()
    sys.settrace(None)
    try:
        for _ in range(50):
            started = time.thread_time()
            window(page, 14_000, 50, 40_000)
            best = min(best, time.thread_time() - started)
    finally:
        sys.settrace(tracer)
    assert best < 0.001


# --- sections ---------------------------------------------------------------------------------------------------------


SECTIONS: list[tuple[str, tuple[int, int] | None]] = [
    ("Guide", (1, 10)),
    ("Install", (3, 4)),
    ("install", (3, 4)),
    ("## Install", (3, 4)),
    ("setup", (3, 4)),
    ("#setup", (3, 4)),
    ("Install it again", (9, 2)),
    ("on windows", (5, 2)),
    ("moor_boat()", (7, 2)),
    ("Use `moor_boat()`", (7, 2)),
    ("use moor boat", (7, 2)),
    ("again", (9, 2)),
    ("i", None),
    ("", None),
    ("##", None),
    ("!?", None),
    ("absent", None),
]


def test_section_by_heading() -> None:
    for heading, expected in SECTIONS:
        assert section(markdown_page("u", GUIDE), heading) == expected, heading


OBJECTS: list[tuple[str, int | None]] = [
    ("harbour.Boat", 2),
    ("Boat", 2),
    ("boat", 2),
    ("Boat.__init__", 3),
    ("`Boat.__init__`", 3),
    ("Boat.moor()", 4),
    ("harbour.Boat.moor()", 4),
    ("oor()", None),
]


def test_section_by_object_name(subtests: pytest.Subtests) -> None:
    """The name of a documented object is in the anchor of its heading."""
    page = markdown_page(
        "u",
        "# API\n## `class harbour.Boat(name)` {#harbour.Boat}\n### `__init__(name)` {#harbour.Boat.__init__}\n"
        "### `moor(boat=Boat)` {#harbour.Boat.moor}\n## `dock(boat)` {#harbour.dock}\n",
    )
    for heading, line in OBJECTS:
        with subtests.test(heading=heading):
            span = section(page, heading)
            assert (span[0] if span else None) == line


def test_section_as_window() -> None:
    page = markdown_page("u", GUIDE)
    span = section(page, "Install")
    assert span is not None
    assert window(page, *span, 8000).content == "## Install {#setup}\npip\n### On Windows\nchoco"
