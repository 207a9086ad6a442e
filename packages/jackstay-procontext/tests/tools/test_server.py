"""The tools over MCP, on every protocol revision."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from jackstay import Client, JsonRpcError, connect
from jackstay.testing import memory_pair
from procontext.errors import ROWS, failure
from procontext.models import Hit
from procontext.registry import Registry
from procontext.tools import INSTRUCTIONS, TOOL_ROWS, Tools, make_server
from scripted.asgi import http_client, request
from scripted.documents import ScriptedDocuments

URL = "https://docs.langchain.com/docs/concepts/streaming.md"
SESSION = "procontext://session/libraries"
HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STATELESS = "2026-07-28"


@asynccontextmanager
async def connected(
    version: str = "2025-11-25", documents: ScriptedDocuments | None = None, registry: Registry | None = None
) -> AsyncIterator[Client]:
    """Connect a client to a server with scripted documents, in one protocol revision."""
    if registry is None:
        registry = Registry()
        registry.load()
    scripted = documents or ScriptedDocuments()

    async def open_documents() -> ScriptedDocuments:
        return scripted

    server = make_server(Tools(registry, open_documents, 40_000))
    pair = memory_pair()
    serving = asyncio.ensure_future(server.serve(pair.server))
    async with connect(pair.client, versions=(version,)) as client:
        yield client
    await serving


def parsed(result: Any) -> Any:
    (block,) = result.content
    return json.loads(block.text)


async def test_result_is_json_text_and_structured_content(subtests: pytest.Subtests) -> None:
    """Revisions since 2025-06-18 have `structuredContent`."""
    for version in [*HANDSHAKE, STATELESS]:
        with subtests.test(version=version):
            async with connected(version) as client:
                result = await client.tools.call(
                    "resolve_library", {"query": "langchain-openai>=0.3"}, raise_on_error=False
                )
            (match,) = parsed(result)["matches"]
            assert (match["library_id"], match["name"], match["docs_url"]) == (
                "langchain",
                "LangChain",
                "https://docs.langchain.com",
            )
            assert (match["matched_via"], match["relevance"]) == ("package_name", 1.0)
            has_structure = version >= "2025-06-18"
            assert (result.structured_content == parsed(result)) is has_structure
            assert not result.is_error


async def test_listings() -> None:
    """Tools, instructions and the session resource."""
    async with connected() as client:
        tools = await client.tools.list()
        assert [tool.name for tool in tools] == [row.name for row in TOOL_ROWS]
        for tool, row in zip(tools, TOOL_ROWS, strict=True):
            assert (tool.description, tool.input_schema, tool.output_schema) == (
                row.description,
                row.input_schema,
                None if row.name in ("get_library_docs", "read_page") else row.output_schema,
            )
            assert tool.annotations is not None
            assert tool.annotations.read_only_hint is True
        assert client.instructions == INSTRUCTIONS
        assert client.server_info is not None
        assert client.server_info.name == "procontext"
        (resource,) = await client.resources.list()
        assert (resource.uri, resource.name, resource.mime_type) == (
            SESSION,
            "Session Libraries",
            "application/json",
        )
        assert resource.description == "Libraries resolved in the current session."


async def test_results_match_their_schemas() -> None:
    """Results are not validated at run time, so they are validated here."""
    documents = ScriptedDocuments()
    documents.put_index("langchain", "# Docs\n")
    documents.put_page(URL, "# A\n\ntext")
    documents.hits["langchain"] = [Hit(URL, 1, ("A",), "text", 1.0)]
    calls = {
        "resolve_library": {"query": "langchain"},
        "get_library_docs": {"library_id": "langchain"},
        "read_page": {"url": URL},
        "search_docs": {"library_id": "langchain", "query": "text"},
    }
    async with connected(documents=documents) as client:
        for row in TOOL_ROWS:
            result = await client.tools.call(row.name, calls[row.name], raise_on_error=False)
            found = parsed(result)
            # A page is not sent twice.
            assert (result.structured_content is None) is (row.name in ("get_library_docs", "read_page"))
            Draft202012Validator(row.output_schema).validate(found)
            assert set(found) <= set(row.output_schema["properties"])


async def test_every_error_is_returned_as_envelope(subtests: pytest.Subtests, caplog: pytest.LogCaptureFixture) -> None:
    for row in ROWS:
        with subtests.test(code=row.code):
            documents = ScriptedDocuments()
            is_index = "get_library_docs" in row.raised_by and row.code != "INVALID_INPUT"
            documents.indexes["langchain"] = documents.pages[URL] = failure(row.code, "the subject")
            async with connected(documents=documents) as client:
                if is_index:
                    result = await client.tools.call(
                        "get_library_docs", {"library_id": "langchain"}, raise_on_error=False
                    )
                else:
                    result = await client.tools.call("read_page", {"url": URL}, raise_on_error=False)
            assert result.is_error is True
            assert result.structured_content is None
            assert parsed(result) == {
                "error": {
                    "code": row.code,
                    "message": row.message.format("the subject"),
                    "suggestion": row.suggestion,
                    "recoverable": row.recoverable,
                }
            }
    # The failures of sites, which the status page lists.
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        f"fetch_failed: {row.raised_by[0]}: {row.message.format('the subject')}" for row in ROWS if row.recoverable
    ]


INVALID_ARGUMENTS: list[tuple[str, dict[str, Any], str]] = [
    ("resolve_library", {"query": ""}, "query"),
    ("resolve_library", {"query": "x" * 501}, "query"),
    ("resolve_library", {}, "query"),
    ("get_library_docs", {"library_id": "../etc"}, "library_id"),
    ("read_page", {"url": "x" * 2049}, "url"),
    ("read_page", {"url": URL, "offset": 0}, "offset"),
    ("read_page", {"url": URL, "limit": 0}, "limit"),
    ("search_docs", {"library_id": "a", "query": "x", "limit": 99}, "limit"),
]


async def test_invalid_argument_is_returned_as_envelope(subtests: pytest.Subtests) -> None:
    for tool, arguments, argument in INVALID_ARGUMENTS:
        with subtests.test(tool=tool, argument=argument):
            async with connected() as client:
                error = parsed(await client.tools.call(tool, arguments, raise_on_error=False))["error"]
            assert (error["code"], error["recoverable"]) == ("INVALID_INPUT", False)
            assert argument in error["message"]


async def test_arguments_that_are_not_an_object() -> None:
    registry = Registry()
    registry.load()

    async def never() -> ScriptedDocuments:
        raise AssertionError("the documents were opened")

    async with http_client(make_server(Tools(registry, never, 40_000)).asgi()) as http:
        response = await http.post(request("tools/call", {"name": "resolve_library", "arguments": ["x"]}))
    error = json.loads(response.json["result"]["content"][0]["text"])["error"]
    assert error["code"] == "INVALID_INPUT"


async def test_calls_are_counted() -> None:
    """Calls are counted by tool and outcome. An unexpected error is INTERNAL, and its message is not returned."""
    registry = Registry()
    registry.load()
    counted: list[tuple[str, str]] = []

    async def broken() -> ScriptedDocuments:
        raise ValueError("secret")

    server = make_server(Tools(registry, broken, 40_000), lambda tool, outcome, _: counted.append((tool, outcome)))
    async with http_client(server.asgi()) as http:
        for name, arguments in (
            ("resolve_library", {"query": "x"}),
            ("resolve_library", {"query": ""}),
            ("read_page", {"url": URL}),
        ):
            response = await http.post(request("tools/call", {"name": name, "arguments": arguments}))
    assert counted == [
        ("resolve_library", "ok"),
        ("resolve_library", "INVALID_INPUT"),
        ("read_page", "INTERNAL"),
    ]
    assert response.json["result"]["isError"] is True
    assert "secret" not in response.body.decode()


async def test_unknown_tool_is_a_protocol_error() -> None:
    async with connected() as client:
        with pytest.raises(JsonRpcError) as raised:
            await client.tools.call("resolve_libary", {"query": "x"}, raise_on_error=False)
    assert raised.value.code == -32602


async def test_session_lists_resolved_libraries(subtests: pytest.Subtests) -> None:
    """Each library is listed once. The list of a new session is empty."""
    for version in HANDSHAKE:
        with subtests.test(version=version):
            async with connected(version) as client:
                assert await resolved_libraries(client) == []
                for query in ("langchain", "pydantic", "langchain[openai]", "xyzzy-nonexistent"):
                    await client.tools.call("resolve_library", {"query": query}, raise_on_error=False)
                assert [row["library_id"] for row in await resolved_libraries(client)] == ["pydantic", "langchain"]
            async with connected(version) as other:
                assert await resolved_libraries(other) == []


async def resolved_libraries(client: Client) -> list[dict[str, str]]:
    result = await client.resources.read(SESSION)
    (content,) = result.contents
    assert content.mime_type == "application/json"
    found: list[dict[str, str]] = json.loads(content.text)["resolved_libraries"]
    return found


async def test_stateless_revision_has_no_session_resource() -> None:
    """MCP 2026-07-28, basic/index, "Statelessness": not listed, and reading it is -32602."""
    async with connected(STATELESS) as client:
        await client.tools.call("resolve_library", {"query": "langchain"}, raise_on_error=False)
        assert list(await client.resources.list()) == []
        with pytest.raises(JsonRpcError) as raised:
            await client.resources.read(SESSION)
    assert raised.value.code == -32602


async def test_requests_are_served_before_the_registry_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only requests that need the registry wait for it."""
    gate = threading.Event()
    real = Registry._find

    def slowly(self: Registry) -> Any:
        gate.wait(120)
        return real(self)

    monkeypatch.setattr(Registry, "_find", slowly)
    registry = Registry()
    thread = registry.start()
    async with connected(registry=registry) as client:
        assert len(list(await client.tools.list())) == 4
        resolving = asyncio.ensure_future(
            client.tools.call("resolve_library", {"query": "fastapi"}, raise_on_error=False)
        )
        await client.ping()
        assert not resolving.done()
        gate.set()
        assert parsed(await resolving)["matches"][0]["library_id"] == "fastapi"
    thread.join(120)


async def test_missing_registry_is_reported(tmp_path: Path) -> None:
    """The error envelope contains the reason, while the server shuts down."""
    registry = Registry(path=str(tmp_path / "absent.json"))
    registry.start().join(120)
    async with connected(registry=registry) as client:
        error = parsed(await client.tools.call("get_library_docs", {"library_id": "langchain"}, raise_on_error=False))[
            "error"
        ]
    assert error["code"] == "LIBRARY_NOT_FOUND"
    assert "absent.json" in error["message"]
