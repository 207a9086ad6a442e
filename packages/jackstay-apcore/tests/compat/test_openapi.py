"""Modules from OpenAPI documents."""

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import httpx
import pytest
from apcore import Executor, ModuleError, Registry

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
    assert "module ID '2fa.get' is not valid" in caplog.text
    assert openapi_backend(DOCUMENT, prefix="pets", include="pet", exclude="delete").list() == ["pets.get_pet"]
    assert "old" not in openapi_backend(DOCUMENT, include_deprecated=False).list()

    def derive(path: str, method: str, operation: dict[str, Any]) -> str | None:
        return "factor.two" if path == "/2fa" else None

    assert "factor.two" in openapi_backend(DOCUMENT, derive_module_id=derive).list()


def test_options_that_cannot_take_effect() -> None:
    for message, options in (
        ("transform_operation and transform_module", {"transform_module": print}),
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
    ):
        with pytest.raises(ValueError, match=message):
            build_openapi_backend_from_config(value)
    assert build_openapi_backend_from_config(None) is None


def test_locations(tmp_path: Path) -> None:
    assert resolve_spec_location("https://x.test/a.json") == "https://x.test/a.json"
    assert resolve_spec_location("a.json", project_root=str(tmp_path)) == str(tmp_path / "a.json")
    assert resolve_spec_location(DOCUMENT) is DOCUMENT
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
