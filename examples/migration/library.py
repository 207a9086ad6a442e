"""A lending library."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, Field

from jackstay import Context, Depends, Server, ToolError
from jackstay.server import CallNext, Hooks, Image, RateLimit
from jackstay.types import CallToolRequestParams, CallToolResult

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
async def lifespan(_: Server) -> AsyncIterator[Catalogue]:
    yield Catalogue()


def get_catalogue(ctx: Context) -> Catalogue:
    catalogue: Catalogue = ctx.state
    return catalogue


class CountCalls(Hooks):
    def __init__(self) -> None:
        self.calls = 0

    async def on_call_tool(
        self, _: Context, params: CallToolRequestParams, call_next: CallNext[CallToolRequestParams, CallToolResult]
    ) -> CallToolResult:
        self.calls += 1
        return await call_next(params)


counter = CountCalls()
server = Server(
    "library",
    instructions="Lends books.",
    lifespan=lifespan,
    middleware=[RateLimit(1000, per=1), counter],
)


@server.tool(tags={"read"}, read_only=True, timeout=10)
async def find(
    words: str,
    limit: Annotated[int, Field(ge=1, le=50, description="How many at most.")] = 10,
    catalogue: Catalogue = Depends(get_catalogue),
) -> list[Book]:
    """Find books by title."""
    found = [book for book in catalogue.books.values() if words.lower() in book.title.lower()]
    return found[:limit]


@server.tool(tags={"write"}, idempotent=True)
async def add(book: Book, ctx: Context, catalogue: Catalogue = Depends(get_catalogue)) -> Book:
    """Add a book, or replace it."""
    await ctx.info(f"adding {book.title}")
    ctx.progress(1, 1)
    catalogue.books[book.isbn] = book
    return book


@server.tool
async def lend(isbn: str, ctx: Context, days: int = 14, catalogue: Catalogue = Depends(get_catalogue)) -> Loan:
    """Lend a book to a reader, whom the user names."""
    book = catalogue.get(isbn)
    answer = await ctx.elicit(f"Who borrows {book.title}?", Name)
    if not answer.is_accepted:
        raise ToolError("nobody borrows it")
    book.copies -= 1  # after the question: what is before it runs again with the answer
    return Loan(isbn, answer.data.reader, days)


@server.tool
def cover(isbn: str, catalogue: Catalogue = Depends(get_catalogue)) -> Image:
    """Show the cover of a book."""
    catalogue.get(isbn)
    return Image(DOT, "image/png")


@server.tool
def count_calls() -> int:
    """Return how many tools were called."""
    return counter.calls


@server.resource("library://books", mime_type="text/plain")
def titles(catalogue: Catalogue = Depends(get_catalogue)) -> str:
    return "\n".join(sorted(book.title for book in catalogue.books.values()))


@server.resource("library://books/{isbn}", mime_type="application/json")
def book_page(isbn: str, catalogue: Catalogue = Depends(get_catalogue)) -> str:
    return catalogue.get(isbn).model_dump_json()


@server.prompt
def recommend(genre: str, mood: str = "calm") -> str:
    """Ask for a recommendation."""
    return f"Recommend a {genre} for a {mood} evening."


desk = Server("desk")


@desk.tool(structured=True)
def hours(day: str) -> str:
    """Return the opening hours."""
    return "closed" if day == "Sunday" else "9 to 17"


server.mount(desk, prefix="desk")

if __name__ == "__main__":
    server.run()
