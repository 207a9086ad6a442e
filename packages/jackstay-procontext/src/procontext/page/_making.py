"""A page from what was fetched or read: text decoded, HTML converted, lines counted, sections cut. Slow: call it in a thread."""

from itertools import islice
from typing import Final
from urllib.parse import urlsplit

import msgspec

from procontext.cache import Section
from procontext.fetch import Fetched, FetchError, decode, is_text, media_type
from procontext.models import Page
from procontext.page._html import html_to_markdown, is_html
from procontext.page._limits import PageTooLargeError
from procontext.page._markdown import markdown_page, sections

# Of a page that are searched. The largest real ones have a few thousand; a million would keep the disk busy for a minute.
MOST_SECTIONS: Final = 20_000


class Made(msgspec.Struct, frozen=True):
    """A page and its sections, made from one text."""

    page: Page
    sections: tuple[Section, ...]


def make(fetched: Fetched) -> Made:
    """A page from what was fetched.

    Raises: FetchError for what is no text.
    """
    if not is_text(fetched.content_type, fetched.body):
        kind = media_type(fetched.content_type) or "binary data"
        raise FetchError("failed", fetched.url, f"it is {kind}, and only text can be read")
    text = decode(fetched.body, fetched.content_type)
    try:
        if media_type(fetched.content_type) in ("text/html", "application/xhtml+xml") or is_html(text):
            text = html_to_markdown(text, fetched.final_url)
        made = make_page(fetched.url, text)
    except PageTooLargeError as error:
        raise too_large(fetched.url, error) from error
    final = left_host(fetched.url, fetched.final_url)
    return made if final is None else Made(msgspec.structs.replace(made.page, final_url=final), made.sections)


def too_large(url: str, error: PageTooLargeError) -> FetchError:
    """The failure of a page that is more work than a page may be."""
    return FetchError(
        "failed",
        url,
        str(error),
        "Trying again does not help. Read another page, or answer without this one.",
    )


def left_host(url: str, final_url: str) -> str | None:
    """Where a redirect led, if that is another host."""
    return None if urlsplit(url).hostname == urlsplit(final_url).hostname else final_url


def make_page(url: str, text: str) -> Made:
    """A page and its sections from Markdown.

    Raises: PageTooLargeError.
    """
    page = markdown_page(url, text)
    return Made(page, tuple(islice(sections(page), MOST_SECTIONS)))


__all__ = ["MOST_SECTIONS", "Made", "left_host", "make", "make_page", "too_large"]
