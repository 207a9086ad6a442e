"""A server on the official SDK 1.x, with the same features as the other servers here.

Runs over stdio, or over HTTP if its argument is a port.
"""

import sys

import anyio
from mcp.server.fastmcp import Context, FastMCP
from mcp.types import Completion, SamplingMessage, TextContent
from pydantic import BaseModel

server = FastMCP("harbour-sdk1", instructions="Ask for the tide.")


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


@server.tool()
async def request_elicitation(ctx: Context) -> str:
    answer = await ctx.elicit("Who are you?", Name)
    return f"{answer.action} {answer.data.name if answer.action == 'accept' else ''}".strip()


@server.tool()
async def request_sampling(question: str, ctx: Context) -> str:
    messages = [SamplingMessage(role="user", content=TextContent(type="text", text=question))]
    answer = await ctx.session.create_message(messages, max_tokens=16)
    assert isinstance(answer.content, TextContent)
    return f"{answer.model}: {answer.content.text}"


@server.tool()
async def request_roots(ctx: Context) -> str:
    return ", ".join(str(root.uri) for root in (await ctx.session.list_roots()).roots)


@server.tool()
async def grow(name: str, ctx: Context) -> str:
    server.add_tool(add, name=name)
    await ctx.session.send_tool_list_changed()
    return "grown"


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
    return Completion(values=names, total=len(names), hasMore=False)


if len(sys.argv) > 1:
    server.settings.port = int(sys.argv[1])
server.run("streamable-http" if len(sys.argv) > 1 else "stdio")
