"""A FastMCP server that mounts the servers of an mcpServers file, over HTTP: `gateway_fastmcp.py FILE PORT`."""

import json
import sys
from pathlib import Path

from fastmcp import FastMCP
from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy

server: FastMCP = FastMCP("gateway")
for name, entry in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["mcpServers"].items():
    server.mount(create_proxy(StdioTransport(entry["command"], entry["args"])), namespace=name)
server.run(transport="http", host="127.0.0.1", port=int(sys.argv[2]), show_banner=False, log_level="critical")
