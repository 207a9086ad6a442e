"""Errors of the catalogue for documents that could not be fetched."""

from typing import Final

from procontext.errors import Code, ProContextError, failure
from procontext.fetch import FetchError, display_host, display_url
from procontext.models import Library

_PAGE_CODES: Final[dict[str, Code]] = {
    "not_allowed": "URL_NOT_ALLOWED",
    "not_found": "PAGE_NOT_FOUND",
    "too_many_redirects": "TOO_MANY_REDIRECTS",
    "failed": "PAGE_FETCH_FAILED",
    "offline": "PAGE_FETCH_FAILED",
}
# The URL of a table of contents is not chosen by the agent, so a wrong one is not the agent's error.
_INDEX_CODES: Final[dict[str, Code]] = {
    "invalid": "LLMS_TXT_FETCH_FAILED",
    "not_allowed": "LLMS_TXT_FETCH_FAILED",
    "not_found": "LLMS_TXT_NOT_FOUND",
    "too_many_redirects": "TOO_MANY_REDIRECTS",
    "failed": "LLMS_TXT_FETCH_FAILED",
    "offline": "LLMS_TXT_FETCH_FAILED",
}


def index_failure(library: Library, error: FetchError) -> ProContextError:
    """Return the error for a table of contents."""
    return failure(_INDEX_CODES[error.reason], library.id, error.detail, remedy=error.remedy)


def undocumented(library: Library) -> ProContextError:
    """Return the error for a library without a known documentation site."""
    where = f", only its repository, {library.repo_url}" if library.repo_url else ""
    return failure(
        "LLMS_TXT_NOT_FOUND",
        library.id,
        f"the registry has no documentation site for it{where}",
        suggestion="Answer without this library's docs, and inform the user.",
    )


def page_failure(url: str, error: FetchError) -> ProContextError:
    """Return the error for a page."""
    if error.reason == "invalid":
        return failure("INVALID_INPUT", f"url: {error.detail}")
    # The requested URL is the subject; if another hop failed, its host is added to the detail.
    detail = error.detail
    if detail and error.url.partition("#")[0] != url.partition("#")[0]:
        # Only the host: the URL of a redirect may be signed.
        detail = f"{detail} ({display_host(error.url)})"
    elif detail == "HTTP 404":
        detail = ""  # the message of the catalogue contains it
    elif detail == "HTTP 410":
        found = failure("PAGE_NOT_FOUND", display_url(url))
        message = found.message.replace("HTTP 404", "HTTP 410")
        return ProContextError(found.code, message, found.suggestion, found.recoverable)
    elif error.reason == "too_many_redirects":
        detail = ""  # the same
    return failure(_PAGE_CODES[error.reason], display_url(url), detail, remedy=error.remedy)


__all__ = ["index_failure", "page_failure", "undocumented"]
