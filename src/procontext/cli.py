"""The `procontext` command. Until the documentation server exists it says so and fails, whatever it is asked."""

import sys

from mooring import __version__
from mooring.extras import install_command, missing_modules


def main() -> int:
    """Say that the documentation server is not in this version; exit code 2."""
    print(f"procontext: the documentation server is not in mooring {__version__}.", file=sys.stderr)
    missing = missing_modules("procontext")
    if missing:
        needed = ", ".join(missing)
        print(f"It will need {needed}, not installed here: {install_command('procontext')}", file=sys.stderr)
    return 2


__all__ = ["main"]
