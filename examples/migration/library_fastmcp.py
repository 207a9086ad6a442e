"""A lending library, for FastMCP 3 and 4."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from fastmcp import Context, FastMCP
from fastmcp.dependencies import Depends
from fastmcp.exceptions import ToolError
from fastmcp.server.dependencies import get_context
from fastmcp.server.middleware import Middleware, MiddlewareContext
from fastmcp.server.middleware.rate_limiting import RateLimitingMiddleware
from fastmcp.utilities.types import Image
from pydantic import BaseModel, Field

DOT = b"\x89PNG\r\n\x1a\n"


class Genre(StrEnum):
    NOVEL = "novel"
    POETRY = "poetry"


class Book(BaseModel):
    isbn: Annotated[str, Field(pattern=r"^\d{4}$")]
    title: str
    genre: Genre = Genre.NOVEL
    copies: Annotated[int, Field(ge=0)] = 1


@dataclass
class Loan:
    isbn: str
    reader: str
    days: int


@dataclass
class Name:
    reader: str


class Catalogue:
    def __init__(self) -> None:
        self.books = {
            "1111": Book(isbn="1111", title="Dune"),
            "2222": Book(isbn="2222", title="Odes", genre=Genre.POETRY),
        }

    def get(self, isbn: str) -> Book:
        if isbn not in self.books:
            raise ToolError(f"there is no book {isbn}")
        return self.books[isbn]


@asynccontextmanager
async def lifespan(_: FastMCP) -> AsyncIterator[dict[str, Any]]:
    yield {"catalogue": Catalogue()}


def get_catalogue() -> Catalogue:
    return get_context().lifespan_context["catalogue"]


class CountCalls(Middleware):
    def __init__(self) -> None:
        self.calls = 0

    async def on_call_tool(self, context: MiddlewareContext, call_next: Any) -> Any:
        self.calls += 1
        return await call_next(context)


counter = CountCalls()
mcp = FastMCP(
    "library",
    instructions="Lends books.",
    lifespan=lifespan,
    middleware=[RateLimitingMiddleware(max_requests_per_second=1000), counter],
)


@mcp.tool(tags={"read"}, annotations={"readOnlyHint": True}, timeout=10)
async def find(
    words: str,
    limit: Annotated[int, Field(ge=1, le=50, description="How many at most.")] = 10,
    catalogue: Catalogue = Depends(get_catalogue),
) -> list[Book]:
    """Find books by title."""
    found = [book for book in catalogue.books.values() if words.lower() in book.title.lower()]
    return found[:limit]


@mcp.tool(tags={"write"}, annotations={"idempotentHint": True})
async def add(book: Book, ctx: Context, catalogue: Catalogue = Depends(get_catalogue)) -> Book:
    """Add a book, or replace it."""
    await ctx.info(f"adding {book.title}")
    await ctx.report_progress(1, 1)
    catalogue.books[book.isbn] = book
    return book


@mcp.tool
async def lend(isbn: str, ctx: Context, days: int = 14, catalogue: Catalogue = Depends(get_catalogue)) -> Loan:
    """Lend a book to a reader, whom the user names."""
    book = catalogue.get(isbn)
    answer = await ctx.elicit(f"Who borrows {book.title}?", response_type=Name)
    if answer.action != "accept":
        raise ToolError("nobody borrows it")
    book.copies -= 1
    return Loan(isbn, answer.data.reader, days)


@mcp.tool
def cover(isbn: str, catalogue: Catalogue = Depends(get_catalogue)) -> Image:
    """Show the cover of a book."""
    catalogue.get(isbn)
    return Image(data=DOT, format="png")


@mcp.tool
def count_calls() -> int:
    """Return how many tools were called."""
    return counter.calls


@mcp.resource("library://books", mime_type="text/plain")
def titles(catalogue: Catalogue = Depends(get_catalogue)) -> str:
    return "\n".join(sorted(book.title for book in catalogue.books.values()))


@mcp.resource("library://books/{isbn}", mime_type="application/json")
def book_page(isbn: str, catalogue: Catalogue = Depends(get_catalogue)) -> str:
    return catalogue.get(isbn).model_dump_json()


@mcp.prompt
def recommend(genre: str, mood: str = "calm") -> str:
    """Ask for a recommendation."""
    return f"Recommend a {genre} for a {mood} evening."


desk = FastMCP("desk")


@desk.tool
def hours(day: str) -> str:
    """Return the opening hours."""
    return "closed" if day == "Sunday" else "9 to 17"


mcp.mount(desk, "desk")

if __name__ == "__main__":
    mcp.run()
