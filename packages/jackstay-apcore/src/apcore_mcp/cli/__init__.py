"""The `apcore-mcp` command: serve a directory of modules, check it, export it, or tell a client how to start it."""

from jackstay._lazy import TYPE_CHECKING, lazy

if TYPE_CHECKING:
    from apcore_mcp.cli._entry import main

__all__ = ["main"]

if not TYPE_CHECKING:
    __getattr__ = lazy(__name__, {"main": "_entry"})
