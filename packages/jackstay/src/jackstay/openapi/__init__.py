"""OpenAPI documents as MCP servers: see `Server.from_openapi()` and `Server.from_fastapi()`.

Everything that reads a document and builds a request does no I/O; `_load`, `_http` and `_asgi` do.
"""

from jackstay._lazy import attach

__all__, __getattr__, __dir__ = attach(
    __name__,
    {
        "._api": "Api ApiSettings CallFailedError Endpoint OpenApiWarning",
        "._asgi": "Application AsgiSender",
        "._document": "Document",
        "._http": "HttpSender",
        "._keywords": "ApiKeywords",
        "._load": "Source load_document",
        "._operations": "Operation Reader Request build_request",
        "._patterns": "max_match_length",
        "._problems": "OpenApiError",
        "._responses": "Output Response resource_contents",
        "._routes": "Route",
        "._security": "Credential Secret",
        "._sender": "SendError Sender",
    },
)
