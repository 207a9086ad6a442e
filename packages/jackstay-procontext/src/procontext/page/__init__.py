"""Pages as Markdown with headings, windows of pages, tables of contents, and search.

`_markdown` has lines and headings, `_windows` the part of a page that one result contains, `_html` the conversion of
HTML, `_indexes` and `_discovery` tables of contents, `_folders` local sources, `_documents` the implementation of
`Documents`.
"""

from jackstay._lazy import attach

__all__, __getattr__, __dir__ = attach(
    __name__,
    {
        "._documents": "LibraryDocuments",
        "._folders": "files_in",
        "._markdown": "markdown_page text_lines",
        "._windows": "fitting_part section window",
    },
)
