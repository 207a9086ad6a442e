"""A server with rules of visibility, a search, middleware, a lifespan and a mount. As a program: stdio."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from jackstay.server import (
    Argument,
    CallNext,
    Context,
    Depends,
    Hooks,
    RateLimit,
    ResponseCache,
    ResponseSizeLimit,
    Server,
    ToolError,
    Transform,
)
from jackstay.types import CallToolRequestParams, CallToolResult


@asynccontextmanager
async def lifespan(_: Server) -> AsyncIterator[list[str]]:
    yield []


def journal(ctx: Context) -> list[str]:
    found: list[str] = ctx.state
    return found


class Polite(Hooks):
    """Refuses a tool by name, and changes an argument."""

    async def on_call_tool(
        self, ctx: Context, params: CallToolRequestParams, call_next: CallNext[CallToolRequestParams, CallToolResult]
    ) -> CallToolResult:
        if params.name == "shout":
            raise ToolError("not here")
        return await call_next(params)


def make() -> Server:
    limits = (RateLimit(3, 100_000, by="tool"), ResponseCache(100_000), ResponseSizeLimit(10_000))
    server = Server("composed", version="1", lifespan=lifespan, middleware=[Polite(), *limits])

    @server.tool(read_only=True)
    async def note(text: str, lines: list[str] = Depends(journal)) -> int:
        """Write a line into the journal."""
        lines.append(text)
        return len(lines)

    @server.tool
    async def shout() -> str:
        """Make noise."""
        return "noise"

    @server.tool
    async def flood() -> str:
        """Return more than is allowed."""
        return "x" * 20_000

    @server.tool(tags={"hidden"})
    async def secret() -> str:
        """Reveal a secret."""
        return "secret"

    @server.tool(enabled=False)
    async def late() -> str:
        """Exists later."""
        return "late"

    @server.tool
    async def switch() -> str:
        """Enable another tool."""
        server.enable("late")
        return "on"

    shop = Server("shop")

    @shop.tool
    def search(q: str, limit: int = 10) -> str:
        """Look for products."""
        return f"{limit} of {q}"

    @shop.resource("shop://{id}")
    def product(id: str) -> str:
        return f"product {id}"

    presets = {"q": Argument(name="product"), "limit": Argument(value=2)}
    server.mount(shop, prefix="shop", transforms={"search": Transform(name="find", arguments=presets)})
    server.visible(tags={"hidden"}, when=lambda _: False)
    return server


def make_searched() -> Server:
    """The same, with a search in place of the list."""
    server = make()
    server.search_tools(above=3)
    return server


if __name__ == "__main__":
    sys.exit(make().run())
