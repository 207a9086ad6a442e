"""Lines and headings of Markdown.

A line over 4,000 characters is split at a space, and the pieces count as lines, so that every line fits every budget.
Headings are those of CommonMark 0.31 (4.2, 4.3), levels 1 to 4: not in fenced code, comments, `<pre>` or front matter.
They are found before lines are split, so that a piece that starts with `#` is not a heading.
"""

import re
from collections.abc import Iterator
from typing import Final

from procontext.cache import Section
from procontext.models import Heading, Page
from procontext.page._limits import Deadline, check_lines

MAX_LINE_LENGTH: Final = 4000
MAX_HEADING_LEVEL: Final = 4
# The part of a heading that is read. The longest real headings are signatures of a few hundred characters.
MAX_HEADING_LENGTH: Final = 1000
_OTHER: Final = -1

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*))?$")
_CLOSING = re.compile(r"(?:^|[ \t]+)#+[ \t]*$")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*$")
# Starts of lists, quotes, tables, tags and indented code, which an underline does not turn into a heading.
_NO_PARAGRAPH = re.compile(r"\t| {4}| {0,3}(?:[-+*][ \t]|\d{1,9}[.)][ \t]|[>|<]|(?:[-_*][ \t]*){3,}$)")
# HTML blocks whose content is not Markdown (CommonMark 4.6, kinds 1 and 2), and their end conditions.
_RAW = re.compile(r" {0,3}<(!--|pre\b|script\b|style\b|textarea\b)", re.IGNORECASE)
_RAW_ENDS = {
    "!--": "-->",
    "pre": "</pre>",
    "script": "</script>",
    "style": "</style>",
    "textarea": "</textarea>",
}

_ATTRIBUTES = re.compile(r"[ \t]*\{:?[ \t]*(?:#([^\s{}]+))?[^{}]*\}[ \t]*$")
_TAG_ANCHOR = re.compile(r"<a\s[^>]*?(?:id|name)\s*=\s*[\"']?([^\s\"'>]+)", re.IGNORECASE)
_PERMALINK = re.compile(r"\s*\[(?:¶|#|§|🔗|\u200b|\\#|)\]\(\S*?#([^\s()]+)[^()]*\)")
_IMAGE_OR_LINK = re.compile(r"!?\[([^\[\]]*)\](?:\([^()]*\)|\[[^\[\]]*\])")
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
_STRONG = re.compile(r"(\*\*|__)(?=\S)(.+?)(?<=\S)\1")
_EMPHASIS = re.compile(r"(?<![\w*])\*(?=\S)([^*]+?)(?<=\S)\*(?![\w*])")
_NO_SLUG = re.compile(r"[^\w\s-]")
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")


def pieces(line: str) -> Iterator[str]:
    """Split a line into parts of at most 4,000 characters, each after the last space that fits."""
    start = 0
    while len(line) - start > MAX_LINE_LENGTH:
        space = line.rfind(" ", start + 1, start + MAX_LINE_LENGTH)
        end = start + MAX_LINE_LENGTH if space < 0 else space + 1
        yield line[start:end]
        start = end
    yield line[start:]


def text_lines(text: str) -> Iterator[str]:
    """Return the lines of a string, split at the maximum length."""
    raw = _raw_lines(text)
    return (piece for line in raw for piece in pieces(line)) if raw != [""] else iter(())


def _raw_lines(text: str) -> list[str]:
    """Split a string at its newlines. Not with `splitlines`, which would also split at form feeds and others."""
    return text.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n").split("\n")


def markdown_page(url: str, text: str, deadline: Deadline | None = None) -> Page:
    """Return a page with the lines and headings of a string.

    Raises: PageTooLargeError if it exceeds the limits.
    """
    check_lines(text)
    deadline = Deadline() if deadline is None else deadline
    raw = _raw_lines(text)
    if raw == [""]:
        return Page(url=url, lines=(), headings=())
    found = list(deadline.each(_headings(raw)))
    deadline.check()
    if max(map(len, raw)) <= MAX_LINE_LENGTH:
        return Page(url=url, lines=tuple(raw), headings=tuple(found))
    lines: list[str] = []
    numbers: list[int] = []  # the new number of each raw line
    for line in raw:
        numbers.append(len(lines) + 1)
        lines.extend(pieces(line))
    headings = (Heading(old.level, old.text, old.anchor, numbers[old.line - 1]) for old in found)
    return Page(url=url, lines=tuple(lines), headings=tuple(headings))


def heading_anchors(page: Page) -> list[str]:
    """Return the anchor of each heading; where the page has none, its text in the form that most generators use."""
    used: dict[str, int] = {}
    found: list[str] = []
    for heading in page.headings:
        slug = heading.anchor or _NO_SLUG.sub("", heading.text.casefold()).strip().replace(" ", "-")
        count = used.get(slug, 0)
        used[slug] = count + 1
        found.append(slug if heading.anchor or not count else f"{slug}-{count}")
    return found


def sections(page: Page) -> Iterator[Section]:
    """Split a page at its headings, for the search index. Text before the first heading has an empty path."""
    starts = [heading.line for heading in page.headings]
    ends = [*(start - 1 for start in starts[1:]), len(page.lines)]
    before = page.lines[: starts[0] - 1 if starts else None]
    if "".join(before).strip():
        yield Section(1, (), "\n".join(before).strip(), "", len(before))
    path: list[Heading] = []
    for heading, end, anchor in zip(page.headings, ends, heading_anchors(page), strict=False):
        while path and path[-1].level >= heading.level:
            path.pop()
        path.append(heading)
        body = "\n".join(page.lines[heading.line : end]).strip()
        yield Section(heading.line, tuple(parent.text for parent in path), body, anchor, end - heading.line + 1)


# --- headings ---------------------------------------------------------------------------------------------------------


def _headings(lines: list[str]) -> Iterator[Heading]:
    paragraph: int | None = None  # the start of the current paragraph; _OTHER inside anything else
    number = _front_matter(lines)
    while number < len(lines):
        line = lines[number]
        after = _after_opaque(lines, number)
        if after is not None:
            number, paragraph = after, None
            continue
        number += 1
        if not line or line.isspace():
            paragraph = None
        elif (atx := _ATX.match(line)) is not None:
            paragraph = None
            yield from _heading(len(atx[1]), atx[2] or "", number)
        elif paragraph is None:
            paragraph = _OTHER if _NO_PARAGRAPH.match(line) else number - 1
        elif paragraph == _OTHER:
            pass
        elif (underline := _UNDERLINE.match(line)) is not None:
            text = " ".join(part[:MAX_HEADING_LENGTH].strip() for part in lines[paragraph : number - 1][:9])
            yield from _heading(1 if underline[1][0] == "=" else 2, text, paragraph + 1)
            paragraph = None
        elif not line.startswith(("\t", "    ")) and _NO_PARAGRAPH.match(line):
            paragraph = _OTHER


def _front_matter(lines: list[str]) -> int:
    """Return the number of lines of YAML front matter, which could look like headings."""
    if lines[0].rstrip() != "---":
        return 0
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() in ("---", "..."):
            return number + 1
    return 0


def _after_opaque(lines: list[str], number: int) -> int | None:
    """Return the number of the line after the fenced code, comment or raw HTML that starts here, or None."""
    line = lines[number]
    fence = _FENCE.match(line)
    if fence is not None and not (fence[1][0] == "`" and "`" in fence[2]):
        closing = re.compile(rf" {{0,3}}{re.escape(fence[1][0])}{{{len(fence[1])},}}[ \t]*$")
        return next((at + 1 for at in range(number + 1, len(lines)) if closing.match(lines[at])), len(lines))
    raw = _RAW.match(line)
    if raw is not None:
        end = _RAW_ENDS[raw[1].lower()]
        return next((at + 1 for at in range(number, len(lines)) if end in lines[at].lower()), len(lines))
    return None


def _heading(level: int, raw: str, line: int) -> Iterator[Heading]:
    if level > MAX_HEADING_LEVEL:
        return
    anchor = ""
    # Truncated first: the patterns are quadratic over a long run of spaces.
    raw = _CLOSING.sub("", raw[:MAX_HEADING_LENGTH]).strip()
    attributes = _ATTRIBUTES.search(raw)
    if attributes is not None and (attributes[1] or attributes[0].lstrip().startswith(("{:", "{."))):
        anchor, raw = attributes[1] or "", raw[: attributes.start()]
    for pattern in (_TAG_ANCHOR, _PERMALINK):
        found = pattern.search(raw)
        anchor = anchor or (found[1] if found else "")
    text = plain_text(raw)
    if text:
        yield Heading(level, text, anchor, line)


def plain_text(raw: str) -> str:
    """Return the text of a heading without links, images, tags, emphasis, code markup and escapes."""
    parts: list[str] = []
    for is_code, part in _code_spans(_PERMALINK.sub("", raw)):
        if is_code:
            parts.append(part.strip())  # unchanged: `__init__` is not emphasis
        else:
            bare = _TAG.sub("", _IMAGE_OR_LINK.sub(r"\1", part))
            bare = _EMPHASIS.sub(r"\1", _STRONG.sub(r"\2", bare))
            parts.append(_ESCAPED.sub(r"\1", bare))
    return " ".join("".join(parts).split())


def _code_spans(raw: str) -> Iterator[tuple[bool, str]]:
    """Split a string into (is_code, part). A code span ends with as many backticks as it starts with."""
    runs = list(re.finditer(r"`+", raw))
    at = index = 0
    while index < len(runs):
        size = len(runs[index][0])
        closing = next((later for later in range(index + 1, len(runs)) if len(runs[later][0]) == size), None)
        if closing is None:
            index += 1
            continue
        yield False, raw[at : runs[index].start()]
        yield True, raw[runs[index].end() : runs[closing].start()]
        at, index = runs[closing].end(), closing + 1
    yield False, raw[at:]


__all__ = [
    "MAX_HEADING_LEVEL",
    "MAX_LINE_LENGTH",
    "heading_anchors",
    "markdown_page",
    "pieces",
    "plain_text",
    "sections",
    "text_lines",
]
