"""Pages of API documentation generators: Javadoc, rustdoc, TypeDoc and pdoc, rewritten to the elements of other pages.

Signatures become code or headings with anchors, tables made of `div` real tables, and what repeats other pages is
removed: source code, indexes of the page itself, and methods that a Rust type inherits from traits of other crates.
"""

from html import escape
from typing import Final

from selectolax.lexbor import LexborHTMLParser, LexborNode

from procontext.page._limits import Deadline

# Never content. The first row is Javadoc, then rustdoc, TypeDoc and pdoc.
API_NOISE: Final = (
    ".table-tabs, .sub-nav, .top-nav, a.skip-nav",
    ".rightside, .hideme, .rustdoc-breadcrumbs, a.test-arrow, rustdoc-toolbar, a.src, a.doc-anchor",
    "#synthetic-implementations, #synthetic-implementations-list",
    "#blanket-implementations, #blanket-implementations-list",
    ".tsd-breadcrumb, .tsd-sources, .tsd-navigation, .page-menu, .site-menu, a.tsd-anchor-icon, .tsd-theme-toggle",
    ".view-source-button, main.pdoc section > div.pdoc-code, main.pdoc .classattr > div.pdoc-code",
)
# Signatures that are shown as code, with the language of each.
_SIGNATURES: Final = (
    ("div.member-signature, div.type-signature", "java"),
    ("div.tsd-signature", "ts"),
)
# The columns of a summary table of Javadoc, at most.
_MAX_COLUMNS: Final = 4
# The last link of a method that a Rust type inherits, which leads to the documentation of its trait.
_INHERITED: Final = "Read more"


def normalize_api_page(content: LexborNode, deadline: Deadline) -> None:
    """Rewrite what these generators write in their own way."""
    for selector, language in _SIGNATURES:
        for signature in deadline.each(content.css(selector)):
            text = escape(signature.text().replace("\xa0", " ").strip())
            signature.replace_with(make_node(f'<pre><code class="language-{language}">{text}</code></pre>', "pre"))
    for table in deadline.each(content.css("div.summary-table")):
        _normalize_summary(table)
    remove_nodes(
        [
            method
            for method in deadline.each(content.css("#trait-implementations-list .method-toggle"))
            if any(link.text() == _INHERITED for link in method.css(".docblock a"))
        ]
    )
    for condition in deadline.each(content.css(".code-header .where")):
        condition.insert_before(" ")
    if content.css_first(".tsd-member") is not None:
        remove_nodes(content.css(".tsd-index-panel"))
    for tag in deadline.each(content.css("code.tsd-tag")):
        tag.insert_after(" ")
    for attribute in deadline.each(content.css("main.pdoc div.attr, .pdoc div.attr")):
        _normalize_attribute(attribute)


def _normalize_summary(table: LexborNode) -> None:
    """Turn the cells of a Javadoc summary, each a `div`, into rows."""
    cells = [cell for cell in table.iter() if cell.tag == "div"]
    heads = [cell for cell in cells if "table-header" in (cell.attributes.get("class") or "")]
    width = len(heads)
    if not 1 < width <= _MAX_COLUMNS or len(cells) % width:
        return
    rows = [cells[start : start + width] for start in range(0, len(cells), width)]
    lines = (
        "<tr>" + "".join(f"<{tag}>{cell.inner_html or ''}</{tag}>" for cell in row) + "</tr>"
        for row, tag in zip(rows, ("th", *("td",) * len(rows)), strict=False)
    )
    table.replace_with(make_node(f"<table>{''.join(lines)}</table>", "table"))


def _normalize_attribute(attribute: LexborNode) -> None:
    """Turn the signature of a module's member in pdoc into a heading; a method is one level below its class."""
    owner = attribute.parent
    anchor = "" if owner is None else owner.attributes.get("id") or ""
    text = escape(" ".join(attribute.text().split()))
    if owner is not None and anchor and text:
        tag = "h3" if owner.tag == "div" else "h2"
        heading = f'<{tag} id="{escape(anchor, quote=True)}"><code>{text}</code></{tag}>'
        attribute.replace_with(make_node(heading, tag))


def make_node(html: str, tag: str) -> LexborNode:
    """Return the first element with this tag in HTML."""
    found = LexborHTMLParser(html).css_first(tag)
    assert found is not None
    return found


def remove_nodes(nodes: list[LexborNode]) -> None:
    """Remove nodes from the tree. In reverse order, because a nested node must be freed before its parent."""
    for node in reversed(nodes):
        node.decompose()


__all__ = ["API_NOISE", "make_node", "normalize_api_page", "remove_nodes"]
