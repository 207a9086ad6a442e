"""Lines and headings of Markdown (CommonMark 0.31, 4.2 to 4.6)."""

from hypothesis import given
from hypothesis import strategies as st

from procontext.cache import Section
from procontext.models import Heading
from procontext.page import markdown_page
from procontext.page._markdown import MAX_LINE_LENGTH, heading_anchors, pieces, plain_text, sections, text_lines


def found(text: str) -> list[tuple[int, int, str, str]]:
    headings = markdown_page("u", text).headings
    return [(heading.line, heading.level, heading.text, heading.anchor) for heading in headings]


# --- lines ------------------------------------------------------------------------------------------------------------


LINES: list[tuple[str, tuple[str, ...]]] = [
    ("", ()),
    ("\n\n", ()),
    ("a", ("a",)),
    ("a\nb\n", ("a", "b")),
    ("a\r\nb\rc", ("a", "b", "c")),
    ("\na", ("", "a")),
    # `str.splitlines` would split these.
    ("a\x0bb\u2028c\x85d", ("a\x0bb\u2028c\x85d",)),
]


def test_lines() -> None:
    for text, lines in LINES:
        assert markdown_page("u", text).lines == lines, text


def test_long_line_is_split_after_its_last_space() -> None:
    line = "word " * 1000
    cut = list(pieces(line))
    assert [len(piece) for piece in cut] == [4000, 1000]
    assert list(pieces("x" * 4001)) == ["x" * 4000, "x"]
    assert next(pieces("x" * 3990 + " " + "y" * 100)).endswith("x ")
    assert list(pieces("x" * 4000)) == ["x" * 4000]


@given(st.text(st.sampled_from("ab \n#`-"), max_size=300), st.integers(1, 60))
def test_splitting_loses_nothing(text: str, factor: int) -> None:
    for line in (text * factor).split("\n"):
        cut = list(pieces(line))
        assert "".join(cut) == line
        assert all(len(piece) <= MAX_LINE_LENGTH for piece in cut)


def test_line_of_five_megabytes() -> None:
    """A piece that starts with `#` is not a heading."""
    text = "# not " * 1_000_000
    page = markdown_page("u", f"para {text}\n## Real\n")
    assert "".join(page.lines[:-1]) == f"para {text}"
    assert max(map(len, page.lines)) <= MAX_LINE_LENGTH
    assert [(heading.line, heading.text) for heading in page.headings] == [(len(page.lines), "Real")]


def test_heading_of_five_megabytes() -> None:
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


def test_headings() -> None:
    for text, expected in ROWS:
        assert found(text) == expected, text


@given(st.text(st.sampled_from("ab#=-`~ \n<>!|*{}[]()\t"), max_size=400))
def test_headings_are_ordered(text: str) -> None:
    page = markdown_page("u", text)
    numbers = [heading.line for heading in page.headings]
    assert numbers == sorted(set(numbers))
    assert all(1 <= number <= len(page.lines) for number in numbers)
    assert all(1 <= heading.level <= 4 and heading.text for heading in page.headings)


def test_plain_text_keeps_code() -> None:
    assert plain_text("``a ` b`` *c*") == "a ` b c"


# --- sections ---------------------------------------------------------------------------------------------------------


def test_sections() -> None:
    page = markdown_page("u", "before\n# A\na\n### C\nc\n## B\nb\n# D")
    assert list(sections(page)) == [
        Section(1, (), "before", "", 1),
        Section(2, ("A",), "a", "a", 2),
        Section(4, ("A", "C"), "c", "c", 2),
        Section(6, ("A", "B"), "b", "b", 2),
        Section(8, ("D",), "", "d", 1),
    ]


def test_page_without_headings_is_one_section() -> None:
    assert list(sections(markdown_page("u", "only\ntext"))) == [Section(1, (), "only\ntext", "", 2)]
    assert list(sections(markdown_page("u", ""))) == []
    assert markdown_page("u", "# A").headings == (Heading(1, "A", "", 1),)


def test_anchors_of_headings() -> None:
    """An anchor of the page, else the text; equal ones are numbered, as most generators do."""
    page = markdown_page("u", "# The `run()` method\n## Use\n## Use\n## Own {#there}\n## 使い方\n")
    assert heading_anchors(page) == ["the-run-method", "use", "use-1", "there", "使い方"]


def test_text_lines() -> None:
    """The same lines as those of a page. `splitlines` would also split at a form feed and at U+2028."""
    text = f"a\x0cb\u2028c\r\n{'x' * (MAX_LINE_LENGTH + 1)}\rend\n\n"
    assert tuple(text_lines(text)) == markdown_page("u", text).lines
    assert tuple(text_lines(text)) == ("a\x0cb\u2028c", "x" * MAX_LINE_LENGTH, "x", "end")
    assert tuple(text_lines("")) == ()
