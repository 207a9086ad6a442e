"""Who may read the cache: its owner alone. It may hold pages that were fetched with a password.

A directory or file that exists is changed if it is ours to change. A directory that holds other things beside the cache is the
user's own choice and keeps its mode; the files in it are protected all the same.
"""

import logging
import os
import stat
from pathlib import Path

_log = logging.getLogger(__name__)

# SQLite gives its side files (`-wal`, `-shm`, `-journal`) the mode of the file they belong to.
_PREFIX = "pages-"


def make_private(file: Path) -> None:
    """Create the cache file and its directory so that only their owner can read them, or take the rights of others away.

    Raises: OSError, if one of them cannot be created.
    """
    directory = file.parent
    missing = [place for place in (directory, *directory.parents) if not place.exists()]
    for place in reversed(missing):
        place.mkdir(mode=0o700, exist_ok=True)
    os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
    found = [entry for entry in directory.iterdir() if not entry.is_symlink()]
    ours = [entry for entry in found if entry.name.startswith(_PREFIX)]
    if len(ours) == len(found):
        ours.append(directory)
    for entry in ours:
        _close_to_others(entry)


def _close_to_others(place: Path) -> None:
    try:
        mode = stat.S_IMODE(place.stat().st_mode)
        if mode & 0o077:
            place.chmod(mode & 0o700)
    except FileNotFoundError:
        pass  # another process has removed a side file
    except OSError as error:
        _log.warning("other users may be able to read the cache %s: %s", place, error)


__all__ = ["make_private"]
