"""`client.apps` returns only pages that are apps, and a toolbox only tools for models."""

from base64 import b64encode
from typing import Any

import pytest

from jackstay import Server, connect
from jackstay.apps import APP_MIME_TYPE, App, Apps
from jackstay.errors import ProtocolError
from jackstay.models import Toolbox
from jackstay.sync import connect as connect_blocking
from jackstay.types import BlobResourceContents, TextResourceContents

PAGE = App("ui://a/page", "<p>")


def server_with(*contents: Any) -> Server:
    server = Server("apps")

    @server.tool(app=PAGE)
    def shown() -> str:
        return ""

    @server.tool(app=PAGE, app_only=True)
    def own() -> str:
        return ""

    @server.tool
    def plain() -> str:
        return ""

    @server.resource("ui://b/page")
    def page() -> list[Any]:
        return list(contents)

    return server


async def test_the_app_of_a_tool() -> None:
    async with connect(server_with(), extensions=[Apps()]) as client:
        assert await client.apps.find("shown") == PAGE
        assert await client.apps.find("plain") is None
        assert await client.apps.find("unknown") is None
        toolbox = Toolbox(client, "openai")
        await toolbox.definitions()
        assert list(toolbox.names) == ["shown", "plain"]


def test_the_blocking_client_has_apps() -> None:
    with connect_blocking(server_with(), extensions=[Apps()]) as client:
        assert client.apps.read(PAGE.uri) == PAGE


def contents(**fields: Any) -> Any:
    kind = BlobResourceContents if "blob" in fields else TextResourceContents
    return kind(**{"uri": "ui://b/page", "mime_type": APP_MIME_TYPE, **fields})


async def test_a_page_in_base64() -> None:
    server = server_with(contents(blob=b64encode("<p>é".encode()).decode()))
    async with connect(server, extensions=[Apps()]) as client:
        assert (await client.apps.read("ui://b/page")).read() == "<p>é"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (contents(text="<p>", mime_type="text/html"), "is not an app"),
        (contents(text="<p>", uri="ui://c"), "is not an app"),
        (contents(blob="/w=="), "is not UTF-8"),
        (contents(text="<p>", meta={"ui": {"csp": {"frameDomains": ["*"]}}}), "must be origins"),
    ],
)
async def test_what_is_no_app_is_refused(content: Any, message: str) -> None:
    async with connect(server_with(content), extensions=[Apps()]) as client:
        with pytest.raises(ProtocolError, match=message):
            await client.apps.read("ui://b/page")
