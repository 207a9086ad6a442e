"""Tokens in a file that only its owner can read: for people who sign in once and run programs many times.

One JSON file. It is replaced whole, by a rename, so that a crash leaves the old or the new one; a lock beside it makes
several programs take turns, and one more for each key lets one of them renew a token at a time. A file that is not ours is never overwritten: it is an error that says what to do, because
the path may be a mistake and the file somebody's work.

Above: users and commands. Below: the operating system.
"""

import asyncio
import contextlib
import hashlib
import logging
import os
import stat
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec

from jackstay.errors import UsageError
from jackstay.oauth._store import poll_lock

_LOG = logging.getLogger("jackstay.oauth")
_FORMAT = "jackstay tokens 1"


class _File(msgspec.Struct):
    format: str
    entries: dict[str, msgspec.Raw] = {}


class FileStore:
    """Keeps registrations and tokens in one file, mode 0600. Without a path, in your configuration directory."""

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = default_path() if path is None else Path(path).expanduser()

    async def load(self, key: str) -> bytes | None:
        """The value that was saved last, or None.

        Raises: UsageError where the file is not one of ours, may not be read, or may be written by others.
        """
        return await asyncio.to_thread(self._load, key)

    async def save(self, key: str, value: bytes | None) -> None:
        """Keep `value`, or forget the key. The file is replaced whole.

        Raises: UsageError where the file is not one of ours, or cannot be written.
        """
        # A cancelled call must not leave a token that was paid for with a sign-in unsaved, nor release a lock before it is.
        saving = asyncio.ensure_future(asyncio.to_thread(self._save, key, value))
        try:
            await asyncio.shield(saving)
        except asyncio.CancelledError:
            await asyncio.wait((saving,))
            raise

    @contextlib.asynccontextmanager
    async def lock(self, key: str) -> AsyncIterator[None]:
        """Exclude every other program that shares the file. The operating system ends the lock of a program that dies.

        Raises: TransportError where another program keeps it too long, UsageError where no lock can be made.
        """
        name = hashlib.sha256(key.encode()).hexdigest()[:16]
        path = self.path.with_name(f"{self.path.name}.{name}.lock")
        descriptor = await asyncio.to_thread(self._open_lock, path)
        try:
            await poll_lock(lambda: _try_lock(descriptor), str(path))
            yield
        finally:
            os.close(descriptor)

    def _open_lock(self, path: Path) -> int:
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UsageError(
                f"tokens cannot be locked by {path}: {error.strerror}; give FileStore another path",
                path="path",
            ) from error

    def __repr__(self) -> str:
        """Where, never what."""
        return f"FileStore({str(self.path)!r})"

    def _load(self, key: str) -> bytes | None:
        entry = self._read().entries.get(key)
        return None if entry is None else bytes(entry)

    def _save(self, key: str, value: bytes | None) -> None:
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _locked(self.path):
                file = self._read()
                if value is None:
                    if file.entries.pop(key, None) is None:
                        return
                else:
                    file.entries[key] = msgspec.Raw(value)
                _replace(self.path, msgspec.json.encode(file))
        except OSError as error:
            raise UsageError(
                f"tokens cannot be kept in {self.path}: {error.strerror}; give FileStore another path",
                path="path",
            ) from error

    def _check_owner(self, found: os.stat_result) -> None:
        """Refuse what somebody else may have written: a token of theirs would let them see what you send.

        Raises: UsageError.
        """
        if found.st_uid != os.geteuid():
            raise UsageError(
                f"{self.path} belongs to {_whose(found.st_uid)}; tokens are read from a file of your own only:"
                " delete it, or give another path",
                path="path",
            )
        if stat.S_IMODE(found.st_mode) & 0o022:
            raise UsageError(
                f"{self.path} can be written by others (mode {stat.S_IMODE(found.st_mode):o}), so its tokens may not be"
                " yours: delete it and sign in again, or, if you know what is in it, chmod 600",
                path="path",
            )

    def _read(self) -> _File:
        try:
            with self.path.open("rb") as opened:
                found = os.fstat(opened.fileno())
                body = opened.read()
        except FileNotFoundError:
            return _File(_FORMAT)
        except OSError as error:
            raise UsageError(
                f"tokens cannot be read from {self.path}: {error.strerror}", path="path"
            ) from error
        if os.name == "posix":
            self._check_owner(found)
        if os.name == "posix" and stat.S_IMODE(found.st_mode) & 0o077:
            _LOG.warning("%s could be read by others; it is made private when it is next written", self.path)
        try:
            file = msgspec.json.decode(body, type=_File)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            file = None
        if file is None or file.format != _FORMAT:
            raise UsageError(
                f"{self.path} is not a file of tokens; move or delete it and sign in again, or give another path",
                path="path",
            )
        return file


def _whose(uid: int) -> str:
    try:
        import pwd  # noqa: PLC0415 - not on Windows

        return pwd.getpwuid(uid).pw_name
    except (ImportError, KeyError):
        return f"user {uid}"


def default_path() -> Path:
    """Where tokens are kept when nothing is said: the configuration directory of the platform."""
    if sys.platform == "win32":
        root = Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming")
    elif sys.platform == "darwin":
        root = Path.home() / "Library" / "Application Support"
    else:
        # The XDG specification ignores a path that is not absolute.
        given = os.environ.get("XDG_CONFIG_HOME", "")
        root = Path(given) if os.path.isabs(given) else Path.home() / ".config"
    return root / "jackstay" / "tokens.json"


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Take turns with other programs. The lock is another file, because the file itself is replaced."""
    try:
        import fcntl  # noqa: PLC0415 - not on Windows
    except ImportError:
        yield
        return
    descriptor = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    """Whether the lock of this open file is ours now. Without file locks (Windows) programs do not exclude each other."""
    try:
        import fcntl  # noqa: PLC0415 - not on Windows
    except ImportError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _replace(path: Path, body: bytes) -> None:
    """Write beside it, then rename: mkstemp makes its file readable by the owner alone."""
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(body)
            opened.flush()
            os.fsync(opened.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
