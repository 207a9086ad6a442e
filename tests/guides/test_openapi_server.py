"""The server of the guide, from the application and from its document over HTTP."""

import httpx
import pytest

from guides.loading import load
from jackstay import Server, connect

module = load("openapi_server")


async def calls(server: Server) -> list[str]:
    async with connect(server) as client:
        tools = {tool.name: tool for tool in await client.tools.list()}
        assert list(tools) == ["get_order", "cancel", "find_orders"]
        hints = tools["find_orders"].annotations
        assert hints is not None
        assert hints.read_only_hint
        found = await client.tools.call("find_orders", {"minimum": 100})
        order = await client.tools.call("get_order", {"order": "A7"})
        missing = await client.tools.call("get_order", {"order": "B8"}, raise_on_error=False)
        return [found.text, order.text, missing.error_text]


EXPECTED = ['["A7"]', '{"order":"A7","cents":500}', 'HTTP 404\n{"detail":"no such order"}']


async def test_the_application() -> None:
    assert await calls(module.from_application()) == EXPECTED


async def test_the_document() -> None:
    document = module.app.openapi()
    document = {
        **document,
        "components": {**document["components"], "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{"token": []}],
    }
    seen: list[str | None] = []

    async def note(request: httpx.Request) -> None:
        seen.append(request.headers.get("Authorization"))

    transport = httpx.ASGITransport(module.app)
    async with httpx.AsyncClient(transport=transport, event_hooks={"request": [note]}) as client:
        assert await calls(module.from_document(document, "t-1", client)) == EXPECTED
    assert seen == ["Bearer t-1"] * 3


def test_a_route_that_matches_nothing_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROUTES", [*module.ROUTES, module.Route("PATCH")])
    with pytest.warns(UserWarning, match="no operation matches"):
        module.from_application()
