"""Servers from OpenAPI documents and FastAPI applications. The applications report the values that they received."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import Enum
from typing import Annotated, Any

import fastapi
import httpx
import msgspec
import pytest
from pydantic import BaseModel

from jackstay import Client, Server, connect, http
from jackstay.errors import JsonRpcError, UnexpectedOptionError, UsageError
from jackstay.openapi import OpenApiError, Route
from jackstay.server import _openapi as module
from jackstay.testing import memory_pair
from jackstay.types import TextContent, TextResourceContents
from scripted.openapi_documents import document, get, parameter, posting


class Kind(Enum):
    CAT = "cat"
    DOG = "dog"


class Tree(BaseModel):
    name: str
    kind: Kind = Kind.CAT
    children: "list[Tree]" = []


app = fastapi.FastAPI(title="Pets", version="7")


@app.get("/pets/{pet_id}/{part}")
def read_pet(  # noqa: PLR0917  # FastAPI reads them by name
    pet_id: int,
    part: Kind,
    tags: Annotated[list[str], fastapi.Query()] = [],  # noqa: B006  # FastAPI copies it
    limit: float = 1.5,
    flag: bool = False,
    x_trace: Annotated[str, fastapi.Header()] = "",
    x_many: Annotated[list[int] | None, fastapi.Header()] = None,
    session: Annotated[str, fastapi.Cookie()] = "",
) -> dict[str, Any]:
    return {
        "id": pet_id,
        "part": part.value,
        "tags": tags,
        "limit": limit,
        "flag": flag,
        "trace": x_trace,
        "session": session,
    }


@app.post("/trees")
def add_tree(tree: Tree, dry: bool = False) -> Tree:
    return tree


@app.put("/form")
def put_form(name: Annotated[str, fastapi.Form()], tags: Annotated[list[str], fastapi.Form()]) -> list[str]:
    return [name, *tags]


@app.post("/files")
async def upload(
    one: fastapi.UploadFile, many: list[fastapi.UploadFile], note: Annotated[str, fastapi.Form()]
) -> dict[str, Any]:
    """Keep files."""
    content = [(file.filename, file.content_type, (await file.read()).hex()) for file in (one, *many)]
    return {"note": note, "files": content}


@app.get("/raw/{path:path}", response_class=fastapi.responses.PlainTextResponse)
def read_raw(path: str) -> str:
    return f"raw {path}"


@app.delete("/pets/{pet_id}", status_code=204)
def remove_pet(pet_id: str) -> None:
    if pet_id == "missing":
        raise fastapi.HTTPException(404, "no such pet")


@app.get("/fails")
def fail() -> None:
    raise ZeroDivisionError("secret")


@asynccontextmanager
async def reach(server: Server) -> AsyncIterator[Client]:
    pair = memory_pair()
    serving = asyncio.ensure_future(server.serve(pair.server))
    async with connect(pair.client) as client:
        yield client
    await serving


def content_of(result: Any) -> Any:
    return result.structured_content


# What is sent and what the application must have received.
VALUES: list[tuple[str, dict[str, Any], Any]] = [
    (
        "read_pet",
        {
            "pet_id": 3,
            "part": "dog",
            "tags": ["a b", "c&d=é", "%2F+,;"],
            "limit": 2,
            "flag": True,
            "x-trace": "t;r,a",
            "session": "s-1",
        },
        {
            "id": 3,
            "part": "dog",
            "tags": ["a b", "c&d=é", "%2F+,;"],
            "limit": 2.0,
            "flag": True,
            "trace": "t;r,a",
            "session": "s-1",
        },
    ),
    (
        "read_pet",
        {"pet_id": -1, "part": "cat"},
        {"id": -1, "part": "cat", "tags": [], "limit": 1.5, "flag": False, "trace": "", "session": ""},
    ),
    (
        "add_tree",
        {"body": {"name": "ü", "children": [{"name": "a", "kind": "dog"}]}, "dry": False},
        {"name": "ü", "kind": "cat", "children": [{"name": "a", "kind": "dog", "children": []}]},
    ),
    ("put_form", {"body": {"name": "a b&c", "tags": ["x+y", "é"]}}, {"result": ["a b&c", "x+y", "é"]}),
    (
        "upload",
        {
            "body": {
                "note": "n\n",
                "one": {"text": "hi", "filename": "a b.txt"},
                "many": [{"base64": "AAH/", "contentType": "image/png"}],
            }
        },
        {"note": "n\n", "files": [["a b.txt", "text/plain; charset=utf-8", "6869"], ["many", "image/png", "0001ff"]]},
    ),
]


@pytest.mark.parametrize(("tool", "arguments", "received"), VALUES)
async def test_the_application_receives_what_was_sent(tool: str, arguments: Any, received: Any) -> None:
    async with reach(Server.from_fastapi(app)) as client:
        result = await client.tools.call(tool, arguments, raise_on_error=False)
    assert not result.is_error, result.content
    assert content_of(result) == received


async def test_the_tools_of_an_application() -> None:
    server = Server.from_fastapi(app)
    assert (server.name, server.options.version) == ("Pets", "7")
    tools = {tool.name: tool for tool in [entry.body for entry in server.catalogue.tools.values()]}
    assert list(tools) == ["read_pet", "add_tree", "put_form", "upload", "read_raw", "remove_pet", "fail"]
    assert tools["upload"].description == "Upload\n\nKeep files."
    hints = {name: tool.annotations for name, tool in tools.items()}
    rows = {name: (row.read_only_hint, row.destructive_hint, row.idempotent_hint) for name, row in hints.items() if row}
    assert rows["read_pet"] == (True, None, None)
    assert rows["add_tree"] == (False, None, None)
    assert rows["put_form"] == rows["remove_pet"] == (False, True, True)
    encoded = {name: msgspec.json.encode(tool.input_schema).decode() for name, tool in tools.items()}
    assert [name for name, schema in encoded.items() if "$ref" in schema] == ["add_tree"], "only Tree is recursive"
    assert all(re.search(r'"type":', part) for schema in encoded.values() for part in schema.split('"enum"')[1:])
    assert tools["read_raw"].output_schema is None


async def test_errors_of_the_application_are_tool_errors() -> None:
    async with reach(Server.from_fastapi(app)) as client:
        gone = await client.tools.call("remove_pet", {"pet_id": "1"})
        missing = await client.tools.call("remove_pet", {"pet_id": "missing"}, raise_on_error=False)
        invalid = await client.tools.call("read_pet", {"pet_id": "x", "part": "bird", "other": 1}, raise_on_error=False)
        failed = await client.tools.call("fail", {}, raise_on_error=False)
        raw = await client.tools.call("read_raw", {"path": "a b/c"})
        slash = await client.tools.call("remove_pet", {"pet_id": "1/2"}, raise_on_error=False)
        broken = await client.tools.call("remove_pet", None, raise_on_error=False)
    assert gone.content == [TextContent(text="HTTP 204, no content")]
    assert (missing.is_error, missing.content) == (True, [TextContent(text='HTTP 404\n{"detail":"no such pet"}')])
    assert invalid.is_error
    assert "pet_id: 'x' is not of type 'integer'" in invalid.error_text
    assert failed.is_error
    assert "secret" not in failed.error_text
    assert raw.text == "raw a b/c"
    assert "a slash is not allowed" in slash.error_text
    assert "pet_id" in broken.error_text


async def test_get_operations_as_resources() -> None:
    rows = [
        Route("GET", "/raw/*", serve="resource"),
        Route(path="/pets/{pet_id}/{part}", serve="resource", uri="pets://{pet_id}/{part}"),
        Route(path="/fails", serve="resource"),
        Route(path="/none"),
    ]
    with pytest.warns(UserWarning, match="no operation matches"):
        server = Server.from_fastapi(app, name="My pets!", routes=rows)
    assert sorted(server.catalogue.templates) == ["api://my-pets/raw/{path}", "pets://{pet_id}/{part}"]
    assert list(server.catalogue.resources) == ["api://my-pets/fails"]
    async with reach(server) as client:
        (raw,) = (await client.resources.read("api://my-pets/raw/a%20b")).contents
        (pet,) = (await client.resources.read("pets://7/cat")).contents
        with pytest.raises(JsonRpcError, match="HTTP 422"):
            await client.resources.read("pets://x/cat")
        with pytest.raises(JsonRpcError):
            await client.resources.read("api://my-pets/fails")
    assert raw == TextResourceContents(uri="api://my-pets/raw/a%20b", mime_type="text/plain", text="raw a b")
    assert isinstance(pet, TextResourceContents)
    assert '"id":7' in pet.text


async def test_the_lifespan_runs_with_the_server() -> None:
    steps: list[str] = []

    @asynccontextmanager
    async def lifespan(_: fastapi.FastAPI) -> AsyncIterator[dict[str, str]]:
        steps.append("start")
        yield {"pool": "p"}
        steps.append("stop")

    own = fastapi.FastAPI(lifespan=lifespan)

    @own.get("/")
    def root(request: fastapi.Request) -> str:
        return str(getattr(request.state, "pool", "none"))

    async with reach(Server.from_fastapi(own)) as client:
        assert (await client.tools.call("root", {})).text == "p"
    assert steps == ["start", "stop"]
    async with reach(Server.from_fastapi(own, lifespan=False)) as client:
        assert (await client.tools.call("root", {})).text == "none"
    assert steps == ["start", "stop"]


PET = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
PETS = document(
    {
        "/pets/{id}": get(
            parameter("id", "path"),
            operationId="getPet",
            responses={"200": {"content": {"application/json": {"schema": PET}}}},
        )
    },
    servers=[{"url": "https://pets.example/v1"}],
)


def responding(status: int = 200, **more: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.MockTransport(lambda _: httpx.Response(status, **more)))


async def test_a_document_with_the_client_of_the_author() -> None:
    seen: list[httpx.URL] = []

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request.url)
        return httpx.Response(200, json={"id": 3})

    async with httpx.AsyncClient(transport=httpx.MockTransport(handle)) as own:
        server = Server.from_openapi(PETS, client=own, server_options={"version": "9", "page_size": 3})
        async with reach(server) as client:
            assert content_of(await client.tools.call("getPet", {"id": "a b"})) == {"id": 3}
        assert not own.is_closed
    assert (server.name, server.options.version, server.options.page_size) == ("Pets", "9", 3)
    assert str(seen[0]) == "https://pets.example/v1/pets/a%20b"


async def test_the_base_url_of_the_client_applies() -> None:
    async with httpx.AsyncClient(base_url="https://other.example/v2") as own:
        api = module.api_of_document(PETS, own, {})
        assert api.endpoints[0].url == "https://other.example/v2"
        assert module.api_of_document(PETS, own, {"base_url": "http://x"}).endpoints[0].url == "http://x"


async def test_a_response_that_violates_its_schema_is_a_tool_error() -> None:
    async with responding(json={"id": "x"}) as own, reach(Server.from_openapi(PETS, client=own)) as client:
        result = await client.tools.call("getPet", {"id": "1"}, raise_on_error=False)
    assert result.is_error
    assert result.error_text.startswith("the response violates the output schema: id: 'x' is not of type 'integer'")
    assert '{"id":"x"}' in result.error_text
    server = Server.from_openapi(PETS, client=responding(json={"id": "x"}), routes=[Route(output_schema=False)])
    async with reach(server) as client:
        assert content_of(await client.tools.call("getPet", {"id": "1"})) == {"id": "x"}


async def test_a_large_response_is_a_tool_error() -> None:
    server = Server.from_openapi(PETS, client=responding(content=b"x" * 1000), max_response_bytes=100)
    async with reach(server) as client:
        result = await client.tools.call("getPet", {"id": "1"}, raise_on_error=False)
    assert result.error_text == "HTTP 200, but the body is larger than 100 bytes"


@pytest.mark.parametrize("status", [404, 410, 500])
async def test_a_resource_that_is_not_found(status: int) -> None:
    server = Server.from_openapi(PETS, client=responding(status), routes=[Route(serve="resource")])
    async with reach(server) as client:
        with pytest.raises(JsonRpcError, match="HTTP 500" if status == 500 else "not found"):
            await client.resources.read("api://pets/pets/1")


def test_rows_change_hints_and_texts() -> None:
    row = Route("POST", name="search", title="T", description="D", read_only=True, idempotent=True)
    root = {**posting({"application/json": {}}), "servers": [{"url": "https://x.example"}]}
    (entry,) = Server.from_openapi(root, routes=[row]).catalogue.tools.values()
    body = entry.body
    assert (body.name, body.title, body.description) == ("search", "T", "D")
    assert body.annotations is not None
    assert (body.annotations.read_only_hint, body.annotations.idempotent_hint) == (True, True)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Server.from_openapi(PETS, timeot=3), UnexpectedOptionError, "did you mean 'timeout'"),  # type: ignore[call-arg]
        (lambda: Server.from_fastapi(PETS), UsageError, "from_fastapi() expected a FastAPI application, got dict"),
        (lambda: Server.from_openapi("{}"), OpenApiError, "'openapi' must be 3.0.x or 3.1.x"),
    ],
)
def test_bad_options(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        make()
    assert message in str(caught.value)


def test_a_server_without_a_title_is_called_api() -> None:
    root = {key: item for key, item in PETS.items() if key != "info"}
    assert Server.from_openapi(root, client=responding()).name == "api"


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_named_headers_of_the_caller_are_forwarded_over_http(version: str) -> None:
    seen: list[httpx.Headers] = []

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers)
        return httpx.Response(200, json={"id": 3})

    upstream = httpx.AsyncClient(transport=httpx.MockTransport(handle))
    server = Server.from_openapi(PETS, client=upstream, forward_headers=["X-Tenant"])
    sent = {"X-Tenant": "7", "Authorization": "Bearer caller", "Cookie": "sid=1"}
    transport = httpx.ASGITransport(server.asgi())
    async with (
        httpx.AsyncClient(transport=transport, headers=sent) as caller,
        connect(http("http://127.0.0.1/mcp", client=caller), versions=(version,)) as client,
    ):
        await client.tools.call("getPet", {"id": "1"})
    assert seen[0]["x-tenant"] == "7"
    assert "authorization" not in seen[0]
    assert "cookie" not in seen[0]
