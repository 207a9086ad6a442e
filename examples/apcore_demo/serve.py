"""Serve the demo: MCP at http://127.0.0.1:8000/mcp, the inspector at http://127.0.0.1:8000/inspector."""

from pathlib import Path

from apcore import Registry

from apcore_mcp import serve

if __name__ == "__main__":
    registry = Registry(extensions_dir=str(Path(__file__).parent / "extensions"))
    registry.discover()
    serve(registry, transport="streamable-http", name="apcore-demo", explorer=True, metrics=True, dynamic=True)
