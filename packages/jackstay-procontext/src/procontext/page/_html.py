"""Conversion of HTML pages to Markdown: only the content, with its code, tables, links and anchors.

selectolax reduces the tree to the content and normalizes it; html-to-markdown writes the Markdown. A heading ends with
its anchor as `{#anchor}`. Pages of unknown generators fall back to `article`, `main` or `body`. Slow (0.5 s for a
megabyte): call it in a thread.
"""

import logging
import re
from collections.abc import Iterable
from functools import cache
from html import escape, unescape
from itertools import islice
from typing import Final
from urllib.parse import urljoin

from html_to_markdown import ConversionError, ConversionOptions, convert
from selectolax.lexbor import LexborHTMLParser, LexborNode

from procontext.page._api_pages import API_NOISE, make_node, normalize_api_page, remove_nodes
from procontext.page._limits import Deadline
from procontext.page._nesting import is_too_deep

_log = logging.getLogger(__name__)

# Selectors of the content, the most specific first.
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
    ".col-content",  # TypeDoc
    "#docs-content",  # Django
    "#yui-main",  # Django, built from its source
    "article",
    "main",
    "[role=main]",
    "#content",
)

# Elements that are never content.
NOISE: Final = ", ".join(
    (
        "script, style, noscript, template, svg, iframe, form, input, select, nav, canvas, dialog",
        "button:not([role=tab])",
        "[role=navigation], [role=search], [role=banner], [role=contentinfo]",
        "[hidden]:not([role=tabpanel]), [aria-hidden=true]",
        ".back-to-top, a.footnote-backref, a.headerlink, a.hash-link, a.header-anchor, a.anchor-heading",
        "a.sl-anchor-link, a.viewcode-link",
        ".sphinxsidebar, .toc-drawer, .toc-tree, .related-pages, .prev-next-area, .breadcrumbs, .breadcrumb",
        ".md-sidebar, .md-source-file, .md-content__button, .md-feedback, .md-tags",
        ".theme-doc-toc-mobile, .theme-doc-breadcrumbs, .theme-doc-footer, .pagination-nav, .table-of-contents",
        ".edit-this-page, .vp-doc-footer, .line-numbers-wrapper, .linenos, .linenodiv, .copybtn",
        ".skip-link, .skip-to-content",
        "div.language-text > span.lang, div[class*=language-] > span.lang, .content-icon-container, .buttons",
        "details.mkdocstrings-source",  # the folded source code
        *API_NOISE,
    )
)

# Removed only outside the content: inside, these tags are also used for content.
LANDMARKS: Final = "header, footer, aside"

_LANGUAGE = re.compile(r"(?:^|\s)(?:(?:language|lang|highlight-source|highlight)-|brush:\s?)([A-Za-z0-9+#_.-]+)")
# Classes that match the pattern above and are not languages.
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
# Languages that generators write as the only class: rustdoc and TypeDoc.
_BARE_LANGUAGES: Final = frozenset(("rust", "ts", "tsx", "js", "jsx", "json", "sh", "bash", "toml", "html", "css"))
# Groups of tabs, and the selectors of their labels and panels.
_TABS: Final = ".tabbed-set, .tabs-container, .vp-code-group, .sphinx-tabs"
_TAB_PARTS: Final = (
    (".tabbed-labels > label", ".tabbed-content > .tabbed-block"),
    ("[role=tablist] > [role=tab]", "[role=tabpanel]"),
    (".tabs > label", ".blocks > *"),
)
# The text of a permalink.
_PERMALINK: Final = "¶#§ \u200b\n\r\t"
# Titles of notes and other parts that are not headings.
_TITLES: Final = (
    ".admonition-title, [class*=admonitionHeading], .custom-block-title, p.rubric, .topic-title, .sidebar-title"
)
_HEADINGS: Final = "h1, h2, h3, h4, h5, h6"

# Limits of a table: the columns that html-to-markdown writes, the padding cells per real cell, and the padding cells
# that a page may have beyond that, so that a wide title row over a small table is accepted.
_MAX_COLUMNS: Final = 1000
_MAX_PADDING: Final = 10
_SPARE_CELLS: Final = 100_000
# Empty elements before the first heading of a section; Sphinx writes one for each label.
_MAX_EMPTY_SIBLINGS: Final = 50
# Tab groups on a page, and their nesting. Beyond these limits, labels stay where they are.
_MAX_TABS: Final = 2000
_MAX_TAB_DEPTH: Final = 3
# Ancestors that are searched for the class of a documented method.
_MAX_ANCESTORS: Final = 30
# The characters that absolute links may add in total.
_SPARE_CHARACTERS: Final = 2_000_000
_MAX_BASE_LENGTH: Final = 2048
# A content element with less than this share of the page's text is a teaser or an empty shell.
_MIN_CONTENT_SHARE: Final = 0.1
# Words of a page whose text is written by a script: "Loading, please wait".
_MAX_PLACEHOLDER_WORDS: Final = 3
_BLANK_LINES = re.compile(r"\n{3,}")


@cache
def _options() -> ConversionOptions:
    return ConversionOptions(extract_metadata=False, autolinks=False, compact_tables=True)


def is_html(text: str) -> bool:
    """Return whether a string is a complete HTML page, regardless of its media type."""
    head = text[:1024].lstrip("\ufeff \t\r\n").lower()
    return head.startswith(("<!doctype html", "<html", "<head", "<?xml")) and "<html" in text[:4096].lower()


def needs_javascript(html: str, markdown: str) -> bool:
    """Return whether a script writes the text of a page: its body has none but a word such as "Loading"."""
    if "<script" not in html.lower() or _is_long(line for line in markdown.splitlines() if not line.startswith("#")):
        return False
    body = LexborHTMLParser(html).body
    if body is None:
        return False
    remove_nodes(body.css("script, style, noscript, template"))
    return not _is_long([body.text(separator=" ")])


def _is_long(lines: Iterable[str]) -> bool:
    """Return whether lines have more words than a placeholder."""
    words = (word for line in lines for word in line.split())
    return next(islice(words, _MAX_PLACEHOLDER_WORDS, None), None) is not None


def html_to_markdown(html: str, url: str, deadline: Deadline | None = None) -> str:
    """Return the content of a page as Markdown, or "" if it has none. `url` is the base of relative links.

    Raises: PageTooLargeError if the page exceeds the limits.
    """
    deadline = Deadline() if deadline is None else deadline
    if is_too_deep(html, deadline):
        return _strip_tags(html)
    tree = LexborHTMLParser(html)
    base = _base(tree, url)
    title = tree.css_first("title")
    for box in tree.css("li input[type=checkbox][disabled]"):  # task lists
        box.replace_with("[x] " if "checked" in box.attributes else "[ ] ")
    remove_nodes(tree.css(NOISE))
    content = _content(tree)
    if content is None:
        return ""
    normalize_api_page(content, deadline)
    _normalize_code(content, deadline)
    _normalize_tables(content, deadline)
    _normalize_tabs(content, deadline)
    _normalize_headings(content, deadline)
    _normalize_signatures(content, deadline)
    _normalize_text(content, base, deadline)
    deadline.check()
    try:
        markdown = (convert(content.html or "", _options()).content or "").strip()
    except ConversionError as error:
        _log.warning("cannot convert %s to Markdown: %s; its plain text is used", url, error)
        markdown = _strip_tags(content.html or "").strip()
    if not re.search(r"^# ", markdown, re.MULTILINE) and title is not None and title.text().strip():
        markdown = f"# {' '.join(title.text().split())}\n\n{markdown}"
    return f"{_BLANK_LINES.sub(chr(10) * 2, markdown).strip()}\n"


def _strip_tags(html: str) -> str:
    """Return the plain text of a page that cannot be parsed or converted."""
    text = unescape(re.sub(r"<[^<>]*>", "\n", html))
    return "\n".join(line for line in (" ".join(line.split()) for line in text.split("\n")) if line) + "\n"


def _base(tree: LexborHTMLParser, url: str) -> str:
    base = tree.css_first("base[href]")
    href = "" if base is None else base.attrs.get("href") or ""
    return (_joined(url, href) if 0 < len(href) <= _MAX_BASE_LENGTH else None) or url


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
        # Several articles are a list of teasers.
        if len(found) == 1 and len(found[0].text()) >= _MIN_CONTENT_SHARE * whole:
            return found[0]
    remove_nodes(body.css(LANDMARKS))
    return body


def _normalize_code(content: LexborNode, deadline: Deadline) -> None:
    """Reduce every code block to `pre` and `code` with its language, without spans, line numbers and tables."""
    for table in deadline.each(content.css("table.highlighttable")):
        block = table.css_first("td.code pre") or table.css_first("pre")
        if block is not None:
            table.replace_with(block)
    for block in deadline.each(content.css("pre")):
        for line_break in block.css("br"):
            line_break.replace_with("\n")
        text = block.text(deep=True).strip("\n")
        language = _language(block)
        kind = f' class="language-{escape(language, quote=True)}"' if language else ""
        block.replace_with(make_node(f"<pre><code{kind}>{escape(text)}\n</code></pre>", "pre"))


def _language(block: LexborNode) -> str:
    """Return the language that the block, its code element or one of its three nearest ancestors declares."""
    inner = block.css_first("code")
    nodes: list[LexborNode | None] = [inner, block]
    ancestor = block.parent
    for _ in range(3):
        nodes.append(ancestor)
        ancestor = ancestor.parent if ancestor is not None else None
    for node in nodes:
        if node is None or node.attributes is None:
            continue
        named = node.attributes.get("data-language") or node.attributes.get("data-lang")
        found = [named] if named else _LANGUAGE.findall(node.attributes.get("class") or "")
        bare = _BARE_LANGUAGES.intersection((node.attributes.get("class") or "").split())
        for language in (*found, *bare):
            if language.lower() not in _NO_LANGUAGE:
                return str(language).lower()
    return ""


def _normalize_tables(content: LexborNode, deadline: Deadline) -> None:
    """Replace tables that would become far larger in Markdown by one line for each row.

    Every row of a Markdown table has as many cells as the widest, and a cell that spans a thousand columns becomes a
    thousand cells: ten megabytes of HTML could become gigabytes.
    """
    spare = _SPARE_CELLS
    for table in deadline.each(reversed(content.css("table"))):  # inner tables first, as in `remove_nodes`
        rows = table.css("tr")
        lines = [[cell for cell in row.iter() if cell.tag in ("td", "th")] for row in deadline.each(rows)]
        width = max((sum(map(_span, line)) for line in lines), default=0)
        surplus = len(rows) * min(width, _MAX_COLUMNS) - _MAX_PADDING * sum(map(len, lines))
        if surplus <= 0:
            continue
        if surplus <= spare:
            spare -= surplus
            continue
        shown = (" | ".join(escape(" ".join(cell.text().split())) for cell in line) for line in lines)
        table.replace_with(make_node(f"<div>{''.join(f'<p>{line}</p>' for line in shown)}</div>", "div"))


def _span(cell: LexborNode) -> int:
    """Return the number of columns of a cell."""
    colspan = cell.attributes.get("colspan") or ""
    return min(int(colspan), _MAX_COLUMNS) if colspan.isdecimal() and len(colspan) < 10 else 1


def _normalize_tabs(content: LexborNode, deadline: Deadline) -> None:
    """Move the label of each tab in bold above its panel, for inner groups first."""
    groups = content.css(_TABS)
    if len(groups) > _MAX_TABS:
        return
    ids = {group.mem_id for group in groups}
    if any(_depth_in(group, ids) > _MAX_TAB_DEPTH for group in groups):
        return
    for group in deadline.each(reversed(groups)):
        for label_selector, panel_selector in _TAB_PARTS:
            labels, panels = group.css(label_selector), group.css(panel_selector)
            if len(labels) == len(panels):
                for label, panel in zip(labels, panels, strict=True):
                    _label_tab(label, panel)
    remove_nodes(content.css("button"))  # labels of other groups


def _depth_in(group: LexborNode, ids: set[int]) -> int:
    """Return the nesting depth of a group within the groups with these ids, itself included."""
    depth, ancestor = 1, group.parent
    while ancestor is not None:
        depth += ancestor.mem_id in ids
        ancestor = ancestor.parent
    return depth


def _label_tab(label: LexborNode, panel: LexborNode) -> None:
    text = escape(" ".join(label.text().split()))
    panel.insert_before(make_node(f"<p><strong>{text}</strong></p>", "p"))
    label.decompose()
    for name in ("class", "role", "hidden"):  # not a tab any more, and a hidden panel is content too
        if name in panel.attributes:
            del panel.attrs[name]


def _normalize_headings(content: LexborNode, deadline: Deadline) -> None:
    """Reduce each heading to text and code, with its anchor at the end."""
    for summary in deadline.each(content.css("summary")):
        if summary.css_first(_HEADINGS) is not None:
            summary.unwrap()  # html-to-markdown would write the heading in bold
    headings = content.css(_HEADINGS)
    # Before the permalinks are removed, which have some of the anchors.
    anchors = {heading.mem_id: _anchor(heading) for heading in deadline.each(headings)}
    _unwrap_lists(headings)
    links = content.css("a.anchor, a[aria-label^='Permalink'], a[aria-label^='Direct link']")
    remove_nodes([link for link in links if not link.text().strip(_PERMALINK)])
    for heading in deadline.each(reversed(headings)):  # inner headings first, as in `remove_nodes`
        anchor = anchors[heading.mem_id]
        text = _inline(heading)
        if not text:
            heading.decompose()
            continue
        suffix = f" {{#{escape(anchor)}}}" if anchor else ""
        heading.replace_with(make_node(f"<{heading.tag}>{text}{suffix}</{heading.tag}>", heading.tag or "h1"))


def _unwrap_lists(headings: list[LexborNode]) -> None:
    """Remove the lists whose items all have headings: Javadoc and TypeDoc write sections so, not lists."""
    items: dict[int, LexborNode] = {}
    lists: dict[int, LexborNode] = {}
    for heading in headings:
        ancestor = heading.parent
        for _ in range(_MAX_ANCESTORS):
            if ancestor is None or ancestor.mem_id in items:
                break
            if ancestor.tag == "li" and ancestor.parent is not None and ancestor.parent.tag == "ul":
                items[ancestor.mem_id] = ancestor
                lists[ancestor.parent.mem_id] = ancestor.parent
            ancestor = ancestor.parent
    for node in reversed(lists.values()):
        children = [child for child in node.iter() if child.is_element_node]  # Javadoc has comments, too
        if all(child.mem_id in items for child in children):
            for child in children:
                child.unwrap()
            node.unwrap()


def _inline(heading: LexborNode) -> str:
    """Return the HTML of a heading with `code` as its only element."""
    if "code-header" in (heading.attributes.get("class") or "").split():  # a signature of rustdoc
        return f"<code>{escape(' '.join(heading.text().strip(_PERMALINK).split()), quote=False)}</code>"
    for code in heading.css("code"):
        code.replace_with(f"\x01{code.text()}\x02")
    text = escape(" ".join(heading.text().strip("¶ \n\t\u200b").split()), quote=False)
    return text.replace("\x01", "<code>").replace("\x02", "</code>").removesuffix("¶").strip()


def _anchor(heading: LexborNode) -> str:
    """Return the id of a heading, of an anchor in it, or of the section that it starts."""
    own_id = heading.attributes.get("id")
    if own_id:
        return own_id
    inner = heading.css_first("a[id], a[name], span[id]")
    if inner is not None:
        return inner.attributes.get("id") or inner.attributes.get("name") or ""
    after = heading.next
    if after is not None and after.is_text_node and not (after.text() or "").strip():
        after = after.next
    if after is not None and after.tag == "a" and "anchor" in (after.attributes.get("class") or "").split():
        return (after.attributes.get("href") or "").removeprefix("#")  # GitHub
    section, before = heading.parent, heading.prev
    for _ in range(_MAX_EMPTY_SIBLINGS):
        if before is None or before.text().strip(_PERMALINK):
            break
        before = before.prev  # newlines, permalinks, and empty spans with further ids
    if section is not None and before is None and section.tag in ("section", "div"):
        return section.attributes.get("id") or ""
    return ""


def _normalize_signatures(content: LexborNode, deadline: Deadline) -> None:
    """Turn the signatures of Sphinx into headings, so that functions and classes are sections.

    The level is one below the preceding heading, and one more for a method, so that the section of a class contains
    them.
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
            node.replace_with(make_node(f"<{tag}><code>{text}</code> {{#{escape(anchor)}}}</{tag}>", tag))
        elif text:
            node.replace_with(text)


def _objects_above(term: LexborNode) -> int:
    """Return the number of documented objects around a signature: a method is inside its class."""
    count, ancestor = 0, term.parent
    for _ in range(_MAX_ANCESTORS):
        ancestor = ancestor.parent if ancestor is not None else None
        if ancestor is None:
            break
        count += ancestor.tag == "dd"
    return count


def _normalize_text(content: LexborNode, base: str, deadline: Deadline) -> None:
    """Make links absolute, replace images by their description, and write titles of notes in bold."""
    spare = _SPARE_CHARACTERS
    for link in deadline.each(content.css("a")):
        href = link.attributes.get("href") or ""
        shown = link.attributes.get("title") or ""
        # Sphinx links each type of a signature to the documentation of its project, with the title "(in Python v3.14)".
        # Javadoc does the same, with "class or interface in java.util".
        is_link = bool(href) and spare > 0 and not shown.startswith(("(in ", "class or interface in "))
        is_link = is_link and not href.startswith(("javascript:", "data:", "mailto:"))
        if shown:
            del link.attrs["title"]
        absolute = _joined(base, href) if is_link else None
        spare -= max(0, len(absolute or "") - len(href))
        if absolute is None:
            link.unwrap()
        else:
            link.attrs["href"] = absolute
    for image in deadline.each(content.css("img")):
        description = (image.attributes.get("alt") or "").strip()
        image.replace_with(f"[{description}]") if description else image.decompose()
    for kind in deadline.each(content.css("dt > .classifier")):
        kind.insert_before(" : ")  # style sheets add this colon: `x : int`
    for term in deadline.each(content.css("dl > dt")):
        text = (term.inner_html or "").strip()
        if text and term.css_first(f"strong, b, p, div, pre, ul, {_HEADINGS}") is None:
            term.replace_with(make_node(f"<dt><strong>{text}</strong></dt>", "dt"))
    for title in deadline.each(content.css(_TITLES)):
        title.replace_with(make_node(f"<p><strong>{escape(' '.join(title.text().split()))}</strong></p>", "p"))
    for paragraph in deadline.each(content.css("p")):
        first = paragraph.first_child
        if first is not None and first.is_text_node and (first.text() or "").lstrip().startswith("#"):
            first.replace_with(f"\\{(first.text() or '').lstrip()}")  # it would become a heading


__all__ = ["html_to_markdown", "is_html", "needs_javascript"]
