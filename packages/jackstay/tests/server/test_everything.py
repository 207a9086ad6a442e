"""`examples/everything.py` over stdio and HTTP, with this package's client, in both eras."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from jackstay import Client, connect, http, stdio
from jackstay.errors import CapabilityError, JsonRpcError, ToolCallError
from jackstay.transport import Target
from jackstay.types import CreateMessageResult, ElicitResult, PromptReference, Root, TextContent
from scripted.places import ROOT

EXAMPLE = ROOT / "examples" / "everything.py"
HANDSHAKE = "2025-11-25"
STATELESS = "2026-07-28"
EACH = pytest.mark.parametrize(
    ("transport", "version"),
    [(transport, version) for transport in ("stdio", "http") for version in (HANDSHAKE, STATELESS)],
)

# What the user enters into the forms of the example, by field.
ENTERED: dict[str, Any] = {
    "name": "Ada", "color": "blue", "ok": True, "context": "a storm", "username": "ada", "email": "ada@example.org",
    "age": 36, "score": 1.5, "status": "inactive", "verified": False, "untitledSingle": "option1",
    "titledSingle": "value2", "legacyEnum": "opt3", "untitledMulti": ["option1"], "titledMulti": ["value1", "value3"],
}  # fmt: skip


@asynccontextmanager
async def reached(transport: str) -> AsyncIterator[Target]:
    """A target for the example, over stdio or over HTTP on a free port."""
    if transport == "stdio":
        yield stdio(sys.executable, str(EXAMPLE))
        return
    pipe = asyncio.subprocess.PIPE
    server = await asyncio.create_subprocess_exec(sys.executable, str(EXAMPLE), "--port", "0", stderr=pipe)
    assert server.stderr is not None
    try:
        async with asyncio.timeout(120):
            line = (await server.stderr.readline()).decode()
        yield http(line.split(" serves ")[1].split()[0])  # the URL of HTTP+SSE may follow
    finally:
        server.terminate()
        await server.communicate()
    assert server.returncode == 0


@asynccontextmanager
async def everything(transport: str, version: str, *, can_respond: bool = True) -> AsyncIterator[Client]:
    """A client, with or without handlers for all requests of the server."""
    async with reached(transport) as target:
        client = connect(target, versions=(version,))
        if can_respond:
            client.roots.set([Root(uri="file:///harbour")])
            client.sampling.handle(complete)
            client.elicitation.handle(fill_in)
        async with client:
            yield client


def complete(params: object) -> CreateMessageResult:
    return CreateMessageResult(role="assistant", content=TextContent(text="aye"), model="parrot")


def fill_in(params: Any) -> ElicitResult:
    fields = params.requested_schema.raw["properties"]
    return ElicitResult(action="accept", content={field: ENTERED[field] for field in fields})


# (tool, arguments, what its text contains)
CALLS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("test_simple_text", {}, "This is a simple text response for testing."),
    ("add", {"a": 19, "b": 23}, "42"),
    ("test_header", {"region": "north"}, "Region: north"),
    ("json_schema_2020_12_tool", {"email": "ada@example.org"}, "ada@example.org"),
    ("test_tool_with_progress", {}, "Progress was reported."),
    ("test_tool_with_logging", {}, "Three messages were logged."),
    ("test_logging_tool", {}, "Four messages were logged."),
    ("test_reconnection", {}, "Reconnection test completed successfully"),
    ("test_sampling", {"prompt": "Ready?"}, "LLM response: aye"),
    ("test_missing_capability", {}, "LLM response: aye"),
    ("test_elicitation", {"message": "Who?"}, 'action=accept, content={"username": "ada"'),
    ("test_elicitation_sep1034_defaults", {}, '"status": "inactive"'),
    ("test_elicitation_sep1330_enums", {}, '"titledMulti": ["value1", "value3"]'),
    ("test_streaming_elicitation", {}, "action=accept"),
    ("test_input_required_result_elicitation", {}, "Hello, Ada!"),
    ("test_input_required_result_sampling", {}, "aye"),
    ("test_input_required_result_list_roots", {}, "file:///harbour"),
    ("test_input_required_result_request_state", {}, "accept: state-ok"),
    ("test_input_required_result_multiple_inputs", {}, "aye {'name': 'Ada'} may work in 1 places."),
    ("test_input_required_result_multi_round", {}, "{'name': 'Ada'} likes {'color': 'blue'}."),
    ("test_input_required_result_tampered_state", {}, "accept"),
    ("test_input_required_result_capabilities", {}, "2 questions"),
)


@EACH
async def test_all_tools(transport: str, version: str) -> None:
    async with everything(transport, version) as client:
        for tool, arguments, text in CALLS:
            result = await client.tools.call(tool, arguments)
            assert not result.is_error, (tool, result.error_text)
            assert text in result.text, tool
        failed = await client.tools.call("test_error_handling", raise_on_error=False)
        assert (failed.is_error, failed.error_text) == (
            True,
            "This tool intentionally returns an error for testing",
        )
        with pytest.raises(ToolCallError):
            await client.tools.call("json_schema_2020_12_tool", {"name": "Ada"})
        contents = {
            "test_image_content": ["image"],
            "test_audio_content": ["audio"],
            "test_embedded_resource": ["resource"],
            "test_multiple_content_types": ["text", "image", "resource"],
        }
        for tool, kinds in contents.items():
            result = await client.tools.call(tool)
            assert [block.raw["type"] for block in result.content] == kinds


@EACH
async def test_resources_prompts_and_completion(transport: str, version: str) -> None:
    async with everything(transport, version) as client:
        uris = [resource.uri for resource in await client.resources.list() if resource.uri.startswith("test:")]
        assert uris == ["test://static-text", "test://static-binary", "test://watched-resource"]
        read = [(await client.resources.read(uri)).contents[0].raw for uri in uris]
        assert [sorted(contents) for contents in read] == [
            ["mimeType", "text", "uri"], ["blob", "mimeType", "uri"], ["mimeType", "text", "uri"],
        ]  # fmt: skip
        data = (await client.resources.read("test://template/123/data")).contents[0].raw
        assert data["text"] == '{"id":"123","templateTest":true,"data":"Data for ID: 123"}'
        with pytest.raises(JsonRpcError) as missing:
            await client.resources.read("test://unknown")
        assert missing.value.code == (-32602 if version == STATELESS else -32002)
        prompts = {
            "test_simple_prompt": ({}, "This is a simple prompt for testing."),
            "test_prompt_with_arguments": (
                {"arg1": "hello", "arg2": "world"},
                "arg1='hello', arg2='world'",
            ),
            "test_prompt_with_embedded_resource": ({"resourceUri": "test://x"}, "test://x"),
            "test_prompt_with_image": ({}, "image/png"),
            "test_input_required_result_prompt": ({}, "a storm"),
        }
        assert [prompt.name for prompt in await client.prompts.list()] == list(prompts)
        for prompt, (arguments, text) in prompts.items():
            assert text in str((await client.prompts.get(prompt, arguments)).raw)
        reference = PromptReference(name="test_prompt_with_arguments")
        found = await client.completion.complete(reference, "arg1", "ha")
        assert list(found.values) == ["hawser", "halyard"]


@EACH
async def test_a_client_without_handlers_gets_an_error(transport: str, version: str) -> None:
    async with everything(transport, version, can_respond=False) as client:
        if version == STATELESS:
            with pytest.raises((CapabilityError, JsonRpcError)) as raised:
                await client.tools.call("test_missing_capability")
            assert getattr(raised.value, "code", None) == -32021
        else:
            with pytest.raises(ToolCallError):
                await client.tools.call("test_missing_capability")


@EACH
async def test_tools_and_prompts_are_added_and_removed(transport: str, version: str) -> None:
    async with everything(transport, version) as client:
        for text in ("added", "removed"):
            assert (await client.tools.call("test_trigger_tool_change")).text == text
            assert (await client.tools.call("test_trigger_prompt_change")).text == text
            tools = [tool.name for tool in await client.tools.list()]
            prompts = [prompt.name for prompt in await client.prompts.list()]
            assert ("test_added_tool" in tools, "test_added_prompt" in prompts) == (text == "added",) * 2
        assert (await client.tools.call("touch", {"uri": "test://watched-resource"})).text == "touched"


@EACH
async def test_a_waiting_tool_is_cancelled(transport: str, version: str) -> None:
    async with everything(transport, version) as client:
        is_waiting = asyncio.Event()
        call = asyncio.create_task(client.tools.call("hold", on_progress=lambda *_: is_waiting.set()))
        await is_waiting.wait()
        call.cancel()
        assert (await client.tools.call("cancelled")).text == "cancelled"


async def test_unknown_arguments_are_rejected() -> None:
    child = await asyncio.create_subprocess_exec(sys.executable, str(EXAMPLE), "--toys", stderr=asyncio.subprocess.PIPE)
    _, errors = await child.communicate()
    assert child.returncode == 2
    assert b"usage:" in errors
