"""`python -m apcore_mcp` is the `apcore-mcp` command."""

import sys

from apcore_mcp.cli import main

if __name__ == "__main__":
    sys.exit(main())
