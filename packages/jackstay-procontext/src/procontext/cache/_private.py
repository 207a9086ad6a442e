"""File permissions of the cache: only its owner may read it, because it may contain pages that needed a password.

The mode of an existing file or directory is tightened if possible. A directory that also contains other files keeps its
mode; only the cache files in it are protected.
"""

import logging
import os
import stat
from pathlib import Path

_log = logging.getLogger(__name__)

# SQLite gives its side files (`-wal`, `-shm`, `-journal`) the mode of the file they belong to.
_PREFIX = "pages-"


def make_private(file: Path) -> None:
    """Create the cache file and its directory with access for their owner only, or restrict existing ones to that.

    Raises: OSError if one of them cannot be created.
    """
    directory = file.parent
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=0o700, exist_ok=True)
    os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
    entries = [entry for entry in directory.iterdir() if not entry.is_symlink()]
    protected = [entry for entry in entries if entry.name.startswith(_PREFIX)]
    if len(protected) == len(entries):
        protected.append(directory)
    for path in protected:
        _restrict(path)


def _restrict(path: Path) -> None:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & 0o077:
            path.chmod(mode & 0o700)
    except FileNotFoundError:
        pass  # another process has removed a side file
    except OSError as error:
        _log.warning("other users may be able to read the cache %s: %s", path, error)


__all__ = ["make_private"]
