"""The settings of an API as keywords. Type checkers use the stub, which `tools/make_stubs.py` generates."""

from jackstay.openapi._api import ApiSettings
from jackstay.protocol import keywords

# The keywords of `Server.from_openapi()` and `Server.from_fastapi()`; docs/guides/openapi.md explains them.
ApiKeywords = keywords("ApiKeywords", ApiSettings)
