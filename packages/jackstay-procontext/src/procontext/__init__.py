"""A documentation server for coding agents, built on `jackstay.server`.

`config` reads the settings, `registry` loads the libraries, `resolve` matches names, `fetch`, `cache` and `page`
download, store and convert pages, `tools` implements the MCP tools, `app` runs the server and `cli` is the command.
"""

from procontext._version import __version__

__all__ = ["__version__"]
