"""`python -m procontext` is the `procontext` command."""

import sys

from procontext.cli import main

if __name__ == "__main__":
    sys.exit(main())
