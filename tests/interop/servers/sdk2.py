"""A server on the official SDK 2.x, with the same features as the other servers here.

Requests to the client use resolvers, which work in both eras. Runs over stdio, or over HTTP if its argument is a port.
"""

import sys
from typing import Annotated

import anyio
from mcp.server.mcpserver import Context, Elicit, ElicitationResult, ListRoots, MCPServer, Resolve, Sample
from mcp.types import Completion, CreateMessageResult, ListRootsResult, SamplingMessage, TextContent
from pydantic import BaseModel

server = MCPServer("harbour-sdk2", version="2.0", instructions="Ask for the tide.")


class Name(BaseModel):
    name: str


@server.tool()
def add(a: int, b: int) -> int:
    return a + b


@server.tool()
def fail() -> str:
    raise ValueError("the rope broke")


@server.tool()
async def count(steps: int, ctx: Context) -> str:
    for step in range(1, steps + 1):
        await ctx.report_progress(step, steps, f"step {step}")
    return f"counted to {steps}"


@server.tool()
async def hold(ctx: Context) -> str:
    """Report progress once, then run until cancelled."""
    await ctx.report_progress(1, 2, "holding")
    await anyio.sleep_forever()
    return "never"


@server.tool()
async def log(text: str, ctx: Context) -> str:
    await ctx.warning(text)
    return "logged"


def person() -> Elicit[Name]:
    return Elicit("Who are you?", Name)


@server.tool()
async def request_elicitation(answer: Annotated[ElicitationResult[Name], Resolve(person)]) -> str:
    return f"{answer.action} {answer.data.name if answer.action == 'accept' else ''}".strip()


def model(question: str) -> Sample:
    messages = [SamplingMessage(role="user", content=TextContent(type="text", text=question))]
    return Sample(messages, max_tokens=16)


@server.tool()
async def request_sampling(question: str, answer: Annotated[CreateMessageResult, Resolve(model)]) -> str:
    assert isinstance(answer.content, TextContent)
    return f"{answer.model}: {answer.content.text}"


def roots() -> ListRoots:
    return ListRoots()


@server.tool()
async def request_roots(listed: Annotated[ListRootsResult, Resolve(roots)]) -> str:
    return ", ".join(str(root.uri) for root in listed.roots)


@server.tool()
async def grow(name: str, ctx: Context) -> str:
    server.add_tool(add, name=name)
    await ctx.notify_tools_changed()
    return "grown"


@server.tool()
async def touch(uri: str, ctx: Context) -> str:
    await ctx.notify_resource_updated(uri)
    return "touched"


@server.resource("note://today")
def today() -> str:
    return "high water at noon"


@server.resource("note://day/{day}")
def day(day: str) -> str:
    return f"low water on {day}"


@server.prompt()
def greet(name: str) -> str:
    return f"Say ahoy to {name}."


@server.completion()
async def complete(ref, argument, context):
    names = [name for name in ("Anna", "Anton", "Berta") if name.startswith(argument.value)]
    return Completion(values=names, total=len(names), has_more=False)


if len(sys.argv) > 1:
    server.run("streamable-http", port=int(sys.argv[1]))
else:
    server.run()
