"""The documentation server with the official SDK's client, over stdio and HTTP: every tool, the envelope, the session's list.

The SDK is the one that `make interop` installs for its own peers; here it is the client in this process.
"""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import procontext

mcp = pytest.importorskip("mcp", reason="the official SDK is not installed; `make interop` installs it")

from mcp.client.stdio import StdioServerParameters, stdio_client  # noqa: E402  # after the question whether it is there
from mcp.client.streamable_http import streamablehttp_client  # noqa: E402

SETTINGS = "sources: [{id: ours, name: Our SDK, packages: {pypi: [our-sdk]}, path: ./docs}]\nfetcher: {offline: true}\n"
PAGE = "https://folder.procontext.invalid/ours/guide.md"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working directory with settings and a source."""
    (tmp_path / "procontext.yaml").write_text(SETTINGS)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "guide.md").write_text("# Guide\n\n## Install\n\npip install our-sdk\n")
    return tmp_path


def environment(folder: Path, **more: str) -> dict[str, str]:
    places = {f"XDG_{kind}_HOME": str(folder / kind.lower()) for kind in ("CACHE", "DATA", "CONFIG")}
    assert procontext.__file__ is not None
    return {**os.environ, "PYTHONPATH": str(Path(procontext.__file__).parents[1]), **places, **more}


async def walk(session: Any) -> None:
    """What an agent does, and what it meets when it does it wrong."""
    hello = await session.initialize()
    assert hello.serverInfo.name == "procontext"
    assert len(hello.instructions) < 2000
    names = [tool.name for tool in (await session.list_tools()).tools]
    assert names == ["resolve_library", "get_library_docs", "read_page", "search_docs"]

    async def call(name: str, **arguments: Any) -> Any:
        result = await session.call_tool(
            name, arguments
        )  # the SDK checks what comes back against the output schema
        (block,) = result.content
        said = json.loads(block.text)
        assert result.isError is ("error" in said)
        assert result.structuredContent == (None if result.isError else said)
        return said

    assert (await call("resolve_library", query="langchain-openai>=0.3"))["matches"][0][
        "library_id"
    ] == "langchain"
    assert (await call("resolve_library", query="fasapi"))["matches"][0]["relevance"] == 0.92
    assert await call("resolve_library", query="xyzzy-nonexistent") == {"matches": []}
    assert PAGE in (await call("get_library_docs", library_id="ours"))["content"]
    page = await call("read_page", url=PAGE, offset=3, limit=1)
    assert (page["content"], page["headings"]) == ("## Install", "1: # Guide\n3: ## Install")
    assert (await call("search_docs", library_id="ours", query="our-sdk"))["hits"]
    for name, arguments, code in (
        ("resolve_library", {"query": ""}, "INVALID_INPUT"),
        ("get_library_docs", {"library_id": "langchan"}, "LIBRARY_NOT_FOUND"),
        ("read_page", {"url": "https://internal.example.com/docs"}, "URL_NOT_ALLOWED"),
        ("read_page", {"url": PAGE.replace("guide", "absent")}, "PAGE_NOT_FOUND"),
    ):
        assert (await call(name, **arguments))["error"]["code"] == code
    (resource,) = (await session.list_resources()).resources
    (content,) = (await session.read_resource(resource.uri)).contents
    assert [row["library_id"] for row in json.loads(content.text)["resolved_libraries"]] == [
        "langchain",
        "fastapi",
    ]


def test_the_official_client_over_stdio(folder: Path) -> None:
    """Reference, 7.1."""

    async def talk() -> None:
        target = StdioServerParameters(
            command=sys.executable, args=["-m", "procontext"], env=environment(folder), cwd=str(folder)
        )
        async with stdio_client(target) as (reading, writing), mcp.ClientSession(reading, writing) as session:
            await walk(session)

    asyncio.run(talk())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the SDK's own, about the name of its function
def test_the_official_client_over_http(folder: Path) -> None:
    """Reference, 7.2, with a key."""
    key = "a-key-of-more-than-16-characters"
    settings = {"TRANSPORT": "http", "PORT": "0", "AUTH_ENABLED": "true", "AUTH_KEY": key}
    process = subprocess.Popen(
        [sys.executable, "-m", "procontext"],
        cwd=folder,
        env=environment(folder, **{f"PROCONTEXT__SERVER__{name}": value for name, value in settings.items()}),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        found = next(
            match for line in process.stderr if (match := re.search(r"http://\S+/mcp", line)) is not None
        )

        async def talk() -> None:
            headers = {"Authorization": f"Bearer {key}"}
            async with (
                streamablehttp_client(found[0], headers=headers) as (reading, writing, _),
                mcp.ClientSession(reading, writing) as session,
            ):
                await walk(session)

        asyncio.run(talk())
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        process.stderr.close()
