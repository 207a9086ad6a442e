"""The sign-in of a server over HTTP: the page shows the link while it is open."""

from typing import TYPE_CHECKING

from jackstay.inspector._events import EventLog
from jackstay.oauth import FileStore, Identity, OAuth

if TYPE_CHECKING:
    from jackstay.transport import HttpClient
    from jackstay.transport.http import Challenge


class PageSignIn(OAuth):
    """Publishes `sign_in` with the URL to open, and `signed_in` when that is over. Tokens are stored in files."""

    def __init__(self, events: EventLog) -> None:
        super().__init__(Identity(name="jackstay"), store=FileStore(), show=self._show_on_page)
        self._events = events
        self._is_shown = False

    def _show_on_page(self, url: str) -> None:
        self._is_shown = True
        self._events.publish("sign_in", {"url": url})

    async def challenged(self, client: "HttpClient", challenge: "Challenge") -> bool:
        """Get another token if possible. Returns True if the request can be sent again."""
        try:
            return await super().challenged(client, challenge)
        finally:
            if self._is_shown:
                self._is_shown = False
                self._events.publish("signed_in", {})
