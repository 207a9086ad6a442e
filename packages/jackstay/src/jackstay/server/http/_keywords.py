"""The options of HTTP servers as keywords. Type checkers use the stub, which `tools/make_stubs.py` generates."""

from jackstay.protocol import keywords
from jackstay.server.http._options import HttpOptions
from jackstay.server.http._run import RunOptions

# The keywords of `asgi()`.
HttpKeywords = keywords("HttpKeywords", HttpOptions)
# The keywords of `run(transport="http")`.
RunHttpKeywords = keywords("RunHttpKeywords", HttpOptions, RunOptions)
