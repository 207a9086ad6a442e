"""The tools over MCP: the envelope, both forms of an answer, the session's list, every revision."""

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
from scripted.asgi import asking, request
from scripted.documents import ScriptedDocuments
from scripted.loop import timed

URL = "https://docs.langchain.com/docs/concepts/streaming.md"
SESSION = "procontext://session/libraries"
HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STATELESS = "2026-07-28"


@asynccontextmanager
async def talking(
    version: str = "2025-11-25", documents: ScriptedDocuments | None = None, registry: Registry | None = None
) -> AsyncIterator[Client]:
    """A client of a server over scripted documents, in one revision."""
    if registry is None:
        registry = Registry()
        registry.load()
    shown = documents or ScriptedDocuments()

    async def open_them() -> ScriptedDocuments:
        return shown

    server = make_server(Tools(registry, open_them, 40_000))
    pair = memory_pair()
    serving = asyncio.ensure_future(server.serve(pair.server))
    async with connect(pair.client, versions=(version,)) as client:
        yield client
    await serving


def parsed(result: Any) -> Any:
    (block,) = result.content
    return json.loads(block.text)


@pytest.mark.parametrize("version", [*HANDSHAKE, STATELESS])
def test_an_answer_is_one_text_block_of_json_and_structured_where_that_exists(version: str) -> None:
    """Reference 1.3; design, section 1."""

    @timed
    async def check() -> None:
        async with talking(version) as client:
            result = await client.tools.call("resolve_library", {"query": "langchain-openai>=0.3"})
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

    check()


@timed
async def test_the_client_is_told_what_there_is() -> None:
    """Reference 1.2, 1.3, 5.3: names, schemas, instructions, the resource."""
    async with talking() as client:
        tools = await client.tools.list()
        assert [tool.name for tool in tools] == [row.name for row in TOOL_ROWS]
        for tool, row in zip(tools, TOOL_ROWS, strict=True):
            assert (tool.description, tool.input_schema, tool.output_schema) == (
                row.description,
                row.input_schema,
                row.output_schema,
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


@timed
async def test_every_answer_keeps_to_its_schema() -> None:
    """Reference 2.2, 3.2, 4.2: our own output is not checked at run time, so it is here."""
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
    async with talking(documents=documents) as client:
        for row in TOOL_ROWS:
            found = parsed(await client.tools.call(row.name, calls[row.name]))
            Draft202012Validator(row.output_schema).validate(found)
            assert set(found) <= set(row.output_schema["properties"])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.code)
def test_every_row_of_the_catalogue_reaches_the_agent_as_the_envelope(row: Any) -> None:
    """Reference 1.4, 6.1: isError, and all four members."""

    @timed
    async def check() -> None:
        documents = ScriptedDocuments()
        is_index = "get_library_docs" in row.raised_by and row.code != "INVALID_INPUT"
        documents.indexes["langchain"] = documents.pages[URL] = failure(row.code, "the subject")
        async with talking(documents=documents) as client:
            if is_index:
                result = await client.tools.call("get_library_docs", {"library_id": "langchain"})
            else:
                result = await client.tools.call("read_page", {"url": URL})
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

    check()


@pytest.mark.parametrize(
    ("tool", "arguments", "named"),
    [
        ("resolve_library", {"query": ""}, "query"),
        ("resolve_library", {"query": "x" * 501}, "query"),
        ("resolve_library", {}, "query"),
        ("get_library_docs", {"library_id": "../etc"}, "library_id"),
        ("read_page", {"url": "x" * 2049}, "url"),
        ("read_page", {"url": URL, "offset": 0}, "offset"),
        ("read_page", {"url": URL, "limit": 0}, "limit"),
        ("search_docs", {"library_id": "a", "query": "x", "limit": 99}, "limit"),
    ],
)
def test_a_failed_argument_check_is_the_envelope_and_names_the_field(
    tool: str, arguments: dict[str, Any], named: str
) -> None:
    """Design, section 1: INVALID_INPUT."""

    @timed
    async def check() -> None:
        async with talking() as client:
            error = parsed(await client.tools.call(tool, arguments))["error"]
        assert (error["code"], error["recoverable"]) == ("INVALID_INPUT", False)
        assert named in error["message"]

    check()


@timed
async def test_arguments_that_are_no_object_are_invalid_input_too() -> None:
    """Design, section 1: every failed argument check."""
    registry = Registry()
    registry.load()

    async def never() -> ScriptedDocuments:
        raise AssertionError("asked for documents")

    async with asking(make_server(Tools(registry, never, 40_000)).asgi()) as http:
        answer = await http.post(request("tools/call", {"name": "resolve_library", "arguments": ["x"]}))
    error = json.loads(answer.json["result"]["content"][0]["text"])["error"]
    assert error["code"] == "INVALID_INPUT"


@timed
async def test_every_call_that_ended_is_counted() -> None:
    """By tool and outcome; an accident is INTERNAL, and its words stay here."""
    registry = Registry()
    registry.load()
    told: list[tuple[str, str]] = []

    async def broken() -> ScriptedDocuments:
        raise ValueError("secret")

    server = make_server(
        Tools(registry, broken, 40_000), lambda tool, outcome, _: told.append((tool, outcome))
    )
    async with asking(server.asgi()) as http:
        for name, arguments in (
            ("resolve_library", {"query": "x"}),
            ("resolve_library", {"query": ""}),
            ("read_page", {"url": URL}),
        ):
            answer = await http.post(request("tools/call", {"name": name, "arguments": arguments}))
    assert told == [
        ("resolve_library", "ok"),
        ("resolve_library", "INVALID_INPUT"),
        ("read_page", "INTERNAL"),
    ]
    assert answer.json["result"]["isError"] is True
    assert "secret" not in answer.body.decode()


@timed
async def test_an_unknown_tool_is_a_protocol_error() -> None:
    """Reference 1.4."""
    async with talking() as client:
        with pytest.raises(JsonRpcError) as raised:
            await client.tools.call("resolve_libary", {"query": "x"})
    assert raised.value.code == -32602


@pytest.mark.parametrize("version", HANDSHAKE)
def test_the_session_remembers_what_was_resolved(version: str) -> None:
    """Reference, section 5: empty at start, each once."""

    @timed
    async def check() -> None:
        async with talking(version) as client:
            assert await recalled(client) == []
            for query in ("langchain", "pydantic", "langchain[openai]", "xyzzy-nonexistent"):
                await client.tools.call("resolve_library", {"query": query})
            assert [row["library_id"] for row in await recalled(client)] == ["pydantic", "langchain"]
        async with talking(version) as other:
            assert await recalled(other) == []

    check()


async def recalled(client: Client) -> list[dict[str, str]]:
    result = await client.resources.read(SESSION)
    (content,) = result.contents
    assert content.mime_type == "application/json"
    found: list[dict[str, str]] = json.loads(content.text)["resolved_libraries"]
    return found


@timed
async def test_the_stateless_era_has_no_list() -> None:
    """2026-07-28 basic/index: not listed, and reading it is -32602."""
    async with talking(STATELESS) as client:
        await client.tools.call("resolve_library", {"query": "langchain"})
        assert list(await client.resources.list()) == []
        with pytest.raises(JsonRpcError) as raised:
            await client.resources.read(SESSION)
    assert raised.value.code == -32602


@timed
async def test_a_client_is_answered_before_the_registry_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Design, section 3: start before the registry is parsed; who needs the rows waits for them."""
    gate = threading.Event()
    real = Registry._find

    def slowly(self: Registry) -> Any:
        gate.wait(30)
        return real(self)

    monkeypatch.setattr(Registry, "_find", slowly)
    registry = Registry()
    thread = registry.start()
    async with talking(registry=registry) as client:
        assert len(list(await client.tools.list())) == 4
        asked = asyncio.ensure_future(client.tools.call("resolve_library", {"query": "fastapi"}))
        await client.ping()
        assert not asked.done()
        gate.set()
        assert parsed(await asked)["matches"][0]["library_id"] == "fastapi"
    thread.join(30)


@timed
async def test_without_a_registry_the_agent_is_told_why(tmp_path: Path) -> None:
    """A registry that cannot be used is said in the envelope while the server ends."""
    registry = Registry(path=str(tmp_path / "absent.json"))
    registry.start().join(30)
    async with talking(registry=registry) as client:
        error = parsed(await client.tools.call("get_library_docs", {"library_id": "langchain"}))["error"]
    assert error["code"] == "LIBRARY_NOT_FOUND"
    assert "absent.json" in error["message"]
