"""Modules from OpenAPI documents."""

import asyncio
import json
import logging
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from apcore import Executor, ModuleError, ModuleExample, Registry

from apcore_mcp.compat import openapi
from apcore_mcp.compat.openapi import build_openapi_backend_from_config, openapi_backend, resolve_spec_location
from apcore_mcp.serving import open_bridge, read_options

ITEM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
OK = {"200": {"description": "ok", "content": {"application/json": {"schema": ITEM}}}}
DOCUMENT: dict[str, Any] = {
    "openapi": "3.0.3",
    "info": {"title": "Pets", "version": "1"},
    "servers": [{"url": "http://pets.test"}],
    "paths": {
        "/pets/{petId}": {
            "get": {
                "operationId": "getPet",
                "tags": ["pets"],
                "parameters": [{"name": "petId", "in": "path", "required": True, "schema": {"type": "integer"}}],
                "responses": OK,
            },
            "delete": {
                "parameters": [{"name": "petId", "in": "path", "required": True, "schema": {"type": "integer"}}],
                "responses": {"204": {"description": "gone"}},
            },
        },
        "/old": {"get": {"operationId": "old", "deprecated": True, "responses": OK}},
        "/2fa": {"get": {"responses": OK}},
    },
}


def test_ids_and_filters(caplog: pytest.LogCaptureFixture) -> None:
    assert openapi_backend(DOCUMENT).list() == ["get_pet", "old", "pets.pet_id.delete"]
    assert "module ID '2fa.get' is not valid because of '2fa'" in caplog.text
    assert openapi_backend(DOCUMENT, prefix="Pets", include=r"pets\..*pet", exclude="delete$").list() == [
        "pets.get_pet"
    ]
    assert openapi_backend(DOCUMENT, prefix="pets", exclude="^pets").list() == []
    assert "old" not in openapi_backend(DOCUMENT, include_deprecated=False).list()

    def derive(path: str, method: str, operation: dict[str, Any]) -> str | None:
        return "factor.two" if (path, method) == ("/2fa", "get") else None

    assert "factor.two" in openapi_backend(DOCUMENT, derive_module_id=derive).list()


def test_ids_are_those_of_apcore_toolkit() -> None:
    operations = {
        "/": {"get": {"responses": OK}},
        "/items/{itemId}": {"get": {"operationId": "read_items__item_id__get", "responses": OK}},
        "/a": {"get": {"operationId": "HTTPThing", "responses": OK}, "put": {"operationId": "a", "responses": OK}},
        "/b": {"get": {"operationId": "a", "responses": OK}, "put": {"operationId": "a_2", "responses": OK}},
    }
    ids = openapi_backend({**DOCUMENT, "paths": operations}).list()
    assert ids == ["a", "a_2", "a_3", "http_thing", "read_items__item_id__get", "root.get"]


def test_transformed_operations_and_modules() -> None:
    seen = []

    def transform_operation(path: str, method: str, operation: dict[str, Any]) -> dict[str, Any] | None:
        seen.append((path, method))
        return None if method == "delete" else {**operation, "summary": "Changed"}

    def transform_module(module: openapi.OperationModule) -> openapi.OperationModule | None:
        changed = replace(module, module_id="OldOne", annotations=replace(module.annotations, requires_approval=True))
        return {"get_pet": module, "old": changed}.get(module.module_id)

    registry = openapi_backend(DOCUMENT, transform_operation=transform_operation, transform_module=transform_module)
    assert registry.list() == ["get_pet", "old_one"]
    assert ("/pets/{petId}", "delete") in seen
    definition = registry.get_definition("old_one")
    assert definition is not None
    assert definition.annotations.requires_approval
    assert registry.get("get_pet").name == "Changed"


def test_hooks_read_and_change_every_field() -> None:
    """The fields reach the registry, and the display reaches the tool."""
    document = {**DOCUMENT, "info": {"title": "Pets", "version": "2024-05 beta"}}
    document["paths"] = {"/pets": {"get": {"operationId": "pets", "description": "All.\n\nOf them.", "responses": OK}}}
    seen: dict[str, Any] = {}

    def transform_module(module: openapi.OperationModule) -> openapi.OperationModule:
        seen.update(vars(module))
        return replace(
            module,
            version="3.1.0",
            documentation="Long",
            examples=[ModuleExample(title="All", inputs={}, output={})],
            metadata={**module.metadata, "x-when-to-use": "for pets"},
            display={"mcp": {"alias": "all_pets", "description": "Lists pets"}},
        )

    registry = openapi_backend(document, transform_module=transform_module)
    assert (seen["target"], seen["version"], seen["documentation"]) == ("GET /pets", "2024-05 beta", "All.\n\nOf them.")
    origin = {"spec_version": "3.0.3", "operation_id": "pets", "server_url": "http://pets.test"}
    assert seen["metadata"] == {"http_method": "GET", "url_path": "/pets", "openapi": origin}
    definition = registry.get_definition("pets")
    assert definition is not None
    assert (definition.version, definition.documentation) == ("3.1.0", "Long")
    assert (definition.examples[0].title, definition.metadata["url_path"]) == ("All", "/pets")
    with open_bridge(registry, read_options({}), owns_loop=False) as bridge:
        (tool,) = asyncio.run(bridge.server.list_tools())
    assert tool.name == "all_pets"
    assert tool.description.startswith("Lists pets")
    assert "for pets" in tool.description


@pytest.mark.parametrize(
    ("parameters", "is_served"),
    [
        ([], True),
        ([{"name": "b", "in": "query", "schema": {"type": "string"}}, {"$ref": "#/components/parameters/A"}], True),
        ([{"$ref": "#/components/parameters/None"}], False),
        ("?", False),
    ],
)
def test_path_variables_without_a_parameter(parameters: Any, is_served: bool) -> None:
    variable = {"name": "a", "in": "path", "required": True, "schema": {"type": "integer"}}
    paths = {"/x/{a}/{c}": {"get": {"parameters": parameters, "responses": OK}}, "/y": {"get": {"responses": OK}}}
    registry = openapi_backend({**DOCUMENT, "paths": paths, "components": {"parameters": {"A": variable}}})
    assert registry.has("x.a.c.get") is is_served
    if is_served:
        definition = registry.get_definition("x.a.c.get")
        assert definition is not None
        schema = definition.input_schema
        assert schema["properties"]["c"]["type"] == "string"
        assert {"a", "c"} <= set(schema["required"])


def test_options_that_cannot_take_effect() -> None:
    for message, options in (
        ("regular expressions", {"include": "("}),
        ("^include is empty and protects nothing", {"include": ""}),
        ("^exclude is empty and protects nothing", {"exclude": "", "include": "a"}),
        ("prefix", {"has_other_backend_source": True}),
        ("exist already: get_pet", {"registry": openapi_backend(DOCUMENT)}),
    ):
        with pytest.raises(ValueError, match=message):
            openapi_backend(DOCUMENT, **options)
    with pytest.raises(ValueError, match="spec"):
        openapi_backend(" ")
    for value, message in (
        ("x", "must be a mapping"),
        ({"prefix": "x"}, "spec is required"),
        ({"spec": 1, "x": 1}, "no key"),
        ({"spec": 1, "transform_module": "x"}, "no key"),
        ({"spec": 1, "include_deprecated": "no"}, r"^mcp\.openapi\.include_deprecated: Expected `bool`, got `str`$"),
        ({"spec": 1, "headers": "X-Key: k"}, r"^mcp\.openapi\.headers: Expected `object \| null`, got `str`$"),
        ({"spec": 1, "timeout": "long"}, r"^mcp\.openapi\.timeout: Expected `float`, got `str`$"),
        ({"spec": 1, "include": ["a"]}, r"^mcp\.openapi\.include: Expected `str \| null`, got `array`$"),
        ({"spec": 1, "include": ""}, r"^mcp\.openapi\.include is empty and protects nothing: remove it, or set it$"),
        ({"spec": 1, "exclude": None}, r"^mcp\.openapi\.exclude is empty and protects nothing: remove it, or set it$"),
    ):
        with pytest.raises(ValueError, match=message):
            build_openapi_backend_from_config(value)
    assert build_openapi_backend_from_config(None) is None


def test_locations(tmp_path: Path) -> None:
    assert resolve_spec_location("https://x.test/a.json") == "https://x.test/a.json"
    assert resolve_spec_location("a.json", project_root=str(tmp_path)) == str(tmp_path / "a.json")
    assert resolve_spec_location(DOCUMENT) is DOCUMENT
    with pytest.raises(FileNotFoundError):
        openapi_backend("none.json", project_root=str(tmp_path))
    assert resolve_spec_location("") is None


def respond(request: httpx.Request) -> httpx.Response:
    if request.url.path == "/openapi.json":
        return httpx.Response(200, text=json.dumps(DOCUMENT))
    if request.headers.get("x-key") != "k":
        return httpx.Response(403, text="no key")
    if request.method == "DELETE":
        return httpx.Response(204)
    return httpx.Response(200, json={"name": request.url.path})


def test_calls_go_to_the_api(monkeypatch: pytest.MonkeyPatch) -> None:
    client = httpx.AsyncClient
    transport = httpx.MockTransport(respond)
    monkeypatch.setattr(httpx, "AsyncClient", lambda **options: client(transport=transport, **options))
    monkeypatch.setattr(httpx, "get", lambda url, **options: httpx.Client(transport=transport).get(url))
    given = {"x-key": "k"}
    registry = openapi_backend("http://pets.test/openapi.json", auth_header_factory=lambda: given)
    executor = Executor(registry)

    async def run() -> None:
        assert await executor.call_async("get_pet", {"petId": 7}) == {"name": "/pets/7"}
        assert "result" in await executor.call_async("pets.pet_id.delete", {"petId": 7})
        given.clear()
        with pytest.raises(ModuleError, match="403"):
            await executor.call_async("get_pet", {"petId": 7})

    asyncio.run(run())
    definition = registry.get_definition("pets.pet_id.delete")
    assert definition is not None
    assert (definition.annotations.requires_approval, definition.annotations.destructive) == (True, True)
    assert "DELETE" in repr(registry.get("pets.pet_id.delete"))


class Web:
    """A server on loopback that records the headers of requests by path, and redirects from some paths."""

    def __init__(self) -> None:
        self.seen: dict[str, str | None] = {}
        self.redirects: dict[str, str] = {}
        self.document: dict[str, Any] = DOCUMENT
        web = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                web.seen[self.path] = self.headers.get("X-Api-Key")
                body = json.dumps(web.document).encode()
                target = web.redirects.get(self.path)
                self.send_response(302 if target else 200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                if target:
                    self.send_header("Location", target)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))

    def __enter__(self) -> "Web":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def test_headers_do_not_leave_the_origin_of_the_document() -> None:
    headers = {"X-Api-Key": "secret"}
    with Web() as web, Web() as other:
        web.redirects = {"/first": "/second", "/second": f"{other.url}/third", "/endless": "/endless"}
        other.redirects = {"/third": f"{web.url}/back"}
        assert openapi_backend(f"{web.url}/first", headers=headers).has("get_pet")
        assert web.seen == {"/first": "secret", "/second": "secret", "/back": None}
        assert other.seen == {"/third": None}
        with pytest.raises(ValueError, match="more than 5 redirects"):
            openapi_backend(f"{web.url}/endless")
        web.redirects = {"/first": "ftp://[/"}
        with pytest.raises(httpx.HTTPError):
            openapi_backend(f"{web.url}/first", headers=headers)


def test_headers_of_the_factory_go_to_one_origin() -> None:
    with Web() as web, Web() as other:
        paths = {
            "/a": {"get": {"operationId": "a", "responses": OK}},
            "/b": {"get": {"operationId": "b", "servers": [{"url": other.url}], "responses": OK}},
        }
        web.document = {**DOCUMENT, "servers": [{"url": f"{web.url}/v1"}], "paths": paths}
        for source in (f"{web.url}/openapi.json", web.document):
            with pytest.raises(ValueError, match=f"would be sent to {other.url}, another origin.* set base_url"):
                openapi_backend(source, auth_header_factory=lambda: {"X-Api-Key": "secret"})
            registry = openapi_backend(source, exclude="b", auth_header_factory=lambda: {"X-Api-Key": "secret"})
            assert registry.list() == ["a"]
        assert openapi_backend(f"{web.url}/openapi.json").list() == ["a", "b"]
        options: dict[str, Any] = {"base_url": other.url, "auth_header_factory": lambda: {"X-Api-Key": "secret"}}
        executor = Executor(openapi_backend(f"{web.url}/openapi.json", **options))
        other.document = {"name": "b"}
        assert asyncio.run(executor.call_async("b", {})) == {"name": "b"}
        other.redirects = {"/b": f"{web.url}/b"}
        with pytest.raises(ModuleError, match="another origin"):
            asyncio.run(Executor(openapi_backend(web.document, **options)).call_async("b", {}))
        assert (other.seen, web.seen) == ({"/b": "secret"}, {"/openapi.json": None})


def test_setting_adds_operations_once(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "pets.json").write_text(json.dumps(DOCUMENT))
    file = tmp_path / "apcore.yaml"
    file.write_text(f"mcp:\n  openapi: {{spec: {tmp_path}/pets.json, prefix: pets}}\n")
    monkeypatch.chdir(tmp_path)
    options = read_options({})
    for _ in range(2):
        with open_bridge(registry, options) as bridge:
            assert bridge.catalogue.find("pets.get_pet") is not None


def test_empty_document(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert openapi_backend(DOCUMENT, include="^nothing$").list() == []
    assert "zero modules" in caplog.text
    assert openapi.BACKEND_OPTIONS
