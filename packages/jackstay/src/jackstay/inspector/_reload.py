"""Restart an inspected server when one of its files is saved."""

import importlib
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jackstay.errors import UsageError
from jackstay.extras import install_command

if TYPE_CHECKING:
    from jackstay.inspector._inspection import Inspection


async def restart_on_save(inspection: "Inspection", paths: Sequence[str]) -> None:
    """Connect the inspection again after each change of a Python file below these paths, until cancelled.

    Raises: UsageError if watchfiles is not installed or a path does not exist.
    """
    try:
        watchfiles: Any = importlib.import_module("watchfiles")  # an extra
    except ImportError as missing:
        raise UsageError(f"the command `dev` needs the extra `dev`: {install_command('dev')}") from missing
    for path in paths:
        if not os.path.exists(path):
            raise UsageError(f"--watch: no such file or directory: {path!r}", path="--watch")
    async for changes in watchfiles.awatch(*paths, watch_filter=watchfiles.PythonFilter()):
        names = sorted({os.path.relpath(path) for _, path in changes})
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        await inspection.reconnect(f"{names[0]}{more} was saved: the server is restarted")
