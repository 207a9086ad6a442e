"""Registries on disk: the bundled one, and the downloaded one with its state file.

`registry-state.json` has the name, the version and the SHA-256 of the downloaded file. The file has its checksum in its
name and is written first; replacing the state file is atomic, so that a crash leaves either the old pair or the new
one.
"""

import contextlib
import os
import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from jackstay.types import DECODE_ERRORS
from procontext.errors import RegistryError
from procontext.registry._document import Document, checksum, read_document

# Part of the package, so that the first run needs no network.
BUNDLED: Final = Path(__file__).parent / "known-libraries.json"

STATE_NAME: Final = "registry-state.json"


class State(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of the state file."""

    version: str
    file: str
    sha256: str
    updated_at: datetime
    url: str | None = None


def default_directory() -> Path:
    """Return the directory of downloaded registries on this platform."""
    import platformdirs  # noqa: PLC0415  # loaded on first use

    return Path(platformdirs.user_data_dir("procontext")) / "registry"


class Store:
    """The downloaded registry in a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __repr__(self) -> str:
        return f"<Store {self.directory}>"

    def state(self) -> State | None:
        """Return the state, or None if the state file is missing or unreadable."""
        try:
            return msgspec.json.decode((self.directory / STATE_NAME).read_bytes(), type=State)
        except (OSError, *DECODE_ERRORS):
            return None

    def load(self) -> Document | None:
        """Return the downloaded registry, or None if there is no state file.

        Raises: RegistryError if the state file and the registry do not match.
        """
        if not (self.directory / STATE_NAME).exists():
            return None
        state = self.state()
        if state is None:
            raise RegistryError(str(self.directory / STATE_NAME), "cannot read the state file")
        file = self.directory / Path(state.file).name  # only the name: nothing outside the directory is read
        try:
            data = file.read_bytes()
        except OSError as error:
            raise RegistryError(str(file), f"cannot read the file: {error.strerror}") from error
        if checksum(data) != state.sha256:
            raise RegistryError(str(file), f"the checksum does not match {STATE_NAME}")
        document = read_document(data, str(file))
        if document.version != state.version:
            raise RegistryError(
                str(file), f"the version is {document.version!r}, but {STATE_NAME} has {state.version!r}"
            )
        return document

    def replace(self, data: bytes, url: str | None = None) -> State:
        """Replace the registry atomically.

        Raises: RegistryError if the data is not a registry; OSError if it cannot be written. The old one is kept then.
        """
        document = read_document(data, url or "the new registry")
        digest = checksum(data)
        state = State(
            version=document.version,
            file=f"known-libraries-{digest[:16]}.json",
            sha256=digest,
            updated_at=datetime.now(UTC).replace(microsecond=0),
            url=url,
        )
        self.directory.mkdir(parents=True, exist_ok=True)
        _write(self.directory / state.file, data)
        _write(self.directory / STATE_NAME, msgspec.json.format(msgspec.json.encode(state), indent=2))
        self._remove_old(state.file)
        return state

    def _remove_old(self, kept: str) -> None:
        """Remove older files."""
        for file in self.directory.glob("known-libraries-*.json"):
            if file.name != kept:
                with contextlib.suppress(OSError):
                    file.unlink()


def _write(file: Path, data: bytes) -> None:
    """Write a file atomically: to a temporary file, with fsync, then rename."""
    temporary = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    try:
        with temporary.open("xb") as opened:
            opened.write(data)
            opened.flush()
            os.fsync(opened.fileno())
        temporary.replace(file)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    if hasattr(os, "O_DIRECTORY"):
        directory = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)  # makes the rename durable
        finally:
            os.close(directory)


__all__ = ["BUNDLED", "STATE_NAME", "State", "Store", "default_directory"]
