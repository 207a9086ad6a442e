"""`server.search_tools()` on 1,000 tools: the size of the list before and after, and how often a search finds the tool.

`search_tools.txt` has 100 kinds of things, ten operations for each, and one query in a person's words for each, with
the operation that it means. The search was tuned with these. Every second row has another query, which was written
afterwards and never used for tuning. A hit: the tool is among the first five.
"""

import asyncio
import json
import time
from pathlib import Path

import msgspec

from jackstay import Client, Server, connect

ROWS = [line.split("|") for line in (Path(__file__).parent / "search_tools.txt").read_text("utf-8").splitlines()]
BYTES_PER_TOKEN = 4  # an estimate for English and JSON

OPERATIONS = {
    "create": "Create a {noun}. Returns its id.",
    "get": "Return one {noun}, by its id.",
    "list": "List {plural}, newest first, a page at a time.",
    "search": "Search {plural} by text and filters.",
    "update": "Change the fields of a {noun}.",
    "delete": "Delete a {noun} for good.",
    "archive": "Archive a {noun}: it is kept, but no longer shown.",
    "restore": "Restore a {noun} that was archived.",
    "share": "Give another person access to a {noun}.",
    "export": "Export {plural} to a CSV or PDF file.",
}
ARGUMENTS = {
    "list": ["cursor", "page_size"],
    "search": ["query", "filters", "page_size"],
    "share": ["id", "person", "role"],
    "export": ["format", "from", "until"],
}


def make_server() -> tuple[Server, dict[str, dict[str, str]]]:
    """Return the server, and the tool that each query means, for both sets of queries."""
    server = Server("everything")
    wanted: dict[str, dict[str, str]] = {"tuned on": {}, "held back": {}}
    for service, thing, plural, about, fields, *queries in ROWS:
        for operation, text in OPERATIONS.items():
            name = f"{service}_{operation}_{thing}"
            arguments = ARGUMENTS.get(operation, ["id"])
            if operation in ("create", "update"):
                arguments = [*(["id"] if operation == "update" else []), *fields.split(",")]
            server.add_tool(
                name,
                description=f"{text.format(noun=thing.replace('_', ' '), plural=plural)} {about}",
                input_schema={"type": "object", "properties": {field: {"type": "string"} for field in arguments}},
                handler=lambda _: None,
                validate=False,
            )
        for found, query, meant in zip(wanted.values(), queries[::2], queries[1::2], strict=False):
            found[query] = f"{service}_{meant}_{thing}"
    return server, wanted


async def measure() -> None:
    server, wanted = make_server()
    async with connect(server) as client:
        tools = await client.tools.list()
        before = len(msgspec.json.encode([msgspec.to_builtins(tool) for tool in tools]))
        print(f"{len(tools)} tools")
    server.search_tools()
    async with connect(server) as client:
        tools = await client.tools.list()
        after = len(msgspec.json.encode([msgspec.to_builtins(tool) for tool in tools]))
        print(f"list before: {before:,} bytes, about {before // BYTES_PER_TOKEN:,} tokens")
        print(f"list after: {after:,} bytes, about {after // BYTES_PER_TOKEN:,} tokens")
        await client.tools.call("search_tools", {"query": "x"})  # builds the index
        for name, queries in wanted.items():
            await search(client, name, queries)


async def search(client: Client, title: str, wanted: dict[str, str]) -> None:
    found: dict[int, int] = {1: 0, 5: 0, 10: 0}
    sizes, seconds, missed, related = [], [], [], 0
    for query, name in wanted.items():
        started = time.perf_counter()
        text = (await client.tools.call("search_tools", {"query": query, "limit": 10})).text
        seconds.append(time.perf_counter() - started)
        names = [tool["name"] for tool in json.loads(text)["tools"]]
        for limit in found:
            found[limit] += name in names[:limit]
        service, _, thing = name.split("_", 2)
        related += any(other.startswith(f"{service}_") and other.endswith(f"_{thing}") for other in names[:5])
        if name not in names[:5]:
            missed.append(f"{query}: {name}")
        sizes.append(len((await client.tools.call("search_tools", {"query": query})).text))
    mean = sum(sizes) // len(sizes)
    print(f"{len(wanted)} queries, {title}:")
    print(f"  result of a search: {mean:,} bytes, about {mean // BYTES_PER_TOKEN:,} tokens (mean)")
    print(f"  found first: {found[1]} of {len(wanted)}; in the first 5: {found[5]}; in the first 10: {found[10]}")
    print(f"  another operation on the same thing, or the tool itself, in the first 5: {related}")
    print(f"  a search: {sorted(seconds)[len(seconds) // 2] * 1000:.2f} ms (median)")
    print("  missed in the first 5:", *missed, sep="\n    ")


asyncio.run(measure())
