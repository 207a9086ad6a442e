"""What was fetched, kept on disk: pages with their headings, sections and search index, in one SQLite file.

`_rows` what is kept, `_store` the file and its misfortunes, `_room` what goes when it is full, `_cache` the same for the event loop.
Knows nothing of fetching.
"""

from typing import TYPE_CHECKING

from jackstay._lazy import lazy

if TYPE_CHECKING:
    from procontext.cache._cache import Cache
    from procontext.cache._rows import CacheStatus, Document, Section

__getattr__ = lazy(
    __name__, {"Cache": "_cache", "CacheStatus": "_rows", "Document": "_rows", "Section": "_rows"}
)

__all__ = ["Cache", "CacheStatus", "Document", "Section"]
