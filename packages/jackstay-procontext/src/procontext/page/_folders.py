"""Folders of Markdown or HTML as sources: files are pages, and the list of files is the table of contents.

Pages have URLs such as `https://folder.procontext.invalid/LIBRARY/guide/start.md`; the host cannot exist (RFC 2606).
Links that lead out of the folder are not followed. The functions block; call them in a thread.
"""

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote, urljoin, urlsplit

import msgspec

from procontext.fetch import Target, decode
from procontext.page._formats import FORMATS, SUFFIXES, format_of
from procontext.page._indexes import Entry, links_of, write_index
from procontext.page._markdown import markdown_page

FOLDER_HOST: Final = "folder.procontext.invalid"

HTML_SUFFIXES: Final = FORMATS[0].suffixes
MAX_FILES: Final = 10_000
# The title of a file is searched within this many bytes.
_HEAD_BYTES: Final = 16 * 1024
_SKIPPED: Final = {"node_modules", "__pycache__", "_static", "_sources"}
_RELATIVE_LINK = re.compile(r"(\]\(\s*<?)(?![a-z][a-z0-9+.-]*:|#|/)([^\s()<>]+)", re.IGNORECASE)


class FolderPage(msgspec.Struct, frozen=True):
    """A file as Markdown, with its version."""

    text: str
    version: str


def folder_address(library_id: str) -> str:
    """Return the URL of a library's folder; it ends with /."""
    return f"https://{FOLDER_HOST}/{library_id}/"


def split_address(target: Target) -> tuple[str, str]:
    """Return the library and the relative path of the file that a folder URL names."""
    library_id, _, relative = urlsplit(target.url).path.lstrip("/").partition("/")
    return library_id, unquote(relative)


def files_in(root: Path) -> Iterator[str]:
    """Iterate over the readable files, as relative paths with slashes, sorted by folder. Hidden files are skipped."""
    count = 0
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _SKIPPED)
        for name in sorted(names):
            if name.startswith(".") or not name.lower().endswith(SUFFIXES):
                continue
            relative = (Path(folder) / name).relative_to(root).as_posix()
            if file_in(root, relative) is None:
                continue  # a link that leads out of the folder
            yield relative
            count += 1
            if count >= MAX_FILES:
                return


def file_in(root: Path, relative: str) -> Path | None:
    """Return the path of a file if it is readable and inside the folder, else None.

    `root` was resolved when the settings were loaded and is not resolved again: a folder that has become a link since
    then is not the one that was checked.
    """
    try:
        file = Path(os.path.realpath(root / relative))
        is_inside = file.is_relative_to(root) and file.is_file()
    except (OSError, ValueError):  # a NUL in the name, a loop of links
        return None
    return file if is_inside and file.name.lower().endswith(SUFFIXES) else None


def file_version(file: Path) -> str:
    """Return a string that changes when the file changes."""
    status = file.stat()
    return f"{status.st_mtime_ns}-{status.st_size}"


def find_file(root: Path, relative: str) -> tuple[Path | None, str]:
    """Return the path of a file as `file_in` does, and its version."""
    file = file_in(root, relative)
    return file, "" if file is None else file_version(file)


def folder_versions(root: Path, library_id: str) -> dict[str, str]:
    """Return the URL and the version of each file."""
    base = folder_address(library_id)
    found: dict[str, str] = {}
    for relative in files_in(root):
        with contextlib.suppress(OSError):  # removed in the meantime
            found[urljoin(base, quote(relative))] = file_version(root / relative)
    return found


def read_folder_page(file: Path, url: str, max_bytes: int) -> FolderPage:
    """Read a file and convert it to Markdown.

    Raises: OSError, also if the file is too large.
    """
    version = file_version(file)
    with file.open("rb") as stream:
        data = stream.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise OSError(f"the file is larger than {max_bytes} bytes (fetcher.max_bytes)")
    text = decode(data, "text/html" if file.name.lower().endswith(HTML_SUFFIXES) else "")
    read = format_of(text, file=file.name).read
    return FolderPage(text if read is None else read(text, url), version)


def folder_index(root: Path, library_id: str, name: str, max_bytes: int) -> tuple[str, tuple[str, ...]]:
    """Return the table of contents of a folder and its URLs: the folder's llms.txt, or a list of its files by title.

    Raises: OSError.
    """
    base = folder_address(library_id)
    own = file_in(root, "llms.txt")
    if own is not None:
        # Relative links become URLs that can be read.
        text = _RELATIVE_LINK.sub(
            lambda found: found[1] + urljoin(base, found[2]), read_folder_page(own, base, max_bytes).text
        )
        return text, tuple(links_of(text, base))
    if not root.is_dir():
        raise OSError(f"folder not found: {root}")
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
    if file.name.lower().endswith(HTML_SUFFIXES):
        found = re.search(r"<title[^>]*>([^<]*)", text, re.IGNORECASE)
        return found[1].strip() if found else ""
    headings = markdown_page("", text).headings
    return headings[0].text if headings else ""


__all__ = [
    "FOLDER_HOST",
    "FolderPage",
    "file_in",
    "file_version",
    "files_in",
    "find_file",
    "folder_address",
    "folder_index",
    "folder_versions",
    "read_folder_page",
    "split_address",
]
