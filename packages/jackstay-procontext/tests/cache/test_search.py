"""The ranking of sections, and the tables of libraries."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from procontext.cache import Document, Section
from procontext.cache._store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path)
    yield opened
    opened.close()


def put(store: Store, page: str, *sections: tuple[str, str], library_id: str = "lib") -> None:
    """Store a page with one section for each (heading, text)."""
    url = f"https://docs.example/{page}"
    parts = [Section(at, (page, heading), text, heading, 2) for at, (heading, text) in enumerate(sections, 1)]
    document = Document(key=url, kind="page", url=url, text="", fetched_at=1.0, checked_at=1.0)
    assert store.put(document, (library_id,) if library_id else (), parts)


def found(store: Store, query: str, library_id: str = "lib") -> list[str]:
    return [hit.heading_path[-1] for hit in store.search(library_id, query, 10)]


# More sections, so that a word of the query is rare.
OTHERS = [(f"Chapter {number}", f"About sails, rope {number} and paint.") for number in range(20)]


def test_question_with_stop_words_and_other_forms(store: Store) -> None:
    put(
        store,
        "a",
        ("Timeouts", "How long a request may take."),
        ("prepare(request)", "Takes a request, and a timeout."),
    )
    put(store, "b", *OTHERS, ("How do I paint?", "How do I use it and what is it for?"))
    assert found(store, "How do I set a timeout?")[0] == "Timeouts"


def test_work_of_a_search_is_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many frequent words, only the rarest are searched for; their number is estimated from the first sections."""
    monkeypatch.setattr("procontext.cache._search._SAMPLE", 4)
    put(store, "a", *((f"Part {at}", f"rope sail paint {'mast' if at % 2 else ''} deck hull") for at in range(40)))
    put(store, "b", ("Knots", "An anchor and a bowline."), ("Boom", "The anchor, a jib."), ("Fog", "A bowline."))
    query = "rope sail paint mast deck hull anchor bowline jib"
    assert len(found(store, query)) > 3
    monkeypatch.setattr("procontext.cache._search._MAX_OCCURRENCES", 10)
    assert set(found(store, query)) == {"Knots", "Boom", "Fog"}
    assert len(found(store, "rope sail paint")) > 3  # at least three words are searched for


def test_parts_of_names_are_words(store: Store) -> None:
    put(store, "a", *OTHERS, ("getUserById(id)", "Returns it."), ("Retries", "Set `maxRetryCount` to change it."))
    assert found(store, "user by id") == ["getUserById(id)"]
    assert found(store, "retry count") == ["Retries"]
    assert found(store, "getUserById") == ["getUserById(id)"]


def test_chinese_and_japanese_inside_a_run(store: Store) -> None:
    put(
        store,
        "a",
        ("网络", "请求默认会在三十秒后超时并重试。"),
        ("タイムアウト設定", "秒数を指定します。"),
        ("帆", "无关。"),
    )
    assert found(store, "超时") == ["网络"]
    assert found(store, "アウト設定") == ["タイムアウト設定"]
    assert found(store, "帆") == ["帆"]
    assert found(store, "桅杆") == []


def test_changes_are_ranked_low_unless_wanted(store: Store) -> None:
    put(store, "changelog.html", *OTHERS, ("Docking", "Docking a boat with docking lines."))
    put(store, "guide.html", ("Harbours", "Docking a boat."))
    assert found(store, "docking boat")[0] == "Harbours"
    assert found(store, "changelog docking boat")[0] == "Docking"


def test_copies_are_grouped(store: Store) -> None:
    text = "Close all connections of this pool, so that none stays open in the background of the program."
    for name in ("QueuePool", "NullPool", "StaticPool"):
        put(store, f"{name}.html", (f"{name}.dispose()", text))
    put(store, "other.html", *OTHERS, ("Pools", "Close a pool with dispose."))
    hits = store.search("lib", "dispose pool", 10)
    assert [len(hit.copies) for hit in hits] == [2, 0] or [len(hit.copies) for hit in hits] == [0, 2]
    copies = next(hit.copies for hit in hits if hit.copies)
    assert all(copy.endswith(".dispose()") for copy in copies)


def test_other_libraries_change_nothing(store: Store) -> None:
    """The statistics are those of the library: a word that is rare in it is rare, whatever else is stored."""
    put(store, "a", *OTHERS, ("Bowline", "A knot."), ("Paint", "Where the bowline is."))
    before = [(hit.url, hit.line, hit.score) for hit in store.search("lib", "bowline paint", 10)]
    put(store, "b", *((f"Bowline {number}", "bowline bowline") for number in range(200)), library_id="other")
    assert [(hit.url, hit.line, hit.score) for hit in store.search("lib", "bowline paint", 10)] == before


def test_page_without_library_is_found_after_it_joined(store: Store) -> None:
    put(store, "a", ("Bowline", "A knot."), library_id="")
    assert found(store, "bowline") == []
    store.join("lib", "https://docs.example/a")
    store.join("lib", "https://docs.example/a")
    store.join("other", "https://docs.example/a")
    assert found(store, "bowline") == found(store, "bowline", "other") == ["Bowline"]
    assert store.clean(2.0) == 1
    assert found(store, "bowline") == found(store, "bowline", "other") == []


def test_anchor_and_length_of_a_hit(store: Store) -> None:
    put(store, "a", ("Bowline", "A knot of [rope](https://elsewhere.example/hidden)."))
    (hit,) = store.search("lib", "bowline", 10)
    assert (hit.anchor, hit.lines, hit.copies) == ("Bowline", 2, ())
    assert "hidden" not in hit.snippet
    assert found(store, "hidden") == []
