"""The client reads skills, and returns only what it has verified."""

from pathlib import Path
from typing import Any

import pytest

from jackstay import Context, Server, connect
from jackstay.client._lists import MAX_PAGES
from jackstay.errors import CapabilityError, ProtocolError
from jackstay.server import Skills
from jackstay.sync import connect as connect_blocking

MANIFEST = b"---\nname: sums\ndescription: Add numbers\n---\nBody\n"


def skilled(folder: Path, middleware: Any = ()) -> Server:
    (folder / "sums").mkdir()
    (folder / "sums" / "SKILL.md").write_bytes(MANIFEST)
    (folder / "sums" / "icon.bin").write_bytes(b"\xff")
    return Server("skilled", middleware=middleware, extensions=[Skills(folder)])


async def test_a_skill_is_loaded_and_its_files_are_read(tmp_path: Path) -> None:
    reads: list[str] = []

    async def note(ctx: Context, call_next: Any) -> bytes:
        if ctx.method == "resources/read":
            reads.append(str(ctx.params["uri"]))
        result: bytes = await call_next()
        return result

    async with connect(skilled(tmp_path, note)) as client:
        (skill,) = await client.skills.list()
        assert reads == []  # nothing is read before it is needed
        assert await client.skills.get(skill.uri) == skill
        assert await client.skills.load(skill) == MANIFEST.decode()
        assert await client.skills.read(skill, "skill://sums/icon.bin") == b"\xff"
        assert reads == ["skill://sums/SKILL.md", "skill://sums/icon.bin"]


async def test_content_that_does_not_match_is_not_returned(tmp_path: Path) -> None:
    results = [
        b'{"contents":[{"uri":"skill://sums/SKILL.md","text":"other"}]}',
        b'{"contents":[{"uri":"skill://sums/other","text":"other"}]}',
    ]

    async def replace(ctx: Context, call_next: Any) -> bytes:
        if ctx.method == "resources/read":
            return results.pop(0)
        if ctx.method == "skills/get":
            return b'{"skill":{"uri":1}}'
        result: bytes = await call_next()
        return result

    async with connect(skilled(tmp_path, replace)) as client:
        (skill,) = await client.skills.list()
        with pytest.raises(ProtocolError, match="has 5 bytes"):
            await client.skills.load(skill)
        with pytest.raises(ProtocolError, match="no content for"):
            await client.skills.load(skill)
        with pytest.raises(ProtocolError, match="invalid skill entry"):
            await client.skills.get(skill.uri)


async def test_pages_are_followed_up_to_a_limit(tmp_path: Path) -> None:
    async def page(ctx: Context, call_next: Any) -> bytes:
        if ctx.method != "skills/list":
            result: bytes = await call_next()
            return result
        number = int(str(ctx.params.get("cursor", "0"))) + 1
        entry = b'{"uri":"skill://s/SKILL.md","frontmatter":{},"resources":"dynamic"}'
        return b'{"skills":[%b]%b}' % (entry, ending if number > 5 else b',"nextCursor":"%d"' % number)

    ending = b""
    async with connect(skilled(tmp_path, page)) as client:
        assert len(await client.skills.list()) == 6
        ending = b',"nextCursor":"3"'
        with pytest.raises(ProtocolError, match="the server returned the same cursor twice"):
            await client.skills.list()
    async with connect(skilled(tmp_path / "sums", page), max_list_entries=3) as client:
        with pytest.raises(ProtocolError, match="max_list_entries"):
            await client.skills.list()


async def test_empty_pages_without_end_are_refused(tmp_path: Path) -> None:
    count = 0

    async def page(ctx: Context, call_next: Any) -> bytes:
        nonlocal count
        if ctx.method != "skills/list":
            result: bytes = await call_next()
            return result
        count += 1
        return b'{"skills":[],"nextCursor":"%d"}' % count

    async with connect(skilled(tmp_path, page)) as client:
        with pytest.raises(ProtocolError, match="more than 1000 pages"):
            await client.skills.list()
    assert count == MAX_PAGES


async def test_a_server_without_skills_is_refused() -> None:
    async with connect(Server("plain")) as client:
        with pytest.raises(CapabilityError, match="skills"):
            await client.skills.list()


def test_blocking_code_has_the_same_methods(tmp_path: Path) -> None:
    with connect_blocking(skilled(tmp_path)) as client:
        (skill,) = client.skills.list()
        assert client.skills.load(skill) == MANIFEST.decode()
