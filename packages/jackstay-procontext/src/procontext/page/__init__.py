"""Pages as agents read them: Markdown in lines, with headings, cut into windows; tables of contents; search.

`_markdown` lines and headings, `_windows` what goes into one answer, `_html` other people's HTML, `_indexes` and `_finding` tables of
contents, `_folders` sources on disk, `_documents` the whole. Knows nothing of MCP or of matching names.
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
