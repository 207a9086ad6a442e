"""`python -m mooring` is the `mooring` command, for environments whose scripts are not on the PATH."""

import sys

from mooring.cli import main

if __name__ == "__main__":
    sys.exit(main())
