"""HTML pages of documentation sites to clean Markdown: the content alone, with its code, tables, links and anchors.

First the tree is cut down to the content and put in order (selectolax): navigation, sidebars, buttons and permalinks go; each block
of code becomes plain `pre` and `code` with its language; links become absolute; a heading ends with its anchor as `{#anchor}`, the
notation of Markdown's attribute lists, so that it stays with the text. Then it is written as Markdown (html-to-markdown).

The rows below are what Sphinx, MkDocs, Docusaurus, VitePress, mdBook, Starlight and their themes write. A site that is none of
them gets `article`, `main` or `body`.

Pure, and slow (a megabyte takes about half a second): call it in a thread. Must never know where HTML came from, beyond its address.
Above: `_documents`, `_indexes`. Below: selectolax, html-to-markdown.
"""

import logging
import re
from functools import cache
from html import escape, unescape
from typing import Final
from urllib.parse import urljoin

from html_to_markdown import ConversionError, ConversionOptions, convert
from selectolax.lexbor import LexborHTMLParser, LexborNode

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
        "a.headerlink, a.hash-link, a.header-anchor, a.anchor-heading, a.sl-anchor-link, a.viewcode-link",
        ".sphinxsidebar, .toc-drawer, .toc-tree, .related-pages, .prev-next-area, .breadcrumbs, .breadcrumb",
        ".md-sidebar, .md-source-file, .md-content__button, .md-feedback, .md-tags",
        ".theme-doc-toc-mobile, .theme-doc-breadcrumbs, .theme-doc-footer, .pagination-nav, .table-of-contents",
        ".edit-this-page, .vp-doc-footer, .line-numbers-wrapper, .linenos, .linenodiv, .copybtn, .skip-link, .skip-to-content",
        "div.language-text > span.lang, div[class*=language-] > span.lang, .content-icon-container, .buttons",
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
_HEADINGS: Final = "h1, h2, h3, h4"

# Of a table: how many columns the writer of Markdown writes at most, how many cells may stand for one that is there, and how
# many more than that there may be on a page: a wide headline over a small table is well.
_WIDEST: Final = 1000
_MOST_PADDED: Final = 10
_SPARE_CELLS: Final = 100_000
# By how much links may become longer in all: a page with ten thousand of them, on a site with a long address.
_SPARE_CHARACTERS: Final = 2_000_000
_LONGEST_BASE: Final = 2048
# Content that fills less than this share of the page's text was the wrong choice: a teaser, or an empty shell.
_LEAST_SHARE: Final = 0.1
# The parsing of HTML takes time by the square of the depth, and the writer stops at some thousand. Pages have fewer than 100.
_DEEPEST: Final = 500
_TAGS = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9]*)")
# Elements without an end tag, or that may leave it out: they do not nest, however many there are.
_UNCLOSED: Final = frozenset(
    [
        "area",
        "base",
        "br",
        "col",
        "embed",
        "hr",
        "img",
        "input",
        "link",
        "meta",
        "source",
        "track",
        "wbr",
        "p",
        "li",
        "dt",
        "dd",
        "tr",
        "td",
        "th",
        "tbody",
        "thead",
        "tfoot",
        "option",
        "colgroup",
        "caption",
        "rp",
        "rt",
        "path",
        "rect",
        "circle",
        "line",
        "polygon",
        "use",
        "g",
    ]
)
_BLANK_LINES = re.compile(r"\n{3,}")


@cache
def _options() -> ConversionOptions:
    return ConversionOptions(extract_metadata=False, autolinks=False, compact_tables=True)


def is_html(text: str) -> bool:
    """Whether a text is a whole HTML page, whatever its host calls it."""
    head = text[:1024].lstrip("\ufeff \t\r\n").lower()
    return head.startswith(("<!doctype html", "<html", "<head", "<?xml")) and "<html" in text[:4096].lower()


def html_to_markdown(html: str, url: str) -> str:
    """The content of a page as Markdown; empty if there is none. `url` is where it was found: links are relative to it."""
    if _is_too_deep(html):
        return _flat(html)
    tree = LexborHTMLParser(html)
    base = _base(tree, url)
    title = tree.css_first("title")
    _remove(tree.css(NOISE))
    content = _content(tree)
    if content is None:
        return ""
    _settle_code(content)
    _settle_tables(content)
    _settle_tabs(content)
    _settle_headings(content)
    _settle_signatures(content)
    _settle_text(content, base)
    try:
        markdown = (convert(content.html or "", _options()).content or "").strip()
    except ConversionError as error:
        _log.warning("%s could not be written as Markdown, only as words: %s", url, error)
        markdown = _flat(content.html or "").strip()
    if not re.search(r"^# ", markdown, re.MULTILINE) and title is not None and title.text().strip():
        markdown = f"# {' '.join(title.text().split())}\n\n{markdown}"
    return f"{_BLANK_LINES.sub(chr(10) * 2, markdown).strip()}\n"


def _is_too_deep(html: str) -> bool:
    """Whether elements are nested deeper than any page is. Found without a parser: parsing them is what takes for ever."""
    depth = 0
    for closing, tag in _TAGS.findall(html):
        if tag.lower() not in _UNCLOSED:
            depth += -1 if closing else 1
            if depth > _DEEPEST:
                return True
    return False


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


def _settle_code(content: LexborNode) -> None:
    """Every block of code as `pre` and `code` with its language: no spans, no line numbers, no tables around it."""
    for table in content.css("table.highlighttable"):
        block = table.css_first("td.code pre") or table.css_first("pre")
        if block is not None:
            table.replace_with(block)
    for block in content.css("pre"):
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


def _settle_tables(content: LexborNode) -> None:
    """Tables that would become far larger than they are, as lines of their cells.

    A table in Markdown is as wide in every row as in its widest, and a cell that spans a thousand columns is a thousand
    cells: ten megabytes of that would become gigabytes.
    """
    spare = _SPARE_CELLS
    for table in reversed(content.css("table")):  # the inner first, as in `_remove`
        rows = table.css("tr")
        lines = [[cell for cell in row.iter() if cell.tag in ("td", "th")] for row in rows]
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


def _settle_tabs(content: LexborNode) -> None:
    """The label of each tab in bold above what it shows."""
    for names, shown in (
        (".tabbed-labels > label", ".tabbed-content > .tabbed-block"),
        ("[role=tablist] > [role=tab]", "[role=tabpanel]"),
        (".tabs > label", ".blocks > *"),
    ):
        for group in content.css(".tabbed-set, .tabs-container, .vp-code-group"):
            labels, blocks = group.css(names), group.css(shown)
            if len(labels) != len(blocks):
                continue  # tabs inside tabs: better as they are than wrongly named
            for label, block in zip(labels, blocks, strict=True):
                text = escape(" ".join(label.text().split()))
                block.insert_before(_node(f"<p><strong>{text}</strong></p>", "p"))
                label.decompose()
                if "hidden" in block.attributes:
                    del block.attrs["hidden"]  # the tab is not in front, but it is content


def _settle_headings(content: LexborNode) -> None:
    """Each heading as text and code alone, with its anchor at the end."""
    for heading in reversed(content.css(_HEADINGS)):  # the inner first, as in `_remove`
        anchor = _anchor(heading)
        links = heading.css("a.anchor, a[aria-label^='Permalink'], a[aria-label^='Direct link']")
        _remove([link for link in links if not link.text().strip("¶#§ \u200b\n")])
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
    while before is not None and not before.text().strip():
        before = before.prev  # line ends, and the empty spans that carry further ids
    if section is not None and before is None and section.tag in ("section", "div"):
        return section.attributes.get("id") or ""
    return ""


def _settle_signatures(content: LexborNode) -> None:
    """What Sphinx writes for a function or class as a heading of its own, so that it can be found and read as a section."""
    for term in content.css("dl > dt.sig[id]"):
        anchor = term.attributes.get("id") or ""
        text = escape(" ".join(term.text().replace("¶", "").replace("[source]", "").split()))
        if text:
            term.replace_with(
                _node(f"<h4><code>{text}</code> {{#{escape(anchor)}}}</h4>", "h4") if anchor else text
            )


def _settle_text(content: LexborNode, base: str) -> None:
    """Links absolute, pictures by their description, titles of notes in bold."""
    spare = _SPARE_CHARACTERS
    for link in content.css("a"):
        href = link.attributes.get("href") or ""
        is_link = bool(href) and spare > 0 and not href.startswith(("javascript:", "data:", "mailto:"))
        whole = _joined(base, href) if is_link else None
        spare -= max(0, len(whole or "") - len(href))
        if whole is None:
            link.unwrap()
        else:
            link.attrs["href"] = whole
    for picture in content.css("img"):
        described = (picture.attributes.get("alt") or "").strip()
        picture.replace_with(f"[{described}]") if described else picture.decompose()
    for title in content.css(".admonition-title, .admonitionHeading, .custom-block-title"):
        title.replace_with(_node(f"<p><strong>{escape(' '.join(title.text().split()))}</strong></p>", "p"))
    for paragraph in content.css("p"):
        first = paragraph.first_child
        if first is not None and first.is_text_node and (first.text() or "").lstrip().startswith("#"):
            first.replace_with(f"\\{(first.text() or '').lstrip()}")  # it would read as a heading


__all__ = ["html_to_markdown", "is_html"]
