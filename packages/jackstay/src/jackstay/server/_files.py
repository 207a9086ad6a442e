"""Resources that need no function: a fixed string, a file, a directory, a document of another HTTP server.

Files are opened without following symbolic links and are limited in size. An HTTP server is only used if the
application permitted it.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from jackstay.errors import UsageError
from jackstay.server._failures import ResourceNotFoundError, ToolError

if TYPE_CHECKING:
    from jackstay.server._keywords import ResourceKeywords

# A URI or URI template, the function that reads it, and its options.
Row: TypeAlias = "tuple[str, Callable[..., object], ResourceKeywords]"

MAX_BYTES = 10 * 1024 * 1024

# Files that the list of a directory has at most.
MAX_FILES = 1000

# Seconds for a request of `HttpResource`.
TIMEOUT = 30.0

_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
_CAN_WALK = bool(_NO_FOLLOW) and os.open in os.supports_dir_fd


class ResourceSource(Protocol):
    """What `server.add_resource()` accepts."""

    def entries(self) -> "Iterable[Row]":
        """Return the URIs, functions and options of the resources."""


class TextResource:
    """A resource with a fixed text."""

    def __init__(self, uri: str, text: str, *, mime_type: str = "text/plain") -> None:
        self.uri = uri
        self.text = text
        self.mime_type = mime_type

    def entries(self) -> "Iterable[Row]":
        """See `ResourceSource`."""

        def read() -> str:
            return self.text

        name = self.uri.rpartition("/")[2] or self.uri
        yield self.uri, read, {"name": name, "mime_type": self.mime_type, "blocking": False}


class FileResource:
    """A file, read at every request: text if it is UTF-8, else bytes. The default URI is that of the path.

    Raises: UsageError, if there is no such file.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, uri: str | None = None, mime_type: str | None = None,
        max_bytes: int = MAX_BYTES,
    ) -> None:  # fmt: skip
        self.path = Path(path).resolve()
        if not self.path.is_file():
            raise UsageError(f"FileResource() found no file {os.fspath(path)!r}", path="path")
        self.uri = uri or self.path.as_uri()
        self.mime_type = mime_type or _mime_type(self.path.name)
        self.max_bytes = max_bytes

    def entries(self) -> "Iterable[Row]":
        """See `ResourceSource`."""

        def read() -> object:
            return _read(self.path.parent, (self.path.name,), self.max_bytes)

        options: ResourceKeywords = {"name": self.path.name}
        if self.mime_type:
            options["mime_type"] = self.mime_type
        yield self.uri, read, options


class DirectoryResource:
    """The files below a directory. `uri` is a JSON list of them, and `uri` with their path is each of them.

    Symbolic links and names that begin with a dot are not served.

    Raises: UsageError, if there is no such directory.
    """

    def __init__(self, path: str | os.PathLike[str], *, uri: str, max_bytes: int = MAX_BYTES) -> None:
        self.path = Path(path).resolve()
        if not self.path.is_dir():
            raise UsageError(f"DirectoryResource() found no directory {os.fspath(path)!r}", path="path")
        self.uri = uri.rstrip("/")
        self.max_bytes = max_bytes

    def entries(self) -> "Iterable[Row]":
        """See `ResourceSource`."""

        def list_files() -> list[str]:
            return sorted(self._files())

        def read(path: str) -> object:
            names = tuple(path.split("/"))
            if any(name.startswith(".") or name == "" for name in names):
                raise ResourceNotFoundError
            return _read(self.path, names, self.max_bytes)

        name = self.path.name
        yield self.uri, list_files, {"name": name, "mime_type": "application/json"}
        yield f"{self.uri}{{/path*}}", read, {"name": f"{name} file"}

    def _files(self) -> Iterator[str]:
        count = 0
        for folder, folders, names in os.walk(self.path):  # does not follow links to directories
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(names):
                found = Path(folder, name)
                if name.startswith(".") or found.is_symlink() or not found.is_file():
                    continue
                count += 1
                if count > MAX_FILES:
                    return
                yield found.relative_to(self.path).as_posix()


class HttpResource:
    """A document of another HTTP server. `allow` are the origins that may be requested, as `https://example.org`.

    Redirects are not followed. No header of the client is forwarded.

    Raises: UsageError for a URL whose origin is not allowed.
    """

    def __init__(
        self, url: str, *, allow: Iterable[str], uri: str | None = None, mime_type: str | None = None,
        max_bytes: int = MAX_BYTES, timeout: float = TIMEOUT,
    ) -> None:  # fmt: skip
        from urllib.parse import urlsplit  # noqa: PLC0415  # slow to import, and rarely needed

        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}"
        if parts.scheme not in ("http", "https") or "@" in parts.netloc or not parts.netloc:
            raise UsageError(
                f"HttpResource() expected an http or https URL without credentials, got {url!r}", path="url"
            )
        allowed = {allow} if isinstance(allow, str) else set(allow)
        if origin not in {row.rstrip("/") for row in allowed}:
            raise UsageError(f"HttpResource() may not request {origin}: add it to allow", path="allow")
        self.url = url
        self.uri = uri or url
        self.mime_type = mime_type
        self.max_bytes = max_bytes
        self.timeout = timeout

    def entries(self) -> "Iterable[Row]":
        """See `ResourceSource`."""

        def read() -> object:
            return _fetch(self.url, self.mime_type, self.max_bytes, self.timeout)

        options: ResourceKeywords = {"name": self.url.rstrip("/").rpartition("/")[2]}
        if self.mime_type:
            options["mime_type"] = self.mime_type
        yield self.uri, read, options


def _mime_type(name: str) -> str | None:
    import mimetypes  # noqa: PLC0415  # slow to import, and rarely needed

    return mimetypes.guess_type(name)[0]


def _read(root: Path, names: tuple[str, ...], max_bytes: int) -> Any:
    """Return the file at this path below `root`. No part of the path below `root` may be a link.

    Raises: ResourceNotFoundError; ToolError for a file that is too large.
    """
    try:
        descriptor = _open(root, names)
    except (OSError, ValueError) as error:  # ValueError: a null byte
        raise ResourceNotFoundError from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ResourceNotFoundError
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(max_bytes + 1)
    return _contents(data, _mime_type(names[-1]), max_bytes)


def _open(root: Path, names: tuple[str, ...]) -> int:
    flags = os.O_RDONLY | _NO_FOLLOW | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    if not _CAN_WALK:  # Windows
        path = root.joinpath(*names)
        if path.resolve() != path:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        return os.open(path, flags | getattr(os, "O_BINARY", 0))
    # One directory after the other: nobody can replace one by a link between a check and the use.
    folder = os.open(root, _DIRECTORY)
    try:
        for name in names[:-1]:
            inner = os.open(name, _DIRECTORY | _NO_FOLLOW, dir_fd=folder)
            os.close(folder)
            folder = inner
        return os.open(names[-1], flags, dir_fd=folder)
    finally:
        os.close(folder)


def _contents(data: bytes, mime_type: str | None, max_bytes: int) -> Any:
    """Return text if it is UTF-8, else bytes, with the media type if it is known. Raises: ToolError, if too large."""
    from jackstay.server._content import File  # noqa: PLC0415  # loaded with the first result

    if len(data) > max_bytes:
        raise ToolError(f"the resource is larger than {max_bytes} bytes")
    value: str | bytes = data
    if b"\0" not in data:
        try:
            value = data.decode()
        except UnicodeDecodeError:
            value = data
    return value if mime_type is None else File(value, mime_type)


def _fetch(url: str, mime_type: str | None, max_bytes: int, timeout: float) -> Any:
    from urllib.error import HTTPError, URLError  # noqa: PLC0415  # few servers need it
    from urllib.request import HTTPRedirectHandler, build_opener  # noqa: PLC0415  # as above

    class NoRedirect(HTTPRedirectHandler):
        def redirect_request(self, *_: object, **__: object) -> None:
            return None

    try:
        with build_opener(NoRedirect).open(url, timeout=timeout) as response:
            data: bytes = response.read(max_bytes + 1)
            found: str = response.headers.get_content_type()
    except HTTPError as error:
        error.close()
        if error.code in (404, 410):
            raise ResourceNotFoundError from error
        raise ToolError(f"the resource is not available: HTTP {error.code}") from error
    except (URLError, OSError, ValueError) as error:
        raise ToolError("the resource is not available: the request failed") from error
    return _contents(data, mime_type or found, max_bytes)
