"""The official SDK, 1.x or 2.x, as a client of the documentation server: `docs.py MODE TARGET PAGE`.

MODE is `session` (the class of 1.x), `auto` (2.x: probe the stateless era) or `legacy` (handshake). TARGET is a URL,
or the interpreter that runs the server. Prints the results as JSON.
"""

import json
import os
import sys

import anyio
from mcp import StdioServerParameters
from mcp.client.stdio import stdio_client

MODE, TARGET, PAGE = sys.argv[1:]

CALLS = [
    ("resolve_library", {"query": "langchain-openai>=0.3"}),
    ("resolve_library", {"query": "fasapi"}),
    ("resolve_library", {"query": "xyzzy-nonexistent"}),
    ("get_library_docs", {"library_id": "ours"}),
    ("read_page", {"url": PAGE, "offset": 3, "limit": 1}),
    ("search_docs", {"library_id": "ours", "query": "our-sdk"}),
    ("resolve_library", {"query": ""}),
    ("get_library_docs", {"library_id": "langchan"}),
    ("read_page", {"url": "https://internal.example.com/docs"}),
    ("read_page", {"url": PAGE.replace("guide", "absent")}),
]


def attribute(value, new, old):
    """Return an attribute by its name in 2.x (snake case) or in 1.x (camel case)."""
    return getattr(value, new) if hasattr(value, new) else getattr(value, old)


async def walk(client, seen):
    seen["tools"] = [tool.name for tool in (await client.list_tools()).tools]
    seen["answers"] = []
    for name, arguments in CALLS:
        result = await client.call_tool(name, arguments)  # the SDK validates the result against the output schema
        (block,) = result.content
        answer = json.loads(block.text)
        structured = attribute(result, "structured_content", "structuredContent")
        is_error = bool(attribute(result, "is_error", "isError"))
        seen["answers"].append([answer, is_error, structured == answer])
    seen["resources"] = [str(row.uri) for row in (await client.list_resources()).resources]
    for uri in seen["resources"]:
        (content,) = (await client.read_resource(uri)).contents
        seen["session"] = json.loads(content.text)


async def main() -> None:
    seen: dict = {}
    is_url = TARGET.startswith("http")
    command = StdioServerParameters(command=TARGET, args=["-m", "procontext"], env=dict(os.environ), cwd=os.getcwd())
    with anyio.fail_after(40):
        if MODE == "session":
            from mcp import ClientSession
            from mcp.client.streamable_http import streamable_http_client
            from pydantic import AnyUrl

            transport = streamable_http_client(TARGET) if is_url else stdio_client(command)
            async with transport as (read, write, *_), ClientSession(read, write) as client:
                initialize_result = await client.initialize()
                seen["revision"] = initialize_result.protocolVersion
                seen["instructions"] = initialize_result.instructions
                read_resource = client.read_resource
                client.read_resource = lambda uri: read_resource(AnyUrl(uri))
                await walk(client, seen)
        else:
            from mcp import Client

            async with Client(TARGET if is_url else stdio_client(command), mode=MODE) as client:
                seen["revision"], seen["instructions"] = client.protocol_version, client.instructions
                await walk(client, seen)
    print(json.dumps(seen))


anyio.run(main)
