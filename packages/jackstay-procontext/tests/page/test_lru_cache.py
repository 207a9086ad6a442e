"""The in-memory cache of pages."""

from procontext.page import markdown_page
from procontext.page._lru_cache import CachedPage, LruCache


def cached(size: int) -> CachedPage:
    page = markdown_page("u", "x" * size)
    return CachedPage(page=page, etag="", last_modified="", fetched_at=0.0, checked_at=0.0)


def test_least_recently_used_page_is_evicted() -> None:
    cache = LruCache(max_characters=500)
    for key in "abc":
        cache.put(key, cached(100))
    assert cache.get("a") is not None
    cache.put("d", cached(100))
    assert cache.get("b") is None
    assert len(cache) == 3
    assert all(cache.get(key) is not None for key in "acd")


def test_page_larger_than_the_cache_is_not_added() -> None:
    cache = LruCache(max_characters=500)
    cache.put("a", cached(100))
    cache.put("b", cached(600))
    assert cache.get("b") is None
    assert cache.get("a") is not None


def test_put_replaces_and_drop_removes() -> None:
    cache = LruCache(max_characters=500)
    for _ in range(10):
        cache.put("a", cached(300))
    assert len(cache) == 1
    cache.drop("a")
    cache.drop("a")
    assert cache.get("a") is None
    cache.put("b", cached(440))
    assert cache.get("b") is not None
