"""The options of a server as keywords. Type checkers use the stub, which `tools/make_stubs.py` generates."""

from jackstay.protocol import keywords
from jackstay.server._options import Options

# The keywords of `Server()` that are not parameters of their own.
ServerKeywords = keywords("ServerKeywords", Options, without=("name", "version", "instructions"))
