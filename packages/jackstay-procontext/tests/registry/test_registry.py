"""The registry as everybody sees it: which file it is, private sources over it, loading behind the server's back."""

import asyncio
import json
import threading
from pathlib import Path

import pytest

from procontext.errors import RegistryError
from procontext.models import Library, Packages
from procontext.registry import BUNDLED, Registry, Store
from procontext.registry._registry import is_older
from procontext.resolve import Index
from scripted.loop import timed


def registry(version: str, *ids: str) -> bytes:
    return json.dumps(
        {"version": version, "libraries": [{"id": id, "name": id.upper()} for id in ids or ("a",)]}
    ).encode()


def test_the_bundled_one_needs_no_network_and_no_file() -> None:
    """Design, section 1: the first run works with no network."""
    found = Registry()
    assert (found.version, found.generation, len(found)) == ("unknown", 0, 0)
    found.load()
    assert found.origin == str(BUNDLED)
    assert found.generation == 1
    assert found.get("fastapi") is not None
    assert found.resolve("sklearn")[0].library_id == "scikit-learn"
    assert sum(1 for _ in found) == len(found) >= 400
    assert found.version in repr(found)


def test_each_example_of_the_reference_resolves() -> None:
    """Reference 2.3."""
    found = Registry()
    found.load()
    (match,) = found.resolve("langchain-openai>=0.3")
    assert (match.library_id, match.name, match.docs_url) == (
        "langchain",
        "LangChain",
        "https://docs.langchain.com",
    )
    assert (match.matched_via, match.relevance) == ("package_name", 1.0)
    (match,) = found.resolve("fasapi")
    assert (match.library_id, match.docs_url) == ("fastapi", "https://fastapi.tiangolo.com")
    assert (match.matched_via, match.relevance) == ("fuzzy", 0.92)
    assert found.resolve("xyzzy-nonexistent") == []


def test_every_package_name_resolves_exactly_to_its_library() -> None:
    """Every listed library resolves exactly by each of its package names, however it is written."""
    found = Registry()
    found.load()
    count = 0
    for library in found:
        for name in (*library.packages.pypi, *library.packages.npm):
            for typed in (
                name,
                name.upper(),
                f" {name} ",
                f"{name}@1" if name in library.packages.npm else f"{name}>=1",
            ):
                matches = found.resolve(typed)
                assert library.id in [match.library_id for match in matches], typed
                assert {(match.matched_via, match.relevance) for match in matches} == {
                    ("package_name", 1.0)
                }, typed
            count += 1
    assert count > 500


def test_a_newer_download_is_used_and_an_older_one_is_not(tmp_path: Path) -> None:
    """An old download must not hide what a newer installation brought."""
    store = Store(tmp_path)
    store.replace(registry("2999.01.01"))
    found = Registry(store=store)
    found.load()
    assert (found.version, found.origin) == ("2999.01.01", str(tmp_path))
    store.replace(registry("1999.01.01"))
    found.load()
    assert found.origin == str(BUNDLED)
    assert found.generation == 2


def test_a_broken_download_is_told_and_the_bundled_one_is_used(tmp_path: Path) -> None:
    """A corrupt file is no reason not to start."""
    store = Store(tmp_path)
    state = store.replace(registry("2999.01.01"))
    (tmp_path / state.file).write_bytes(b"torn")
    found = Registry(store=store)
    found.load()
    assert found.origin == str(BUNDLED)
    assert len(found.problems) == 1
    assert "checksum" in found.problems[0]


def test_the_file_of_the_settings_is_the_only_one(tmp_path: Path) -> None:
    """`registry.path`; if it is broken, nothing else is served in its place."""
    file = tmp_path / "mine.json"
    file.write_bytes(registry("7", "x"))
    found = Registry(path=str(file))
    found.load()
    assert ([library.id for library in found], found.version) == (["x"], "7")
    file.write_bytes(b"torn")
    with pytest.raises(RegistryError):
        found.load()
    assert found.get("x") is not None
    file.unlink()
    with pytest.raises(RegistryError, match="cannot be read"):
        Registry(path=str(file)).load()


def test_private_sources_come_first_and_win() -> None:
    """Design, section 2: merged into the registry, winning on equal ids."""
    mine = Library(id="fastapi", name="Our FastAPI", packages=Packages(pypi=("fastapi",)), path="/docs")
    other = Library(id="ours", name="Ours", packages=Packages(npm=("react",)))
    found = Registry(sources=(mine, other))
    found.load()
    assert found.get("fastapi") is mine
    assert [match.name for match in found.resolve("fastapi")] == ["Our FastAPI"]
    assert {match.library_id for match in found.resolve("react")} == {"react", "ours"}


@timed
async def test_it_loads_behind_the_servers_back_and_is_waited_for() -> None:
    """Design, section 3: answer before the registry is parsed."""
    found = Registry()
    told: list[object] = []
    thread = found.start(told.append)
    await found.ready()
    assert found.is_loaded
    assert len(found) >= 400
    thread.join(30)
    assert told == [None]
    await found.ready()


@timed
async def test_who_waits_is_told_that_there_will_be_none(tmp_path: Path) -> None:
    """A failure is kept for everybody who asks."""
    found = Registry(path=str(tmp_path / "absent.json"))
    told: list[object] = []
    found.start(told.append).join(30)
    assert isinstance(told[0], RegistryError)
    with pytest.raises(RegistryError, match="cannot be read"):
        await found.ready()


@timed
async def test_ready_waits_for_a_thread_that_takes_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop is free meanwhile."""
    found = Registry()
    gate = threading.Event()
    real = Registry._find

    def slowly(self: Registry) -> object:
        gate.wait(30)
        return real(self)

    monkeypatch.setattr(Registry, "_find", slowly)
    thread = found.start()
    assert not found.is_loaded
    gate.set()
    await found.ready()
    thread.join(30)
    assert found.is_loaded


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("2026.01.01", "2026.11.15", True),
        ("2026.11.15", "2026.11.15", False),
        ("2026.11.9", "2026.11.15", True),
        ("v2", "v10", True),
        ("3", "2.9", False),
        ("nightly", "2026.11.15", False),
        ("2026.11.15", "nightly", False),
    ],
)
def test_versions_are_compared_as_numbers_and_others_not_at_all(one: str, other: str, expected: bool) -> None:
    """A version that says no order is taken as it comes."""
    assert is_older(one, other) is expected


def test_a_misspelt_name_never_holds_up_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a hundred thousand libraries the names take seconds to be made ready; others are answered meanwhile."""
    go, made = threading.Event(), Index._make_likely

    def slow(self: Index) -> object:
        assert threading.current_thread() is not threading.main_thread()
        assert go.wait(30)
        return made(self)

    monkeypatch.setattr(Index, "_make_likely", slow)

    @timed
    async def check() -> None:
        found = Registry()
        await asyncio.to_thread(found.load)
        waiting = asyncio.create_task(found.find("fasapi"))
        exact = await found.find("fastapi")  # needs nothing of all that
        assert [match.library_id for match in exact] == ["fastapi"]
        assert not waiting.done()
        go.set()
        assert [match.library_id for match in await waiting] == ["fastapi"]
        assert (await found.find("fasapi"))[0].relevance == 0.92  # and now at once, on the loop

    check()
