"""Registries on disk: the one in the package, and the downloaded one with the state file that vouches for it.

`registry-state.json` (reference, section 8) names the downloaded file, its version and its SHA-256. The file has its checksum
in its name and is written before the state is: renaming the state over the old one is the single step that counts, so a
crash at any moment leaves a whole pair, the old one or the new one. A pair that does not fit together is no pair.

Must never know the network. Above: `_registry`, `_update`. Below: the file system, `_document`.
"""

import contextlib
import os
import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from procontext.errors import RegistryError
from procontext.registry._document import Document, checksum, read_document

# Ships with every installation, so that the first run needs no network.
BUNDLED: Final = Path(__file__).parent / "known-libraries.json"

STATE_NAME: Final = "registry-state.json"


class State(msgspec.Struct, frozen=True, kw_only=True):
    """What the state file says."""

    version: str
    file: str
    sha256: str
    updated_at: datetime
    url: str | None = None


def standard_directory() -> Path:
    """Where downloaded registries lie on this platform."""
    import platformdirs  # noqa: PLC0415  # loaded where it is asked

    return Path(platformdirs.user_data_dir("procontext")) / "registry"


class Store:
    """The downloaded registry in a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __repr__(self) -> str:
        return f"<Store {self.directory}>"

    def state(self) -> State | None:
        """What is there, or None: nothing yet, or a state file that cannot be read."""
        try:
            return msgspec.json.decode((self.directory / STATE_NAME).read_bytes(), type=State)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return None

    def load(self) -> Document | None:
        """The downloaded registry; None if there is no state file.

        Raises: RegistryError, where the pair is broken.
        """
        if not (self.directory / STATE_NAME).exists():
            return None
        state = self.state()
        if state is None:
            raise RegistryError(str(self.directory / STATE_NAME), "cannot be read")
        file = self.directory / Path(state.file).name  # a name, whatever it says: nothing outside is read
        try:
            data = file.read_bytes()
        except OSError as error:
            raise RegistryError(str(file), f"cannot be read: {error.strerror}") from error
        if checksum(data) != state.sha256:
            raise RegistryError(str(file), "is not the file that its checksum was made of")
        document = read_document(data, str(file))
        if document.version != state.version:
            raise RegistryError(str(file), f"is version {document.version}, not {state.version}")
        return document

    def replace(self, data: bytes, url: str | None = None) -> State:
        """Put a new registry in place of the old one, all or nothing.

        Raises: RegistryError for data that is no registry; the old one stays. OSError, where it cannot be written.
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
        self._clear_away(state.file)
        return state

    def _clear_away(self, kept: str) -> None:
        """Remove older files; a reader that still has one open keeps what it opened."""
        for file in self.directory.glob("known-libraries-*.json"):
            if file.name != kept:
                with contextlib.suppress(OSError):
                    file.unlink()


def _write(file: Path, data: bytes) -> None:
    """Write under another name, push to the disk, rename: the file is never half there."""
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
            os.fsync(directory)  # the rename, too
        finally:
            os.close(directory)


__all__ = ["BUNDLED", "STATE_NAME", "State", "Store", "standard_directory"]
