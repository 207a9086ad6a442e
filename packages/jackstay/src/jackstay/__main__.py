"""`python -m jackstay` is the `jackstay` command, for environments whose scripts are not on the PATH."""

import sys

from jackstay.cli import main

if __name__ == "__main__":
    sys.exit(main())
