"""Bad input of authors: each row is an error with the place and the remedy. Bad servers behind a mount cost only
themselves."""

import asyncio
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jackstay import Context, Depends, Server, connect, http, stdio
from jackstay.errors import McpError, UnexpectedOptionError, UsageError
from jackstay.openapi import OpenApiError, OpenApiWarning
from jackstay.proxy import Proxy, ProxyOptions, _mirror
from jackstay.server import Argument, Transform


def server_with(name: str, *tools: str) -> Server:
    server = Server(name)
    for tool in tools:
        server.add_tool(tool, input_schema={"type": "object"}, handler=lambda _: "done")
    return server


def mounted() -> tuple[Server, Server]:
    outer, inner = server_with("outer", "a"), server_with("inner", "a")
    outer.mount(inner, prefix="p")
    return outer, inner


def cycle_of_mounts() -> None:
    outer, inner = mounted()
    inner.mount(outer)


def first(value: int = 0) -> int:
    return value


def second(value: int = Depends(first)) -> int:
    return value


def needs_context(ctx: Context) -> int:
    return len(ctx.method)


def cycle_of_dependencies() -> None:
    first.__defaults__ = (Depends(second),)
    try:

        async def tool(value: int = Depends(first)) -> int:
            return value

        Server("x").tool(tool)
    finally:
        first.__defaults__ = (0,)


def dependency_without_context() -> None:
    async def tool(value: int = Depends(needs_context, scope="server")) -> int:
        return value

    Server("x").tool(tool)


DOCUMENT: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "shop", "version": "1"},
    "paths": {
        "/good": {"get": {"operationId": "good", "responses": {"200": {"description": "ok"}}}},
        "/bad": {"get": {"operationId": "bad", "parameters": [{"$ref": "#/components/x"}], "responses": {}}},
    },
}

# What an author does; the class of the error; the place (`path`); and what the message has, with the remedy.
ROWS: list[tuple[Callable[[], object], type[McpError], str, list[str]]] = [
    (lambda: Server("x", lifespam=1), UnexpectedOptionError, "lifespam", ["Server()", "did you mean 'lifespan'?"]),  # type: ignore[call-arg]
    (lambda: Server("x").tool(timeot=1)(first), UnexpectedOptionError, "timeot", ["tool()", "'timeout'?"]),  # type: ignore[call-overload]
    (lambda: Server("x").asgi(sesions=True), UnexpectedOptionError, "sesions", ["asgi()", "'sessions'?"]),  # type: ignore[call-arg]
    (
        lambda: Server("x").run(transport="http", prot=1),  # type: ignore[call-arg]
        UnexpectedOptionError,
        "prot",
        ['run(transport="http")', "'port'?"],
    ),
    (lambda: Server("x", shutdown_timeout=-1), UsageError, "shutdown_timeout", ["from 0.001 to 3600, not -1"]),
    (lambda: server_with("x", "a", "a"), UsageError, "a", ["duplicate entry in tools: 'a'", "use another name"]),
    (
        lambda: server_with("x", "a").mount(server_with("y", "a")),
        UsageError,
        "prefix",
        ["'a' of 'y'", "another prefix"],
    ),
    (lambda: mounted()[0].mount(Server("z"), prefix="p"), UsageError, "prefix", ["prefix 'p'", "use another one"]),
    (
        cycle_of_mounts,
        UsageError,
        "other",
        ["inner -> outer -> inner", "remove one of these mounts"],
    ),
    (lambda: mounted()[0].mount("none.json"), UsageError, "none.json", ["cannot read none.json", "No such file"]),
    (
        lambda: Server("x").mount(
            server_with("y", "a"), transforms={"a": Transform(arguments={"b": Argument(value=1)})}
        ),
        UsageError,
        "transforms",
        ["transforms['a'].arguments has 'b', which the tool does not have"],
    ),
    (cycle_of_dependencies, UsageError, "first", ["first -> second -> first", "remove one of these dependencies"]),
    (dependency_without_context, UsageError, "needs_context(ctx)", ["has no Context", "scope 'request'"]),
    (lambda: Server.from_openapi("none.yaml"), UsageError, "document", ["'none.yaml'", "No such file"]),
    (lambda: Server.from_openapi("{"), OpenApiError, "#", ["the document is not valid JSON: Input data was truncated"]),
    (lambda: Server.from_openapi({"swagger": "2.0"}), OpenApiError, "#", ["convert the document to OpenAPI 3"]),
    (
        lambda: Server.from_openapi(DOCUMENT, base_url="http://localhost", strict=True),
        OpenApiError,
        "#/paths/~1bad/get/parameters/0/$ref",
        ["GET /bad (bad)", "'#/components/x' does not exist"],
    ),
]


@pytest.mark.parametrize(
    ("mistake", "kind", "place", "texts"), ROWS, ids=[f"{row[2]}-{n}" for n, row in enumerate(ROWS)]
)
def test_each_mistake_has_an_error_with_place_and_remedy(
    mistake: Callable[[], object], kind: type[McpError], place: str, texts: list[str], subtests: pytest.Subtests
) -> None:
    with pytest.raises(kind) as caught:
        mistake()
    assert caught.value.path == place  # type: ignore[attr-defined]
    for text in texts:
        with subtests.test(text):
            assert text in caught.value.message


def test_an_operation_that_cannot_be_served_costs_only_itself() -> None:
    with pytest.warns(OpenApiWarning, match=r"not served: GET /bad \(bad\)"):
        server = Server.from_openapi(DOCUMENT, base_url="http://localhost")
    assert list(server.catalogue.tools) == ["good"]


# --- servers behind a mount -------------------------------------------------------------------------------------------

LIAR = """
import sys
for line in sys.stdin:
    print('{"jsonrpc": "2.0", "id": 1, "result": {"tools": [{"name": 7}], "protocolVersion": "no"}}', flush=True)
"""
FLOODER = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    for _ in range(2000):
        sys.stdout.write('{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}\\n')
    if message.get("method") == "initialize":
        info = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
        info["serverInfo"] = {"name": "x", "version": "1"}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": info}), flush=True)
    elif message.get("method") == "tools/list":
        tool = {"name": "flooded", "inputSchema": {"type": "object"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"tools": [tool]}}), flush=True)
    elif "id" in message:
        error = {"code": -32601, "message": "no"}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)
    sys.stdout.flush()
"""
HANGING = "import sys\nfor line in sys.stdin: pass\n"
GOOD = """
from jackstay import Server
server = Server("good")

@server.tool
def work() -> str:
    return "worked"

server.run()
"""


async def test_a_server_that_lies_floods_hangs_or_is_gone_costs_only_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_mirror, "START_TIMEOUT", 0.2)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/mcp"  # nothing listens there
    host = server_with("host", "own")
    host.mount(Proxy(http(url), ProxyOptions(wait=0.2)), prefix="gone")
    for name, program in (("lies", LIAR), ("floods", FLOODER), ("hangs", HANGING), ("good", GOOD)):
        path = tmp_path / f"{name}.py"
        path.write_text(program)
        options = ProxyOptions(wait=200.0 if name == "good" else 0.2)
        host.mount(Proxy(stdio(sys.executable, str(path)), options), prefix=name)
    async with connect(host, request_timeout=200, max_timeout=200) as client:
        assert (await client.tools.call("own")).text == "done"
        while "good_work" not in (listed := [tool.name for tool in await client.tools.list()]):
            await asyncio.sleep(0.01)
        assert listed[0] == "own"
        assert set(listed) <= {"own", "floods_flooded", "good_work"}
        assert (await client.tools.call("good_work")).text == "worked"
        for name in ("gone_x", "lies_x", "hangs_x"):
            with pytest.raises(McpError, match=r"down; the call did not run"):
                await client.tools.call(name)
        assert (await client.tools.call("good_work")).text == "worked"
