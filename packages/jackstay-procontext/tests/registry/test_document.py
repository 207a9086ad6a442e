"""A registry file: what is taken, and what is refused with the name of the library."""

import json

import pytest

from procontext.errors import RegistryError
from procontext.registry import BUNDLED, checksum, read_document
from procontext.registry import _document as home


def document(*libraries: dict[str, object], version: object = "1", **more: object) -> bytes:
    rows = libraries or ({"id": "a", "name": "A"},)
    return json.dumps({"version": version, "libraries": rows, **more}).encode()


def test_a_registry_is_read_and_what_a_newer_one_has_is_skipped() -> None:
    """Reference, section 8: forward-compatible with newer registry files."""
    data = document({"id": "a", "name": "A", "popularity": 3}, schema=9)
    found = read_document(data, "x")
    assert (found.version, found.libraries[0].id) == ("1", "a")


# (bytes, what is said)
WRONG = [
    (b"", "is not a registry"),
    (b"[]", "is not a registry"),
    (b"{", "is not a registry"),
    (b'{"version": "\xff", "libraries": []}', "is not a registry"),
    (document(version=3), "is not a registry"),
    (document({"id": "a", "name": "A"}, {"id": "b"}), "(of library 2)"),
    (b'{"version": "1", "libraries": [{"id": "\xff", "name": "A"}]}', "(of library 1)"),
    (document(version=""), "has no version"),
    (document(version="a\nb"), "has no version"),
    (b'{"version": "1", "libraries": []}', "has no libraries"),
    (document({"id": "A", "name": "A"}), "library 'A' has an id"),
    (document({"id": "a\n", "name": "A"}), "has an id"),
    (document({"id": "a", "name": ""}), "library 'a' has no name"),
    (document({"id": "a", "name": "A"}, {"id": "a", "name": "B"}), "library 'a' is there twice"),
    (document({"id": "a", "name": "A", "path": "/etc"}), "only a private source may have"),
    (document({"id": "a", "name": "A", "headers": [["X", "y"]]}), "only a private source may have"),
    (document({"id": "a", "name": "A", "docs_url": "file:///etc"}), "has an address that cannot be used"),
    (
        document({"id": "a", "name": "A", "llms_txt_url": "https://u@h/"}),
        "has an address that cannot be used",
    ),
]


@pytest.mark.parametrize(("data", "said"), WRONG)
def test_what_is_no_registry_is_refused_with_a_reason(data: bytes, said: str) -> None:
    """A bad file never replaces a good one, so it must be recognised."""
    with pytest.raises(RegistryError) as raised:
        read_document(data, "the file")
    assert said in str(raised.value)
    assert str(raised.value).startswith("the file: ")


def test_a_file_beyond_all_measure_is_not_even_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound on what is read into memory."""
    monkeypatch.setattr(home, "MOST_BYTES", 10)
    with pytest.raises(RegistryError, match="at most 10 are read"):
        read_document(document(), "x")


def test_the_bundled_registry_is_sound_and_has_more_than_400_libraries() -> None:
    """The package's promise: at least 400 libraries, with a version of its own."""
    data = BUNDLED.read_bytes()
    found = read_document(data, "bundled")
    assert len(found.libraries) >= 400
    assert found.version.count(".") == 2
    assert len(checksum(data)) == 64
