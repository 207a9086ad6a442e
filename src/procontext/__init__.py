"""The documentation server for coding agents.

Not in this version: the package holds its name and its command, and nothing else. It will hold the configuration, the
registry of libraries, the fetcher, the page reader with its cache, and the tools. It stands on `mooring.server`; it
never imports `apcore_mcp`, and nothing below knows it.
"""

__all__: list[str] = []
