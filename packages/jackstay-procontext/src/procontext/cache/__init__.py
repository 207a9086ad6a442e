"""The page cache: pages with their headings, sections and search index, in one SQLite file.

`_rows` has the stored types, `_store` the file and its error handling, `_quota` eviction, `_cache` the asyncio API.
"""

from jackstay._lazy import attach

__all__, __getattr__, __dir__ = attach(
    __name__,
    {
        "._cache": "Cache",
        "._rows": "Document Section",
        "._store": "FILE_NAME",
        "._terms": "heading_counter query_terms",
    },
)
