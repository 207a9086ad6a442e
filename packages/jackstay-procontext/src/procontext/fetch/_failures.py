"""`FetchError`, and URLs in error messages.

The caller maps the reason to an error code: `not_allowed` is `URL_NOT_ALLOWED` for a page and `LLMS_TXT_FETCH_FAILED`
for a table of contents.
"""

import re
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

# `invalid`: not a URL. `not_allowed`: outside the allowlist. `not_found`: HTTP 404 or 410. `too_many_redirects`: more
# than three redirects. `failed`: everything that may be temporary. `offline`: not in the cache while offline.
Reason: TypeAlias = Literal["invalid", "not_allowed", "not_found", "too_many_redirects", "failed", "offline"]


# User information in an authority. Browsers accept any number of slashes and backslashes before it.
_WITH_USER = re.compile(r"\s*[A-Za-z][A-Za-z0-9+.-]*:[/\\]*[^/\\?#]*@|[^/\\?#]*@")


def display_url(url: str) -> str:
    """Return a URL for an error message. One with credentials, or an invalid one, is reduced to its host."""
    try:
        is_plain = not _WITH_USER.match(url) and urlsplit(url).port is not False  # reading the port checks it
    except ValueError:
        is_plain = False
    return url if is_plain else display_host(url)


def display_host(url: str) -> str:
    """Return the scheme and host of a URL for an error message, or a placeholder for an invalid URL."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        host = None
    if not host or "@" in host or not host.isprintable():
        return "an invalid URL"
    return f"{parts.scheme}://{host[:253]}/..."


class FetchError(Exception):
    """A failed fetch. `detail` is a clause without a full stop.

    `remedy` is what to do, in whole sentences, if a retry cannot succeed. `status` is that of the host's response, if
    it is the failure. `retry_after` is the pause in seconds that the host requested.
    """

    def __init__(
        self,
        reason: Reason,
        url: str,
        detail: str,
        remedy: str = "",
        *,
        status: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(reason, display_url(url), detail)
        self.reason: Reason = reason
        self.url = url
        self.detail = detail
        self.remedy = remedy
        self.status = status
        self.retry_after = retry_after

    def __str__(self) -> str:
        return f"{display_url(self.url)}: {self.detail}"


__all__ = ["FetchError", "Reason", "display_host", "display_url"]
