"""`FileStore`: tokens in one JSON file that only its owner can read.

The file is replaced atomically by a rename. A lock file serializes writes of several programs, and a lock file per key
serializes token refreshes. A file of another format is never overwritten.
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
from typing import Literal

import msgspec

from jackstay.errors import UsageError
from jackstay.oauth._store import poll_lock
from jackstay.types import DECODE_ERRORS

_LOG = logging.getLogger("jackstay.oauth")


class _File(msgspec.Struct):
    format: Literal["jackstay tokens 1"]
    entries: dict[str, msgspec.Raw] = {}


class FileStore:
    """Stores registrations and tokens in one file, mode 0600; default: in the user's configuration directory."""

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = default_path() if path is None else Path(path).expanduser()

    async def load(self, key: str) -> bytes | None:
        """Return the stored value, or None.

        Raises: UsageError if the file is not a token file, cannot be read, or is writable by others.
        """
        entry = (await asyncio.to_thread(self._read)).entries.get(key)
        return None if entry is None else bytes(entry)

    async def save(self, key: str, value: bytes | None) -> None:
        """Store `value`, or delete the key if it is None. The file is replaced atomically.

        Raises: UsageError if the file is not a token file or cannot be written.
        """
        # Not cancelled: a token of a sign-in must be saved, and before the caller releases its lock.
        saving = asyncio.ensure_future(asyncio.to_thread(self._save, key, value))
        try:
            await asyncio.shield(saving)
        except asyncio.CancelledError:
            await asyncio.wait((saving,))
            raise

    @contextlib.asynccontextmanager
    async def lock(self, key: str) -> AsyncIterator[None]:
        """Exclude other programs that share the file. The operating system releases the lock of a program that exits.

        Raises: TransportError if another program holds it too long, UsageError if the lock file cannot be created.
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
            return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise UsageError(
                f"cannot create lock file {path}: {error.strerror}; pass another path to FileStore()", path="path"
            ) from error

    def __repr__(self) -> str:
        """Without the content."""
        return f"FileStore({str(self.path)!r})"

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
                f"cannot write token file {self.path}: {error.strerror}; pass another path to FileStore()", path="path"
            ) from error

    def _check_owner(self, found: os.stat_result) -> None:
        """Raises: UsageError if another user may have written the file: with their token they would see your data."""
        if found.st_uid != os.geteuid():
            raise UsageError(
                f"token file {self.path} is owned by {_user_name(found.st_uid)}; it must be owned by you: delete it or"
                " pass another path",
                path="path",
            )
        mode = stat.S_IMODE(found.st_mode)
        if mode & 0o022:
            raise UsageError(
                f"token file {self.path} is writable by others (mode {mode:o}): delete it and sign in again, or chmod"
                " 600 if you trust its content",
                path="path",
            )
        if mode & 0o077:
            _LOG.warning("token file %s is readable by others; its mode is fixed at the next write", self.path)

    def _read(self) -> _File:
        try:
            with self.path.open("rb") as opened:
                found = os.fstat(opened.fileno())
                body = opened.read()
        except FileNotFoundError:
            return _File("jackstay tokens 1")
        except OSError as error:
            raise UsageError(f"tokens cannot be read from {self.path}: {error.strerror}", path="path") from error
        if os.name == "posix":
            self._check_owner(found)
        try:
            return msgspec.json.decode(body, type=_File)
        except DECODE_ERRORS:
            raise UsageError(
                f"{self.path} is not a token file; move or delete it and sign in again, or pass another path",
                path="path",
            ) from None


def _user_name(uid: int) -> str:
    try:
        import pwd  # noqa: PLC0415 - not on Windows

        return pwd.getpwuid(uid).pw_name
    except (ImportError, KeyError):
        return f"user {uid}"


def default_path() -> Path:
    """Return the default path: in the configuration directory of the platform."""
    if sys.platform == "win32":
        root = Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming")
    elif sys.platform == "darwin":
        root = Path.home() / "Library" / "Application Support"
    else:
        # The XDG specification ignores a path that is not absolute.
        config_home = os.environ.get("XDG_CONFIG_HOME", "")
        root = Path(config_home) if os.path.isabs(config_home) else Path.home() / ".config"
    return root / "jackstay" / "tokens.json"


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the write lock. It is a separate file, because the token file is replaced."""
    try:
        import fcntl  # noqa: PLC0415 - not on Windows
    except ImportError:
        yield
        return
    descriptor = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    """Try to lock this open file; return whether it is locked. On Windows programs do not exclude each other."""
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
    """Write a temporary file, which mkstemp creates readable by the owner only, and rename it."""
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
