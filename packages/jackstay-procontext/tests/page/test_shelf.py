"""The pages that were read last."""

from procontext.page import markdown_page
from procontext.page._shelf import Kept, Shelf


def kept(size: int) -> Kept:
    page = markdown_page("u", "x" * size)
    return Kept(page=page, etag="", last_modified="", fetched_at=0.0, checked_at=0.0)


def test_the_page_not_asked_for_longest_goes_first() -> None:
    shelf = Shelf(room=500)
    for key in "abc":
        shelf.put(key, kept(100))
    assert shelf.get("a") is not None
    shelf.put("d", kept(100))
    assert shelf.get("b") is None
    assert len(shelf) == 3
    assert all(shelf.get(key) is not None for key in "acd")


def test_a_page_larger_than_the_room_is_not_kept() -> None:
    shelf = Shelf(room=500)
    shelf.put("a", kept(100))
    shelf.put("b", kept(600))
    assert shelf.get("b") is None
    assert shelf.get("a") is not None


def test_a_page_is_kept_once_and_can_be_dropped() -> None:
    shelf = Shelf(room=500)
    for _ in range(10):
        shelf.put("a", kept(300))
    assert len(shelf) == 1
    shelf.drop("a")
    shelf.drop("a")
    assert shelf.get("a") is None
    shelf.put("b", kept(440))
    assert shelf.get("b") is not None
