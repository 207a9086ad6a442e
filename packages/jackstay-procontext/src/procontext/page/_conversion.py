"""Conversion of a fetched document or a file to a page with sections. Slow: call it in a thread."""

from itertools import islice
from typing import Final
from urllib.parse import urlsplit

import msgspec

from procontext.cache import Section
from procontext.fetch import Fetched, FetchError, decode, is_text, media_type
from procontext.models import Page
from procontext.page._formats import format_of
from procontext.page._html import needs_javascript
from procontext.page._limits import PageTooLargeError
from procontext.page._markdown import markdown_page, sections

# Sections of a page that are indexed for search. Real pages have at most a few thousand.
MAX_SECTIONS: Final = 20_000
_DRAWN_BY_SCRIPT: Final = (
    "Trying again does not help: a script in a browser writes the text of this page. Read another page, or the"
    " project's README or llms.txt if it has one."
)


class ConvertedPage(msgspec.Struct, frozen=True):
    """A page and its sections."""

    page: Page
    sections: tuple[Section, ...]


def convert_fetched(fetched: Fetched) -> ConvertedPage:
    """Convert a fetched document.

    Raises: FetchError if it is not text or exceeds the limits.
    """
    if not is_text(fetched.content_type, fetched.body):
        kind = media_type(fetched.content_type) or "binary data"
        raise FetchError("failed", fetched.url, f"the document is {kind}, not text")
    text = decode(fetched.body, fetched.content_type)
    try:
        read = format_of(text, media_type(fetched.content_type)).read
        markdown = text if read is None else read(text, fetched.final_url)
        if read is not None and needs_javascript(text, markdown):
            raise FetchError("failed", fetched.url, "the page has no text without JavaScript", _DRAWN_BY_SCRIPT)
        converted = convert_markdown(fetched.url, markdown)
    except PageTooLargeError as error:
        raise too_large_error(fetched.url, error) from error
    final = cross_host_url(fetched.url, fetched.final_url)
    if final is None:
        return converted
    return ConvertedPage(msgspec.structs.replace(converted.page, final_url=final), converted.sections)


def too_large_error(url: str, error: PageTooLargeError) -> FetchError:
    """Return the error for a page that exceeds the limits."""
    return FetchError(
        "failed",
        url,
        str(error),
        "Trying again does not help. Read another page, or answer without this one.",
    )


def cross_host_url(url: str, final_url: str) -> str | None:
    """Return the final URL if a redirect led to another host, else None."""
    return None if urlsplit(url).hostname == urlsplit(final_url).hostname else final_url


def convert_markdown(url: str, text: str) -> ConvertedPage:
    """Convert Markdown to a page with sections.

    Raises: PageTooLargeError.
    """
    page = markdown_page(url, text)
    return ConvertedPage(page, tuple(islice(sections(page), MAX_SECTIONS)))


__all__ = ["MAX_SECTIONS", "ConvertedPage", "convert_fetched", "convert_markdown", "cross_host_url", "too_large_error"]
