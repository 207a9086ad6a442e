"""`python -m apcore_mcp` is the `apcore-mcp` command."""

import sys

from apcore_mcp.cli import main as run_command


def main() -> None:
    """Run the `apcore-mcp` command with `sys.argv`. Raises: SystemExit for `--help`, and with a code other than 0."""
    code = run_command()
    if code or {"-h", "--help"}.intersection(sys.argv[1:]):
        sys.exit(code)


if __name__ == "__main__":
    main()
