"""The MCP tools: as functions, and as an MCP server."""

from procontext.tools._schemas import INSTRUCTIONS, TOOL_ROWS, ToolRow
from procontext.tools._server import envelope, make_server
from procontext.tools._tools import Hits, LibraryDocs, Matches, PageWindow, Tools

__all__ = [
    "INSTRUCTIONS",
    "TOOL_ROWS",
    "Hits",
    "LibraryDocs",
    "Matches",
    "PageWindow",
    "ToolRow",
    "Tools",
    "envelope",
    "make_server",
]
