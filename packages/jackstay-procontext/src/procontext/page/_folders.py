"""A folder of Markdown or HTML as a source: its files as pages, their list as its table of contents.

Its pages have addresses like those of any other: `https://folder.procontext.invalid/LIBRARY/guide/start.md`. The name cannot be
registered or resolved (RFC 2606), so such an address means something here and nowhere else. A file is read only if it really
lies in the folder: links that lead out of it are not followed.

Blocks on the disk: call it in a thread. Must never know the cache. Above: `_documents`. Below: the disk, `_html`.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote, urljoin, urlsplit

import msgspec

from procontext.fetch import Target, decode
from procontext.page._html import html_to_markdown, is_html
from procontext.page._indexes import Entry, links_of, write_index
from procontext.page._markdown import markdown_page

FOLDER_HOST: Final = "folder.procontext.invalid"

TEXTS: Final = (".md", ".markdown", ".mdx", ".rst", ".txt", ".adoc")
PAGES: Final = (".html", ".htm")
MOST_FILES: Final = 10_000
# Where a title stands: in the first lines.
_HEAD_BYTES: Final = 16 * 1024
_SKIPPED: Final = {"node_modules", "__pycache__", "_static", "_sources"}
_RELATIVE_LINK = re.compile(r"(\]\(\s*<?)(?![a-z][a-z0-9+.-]*:|#|/)([^\s()<>]+)", re.IGNORECASE)


class FolderPage(msgspec.Struct, frozen=True):
    """A file as Markdown, and a mark that changes with the file."""

    text: str
    mark: str


def folder_address(library_id: str) -> str:
    """The address of a library's folder; ends with /."""
    return f"https://{FOLDER_HOST}/{library_id}/"


def split_address(target: Target) -> tuple[str, str]:
    """The library and the file, relative to its folder, that an address in a folder means."""
    library_id, _, relative = urlsplit(target.url).path.lstrip("/").partition("/")
    return library_id, unquote(relative)


def files_in(root: Path) -> Iterator[str]:
    """The files that can be read, relative and with slashes, folders in their order; hidden ones are left out."""
    count = 0
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _SKIPPED)
        for name in sorted(names):
            if name.startswith(".") or not name.lower().endswith((*TEXTS, *PAGES)):
                continue
            relative = (Path(folder) / name).relative_to(root).as_posix()
            if file_in(root, relative) is None:
                continue  # a link that leads out
            yield relative
            count += 1
            if count >= MOST_FILES:
                return


def file_in(root: Path, relative: str) -> Path | None:
    """The file, if it is one that can be read and lies in the folder.

    `root` was resolved when the settings were read, and is not resolved again: a folder that has become a link since then is no
    longer the one that was checked.
    """
    try:
        file = Path(os.path.realpath(root / relative))
        is_there = file.is_relative_to(root) and file.is_file()
    except (OSError, ValueError):  # a NUL in the name, a loop of links
        return None
    return file if is_there and file.name.lower().endswith((*TEXTS, *PAGES)) else None


def mark_of(file: Path) -> str:
    """What changes when the file does."""
    found = file.stat()
    return f"{found.st_mtime_ns}-{found.st_size}"


def read_folder_page(file: Path, url: str, max_bytes: int) -> FolderPage:
    """A file as Markdown.

    Raises: OSError, also when it is too large.
    """
    mark = mark_of(file)
    with file.open("rb") as stream:
        data = stream.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise OSError(f"it is larger than {max_bytes} bytes")
    text = decode(data, "text/html" if file.name.lower().endswith(PAGES) else "")
    if is_html(text) or file.name.lower().endswith(PAGES):
        text = html_to_markdown(text, url)
    return FolderPage(text, mark)


def folder_index(root: Path, library_id: str, name: str, max_bytes: int) -> tuple[str, tuple[str, ...]]:
    """The table of contents of a folder and the addresses in it: its own llms.txt, or a list of its files by title.

    Raises: OSError.
    """
    base = folder_address(library_id)
    own = file_in(root, "llms.txt")
    if own is not None:
        # Relative links become addresses that can be asked for.
        text = _RELATIVE_LINK.sub(
            lambda found: found[1] + urljoin(base, found[2]), read_folder_page(own, base, max_bytes).text
        )
        return text, tuple(links_of(text, base))
    if not root.is_dir():
        raise OSError(f"there is no folder {root}")
    entries = [
        Entry(_title(root / relative) or relative, urljoin(base, quote(relative)), relative)
        for relative in files_in(root)
    ]
    text = write_index(name, [("Pages", entries)]) or ""
    return text, tuple(entry.url for entry in entries)


def _title(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            text = decode(stream.read(_HEAD_BYTES))
    except OSError:
        return ""
    if file.name.lower().endswith(PAGES):
        found = re.search(r"<title[^>]*>([^<]*)", text, re.IGNORECASE)
        return found[1].strip() if found else ""
    headings = markdown_page("", text).headings
    return headings[0].text if headings else ""


__all__ = [
    "FOLDER_HOST",
    "FolderPage",
    "file_in",
    "files_in",
    "folder_address",
    "folder_index",
    "mark_of",
    "read_folder_page",
    "split_address",
]
