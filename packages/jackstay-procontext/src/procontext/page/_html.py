"""HTML pages of documentation sites to clean Markdown: the content alone, with its code, tables, links and anchors.

First the tree is cut down to the content and put in order (selectolax): navigation, sidebars, buttons and permalinks go; each block
of code becomes plain `pre` and `code` with its language; links become absolute; a heading ends with its anchor as `{#anchor}`, the
notation of Markdown's attribute lists, so that it stays with the text. Then it is written as Markdown (html-to-markdown).

The rows below are what Sphinx, MkDocs, Docusaurus, VitePress, mdBook, Starlight and their themes write. A site that is none of
them gets `article`, `main` or `body`.

Pure, and slow (a megabyte takes about half a second): call it in a thread. Must never know where HTML came from, beyond its address.
Above: `_documents`, `_indexes`. Below: `_nesting`, selectolax, html-to-markdown.
"""

import logging
import re
from functools import cache
from html import escape, unescape
from typing import Final
from urllib.parse import urljoin

from html_to_markdown import ConversionError, ConversionOptions, convert
from selectolax.lexbor import LexborHTMLParser, LexborNode

from procontext.page._limits import Deadline
from procontext.page._nesting import is_too_deep

_log = logging.getLogger(__name__)

# Where the content is, the most exact first.
CONTENT: Final = (
    "article[role=main]",  # furo
    "div[role=main] .body",
    "[itemprop=articleBody]",  # Read the Docs, PyData
    "div[role=main]",
    "article.md-content__inner",  # MkDocs Material
    ".theme-doc-markdown",  # Docusaurus
    ".vp-doc",  # VitePress
    ".sl-markdown-content",  # Starlight
    "#content main",  # mdBook
    "article",
    "main",
    "[role=main]",
    "#content",
)

# What is never content, wherever it stands.
NOISE: Final = ", ".join(
    (
        "script, style, noscript, template, svg, iframe, form, button, input, select, nav, canvas, dialog",
        "[role=navigation], [role=search], [role=banner], [role=contentinfo], [hidden]:not([role=tabpanel]), [aria-hidden=true]",
        ".back-to-top, a.footnote-backref, a.headerlink, a.hash-link, a.header-anchor, a.anchor-heading, a.sl-anchor-link, a.viewcode-link",
        ".sphinxsidebar, .toc-drawer, .toc-tree, .related-pages, .prev-next-area, .breadcrumbs, .breadcrumb",
        ".md-sidebar, .md-source-file, .md-content__button, .md-feedback, .md-tags",
        ".theme-doc-toc-mobile, .theme-doc-breadcrumbs, .theme-doc-footer, .pagination-nav, .table-of-contents",
        ".edit-this-page, .vp-doc-footer, .line-numbers-wrapper, .linenos, .linenodiv, .copybtn, .skip-link, .skip-to-content",
        "div.language-text > span.lang, div[class*=language-] > span.lang, .content-icon-container, .buttons",
        "details.mkdocstrings-source",  # the whole source, folded: most of such a page, and no documentation
        ".rightside, .hideme, .rustdoc-breadcrumbs, a.test-arrow, rustdoc-toolbar",
    )
)

# Page furniture only outside the content: inside, these tags are used for content too.
FURNITURE: Final = "header, footer, aside"

_LANGUAGE = re.compile(r"(?:^|\s)(?:language|lang|highlight|highlight-source|brush:)-?\s?([A-Za-z0-9+#_.-]+)")
# Classes that match the pattern above and name no language.
_NO_LANGUAGE = {
    "default",
    "none",
    "text",
    "plaintext",
    "notranslate",
    "highlight",
    "source",
    "ansi",
    "wrapper",
}
# Groups of tabs, and where their labels and what they show stand.
_TABS: Final = ".tabbed-set, .tabs-container, .vp-code-group"
_TAB_PARTS: Final = (
    (".tabbed-labels > label", ".tabbed-content > .tabbed-block"),
    ("[role=tablist] > [role=tab]", "[role=tabpanel]"),
    (".tabs > label", ".blocks > *"),
)
# What a link to a heading shows.
_PERMALINK: Final = "¶#§ \u200b\n\r\t"
# Titles of notes and of small parts that are no headings.
_TITLES: Final = ".admonition-title, [class*=admonitionHeading], .custom-block-title, p.rubric, .topic-title, .sidebar-title"
_HEADINGS: Final = "h1, h2, h3, h4, h5, h6"

# Of a table: how many columns the writer of Markdown writes at most, how many cells may stand for one that is there, and how
# many more than that there may be on a page: a wide headline over a small table is well.
_WIDEST: Final = 1000
_MOST_PADDED: Final = 10
_SPARE_CELLS: Final = 100_000
# Empty elements before the first heading of a section: Sphinx writes one for each label.
_MOST_EMPTY: Final = 50
# Tabs on a page, and tabs inside tabs. What has more keeps its labels where they are.
_MOST_TABS: Final = 2000
_DEEPEST_TABS: Final = 3
# How far out the classes are looked for that a documented method stands in.
_MOST_ABOVE: Final = 30
# By how much links may become longer in all: a page with ten thousand of them, on a site with a long address.
_SPARE_CHARACTERS: Final = 2_000_000
_LONGEST_BASE: Final = 2048
# Content that fills less than this share of the page's text was the wrong choice: a teaser, or an empty shell.
_LEAST_SHARE: Final = 0.1
_BLANK_LINES = re.compile(r"\n{3,}")


@cache
def _options() -> ConversionOptions:
    return ConversionOptions(extract_metadata=False, autolinks=False, compact_tables=True)


def is_html(text: str) -> bool:
    """Whether a text is a whole HTML page, whatever its host calls it."""
    head = text[:1024].lstrip("\ufeff \t\r\n").lower()
    return head.startswith(("<!doctype html", "<html", "<head", "<?xml")) and "<html" in text[:4096].lower()


def html_to_markdown(html: str, url: str, deadline: Deadline | None = None) -> str:
    """The content of a page as Markdown; empty if there is none. `url` is where it was found: links are relative to it.

    Raises: PageTooLargeError, if it is more work than a page may be.
    """
    deadline = Deadline() if deadline is None else deadline
    if is_too_deep(html, deadline):
        return _flat(html)
    tree = LexborHTMLParser(html)
    base = _base(tree, url)
    title = tree.css_first("title")
    for box in tree.css("li input[type=checkbox][disabled]"):  # of a list of tasks
        box.replace_with("[x] " if "checked" in box.attributes else "[ ] ")
    _remove(tree.css(NOISE))
    content = _content(tree)
    if content is None:
        return ""
    _settle_code(content, deadline)
    _settle_tables(content, deadline)
    _settle_tabs(content, deadline)
    _settle_headings(content, deadline)
    _settle_signatures(content, deadline)
    _settle_text(content, base, deadline)
    deadline.check()
    try:
        markdown = (convert(content.html or "", _options()).content or "").strip()
    except ConversionError as error:
        _log.warning("%s could not be written as Markdown, only as words: %s", url, error)
        markdown = _flat(content.html or "").strip()
    if not re.search(r"^# ", markdown, re.MULTILINE) and title is not None and title.text().strip():
        markdown = f"# {' '.join(title.text().split())}\n\n{markdown}"
    return f"{_BLANK_LINES.sub(chr(10) * 2, markdown).strip()}\n"


def _flat(html: str) -> str:
    """The words of a page that is too deep to be read as one."""
    text = unescape(re.sub(r"<[^<>]*>", "\n", html))
    return "\n".join(line for line in (" ".join(line.split()) for line in text.split("\n")) if line) + "\n"


def _base(tree: LexborHTMLParser, url: str) -> str:
    base = tree.css_first("base[href]")
    written = "" if base is None else base.attrs.get("href") or ""
    # One that is longer than any address could be is not meant to help.
    return (_joined(url, written) if 0 < len(written) <= _LONGEST_BASE else None) or url


def _joined(base: str, href: str) -> str | None:
    try:
        return urljoin(base, href)
    except ValueError:
        return None


def _content(tree: LexborHTMLParser) -> LexborNode | None:
    body = tree.body
    if body is None:
        return None
    whole = len(body.text())
    for selector in CONTENT:
        found = tree.css(selector)
        # Several articles are a list of teasers: the element around them is meant.
        if len(found) == 1 and len(found[0].text()) >= _LEAST_SHARE * whole:
            return found[0]
    _remove(body.css(FURNITURE))
    return body


def _remove(nodes: list[LexborNode]) -> None:
    """Take nodes out of the tree. The last first: what is inside another must go before it, or it is freed twice."""
    for node in reversed(nodes):
        node.decompose()


def _node(html: str, tag: str) -> LexborNode:
    found = LexborHTMLParser(html).css_first(tag)
    assert found is not None
    return found


def _settle_code(content: LexborNode, deadline: Deadline) -> None:
    """Every block of code as `pre` and `code` with its language: no spans, no line numbers, no tables around it."""
    for table in deadline.each(content.css("table.highlighttable")):
        block = table.css_first("td.code pre") or table.css_first("pre")
        if block is not None:
            table.replace_with(block)
    for block in deadline.each(content.css("pre")):
        for line_end in block.css("br"):
            line_end.replace_with("\n")
        text = block.text(deep=True).strip("\n")
        language = _language(block)
        kind = f' class="language-{escape(language, quote=True)}"' if language else ""
        block.replace_with(_node(f"<pre><code{kind}>{escape(text)}\n</code></pre>", "pre"))


def _language(block: LexborNode) -> str:
    """What the block, the code in it, or one of the three elements around it says."""
    inner = block.css_first("code")
    nodes: list[LexborNode | None] = [inner, block]
    above = block.parent
    for _ in range(3):
        nodes.append(above)
        above = above.parent if above is not None else None
    for node in nodes:
        if node is None or node.attributes is None:
            continue
        named = node.attributes.get("data-language") or node.attributes.get("data-lang")
        found = [named] if named else _LANGUAGE.findall(node.attributes.get("class") or "")
        for language in found:
            if language.lower() not in _NO_LANGUAGE:
                return str(language).lower()
    return ""


def _settle_tables(content: LexborNode, deadline: Deadline) -> None:
    """Tables that would become far larger than they are, as lines of their cells.

    A table in Markdown is as wide in every row as in its widest, and a cell that spans a thousand columns is a thousand
    cells: ten megabytes of that would become gigabytes.
    """
    spare = _SPARE_CELLS
    for table in deadline.each(reversed(content.css("table"))):  # the inner first, as in `_remove`
        rows = table.css("tr")
        lines = [[cell for cell in row.iter() if cell.tag in ("td", "th")] for row in deadline.each(rows)]
        width = max((sum(map(_span, line)) for line in lines), default=0)
        surplus = len(rows) * min(width, _WIDEST) - _MOST_PADDED * sum(map(len, lines))
        if surplus <= 0:
            continue
        if surplus <= spare:
            spare -= surplus
            continue
        shown = (" | ".join(escape(" ".join(cell.text().split())) for cell in line) for line in lines)
        table.replace_with(_node(f"<div>{''.join(f'<p>{line}</p>' for line in shown)}</div>", "div"))


def _span(cell: LexborNode) -> int:
    """How many columns a cell is wide."""
    written = cell.attributes.get("colspan") or ""
    return min(int(written), _WIDEST) if written.isdecimal() and len(written) < 10 else 1


def _settle_tabs(content: LexborNode, deadline: Deadline) -> None:
    """The label of each tab in bold above what it shows. The inner tabs first: then what is left belongs to the outer ones."""
    groups = content.css(_TABS)
    if len(groups) > _MOST_TABS:
        return
    marks = {group.mem_id for group in groups}
    if any(_depth_in(group, marks) > _DEEPEST_TABS for group in groups):
        return
    for group in deadline.each(reversed(groups)):
        for names, shown in _TAB_PARTS:
            labels, blocks = group.css(names), group.css(shown)
            if len(labels) == len(blocks):
                for label, block in zip(labels, blocks, strict=True):
                    _label_tab(label, block)


def _depth_in(group: LexborNode, marks: set[int]) -> int:
    """In how many of the groups with these marks a group stands, itself among them."""
    depth, above = 1, group.parent
    while above is not None:
        depth += above.mem_id in marks
        above = above.parent
    return depth


def _label_tab(label: LexborNode, block: LexborNode) -> None:
    text = escape(" ".join(label.text().split()))
    block.insert_before(_node(f"<p><strong>{text}</strong></p>", "p"))
    label.decompose()
    for mark in (
        "class",
        "role",
        "hidden",
    ):  # no tab any more; one that was not in front is content all the same
        if mark in block.attributes:
            del block.attrs[mark]


def _settle_headings(content: LexborNode, deadline: Deadline) -> None:
    """Each heading as text and code alone, with its anchor at the end."""
    for summary in deadline.each(content.css("summary")):
        if summary.css_first(_HEADINGS) is not None:
            summary.unwrap()  # it would be written in bold, stars and all
    headings = content.css(_HEADINGS)
    anchors = {
        heading.mem_id: _anchor(heading) for heading in deadline.each(headings)
    }  # before the links go that some stand in
    links = content.css("a.anchor, a[aria-label^='Permalink'], a[aria-label^='Direct link']")
    _remove([link for link in links if not link.text().strip(_PERMALINK)])
    for heading in deadline.each(reversed(headings)):  # the inner first, as in `_remove`
        anchor = anchors[heading.mem_id]
        text = _inline(heading)
        if not text:
            heading.decompose()
            continue
        mark = f" {{#{escape(anchor)}}}" if anchor else ""
        heading.replace_with(_node(f"<{heading.tag}>{text}{mark}</{heading.tag}>", heading.tag or "h1"))


def _inline(heading: LexborNode) -> str:
    """A heading's HTML with code kept and all other tags gone."""
    for code in heading.css("code"):
        code.replace_with(f"\x01{code.text()}\x02")
    text = escape(" ".join(heading.text().strip("¶ \n\t\u200b").split()), quote=False)
    return text.replace("\x01", "<code>").replace("\x02", "</code>").removesuffix("¶").strip()


def _anchor(heading: LexborNode) -> str:
    """The heading's own id; else that of an anchor in it, or of the section that it opens."""
    own = heading.attributes.get("id")
    if own:
        return own
    inner = heading.css_first("a[id], a[name], span[id]")
    if inner is not None:
        return inner.attributes.get("id") or inner.attributes.get("name") or ""
    section, before = heading.parent, heading.prev
    for _ in range(_MOST_EMPTY):
        if before is None or before.text().strip(_PERMALINK):
            break
        before = before.prev  # line ends, permalinks, and the empty spans that carry further ids
    if section is not None and before is None and section.tag in ("section", "div"):
        return section.attributes.get("id") or ""
    return ""


def _settle_signatures(content: LexborNode, deadline: Deadline) -> None:
    """What Sphinx writes for a function or class as a heading of its own, so that it can be found and read as a section.

    One level below the heading that it stands under, and a method one below its class: then the section of a class has its methods.
    """
    level = 1
    for node in deadline.each(content.css(f"{_HEADINGS}, dl > dt.sig[id]")):
        if node.tag != "dt":
            level = int((node.tag or "h1")[1])
            continue
        anchor = node.attributes.get("id") or ""
        text = escape(" ".join(node.text().replace("¶", "").replace("[source]", "").split()))
        if text and anchor:
            tag = f"h{min(level + 1 + _objects_above(node), 4)}"
            node.replace_with(_node(f"<{tag}><code>{text}</code> {{#{escape(anchor)}}}</{tag}>", tag))
        elif text:
            node.replace_with(text)


def _objects_above(term: LexborNode) -> int:
    """In how many documented objects one stands: a method is in its class."""
    count, above = 0, term.parent
    for _ in range(_MOST_ABOVE):
        above = above.parent if above is not None else None
        if above is None:
            break
        count += above.tag == "dd"
    return count


def _settle_text(content: LexborNode, base: str, deadline: Deadline) -> None:
    """Links absolute, pictures by their description, titles of notes in bold."""
    spare = _SPARE_CHARACTERS
    for link in deadline.each(content.css("a")):
        href = link.attributes.get("href") or ""
        is_link = bool(href) and spare > 0 and not href.startswith(("javascript:", "data:", "mailto:"))
        whole = _joined(base, href) if is_link else None
        spare -= max(0, len(whole or "") - len(href))
        if whole is None:
            link.unwrap()
        else:
            link.attrs["href"] = whole
    for picture in deadline.each(content.css("img")):
        described = (picture.attributes.get("alt") or "").strip()
        picture.replace_with(f"[{described}]") if described else picture.decompose()
    for kind in deadline.each(content.css("dt > .classifier")):
        kind.insert_before(" : ")  # what a theme writes by its style sheet: `x : int`
    for title in deadline.each(content.css(_TITLES)):
        title.replace_with(_node(f"<p><strong>{escape(' '.join(title.text().split()))}</strong></p>", "p"))
    for paragraph in deadline.each(content.css("p")):
        first = paragraph.first_child
        if first is not None and first.is_text_node and (first.text() or "").lstrip().startswith("#"):
            first.replace_with(f"\\{(first.text() or '').lstrip()}")  # it would read as a heading


__all__ = ["html_to_markdown", "is_html"]
