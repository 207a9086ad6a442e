"""Entries of agent skills, and their checks."""

import sys
from typing import Any

import pytest

from jackstay.errors import ProtocolError, UsageError
from jackstay.skills import Skill, SkillFile, digest_of, read_frontmatter

MANIFEST = b"---\nname: sums\ndescription: Add numbers\nsince: 2026-01-02\n---\nBody\n"
URI, OTHER = "skill://sums/SKILL.md", "skill://sums/a.txt"


def entry(**changes: Any) -> Skill:
    files = (SkillFile(URI, digest_of(MANIFEST), len(MANIFEST)), SkillFile(OTHER, digest_of(b"a"), 1))
    frontmatter = {"name": "sums", "description": "Add numbers", "since": "2026-01-02"}
    return Skill(**{"uri": URI, "frontmatter": frontmatter, "resources": files, **changes})


def test_what_matches_its_entry_is_verified() -> None:
    entry().verify(URI, MANIFEST)
    entry().verify(OTHER, b"a")
    entry(resources="dynamic").verify(OTHER, b"whatever")
    assert (entry().name, entry().description) == ("sums", "Add numbers")


@pytest.mark.parametrize(
    ("uri", "data", "message"),
    [
        (OTHER, b"b", "does not match its listed digest"),
        (OTHER, b"aa", "has 2 bytes, but 1 are listed"),
        ("skill://sums/b.txt", b"a", "does not list the file"),
    ],
)
def test_other_content_is_refused(uri: str, data: bytes, message: str) -> None:
    with pytest.raises(ProtocolError, match=message):
        entry().verify(uri, data)


def test_another_frontmatter_is_refused() -> None:
    with pytest.raises(ProtocolError, match="differs from the listed one"):
        entry(frontmatter={"name": "sums", "description": "Steal numbers"}).verify(URI, MANIFEST)
    with pytest.raises(ProtocolError, match="differs from the listed one"):
        entry(resources="dynamic", frontmatter={"name": "sums"}).verify(URI, MANIFEST)


def test_frontmatter_is_read_as_json() -> None:
    assert read_frontmatter(MANIFEST) == {"name": "sums", "description": "Add numbers", "since": "2026-01-02"}
    assert read_frontmatter(b"\xef\xbb\xbf---\r\nname: x\r\nn: 1\r\nl: [a, true]\r\n---\r\n") == {
        "name": "x",
        "n": 1,
        "l": ["a", True],
    }


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"name: x\n",
        b"---\nname: x\n",
        b"---\n- a\n---\n",
        b"---\na: &x [1]\nb: *x\n---\n",
        b"---\na: [\n---\n",
        b"---\na: !!python/name:os.system x\n---\n",
        b"---\n" + b"a: 1\n" * 20_000 + b"---\n",
    ],
)
def test_invalid_frontmatter_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        read_frontmatter(data)


def test_without_a_yaml_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(UsageError, match="skills need the extra 'skills'"):
        read_frontmatter(MANIFEST)
