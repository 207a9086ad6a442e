"""A `procontext.yaml` in the working directory, which may come from an untrusted repository.

It must not get secrets, files outside its folder, or settings of the user, and must not replace libraries.
"""

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
    """The working directory, beside a private folder."""
    folder = tmp_path / "clone"
    (folder / "docs").mkdir(parents=True)
    (tmp_path / "private").mkdir()
    (folder / "out").symlink_to(tmp_path / "private")
    (tmp_path / "user").mkdir()
    return folder


def load_error(clone: Path, text: str) -> str:
    (clone / "procontext.yaml").write_text(text)
    with pytest.raises(ConfigError) as raised:
        load(working=clone, user=clone.parent / "user", environment=SECRETS)
    message = str(raised.value)
    assert f"--config {clone / 'procontext.yaml'}" in message
    assert f"PROCONTEXT_CONFIG={clone / 'procontext.yaml'}" in message
    assert "sk-live-1234" not in message
    return message


# (source, rejected key, reason)
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


def test_sources_cannot_read_variables_or_leave_the_folder(clone: Path, subtests: pytest.Subtests) -> None:
    for source, key, reason in SOURCES:
        with subtests.test(source=source):
            assert f"sources[0].{key} {reason}" in load_error(clone, f"sources: [{{id: local, {source}}}]")


def test_unmarked_settings_are_rejected(clone: Path, subtests: pytest.Subtests) -> None:
    """Default values are rejected too. A new setting is rejected until it is marked."""
    for row in settings():
        if not row.is_local:
            with subtests.test(key=row.key):
                section, _, key = row.key.partition(".")
                message = load_error(clone, json.dumps({section: {key: json.loads(row.default)}}))
                assert f"{section}.{key} changes more than this folder" in message


def test_all_rejected_keys_are_listed(clone: Path) -> None:
    message = load_error(
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
    assert "sources[9].path" in (text := load_error(clone, f"sources: [{many}]"))
    assert "; and 2 more" in text


def test_harmless_settings_are_merged(clone: Path) -> None:
    """The user's file is still read: a file in the working directory cannot replace it."""
    user = clone.parent / "user"
    (user / "procontext.yaml").write_text(
        "sources: [{id: own, docs_url: 'https://own.example/'}]\nfetcher: {offline: true}\n"
        "cache: {ttl_hours: 2, dir: /cache}\noutput: {max_chars: 8000}\n"
    )
    (clone / "procontext.yaml").write_text(
        "sources: [{id: local, path: docs, headers: {X: plain}}]\noutput: {max_chars: 9000}\ncache: {ttl_hours: 3}\n"
    )
    config = load(working=clone, user=user, environment={})
    assert [source.id for source in config.sources] == ["own", "local"]
    assert config.sources[1].path == str(clone / "docs")
    assert isinstance(config.sources[1], LocalSource)
    assert config.sources[1].file == str(clone / "procontext.yaml")
    assert (config.fetcher.offline, config.cache.dir) == (True, "/cache")
    assert (config.output.max_chars, config.cache.ttl_hours) == (9000, 3)
    environment = {"PROCONTEXT__OUTPUT__MAX_CHARS": "10000", "PROCONTEXT__SOURCES": "[]"}
    config = load(working=clone, user=user, environment=environment)
    assert (config.output.max_chars, config.cache.ttl_hours, config.sources) == (10000, 3, ())


def test_named_file_is_trusted(clone: Path) -> None:
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


# Names of libraries of the registry and of the user's sources, as each kind of name and in several spellings.
NAMES = [
    ("id", {"id": "requests"}),
    ("name", {"name": "FastAPI"}),
    ("name", {"name": "fast api"}),
    ("aliases", {"aliases": ["local-too", "cv2"]}),
    ("aliases", {"aliases": ["Next.JS"]}),
    ("aliases", {"aliases": ["import requests"]}),
    ("packages.pypi", {"packages": {"pypi": ["Requests"]}}),
    ("packages.npm", {"packages": {"npm": ["react"]}}),
    ("packages.npm", {"packages": {"npm": ["@types/react"]}}),
    ("id", {"id": "own"}),
    ("packages.pypi", {"packages": {"pypi": ["own_package"]}}),
]


def test_names_of_other_libraries_are_rejected(clone: Path, subtests: pytest.Subtests) -> None:
    """The other libraries are those of the registry and of the user's own sources."""
    user = clone.parent / "user"
    own = {"id": "own", "docs_url": "https://own.example/", "packages": {"pypi": ["own-package"]}}
    (user / "procontext.yaml").write_text(json.dumps({"sources": [own]}))
    for key, row in NAMES:
        with subtests.test(row=row):
            source = {"id": "local", "docs_url": "http://elsewhere.example/", **row}
            (clone / "procontext.yaml").write_text(json.dumps({"sources": [{"id": "first", "path": "docs"}, source]}))
            registry = make_registry(load(working=clone, user=user, environment={}))
            with pytest.raises(RegistryError) as raised:
                registry.load()
            message = str(raised.value)
            assert f"{clone / 'procontext.yaml'}: sources[1].{key}: " in message
            assert "is a name of the library" in message
            assert "--config" in message


def test_source_is_skipped_after_a_conflicting_update(tmp_path: Path) -> None:
    """A running server continues with the library of the registry."""
    file = tmp_path / "registry.json"
    file.write_text('{"version": "1", "libraries": [{"id": "a", "name": "A"}]}')
    source = Library("acme", "Acme", packages=Packages(("acme",)), docs_url="http://elsewhere.example/")
    registry = Registry(local_sources=[source], local_file="/x/procontext.yaml", path=str(file))
    registry.load()
    assert registry.get("acme") is source
    file.write_text('{"version": "2", "libraries": [{"id": "acme-sdk", "name": "A", "aliases": ["acme"]}]}')
    registry.load()
    assert registry.get("acme") is None
    assert [match.library_id for match in registry.resolve("acme")] == ["acme-sdk"]
    assert "sources[0].id: 'acme' is a name of the library 'acme-sdk'" in registry.problems[0]


def test_process_in_an_untrusted_folder(clone: Path) -> None:
    """The server does not start, and its error has the key, the file and the remedy."""
    (clone / "procontext.yaml").write_text(
        "sources: [{id: local, docs_url: 'http://127.0.0.1:9/', headers: {X: '${OPENAI_API_KEY}'}}]"
    )
    assert procontext.__file__ is not None
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PROCONTEXT")}
    directories = {f"XDG_{kind}_HOME": str(clone.parent / "user") for kind in ("CACHE", "DATA", "CONFIG")}
    source = {"PYTHONPATH": str(Path(procontext.__file__).parents[1])}

    def run(*argv: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "procontext", *argv]
        return subprocess.run(
            command,
            cwd=clone,
            env={**inherited, **directories, **source, **SECRETS},
            input="",
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    for argv in ((), ("docs", "local"), ("doctor",)):
        done = run(*argv)
        assert done.returncode == (1 if argv == ("doctor",) else 2)
        assert "sources[0].headers.X reads an environment variable" in done.stdout + done.stderr
        assert "Traceback" not in done.stderr
    assert run("serve", "--config", "procontext.yaml").returncode == 0
