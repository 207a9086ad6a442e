"""The settings of a client as keywords. Type checkers use the stub, which `tools/make_stubs.py` generates."""

from jackstay.protocol._settings import keywords
from jackstay.protocol.client._settings import Settings

# The settings as keywords of `connect()`.
ClientKeywords = keywords("ClientKeywords", Settings)
# The settings as keywords of `Fleet()`. It has no `name`: each server has its own.
FleetKeywords = keywords("FleetKeywords", Settings, without=("name",))
