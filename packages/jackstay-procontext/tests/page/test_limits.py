"""How much work a page may be: a small packed one unpacks to minutes of work and gigabytes, unless it is stopped."""

import itertools

import pytest

from procontext.page import _indexes
from procontext.page._html import html_to_markdown
from procontext.page._indexes import from_navigation
from procontext.page._limits import MAX_LINES, Deadline, PageTooLargeError, check_lines
from procontext.page._markdown import markdown_page

MAX_ELEMENTS = 20_000  # the real limit would take minutes under a coverage tracer


@pytest.fixture(autouse=True)
def _few_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("procontext.page._nesting.MAX_ELEMENTS", MAX_ELEMENTS)


# What costs most, for each byte of the page.
UNITS = [
    "<h1>x</h1>",
    "<tr><td>x</td></tr>",
    '<a href="x">y</a>',
    "<pre>x</pre>",
    "<p>x</p>",
    "<li>x",
    "<img alt=x>",
]


def ticking(step: float) -> Deadline:
    """A deadline of ten seconds whose clock moves on by `step` each time it is read."""
    ticks = itertools.count()
    return Deadline(10.0, lambda: next(ticks) * step)


@pytest.mark.parametrize("unit", UNITS)
def test_too_many_elements_are_refused_before_they_are_parsed(
    unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("procontext.page._html.LexborHTMLParser", None)  # calling it fails
    with pytest.raises(PageTooLargeError, match=f"the page has more than {MAX_ELEMENTS} elements"):
        html_to_markdown(f"<html><body><table>{unit * (MAX_ELEMENTS + 1)}", "https://x.example/")


def test_tags_in_scripts_and_comments_are_no_elements() -> None:
    """A page may have its data in a script."""
    many = "<b>" * (MAX_ELEMENTS + 1)
    html = f"<html><body><!-- {many} --><script>{many}</script><h1>Title</h1>"
    assert html_to_markdown(html, "https://x.example/") == "# Title\n"


@pytest.mark.parametrize(
    "unit", [*UNITS, "<dl><dt class=sig id=a>f<dd>x</dl>", "<summary><h2>x</h2></summary>"]
)
def test_the_time_ends_the_work_in_the_middle(unit: str) -> None:
    """Each step that takes long checks the clock, so the thread is free again; it cannot be stopped from outside."""
    html = f"<html><body><table>{unit * 3000}"
    assert html_to_markdown(html, "https://x.example/", ticking(0.0))
    with pytest.raises(PageTooLargeError, match="converting the page takes longer than 10 seconds"):
        html_to_markdown(html, "https://x.example/", ticking(6.0))


def test_lines_are_bounded_before_they_are_counted() -> None:
    check_lines("x\n" * MAX_LINES)
    for end in ("\n", "\r", "\r\n"):
        with pytest.raises(PageTooLargeError, match=f"the page has more than {MAX_LINES} lines"):
            markdown_page("u", f"x{end}" * (MAX_LINES + 1))
    with pytest.raises(PageTooLargeError, match="longer than 10 seconds"):
        markdown_page("u", "# x\n" * 3000, ticking(6.0))


@pytest.mark.parametrize("html", ["<div>" * 5000 + "<a href=b>b</a>", "<a href=b>b</a>" * (MAX_ELEMENTS + 1)])
def test_a_front_page_that_is_too_much_work_has_no_navigation(
    html: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_indexes, "LexborHTMLParser", None)  # calling it fails
    assert from_navigation(html, "https://x.example/", "X") is None
