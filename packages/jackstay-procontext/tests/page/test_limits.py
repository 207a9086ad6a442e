"""Limits of the conversion: elements, lines and CPU time."""

import itertools

import pytest

from procontext.page import _indexes
from procontext.page._html import html_to_markdown
from procontext.page._indexes import from_navigation
from procontext.page._limits import MAX_LINES, Deadline, PageTooLargeError, check_lines
from procontext.page._markdown import markdown_page

MAX_ELEMENTS = 10_000  # the real limit would take minutes under a coverage tracer


@pytest.fixture(autouse=True)
def _few_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("procontext.page._nesting.MAX_ELEMENTS", MAX_ELEMENTS)


# The most expensive elements for each byte of a page.
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
    """Return a deadline of ten seconds with a clock that advances by `step` at each read."""
    ticks = itertools.count()
    return Deadline(10.0, lambda: next(ticks) * step)


def test_too_many_elements_are_rejected_before_parsing(
    monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    monkeypatch.setattr("procontext.page._html.LexborHTMLParser", None)  # calling it fails
    for unit in UNITS:
        with (
            subtests.test(unit=unit),
            pytest.raises(PageTooLargeError, match=f"the page has more than {MAX_ELEMENTS} elements"),
        ):
            html_to_markdown(f"<html><body><table>{unit * (MAX_ELEMENTS + 1)}", "https://x.example/")


def test_tags_in_scripts_and_comments_are_not_counted() -> None:
    """A page may contain data in a script."""
    many = "<b>" * (MAX_ELEMENTS + 1)
    html = f"<html><body><!-- {many} --><script>{many}</script><h1>Title</h1>"
    assert html_to_markdown(html, "https://x.example/") == "# Title\n"


def test_time_limit(subtests: pytest.Subtests) -> None:
    """Each slow step checks the clock, because a thread cannot be interrupted."""
    for unit in (*UNITS, "<dl><dt class=sig id=a>f<dd>x</dl>", "<summary><h2>x</h2></summary>"):
        with subtests.test(unit=unit):
            html = f"<html><body><table>{unit * 3000}"
            assert html_to_markdown(html, "https://x.example/", ticking(0.0))
            with pytest.raises(PageTooLargeError, match="converting the page takes longer than 10 seconds"):
                html_to_markdown(html, "https://x.example/", ticking(6.0))


def test_number_of_lines_is_limited() -> None:
    check_lines("x\n" * MAX_LINES)
    for end in ("\n", "\r", "\r\n"):
        with pytest.raises(PageTooLargeError, match=f"the page has more than {MAX_LINES} lines"):
            markdown_page("u", f"x{end}" * (MAX_LINES + 1))
    with pytest.raises(PageTooLargeError, match="longer than 10 seconds"):
        markdown_page("u", "# x\n" * 3000, ticking(6.0))


def test_front_page_over_the_limits_has_no_navigation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_indexes, "LexborHTMLParser", None)  # calling it fails
    for html in ("<div>" * 5000 + "<a href=b>b</a>", "<a href=b>b</a>" * (MAX_ELEMENTS + 1)):
        assert from_navigation(html, "https://x.example/", "X") is None
