"""What an agent gets from an empty cache: copies of the documentation sets on loopback, and the server over stdio.

    python tests/search_quality/first_contact.py            all sets; or those that are named

`make search-quality` runs it. For each set: resolve, search with its first question and read the first hit, then read
links with fragments from the table of contents. Exits with 1 if the tokens or the fragments miss their targets.
"""

import asyncio
import contextlib
import functools
import hashlib
import json
import re
import sys
import tempfile
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import unquote

from run import BUILD, CHARACTERS_PER_TOKEN, Query, Row, build, questions, rows

from jackstay import Client, connect, stdio

# The maximum of tokens from question to answer at first contact, in the median of the sets.
MAX_TOKENS = 6_000
# The tokens of the first part of a table of contents, in each set.
MAX_INDEX_TOKENS = 8_000
# The share of links with a fragment whose section is what is returned.
MIN_FRAGMENTS = 0.95
LINKS_PER_SET = 12
# Characters of a table of contents, which is half addresses, for each token.
CHARACTERS_PER_ADDRESS_TOKEN = 2.5


class _Handler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@contextlib.contextmanager
def site(folder: Path) -> Iterator[int]:
    """Serve a folder on loopback, and return the port."""
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Handler, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()


def tokens(text: str) -> float:
    """Return about how many tokens a string has."""
    return len(text) / CHARACTERS_PER_TOKEN


async def call(client: Client, name: str, **arguments: Any) -> tuple[dict[str, Any], float]:
    """Return the result of a tool, and its tokens."""
    text = (await client.tools.call(name, arguments, timeout=120)).text
    return json.loads(text), tokens(text)


async def first_contact(client: Client, row: Row, query: Query) -> dict[str, float]:
    """Search a library that nothing is stored of."""
    _, spent = await call(client, "resolve_library", query=row.name)
    found, cost = await call(client, "search_docs", library_id=library_id(row), query=query.text)
    spent += cost
    hits = [hit["url"] for hit in found["hits"]]
    if hits:
        spent += (await call(client, "read_page", url=hits[0]))[1]
    index, _ = await call(client, "get_library_docs", library_id=library_id(row))
    links = re.findall(r"\]\((https?://[^)\s]+#[^)\s]+)\)", index["content"])
    chosen = sorted(set(links), key=_by_hash)[:LINKS_PER_SET]
    right = 0
    for url in chosen:
        page, _ = await call(client, "read_page", url=url)
        title = page["content"].partition("\n")[0].casefold()
        right += f"{{#{unquote(url.partition('#')[2])}}}".casefold() in title and not page["headings"]
    return {
        "tokens": spent,
        "index": len(index["content"]) / CHARACTERS_PER_ADDRESS_TOKEN,
        "links": len(chosen),
        "sections": right,
        "searched": found["pages_searched"],
        "pages": found["pages_total"] or 0,
        "hit": any(is_page(url, query) for url in hits[:3]),
    }


def _by_hash(url: str) -> bytes:
    return hashlib.sha256(url.split("/", 3)[3].encode()).digest()  # without the port, which changes


def library_id(row: Row) -> str:
    """Return the identifier of the copy of a set."""
    return f"{row.name.replace('_', '-')}-copy"


def is_page(url: str, query: Query) -> bool:
    """Return whether a URL is a right page of a question."""
    path = re.sub(r"\.html$", "", url.partition("#")[0].split("/", 4)[4])
    return any(path == page for page, _ in query.answers)


async def measure(chosen: list[Row], port: int, folder: Path) -> int:
    """Search with the first question of each set, print the table, and return the exit code."""
    root = f"http://127.0.0.1:{port}"
    sources = [{"id": library_id(row), "name": row.name, "docs_url": f"{root}/{row.name}/"} for row in chosen]
    settings = {
        "sources": sources,
        "fetcher": {"allowed_private_hosts": [f"127.0.0.1:{port}"]},
        "cache": {"dir": str(folder / "cache")},
        "logging": {"level": "error"},
    }
    (folder / "settings.yaml").write_text(json.dumps(settings))
    first = {query.row: query for query in reversed([query for query in questions() if query.kind == "question"])}
    results = []
    command = stdio(sys.executable, "-m", "procontext", "--config", str(folder / "settings.yaml"), cwd=str(folder))
    async with connect(command) as client:
        for row in chosen:
            results.append(await first_contact(client, row, first[row.name]))
            values = results[-1]
            print(f"{row.name:18}" + "".join(f"{name} {value:<8.0f}" for name, value in values.items()), flush=True)
    links = sum(result["links"] for result in results)
    share = sum(result["sections"] for result in results) / links
    middle = median(result["tokens"] for result in results)
    largest = max(result["index"] for result in results)
    print(f"{len(results)} sets from an empty cache: right page among 3 in {sum(bool(r['hit']) for r in results)}")
    print(f"tokens from question to answer at first contact: median {middle:.0f} (at most {MAX_TOKENS})")
    print(f"first part of a table of contents: at most {largest:.0f} tokens (at most {MAX_INDEX_TOKENS})")
    print(f"links with a fragment that return the section: {share:.1%} of {links} (at least {MIN_FRAGMENTS:.0%})")
    return int(middle > MAX_TOKENS or largest > MAX_INDEX_TOKENS or share < MIN_FRAGMENTS)


def main() -> int:
    chosen = [row for row in rows() if row.format == "sphinx" and (len(sys.argv) == 1 or row.name in sys.argv[1:])]
    for row in chosen:
        build(row)
    with tempfile.TemporaryDirectory() as folder, site(BUILD / "html") as port:
        return asyncio.run(measure(chosen, port, Path(folder)))


if __name__ == "__main__":
    sys.exit(main())
