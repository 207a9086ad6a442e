"""The registry: its file, private sources, and loading on a thread."""

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


def registry(version: str, *ids: str) -> bytes:
    return json.dumps(
        {"version": version, "libraries": [{"id": id, "name": id.upper()} for id in ids or ("a",)]}
    ).encode()


def test_bundled_registry_needs_no_network() -> None:
    found = Registry()
    assert (found.version, found.generation, len(found)) == ("unknown", 0, 0)
    found.load()
    assert found.origin == str(BUNDLED)
    assert found.generation == 1
    assert found.get("fastapi") is not None
    assert found.resolve("sklearn")[0].library_id == "scikit-learn"
    assert sum(1 for _ in found) == len(found) >= 400
    assert found.version in repr(found)


def test_documented_examples_resolve() -> None:
    """The examples are in docs/procontext.md."""
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
    """Case, spaces and version specifiers do not matter."""
    found = Registry()
    found.load()
    count = 0
    for library in found:
        for _, name in library.packages.names():
            for query in (
                name,
                name.upper(),
                f" {name} ",
                f"{name}@1" if name in library.packages.npm else f"{name}>=1",
            ):
                matches = found.resolve(query)
                own = [match.matched_via for match in matches if match.library_id == library.id]
                assert own == ["package_name"], query
                assert {match.relevance for match in matches} == {1.0}, query
            count += 1
    assert count > 500


def test_newer_download_is_used(tmp_path: Path) -> None:
    """An older download must not replace a newer bundled registry."""
    store = Store(tmp_path)
    store.replace(registry("2999.01.01"))
    found = Registry(store=store)
    found.load()
    assert (found.version, found.origin) == ("2999.01.01", str(tmp_path))
    store.replace(registry("1999.01.01"))
    found.load()
    assert found.origin == str(BUNDLED)
    assert found.generation == 2


def test_corrupt_download_falls_back_to_the_bundled_registry(tmp_path: Path) -> None:
    store = Store(tmp_path)
    state = store.replace(registry("2999.01.01"))
    (tmp_path / state.file).write_bytes(b"torn")
    found = Registry(store=store)
    found.load()
    assert found.origin == str(BUNDLED)
    assert len(found.problems) == 1
    assert "checksum" in found.problems[0]


def test_registry_path(tmp_path: Path) -> None:
    """If the file is invalid, no other registry is used."""
    file = tmp_path / "registry.json"
    file.write_bytes(registry("7", "x"))
    found = Registry(path=str(file))
    found.load()
    assert ([library.id for library in found], found.version) == (["x"], "7")
    file.write_bytes(b"torn")
    with pytest.raises(RegistryError):
        found.load()
    assert found.get("x") is not None
    file.unlink()
    with pytest.raises(RegistryError, match="cannot read the file"):
        Registry(path=str(file)).load()


def test_private_sources_take_precedence() -> None:
    """Private sources are merged into the registry and replace libraries with equal ids."""
    fastapi = Library(id="fastapi", name="Private FastAPI", packages=Packages(pypi=("fastapi",)), path="/docs")
    other = Library(id="other", name="Other", packages=Packages(npm=("react",)))
    found = Registry(sources=(fastapi, other))
    found.load()
    assert found.get("fastapi") is fastapi
    assert [match.name for match in found.resolve("fastapi")] == ["Private FastAPI"]
    assert {match.library_id for match in found.resolve("react")} == {"react", "other"}


async def test_load_on_a_thread() -> None:
    """`ready` waits for the thread."""
    found = Registry()
    results: list[object] = []
    thread = found.start(results.append)
    await found.ready()
    assert found.is_loaded
    assert len(found) >= 400
    thread.join(120)
    assert results == [None]
    await found.ready()


async def test_ready_raises_the_load_error(tmp_path: Path) -> None:
    found = Registry(path=str(tmp_path / "absent.json"))
    results: list[object] = []
    found.start(results.append).join(120)
    assert isinstance(results[0], RegistryError)
    with pytest.raises(RegistryError, match="cannot read the file"):
        await found.ready()


async def test_ready_waits_for_a_slow_load(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Registry()
    gate = threading.Event()
    real = Registry._find

    def slowly(self: Registry) -> object:
        gate.wait(120)
        return real(self)

    monkeypatch.setattr(Registry, "_find", slowly)
    thread = found.start()
    assert not found.is_loaded
    gate.set()
    await found.ready()
    thread.join(120)
    assert found.is_loaded


VERSIONS: list[tuple[str, str, bool]] = [
    ("2026.01.01", "2026.11.15", True),
    ("2026.11.15", "2026.11.15", False),
    ("2026.11.9", "2026.11.15", True),
    ("v2", "v10", True),
    ("3", "2.9", False),
    ("nightly", "2026.11.15", False),
    ("2026.11.15", "nightly", False),
]


def test_is_older() -> None:
    """Versions that are not dotted numbers have no order."""
    for version, other, expected in VERSIONS:
        assert is_older(version, other) is expected, version


async def test_fuzzy_index_is_built_off_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The index of 100,000 libraries takes seconds. Other queries are answered meanwhile."""
    resume, build = threading.Event(), Index._build_fuzzy

    def slow(self: Index) -> object:
        assert threading.current_thread() is not threading.main_thread()
        assert resume.wait(120)
        return build(self)

    monkeypatch.setattr(Index, "_build_fuzzy", slow)

    found = Registry()
    await asyncio.to_thread(found.load)
    waiting = asyncio.create_task(found.find("fasapi"))
    exact = await found.find("fastapi")  # does not need the fuzzy index
    assert [match.library_id for match in exact] == ["fastapi"]
    assert not waiting.done()
    resume.set()
    assert [match.library_id for match in await waiting] == ["fastapi"]
    assert (await found.find("fasapi"))[0].relevance == 0.92  # now on the event loop
