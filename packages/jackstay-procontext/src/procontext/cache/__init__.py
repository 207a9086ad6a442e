"""The page cache: pages with their headings, sections and search index, in one SQLite file.

`_rows` has the stored types, `_store` the file and its error handling, `_quota` eviction, `_cache` the asyncio API.
"""

from typing import TYPE_CHECKING

from jackstay._lazy import lazy

if TYPE_CHECKING:
    from procontext.cache._cache import Cache
    from procontext.cache._rows import CacheStatus, Document, Section

__getattr__ = lazy(__name__, {"Cache": "_cache", "CacheStatus": "_rows", "Document": "_rows", "Section": "_rows"})

__all__ = ["Cache", "CacheStatus", "Document", "Section"]
