"""Lines and headings (design, section 1, rows "headings H1-H4" and "lines as offsets"; CommonMark 0.31, 4.2 to 4.6)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from procontext.cache import Section
from procontext.models import Heading
from procontext.page import markdown_page
from procontext.page._markdown import LONGEST_LINE, pieces, plain_text, sections, text_lines


def found(text: str) -> list[tuple[int, int, str, str]]:
    return [(one.line, one.level, one.text, one.anchor) for one in markdown_page("u", text).headings]


# --- lines ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", ()),
        ("\n\n", ()),
        ("a", ("a",)),
        ("a\nb\n", ("a", "b")),
        ("a\r\nb\rc", ("a", "b", "c")),
        ("\na", ("", "a")),
        (
            "a\x0bb\u2028c\x85d",
            ("a\x0bb\u2028c\x85d",),
        ),  # line ends to Python, and to nobody who counts lines
    ],
)
def test_lines_are_counted_by_their_line_ends(text: str, lines: tuple[str, ...]) -> None:
    assert markdown_page("u", text).lines == lines


def test_a_long_line_is_cut_after_its_last_space() -> None:
    line = "word " * 1000
    cut = list(pieces(line))
    assert [len(piece) for piece in cut] == [4000, 1000]
    assert list(pieces("x" * 4001)) == ["x" * 4000, "x"]
    assert next(pieces("x" * 3990 + " " + "y" * 100)).endswith("x ")
    assert list(pieces("x" * 4000)) == ["x" * 4000]


@given(st.text(st.sampled_from("ab \n#`-"), max_size=300), st.integers(1, 60))
def test_cutting_loses_nothing(text: str, factor: int) -> None:
    for line in (text * factor).split("\n"):
        cut = list(pieces(line))
        assert "".join(cut) == line
        assert all(len(piece) <= LONGEST_LINE for piece in cut)


def test_a_line_of_five_megabytes_is_cut_and_nothing_in_it_is_a_heading() -> None:
    """Design, section 4: a page of one 5 MB line. A piece that begins with `#` is none."""
    text = "# not " * 1_000_000
    page = markdown_page("u", f"para {text}\n## Real\n")
    assert "".join(page.lines[:-1]) == f"para {text}"
    assert max(map(len, page.lines)) <= LONGEST_LINE
    assert [(one.line, one.text) for one in page.headings] == [(len(page.lines), "Real")]


def test_a_heading_of_five_megabytes_does_not_take_for_ever() -> None:
    for filler in (" ", "#", "{", "[](", "`", "*", "<a ", "{ "):
        page = markdown_page("u", f"# x{filler * (5_000_000 // len(filler))}")
        assert len(page.headings) == 1
        assert len(page.headings[0].text) <= 1000


# --- headings ---------------------------------------------------------------------------------------------------------

ROWS = [
    (
        "# One\n## Two\n### Three\n#### Four\n##### Five",
        [(1, 1, "One", ""), (2, 2, "Two", ""), (3, 3, "Three", ""), (4, 4, "Four", "")],
    ),
    ("#hash\n#\tTab\n   # Three spaces\n    # Four", [(2, 1, "Tab", ""), (3, 1, "Three spaces", "")]),
    ("# Closed ##\n# Not#closed#\n#\n# #", [(1, 1, "Closed", ""), (2, 1, "Not#closed#", "")]),
    # Underlined.
    ("One\n===\n\nTwo\n---\n", [(1, 1, "One", ""), (4, 2, "Two", "")]),
    ("long\nheading\n=======", [(1, 1, "long heading", "")]),
    ("para\n\n---\n", []),
    ("- item\n---\n", []),
    ("- item\nlazy\nmore\n---\n", []),
    ("text\n- item\n---", []),
    ("> quote\n---\n", []),
    ("| a |\n---\n", []),
    ("***\n---\n", []),
    ("text\n    continued\n---", [(1, 2, "text continued", "")]),
    ("# A\nB\n---", [(1, 1, "A", ""), (2, 2, "B", "")]),
    # Not in code, comments, raw HTML or front matter.
    ("```\n# no\n```\n# yes", [(4, 1, "yes", "")]),
    ("~~~ python\n# no\n```\n# no\n~~~\n# yes", [(6, 1, "yes", "")]),
    ("````\n```\n# no\n````\n# yes", [(5, 1, "yes", "")]),
    ("```\n# no, and never closed", []),
    ("``` a`b\n# yes", [(2, 1, "yes", "")]),
    ("  ```\n  # no\n  ```\n# yes", [(4, 1, "yes", "")]),
    ("<!--\n# no\n-->\n# yes\n<!-- one line -->\n# yes", [(4, 1, "yes", ""), (6, 1, "yes", "")]),
    ("<pre>\n# no\n</pre>\n# yes", [(4, 1, "yes", "")]),
    ("<!-- never closed\n# no", []),
    ("---\n# a comment\ntitle: x\n---\n# yes", [(5, 1, "yes", "")]),
    ("---\n# heading after a rule", [(2, 1, "heading after a rule", "")]),
    # Text and anchors.
    ("## Title {#the-anchor}", [(1, 2, "Title", "the-anchor")]),
    ("## Title {: #x .class }", [(1, 2, "Title", "x")]),
    ("## Title {.class}", [(1, 2, "Title", "")]),
    ("## A set {a, b}", [(1, 2, "A set {a, b}", "")]),
    ('## <a id="x"></a>Title', [(1, 2, "Title", "x")]),
    ('## Title[¶](#title "Permanent link")', [(1, 2, "Title", "title")]),
    ("## [Link](https://x.example/a) and ![image](i.png)", [(1, 2, "Link and image", "")]),
    ("## `__init__` and **bold** *it* a\\_b 2*3*4", [(1, 2, "__init__ and bold it a_b 2*3*4", "")]),
]


@pytest.mark.parametrize(("text", "expected"), ROWS)
def test_headings_are_those_of_the_markdown(text: str, expected: list[tuple[int, int, str, str]]) -> None:
    assert found(text) == expected


@given(st.text(st.sampled_from("ab#=-`~ \n<>!|*{}[]()\t"), max_size=400))
def test_any_text_has_headings_in_order_inside_the_page(text: str) -> None:
    page = markdown_page("u", text)
    numbers = [one.line for one in page.headings]
    assert numbers == sorted(set(numbers))
    assert all(1 <= number <= len(page.lines) for number in numbers)
    assert all(1 <= one.level <= 4 and one.text for one in page.headings)


def test_plain_text_keeps_what_stands_in_code() -> None:
    assert plain_text("``a ` b`` *c*") == "a ` b c"


# --- sections ---------------------------------------------------------------------------------------------------------


def test_a_page_is_cut_at_its_headings_for_search() -> None:
    page = markdown_page("u", "before\n# A\na\n### C\nc\n## B\nb\n# D")
    assert list(sections(page)) == [
        Section(1, (), "before"),
        Section(2, ("A",), "a"),
        Section(4, ("A", "C"), "c"),
        Section(6, ("A", "B"), "b"),
        Section(8, ("D",), ""),
    ]


def test_a_page_without_headings_is_one_section() -> None:
    assert list(sections(markdown_page("u", "only\ntext"))) == [Section(1, (), "only\ntext")]
    assert list(sections(markdown_page("u", ""))) == []
    assert markdown_page("u", "# A").headings == (Heading(1, "A", "", 1),)


def test_the_lines_of_a_text_are_those_of_a_page() -> None:
    """A form feed or U+2028 is a character of its line: `splitlines` would make a line end of it, and lose it."""
    text = f"a\x0cb\u2028c\r\n{'x' * (LONGEST_LINE + 1)}\rend\n\n"
    assert tuple(text_lines(text)) == markdown_page("u", text).lines
    assert tuple(text_lines(text)) == ("a\x0cb\u2028c", "x" * LONGEST_LINE, "x", "end")
    assert tuple(text_lines("")) == ()
