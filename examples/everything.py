"""A server with every feature of MCP, in both eras, as the official conformance suite requires.

python examples/everything.py
python examples/everything.py --port 8000        # Streamable HTTP at http://127.0.0.1:8000/mcp
"""

# Names that start with `test_`, and their texts and schemas, are defined by the suite.

import asyncio
import json
import sys
from base64 import b64decode
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from jackstay.errors import JsonRpcError
from jackstay.server import Audio, Context, Image, Server, Skills, ToolError
from jackstay.server.http import MemoryEventStore
from jackstay.types import EmbeddedResource, TextResourceContents

server = Server(
    "everything",
    version="1.0",
    instructions="One of everything, to try a client with.",
    extensions=[Skills(Path(__file__).parent / "skills")],
)

# One red pixel, and 10 ms of silence.
PIXEL = b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==")
SILENCE = b"RIFF\x74\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1f\0\0\x40\x1f\0\0\1\0\x08\0data\x50\0\0\0" + b"\x80" * 80

# Long enough that messages arrive separately.
PAUSE = 0.05


def text_resource(uri: str, text: str, mime_type: str = "text/plain") -> EmbeddedResource:
    """Return an embedded resource with this text."""
    return EmbeddedResource(resource=TextResourceContents(uri=uri, mime_type=mime_type, text=text))


# --- results of a tool ------------------------------------------------------------------------------------------------


@server.tool(read_only=True)
def test_simple_text() -> str:
    """Returns text."""
    return "This is a simple text response for testing."


@server.tool(read_only=True)
def test_image_content() -> Image:
    """Returns an image."""
    return Image(PIXEL)


@server.tool(read_only=True)
def test_audio_content() -> Audio:
    """Returns audio."""
    return Audio(SILENCE)


@server.tool(read_only=True)
def test_embedded_resource() -> EmbeddedResource:
    """Returns a resource."""
    return text_resource("test://embedded-resource", "This is an embedded resource content.")


@server.tool(read_only=True)
def test_multiple_content_types() -> list[str | Image | EmbeddedResource]:
    """Returns text, an image and a resource."""
    data = text_resource("test://mixed-content-resource", '{"test":"data","value":123}', "application/json")
    return ["Multiple content types test:", Image(PIXEL), data]


@server.tool(read_only=True)
def add(a: int, b: int) -> int:
    """The sum of two numbers: a result with a schema of its own."""
    return a + b


@server.tool
def test_error_handling() -> str:
    """Fails with an error result."""
    raise ToolError("This tool intentionally returns an error for testing")


@server.tool
def test_header(region: Annotated[str, msgspec.Meta(extra_json_schema={"x-mcp-header": "Region"})]) -> str:
    """Takes an argument that HTTP clients repeat in the header Mcp-Param-Region, where a proxy can see it."""
    return f"Region: {region}"


async def describe_contact(arguments: dict[str, Any]) -> str:
    """Repeats its arguments, which were checked against the schema."""
    return json.dumps(arguments)


server.add_tool(
    "json_schema_2020_12_tool",
    description="Tool with JSON Schema 2020-12 features",
    handler=describe_contact,
    input_schema={
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
)


# --- messages of a tool while it runs ---------------------------------------------------------------------------------


@server.tool
async def test_tool_with_progress(ctx: Context) -> str:
    """Sends progress."""
    for done in (0, 50, 100):
        ctx.progress(done, 100, f"{done} of 100")
        await asyncio.sleep(PAUSE)
    return "Progress was reported."


@server.tool
async def test_tool_with_logging(ctx: Context) -> str:
    """Sends three log messages."""
    ctx.log("info", "Tool execution started")
    await asyncio.sleep(PAUSE)
    ctx.log("info", "Tool processing data")
    await asyncio.sleep(PAUSE)
    ctx.log("info", "Tool execution completed")
    return "Three messages were logged."


@server.tool
async def test_logging_tool(ctx: Context) -> str:
    """Logs at every level; stateless-era clients get only the levels that they request."""
    for level in ("debug", "info", "warning", "error"):
        ctx.log(level, f"a message of level {level}")
    return "Four messages were logged."


@server.tool
async def test_reconnection(ctx: Context) -> str:
    """Closes its HTTP response before the result: the client reconnects for it."""
    ctx.close_stream(retry=0.1)
    await asyncio.sleep(PAUSE)
    return "Reconnection test completed successfully"


@server.tool
async def hold(ctx: Context) -> str:
    """Sends progress once, then waits until it is cancelled."""
    ctx.progress(1, 2, "holding")
    try:
        await asyncio.Event().wait()
    finally:
        was_cancelled.set()
    return "never"


@server.tool
async def cancelled() -> str:
    """Returns after `hold` was cancelled."""
    await was_cancelled.wait()
    return "cancelled"


was_cancelled = asyncio.Event()


# --- requests of a tool to the client ---------------------------------------------------------------------------------
# Up to 2025-11-25, each is a request to the client, and the function waits. From 2026-07-28 on, the call returns
# `input_required`, and the function runs again from its first line when the client repeats the call with the response.


class Person(msgspec.Struct):
    """A form with two fields."""

    username: Annotated[str, msgspec.Meta(description="User's response")]
    email: Annotated[str, msgspec.Meta(description="User's email address")]


class Profile(msgspec.Struct):
    """A form with defaults."""

    name: str = "John Doe"
    age: int = 30
    score: float = 95.5
    status: Literal["active", "inactive", "pending"] = "active"
    verified: bool = True


class Name(msgspec.Struct):
    """A form with one field."""

    name: str


class Color(msgspec.Struct):
    """A form with one field."""

    color: str


class Confirmation(msgspec.Struct):
    """A form with a confirmation."""

    ok: bool


class Background(msgspec.Struct):
    """A form with one field."""

    context: str


# A class cannot express every kind of choice in a form; a schema can.
CHOICES: dict[str, Any] = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
        "titledSingle": {
            "type": "string",
            "oneOf": [
                {"const": "value1", "title": "First Option"},
                {"const": "value2", "title": "Second Option"},
                {"const": "value3", "title": "Third Option"},
            ],
        },
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {
            "type": "array",
            "items": {"type": "string", "enum": ["option1", "option2", "option3"]},
        },
        "titledMulti": {
            "type": "array",
            "items": {
                "anyOf": [
                    {"const": "value1", "title": "First Choice"},
                    {"const": "value2", "title": "Second Choice"},
                    {"const": "value3", "title": "Third Choice"},
                ]
            },
        },
    },
    "required": [],
}


@server.tool
async def test_sampling(prompt: str, ctx: Context) -> str:
    """Requests sampling."""
    answer = await ctx.sample(prompt, max_tokens=100)
    return f"LLM response: {answer.text}"


@server.tool
async def test_elicitation(message: str, ctx: Context) -> str:
    """Elicits a name and an address."""
    answer = await ctx.elicit(message, Person)
    return f"User response: action={answer.action}, content={json.dumps(answer.content)}"


@server.tool
async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Elicits with a form that has a default for every kind of field."""
    answer = await ctx.elicit("Please review your profile", Profile)
    return f"Elicitation completed: action={answer.action}, content={json.dumps(answer.content)}"


@server.tool
async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Elicits with a form that has every kind of choice."""
    answer = await ctx.elicit("Please choose", CHOICES)
    return f"Elicitation completed: action={answer.action}, content={json.dumps(answer.content)}"


@server.tool
async def test_missing_capability(ctx: Context) -> str:
    """Requires sampling: a client without it gets an error."""
    answer = await ctx.sample("Are you there?", max_tokens=100)
    return f"LLM response: {answer.text}"


@server.tool
async def test_streaming_elicitation(ctx: Context) -> str:
    """Sends progress, then elicits input."""
    ctx.progress(1, 2, "about to elicit")
    answer = await ctx.elicit("What is your name?", Name, key="user_name")
    return f"Elicitation completed: action={answer.action}"


@server.tool
async def test_input_required_result_elicitation(ctx: Context) -> str:
    """Elicits a name."""
    answer = await ctx.elicit("What is your name?", Name, key="user_name")
    return f"Hello, {answer.data.name}!" if answer.is_accepted else "Hello, whoever you are!"


@server.tool
async def test_input_required_result_sampling(ctx: Context) -> str:
    """Requests sampling."""
    answer = await ctx.sample("What is the capital of France?", max_tokens=100, key="capital_question")
    return answer.text


@server.tool
async def test_input_required_result_list_roots(ctx: Context) -> str:
    """Requests the roots."""
    return ", ".join(root.uri for root in await ctx.list_roots(key="client_roots"))


@server.tool
async def test_input_required_result_request_state(ctx: Context) -> str:
    """Keeps state while it elicits input: in the stateless era the client carries it, sealed."""
    remembered = await ctx.once("remembered", lambda: "state-ok")
    answer = await ctx.elicit("Please confirm", Confirmation, key="confirm")
    return f"{answer.action}: {remembered}"


@server.tool
async def test_input_required_result_multiple_inputs(ctx: Context) -> str:
    """Requests elicitation, sampling and roots at once."""
    name, greeting, roots = await asyncio.gather(
        ctx.elicit("What is your name?", Name, key="user_name"),
        ctx.sample("Generate a greeting", max_tokens=50, key="greeting"),
        ctx.list_roots(key="client_roots"),
    )
    return f"{greeting.text} {name.content} may work in {len(roots)} places."


@server.tool
async def test_input_required_result_multi_round(ctx: Context) -> str:
    """Elicits twice in sequence."""
    name = await ctx.elicit("Step 1: What is your name?", Name, key="step1")
    color = await ctx.elicit("Step 2: What is your favorite color?", Color, key="step2")
    return f"{name.content} likes {color.content}."


@server.tool
async def test_input_required_result_tampered_state(ctx: Context) -> str:
    """Elicits; a client that changed the sealed state is rejected before this runs again."""
    answer = await ctx.elicit("Please confirm", Confirmation, key="confirm")
    return f"The answer was {answer.action}."


@server.tool
async def test_input_required_result_capabilities(ctx: Context) -> str:
    """Requests only what the client declares."""
    questions: list[Any] = []
    if ctx.client_capabilities.elicitation is not None:
        questions.append(ctx.elicit("What is your name?", Name, key="user_name"))
    if ctx.client_capabilities.sampling is not None:
        questions.append(ctx.sample("Generate a greeting", max_tokens=50, key="greeting"))
    return f"{len(await asyncio.gather(*questions))} questions were answered."


# --- tools that change the lists --------------------------------------------------------------------------------------


@server.tool
async def test_trigger_tool_change() -> str:
    """Adds a tool, or removes it again. Every client is notified."""
    if "test_added_tool" in server.catalogue.tools:
        server.remove_tool("test_added_tool")
        return "removed"
    server.tool(name="test_added_tool")(test_simple_text)
    return "added"


@server.tool
async def test_trigger_prompt_change() -> str:
    """Adds a prompt, or removes it again. Every client is notified."""
    if "test_added_prompt" in server.catalogue.prompts:
        server.remove_prompt("test_added_prompt")
        return "removed"
    server.prompt(name="test_added_prompt")(test_simple_prompt)
    return "added"


@server.tool
async def touch(uri: str) -> str:
    """Marks a resource as changed. Subscribers are notified."""
    server.notify_resource_updated(uri)
    return "touched"


# --- tasks ------------------------------------------------------------------------------------------------------------


@server.tool
async def greet(name: str) -> str:
    """Greets at once: never a task."""
    return f"Hello, {name}!"


@server.tool(task=True)
async def slow_compute(seconds: float, label: str = "") -> str:
    """Takes so many seconds, in the background if the client supports tasks."""
    await asyncio.sleep(seconds)
    return f"Computed {label} in {seconds:g} s."


@server.tool(task="required")
async def failing_job() -> str:
    """Fails after a while. Only for clients that support tasks."""
    await asyncio.sleep(PAUSE)
    raise ToolError("This job fails intentionally.")


@server.tool(task=True)
async def protocol_error_job() -> str:
    """Ends with a JSON-RPC error."""
    raise JsonRpcError(-32603, "This job ends with a protocol error intentionally.")


@server.tool(task=True)
async def confirm_delete(ctx: Context, filename: str = "") -> str:
    """Requires a confirmation while it runs."""
    confirmed = await ctx.elicit(f"Delete {filename}?", Confirmation)
    return f"{'Deleted' if confirmed.is_accepted else 'Kept'} {filename}."


@server.tool(task=True)
async def multi_input(ctx: Context) -> str:
    """Requires two inputs at the same time while it runs."""
    name, consent = await asyncio.gather(
        ctx.elicit("What is your name?", Name, key="name"), ctx.elicit("May I continue?", Confirmation, key="consent")
    )
    return f"{name.content} {consent.content}"


@server.tool(task="deferred")
async def test_tool_with_task(ctx: Context) -> str:
    """Requires a name first, then runs in the background."""
    named = await ctx.elicit("What is your name?", Name, key="user_name")
    await ctx.background()
    return f"Hello, {named.content['name'] if named.content else 'nobody'}!"


# --- resources --------------------------------------------------------------------------------------------------------


@server.resource("test://static-text", mime_type="text/plain")
def static_text() -> str:
    """Text that never changes."""
    return "This is the content of the static text resource."


@server.resource("test://static-binary", mime_type="image/png")
def static_binary() -> bytes:
    """An image that never changes."""
    return PIXEL


@server.resource("test://watched-resource", mime_type="text/plain")
def watched_resource() -> str:
    """Text that can be subscribed to."""
    return "Watched resource content"


@server.resource("test://template/{id}/data", mime_type="application/json")
def template_data(id: str) -> dict[str, Any]:
    """The data of this id."""
    return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}


# --- prompts and their completion -------------------------------------------------------------------------------------


@server.prompt
def test_simple_prompt() -> str:
    """A prompt without arguments."""
    return "This is a simple prompt for testing."


@server.prompt
def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """A prompt with two arguments.

    Args:
        arg1: First test argument
        arg2: Second test argument
    """
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@server.completion("test_prompt_with_arguments", "arg1")
def complete_arg1(typed: str) -> list[str]:
    """Words that start with the typed text."""
    return [word for word in ("hawser", "halyard", "painter") if word.startswith(typed)]


@server.prompt
def test_prompt_with_embedded_resource(resourceUri: str) -> list[Any]:  # noqa: N803  # the suite's own name
    """A prompt with a resource.

    Args:
        resourceUri: URI of the resource to embed
    """
    embedded = text_resource(resourceUri, "Embedded resource content for testing.")
    return [embedded, "Please process the embedded resource above."]


@server.prompt
def test_prompt_with_image() -> list[Any]:
    """A prompt with an image."""
    return [Image(PIXEL), "Please analyze the image above."]


@server.prompt
async def test_input_required_result_prompt(ctx: Context) -> str:
    """A prompt that elicits input first."""
    answer = await ctx.elicit("What context should the prompt use?", Background, key="user_context")
    if not answer.is_accepted:
        raise JsonRpcError(-32602, "there is no prompt without its context")
    return f"Use this context: {answer.data.context}"


def main(arguments: list[str]) -> int:
    """Serve; `arguments` are those of the command line."""
    if not arguments:
        return server.run()
    if arguments[0] == "--port" and len(arguments) == 2 and arguments[1].isdecimal():
        return server.run(
            transport="http",
            host="127.0.0.1",
            port=int(arguments[1]),
            sessions=True,  # for requests and notifications to handshake-era clients
            event_store=MemoryEventStore(),  # to resume streams
            sse_path="/sse",  # HTTP+SSE for clients of 2024-11-05
        )
    print(f"usage: {sys.argv[0]} [--port PORT]", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
