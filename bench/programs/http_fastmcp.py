"""FastMCP over Streamable HTTP, 3.x and 4.x.

python http_fastmcp.py PORT PARSER ANSWERS [--tools N]
"""

import sys

from _serving import serve
from server_fastmcp import server

serve(server.http_app(path="/mcp", json_response=sys.argv[3] == "json"))
