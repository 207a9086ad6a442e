"""The documented workflow and error codes, with a client over stdio and HTTP.

The documentation of LangChain is a site on loopback, configured as a private source.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import procontext
from jackstay import Client, __version__, connect, http, stdio
from procontext.registry import checksum
from procontext.tools import TOOL_ROWS
from scripted.documentation import Site, redirect, status, text

LLMS_TXT = """\
# Docs by LangChain

## Concepts

- [Chat Models]({url}/docs/concepts/chat_models.md): Interface for language models.
- [Streaming]({url}/docs/concepts/streaming.md): Stream model outputs as they are generated.
"""
STREAMING = "\n".join(
    {
        1: "# Streaming",
        3: "## Overview",
        12: "## Streaming with Chat Models",
        18: "### Using .stream()",
        27: "### Using .astream()",
        35: "## Streaming with Chains",
    }.get(number, f"line {number}" if number % 2 or number == 42 else "")
    for number in range(1, 43)
)
HEADINGS = (
    "1: # Streaming\n3: ## Overview\n12: ## Streaming with Chat Models\n18: ### Using .stream()\n"
    "27: ### Using .astream()\n35: ## Streaming with Chains"
)
PATH = "/docs/concepts/streaming.md"

both = pytest.mark.parametrize("transport", ["stdio", "http"])


def environment(folder: Path, **more: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PROCONTEXT__")}
    directories = {f"XDG_{kind}_HOME": str(folder / kind.lower()) for kind in ("CACHE", "DATA", "CONFIG")}
    assert procontext.__file__ is not None
    variables = {"PYTHONPATH": str(Path(procontext.__file__).parents[1]), "PROCONTEXT_CONFIG": "procontext.yaml"}
    return {**inherited, **variables, **directories, **more}


def write_settings(folder: Path, site: Site, **source: str) -> None:
    row = {"id": "langchain", "name": "LangChain", "packages": {"pypi": ["langchain", "langchain-openai"]}}
    urls = {"docs_url": site.url, "llms_txt_url": f"{site.url}/llms.txt", **source}
    (folder / "procontext.yaml").write_text(
        json.dumps(
            {
                "sources": [{**row, "languages": ["python"], **urls}],
                "fetcher": {"allowed_private_hosts": [f"127.0.0.1:{site.port}"]},
            }
        )
    )


@asynccontextmanager
async def connected(transport: str, folder: Path, version: str | None = None, **more: str) -> AsyncIterator[Client]:
    """Connect a client to a server process, in a protocol revision if one is given."""
    options = {} if version is None else {"versions": (version,)}
    if transport == "stdio":
        target = stdio(sys.executable, "-m", "procontext", cwd=str(folder), env=environment(folder, **more))
        async with connect(target, **options) as client:
            yield client
        return
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "procontext", "serve", "--transport", "http", "--port", "0"),
        cwd=folder,
        env=environment(folder, **more),
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        url = None
        while url is None:
            url = re.search(r"http://\S+/mcp", (await process.stderr.readline()).decode())
        async with connect(http(url[0]), **options) as client:
            yield client
    finally:
        process.terminate()
        await process.communicate()


async def call(client: Client, name: str, **arguments: Any) -> Any:
    result = await client.tools.call(name, arguments, raise_on_error=False)
    value = json.loads(result.error_text or result.text)
    assert bool(result.is_error) is ("error" in value)
    return value


@both
async def test_documented_examples(transport: str, tmp_path: Path) -> None:
    """Cache misses, cache hits, and jumps to a section."""
    async with Site({PATH: text(STREAMING)}) as site:
        site.routes["/llms.txt"] = text(LLMS_TXT.format(url=site.url), "text/plain")
        write_settings(tmp_path, site)
        async with connected(transport, tmp_path) as client:
            await replay(client, site)


async def replay(client: Client, site: Site) -> None:
    found = await call(client, "resolve_library", query="langchain-openai>=0.3")
    assert found == {
        "matches": [
            {
                "library_id": "langchain",
                "name": "LangChain",
                "languages": ["python"],
                "docs_url": site.url,
                "matched_via": "package_name",
                "relevance": 1.0,
                "version": ">=0.3",
            }
        ]
    }
    (typo,) = (await call(client, "resolve_library", query="fasapi"))["matches"]
    assert typo == {
        "library_id": "fastapi",
        "name": "FastAPI",
        "languages": ["python"],
        "docs_url": "https://fastapi.tiangolo.com",
        "matched_via": "fuzzy",
        "relevance": 0.92,
    }
    assert await call(client, "resolve_library", query="xyzzy-nonexistent") == {"matches": []}

    miss = await call(client, "get_library_docs", library_id="langchain")
    content = LLMS_TXT.format(url=site.url)
    assert (miss["library_id"], miss["name"], miss["content"]) == ("langchain", "LangChain", content)
    assert (miss["cached"], miss["cached_at"], miss["stale"]) == (False, None, False)
    hit = await call(client, "get_library_docs", library_id="langchain")
    assert (hit["content"], hit["cached"], hit["stale"]) == (content, True, False)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", hit["cached_at"])

    url = site.url + PATH
    first = await call(client, "read_page", url=url)
    assert (first["url"], first["headings"], first["content"]) == (url, HEADINGS, STREAMING)
    assert (first["total_lines"], first["offset"], first["limit"]) == (42, 1, 2000)
    assert (first["cached"], first["cached_at"], first["stale"]) == (False, None, False)
    jump = await call(client, "read_page", url=url, offset=18, limit=10)
    assert (jump["headings"], jump["total_lines"], jump["offset"], jump["limit"]) == (HEADINGS, 42, 18, 10)
    assert jump["content"].startswith("### Using .stream()\n")
    assert jump["content"].count("\n") == 9
    assert (jump["cached"], jump["stale"]) == (True, False)
    section = await call(client, "read_page", url=url, heading="Streaming with Chains")
    assert section["content"].startswith("## Streaming with Chains\n")
    assert site.paths.count(PATH) == 1


@both
async def test_stale_while_revalidate(transport: str, tmp_path: Path) -> None:
    async with Site() as site:
        site.routes["/llms.txt"] = text(LLMS_TXT.format(url=site.url), "text/plain")
        write_settings(tmp_path, site)
        async with connected(transport, tmp_path, PROCONTEXT__CACHE__TTL_HOURS="0.000001") as client:
            await call(client, "get_library_docs", library_id="langchain")
            stale = await call(client, "get_library_docs", library_id="langchain")
            while not stale["stale"]:  # the TTL is 3.6 milliseconds
                stale = await call(client, "get_library_docs", library_id="langchain")
            assert stale["cached"] is True
            assert stale["cached_at"] is not None
            while site.paths.count("/llms.txt") < 2:
                await client.ping()


# (response for /llms.txt, error code, recoverable)
INDEX_ROWS = [
    (status(404), "LLMS_TXT_NOT_FOUND", False),
    (status(500), "LLMS_TXT_FETCH_FAILED", True),
    (status(503), "LLMS_TXT_FETCH_FAILED", True),
    (redirect("/llms.txt"), "TOO_MANY_REDIRECTS", False),
]


@pytest.mark.parametrize(("route", "code", "recoverable"), INDEX_ROWS)
async def test_index_failures(route: Any, code: str, recoverable: bool, tmp_path: Path) -> None:
    async with Site({"/llms.txt": route}) as site:
        write_settings(tmp_path, site)
        async with connected("stdio", tmp_path) as client:
            error = (await call(client, "get_library_docs", library_id="langchain"))["error"]
    assert (error["code"], error["recoverable"]) == (code, recoverable)


async def test_unreachable_host_is_recoverable(tmp_path: Path) -> None:
    async with Site() as site:
        write_settings(tmp_path, site)
    async with connected("stdio", tmp_path) as client:
        error = (await call(client, "get_library_docs", library_id="langchain"))["error"]
        assert (error["code"], error["recoverable"]) == ("LLMS_TXT_FETCH_FAILED", True)
        error = (await call(client, "read_page", url=f"{site.url}/x"))["error"]
        assert (error["code"], error["recoverable"]) == ("PAGE_FETCH_FAILED", True)


@both
async def test_page_and_input_failures(transport: str, tmp_path: Path) -> None:
    """All error codes in one session."""
    routes = {
        "/500": status(500),
        "/403": status(403),
        "/loop": redirect("/loop"),
        "/away": redirect("https://internal.example.com/docs"),
        "/inside": redirect("http://169.254.169.254/latest/meta-data/"),
    }
    async with Site(routes) as site:
        write_settings(tmp_path, site)
        rows = [
            ("read_page", {"url": "https://internal.example.com/docs"}, "URL_NOT_ALLOWED", False),
            ("read_page", {"url": "ftp://docs.langchain.com/x"}, "INVALID_INPUT", False),
            ("read_page", {"url": f"{site.url}/absent"}, "PAGE_NOT_FOUND", False),
            ("read_page", {"url": f"{site.url}/500"}, "PAGE_FETCH_FAILED", True),
            ("read_page", {"url": f"{site.url}/403"}, "PAGE_FETCH_FAILED", True),
            ("read_page", {"url": f"{site.url}/loop"}, "TOO_MANY_REDIRECTS", False),
            ("read_page", {"url": f"{site.url}/away"}, "URL_NOT_ALLOWED", False),
            ("read_page", {"url": f"{site.url}/inside"}, "URL_NOT_ALLOWED", False),
            ("read_page", {"url": f"{site.url}/{'x' * 2048}"}, "INVALID_INPUT", False),
            ("read_page", {"url": f"{site.url}/a", "offset": 0}, "INVALID_INPUT", False),
            ("read_page", {"url": f"{site.url}/a", "limit": 0}, "INVALID_INPUT", False),
            ("get_library_docs", {"library_id": "langchan"}, "LIBRARY_NOT_FOUND", False),
            ("get_library_docs", {"library_id": "Lang Chain"}, "INVALID_INPUT", False),
            ("resolve_library", {"query": ""}, "INVALID_INPUT", False),
            ("resolve_library", {"query": "x" * 501}, "INVALID_INPUT", False),
        ]
        async with connected(transport, tmp_path) as client:
            for name, arguments, code, recoverable in rows:
                error = (await call(client, name, **arguments))["error"]
                assert (error["code"], error["recoverable"]) == (code, recoverable), (name, arguments)
                assert set(error) == {"code", "message", "suggestion", "recoverable"}


# --- protocol ---------------------------------------------------------------------------------------------------------

SESSION = "procontext://session/libraries"


@both
async def test_listings_and_session(transport: str, tmp_path: Path) -> None:
    """The protocol revision has sessions."""
    async with Site() as site:
        write_settings(tmp_path, site)
        async with connected(transport, tmp_path, version="2025-11-25") as client:
            tools = await client.tools.list()
            assert [(tool.name, tool.description, tool.input_schema) for tool in tools] == [
                (row.name, row.description, row.input_schema) for row in TOOL_ROWS
            ]
            (resource,) = await client.resources.list()
            assert (resource.uri, resource.name, resource.description, resource.mime_type) == (
                SESSION,
                "Session Libraries",
                "Libraries resolved in the current session.",
                "application/json",
            )
            assert await resolved_libraries(client) == []
            for query in ("langchain", "pydantic"):
                await call(client, "resolve_library", query=query)
            rows = await resolved_libraries(client)
            assert [(row["library_id"], row["name"]) for row in rows] == [
                ("langchain", "LangChain"),
                ("pydantic", "Pydantic"),
            ]
            assert all(row["resolved_at"].endswith("Z") for row in rows)


async def resolved_libraries(client: Client) -> list[dict[str, str]]:
    result = await client.resources.read(SESSION)
    (content,) = result.contents
    assert (content.uri, content.mime_type) == (SESSION, "application/json")
    found: list[dict[str, str]] = json.loads(content.text)["resolved_libraries"]
    return found


# (message of a client, expected members of the result or error code)
LINES = [
    (
        {
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "claude-code", "version": "1.0.0"},
            },
        },
        {"protocolVersion": "2025-11-25", "serverInfo": {"name": "procontext"}},
    ),
    ({"method": "notifications/initialized"}, None),
    ({"id": 2, "method": "tools/list", "params": {}}, {"tools": []}),
    (
        {
            "id": 3,
            "method": "tools/call",
            "params": {"name": "get_library_docs", "arguments": {"library_id": "langchan"}},
        },
        {"isError": True},
    ),
    ({"id": 4, "method": "nothing/like-it", "params": {}}, -32601),
    ({"id": 5, "method": "tools/call", "params": {"name": "no_such_tool", "arguments": {}}}, -32602),
    ({"id": 6, "method": 7}, -32600),
]


def test_documented_messages(tmp_path: Path) -> None:
    """Newline-delimited JSON on stdio, with tool errors and protocol errors."""
    lines = [json.dumps({"jsonrpc": "2.0", **line}) for line, _ in LINES]
    done = subprocess.run(
        [sys.executable, "-m", "procontext"],
        input="".join(f"{line}\n" for line in (*lines, "{not json")),
        cwd=tmp_path,
        env=environment(tmp_path, PROCONTEXT__FETCHER__OFFLINE="true", PROCONTEXT_CONFIG=""),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    responses = [json.loads(line) for line in done.stdout.splitlines()]
    by_id = {response.get("id"): response for response in responses}
    for line, expected in LINES:
        response = by_id.get(line.get("id"))
        if expected is None:
            continue
        assert response is not None, line
        assert response["jsonrpc"] == "2.0"
        if isinstance(expected, int):
            assert response["error"]["code"] == expected, line
        else:
            assert set(expected) <= set(response["result"]), line
    started = by_id[1]["result"]
    assert started["protocolVersion"] == "2025-11-25"
    assert {"tools", "resources"} <= set(started["capabilities"])
    assert (started["serverInfo"]["name"], started["serverInfo"]["version"]) == ("procontext", __version__)
    (content,) = by_id[3]["result"]["content"]
    assert content["type"] == "text"
    assert json.loads(content["text"])["error"] == {
        "code": "LIBRARY_NOT_FOUND",
        "message": "Library 'langchan' not found in registry.",
        "suggestion": "Call resolve_library with your query to find the correct library ID.",
        "recoverable": False,
    }
    assert by_id[None]["error"]["code"] == -32700  # JSON-RPC 2.0, section 5: null if the id cannot be read


# --- a newer registry -------------------------------------------------------------------------------------------------

NEWER = json.dumps(
    {
        "version": "2999.01.01",
        "libraries": [{"id": "brand-new", "name": "Brand New", "packages": {"pypi": ["bn"]}}],
    }
)


def publish(site: Site, digest: str = "") -> None:
    described = {"version": "2999.01.01", "url": "new.json", "sha256": digest or checksum(NEWER.encode())}
    site.routes["/registry/latest.json"] = text(json.dumps(described), "application/json")
    site.routes["/registry/new.json"] = text(NEWER, "application/json")


async def setup(folder: Path, site: Site) -> tuple[int, str]:
    """Run `procontext setup`. Return the exit code and the output."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "procontext", "setup"),
        cwd=folder,
        env=environment(folder, PROCONTEXT__REGISTRY__URL=f"{site.url}/registry/latest.json"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode()


async def test_setup_installs_only_a_valid_registry(tmp_path: Path) -> None:
    async with Site() as site:
        write_settings(tmp_path, site)
        publish(site, digest="0" * 64)
        code, output = await setup(tmp_path, site)
        assert code == 1
        assert "the checksum does not match the published one" in output
        publish(site)
        code, output = await setup(tmp_path, site)
        assert code == 0
        assert "registry 2999.01.01" in output
        assert "just downloaded and verified" in output
        code, output = await setup(tmp_path, site)
        assert "No newer registry at" in output
    states = list((tmp_path / "data").rglob("registry-state.json"))
    assert json.loads(states[0].read_bytes())["version"] == "2999.01.01"


async def test_background_update_of_the_registry(tmp_path: Path) -> None:
    """The connection stays open."""
    async with Site() as site:
        write_settings(tmp_path, site)
        publish(site)
        url = f"{site.url}/registry/latest.json"
        async with connected("stdio", tmp_path, PROCONTEXT__REGISTRY__URL=url) as client:
            while not (await call(client, "resolve_library", query="bn"))["matches"]:
                await client.ping()
            assert (await call(client, "resolve_library", query="langchain"))["matches"]
