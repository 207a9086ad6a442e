"""The `apcore-mcp` command. Until the bridge exists it says so and fails, whatever it is asked."""

import sys

from mooring import __version__
from mooring.extras import install_command, missing_modules


def main() -> int:
    """Say that the bridge is not in this version; exit code 2."""
    print(f"apcore-mcp: the apcore bridge is not in mooring {__version__}.", file=sys.stderr)
    missing = missing_modules("apcore")
    if missing:
        needed = ", ".join(missing)
        print(f"It will need {needed}, not installed here: {install_command('apcore')}", file=sys.stderr)
    return 2


__all__ = ["main"]
