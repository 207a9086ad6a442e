"""Tools with an app: the resource, the `_meta`, the negotiation, and the example over both transports and eras."""

import sys
from typing import Any

import pytest

from jackstay import Context, Server, connect, http, stdio
from jackstay.apps import APP_MIME_TYPE, APPS_EXTENSION, App, Apps
from jackstay.errors import UsageError
from peers.http_process import Serving
from scripted.places import ROOT

EXAMPLE = ROOT / "examples" / "apps" / "server.py"
PAGE = App("ui://dice/page", "<!doctype html><p>dice", connect_domains=["https://dice.example.com"])


def dice() -> Server:
    server = Server("dice")

    @server.tool(app=PAGE, meta={"kept": True})
    def roll(ctx: Context) -> str:
        return "page" if ctx.shows_apps else "text"

    @server.tool(app=PAGE, app_only=True)
    def again() -> str:
        return "again"

    return server


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_tools_refer_to_the_page_and_know_the_client(version: str) -> None:
    server = dice()
    for extensions, text in (([], "text"), ([Apps()], "page")):
        async with connect(server, versions=(version,), extensions=extensions) as client:
            assert (client.server_capabilities.extensions or {})[APPS_EXTENSION] == {"mimeTypes": [APP_MIME_TYPE]}
            roll, again = await client.tools.list()
            assert roll.meta == {"kept": True, "ui": {"resourceUri": PAGE.uri}}
            assert again.meta == {"ui": {"resourceUri": PAGE.uri, "visibility": ["app"]}}
            assert (await client.tools.call("roll")).text == text
            assert (await client.tools.call("again")).text == "again"
            (resource,) = await client.resources.list()
            assert (resource.uri, resource.mime_type, resource.meta) == (PAGE.uri, APP_MIME_TYPE, PAGE.meta)
            (content,) = (await client.resources.read(PAGE.uri)).contents
            assert (content.mime_type, content.meta) == (APP_MIME_TYPE, PAGE.meta)


async def test_a_prefix_changes_the_uri_of_the_page_too() -> None:
    host = Server("host")
    host.mount(dice(), prefix="games")
    async with connect(host, extensions=[Apps()]) as client:
        app = await client.apps.find("games_roll")
        assert app is not None
        assert (app.uri, app.html, app.policy) == ("ui://games/dice/page", PAGE.html, PAGE.policy)
        assert (await client.tools.call("games_roll")).text == "page"


def register(server: Server, **options: Any) -> None:
    @server.tool(**options)
    def tool() -> str:
        return ""


async def test_bad_options_are_refused() -> None:
    server = dice()
    with pytest.raises(UsageError, match="app must be an App"):
        register(server, app="ui://dice/page")
    with pytest.raises(UsageError, match="app_only=True needs app="):
        register(server, app_only=True)
    with pytest.raises(UsageError, match="duplicate entry"):
        register(server, app=App(PAGE.uri, "another"))
    plain = Server("plain")
    async with connect(plain):
        with pytest.raises(UsageError, match="running without apps"):
            register(plain, app=PAGE)


async def test_the_example_over_stdio_and_http() -> None:
    with Serving(sys.executable, "-m", "jackstay", "serve", str(EXAMPLE), "--http", "0") as process:
        url = f"http://127.0.0.1:{process.port}/mcp"
        for target, version in ((stdio(sys.executable, EXAMPLE), "2025-11-25"), (http(url), "2026-07-28")):
            async with connect(target, versions=(version,), extensions=[Apps()]) as host:
                app = await host.apps.find("roll")
                assert app is not None
                assert "ui/initialize" in app.read()
                rolled = (await host.tools.call("roll", {"count": 3})).structured_content
                assert isinstance(rolled, dict)
                assert len(rolled["result"]) == 3
            async with connect(target, versions=(version,)) as client:
                assert (await client.tools.call("roll")).text.startswith("You rolled ")
