"""A lending library, for the official SDK 2."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from mcp.server.mcpserver import Context, Image, MCPServer, Resolve
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
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


class Name(BaseModel):
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


library = Catalogue()  # a global, because a resource without a template has no context


@asynccontextmanager
async def lifespan(_: MCPServer) -> AsyncIterator[Catalogue]:
    yield library


def get_catalogue(ctx: Context) -> Catalogue:
    return ctx.request_context.lifespan_context


class CountCalls:
    def __init__(self) -> None:
        self.calls = 0

    async def __call__(self, context: Any, call_next: Any) -> Any:
        self.calls += context.method == "tools/call"
        return await call_next(context)


counter = CountCalls()


mcp = MCPServer("library", instructions="Lends books.", lifespan=lifespan, middleware=[counter])


@mcp.tool(annotations=ToolAnnotations(read_only_hint=True))
async def find(
    words: str,
    catalogue: Annotated[Catalogue, Resolve(get_catalogue)],
    limit: Annotated[int, Field(ge=1, le=50, description="How many at most.")] = 10,
) -> list[Book]:
    """Find books by title."""
    found = [book for book in catalogue.books.values() if words.lower() in book.title.lower()]
    return found[:limit]


@mcp.tool(annotations=ToolAnnotations(idempotent_hint=True))
async def add(book: Book, ctx: Context, catalogue: Annotated[Catalogue, Resolve(get_catalogue)]) -> Book:
    """Add a book, or replace it."""
    await ctx.info(f"adding {book.title}")
    await ctx.report_progress(1, 1)
    catalogue.books[book.isbn] = book
    return book


@mcp.tool()
async def lend(
    isbn: str, ctx: Context, catalogue: Annotated[Catalogue, Resolve(get_catalogue)], days: int = 14
) -> Loan:
    """Lend a book to a reader, whom the user names."""
    book = catalogue.get(isbn)
    answer = await ctx.elicit(f"Who borrows {book.title}?", schema=Name)
    if answer.action != "accept":
        raise ToolError("nobody borrows it")
    book.copies -= 1
    return Loan(isbn, answer.data.reader, days)


@mcp.tool()
def cover(isbn: str, catalogue: Annotated[Catalogue, Resolve(get_catalogue)]) -> Image:
    """Show the cover of a book."""
    catalogue.get(isbn)
    return Image(data=DOT, format="png")


@mcp.tool()
def count_calls() -> int:
    """Return how many tools were called."""
    return counter.calls


@mcp.resource("library://books", mime_type="text/plain")
def titles() -> str:
    return "\n".join(sorted(book.title for book in library.books.values()))


@mcp.resource("library://books/{isbn}", mime_type="application/json")
def book_page(isbn: str, ctx: Context) -> str:
    return get_catalogue(ctx).get(isbn).model_dump_json()


@mcp.prompt()
def recommend(genre: str, mood: str = "calm") -> str:
    """Ask for a recommendation."""
    return f"Recommend a {genre} for a {mood} evening."


@mcp.tool()
def desk_hours(day: str) -> str:
    """Return the opening hours."""
    return "closed" if day == "Sunday" else "9 to 17"


if __name__ == "__main__":
    mcp.run()
