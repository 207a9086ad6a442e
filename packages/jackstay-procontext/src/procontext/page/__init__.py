"""Pages as Markdown with headings, windows of pages, tables of contents, and search.

`_markdown` has lines and headings, `_windows` the part of a page that one result contains, `_html` the conversion of
HTML, `_indexes` and `_discovery` tables of contents, `_folders` local sources, `_documents` the implementation of
`Documents`.
"""

from typing import TYPE_CHECKING

from jackstay._lazy import lazy

if TYPE_CHECKING:
    from procontext.page._documents import LibraryDocuments
    from procontext.page._folders import files_in
    from procontext.page._markdown import markdown_page, text_lines
    from procontext.page._windows import section, window

__getattr__ = lazy(
    __name__,
    {
        "LibraryDocuments": "_documents",
        "files_in": "_folders",
        "markdown_page": "_markdown",
        "section": "_windows",
        "text_lines": "_markdown",
        "window": "_windows",
    },
)

__all__ = ["LibraryDocuments", "files_in", "markdown_page", "section", "text_lines", "window"]
