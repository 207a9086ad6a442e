"""A server with a folder of skills."""

from pathlib import Path
from typing import Any

import pytest

from jackstay import Server, connect
from jackstay.errors import JsonRpcError, UsageError
from jackstay.server import Skills
from jackstay.skills import MAX_FILES, digest_of

MANIFEST = b"---\nname: sums\ndescription: Add numbers\n---\nBody\n"


def write(folder: Path, **more: bytes) -> Path:
    skill = folder / "maths" / "sums"
    for name, data in {"SKILL.md": MANIFEST, "scripts/add.py": b"print(1)", "icon.bin": b"\xff", **more}.items():
        path = skill / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


async def test_skills_are_listed_and_their_files_are_resources(tmp_path: Path) -> None:
    server = Server("skilled", extensions=[Skills(write(tmp_path, **{".git/x": b"hidden"}))], ttl_ms=5)
    async with connect(server) as client:
        assert client.server_capabilities.extensions == {"io.modelcontextprotocol/skills": {"directoryRead": True}}
        listed = await client.submit("skills/list")
        assert (listed["ttlMs"], listed["cacheScope"]) == (5, "private")
        skills: Any = listed["skills"]
        (entry,) = skills
        uri = "skill://maths/sums/SKILL.md"
        assert (entry["uri"], entry["frontmatter"]) == (uri, {"name": "sums", "description": "Add numbers"})
        assert {row["uri"] for row in entry["resources"]} == {
            uri,
            "skill://maths/sums/scripts/add.py",
            "skill://maths/sums/icon.bin",
        }
        assert entry["resources"][0]["digest"] == digest_of(MANIFEST)
        assert (await client.submit("skills/get", {"uri": uri}))["skill"] == entry
        found = {resource.uri: resource for resource in await client.resources.list()}
        assert (found[uri].name, found[uri].description, found[uri].mime_type) == (
            "sums",
            "Add numbers",
            "text/markdown",
        )
        binary: Any = (await client.resources.read("skill://maths/sums/icon.bin")).contents[0]
        assert binary.blob == "/w=="


async def test_directories_are_read(tmp_path: Path) -> None:
    async with connect(Server("skilled", extensions=[Skills(write(tmp_path))])) as client:
        read: Any = await client.submit("resources/directory/read", {"uri": "skill://maths/sums"})
        assert {row["uri"]: row["mimeType"] for row in read["resources"]} == {
            "skill://maths/sums/SKILL.md": "text/markdown",
            "skill://maths/sums/icon.bin": "application/octet-stream",
            "skill://maths/sums/scripts": "inode/directory",
        }
        inner: Any = await client.submit("resources/directory/read", {"uri": "skill://maths/sums/scripts/"})
        assert [row["name"] for row in inner["resources"]] == ["add.py"]
        for method, params in (
            ("resources/directory/read", {"uri": "skill://maths/sums/SKILL.md"}),
            ("skills/get", {"uri": "skill://maths/never/SKILL.md"}),
            ("skills/list", {"cursor": "x"}),
        ):
            with pytest.raises(JsonRpcError) as refused:
                await client.submit(method, params)
            assert refused.value.code == -32602


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        (b"no frontmatter", "must begin with frontmatter"),
        (b"---\nname: other\ndescription: x\n---\n", "name must be that of its folder"),
        (b"---\nname: sums\n---\n", "description is missing"),
    ],
)
def test_an_invalid_skill_is_refused(tmp_path: Path, manifest: bytes, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Skills(write(tmp_path, **{"SKILL.md": manifest}))


def test_a_folder_without_skills_or_with_too_many_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no skill in"):
        Skills(tmp_path)
    with pytest.raises(UsageError, match="at most 512 files"):
        Skills(write(tmp_path, **{f"{number}.txt": b"" for number in range(MAX_FILES)}))
