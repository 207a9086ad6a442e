"""`client.apps`: the apps of a server (extension `io.modelcontextprotocol/ui`, SEP-1865), for hosts that show them."""

from base64 import b64decode
from typing import Unpack

from jackstay._signatures import shows
from jackstay.apps import APP_MIME_TYPE, App, app_from_contents, app_of_tool
from jackstay.client._requests import CallOptions
from jackstay.client._resources import Resources
from jackstay.client._tools import Tools
from jackstay.errors import ProtocolError


class Apps:
    """The apps of a server. Declare that you show them with `connect(..., extensions=[Apps()])`."""

    def __init__(self, tools: Tools, resources: Resources) -> None:
        self._tools = tools
        self._resources = resources

    @shows("jackstay.client:CallOptions")
    async def find(self, tool: str, **options: Unpack[CallOptions]) -> App | None:
        """Return the app that shows the results of a tool, or None if it has none. Raises: as `read()`."""
        listed = await self._tools.list(**options)
        uri = next((app_of_tool(row) for row in listed if row.name == tool), None)
        return None if uri is None else await self.read(uri, **options)

    @shows("jackstay.client:CallOptions")
    async def read(self, uri: str, **options: Unpack[CallOptions]) -> App:
        """Return the app with this URI. Show it in a sandboxed iframe under its `policy`: its page is not trusted.

        Raises: ProtocolError, if it is not an app, or declares something that is not an origin.
        """
        for content in (await self._resources.read(uri, **options)).contents:
            if content.uri != uri or content.mime_type != APP_MIME_TYPE:
                continue
            text, blob = getattr(content, "text", None), getattr(content, "blob", None)
            try:
                html = b64decode(blob).decode() if text is None and blob is not None else text
            except ValueError as error:
                raise ProtocolError(f"the app {uri} is not UTF-8 in base64", sent=True) from error
            if html is not None:
                return app_from_contents(uri, html, content.meta or {})
        raise ProtocolError(f"{uri} is not an app: no content with the type {APP_MIME_TYPE!r}", sent=True)
