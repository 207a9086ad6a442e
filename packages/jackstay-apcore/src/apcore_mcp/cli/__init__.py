"""The `apcore-mcp` command: serve, check or export a directory of modules, or print the configuration of a client."""

from jackstay._lazy import TYPE_CHECKING, lazy

if TYPE_CHECKING:
    from apcore_mcp.cli._entry import main

__all__ = ["main"]

if not TYPE_CHECKING:
    __getattr__ = lazy(__name__, {"main": "_entry"})
