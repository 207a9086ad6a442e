"""The rules of MCP without I/O: no event loop, sockets or clock. Time and random numbers are arguments.

This package has what both sides share: revisions, methods and the definition of a state machine. Its subpackages are
imported on demand: `wire` (bytes to messages and back), `client` and `server` (the two state machines and the code that
runs them), `http` (the rules of the transport), `drawing` (the machines as text).
"""

from typing import TYPE_CHECKING

from jackstay._lazy import lazy

if TYPE_CHECKING:
    from jackstay.protocol._machine import Cell, Machine
    from jackstay.protocol._methods import METHODS, Method, Sender, is_known
    from jackstay.protocol._timers import Timers
    from jackstay.protocol._versions import ASSUMED_VERSION, REVISIONS, VERSIONS, Era, Revision, newest

__all__ = [
    "ASSUMED_VERSION",
    "METHODS",
    "REVISIONS",
    "VERSIONS",
    "Cell",
    "Era",
    "Machine",
    "Method",
    "Revision",
    "Sender",
    "Timers",
    "is_known",
    "newest",
]

if not TYPE_CHECKING:
    __getattr__ = lazy(
        __name__,
        {
            "ASSUMED_VERSION": "_versions",
            "Cell": "_machine",
            "Era": "_versions",
            "METHODS": "_methods",
            "Machine": "_machine",
            "Method": "_methods",
            "REVISIONS": "_versions",
            "Revision": "_versions",
            "Sender": "_methods",
            "Timers": "_timers",
            "VERSIONS": "_versions",
            "is_known": "_methods",
            "newest": "_versions",
        },
    )
