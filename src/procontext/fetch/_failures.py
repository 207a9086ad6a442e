"""Why a document could not be fetched, before anybody has said what it was for.

The same refusal is `URL_NOT_ALLOWED` to whoever asked for a page and `LLMS_TXT_FETCH_FAILED` to whoever asked for a table of
contents: the caller knows, this room does not.

Above: every file of this room, and `procontext.page`. Below: nothing.
"""

from typing import Literal, TypeAlias

# `invalid`: no address at all. `not_allowed`: an address we do not go to. `not_found`: the host says there is nothing.
# `too_many_redirects`: sent on more than three times. `failed`: everything that may pass. `offline`: we were told not to ask.
Reason: TypeAlias = Literal["invalid", "not_allowed", "not_found", "too_many_redirects", "failed", "offline"]


class FetchError(Exception):
    """A fetch that gave no document. `detail` is a clause for a person, without a full stop."""

    def __init__(self, reason: Reason, url: str, detail: str) -> None:
        super().__init__(reason, url, detail)
        self.reason: Reason = reason
        self.url = url
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.url}: {self.detail}"


__all__ = ["FetchError", "Reason"]
