"""Parsing and validation of registry files."""

import json

import msgspec
import pytest

from procontext.errors import RegistryError
from procontext.registry import BUNDLED, checksum, read_document
from procontext.registry import _document as module


def document(*libraries: dict[str, object], version: object = "1", **more: object) -> bytes:
    rows = libraries or ({"id": "a", "name": "A"},)
    return json.dumps({"version": version, "libraries": rows, **more}).encode()


def test_unknown_fields_are_ignored() -> None:
    """An older server can read a newer file."""
    data = document({"id": "a", "name": "A", "popularity": 3}, schema=9)
    found = read_document(data, "x")
    assert (found.version, found.libraries[0].id) == ("1", "a")


# (data, error)
INVALID = [
    (b"", "not a registry"),
    (b"[]", "contains no libraries"),
    (b"{", "not a registry"),
    (b'{"version": "\xff", "libraries": []}', "not a registry"),
    (document(version=3), "not a registry"),
    (document({"id": "a", "name": "A"}, {"id": "b"}), "(library number 2)"),
    (b'{"version": "1", "libraries": [{"id": "\xff", "name": "A"}]}', "(library number 1)"),
    (document(version=""), "invalid version"),
    (document(version="a\nb"), "invalid version"),
    (b'{"version": "1", "libraries": []}', "contains no libraries"),
    (document({"id": "A", "name": "A"}), "library 'A': the id must"),
    (document({"id": "a\n", "name": "A"}), "the id must"),
    (document({"id": "a", "name": ""}), "library 'a': the name is empty"),
    (document({"id": "a", "name": "A"}, {"id": "a", "name": "B"}), "library 'a': duplicate id"),
    (document({"id": "a", "name": "A", "path": "/etc"}), "only for private sources"),
    (document({"id": "a", "name": "A", "headers": [["X", "y"]]}), "only for private sources"),
    (document({"id": "a", "name": "A", "docs_url": "file:///etc"}), "invalid URL 'file:///etc'"),
    (document({"id": "a", "name": "A", "llms_txt_url": "https://u@h/"}), "invalid URL 'https://u@h/'"),
]


def test_invalid_registries(subtests: pytest.Subtests) -> None:
    for data, problem in INVALID:
        with subtests.test(data=data):
            with pytest.raises(RegistryError) as raised:
                read_document(data, "the file")
            assert problem in str(raised.value)
            assert str(raised.value).startswith("the file: ")


def test_size_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 10)
    with pytest.raises(RegistryError, match="the maximum is 10"):
        read_document(document(), "x")


def test_bundled_registry_has_400_libraries() -> None:
    data = BUNDLED.read_bytes()
    found = read_document(data, "bundled")
    assert len(found.libraries) >= 400
    assert found.version.count(".") == 2
    assert len(checksum(data)) == 64


def test_public_format() -> None:
    """An array of entries, as the public ProContext publishes it."""
    entries = [
        {"id": "knots", "name": "Knots ", "llms_txt_url": "https://knots.example/llms.txt", "aliases": ["tie"]},
        {
            "id": "sail",
            "name": "Sail",
            "description": None,
            "llms_txt_url": "https://sail.example/llms.txt",
            "llms_full_txt_url": "https://sail.example/llms-full.txt",
            "packages": [
                {
                    "ecosystem": "npm",
                    "languages": ["typescript"],
                    "package_names": ["@sail/core"],
                    "repo_url": "https://x",
                },
                {
                    "ecosystem": "pypi",
                    "languages": ["python"],
                    "package_names": ["sail"],
                    "readme_url": "https://x/README",
                },
                {"ecosystem": "cargo", "package_names": ["sail-rs"]},
                {"ecosystem": "hackage", "package_names": ["sail-hs"]},
            ],
        },
    ]
    document = read_document(msgspec.json.encode(entries), "file")
    knots, sail = document.libraries
    assert (document.version, knots.name, knots.aliases) == ("public", "Knots", ("tie",))
    assert list(sail.packages.names()) == [("pypi", "sail"), ("npm", "@sail/core"), ("crates", "sail-rs")]
    assert (sail.languages, sail.repo_url) == (("typescript", "python"), "https://x")
    with pytest.raises(RegistryError, match=r"missing required field `name`.* \(library number 1\)"):
        read_document(b'[{"id": "x"}]', "file")
    with pytest.raises(RegistryError, match="contains no libraries"):
        read_document(b"[]", "file")
