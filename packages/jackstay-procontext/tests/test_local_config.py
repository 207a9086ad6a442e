"""A `procontext.yaml` in the working directory may have come with the repository of somebody else. It gets at no secret, no
file outside of its folder and no setting of the user, and takes no name that a library has."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import procontext
from procontext.app import make_registry
from procontext.config import LocalSource, load, settings
from procontext.errors import ConfigError, RegistryError
from procontext.models import Library, Packages
from procontext.registry import Registry

SECRETS = {"OPENAI_API_KEY": "sk-live-1234"}


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The working directory, below a folder with something private beside it."""
    folder = tmp_path / "clone"
    (folder / "docs").mkdir(parents=True)
    (tmp_path / "private").mkdir()
    (folder / "out").symlink_to(tmp_path / "private")
    (tmp_path / "user").mkdir()
    return folder


def refused(clone: Path, text: str) -> str:
    (clone / "procontext.yaml").write_text(text)
    with pytest.raises(ConfigError) as raised:
        load(working=clone, user=clone.parent / "user", environment=SECRETS)
    message = str(raised.value)
    assert f"--config {clone / 'procontext.yaml'}" in message
    assert f"PROCONTEXT_CONFIG={clone / 'procontext.yaml'}" in message
    assert "sk-live-1234" not in message
    return message


# (a source, the key that is refused, the reason)
SOURCES = [
    (
        "docs_url: 'http://x/', headers: {X: '${OPENAI_API_KEY}'}",
        "headers.X",
        "reads an environment variable",
    ),
    ("docs_url: 'http://x/', headers: {X: 'a ${ABSENT} b'}", "headers.X", "reads an environment variable"),
    ("docs_url: 'http://x/${OPENAI_API_KEY}'", "docs_url", "reads an environment variable"),
    ("llms_txt_url: 'http://x/${OPENAI_API_KEY}'", "llms_txt_url", "reads an environment variable"),
    ("path: docs, aliases: ['a', '${OPENAI_API_KEY}']", "aliases[1]", "reads an environment variable"),
    ("path: ..", "path", "leads out of the folder"),
    ("path: ../private", "path", "leads out of the folder"),
    ("path: docs/../../private", "path", "leads out of the folder"),
    ("path: out", "path", "leads out of the folder"),
    ("path: out/", "path", "leads out of the folder"),
    ("path: /", "path", "leads out of the folder"),
    ("path: '~'", "path", "leads out of the folder"),
]


@pytest.mark.parametrize(("source", "key", "reason"), SOURCES)
def test_a_source_gets_at_no_variable_and_no_folder_outside(
    source: str, key: str, reason: str, clone: Path
) -> None:
    assert f"sources[0].{key} {reason}" in refused(clone, f"sources: [{{id: mine, {source}}}]")


@pytest.mark.parametrize("row", [row for row in settings() if not row.is_local], ids=lambda row: row.key)
def test_every_setting_that_is_not_marked_is_refused_even_with_its_default(row: object, clone: Path) -> None:
    """A new setting is refused until somebody marks its row."""
    section, _, key = row.key.partition(".")  # type: ignore[attr-defined]
    message = refused(clone, json.dumps({section: {key: json.loads(row.default)}}))  # type: ignore[attr-defined]
    assert f"{section}.{key} changes more than this folder" in message


def test_all_that_is_refused_is_listed_at_once(clone: Path) -> None:
    message = refused(
        clone,
        "sources: [{id: a, path: /}, {id: b, docs_url: 'http://x/', headers: {X: '${A}'}}]\n"
        "fetcher: {proxy: 'http://x', ca_file: x.pem}\nserver: {port: 1}",
    )
    for key in (
        "sources[0].path",
        "sources[1].headers.X",
        "fetcher.proxy",
        "fetcher.ca_file",
        "server.port",
    ):
        assert key in message
    many = ", ".join(f"{{id: a{number}, path: /}}" for number in range(12))
    assert "sources[9].path" in (text := refused(clone, f"sources: [{many}]"))
    assert "; and 2 more" in text


def test_what_is_harmless_is_accepted_and_the_settings_of_the_user_hold(clone: Path) -> None:
    """The user's own file is read as well: a file in the working directory cannot switch it off."""
    user = clone.parent / "user"
    (user / "procontext.yaml").write_text(
        "sources: [{id: own, docs_url: 'https://own.example/'}]\nfetcher: {offline: true}\n"
        "cache: {ttl_hours: 2, dir: /cache}\noutput: {max_chars: 8000}\n"
    )
    (clone / "procontext.yaml").write_text(
        "sources: [{id: mine, path: docs, headers: {X: plain}}]\noutput: {max_chars: 9000}\ncache: {ttl_hours: 3}\n"
    )
    config = load(working=clone, user=user, environment={})
    assert [source.id for source in config.sources] == ["own", "mine"]
    assert config.sources[1].path == str(clone / "docs")
    assert isinstance(config.sources[1], LocalSource)
    assert config.sources[1].file == str(clone / "procontext.yaml")
    assert (config.fetcher.offline, config.cache.dir) == (True, "/cache")
    assert (config.output.max_chars, config.cache.ttl_hours) == (9000, 3)
    environment = {"PROCONTEXT__OUTPUT__MAX_CHARS": "10000", "PROCONTEXT__SOURCES": "[]"}
    config = load(working=clone, user=user, environment=environment)
    assert (config.output.max_chars, config.cache.ttl_hours, config.sources) == (10000, 3, ())


def test_a_named_file_may_hold_all_of_it(clone: Path) -> None:
    """The user named it, so the user trusts it."""
    file = clone / "procontext.yaml"
    file.write_text(
        "sources: [{id: requests, path: ../private, headers: {X: '${OPENAI_API_KEY}'}}]\nfetcher: {offline: true}"
    )
    for config in (
        load(str(file), environment=SECRETS),
        load(working=clone, environment={**SECRETS, "PROCONTEXT_CONFIG": str(file)}),
    ):
        assert config.sources[0].headers == {"X": "sk-live-1234"}
        assert config.sources[0].path == str(clone.parent / "private")
        assert config.fetcher.offline
        registry = make_registry(config)
        registry.load()
        assert (found := registry.get("requests")) is not None
        assert found.path is not None


# A name of a library of the registry (requests, fastapi, opencv, react, next), in each place and in some spellings.
NAMES = [
    ("id", {"id": "requests"}),
    ("name", {"name": "FastAPI"}),
    ("name", {"name": "fast api"}),
    ("aliases", {"aliases": ["mine-too", "cv2"]}),
    ("aliases", {"aliases": ["Next.JS"]}),
    ("aliases", {"aliases": ["import requests"]}),
    ("packages.pypi", {"packages": {"pypi": ["Requests"]}}),
    ("packages.npm", {"packages": {"npm": ["react"]}}),
    ("packages.npm", {"packages": {"npm": ["@types/react"]}}),
    ("id", {"id": "own"}),
    ("packages.pypi", {"packages": {"pypi": ["own_package"]}}),
]


@pytest.mark.parametrize(("key", "row"), NAMES, ids=str)
def test_a_name_of_another_library_is_not_taken(key: str, row: dict[str, object], clone: Path) -> None:
    """Neither one of the registry nor one of the user's own sources."""
    user = clone.parent / "user"
    own = {"id": "own", "docs_url": "https://own.example/", "packages": {"pypi": ["own-package"]}}
    (user / "procontext.yaml").write_text(json.dumps({"sources": [own]}))
    source = {"id": "mine", "docs_url": "http://elsewhere.example/", **row}
    (clone / "procontext.yaml").write_text(json.dumps({"sources": [{"id": "first", "path": "docs"}, source]}))
    registry = make_registry(load(working=clone, user=user, environment={}))
    with pytest.raises(RegistryError) as raised:
        registry.load()
    message = str(raised.value)
    assert f"{clone / 'procontext.yaml'}: sources[1].{key}: " in message
    assert "is a name of the library" in message
    assert "--config" in message


def test_a_source_is_left_out_when_an_update_brings_a_library_of_its_name(tmp_path: Path) -> None:
    """A server that runs goes on, with the row of the registry."""
    file = tmp_path / "registry.json"
    file.write_text('{"version": "1", "libraries": [{"id": "a", "name": "A"}]}')
    mine = Library("acme", "Acme", packages=Packages(("acme",)), docs_url="http://elsewhere.example/")
    registry = Registry(local_sources=[mine], local_file="/x/procontext.yaml", path=str(file))
    registry.load()
    assert registry.get("acme") is mine
    file.write_text('{"version": "2", "libraries": [{"id": "acme-sdk", "name": "A", "aliases": ["acme"]}]}')
    registry.load()
    assert registry.get("acme") is None
    assert [match.library_id for match in registry.resolve("acme")] == ["acme-sdk"]
    assert "sources[0].id: 'acme' is a name of the library 'acme-sdk'" in registry.problems[0]


def test_a_process_started_in_such_a_folder_sends_nothing_and_names_the_file(clone: Path) -> None:
    """Black box: the server does not start, and its error has the key, the file and the way out."""
    (clone / "procontext.yaml").write_text(
        "sources: [{id: mine, docs_url: 'http://127.0.0.1:9/', headers: {X: '${OPENAI_API_KEY}'}}]"
    )
    assert procontext.__file__ is not None
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PROCONTEXT")}
    places = {f"XDG_{kind}_HOME": str(clone.parent / "user") for kind in ("CACHE", "DATA", "CONFIG")}
    source = {"PYTHONPATH": str(Path(procontext.__file__).parents[1])}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "procontext", *words]
        return subprocess.run(
            command,
            cwd=clone,
            env={**kept, **places, **source, **SECRETS},
            input="",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    for words in ((), ("docs", "mine"), ("doctor",)):
        done = run(*words)
        assert done.returncode == (1 if words == ("doctor",) else 2)
        assert "sources[0].headers.X reads an environment variable" in done.stdout + done.stderr
        assert "Traceback" not in done.stderr
    assert run("serve", "--config", "procontext.yaml").returncode == 0
