"""Run the `jackstay` command with `python -m jackstay`, for environments whose scripts are not on the PATH."""

import sys

from jackstay.cli import main

if __name__ == "__main__":
    sys.exit(main())
