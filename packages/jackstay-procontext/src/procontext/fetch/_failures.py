"""Why a document could not be fetched, before anybody has said what it was for.

The same refusal is `URL_NOT_ALLOWED` to whoever asked for a page and `LLMS_TXT_FETCH_FAILED` to whoever asked for a table of
contents: the caller knows, this room does not.

Above: every file of this room, and `procontext.page`. Below: nothing.
"""

import re
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

# `invalid`: no address at all. `not_allowed`: an address we do not go to. `not_found`: the host says there is nothing.
# `too_many_redirects`: sent on more than three times. `failed`: everything that may pass. `offline`: we were told not to ask.
Reason: TypeAlias = Literal["invalid", "not_allowed", "not_found", "too_many_redirects", "failed", "offline"]


# What stands between the scheme and the first slash and has an `@` in it. Browsers take any number of slashes and backslashes.
_WITH_USER = re.compile(r"\s*[A-Za-z][A-Za-z0-9+.-]*:[/\\]*[^/\\?#]*@|[^/\\?#]*@")


def shown_url(url: str) -> str:
    """An address for an error message. One with a user name or password, or one that cannot be read, is shown by its host alone."""
    try:
        is_plain = not _WITH_USER.match(url) and urlsplit(url).port is not False  # reading the port checks it
    except ValueError:
        is_plain = False
    return url if is_plain else shown_host(url)


def shown_host(url: str) -> str:
    """The scheme and host of an address, for an error message; of one that cannot be read, that it is an address."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        host = None
    if not host or "@" in host or not host.isprintable():
        return "an address"
    return f"{parts.scheme}://{host[:253]}/..."


class FetchError(Exception):
    """A fetch that gave no document. `detail` is a clause for a person, without a full stop.

    `remedy` is what to do, in whole sentences, where the same request fails again however often it is made.
    """

    def __init__(self, reason: Reason, url: str, detail: str, remedy: str = "") -> None:
        super().__init__(reason, shown_url(url), detail)
        self.reason: Reason = reason
        self.url = url
        self.detail = detail
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{shown_url(self.url)}: {self.detail}"


__all__ = ["FetchError", "Reason", "shown_host", "shown_url"]
