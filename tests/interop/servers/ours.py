"""A server of ours with one of everything, for clients that nobody here wrote: the features of its neighbours here."""

import asyncio
import sys
from dataclasses import dataclass

from mooring.server import Context, Server, ToolError

server = Server("harbour", version="1.0", instructions="Ask for the tide.")
was_cancelled = asyncio.Event()


@dataclass
class Name:
    """Who somebody is."""

    name: str


@server.tool(read_only=True)
def add(a: int, b: int) -> int:
    """The sum of two numbers."""
    return a + b


@server.tool
def fail() -> str:
    """Fails, and says so."""
    raise ToolError("the rope broke")


@server.tool
async def count(steps: int, ctx: Context) -> str:
    """Reports each step."""
    for step in range(1, steps + 1):
        ctx.progress(step, steps, f"step {step}")
    return f"counted to {steps}"


@server.tool
async def hold(ctx: Context) -> str:
    """Reports once, and ends only when it is cancelled."""
    ctx.progress(1, 2, "holding")
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        was_cancelled.set()
        raise
    return "never"


@server.tool
async def cancelled() -> str:
    """Answers when `hold` was cancelled."""
    await was_cancelled.wait()
    return "cancelled"


@server.tool
async def log(text: str, ctx: Context) -> str:
    """Logs a warning."""
    ctx.log("warning", text)
    return "logged"


@server.tool
async def ask_person(ctx: Context) -> str:
    """Asks the person who they are."""
    answer = await ctx.elicit("Who are you?", Name)
    return f"{answer.action} {(answer.content or {}).get('name', '')}".strip()


@server.tool
async def ask_model(question: str, ctx: Context) -> str:
    """Asks the client's model."""
    answer = await ctx.sample(question, max_tokens=16)
    return f"{answer.model}: {answer.content.text}"


@server.tool
async def ask_roots(ctx: Context) -> str:
    """Asks where the client lets us work."""
    return ", ".join(root.uri for root in await ctx.roots())


@server.tool
async def grow() -> str:
    """Adds a tool while serving."""
    server.tool(name="added")(add)
    return "grown"


@server.tool
async def touch(uri: str) -> str:
    """Says that a resource changed."""
    server.notify_resource_updated(uri)
    return "touched"


@server.resource("note://today", mime_type="text/plain")
def today() -> str:
    """The tide today."""
    return "high water at noon"


@server.resource("note://day/{day}", mime_type="text/plain")
def day(day: str) -> str:
    """The tide on a day."""
    return f"low water on {day}"


@server.prompt
def greet(name: str) -> str:
    """A greeting."""
    return f"Say ahoy to {name}."


@server.completion("greet", "name")
def names(typed: str) -> list[str]:
    """Names that begin so."""
    return [name for name in ("Anna", "Anton", "Berta") if name.startswith(typed)]


if __name__ == "__main__":
    sys.exit(server.run())
