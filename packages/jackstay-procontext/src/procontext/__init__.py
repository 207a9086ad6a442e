"""The documentation server for coding agents.

`config` reads the settings, `registry` knows the libraries, `resolve` matches names, `fetch`, `cache` and `page` bring and keep
what is read, `tools` is what an agent can ask, `app` runs it, `cli` is the command. It stands on `jackstay.server`; it never
imports `apcore_mcp`, and nothing below knows it.
"""

from procontext._version import __version__

__all__ = ["__version__"]
