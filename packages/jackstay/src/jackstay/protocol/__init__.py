"""The rules of MCP without I/O: no loop, no socket, no clock, no lots. Time and random numbers are arguments.

What both sides share is here: revisions, methods, and what a machine is. The rest is in rooms of its own, loaded by who
needs it: `wire` (bytes to messages and back), `client` and `server` (the two machines and what runs them), `http` (the
rules of the transport), `drawing` (the machines as text).
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
